"""What the processes of a program say to each other; as ``jax.experimental.multihost_utils``.

There is one process, so each of these gives what that process has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrax.backends.device import Device
from functrax.backends.sharding import hosts
from functrax.backends.sharding.mesh import Mesh
from functrax.backends.sharding.moving import moved_leaf
from functrax.backends.sharding.partition import PartitionSpec
from functrax.backends.sharding.placement import devices as all_devices
from functrax.backends.sharding.prefixes import prefix_leaves
from functrax.backends.sharding.shardings import NamedSharding
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.pytree.operations import tree_flatten, tree_map, tree_unflatten
from functrax.core.tracing.inputs import as_value


class ProcessFailureError(Exception):
    """Another process of the program has failed; with one process it never happens."""


def _elements(leaf: Any) -> np.ndarray[Any, Any]:
    return np.asarray(leaf)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """What one process has, in all processes.

    Args:
      in_tree: a pytree of arrays.
      is_source: whether this is the process; the only one has to be.  None means so.

    Returns:
      The pytree, with NumPy arrays.

    Raises:
      ArgumentError: if no process is the source.

    >>> broadcast_one_to_all({"a": 1.5})
    {'a': array(1.5)}
    """
    if is_source is not None and not is_source:
        raise ArgumentError(
            "broadcast_one_to_all: no process is the source", got="is_source=False", fix="None"
        )
    return tree_map(_elements, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """What all processes have, one after the other.

    Args:
      in_tree: a pytree of arrays.
      tiled: whether the processes' arrays are joined along axis 0, and not along a new axis.

    Returns:
      The pytree, with NumPy arrays, which have a new axis of size 1 in front unless ``tiled``.

    >>> process_allgather(np.arange(3))
    array([[0, 1, 2]])
    """

    def gathered(leaf: Any) -> np.ndarray[Any, Any]:
        value = _elements(leaf)
        return value if tiled and value.ndim else value[None]

    return tree_map(gathered, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes have come here, which the only one has.

    Args:
      name: what the place is called.

    Raises:
      ArgumentError: if it is no text.
    """
    if not isinstance(name, str):
        raise ArgumentError(
            "sync_global_devices: the name is no text", got=repr(name), fix="'a place'"
        )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise if processes have different values, which one process has not.

    Args:
      in_tree: a pytree of arrays.
      fail_message: what the error would say.

    Raises:
      DTypeError: for a leaf that is no array.
    """
    tree_map(lambda leaf: as_value(leaf, "a leaf given to assert_equal"), in_tree)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the program is to save its state now, for a process will be stopped: False.

    Args:
      step_id: the number of the step that the program is at.
    """
    step_id.__index__()
    return False


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays of all processes, of the parts that this one has: all.

    Args:
      local_inputs: a pytree of arrays.
      global_mesh: the mesh that the arrays are to be on.
      pspecs: a ``functrax.P``, or a pytree prefix of ``local_inputs`` that ends in them.

    Raises:
      ShardingError: if a spec does not fit.
      ArgumentError: if there is something else in ``pspecs``.

    >>> import functrax
    >>> mesh = functrax.make_mesh((1,), ("x",))
    >>> host_local_array_to_global_array(np.arange(3), mesh, functrax.P("x")).sharding.spec
    P('x',)
    """
    return _on_mesh("host_local_array_to_global_array", local_inputs, global_mesh, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The parts that this process has of arrays of all processes: all.

    Args:
      global_inputs: a pytree of arrays.
      global_mesh: the mesh that the arrays are on.
      pspecs: as :func:`host_local_array_to_global_array`.
    """
    return _on_mesh("global_array_to_host_local_array", global_inputs, global_mesh, pspecs)


def _on_mesh(name: str, inputs: Any, mesh: Mesh, pspecs: Any) -> Any:
    leaves, tree = tree_flatten(inputs)
    made = []
    for leaf, spec in zip(leaves, prefix_leaves(pspecs, inputs, f"{name}: pspecs"), strict=True):
        if not isinstance(spec, PartitionSpec):
            raise ArgumentError(
                f"{name}: not a PartitionSpec",
                got=f"{spec!r} of type {type(spec).__name__}",
                fix="functrax.P('x')",
            )
        made.append(moved_leaf(leaf, NamedSharding(mesh, spec), name))
    return tree_unflatten(tree, made)


@contextmanager
def live_devices(devices: Sequence[Device]) -> Iterator[list[Device]]:
    """Those of some devices whose processes are alive: all of them, within a block.

    Args:
      devices: the devices.

    Raises:
      UnavailableError: without ``functrax.distributed.initialize()``.
      ArgumentError: for a device that there is not.
    """
    if not hosts.cluster.initialized:
        raise UnavailableError(
            "live_devices: the program was not told of its processes",
            got="no call of functrax.distributed.initialize",
            fix="functrax.distributed.initialize(num_processes=1, process_id=0)",
        )
    unknown = [d for d in devices if d not in all_devices()]
    if unknown:
        raise ArgumentError(
            "live_devices: there is no such device",
            got=repr(unknown[0]),
            fix="functrax.devices()",
        )
    yield list(devices)
