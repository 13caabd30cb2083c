"""Elements put into arrays and taken out: insert and delete.

The shape of a result follows from how many positions there are, and for ``delete`` from which of
them are equal.  Positions known while tracing make a table of what is read where; traced ones make
it in the program.

Start at :func:`insert`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, ConcretizationError
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.at import At
from functrax.numpy.axes import one_axis
from functrax.numpy.cumulative import cumsum
from functrax.numpy.filling import ones, zeros
from functrax.numpy.index_plan import Bounds, operand_in_range
from functrax.numpy.logic import logical_not
from functrax.numpy.promote import convert, promoting, to_array
from functrax.numpy.ranges import arange
from functrax.numpy.rearranging import is_known, take_axis, take_table
from functrax.numpy.rounding import clip
from functrax.numpy.searching import nonzero
from functrax.numpy.selecting import integers
from functrax.numpy.shaping import broadcast_to, join, moveaxis, reshape_to, slice_axis
from functrax.numpy.sorting import argsort

__all__ = ["delete", "insert"]


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Value:
    """``values`` put before the positions ``obj`` of an axis.

    Args:
      arr: an array.
      obj: positions: an integer, a slice, or a vector of integers.
      values: an array; it broadcasts to the shape that is inserted.
      axis: None inserts into the elements in row-major order.

    Raises:
      ArgumentError: for a position out of range that is known while tracing; a traced one means
        the nearest.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.insert(jnp.array([1, 2, 3]), 1, 10)
      Array([ 1, 10,  2,  3], dtype=int32)
    """
    x = to_array("insert", arr)
    y = convert(to_array("insert", values, 2), x.aval.dtype)
    if axis is None:
        x, axis = reshape_to(x, (x.aval.size,)), 0
    k = one_axis("insert", axis, x.aval.ndim)
    size = x.aval.shape[k]
    where = _vector(obj) if _is_traced(obj) else _known("insert", obj)
    where = np.arange(size)[where] if isinstance(where, slice) else where
    y = reshape_to(y, (1,) * (x.aval.ndim - y.aval.ndim) + y.aval.shape)
    if where.ndim == 0:
        y = moveaxis(y, 0, k)
    count = y.aval.shape[k] if where.size == 1 else where.size
    inserted = broadcast_to(y, (*x.aval.shape[:k], count, *x.aval.shape[k + 1 :]))
    both = join([x, inserted], k)
    if _is_traced(obj):
        return take_axis(both, k, _traced_table(where, size, count))
    try:
        new = np.arange(size, size + count)
        table = np.insert(np.arange(size), where.item() if where.size == 1 else where, new)
    except IndexError as error:
        raise ArgumentError(
            "insert: a position is out of range",
            got=str(error),
            fix="positions from minus the axis' size up to the size",
        ) from None
    return take_table(both, k, table)


def _is_traced(obj: Any) -> bool:
    return not isinstance(obj, slice) and not is_known(obj)


def _vector(obj: Any) -> Value:
    x = integers("insert", obj)
    if x.aval.ndim > 1:
        raise ArgumentError(
            "insert: positions are a slice, an integer or a vector", got=x.aval.str_short(),
            fix="ravel them",
        )  # fmt: skip
    return x


@promoting
def _traced_table(where: Any, size: int, count: int) -> Value:
    """Which element is read for each of the result; those from ``size`` on are the inserted."""
    places = operand_in_range(where, size, Bounds(clip=False))
    places = clip(broadcast_to(places, (count,)), 0, size)
    order = argsort(places)
    among: Any = take_axis(places, 0, order) + arange(count)  # the inserted, in the result
    is_new = At(zeros(size + count, dtypes.bool_))[among].set(True)
    old = cumsum(logical_not(is_new)) - 1
    return At(old)[among].set(order + size)


def _known(name: str, obj: Any) -> Any:
    """Positions known while tracing, for NumPy to read."""
    if isinstance(obj, slice):
        return obj
    if not is_known(obj):
        raise ConcretizationError(
            f"{name}: the shape of the result depends on the positions, which are traced",
            got=obj.aval.str_short(),
            fix="positions known while tracing, or assume_unique_indices=True",
        )
    where = np.asarray(obj)
    return where.astype(int) if where.size == 0 else where


def delete(
    arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Value:
    """Without the elements at the positions ``obj`` of an axis.

    Args:
      arr: an array.
      obj: positions: an integer, a slice, integers, or a mask.
      axis: None deletes from the elements in row-major order.
      assume_unique_indices: a promise that no position is named twice; integers may then be
        traced.

    Raises:
      ConcretizationError: if ``obj`` is traced, without that promise.
      ArgumentError: for a position out of range that is known while tracing.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.delete(jnp.array([4, 5, 6, 7]), jnp.array([0, 2]))
      Array([5, 7], dtype=int32)
    """
    x = to_array("delete", arr)
    if axis is None:
        x, axis = reshape_to(x, (x.aval.size,)), 0
    k = one_axis("delete", axis, x.aval.ndim)
    size = x.aval.shape[k]
    if assume_unique_indices and _is_traced(obj) and dtypes.is_integer(obj.aval.dtype):
        places = operand_in_range(obj, size, Bounds(clip=False))
        stays = At(ones(size, dtypes.bool_))[places].set(False)
        (kept,) = nonzero(stays, size=max(size - obj.aval.size, 0), fill_value=0)
        return take_axis(x, k, kept)
    if isinstance(obj, (int, np.integer)) and not isinstance(obj, bool):
        if size > 1 and -size <= obj < size:
            place = int(obj) % size
            parts = [(0, place), (place + 1, size)]
            return join([slice_axis(x, k, *part) for part in parts if part[0] < part[1]], k)
    try:
        table = np.delete(np.arange(size), _known("delete", obj))
    except IndexError as error:
        raise ArgumentError(
            "delete: a position is out of range",
            got=str(error),
            fix="positions from minus the axis' size up to the size less 1",
        ) from None
    return take_table(x, k, table)
