"""Elements repeated or moved along an axis: roll, tile, repeat, resize.

Where to take elements from is mostly known while tracing, as a few runs
(:mod:`functrax.numpy.runs`).  Otherwise positions are computed in the program, and read by one
gather: nothing that is made while tracing is as long as an axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.array import ConcreteArray, from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ConcretizationError, ShapeError
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import max_, min_, modulo, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.cumulative import cumsum
from functrax.core.prims.mapped import reindex_reduce
from functrax.core.prims.reindex import broadcast_in_dim, full, iota
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.core.types.symbolic_sizes import is_symbolic_dim
from functrax.numpy.axes import Shape, as_shape, integer, listed, one_axis
from functrax.numpy.index_plan import Entry
from functrax.numpy.indexing import gather
from functrax.numpy.promote import result, to_array
from functrax.numpy.runs import MOST_RUNS, Run, read_runs
from functrax.numpy.shaping import join, reshape_to, slice_axis
from functrax.typing import ArrayLike, Axes, ShapeLike

__all__ = ["repeat", "resize", "roll", "tile"]


def take_axis(x: Value, axis: int, positions: Value) -> Value:
    """One gather along an axis by an integer array whose values are in range."""
    entries: list[Entry] = [("slice", 0, 1, size) for size in x.aval.shape]
    entries[axis] = ("array", 0, positions.aval.shape)
    return gather(x, entries, [positions])


def is_known(x: Any) -> bool:
    """Whether the value is known while tracing: anything but a traced array."""
    return type(x) is ConcreteArray or not isinstance(x, Array)


def roll(a: ArrayLike, shift: ArrayLike | Sequence[int], axis: Axes = None) -> Array:
    """Moved along ``axis``; what leaves at the end comes in at the front.

    Args:
      a: an array.
      shift: by how many places, or one number for each axis; traced scalars are taken, too.
      axis: an axis or several; None rolls the elements in row-major order.

    Returns:
      An array of the same shape.

    Raises:
      ArgumentError: if there are several shifts and several axes, of different numbers.
      AxisError: for an axis out of range.

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
        return [as_value(n) if is_symbolic_dim(n) else n for n in shift]
    if is_symbolic_dim(shift):
        return [as_value(shift)]
    if is_known(shift):
        return list(np.asarray(shift).reshape(-1))
    flat = reshape_to(shift, (shift.aval.size,))
    return [reshape_to(slice_axis(flat, 0, k, k + 1), ()) for k in range(shift.aval.size)]


def _roll_axis(x: Value, shift: Any, axis: int) -> Value:
    size = x.aval.shape[axis]
    if not size:
        return x
    if not is_known(shift):
        return _roll_traced(x, shift, axis)
    by = integer("roll", "shift", shift) % size
    return read_runs(x, axis, [(size - by, 1, by), (0, 1, size - by)])


def _roll_traced(x: Value, shift: Value, axis: int) -> Value:
    size = x.aval.shape[axis]
    dtype = dtypes.position_dtype(size)
    if shift.aval.dtype.itemsize < dtype.itemsize:
        shift = convert_element_type.bind(shift, dtype=dtype)
    by = convert_element_type.bind(modulo(shift, size), dtype=dtype)
    line = iota.bind(shape=(size,), dtype=dtype, axis=0)
    wide = broadcast_in_dim.bind(by, shape=(size,), dims=())
    return take_axis(x, axis, modulo(sub.bind(line, wide), size))


def tile(A: ArrayLike, reps: ShapeLike) -> Array:
    """The array repeated as a whole, ``reps[k]`` times along axis ``k``.

    Args:
      A: an array.
      reps: a number, or one for each axis; missing ones, in front, are 1.

    Returns:
      An array whose sizes are those of ``A`` times ``reps``.

    Raises:
      ShapeError: for a negative number of repetitions.

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
    a: ArrayLike,
    repeats: ArrayLike | Sequence[int],
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
) -> Array:
    """Each element repeated in place.

    Args:
      a: an array.
      repeats: how often; one number, or one for each element of the axis.
      axis: None repeats the elements in row-major order.
      total_repeat_length: the size of the result's axis, needed if ``repeats`` is traced; what
        exceeds it is cut off, and the last element fills what is missing.

    Returns:
      An array whose size along ``axis`` is the sum of the repeats, or ``total_repeat_length``.

    Raises:
      ConcretizationError: if ``repeats`` is traced and the length is not given.
      ShapeError: if there are several repeats, but not one for each element.
      ArgumentError: for repeats that are negative or no integers.

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
    if counts.size not in (1, size):
        raise _wrong_count(counts.shape, size, axis)
    length = None
    if total_repeat_length is not None:
        length = integer("repeat", "total_repeat_length", total_repeat_length)
        _check_length(length, size)
    if counts.size == 1:
        return _repeat_alike(x, int(counts.reshape(())), axis, length)
    return _repeat_known(x, counts.reshape(-1).astype(np.int64), axis, length)


