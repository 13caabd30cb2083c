"""Grids of devices for meshes; as ``jax.experimental.mesh_utils``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.device import Device
from functrax.backends.sharding.placement import devices as all_devices
from functrax.core.errors.typed import ArgumentError, ShardingError

#: By kind of device, what lays its devices out in a grid; a function of the shape and the devices.
device_kind_handler_dict: Final[dict[str, Callable[..., Any]]] = {}


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """The devices in a grid, for ``functrax.sharding.Mesh``.

    Args:
      mesh_shape: how many devices there shall be along each axis.
      devices: the devices; all if None.
      contiguous_submeshes: whether each process's devices shall be neighbours, as those of one are.
      allow_split_physical_axes: whether an axis of the network may be divided; there is none.

    Raises:
      ShardingError: if there are more or fewer devices than the grid has places.
      ArgumentError: if the shape is not a sequence of ints.

    >>> create_device_mesh((1, 1)).shape
    (1, 1)
    """
    there = all_devices() if devices is None else list(devices)
    shape = _sizes("create_device_mesh", mesh_shape)
    if math.prod(shape) != len(there):
        raise ShardingError(
            "create_device_mesh: the grid has not one place for each device",
            got=f"mesh_shape={shape}, {len(there)} devices",
            fix="sizes whose product is the number of devices",
        )
    handler = device_kind_handler_dict.get(there[-1].device_kind)
    made = handler and handler(shape, there, contiguous_submeshes=contiguous_submeshes)
    if made is not None:
        return made  # type: ignore[no-any-return]
    grid = np.empty(len(there), dtype=object)
    grid[:] = there
    return grid.reshape(shape)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Device] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """The devices in a grid whose axes are those of a fast network times those of a slow one.

    Args:
      mesh_shape: the grid of the devices that the fast network joins.
      dcn_mesh_shape: the grid of such groups; of as many axes.
      devices: the devices; all if None.
      process_is_granule: whether the devices of a process are a group, as they have to be here:
        they belong to no slices.
      should_sort_granules_by_key: whether groups come in the order of their processes.
      allow_split_physical_axes: see :func:`create_device_mesh`.

    Raises:
      ShardingError: without ``process_is_granule``, or if the sizes do not fit.

    >>> create_hybrid_device_mesh((1, 1), (1, 1), process_is_granule=True).shape
    (1, 1)
    """
    name = "create_hybrid_device_mesh"
    there = all_devices() if devices is None else list(devices)
    if not process_is_granule:
        raise ShardingError(
            f"{name}: devices belong to no slices",
            got="process_is_granule=False",
            fix="process_is_granule=True",
        )
    inner, outer = _sizes(name, mesh_shape), _sizes(name, dcn_mesh_shape)
    groups: dict[int, list[Device]] = {}
    for device in there:
        groups.setdefault(device.process_index, []).append(device)
    if math.prod(outer) != len(groups) or len(inner) != len(outer):
        raise ShardingError(
            f"{name}: dcn_mesh_shape does not fit the processes",
            got=f"mesh_shape={inner}, dcn_mesh_shape={outer}, {len(groups)} processes",
            fix="as many axes in both, and a place for each process",
        )
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    split = allow_split_physical_axes
    parts = [create_device_mesh(inner, groups[k], allow_split_physical_axes=split) for k in keys]
    blocks = np.empty(outer, dtype=object)
    for place, part in zip(np.ndindex(*outer), parts, strict=True):
        blocks[place] = part
    grid: np.ndarray[Any, Any] = np.block(blocks.tolist())
    return grid


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (tuple, list, np.ndarray)) else (shape,)
    try:
        return tuple([int(n.__index__()) for n in sizes])
    except AttributeError:
        raise ArgumentError(
            f"{name}: a shape is a sequence of ints", got=repr(shape), fix="(1,)"
        ) from None
