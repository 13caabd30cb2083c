"""What JAX's programs ask an array about its memory and its place: there is one device.

``functrax.numpy`` gives arrays these methods and properties.  A traced value has no memory, and
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from functrax.backends.device import Device
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.records import record
from functrax.core.tracing.trace import Tracer
from functrax.core.types.aval import ShapedArray


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
    """The array on a device or a sharding: ``functrax.device_put(x, device)``.

    Args:
      device: it, or a sharding; None leaves the array where it is.
      stream: must be None.

    Raises:
      ShardingError: if it is no device, or does not fit the array.
      ArgumentError: for a stream.
    """
    if stream is not None:
        raise ArgumentError("to_device: devices have no streams", got=repr(stream), fix="None")
    from functrax.backends.sharding.moving import moved_leaf

    moved: Array = moved_leaf(self, device, "to_device")
    return moved


def unsafe_buffer_pointer(self: Array) -> int:
    """The address of the elements, row by row; valid while the array lives, and not to write to."""
    elements = np.asarray(_in_memory(self, "unsafe_buffer_pointer"))
    return int(elements.__array_interface__["data"][0])


def _shards(what: str) -> Any:
    def shards(self: Array) -> list[Shard]:
        data = _in_memory(self, what)
        (device,) = data.devices()
        return [Shard(device, (slice(None),) * data.ndim, 0, data)]

    shards.__name__ = what
    shards.__doc__ = "The parts of the array on devices: one, which is all of it."
    return shards


def committed(self: Array) -> bool:
    """Whether the array was put on a device or a sharding by name."""
    from functrax.backends.sharding.placed import given_sharding

    return given_sharding(_in_memory(self, "committed")) is not None


def format_(self: Array) -> Any:
    """How the elements lie in memory, row by row, and on which sharding."""
    from functrax.backends.sharding.layouts import row_major

    return row_major(_in_memory(self, "format"), self.sharding)


def is_fully_replicated(self: Array) -> bool:
    """True: every device, which is one, has all elements."""
    _in_memory(self, "is_fully_replicated")
    return True


def traceback(self: Array) -> None:
    """None, as in JAX where tracebacks are off: which line made an array is not kept."""
    _in_memory(self, "traceback")


def _sharding_of_type(aval: ShapedArray) -> Any:
    """How arrays of a type are divided: not at all, along each axis; the mesh has no axes.

    >>> import functrax
    >>> functrax.typeof(functrax.numpy.ones((2, 3))).sharding.spec
    P(None, None)
    """
    from functrax.backends.sharding.mesh import AbstractMesh
    from functrax.backends.sharding.partition import PartitionSpec
    from functrax.backends.sharding.shardings import NamedSharding

    return NamedSharding(AbstractMesh((), ()), PartitionSpec(*[None] * aval.ndim))


ShapedArray.sharding = property(_sharding_of_type)

METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "tobytes": tobytes,
    "to_device": to_device,
    "unsafe_buffer_pointer": unsafe_buffer_pointer,
}
PROPERTIES: Final[Mapping[str, Callable[[Array], Any]]] = {
    "committed": committed,
    "format": format_,
    "is_fully_replicated": is_fully_replicated,
    "traceback": traceback,
    "global_shards": _shards("global_shards"),
    "addressable_shards": _shards("addressable_shards"),
}
