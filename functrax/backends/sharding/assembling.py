"""Arrays made of the parts that devices hold: with one device, of the one part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.backends.sharding.placed import as_sharding, check_held, put
from functrax.backends.sharding.prefixes import prefix_leaves
from functrax.backends.sharding.shardings import Sharding
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError, ShardingError
from functrax.core.pytree.operations import tree_flatten, tree_leaves, tree_unflatten
from functrax.core.tracing.inputs import as_value
from functrax.core.types import dtypes


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Any,
    data_callback: Callable[[tuple[slice, ...]], Any],
    dtype: Any = None,
) -> Array:
    """An array whose parts a function gives.

    Args:
      shape: of the array.
      sharding: where its parts lie.
      data_callback: called with the index of each part, a slice for each axis; returns its
        elements, of the shape that the index asks for.
      dtype: what the parts' dtype has to be; None for any.

    Returns:
      An array on that sharding.

    Raises:
      ShardingError: if the sharding does not fit, or is not one.
      ShapeError: if a part is of another shape.
      ArgumentError: if a part is of another dtype than ``dtype``.

    >>> import functrax, numpy as np
    >>> sharding = functrax.NamedSharding(functrax.make_mesh((1,), ("x",)), functrax.P("x"))
    >>> make_array_from_callback((4,), sharding, lambda index: np.arange(4.0)[index])
    Array([0., 1., 2., 3.], dtype=float32)
    """
    name = "make_array_from_callback"
    where = _sharding(sharding, tuple(shape), name)
    ((_, index),) = where.addressable_devices_indices_map(tuple(shape)).items()
    part = as_value(data_callback(index), f"what data_callback of {name} returned")
    return _whole(tuple(shape), where, part, dtype, name)


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """An array of the parts that devices have.

    Args:
      shape: of the array.
      sharding: where its parts lie.
      arrays: a list of the parts, one for each device of the sharding.
      dtype: what the parts' dtype has to be; None for any.

    Returns:
      An array on that sharding.

    Raises:
      ArgumentError: if ``arrays`` is no list or tuple, or a dtype is another than ``dtype``.
      ShardingError: if there is not one array for each device, or the sharding does not fit.
      ShapeError: if a part is of another shape than the sharding says.

    >>> import functrax, functrax.numpy as jnp
    >>> place = functrax.sharding.SingleDeviceSharding(functrax.devices()[0])
    >>> make_array_from_single_device_arrays((2,), place, [jnp.ones(2)])
    Array([1., 1.], dtype=float32)
    """
    name = "make_array_from_single_device_arrays"
    if not isinstance(arrays, (list, tuple)):
        raise ArgumentError(
            f"jax.{name} `arrays` argument is no list or tuple",
            got=type(arrays).__name__,
            fix="a list with one array for each device",
        )
    where = _sharding(sharding, tuple(shape), name)
    if len(arrays) != 1:
        raise ShardingError(
            f"{name}: there is not one array for each device",
            got=f"{len(arrays)} arrays for {where.num_devices} devices",
            fix="one array",
        )
    return _whole(tuple(shape), where, as_value(arrays[0], "arrays[0]"), dtype, name)


def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Sequence[int] | None = None
) -> Any:
    """Arrays of the parts that this process has: with one process, all of them.

    Args:
      sharding: where the parts lie; for a pytree of data a sharding, or a pytree of them.
      local_data: a NumPy array, or a pytree of them.
      global_shape: the shape of the array; with one process that of the data, or None.

    Returns:
      An array on the sharding, or a pytree of them.

    Raises:
      ShapeError: if ``global_shape`` is another.
      ShardingError: if the sharding does not fit.

    >>> import functrax, numpy as np
    >>> sharding = functrax.NamedSharding(functrax.make_mesh((1,), ("x",)), functrax.P("x"))
    >>> make_array_from_process_local_data(sharding, np.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    name = "make_array_from_process_local_data"
    leaves, tree = tree_flatten(local_data)
    places = prefix_leaves(sharding, local_data, f"{name}: sharding")
    shapes = _shapes(global_shape, len(leaves))
    made = []
    for leaf, place, shape in zip(leaves, places, shapes, strict=True):
        value = as_value(leaf, f"local_data of {name}")
        if shape is not None and tuple(shape) != value.aval.shape:
            raise ShapeError(
                f"{name}: with one process the array has the shape of the data",
                got=f"global_shape={tuple(shape)}, data of shape {value.aval.shape}",
                fix="global_shape=None",
            )
        where = _sharding(place, value.aval.shape, name)
        made.append(_whole(value.aval.shape, where, value, None, name))
    return tree_unflatten(tree, made)


def _shapes(global_shape: Any, count: int) -> list[Any]:
    """The global shape of each leaf: one tuple is that of all, else they are a pytree."""
    if global_shape is None:
        return [None] * count
    is_shape = isinstance(global_shape, (tuple, list)) and all(
        isinstance(n, int) for n in global_shape
    )
    if is_shape:
        return [tuple(global_shape)] * count
    return tree_leaves(global_shape, is_leaf=lambda x: x is None or isinstance(x, tuple))


def _sharding(where: Any, shape: tuple[int, ...], name: str) -> Sharding:
    sharding = as_sharding(where, name)
    if sharding is None:
        raise ShardingError(
            f"{name}: there is no sharding", got="None", fix="a functrax.NamedSharding"
        )
    check_held(sharding, shape, name)
    return sharding


def _whole(shape: tuple[int, ...], where: Sharding, part: Any, dtype: Any, name: str) -> Array:
    """The array whose one part is given."""
    expected = where.shard_shape(shape)
    if part.aval.shape != expected:
        raise ShapeError(
            f"{name}: a part has another shape than the sharding says",
            got=f"{part.aval.str_short()} for a part of shape {expected} of {shape}",
            fix=f"an array of shape {expected}",
        )
    if type(part) is not ConcreteArray:
        raise ShardingError(
            f"jax.{name} requires a list of concrete arrays: a part is a traced value, and devices "
            "hold none",
            got=part.aval.str_short(),
            fix="call it outside of jit, or functrax.lax.with_sharding_constraint inside",
        )
    if dtype is not None and dtypes.as_dtype(dtype) != part.aval.dtype:
        raise ArgumentError(
            f"{name}: If `dtype` is provided to `jax.{name}`, it must match the dtype of the "
            "addressable shards.",
            got=f"dtype={dtypes.as_dtype(dtype).name}, a part {part.aval.str_short()}",
            fix=f"dtype={part.aval.dtype.name!r}, or parts of that dtype",
        )
    array: Array = put(part, where)
    return array
