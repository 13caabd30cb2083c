"""Where arrays are, and moving them: ``devices``, ``device_put``, ``device_get``, ``x.sharding``.

There is the host's processor and perhaps a GPU (``backends/device.py``).  The questions that arrays
answer (``x.device``, ``x.devices()``, ``x.sharding``) are handed to
``functrax.core.arrays.operators`` when this module is imported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.backends.device import (
    Device,
    current_device,
    device_of,
    device_on,
    made_on_default,
    place_of,
)
from functrax.core import native
from functrax.core.arrays.array import ConcreteArray, compute_together, living_arrays
from functrax.core.arrays.operators import Array, Handle, install
from functrax.core.asynchronous import fetch
from functrax.core.errors.typed import ArgumentError, UnknownNameError
from functrax.core.options.config import state as options
from functrax.core.pytree import public
from functrax.core.pytree.operations import tree_leaves, tree_map, tree_unflatten
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.trace import Tracer


def devices(backend: str | None = None) -> list[Device]:
    """The devices of a platform: one.

    Args:
      backend: the platform, ``"cpu"``, ``"gpu"`` or ``"cuda"``; None for that which programs run on
        where nothing else is said: a GPU where there is one, else the CPU.

    Returns:
      A list of one device.

    Raises:
      UnavailableError: if there is no such device; it is a ValueError and a RuntimeError.

    >>> import functrax
    >>> [device.platform for device in functrax.devices("cpu")]
    ['cpu']
    """
    return [device_on(device_of(options.backend).platform if backend is None else backend)]


def default_backend() -> str:
    """The platform that programs run on where nothing else is said, ``"cpu"`` or ``"gpu"``.

    Returns:
      The name of a platform.

    Raises:
      UnavailableError: if the GPU was chosen and there is none.

    >>> import functrax
    >>> functrax.default_backend()
    'cpu'
    """
    return devices()[0].platform


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """:func:`devices`: all of them belong to this process, which is the only one.

    Args:
      process_index: 0, or None.
      backend: a platform, as for :func:`devices`.
      host_id: an older name of ``process_index``.

    Returns:
      A list of one device.

    Raises:
      UnavailableError: if there is no such device.
      ArgumentError: if there is no such process.

    >>> import functrax
    >>> functrax.local_devices() == functrax.devices()
    True
    """
    process = host_id if process_index is None else process_index
    if process not in (None, 0):
        raise ArgumentError(
            "local_devices: there is no such process", got=f"process_index={process}", fix="0"
        )
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """How many devices of a platform there are: 1.

    Args:
      backend: a platform, as for :func:`devices`.

    Returns:
      A number.

    Raises:
      UnavailableError: if there is no such device.

    >>> import functrax
    >>> functrax.device_count()
    1
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """How many devices of a platform belong to this process: 1.

    Args:
      backend: a platform, as for :func:`devices`.

    Returns:
      A number.

    Raises:
      UnavailableError: if there is no such device.

    >>> import functrax
    >>> functrax.local_device_count()
    1
    """
    return len(devices(backend))


