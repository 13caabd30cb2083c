"""The same elements in another arrangement: reshape, transpose, squeeze.

Arrays enter and leave; every function is one or a few of the reindex primitives ``reshape``,
``transpose``, ``rev``, ``slice`` and ``concatenate``, and none at all where nothing changes.
Start at :func:`reshape`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, AxisError, ShapeError
from functrax.core.prims import reindex as prims, slicing
from functrax.core.tracing.primitive import Value
from functrax.numpy.axes import (
    Shape,
    as_shape,
    complete_shape,
    listed,
    many_axes,
    one_axis,
)
from functrax.numpy.promote import to_array
from functrax.typing import ArrayLike, Axes, ShapeLike

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "expand_dims", "matrix_transpose", "moveaxis",
    "permute_dims", "ravel", "reshape", "rollaxis", "squeeze", "swapaxes",
    "transpose",
]  # fmt: skip


def reshape_to(x: Value, shape: Shape) -> Value:
    """``x`` in a complete shape; left as it is where that is its own."""
    return x if x.aval.shape == shape else prims.reshape.bind(x, shape=shape)


def transpose_to(x: Value, perm: Shape) -> Value:
    """``x`` with its axes in another order; left as it is where that is its own."""
    return x if perm == tuple(range(len(perm))) else prims.transpose.bind(x, perm=perm)


def slice_axis(x: Value, axis: int, start: int, limit: int, stride: int = 1) -> Array:
    """``x[start:limit:stride]`` along one axis; bounds are in range, the stride is positive."""
    shape = x.aval.shape
    if start == 0 and limit == shape[axis] and stride == 1:
        return x
    before, after = (0,) * axis, (0,) * (len(shape) - axis - 1)
    limits = (*shape[:axis], limit, *shape[axis + 1 :])
    strides = (*(1,) * axis, stride, *(1,) * len(after))
    return slicing.slice_.bind(x, start=(*before, start, *after), limit=limits, strides=strides)


def join(parts: Sequence[Value], axis: int) -> Value:
    """Concatenate values of one dtype."""
    return parts[0] if len(parts) == 1 else slicing.concatenate.bind(*parts, axis=axis)


@with_out_sharding
def reshape(a: ArrayLike, shape: ShapeLike, order: str = "C", *, copy: bool | None = None) -> Array:
    """The same elements in another shape.

    Args:
      a: an array of any shape and dtype.
      shape: an integer or a sequence of them; one size may be -1, and is worked out.
      order: ``"C"``, the last axis runs fastest; ``"F"``, the first one does.
      copy: accepted; arrays are immutable, so that it makes no difference.

    Returns:
      An array; of a NumPy array, as in JAX, its own ``reshape``, which is known in traced code.

    Raises:
      ShapeError: if the number of elements differs, or more than one size is -1.
      ArgumentError: for another order.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.reshape(jnp.arange(6), (2, -1))
      Array([[0, 1, 2],
             [3, 4, 5]], dtype=int32)
    """
    x = to_array("reshape", a)
    sizes = complete_shape("reshape", x.aval, as_shape("reshape", shape))
    if order != "C":
        _check_order("reshape", order)
    if type(a) is np.ndarray:
        return a.reshape(sizes, order=order)  # type: ignore[call-overload]
    if order == "C":
        return reshape_to(x, sizes)
    return _reversed_axes(reshape_to(_reversed_axes(x), sizes[::-1]))


@with_out_sharding
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """All elements in one row.

    Args:
      a: an array of any shape and dtype.
      order: ``"C"``, the last axis runs fastest; ``"F"``, the first one does.

    Returns:
      A vector.

    Raises:
      ArgumentError: for another order.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]), order="F")
      Array([1, 3, 2, 4], dtype=int32)
    """
    x = to_array("ravel", a)
    if order != "C":
        _check_order("ravel", order)
        x = _reversed_axes(x)
    return reshape_to(x, (x.aval.size,))


def _check_order(name: str, order: str) -> None:
    if order != "F":
        raise ArgumentError(f"{name}: unknown order", got=repr(order), fix="'C' or 'F'")


def _reversed_axes(x: Value) -> Value:
    return transpose_to(x, tuple(range(x.aval.ndim))[::-1])


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The axes in another order; reversed if ``axes`` is None.

    Args:
      a: an array.
      axes: for each axis of the result the axis of ``a`` that it is.

    Returns:
      An array whose axis ``i`` is axis ``axes[i]`` of ``a``.

    Raises:
      AxisError: if ``axes`` is not a permutation of the axes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.transpose(jnp.zeros((2, 3, 4)), (2, 0, 1)).shape
      (4, 2, 3)
    """
    x = to_array("transpose", a)
    if axes is None:
        return _reversed_axes(x)
    perm = many_axes("transpose", axes, x.aval.ndim, "axes")
    if len(perm) != x.aval.ndim:
        raise AxisError(
            "transpose: axes is not a permutation of the axes",
            got=f"axes {axes} for {x.aval.str_short()}",
            fix=f"each of 0..{x.aval.ndim - 1} once",
        )
    return transpose_to(x, perm)


