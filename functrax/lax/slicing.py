"""Parts of arrays at fixed places, and at places that are computed.

A dynamic slice is a reindex whose map reads its start from an operand; an update of a slice is a
scatter by the same map.  Starts that are Python integers need no operand.  As in jax.lax, a
negative start counts from the end, and a slice that would leave the array is moved inside.

Start at :func:`dynamic_slice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.array import known_index
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.index.expr import Dim, Index, Load
from functrax.core.index.map import IndexMap
from functrax.core.prims import mapped, reindex, slicing
from functrax.core.prims.arithmetic import add, clamp, select_n
from functrax.core.prims.comparisons import lt
from functrax.core.prims.convert import as_positions
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import clipped
from functrax.core.types.symbolic_sizes import integer as as_size, is_symbolic_dim
from functrax.lax.joining import unstack
from functrax.lax.operands import (
    Shape,
    as_array,
    as_ints,
    axis_of,
    check_same_dtype,
    scalar,
    value_of,
)
from functrax.typing import ArrayLike


def slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """``x[start:limit:stride]`` along every axis, for known integers.

    Args:
      operand: an array.
      start_indices: the first index of each axis.
      limit_indices: the index to stop before; at most the size.
      strides: steps above 0; all 1 if omitted.

    Returns:
      An array of the operand's rank and dtype.

    Raises:
      ShapeError, AxisError: if the slice leaves the array.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.slice(np.arange(8), (1,), (7,), (2,))
    Array([1, 3, 5], dtype=int32)
    """
    x = value_of("slice", operand)
    start = as_ints("slice", start_indices, "start_indices")
    limit = as_ints("slice", limit_indices, "limit_indices")
    steps = (1,) * len(start) if strides is None else as_ints("slice", strides, "strides")
    return as_array(slicing.slice_.bind(x, start=start, limit=limit, strides=steps))


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """``x[start:limit:stride]`` along one axis; negative numbers count from the end.

    Args:
      operand: an array.
      start_index: the first index; 0 if None.
      limit_index: the index to stop before; the end if None.
      stride: a step above 0.
      axis: the axis.

    Returns:
      An array of the operand's rank and dtype.

    Raises:
      ShapeError: if the slice leaves the array; NumPy cuts it off.
      AxisError: if the axis is out of range.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.slice_in_dim(np.arange(6), 1, -1, 2)
    Array([1, 3], dtype=int32)
    """
    x = value_of("slice_in_dim", operand)
    place = axis_of("slice_in_dim", x.aval.ndim, axis)
    size = x.aval.shape[place]
    begin = 0 if start_index is None else as_size(start_index)
    end = size if limit_index is None else as_size(limit_index)
    begin, end = begin + size * (begin < 0), end + size * (end < 0)
    start = tuple(begin if i == place else 0 for i in range(x.aval.ndim))
    limit = tuple(end if i == place else n for i, n in enumerate(x.aval.shape))
    strides = tuple(stride if i == place else 1 for i in range(x.aval.ndim))
    return as_array(slicing.slice_.bind(x, start=start, limit=limit, strides=strides))


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The element at a known index of an axis, which becomes 1 or disappears.

    Args:
      operand: an array.
      index: a known integer; negative ones count from the end.
      axis: the axis.
      keepdims: whether the axis stays, with size 1.

    Returns:
      An array of the operand's dtype.

    Raises:
      ArgumentError: if the index is out of range.
      AxisError: if the axis is.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.index_in_dim(np.arange(6).reshape(2, 3), -1, keepdims=False)
    Array([3, 4, 5], dtype=int32)
    """
    x = value_of("index_in_dim", operand)
    place = axis_of("index_in_dim", x.aval.ndim, axis)
    size = x.aval.shape[place]
    number = as_size(index)
    if not -size <= number < size:
        raise ArgumentError(
            "index_in_dim: the index is out of range",
            got=f"index {number} in axis {place} of {x.aval.str_short()}",
            fix=f"from {-size} to {size - 1}" if size else "an axis that is not empty",
        )
    number %= size
    part = slice_in_dim(x, number, number + 1, 1, place)
    return part if keepdims else _without_axis(part, place)


def _without_axis(x: Value, axis: int) -> Array:
    shape = (*x.aval.shape[:axis], *x.aval.shape[axis + 1 :])
    return as_array(reindex.reshape.bind(x, shape=shape))


