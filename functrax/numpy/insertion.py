"""Elements put into arrays and taken out: insert and delete.

The shape of a result follows from how many positions there are, and for ``delete`` from which of
them are equal.  Few positions that are known while tracing cut the array into parts, and so do the
evenly spaced ones of a slice, however many.  Otherwise where each element is read is a table,
which is made in the program if the positions are traced, or much fewer than the elements.

Start at :func:`insert`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ConcretizationError
from functrax.core.prims.arithmetic import add, sub
from functrax.core.prims.reindex import iota
from functrax.core.tracing.primitive import Value, like
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.core.types.aval import short_dtype_name
from functrax.numpy.at import At
from functrax.numpy.axes import one_axis
from functrax.numpy.broadcasting import broadcast_to
from functrax.numpy.extrema import clip
from functrax.numpy.filling import ones
from functrax.numpy.index_plan import Bounds, operand_in_range
from functrax.numpy.promote import convert, promoting, result, to_array
from functrax.numpy.ranges import arange
from functrax.numpy.rearranging import how_many_before, is_known, take_axis
from functrax.numpy.runs import MOST_RUNS
from functrax.numpy.searching import nonzero
from functrax.numpy.selecting import integers
from functrax.numpy.shaping import join, moveaxis, reshape_to, reverse, slice_axis
from functrax.numpy.sorting import argsort
from functrax.typing import ArrayLike

__all__ = ["delete", "insert"]


def insert(
    arr: ArrayLike,
    obj: ArrayLike | slice | Sequence[int],
    values: ArrayLike,
    axis: int | None = None,
) -> Array:
    """``values`` put before the positions ``obj`` of an axis.

    Args:
      arr: an array.
      obj: positions: an integer, a slice, or a vector of integers.
      values: an array; it broadcasts to the shape that is inserted.
      axis: None inserts into the elements in row-major order.

    Returns:
      An array of the dtype of ``arr``.

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
    where = _vector(obj) if _is_traced(obj) else _places("insert", obj, size, size)
    rank, number = (1, len(where)) if isinstance(where, range) else (where.ndim, where.size)
    y = reshape_to(y, (1,) * (x.aval.ndim - y.aval.ndim) + y.aval.shape)
    if rank == 0:
        y = moveaxis(y, 0, k)
    count = y.aval.shape[k] if number == 1 else number
    new = broadcast_to(y, (*x.aval.shape[:k], count, *x.aval.shape[k + 1 :]))
    if not isinstance(where, (range, np.ndarray)):
        return take_axis(join([x, new], k), k, _traced_table(where, size, count))
    return _insert_known(x, new, k, where)


def _is_traced(obj: Any) -> TypeGuard[Tracer]:
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
    return _table(among, order, size, count)


def _table(among: Value, order: Value, size: int, count: int) -> Value:
    """The same by the places of the inserted in the result, and which of them stands where."""
    dtype = dtypes.position_dtype(size + count)
    line = iota.bind(shape=(size + count,), dtype=dtype, axis=0)
    old = result(sub.bind(line, how_many_before(among, size + count, dtype)))
    order = convert(order, dtype)
    return At(old)[among].set(result(add.bind(order, like(order, size))))


def _places(name: str, obj: Any, size: int, top: int) -> range | np.ndarray[Any, Any]:
    """Positions known while tracing, from 0 to ``top``.

    Returns:
      What a slice means as a range; other positions as int64, of a mask those of its elements.

    Raises:
      ConcretizationError: for traced positions.
      ArgumentError: for positions out of range, and what are no positions.
    """
    if isinstance(obj, slice):
        return range(size)[obj]
    if not is_known(obj):
        raise ConcretizationError(
            f"{name}: the shape of the result depends on the positions, which are traced",
            got=obj.aval.str_short(),
            fix="positions known while tracing, or assume_unique_indices=True",
        )
    where = np.asarray(obj)
    if where.dtype == bool and where.shape == (size,):
        return np.flatnonzero(where)
    if not where.size:
        return np.zeros(0, np.int64)
    if not dtypes.is_integer(where.dtype) or (name == "insert" and where.ndim > 1):
        raise ArgumentError(
            f"{name}: positions are a slice, an integer, a vector of integers or a mask",
            got=f"{short_dtype_name(where.dtype)}{list(where.shape)} for an axis of size {size}",
            fix="integers; a mask has one element for each of the axis",
        )
    given = where.astype(np.int64)
    where = np.where(given < 0, given + size, given)
    inside = (where >= 0) & (where <= top)
    if not inside.all():
        raise ArgumentError(
            f"{name}: a position is out of range",
            got=f"{given[~inside][0]} for an axis of size {size}",
            fix=f"positions from {-size} up to {top}",
        )
    return where


def _parts(x: Value, axis: int, limits: Iterable[tuple[int, int]]) -> list[Value]:
    """The parts ``[start, limit)`` of an axis, without the empty ones."""
    return [slice_axis(x, axis, a, b) for a, b in limits if a < b]