def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """:func:`transpose` under the array API's name.

    Args:
      a: an array.
      axes: for each axis of the result the axis of ``a`` that it is.

    Returns:
      An array whose axis ``i`` is axis ``axes[i]`` of ``a``.

    Raises:
      AxisError: if ``axes`` is not a permutation of the axes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.permute_dims(jnp.zeros((2, 3, 4)), (2, 0, 1)).shape
      (4, 2, 3)
    """
    return transpose(a, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """The last two axes exchanged.

    Args:
      x: an array of shape ``(…, m, n)``.

    Returns:
      An array of shape ``(…, n, m)``.

    Raises:
      ShapeError: if ``x`` has fewer than two axes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.matrix_transpose(jnp.zeros((5, 2, 3))).shape
      (5, 3, 2)
    """
    value = to_array("matrix_transpose", x)
    ndim = value.aval.ndim
    if ndim < 2:
        raise ShapeError(
            "matrix_transpose: takes matrices",
            got=value.aval.str_short(),
            fix="an array of at least 2 axes",
        )
    return transpose_to(value, (*range(ndim - 2), ndim - 1, ndim - 2))


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged.

    Args:
      a: an array.
      axis1: an axis.
      axis2: another; it may be the same.

    Returns:
      The array with the two axes exchanged.

    Raises:
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.swapaxes(jnp.zeros((2, 3, 4)), 0, -1).shape
      (4, 3, 2)
    """
    x = to_array("swapaxes", a)
    ndim = x.aval.ndim
    first, second = one_axis("swapaxes", axis1, ndim), one_axis("swapaxes", axis2, ndim)
    perm = list(range(ndim))
    perm[first], perm[second] = second, first
    return transpose_to(x, tuple(perm))


def moveaxis(a: ArrayLike, source: ShapeLike, destination: ShapeLike) -> Array:
    """Axes moved to other places; the others keep their order.

    Args:
      a: an array.
      source: an axis, or several.
      destination: for each where it stands in the result.

    Returns:
      The array with the axes in the new order.

    Raises:
      AxisError: if an axis is out of range or named twice.
      ArgumentError: if there are more sources than destinations, or the reverse.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.moveaxis(jnp.zeros((2, 3, 4)), 0, -1).shape
      (3, 4, 2)
    """
    x = to_array("moveaxis", a)
    ndim = x.aval.ndim
    come = many_axes("moveaxis", source, ndim, "source")
    go = many_axes("moveaxis", destination, ndim, "destination")
    if len(come) != len(go):
        raise ArgumentError(
            "moveaxis: needs one destination for each source",
            got=f"source {source}, destination {destination}",
            fix="two sequences of one length",
        )
    perm = [axis for axis in range(ndim) if axis not in come]
    for place, axis in sorted(zip(go, come, strict=True)):
        perm.insert(place, axis)
    return transpose_to(x, tuple(perm))


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """``axis`` moved to stand before the one that is now at ``start``.

    Args:
      a: an array.
      axis: the axis that moves; the others keep their order.
      start: before which axis it stands then; the rank of ``a`` for behind all.

    Returns:
      The array with the axes in the new order.

    Raises:
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.rollaxis(jnp.zeros((2, 3, 4)), 2).shape
      (4, 2, 3)
    """
    x = to_array("rollaxis", a)
    ndim = x.aval.ndim
    moved = one_axis("rollaxis", axis, ndim)
    place = one_axis("rollaxis", start, ndim + 1, "start") if start >= 0 else start + ndim
    perm = [k for k in range(ndim) if k != moved]
    perm.insert(place - 1 if place > moved else place, moved)
    return transpose_to(x, tuple(perm))


def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """Without the axes of size 1, or without those named.

    Args:
      a: an array.
      axis: an axis of size 1, or several; None for all of them.

    Returns:
      The same elements with fewer axes.

    Raises:
      ShapeError: if an axis named has another size than 1.
      AxisError: for an axis out of range or named twice.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.squeeze(jnp.zeros((1, 3, 1)), axis=0).shape
      (3, 1)
    """
    x = to_array("squeeze", a)
    shape = x.aval.shape
    if axis is None:
        return reshape_to(x, tuple(size for size in shape if size != 1))
    gone = many_axes("squeeze", axis, len(shape))
    for k in gone:
        if shape[k] != 1:
            raise ShapeError(
                "squeeze: an axis has another size than 1",
                got=f"axis {k} of {x.aval.str_short()}",
                fix="name axes of size 1, or none",
            )
    return reshape_to(x, tuple(size for k, size in enumerate(shape) if k not in gone))


def expand_dims(a: ArrayLike, axis: Axes) -> Array:
    """With new axes of size 1, which stand at ``axis`` in the result.

    Args:
      a: an array.
      axis: where the new axis stands in the result, or several such places.

    Returns:
      The same elements with more axes.

    Raises:
      AxisError: for an axis out of range or named twice.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.expand_dims(jnp.zeros((3, 4)), (0, -1)).shape
      (1, 3, 4, 1)
    """
    x = to_array("expand_dims", a)
    count = len(listed(axis))
    new = many_axes("expand_dims", axis, x.aval.ndim + count)
    sizes = iter(x.aval.shape)
    whole = range(x.aval.ndim + count)
    return reshape_to(x, tuple(1 if k in new else next(sizes) for k in whole))


def _at_least(name: str, arys: Sequence[Any], ndim: int) -> Value | list[Value]:
    found = [_raise_rank(to_array(name, x, k), ndim) for k, x in enumerate(arys)]
    return found[0] if len(found) == 1 else found


def _raise_rank(x: Value, ndim: int) -> Value:
    shape = x.aval.shape
    if len(shape) >= ndim:
        return x
    if ndim == 3 and len(shape) == 2:
        return reshape_to(x, (*shape, 1))
    if ndim == 3 and len(shape) == 1:
        return reshape_to(x, (1, *shape, 1))
    return reshape_to(x, (1,) * (ndim - len(shape)) + shape)


def atleast_1d(*arys: ArrayLike) -> Array | list[Array]:
    """Arrays of at least 1 axis; one array for one argument, else a list.

    Args:
      *arys: arrays or scalars.

    Returns:
      The arrays; scalars have shape ``(1,)``.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.atleast_1d(2.5).shape
      (1,)
    """
    return _at_least("atleast_1d", arys, 1)


def atleast_2d(*arys: ArrayLike) -> Array | list[Array]:
    """Arrays of at least 2 axes; ``(n,)`` becomes ``(1, n)``.

    Args:
      *arys: arrays or scalars.

    Returns:
      The arrays; those of two axes or more as they are.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.atleast_2d(jnp.arange(3)).shape
      (1, 3)
    """
    return _at_least("atleast_2d", arys, 2)


def atleast_3d(*arys: ArrayLike) -> Array | list[Array]:
    """Arrays of at least 3 axes; ``(n,)`` becomes ``(1, n, 1)``, ``(m, n)`` ``(m, n, 1)``.

    Args:
      *arys: arrays or scalars.

    Returns:
      The arrays; those of three axes or more as they are.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> [x.shape for x in jnp.atleast_3d(jnp.zeros(3), jnp.zeros((3, 4)))]
      [(1, 3, 1), (3, 4, 1)]
    """
    return _at_least("atleast_3d", arys, 3)


def reverse(x: Value, axes: Shape) -> Value:
    """``rev``, left out where it changes nothing."""
    turned = tuple(k for k in axes if x.aval.shape[k] > 1)
    return prims.rev.bind(x, axes=turned) if turned else x
