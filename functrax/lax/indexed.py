"""Gathers and scatters with XLA's dimension numbers, as reindexes by maps that read the indices.

A gather is ``reindex``, a scatter is ``scatter``, and the map is the same for both; see
``functrax.lax.gather_maps``, where the dimension numbers are explained.

Start at :func:`gather`.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from functrax.core.arrays.array import known_index
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.index.map import IndexMap
from functrax.core.prims import mapped
from functrax.core.prims.arithmetic import modulo, neg
from functrax.core.prims.convert import as_positions, convert_element_type
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.lax.gather_maps import (
    GatherDimensionNumbers,
    GatherScatterMode,
    GatherWindows,
    ScatterDimensionNumbers,
    check_indices,
    clipped,
    default_fill,
    gather_windows,
    scatter_windows,
    windows_map,
)
from functrax.lax.operands import (
    as_array,
    as_ints,
    axes_of,
    check_same_dtype,
    static_scalar,
    value_of,
)
from functrax.typing import ArrayLike

F = TypeVar("F", bound="Callable[..., Array]")
Mode: TypeAlias = "str | GatherScatterMode | None"


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Mode = None,
    fill_value: complex | None = None,
) -> Array:
    """Windows of an array, at the places that another array holds.

    Args:
      operand: an array.
      start_indices: an integer array; its last axis holds where one window starts.
      dimension_numbers: which axis is which.
      slice_sizes: the window's size along each axis of the operand.
      unique_indices: accepted as in jax.lax.
      indices_are_sorted: accepted as in jax.lax.
      mode: ``"clip"`` (if omitted), ``"fill"`` or ``"promise_in_bounds"``; see
        :class:`GatherScatterMode`.  Negative indices are out of bounds.
      fill_value: what windows out of bounds hold; NaN for floats, the lowest signed and the
        largest unsigned integer, and True, if omitted.

    Returns:
      An array of the operand's dtype: the axes of ``start_indices`` but the last, and at
        ``offset_dims`` those of the windows.

    Raises:
      ShapeError: if the dimension numbers do not fit the arrays.
      DTypeError: if the indices are not integers.

    >>> import numpy as np
    >>> from functrax import lax
    >>> rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> lax.gather(np.arange(6).reshape(3, 2), np.array([[2], [0]]), rows, (1, 2))
    Array([[4, 5],
           [0, 1]], dtype=int32)
    """
    x, indices = value_of("gather", operand), value_of("gather", known_index(start_indices))
    check_indices("gather", indices)
    how = GatherScatterMode.CLIP if mode is None else GatherScatterMode.from_any(mode)
    window = as_ints("gather", slice_sizes, "slice_sizes")
    windows = gather_windows(x.aval.shape, indices.aval.shape, dimension_numbers, window)
    windows.check("gather")
    fill = like(x, 0)
    if how is GatherScatterMode.FILL_OR_DROP:
        value = default_fill(x.aval.dtype) if fill_value is None else fill_value
        fill = static_scalar("gather", value, x.aval.dtype)
    indices, index_map = _prepared(windows, indices, how)
    return as_array(mapped.reindex.bind(x, indices, map=index_map, fill=fill))


def _prepared(
    windows: GatherWindows, indices: Value, how: GatherScatterMode
) -> tuple[Value, IndexMap]:
    if how is GatherScatterMode.CLIP:
        indices = clipped(windows, indices)
    return indices, windows_map(windows, how is GatherScatterMode.FILL_OR_DROP)


def _scatter(
    name: str,
    op: str,
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    unique_indices: bool,
    mode: Mode,
) -> Array:
    x, indices = value_of(name, operand), value_of(name, known_index(scatter_indices))
    new = value_of(name, updates)
    check_indices(name, indices)
    check_same_dtype(name, (x, new), "lax.convert_element_type(updates, operand.dtype)")
    shapes = (x.aval.shape, indices.aval.shape, new.aval.shape)
    windows = scatter_windows(*shapes, dimension_numbers)
    windows.check(name)
    indices, index_map = _prepared(windows, indices, GatherScatterMode.from_any(mode))
    out = mapped.scatter.bind(x, new, indices, map=index_map, op=op, unique=bool(unique_indices))
    return as_array(out)


_SCATTER_DOC = """{summary}

    Args:
      operand: an array.
      scatter_indices: an integer array; its last axis holds where one window starts.
      updates: an array of the operand's dtype, the windows.
      dimension_numbers: which axis is which.
      indices_are_sorted: accepted as in jax.lax.
      unique_indices: a promise that no element is updated twice; saves work in derivatives.
      mode: ``"clip"``, ``"drop"`` (if omitted) or ``"promise_in_bounds"``; see
        :class:`GatherScatterMode`.  Negative indices are out of bounds.

    Returns:
      An array like the operand.

    Raises:
      ShapeError: if the dimension numbers do not fit the arrays.
      DTypeError: if the indices are not integers, or the dtypes differ.

    >>> import numpy as np
    >>> from functrax import lax
    >>> rows, places = lax.ScatterDimensionNumbers((), (0,), (0,)), np.array([[0], [2]])
    >>> lax.{name}(np.array([5, 6, 7]), places, np.array([2, 9]), rows)
    Array({shown}, dtype=int32)
    """


def _scatter_function(op: str, shown: str) -> Callable[[F], F]:
    """What gives a function its body, and its documentation the sections after the summary."""

    def decorate(template: F) -> F:
        name = template.__name__

        def scatter_function(
            operand: ArrayLike,
            scatter_indices: ArrayLike,
            updates: ArrayLike,
            dimension_numbers: ScatterDimensionNumbers,
            *,
            indices_are_sorted: bool = False,
            unique_indices: bool = False,
            mode: Mode = None,
        ) -> Array:
            return _scatter(
                name,
                op,
                operand,
                scatter_indices,
                updates,
                dimension_numbers,
                unique_indices,
                mode,
            )

        scatter_function.__name__ = scatter_function.__qualname__ = name
        summary = template.__doc__
        scatter_function.__doc__ = _SCATTER_DOC.format(name=name, summary=summary, shown=shown)
        return cast(F, scatter_function)

    return decorate


@_scatter_function("set", "[2, 6, 9]")
def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """Put windows at places; of several for one element the last stays."""


@_scatter_function("add", "[ 7,  6, 16]")
def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """Add windows at places."""


@_scatter_function("mul", "[10,  6, 63]")
def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """Multiply windows into places."""


@_scatter_function("min", "[2, 6, 7]")
def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """The smaller of elements and windows."""


@_scatter_function("max", "[5, 6, 9]")
def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """The larger of elements and windows."""


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """Subtract windows at places; the arguments are those of :func:`scatter`.

    Args:
      operand: an array.
      scatter_indices: an integer array; its last axis holds where one window starts.
      updates: an array of the operand's dtype, the windows.
      dimension_numbers: which axis is which.
      indices_are_sorted: accepted as in jax.lax.
      unique_indices: as for :func:`scatter`.
      mode: as for :func:`scatter`.

    Returns:
      An array like the operand.

    Raises:
      ShapeError, DTypeError: as for :func:`scatter`.

    >>> import numpy as np
    >>> from functrax import lax
    >>> rows = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.scatter_sub(np.array([5, 6, 7]), np.array([[0], [2]]), np.array([1, 2]), rows)
    Array([4, 6, 5], dtype=int32)
    """
    minus = neg.bind(value_of("scatter_sub", updates))
    return _scatter(
        "scatter_sub",
        "add",
        operand,
        scatter_indices,
        minus,
        dimension_numbers,
        unique_indices,
        mode,
    )


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Array], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """Replace elements by a function of them.

    Args:
      operand: an array.
      scatter_indices: an integer array; its last axis holds where one window starts.
      func: an elementwise function of arrays.
      dimension_numbers: which axis is which.
      update_shape: the shape that updates would have.
      indices_are_sorted: accepted as in jax.lax.
      unique_indices: a promise that no element is meant twice; ``func`` is applied to an element
        once even if it is.
      mode: as in :func:`scatter`.

    Returns:
      An array like the operand.

    Raises:
      ShapeError: if the dimension numbers do not fit the arrays.
      DTypeError: if the indices are not integers, or ``func`` changes the dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> rows = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> square, places = lambda x: x * x, np.array([[0], [2]])
    >>> lax.scatter_apply(np.array([5, 6, 7]), places, square, rows, update_shape=(2,))
    Array([25,  6, 49], dtype=int32)
    """
    name = "scatter_apply"
    x, indices = value_of(name, operand), value_of(name, known_index(scatter_indices))
    check_indices(name, indices)
    shape = as_ints(name, update_shape, "update_shape")
    windows = scatter_windows(x.aval.shape, indices.aval.shape, shape, dimension_numbers)
    windows.check(name)
    indices, index_map = _prepared(windows, indices, GatherScatterMode.from_any(mode))
    old = mapped.reindex.bind(x, indices, map=index_map, fill=like(x, 0))
    new = value_of(name, func(as_array(old)))
    check_same_dtype(name, (x, new), "a function that returns the dtype it takes")
    out = mapped.scatter.bind(x, new, indices, map=index_map, op="set", unique=bool(unique_indices))
    return as_array(out)


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """Slices of an array, at the places that vectors of indices name along some axes.

    Args:
      src: an array.
      idxs: for each of the axes an integer array, all of one shape ``(n,)``.  An index counts
        modulo the axis' size, so negative ones count from the end.
      axes: the axes; the slices lack them.

    Returns:
      Shape ``(n, *shape of src without the axes)``.

    Raises:
      DTypeError, ShapeError: if the indices are no integers, or differ in shape.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.index_take(np.arange(6).reshape(2, 3), (np.array([1, 0, -1]),), (0,))
    Array([[3, 4, 5],
           [0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    name = "index_take"
    x = value_of(name, src)
    places = axes_of(name, x.aval.ndim, axes)
    rows = [value_of(name, known_index(i)) for i in idxs]
    for row in rows:
        check_indices(name, row)
    if len({r.aval.shape for r in rows}) != 1 or rows[0].aval.ndim != 1 or len(rows) != len(places):
        raise ShapeError(
            f"{name}: not one vector of indices for each axis",
            got=f"{', '.join(r.aval.str_short() for r in rows) or 'none'} for axes {places}",
            fix="as many arrays of rank 1 as axes, of one size",
        )
    columns = []
    for row, axis in zip(rows, places, strict=True):
        size = max(x.aval.shape[axis], 1)
        inside = modulo(as_positions(row, size), size)
        columns.append(reshape.bind(inside, shape=(*row.aval.shape, 1)))
    longest = dtypes.position_dtype(max(x.aval.shape))
    kind = longest if longest == dtypes.int64 else dtypes.default_int()
    wide = [convert_element_type.bind(c, dtype=kind, weak_type=False) for c in columns]
    window = tuple(1 if a in places else n for a, n in enumerate(x.aval.shape))
    offsets = tuple(range(1, x.aval.ndim - len(places) + 1))
    numbers = GatherDimensionNumbers(offsets, tuple(sorted(places)), places)
    return gather(x, concatenate.bind(*wide, axis=1), numbers, window)
