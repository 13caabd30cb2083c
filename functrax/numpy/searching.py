"""Positions of elements: nonzero, argwhere, searchsorted, digitize.

How many elements are not zero is a shape that depends on values: arrays must be known while
tracing, or the caller gives the ``size`` of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ConcretizationError, ShapeError
from functrax.core.options.config import state
from functrax.core.prims.arithmetic import add, div, rem, select_n, sub
from functrax.core.prims.comparisons import and_, eq, ge, le, lt, ne, or_
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, full, iota
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.core.types.promotion import check_positions
from functrax.numpy.at import At
from functrax.numpy.axes import integer
from functrax.numpy.cumulative import cumsum
from functrax.numpy.joining import stack
from functrax.numpy.promote import convert, promote_dtypes, result, to_array
from functrax.numpy.rearranging import is_known, take_axis
from functrax.numpy.shaping import reshape_to, reverse, slice_axis
from functrax.typing import ArrayLike

__all__ = ["argwhere", "digitize", "flatnonzero", "nonzero", "searchsorted"]

#: An array of up to this size is searched by comparing with all of it.
_COMPARE_ALL = 64


def nonzero(
    a: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | tuple[ArrayLike, ...] | None = None,
) -> tuple[Array, ...]:
    """The positions of the elements that are not zero, in row-major order.

    Args:
      a: an array of at least one axis.
      size: the number of positions in the result; needed if ``a`` is traced.
      fill_value: an index, or one for each axis, for positions that are missing; 0 if None.

    Returns:
      One vector of default integers for each axis.

    Raises:
      ConcretizationError: if ``a`` is traced and there is no size.
      ShapeError: for a scalar.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nonzero(jnp.array([0, 3, 0, 4]), size=3, fill_value=9)
      (Array([1, 3, 9], dtype=int32),)
    """
    x = to_array("nonzero", a)
    if not x.aval.ndim:
        raise ShapeError("nonzero: takes arrays of at least one axis", got=x.aval.str_short(),
                         fix="functrax.numpy.atleast_1d(x)")  # fmt: skip
    count = None if size is None else integer("nonzero", "size", size)
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * x.aval.ndim
    fills = tuple(0 if fill is None else fill for fill in fills)
    if not is_known(x):
        return _traced_nonzero(x, count, fills)
    check_positions("nonzero", max(x.aval.shape, default=0), dtypes.default_int())
    found = np.nonzero(np.asarray(x))
    if count is not None:
        found = tuple(_filled(k[:count], count, fill) for k, fill in zip(found, fills, strict=True))
    return tuple(from_numpy(k.astype(dtypes.default_int())) for k in found)


def _filled(found: np.ndarray[Any, Any], size: int, fill: Any) -> np.ndarray[Any, Any]:
    out = np.full(size, np.asarray(fill), dtypes.default_int())
    out[: len(found)] = found
    return out


def _traced_nonzero(x: Value, size: int | None, fills: tuple[Any, ...]) -> tuple[Value, ...]:
    if size is None:
        raise ConcretizationError(
            "nonzero: the shape of the result depends on the values of a traced array",
            got=x.aval.str_short(),
            fix="size=..., or jnp.where(condition, x, y), which keeps the shape",
        )
    check_positions("nonzero", max(x.aval.shape, default=0), dtypes.default_int())
    wide = dtypes.position_dtype(x.aval.size)
    flat = ne.bind(reshape_to(x, (x.aval.size,)), literal(0, x.aval.dtype))
    ends = cumsum(convert_element_type.bind(flat, dtype=wide), dtype=wide)
    place = select_n.bind(flat, like(ends, size), sub.bind(ends, like(ends, 1)))
    line = iota.bind(shape=(x.aval.size,), dtype=wide, axis=0)
    empty = full((size,), literal(-1, wide))
    positions = At(empty)[place].set(line)
    found = []
    stride = x.aval.size
    for length, fill in zip(x.aval.shape, fills, strict=True):
        stride //= max(length, 1)
        index = rem.bind(div.bind(positions, like(positions, max(stride, 1))),
                         like(positions, max(length, 1)))  # fmt: skip
        missing = lt.bind(positions, like(positions, 0))
        filler = broadcast_in_dim.bind(to_array("nonzero", fill), shape=(size,), dims=())
        filler = convert_element_type.bind(filler, dtype=wide)
        chosen = select_n.bind(missing, index, filler)
        found.append(result(convert(chosen, dtypes.default_int())))
    return tuple(found)


def flatnonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The row-major positions of the elements that are not zero.

    Args:
      a: an array.
      size: the number of positions in the result; needed if ``a`` is traced.
      fill_value: the position in place of missing ones; 0 if None.

    Returns:
      A vector of default integers.

    Raises:
      ConcretizationError: if ``a`` is traced and there is no size.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.flatnonzero(jnp.array([[0, 3], [0, 4]]))
      Array([1, 3], dtype=int32)
    """
    x = to_array("flatnonzero", a)
    return nonzero(reshape_to(x, (x.aval.size,)), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The positions of the elements that are not zero, one in each row.

    Args:
      a: an array.
      size: the number of positions in the result; needed if ``a`` is traced.
      fill_value: an index, or one for each axis, for positions that are missing; 0 if None.

    Returns:
      A matrix of default integers with a column for each axis.

    Raises:
      ConcretizationError: if ``a`` is traced and there is no size.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.argwhere(jnp.array([[0, 3], [5, 4]]))
      Array([[0, 1],
             [1, 0],
             [1, 1]], dtype=int32)
    """
    x = to_array("argwhere", a)
    if not x.aval.ndim:
        (found,) = nonzero(reshape_to(x, (1,)), size=size, fill_value=fill_value)
        return reshape_to(slice_axis(reshape_to(found, (found.aval.size, 1)), 1, 0, 0),
                          (found.aval.size, 0))  # fmt: skip
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=1)


def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Where values would have to be inserted into a sorted vector to keep it sorted.

    Args:
      a: a sorted vector; NaNs count as larger than all numbers.
      v: values, an array of any shape.
      side: ``"left"``: before equal elements; ``"right"``: after them.
      sorter: positions that sort ``a``, if it is not sorted.
      method: ``"compare_all"`` compares with every element; others search by halving.

    Returns:
      int32 positions from 0 to the size of ``a``, of the shape of ``v``; int64 where it is more
      than int32 holds.

    Raises:
      IntegerOverflowError: if int32 does not hold the size of ``a``, and x64 is off.
      ArgumentError: for another side.
      ShapeError: if ``a`` is not a vector.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.searchsorted(jnp.array([1, 2, 2, 5]), jnp.array([2, 9]))
      Array([1, 4], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ArgumentError("searchsorted: unknown side", got=repr(side), fix="'left' or 'right'")
    x, y = (result(value) for value in promote_dtypes("searchsorted", a, v))
    if x.aval.ndim != 1:
        raise ShapeError("searchsorted: a is a vector", got=x.aval.str_short(), fix="ravel it")
    if sorter is not None:
        x = take_axis(x, 0, to_array("searchsorted", sorter, 3))
    if method == "compare_all" or x.aval.size <= _COMPARE_ALL:
        return result(_count_below(x, y, side))
    return result(_halve(x, y, side))


def _goes_before(x: Value, y: Value, side: str) -> Value:
    """Whether the sorted elements ``x`` stand before the place of ``y``."""
    before = lt.bind(x, y) if side == "left" else le.bind(x, y)
    if not dtypes.is_inexact(x.aval.dtype):
        return before
    last = ne.bind(y, y)
    if side == "left":
        last = and_.bind(last, eq.bind(x, x))
    return or_.bind(before, last)


def _count_below(x: Value, y: Value, side: str) -> Value:
    ndim = y.aval.ndim
    shape = (*y.aval.shape, x.aval.size)
    elements = broadcast_in_dim.bind(x, shape=shape, dims=(ndim,))
    values = broadcast_in_dim.bind(y, shape=shape, dims=tuple(range(ndim)))
    before = _goes_before(elements, values, side)
    return reduce_sum.bind(convert_element_type.bind(before, dtype=dtypes.int32), axes=(ndim,))


def _halve(x: Value, y: Value, side: str) -> Value:
    """Binary search, all values at once: the answer is in ``low..high``."""
    size, shape = x.aval.size, y.aval.shape
    low = full(shape, literal(0, _count_dtype(size)))
    step = 1 << (size.bit_length() - 1)
    while step:
        probe = add.bind(low, like(low, step))
        inside = le.bind(probe, like(probe, size))
        index = select_n.bind(inside, like(probe, 0), sub.bind(probe, like(probe, 1)))
        element = take_axis(x, 0, index)
        further = and_.bind(inside, _goes_before(element, y, side))
        low = select_n.bind(further, low, probe)
        step //= 2
    return low


def _count_dtype(size: int) -> dtypes.DType:
    """That of the number of elements before a place.

    Raises:
      IntegerOverflowError: if there are too many for int32, and x64 is off.
    """
    check_positions("searchsorted", size + 1, dtypes.int64 if state.enable_x64 else dtypes.int32)
    return dtypes.position_dtype(size)


def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """The number of the bin that each value is in.

    Args:
      x: values, an array of any shape.
      bins: a vector that increases or decreases.
      right: whether a bin contains its right edge instead of its left one.
      method: as for :func:`searchsorted`.

    Returns:
      int32 positions from 0 to the number of edges, of the shape of ``x``.

    Raises:
      ShapeError: if ``bins`` is not a vector.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.digitize(jnp.array([0.5, 1.0, 9.0]), jnp.array([1.0, 2.0, 3.0]))
      Array([0, 1, 3], dtype=int32)
    """
    values, edges = to_array("digitize", x), to_array("digitize", bins, 1)
    if edges.aval.ndim != 1:
        raise ShapeError("digitize: bins is a vector", got=edges.aval.str_short(), fix="ravel it")
    size = edges.aval.size
    how = method or "scan"
    if size == 0:
        return full(values.aval.shape, literal(0, dtypes.int32))
    first, last = slice_axis(edges, 0, 0, 1), slice_axis(edges, 0, size - 1, size)
    rises = reshape_to(ge.bind(last, first), ())
    in_order = broadcast_in_dim.bind(rises, shape=(size,), dims=())
    rising = select_n.bind(in_order, reverse(edges, (0,)), edges)
    below = searchsorted(rising, values, "left" if right else "right", method=how)
    above = sub.bind(full(below.aval.shape, literal(size, _count_dtype(size))), below)
    return result(select_n.bind(
        broadcast_in_dim.bind(rises, shape=below.aval.shape, dims=()), above, below))  # fmt: skip