def _joined(parts: Sequence[Value], axis: int, x: Value) -> Value:
    return join(parts, axis) if parts else slice_axis(x, axis, 0, 0)


def _insert_known(x: Value, new: Value, k: int, where: range | np.ndarray[Any, Any]) -> Value:
    size, count = x.aval.shape[k], new.aval.shape[k]
    if isinstance(where, range):
        where, new = (where[::-1], reverse(new, (k,))) if where.step < 0 else (where, new)
        if 2 * len(where) >= MOST_RUNS:
            return _insert_evenly(x, new, k, where)
    places = np.asarray(where, np.int64).reshape(-1)
    if len(places) == 1:
        (at,) = map(int, places)
        before, after = (_parts(x, k, [limits]) for limits in ((0, at), (at, size)))
        return _joined([*before, *_parts(new, k, [(0, count)]), *after], k, x)
    order = np.argsort(places, kind="stable")
    places = places[order]
    begins = np.flatnonzero(np.diff(places, prepend=-1) | (np.diff(order, prepend=-1) != 1))
    if 2 * len(begins) < MOST_RUNS:
        parts, done = [], 0
        for begin, end in itertools.pairwise([*map(int, begins), count]):
            at, first = int(places[begin]), int(order[begin])
            parts += _parts(x, k, [(done, at)])
            parts += _parts(new, k, [(first, first + end - begin)])
            done = at
        return _joined([*parts, *_parts(x, k, [(done, size)])], k, x)
    among = places + np.arange(count)
    if size > MOST_RUNS * count:
        table = _table(from_numpy(among), from_numpy(order), size, count)
        return take_axis(join([x, new], k), k, table)
    known = np.empty(size + count, dtypes.position_dtype(size + count))
    known[among] = size + order
    known[np.delete(np.arange(size + count), among)] = np.arange(size)
    return take_axis(join([x, new], k), k, from_numpy(known))


def _insert_evenly(x: Value, new: Value, k: int, where: range) -> Value:
    """Elements put in front of every so many: in all blocks but the last, which may be shorter."""
    count, last = len(where), where[-1]
    (block,) = _parts(x, k, [(where[0], last)])
    blocks = join([_blocks(slice_axis(new, k, 0, count - 1), k, 1),
                   _blocks(block, k, where.step)], k + 1)  # fmt: skip
    middle = _flat(blocks, k)
    end = [slice_axis(new, k, count - 1, count), *_parts(x, k, [(last, x.aval.shape[k])])]
    return join([*_parts(x, k, [(0, where[0])]), middle, *end], k)


def _blocks(x: Value, axis: int, size: int) -> Value:
    """An axis in blocks of a size, which are a new axis."""
    shape = x.aval.shape
    return reshape_to(x, (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :]))


def _flat(x: Value, axis: int) -> Value:
    """An axis and the next one as one axis."""
    shape = x.aval.shape
    whole = shape[axis] * shape[axis + 1]
    return reshape_to(x, (*shape[:axis], whole, *shape[axis + 2 :]))


def delete(
    arr: ArrayLike,
    obj: ArrayLike | slice | Sequence[int],
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """Without the elements at the positions ``obj`` of an axis.

    Args:
      arr: an array.
      obj: positions: an integer, a slice, integers, or a mask.
      axis: None deletes from the elements in row-major order.
      assume_unique_indices: a promise that no position is named twice; integers may then be
        traced.

    Returns:
      An array of the dtype of ``arr``.

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
    where = _places("delete", obj, size, size - 1)
    if isinstance(where, range):
        where = where[::-1] if where.step < 0 else where
        if where.step == 1 and where:
            return _joined(_parts(x, k, [(0, where[0]), (where[-1] + 1, size)]), k, x)
        if len(where) >= MOST_RUNS:
            return _delete_evenly(x, k, where)
    places = np.unique(np.asarray(where, np.int64))
    limits = [-1, *map(int, places[:MOST_RUNS]), size]
    gone = len(places)
    if gone < MOST_RUNS:
        return _joined(_parts(x, k, [(a + 1, b) for a, b in itertools.pairwise(limits)]), k, x)
    if size > MOST_RUNS * gone:
        dtype = dtypes.position_dtype(size)
        line = iota.bind(shape=(size - gone,), dtype=dtype, axis=0)
        before = how_many_before(from_numpy(places - np.arange(gone)), size - gone, dtype)
        return take_axis(x, k, add.bind(line, before))
    remaining = np.delete(np.arange(size, dtype=dtypes.position_dtype(size)), places)
    return take_axis(x, k, from_numpy(remaining))


def _delete_evenly(x: Value, k: int, where: range) -> Value:
    """Without one element of every so many, and with what follows the last of them."""
    (block,) = _parts(x, k, [(where[0], where[-1])])
    blocks = _blocks(block, k, where.step)
    middle = _flat(slice_axis(blocks, k + 1, 1, where.step), k)
    before, after = (0, where[0]), (where[-1] + 1, x.aval.shape[k])
    return join([*_parts(x, k, [before]), middle, *_parts(x, k, [after])], k)