def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of fixed sizes from a place that may be traced.

    Args:
      operand: an array.
      start_indices: an integer for each axis, or one array of them.  Negative ones count from the
        end; a slice that would leave the array is moved inside.
      slice_sizes: the size along each axis; at most that of the array.
      allow_negative_indices: whether negative starts count from the end; else they are 0.

    Returns:
      An array of shape ``slice_sizes``.

    Raises:
      ShapeError: if the slice is larger than the array, or there is not a start for each axis.
      DTypeError: if a start is not of an integer dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.dynamic_slice(np.arange(5), (np.int32(4),), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    x = value_of("dynamic_slice", operand)
    window = as_ints("dynamic_slice", slice_sizes, "slice_sizes")
    starts = _starts("dynamic_slice", x, start_indices, window, allow_negative_indices)
    if all(isinstance(s, int) for s in starts):
        limit = tuple(s + n for s, n in zip(starts, window, strict=True))
        ones = (1,) * len(window)
        return as_array(slicing.slice_.bind(x, start=tuple(starts), limit=limit, strides=ones))
    index_map, reads = _window_map(x.aval.shape, window, starts)
    return as_array(mapped.reindex.bind(x, *reads, map=index_map, fill=like(x, 0)))


def _starts(
    name: str, x: Value, given: Any, window: Shape, allow_negative: bool | Sequence[bool]
) -> list[Any]:
    """For each axis where the window starts: an int, or an integer scalar."""
    shape = x.aval.shape
    if isinstance(given, (Array, np.ndarray)):
        indices = value_of(name, given)
        given = unstack(indices) if indices.aval.ndim == 1 else (indices,)
    if not len(given) == len(window) == len(shape):
        raise ShapeError(
            f"{name}: a start and a size for each axis are needed",
            got=f"{len(given)} starts and sizes {window} for {x.aval.str_short()}",
            fix="as many starts and sizes as the array has axes",
        )
    if any(not 0 <= w <= n for w, n in zip(window, shape, strict=True)):
        raise ShapeError(
            f"{name}: the slice is larger than the array",
            got=f"sizes {window} for {x.aval.str_short()}",
            fix="sizes from 0 to those of the array",
        )
    flags = [allow_negative] * len(shape) if isinstance(allow_negative, bool) else allow_negative
    return [
        _start(name, start, n, w, flag)
        for start, n, w, flag in zip(given, shape, window, flags, strict=True)
    ]


def _start(name: str, start: Any, size: int, window: int, allow_negative: bool) -> Any:
    last = size - window
    if isinstance(start, (int, np.integer)):
        known = start if is_symbolic_dim(start) else int(start)
        known += size if known < 0 and allow_negative else 0
        return clipped(known, 0, last)
    value = value_of(name, known_index(start))
    if value.aval.shape != () or not dtypes.is_integer(value.aval.dtype):
        raise DTypeError(
            f"{name}: a start is not an integer scalar",
            got=value.aval.str_short(),
            fix="an integer for each axis",
        )
    value = as_positions(value, size)
    if allow_negative and value.aval.dtype in dtypes.SIGNED:
        negative = lt.bind(value, like(value, 0))
        value = select_n.bind(negative, value, add.bind(value, like(value, size)))
    return clamp.bind(like(value, 0), value, like(value, last))


def _window_map(shape: Shape, window: Shape, starts: Sequence[Any]) -> tuple[IndexMap, list[Value]]:
    """The map from points of a window to elements, and the operands that it reads."""
    reads: list[Value] = []
    exprs: list[Index] = []
    for k, start in enumerate(starts):
        if isinstance(start, int):
            exprs.append(Dim(k) + start)
            continue
        exprs.append(Dim(k) + Load(len(reads), ()))
        reads.append(start)
    return IndexMap(window, shape, tuple(exprs)), reads  # type: ignore[arg-type]


def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A slice of fixed size along one axis, whole along the others; see :func:`dynamic_slice`.

    Args:
      operand: an array.
      start_index: an integer, which may be traced, and is moved inside.
      slice_size: the size along the axis; known when tracing.
      axis: the axis.
      allow_negative_indices: as in :func:`dynamic_slice`.

    Returns:
      An array of the operand's rank and dtype.

    Raises:
      ShapeError: if the slice is larger than the array.
      DTypeError: if the start is not an integer.
      AxisError: if the axis is out of range.

    >>> import numpy as np
    >>> from functrax import jit, lax
    >>> jit(lambda x, i: lax.dynamic_slice_in_dim(x, i, 2))(np.arange(5), 1)
    Array([1, 2], dtype=int32)
    """
    x = value_of("dynamic_slice_in_dim", operand)
    place = axis_of("dynamic_slice_in_dim", x.aval.ndim, axis)
    starts = [start_index if i == place else 0 for i in range(x.aval.ndim)]
    window = [slice_size if i == place else n for i, n in enumerate(x.aval.shape)]
    return dynamic_slice(x, starts, window, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The element at an index of an axis; the index may be traced, and is moved inside.

    Args:
      operand: an array.
      index: an integer.
      axis: the axis.
      keepdims: whether the axis stays, with size 1.
      allow_negative_indices: as in :func:`dynamic_slice`.

    Returns:
      An array of the operand's dtype.

    Raises:
      ShapeError: if the axis is empty.
      DTypeError: if the index is not an integer.
      AxisError: if the axis is out of range.

    >>> import numpy as np
    >>> from functrax import jit, lax
    >>> x = np.arange(6).reshape(3, 2)
    >>> jit(lambda x, i: lax.dynamic_index_in_dim(x, i, keepdims=False))(x, 1)
    Array([2, 3], dtype=int32)
    """
    x = value_of("dynamic_index_in_dim", operand)
    place = axis_of("dynamic_index_in_dim", x.aval.ndim, axis)
    part = dynamic_slice_in_dim(x, index, 1, place, allow_negative_indices=allow_negative_indices)
    return part if keepdims else _without_axis(part, place)


def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """The array with a slice replaced, at a place that may be traced.

    Args:
      operand: an array.
      update: an array of the same rank and dtype, at most as large.
      start_indices: as in :func:`dynamic_slice`.
      allow_negative_indices: as in :func:`dynamic_slice`.

    Returns:
      An array like ``operand``.

    Raises:
      ShapeError: if the update is larger than the array, or has another rank.
      DTypeError: if the dtypes differ, or a start is not of an integer dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.dynamic_update_slice(np.arange(5), np.array([7, 8]), (9,))
    Array([0, 1, 2, 7, 8], dtype=int32)
    """
    x, new = value_of("dynamic_update_slice", operand), value_of("dynamic_update_slice", update)
    check_same_dtype(
        "dynamic_update_slice", (x, new), "lax.convert_element_type(update, operand.dtype)"
    )
    window = new.aval.shape
    starts = _starts("dynamic_update_slice", x, start_indices, window, allow_negative_indices)
    index_map, reads = _window_map(x.aval.shape, window, starts)
    return as_array(mapped.scatter.bind(x, new, *reads, map=index_map, op="set", unique=True))


def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The array with a slice along one axis replaced; see :func:`dynamic_update_slice`.

    Args:
      operand: an array.
      update: an array of the same rank and dtype, at most as large.
      start_index: an integer, which may be traced, and is moved inside.
      axis: the axis; the update starts at 0 of the others.
      allow_negative_indices: as in :func:`dynamic_slice`.

    Returns:
      An array like ``operand``.

    Raises:
      ShapeError, DTypeError: as :func:`dynamic_update_slice`.
      AxisError: if the axis is out of range.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.dynamic_update_slice_in_dim(np.arange(5), np.array([7, 8]), 1, axis=0)
    Array([0, 7, 8, 3, 4], dtype=int32)
    """
    x = value_of("dynamic_update_slice_in_dim", operand)
    place = axis_of("dynamic_update_slice_in_dim", x.aval.ndim, axis)
    starts = [start_index if i == place else 0 for i in range(x.aval.ndim)]
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The array with the element at an index of an axis replaced.

    Args:
      operand: an array.
      update: the new element, with or without the axis; a number for arrays of rank 1.
      index: an integer, which may be traced, and is moved inside.
      axis: the axis.
      allow_negative_indices: as in :func:`dynamic_slice`.

    Returns:
      An array like ``operand``.

    Raises:
      ShapeError, DTypeError: as :func:`dynamic_update_slice`.
      AxisError: if the axis is out of range.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.dynamic_update_index_in_dim(np.arange(5), 9, 2, axis=0)
    Array([0, 1, 9, 3, 4], dtype=int32)
    """
    x = value_of("dynamic_update_index_in_dim", operand)
    place = axis_of("dynamic_update_index_in_dim", x.aval.ndim, axis)
    if isinstance(update, (bool, int, float, complex)):
        new = as_array(scalar("dynamic_update_index_in_dim", update, x.aval))
    else:
        new = value_of("dynamic_update_index_in_dim", update)
    if new.aval.ndim != x.aval.ndim:
        shape = new.aval.shape
        new = as_array(reindex.reshape.bind(new, shape=(*shape[:place], 1, *shape[place:])))
    return dynamic_update_slice_in_dim(
        x, new, index, place, allow_negative_indices=allow_negative_indices
    )