def _check_length(length: int, size: int) -> None:
    """Refuse lengths that no elements fill.

    Raises:
      ShapeError: if the length is negative, or elements are wanted where there are none.
    """
    if length < 0 or (length and not size):
        raise ShapeError(
            "repeat: elements cannot be repeated to this length",
            got=f"total_repeat_length={length} for {size} elements",
            fix="a length of 0 or more; 0 if there are no elements",
        )


def _wrong_count(shape: Shape, size: int, axis: int) -> ShapeError:
    return ShapeError(
        "repeat: needs one number of repeats, or one for each element",
        got=f"repeats of shape {shape} for {size} elements along axis {axis}",
        fix=f"{size} repeats, or one",
    )


def _repeat_alike(x: Value, count: int, axis: int, length: int | None) -> Value:
    """Each element as often."""
    size = x.aval.shape[axis]
    if length is None:
        return _repeat_each(x, count, axis)
    if count and size * count > length:
        size = -(-length // count)  # those that are read
    wide = _repeat_each(slice_axis(x, axis, 0, size if count else 0), count, axis)
    return _lengthened(wide, x, axis, length)


def _repeat_each(x: Value, count: int, axis: int) -> Value:
    shape = x.aval.shape
    if count == 1:
        return x
    wide = (*shape[: axis + 1], count, *shape[axis + 1 :])
    dims = (*range(axis + 1), *range(axis + 2, len(wide)))
    spread = broadcast_in_dim.bind(x, shape=wide, dims=dims)
    return reshape_to(spread, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def _lengthened(wide: Value, x: Value, axis: int, length: int) -> Value:
    """Repeated elements cut to a length, or followed by the last element of ``x``."""
    made = min(wide.aval.shape[axis], length)
    last = (x.aval.shape[axis] - 1, 0, length - made)
    parts = [slice_axis(wide, axis, 0, made)] if made or not length else []
    return join([*parts, read_runs(x, axis, [last])] if last[2] else parts, axis)


def _repeat_known(x: Value, counts: np.ndarray[Any, Any], axis: int, length: int | None) -> Value:
    """Each element as often as the counts say."""
    size = x.aval.shape[axis]
    made = int(counts.sum())
    others = np.flatnonzero(counts != 1)
    if 2 * len(others) < MOST_RUNS:
        wide = read_runs(x, axis, list(_runs_of_counts(counts, others)))
        return wide if length is None else _lengthened(wide, x, axis, length)
    wanted = made if length is None else length
    if wanted > MOST_RUNS * size:  # a table would be out of proportion to the counts
        return take_axis(x, axis, _repeated_positions(from_numpy(np.cumsum(counts)), wanted))
    line = np.repeat(np.arange(size, dtype=dtypes.position_dtype(size)), counts)[:wanted]
    filled = np.full(wanted - len(line), size - 1, line.dtype)
    return take_axis(x, axis, from_numpy(np.concatenate([line, filled])))


def _runs_of_counts(counts: np.ndarray[Any, Any], others: np.ndarray[Any, Any]) -> Iterator[Run]:
    """The runs of elements repeated, given the places where they are not taken just once."""
    at = 0
    for place in map(int, others):
        yield at, 1, place - at
        yield place, 0, int(counts[place])
        at = place + 1
    yield at, 1, len(counts) - at


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
    counts = reshape_to(convert_element_type.bind(repeats, dtype=dtypes.int64),
                        (repeats.aval.size,))  # fmt: skip
    ends = cumsum.bind(broadcast_in_dim.bind(counts, shape=(size,), dims=(0,)), axis=0,
                       reverse=False)  # fmt: skip
    return take_axis(x, axis, _repeated_positions(ends, length))


def _repeated_positions(ends: Value, length: int) -> Value:
    """For each element of the result, which one it repeats: the first that ends behind it.

    Args:
      ends: for each element where its repetitions end, in int64, which no sum of counts exceeds.
      length: of the result; behind the last end the last element is read.
    """
    size = ends.aval.shape[0]
    found = how_many_before(max_.bind(ends, like(ends, 0)), length, dtypes.position_dtype(size))
    return min_.bind(found, like(found, max(size - 1, 0)))


def how_many_before(places: Value, length: int, dtype: DType) -> Value:
    """For each of ``0, 1, …, length - 1``, how many of the places are at most that.

    Args:
      places: a vector of integers of at least 0.
      length: of the result.
      dtype: of the result, integers.
    """
    size = places.aval.shape[0]
    by_place = IndexMap((size,), (length,), (Load(0, [Dim(0)]),))
    ones = full((size,), literal(1, dtype))
    here = reindex_reduce.bind(ones, places, map=by_place, op="add")
    return cumsum.bind(here, axis=0, reverse=False)


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """The elements in row-major order, repeated or cut off to fill another shape.

    Args:
      a: an array.
      new_shape: an integer or a sequence of sizes.

    Returns:
      An array of that shape; zeros if ``a`` has no elements.

    Raises:
      ShapeError: for negative sizes.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.resize(jnp.array([1, 2, 3]), (2, 2))
      Array([[1, 2],
             [3, 1]], dtype=int32)
    """
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
