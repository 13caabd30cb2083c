"""Elements repeated or moved along an axis: roll, tile, repeat, resize.

Where to take elements from is mostly known while tracing.  :func:`take_table` reads an axis by
such a table: as slices, reversals and repetitions joined together where the table is a few runs,
and as one gather where it is not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.array import ConcreteArray, from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ConcretizationError, ShapeError
from functrax.core.prims.arithmetic import min_, modulo, sub
from functrax.core.prims.comparisons import le
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, full, iota
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.numpy.axes import Shape, as_shape, integer, listed, one_axis
from functrax.numpy.contraction import dot
from functrax.numpy.index_plan import Entry
from functrax.numpy.indexing import gather
from functrax.numpy.promote import result, to_array
from functrax.numpy.shaping import join, reshape_to, reverse, slice_axis

__all__ = ["repeat", "resize", "roll", "tile"]

#: A table with more runs than this is read by a gather.
_MOST_RUNS = 12


def take_table(x: Value, axis: int, table: np.ndarray[Any, Any]) -> Value:
    """The elements of an axis at positions known while tracing, all in range.

    Args:
      x: the array.
      axis: counted from 0.
      table: integers of one axis, each from 0 to the size of the axis.
    """
    if len(table) == x.aval.shape[axis] and np.array_equal(table, np.arange(len(table))):
        return x
    runs = _runs(table)
    if not runs:  # too many of them, or nothing to read
        places = table.astype(dtypes.position_dtype(x.aval.shape[axis]))
        return take_axis(x, axis, from_numpy(places))
    return join([_read_run(x, axis, *run) for run in runs], axis)


def take_axis(x: Value, axis: int, positions: Value) -> Value:
    """One gather along an axis by an integer array whose values are in range."""
    entries: list[Entry] = [("slice", 0, 1, size) for size in x.aval.shape]
    entries[axis] = ("array", 0, positions.aval.shape)
    return gather(x, entries, [positions])


def _runs(table: np.ndarray[Any, Any]) -> list[tuple[int, int, int]] | None:
    """``(first, step, count)`` of runs that follow each other, or None if they are too many."""
    steps = np.diff(table)
    found: list[tuple[int, int, int]] = []
    at = 0
    while at < len(table):
        if len(found) == _MOST_RUNS:
            return None
        step = int(steps[at]) if at < len(steps) else 1
        count = 1
        if abs(step) <= 1:
            others = np.flatnonzero(steps[at:] != step)
            count = int(others[0]) + 1 if len(others) else len(table) - at
        found.append((int(table[at]), step, count))
        at += count
    return found


def _read_run(x: Value, axis: int, first: int, step: int, count: int) -> Value:
    if step == 0 and count > 1:
        one = slice_axis(x, axis, first, first + 1)
        shape = tuple(count if k == axis else size for k, size in enumerate(one.aval.shape))
        return broadcast_in_dim.bind(one, shape=shape, dims=tuple(range(len(shape))))
    if step < 0 and count > 1:
        return reverse(slice_axis(x, axis, first - count + 1, first + 1), (axis,))
    return slice_axis(x, axis, first, first + count)


def is_known(x: Any) -> bool:
    """Whether the value is known while tracing: anything but a traced array."""
    return type(x) is ConcreteArray or not isinstance(x, Array)


def roll(a: Any, shift: Any, axis: Any = None) -> Value:
    """Moved along ``axis``; what leaves at the end comes in at the front.

    Args:
      a: an array.
      shift: by how many places, or one number for each axis; traced scalars are taken, too.
      axis: an axis or several; None rolls the elements in row-major order.

    Raises:
      ArgumentError: if there are several shifts and several axes, of different numbers.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.roll(jnp.arange(5), 2)
      Array([3, 4, 0, 1, 2], dtype=int32)
    """
    x = to_array("roll", a)
    if axis is None:
        return reshape_to(roll(reshape_to(x, (x.aval.size,)), shift, 0), x.aval.shape)
    axes = listed(axis)
    shifts = _shifts(shift)
    if len(shifts) == 1:
        shifts *= len(axes)
    elif len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ArgumentError(
            "roll: needs one shift for each axis",
            got=f"{len(shifts)} shifts, {len(axes)} axes",
            fix="as many shifts as axes, or one",
        )
    for by, k in zip(shifts, axes, strict=True):
        x = _roll_axis(x, by, one_axis("roll", k, x.aval.ndim))
    return x


def _shifts(shift: Any) -> list[Any]:
    if isinstance(shift, (tuple, list)):
        return list(shift)
    if is_known(shift):
        return list(np.asarray(shift).reshape(-1))
    flat = reshape_to(shift, (shift.aval.size,))
    return [reshape_to(slice_axis(flat, 0, k, k + 1), ()) for k in range(shift.aval.size)]


def _roll_axis(x: Value, shift: Any, axis: int) -> Value:
    size = x.aval.shape[axis]
    if not size:
        return x
    if not is_known(shift):
        line = iota.bind(shape=(size,), dtype=dtypes.position_dtype(size), axis=0)
        by = convert_element_type.bind(shift, dtype=line.aval.dtype)
        wide = broadcast_in_dim.bind(by, shape=(size,), dims=())
        return take_axis(x, axis, modulo(sub.bind(line, wide), size))
    by = integer("roll", "shift", shift) % size
    if not by:
        return x
    parts = [(size - by, size), (0, size - by)]
    return join([slice_axis(x, axis, first, end) for first, end in parts], axis)


def tile(A: Any, reps: Any) -> Value:
    """The array repeated as a whole, ``reps[k]`` times along axis ``k``.

    Args:
      A: an array.
      reps: a number, or one for each axis; missing ones, in front, are 1.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.tile(jnp.array([1, 2]), (2, 2))
      Array([[1, 2, 1, 2],
             [1, 2, 1, 2]], dtype=int32)
    """
    x = to_array("tile", A)
    counts = as_shape("tile", reps)
    if min(counts, default=0) < 0:
        raise ShapeError(
            "tile: a number of repetitions is negative",
            got=f"reps {counts}",
            fix="0 repetitions or more",
        )
    ndim = max(len(counts), x.aval.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - x.aval.ndim) + x.aval.shape
    whole = tuple(n * size for n, size in zip(counts, shape, strict=True))
    if all(n == 1 for n in counts):
        return reshape_to(x, whole)
    pairs = tuple(size for pair in zip(counts, shape, strict=True) for size in pair)
    dims = tuple(2 * k + 1 for k in range(ndim - x.aval.ndim, ndim))
    return reshape_to(broadcast_in_dim.bind(x, shape=pairs, dims=dims), whole)


@with_out_sharding
def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Value:
    """Each element repeated in place.

    Args:
      a: an array.
      repeats: how often; one number, or one for each element of the axis.
      axis: None repeats the elements in row-major order.
      total_repeat_length: the size of the result's axis, needed if ``repeats`` is traced; what
        exceeds it is cut off, and the last element fills what is missing.

    Raises:
      ConcretizationError: if ``repeats`` is traced and the length is not given.
      ShapeError: if there are several repeats, but not one for each element.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.repeat(jnp.array([1, 2]), jnp.array([2, 1]))
      Array([1, 1, 2], dtype=int32)
    """
    x = to_array("repeat", a)
    if axis is None:
        x, axis = reshape_to(x, (x.aval.size,)), 0
    axis = one_axis("repeat", axis, x.aval.ndim)
    if not is_known(repeats):
        return _repeat_traced(x, repeats, axis, total_repeat_length)
    counts = np.asarray(repeats)
    size = x.aval.shape[axis]
    if not dtypes.is_integer(counts.dtype) or counts.min(initial=0) < 0:
        raise ArgumentError(
            "repeat: repeats are integers of at least 0",
            got=repr(repeats),
            fix="an integer, or one for each element, of 0 or more",
        )
    if counts.size == 1 and total_repeat_length is None:
        return _repeat_each(x, int(counts.reshape(())), axis)
    if counts.size not in (1, size):
        raise _wrong_count(counts.shape, size, axis)
    table = np.repeat(np.arange(size), np.broadcast_to(counts.reshape(-1), (size,)))
    if total_repeat_length is not None:
        length = integer("repeat", "total_repeat_length", total_repeat_length)
        missing = np.full(max(length - len(table), 0), max(size - 1, 0))
        table = np.concatenate([table, missing])[:length]
    return take_table(x, axis, table)


def _wrong_count(shape: Shape, size: int, axis: int) -> ShapeError:
    return ShapeError(
        "repeat: needs one number of repeats, or one for each element",
        got=f"repeats of shape {shape} for {size} elements along axis {axis}",
        fix=f"{size} repeats, or one",
    )


def _repeat_each(x: Value, count: int, axis: int) -> Value:
    shape = x.aval.shape
    if count == 1:
        return x
    wide = (*shape[: axis + 1], count, *shape[axis + 1 :])
    dims = (*range(axis + 1), *range(axis + 2, len(wide)))
    spread = broadcast_in_dim.bind(x, shape=wide, dims=dims)
    return reshape_to(spread, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def _repeat_traced(x: Value, repeats: Value, axis: int, length: int | None) -> Value:
    if length is None:
        raise ConcretizationError(
            "repeat: the shape of the result would depend on the values of repeats",
            got=f"repeats {repeats.aval.str_short()}, traced",
            fix="total_repeat_length=..., the size of the result's axis",
        )
    size = x.aval.shape[axis]
    if repeats.aval.size not in (1, size):
        raise _wrong_count(repeats.aval.shape, size, axis)
    counts = reshape_to(convert_element_type.bind(repeats, dtype=dtypes.int32),
                        (repeats.aval.size,))  # fmt: skip
    counts = broadcast_in_dim.bind(counts, shape=(size,), dims=(0,))
    ends = dot(from_numpy(np.tri(size, dtype=np.int32)), counts)
    square = (length, size)
    here = iota.bind(shape=square, dtype=dtypes.int32, axis=0)
    passed = le.bind(broadcast_in_dim.bind(ends, shape=square, dims=(1,)), here)
    position = reduce_sum.bind(convert_element_type.bind(passed, dtype=dtypes.int32), axes=(1,))
    return take_axis(x, axis, min_.bind(position, like(position, max(size - 1, 0))))


def resize(a: Any, new_shape: Any) -> Value:
    """The elements in row-major order, repeated or cut off to fill another shape."""
    x = to_array("resize", a)
    shape = as_shape("resize", new_shape)
    if min(shape, default=0) < 0:
        raise ShapeError("resize: a size is negative", got=f"shape {shape}", fix="sizes from 0 up")
    size = math.prod(shape)
    if not x.aval.size:
        return result(full(shape, literal(0, x.aval.dtype)))
    flat = reshape_to(x, (x.aval.size,))
    flat = tile(flat, -(-size // x.aval.size)) if size > x.aval.size else flat
    return reshape_to(slice_axis(flat, 0, 0, size), shape)
