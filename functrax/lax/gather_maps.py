"""Dimension numbers of gathers and scatters, and the index maps that they mean.

Both move windows.  The indices' last axis holds the place of one window; the other axes count the
windows.  A :class:`GatherWindows` says where each axis of the moved array (the result of a gather,
the updates of a scatter) comes from, whichever of the two it describes; :func:`windows_map` writes
that down as an index map from the moved array to the operand.

Start at :class:`GatherWindows`.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.index.expr import Condition, Dim, IndexExpr, Load, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import max_, min_
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.records import record
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.lax.gather_checks import check_windows
from functrax.lax.operands import Shape


class GatherDimensionNumbers(NamedTuple):
    """Which axis of a gather is which (XLA's Gather).

    Args:
      offset_dims: the axes of the result that run through a window.
      collapsed_slice_dims: the operand's axes, of window size 1, that the result lacks.
      start_index_map: for each number in an index, the operand's axis that it is for.
      operand_batching_dims: the operand's axes that are indexed by a batch axis of the indices.
      start_indices_batching_dims: those axes of the indices.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axis of a scatter is which (XLA's Scatter).

    Args:
      update_window_dims: the axes of the updates that run through a window.
      inserted_window_dims: the operand's axes that the updates lack.
      scatter_dims_to_operand_dims: for each number in an index, the operand's axis it is for.
      operand_batching_dims: the operand's axes that are indexed by a batch axis of the indices.
      scatter_indices_batching_dims: those axes of the indices.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """What becomes of windows that leave the array.

    ``CLIP`` moves them inside.  ``FILL_OR_DROP`` gathers a fill value, and scatters nothing.
    ``PROMISE_IN_BOUNDS`` says that there are none (those there are behave as in FILL_OR_DROP).
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3

    @staticmethod
    def from_any(given: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode that a name stands for; FILL_OR_DROP for None."""
        if isinstance(given, GatherScatterMode):
            return given
        found = _MODES.get(given)
        if found is None:
            names = ", ".join(repr(n) for n in _MODES if n)
            raise ArgumentError("gather or scatter: unknown mode", got=repr(given), fix=names)
        return found


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


@record
class GatherWindows:
    """How windows are moved, of a gather and of a scatter alike.

    Args:
      operand: the operand's shape.
      indices: the indices' shape; the last axis holds one index.
      moved: the shape of the result of a gather, or of the updates of a scatter.
      window: the window's size along each axis of the operand.
      window_dims: the moved array's axes that run through a window.
      dropped: the operand's axes that the moved array lacks.
      index_dims: for each number in an index the operand's axis that it is for.
      operand_batch: the operand's axes that are indexed by the indices' batch axes.
      indices_batch: those axes of the indices.
    """

    operand: Shape
    indices: Shape
    moved: Shape
    window: Shape
    window_dims: Shape
    dropped: Shape
    index_dims: Shape
    operand_batch: Shape
    indices_batch: Shape

    @property
    def limits(self) -> list[int]:
        """For each number in an index, the last place at which the window is inside."""
        return [self.operand[a] - self.window[a] for a in self.index_dims]

    def check(self, name: str) -> None:
        """Refuse numbers that do not fit the arrays."""
        check_windows(name, self)

    @property
    def absent(self) -> tuple[int, ...]:
        """The operand's axes that are not window axes."""
        return (*self.dropped, *self.operand_batch)


@functools.lru_cache(maxsize=1024)
def windows_map(windows: GatherWindows, bounded: bool) -> IndexMap:
    """The map from the moved array to the operand; it reads the indices as operand 0.

    Args:
      bounded: whether a window that leaves the array is left out as a whole; else only what
        is outside of the array is.
    """
    counting = [Dim(k) for k in range(len(windows.moved)) if k not in windows.window_dims]
    places: dict[int, IndexExpr] = {}
    conditions: list[Condition] = []
    for number, (axis, limit) in enumerate(zip(windows.index_dims, windows.limits, strict=True)):
        places[axis] = Load(0, (*counting, number))
        if bounded and windows.window[axis] > 1:
            conditions += [places[axis] >= 0, places[axis] <= limit]
    for axis, by in zip(windows.operand_batch, windows.indices_batch, strict=True):
        places[axis] = places.get(axis, as_expr(0)) + counting[by]
    through = iter(windows.window_dims)
    exprs = []
    for axis in range(len(windows.operand)):
        expr = places.get(axis, as_expr(0))
        exprs.append(expr if axis in windows.absent else expr + Dim(next(through)))
    return IndexMap(windows.moved, windows.operand, tuple(exprs), tuple(conditions))


def clipped(windows: GatherWindows, indices: Value) -> Value:
    """The indices, moved to where the windows are inside of the array."""
    largest = np.iinfo(indices.aval.dtype).max
    limits = [min(limit, largest) for limit in windows.limits]
    if not limits:
        return indices
    highest: Value = like(indices, limits[0])
    if len(set(limits)) > 1:
        row = from_numpy(np.asarray(limits, indices.aval.dtype))
        shape = indices.aval.shape
        highest = broadcast_in_dim.bind(row, shape=shape, dims=(len(shape) - 1,))
    return max_.bind(min_.bind(indices, highest), like(indices, 0))


def check_indices(name: str, indices: Value) -> None:
    """Refuse indices that are not integers."""
    if not dtypes.is_integer(indices.aval.dtype):
        raise DTypeError(
            f"{name}: the indices are not integers",
            got=indices.aval.str_short(),
            fix="lax.convert_element_type(indices, 'int32')",
        )


def gather_windows(
    operand: Shape, indices: Shape, numbers: GatherDimensionNumbers, window: Shape
) -> GatherWindows:
    """The windows of a gather."""
    absent = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    through = iter(n for a, n in enumerate(window) if a not in absent)
    counting = iter(indices[:-1])
    rank = max(len(indices) - 1, 0) + len(numbers.offset_dims)
    moved = tuple(next(through if k in numbers.offset_dims else counting, 0) for k in range(rank))
    return GatherWindows(
        operand,
        indices,
        moved,
        window,
        tuple(numbers.offset_dims),
        tuple(numbers.collapsed_slice_dims),
        tuple(numbers.start_index_map),
        tuple(numbers.operand_batching_dims),
        tuple(numbers.start_indices_batching_dims),
    )


def scatter_windows(
    operand: Shape, indices: Shape, updates: Shape, numbers: ScatterDimensionNumbers
) -> GatherWindows:
    """The windows of a scatter; their sizes are those of the updates."""
    absent = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    through = iter(updates[k] for k in numbers.update_window_dims if k < len(updates))
    window = tuple(1 if a in absent else next(through, 0) for a in range(len(operand)))
    return GatherWindows(
        operand,
        indices,
        updates,
        window,
        tuple(numbers.update_window_dims),
        tuple(numbers.inserted_window_dims),
        tuple(numbers.scatter_dims_to_operand_dims),
        tuple(numbers.operand_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )


def default_fill(dtype: np.dtype[Any]) -> Any:
    """What a gather fills with: NaN, the lowest signed, the largest unsigned integer, or True."""
    if dtype == dtypes.bool_:
        return True
    if dtypes.is_inexact(dtype):
        return np.nan
    info = dtypes.iinfo(dtype)
    return info.max if dtype in dtypes.UNSIGNED else info.min
