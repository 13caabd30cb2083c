"""What JAX's programs ask an array about its memory and its place: there is one device.

``functrax.numpy`` gives arrays these methods and properties.  A traced value has no memory, and
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from functrax.backends.device import Device, current_device
from functrax.backends.placement import SingleDeviceSharding
from functrax.core.errors import ArgumentError
from functrax.core.operators import Array
from functrax.core.records import record
from functrax.core.trace import Tracer


@record(eq=False)
class Shard:
    """The part of an array that a device holds: all of it.

    Args:
      device: the device.
      index: where the part lies in the array, a slice for each axis.
      replica_id: the number of this copy among those of the part.
      data: the elements.
    """

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    data: Array


def _in_memory(array: Array, what: str) -> Array:
    if isinstance(array, Tracer):
        raise array._no_memory(what)
    return array


def tobytes(self: Array, order: str = "C") -> bytes:
    r"""The elements' bytes, row by row; column by column for ``order="F"``.

    >>> import functrax.numpy as jnp
    >>> jnp.array([1, 258], "int16").tobytes()
    b'\x01\x00\x02\x01'
    """
    if order not in ("C", "F", "A"):
        raise ArgumentError("tobytes: unknown order", got=repr(order), fix="'C', 'F' or 'A'")
    elements: bytes = np.asarray(_in_memory(self, "tobytes")).tobytes(order)  # type: ignore[arg-type]
    return elements


def to_device(self: Array, device: Any, *, stream: Any = None) -> Array:
    """The array on a device: itself, for there is one.

    Args:
      device: it, or a sharding.
      stream: must be None.

    Raises:
      ArgumentError: if it is no device, or for a stream.
    """
    if device is not None and not isinstance(device, (Device, SingleDeviceSharding)):
        raise ArgumentError(
            "to_device: not a device",
            got=f"{device!r} of type {type(device).__name__}",
            fix="functrax.devices()[0]",
        )
    if stream is not None:
        raise ArgumentError("to_device: devices have no streams", got=repr(stream), fix="None")
    return self


def unsafe_buffer_pointer(self: Array) -> int:
    """The address of the elements, row by row; valid while the array lives, and not to write to."""
    elements = np.asarray(_in_memory(self, "unsafe_buffer_pointer"))
    return int(elements.__array_interface__["data"][0])


def _shards(what: str) -> Any:
    def shards(self: Array) -> list[Shard]:
        data = _in_memory(self, what)
        return [Shard(current_device(), (slice(None),) * data.ndim, 0, data)]

    shards.__name__ = what
    shards.__doc__ = "The parts of the array on devices: one, which is all of it."
    return shards


def committed(self: Array) -> bool:
    """False: nothing binds an array to a device, for there is one."""
    _in_memory(self, "committed")
    return False


def is_fully_replicated(self: Array) -> bool:
    """True: every device, which is one, has all elements."""
    _in_memory(self, "is_fully_replicated")
    return True


def traceback(self: Array) -> None:
    """None, as in JAX where tracebacks are off: which line made an array is not kept."""
    _in_memory(self, "traceback")


METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "tobytes": tobytes,
    "to_device": to_device,
    "unsafe_buffer_pointer": unsafe_buffer_pointer,
}
PROPERTIES: Final[Mapping[str, Callable[[Array], Any]]] = {
    "committed": committed,
    "is_fully_replicated": is_fully_replicated,
    "traceback": traceback,
    "global_shards": _shards("global_shards"),
    "addressable_shards": _shards("addressable_shards"),
}