def process_count(backend: str | None = None) -> int:
    """How many processes run a program together: 1.

    Args:
      backend: a platform, as for :func:`devices`.

    Returns:
      A number.

    Raises:
      UnavailableError: if there is no such device.

    >>> import functrax
    >>> functrax.process_count()
    1
    """
    return 1 if backend is None else len(devices(backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process among those that run a program together: 0.

    Args:
      backend: a platform, as for :func:`devices`.

    Returns:
      A number below :func:`process_count`.

    Raises:
      UnavailableError: if there is no such device.

    >>> import functrax
    >>> functrax.process_index()
    0
    """
    return process_count(backend) - 1


def live_arrays(platform: str | None = None) -> list[ConcreteArray]:
    """The arrays that are alive and not deleted.

    Args:
      platform: on which devices, as for :func:`devices`; None for all.

    Returns:
      A list, in no particular order.

    Raises:
      UnavailableError: if there is no such device.

    >>> import functrax, functrax.numpy as jnp
    >>> x = jnp.ones(3)
    >>> any(array is x for array in functrax.live_arrays())
    True
    """
    if platform is None:
        return living_arrays()
    (device,) = devices(platform)
    return [x for x in living_arrays() if place_of(x) == device]


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """The arrays of a pytree, on a device or a sharding; under transformations it is the identity.

    Args:
      x: a pytree of arrays, NumPy arrays and numbers.
      device: a device, a sharding, a ``functrax.P`` for the mesh that is set, or None, which leaves
        arrays where they are; one for all, or a pytree prefix of ``x``.
      src: where the arrays come from: as ``device``; it changes nothing.
      donate: whether the memory of arrays may be used for the results; a prefix of ``x``.  Results
        share the memory of the arrays they are made of, so it changes nothing.
      may_alias: False to have results in memory of their own; a prefix of ``x``.

    Returns:
      The arrays, which know their sharding: ``y.sharding``, ``y.committed``.

    Raises:
      DTypeError: for a leaf that is no array.
      ShardingError: if the sharding does not fit an array or the devices, or is not one.

    >>> device_put({"a": 1.0})
    {'a': Array(1., dtype=float32, weak_type=True)}
    """
    if device is None and src is None and donate is False and may_alias is None:
        return tree_map(_as_array, x)
    from functrax.backends.sharding.moving import moved

    return moved(x, device, src, donate, may_alias)


def _as_array(leaf: Any) -> Any:
    return made_on_default(as_value(leaf, "a leaf given to device_put"))


def device_get(x: Any) -> Any:
    """The arrays of a pytree as NumPy arrays; other leaves, keys, and traced values, as they are.

    Args:
      x: a pytree.

    Returns:
      A pytree of the same structure.

    Raises:
      Exception: what a recorded operation raises when it is run.

    >>> device_get([device_put(1.5), "name"])
    [array(1.5, dtype=float32), 'name']
    """
    leaves, structure = public.tree_flatten(x)
    compute_together(leaves)
    values = [np.asarray(leaf) if _has_elements(leaf) else leaf for leaf in leaves]
    return tree_unflatten(structure, values)


def _has_elements(x: Any) -> bool:
    return hasattr(x, "__array__") and not isinstance(x, Tracer | Handle)


def block_until_ready(x: Any) -> Any:
    """Wait until every array of a pytree is computed; returns the pytree.

    Args:
      x: a pytree; leaves that are no arrays are passed over.

    Returns:
      The pytree itself.

    Raises:
      Exception: what a recorded operation raises when it is run.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.block_until_ready({"x": jnp.arange(3) + 1})
    {'x': Array([1, 2, 3], dtype=int32)}
    """
    if native.extension is not None:
        return native.extension.block_until_ready(x)
    leaves = tree_leaves(x)
    compute_together(leaves)
    for leaf in leaves:
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None:
            wait()
    return x


def effects_barrier() -> None:
    """Wait until all programs have run and the callbacks of ``functrax.fetch`` have returned.

    Returns:
      None.

    Raises:
      Exception: what the first of them that failed raised, if nobody has seen it yet.

    >>> import functrax
    >>> functrax.debug.print("x = {}", 1)
    x = 1
    >>> functrax.effects_barrier()
    """
    fetch.drain_programs()
    fetch.barrier()


def _sharding_of(self: Array) -> Any:
    """Where the parts of the array lie: a sharding; a traced value has none."""
    from functrax.backends.sharding.placed import sharding_of

    if isinstance(self, Tracer):
        raise UnknownNameError(
            "sharding: a traced value is in no memory, so it has no sharding",
            got=repr(self),
            fix="functrax.typeof(x) for its type; functrax.debug.inspect_array_sharding",
        )
    return sharding_of(self)


def _devices_of(self: Array) -> set[Device]:
    """The devices that hold the array."""
    from functrax.backends.sharding.placed import sharding_of

    return sharding_of(self).device_set


def _device_of(self: Array) -> Device:
    """The device that has the array; of a traced value the one that runs everything."""
    return place_of(self) if type(self) is ConcreteArray else current_device()


install(
    {"devices": _devices_of},
    {"device": _device_of, "sharding": _sharding_of},
)
