"""``unique`` and its four kin: each value of an array once, with positions and counts.

The array is sorted; where an element differs from the one before it, a group begins.  How many
groups there are is a shape that depends on values: either the array is known while tracing, or
the caller gives the ``size`` of the result.

Start at :func:`unique`.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ConcretizationError, ShapeError
from functrax.core.prims.arithmetic import stop_gradient
from functrax.core.prims.ordering import sort as sort_p
from functrax.core.prims.reindex import iota
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy import reductions
from functrax.numpy.at import At
from functrax.numpy.axes import integer, one_axis
from functrax.numpy.creation import array
from functrax.numpy.cumulative import cumsum
from functrax.numpy.filling import full, zeros
from functrax.numpy.joining import concatenate
from functrax.numpy.logic import where
from functrax.numpy.promote import broadcast_value, convert, result, to_array
from functrax.numpy.rearranging import is_known, take_axis
from functrax.numpy.searching import nonzero
from functrax.numpy.shaping import moveaxis, ravel, reshape_to
from functrax.typing import ArrayLike

__all__ = ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


@overload
def unique(
    ar: ArrayLike,
    return_index: Literal[False] = ...,
    return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ...,
    axis: int | None = ...,
    *,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: bool = ...,
) -> Array: ...
@overload
def unique(
    ar: ArrayLike,
    *,
    return_index: Literal[True],
    return_inverse: bool = ...,
    return_counts: bool = ...,
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: bool = ...,
) -> tuple[Array, ...]: ...
@overload
def unique(
    ar: ArrayLike,
    return_index: bool = ...,
    *,
    return_inverse: Literal[True],
    return_counts: bool = ...,
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: bool = ...,
) -> tuple[Array, ...]: ...
@overload
def unique(
    ar: ArrayLike,
    return_index: bool = ...,
    return_inverse: bool = ...,
    *,
    return_counts: Literal[True],
    axis: int | None = ...,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: bool = ...,
) -> tuple[Array, ...]: ...
@overload
def unique(
    ar: ArrayLike,
    return_index: bool = ...,
    return_inverse: bool = ...,
    return_counts: bool = ...,
    axis: int | None = ...,
    *,
    equal_nan: bool = ...,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
    sorted: bool = ...,
) -> Array | tuple[Array, ...]: ...
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The different elements of an array in order, or its different slices along an axis.

    Args:
      ar: an array or a scalar.
      return_index: also give the position at which each appears first.
      return_inverse: also give, for each element of ``ar``, its position in the result.
      return_counts: also give how often each appears.
      axis: None takes the elements in row-major order.
      equal_nan: whether NaNs are equal to each other.
      size: the number of values in the result; needed if ``ar`` is traced.  Further values are
        left out, missing ones filled up; their counts are 0.
      fill_value: for values that are missing; the first value if None.
      sorted: accepted; the result is always in order.

    Returns:
      The values, or a tuple that begins with them; positions and counts are default integers.

    Raises:
      ConcretizationError: if ``ar`` is traced and there is no size.
      ShapeError: if there is nothing to fill up an empty result with.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
      (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = to_array("unique", ar)
    found = _unique("unique", x, axis, equal_nan, size, fill_value)
    wanted = (True, return_index, return_inverse, return_counts)
    outs = tuple(f() if callable(f) else f for f, w in zip(found, wanted, strict=True) if w)
    return outs if len(outs) > 1 else outs[0]


def _unique(
    name: str, x: Value, axis: int | None, equal_nan: bool, size: Any, fill_value: Any
) -> tuple[Any, ...]:
    """The values, and functions that give the positions, the inverse and the counts."""
    k = None if axis is None else one_axis(name, axis, x.aval.ndim)
    slices = reshape_to(x, (x.aval.size,)) if k is None else moveaxis(x, k, 0)
    n, rest = slices.aval.shape[0], slices.aval.shape[1:]
    order, starts = _groups(slices, n, math.prod(rest), equal_nan)
    count = _count(name, x, starts, size)
    if not n and count and fill_value is None:
        raise ShapeError(
            f"{name}: there is no value to fill the result up with",
            got=f"size={count} for {x.aval.str_short()}",
            fix="fill_value=...",
        )
    (where_starts,) = nonzero(starts, size=count)
    first = take_axis(order, 0, where_starts) if n else where_starts
    number = result(cumsum(starts, dtype=dtypes.default_int()) - 1)  # of the group, in order

    def index() -> Value:
        return convert(first, dtypes.default_int())

    def inverse() -> Value:
        positions = At(zeros((n,), dtypes.default_int()))[order].set(number)
        return reshape_to(positions, x.aval.shape) if k is None else positions

    def counts() -> Value:
        return At(zeros((count,), dtypes.default_int()))[number].add(1)

    if not n:
        values = full((count, *rest), 0 if fill_value is None else fill_value, x.aval.dtype)
    else:
        values = take_axis(slices, 0, first)
        if fill_value is not None and count:
            wide = dtypes.position_dtype(max(n, count))
            present = iota.bind(shape=(count,), dtype=wide, axis=0)
            present = present < reductions.sum(starts, dtype=wide)
            present = reshape_to(present, (count, *[1] * len(rest)))
            fill = broadcast_value(convert(array(fill_value), x.aval.dtype), values.aval.shape)
            values = where(present, values, fill)
    return values if k is None else moveaxis(values, 0, k), index, inverse, counts


def _groups(slices: Value, n: int, width: int, equal_nan: bool) -> tuple[Value, Value]:
    """The order of the slices, and which of them, in order, differ from the one before."""
    flat = reshape_to(stop_gradient.bind(slices), (n, width))
    line = iota.bind(shape=(n,), dtype=dtypes.position_dtype(n), axis=0)
    if not width:  # slices without elements are all equal
        return line, line < 1
    if equal_nan and flat.aval.dtype in dtypes.COMPLEX:  # NaN in either part is one NaN, the last
        flat = where(flat != flat, complex(np.nan, np.nan), flat)
    columns = [result(flat[:, i]) for i in range(width)]
    *ordered, order = sort_p.bind(
        *columns, line, dimension=0, is_stable=True, num_keys=len(columns)
    )
    differs = full((max(n - 1, 0),), False)
    for column in ordered:
        before, after = column[:-1], column[1:]
        other = before != after
        if equal_nan and dtypes.is_inexact(column.aval.dtype):
            other = other & ~((before != before) & (after != after))
        differs = differs | other
    return order, concatenate([full((min(n, 1),), True), differs])


def _count(name: str, x: Value, starts: Value, size: Any) -> int:
    if size is not None:
        return integer(name, "size", size)
    if not is_known(starts):
        raise ConcretizationError(
            f"{name}: the shape of the result depends on the values of a traced array",
            got=x.aval.str_short(),
            fix="size=..., the number of values in the result",
        )
    return int(np.asarray(starts).sum())


class UniqueAll(NamedTuple):
    """What :func:`unique_all` gives."""

    values: Value
    indices: Value
    inverse_indices: Value
    counts: Value


class UniqueCounts(NamedTuple):
    """What :func:`unique_counts` gives."""

    values: Value
    counts: Value


class UniqueInverse(NamedTuple):
    """What :func:`unique_inverse` gives."""

    values: Value
    inverse_indices: Value


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAll:
    """The array API's :func:`unique` with all of its results; NaNs differ from each other.

    Args:
      x: an array or a scalar.
      size: the number of values in the result; needed if ``x`` is traced.
      fill_value: for values that are missing; the first value if None.

    Returns:
      A named tuple: ``values``, ``indices`` where each appears first, ``inverse_indices`` of the
      shape of ``x``, and ``counts``.

    Raises:
      ConcretizationError: if ``x`` is traced and there is no size.
      ShapeError: if there is nothing to fill up an empty result with.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unique_all(jnp.array([3, 1, 3])).indices
      Array([1, 0], dtype=int32)
    """
    return UniqueAll(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCounts:
    """The array API's :func:`unique` with counts; NaNs differ from each other.

    Args:
      x: an array or a scalar.
      size: the number of values in the result; needed if ``x`` is traced.
      fill_value: for values that are missing; the first value if None.

    Returns:
      A named tuple: ``values`` and ``counts``.

    Raises:
      ConcretizationError: if ``x`` is traced and there is no size.
      ShapeError: if there is nothing to fill up an empty result with.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
      Array([1, 2], dtype=int32)
    """
    return UniqueCounts(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverse:
    """The array API's :func:`unique` with inverse positions; NaNs differ from each other.

    Args:
      x: an array or a scalar.
      size: the number of values in the result; needed if ``x`` is traced.
      fill_value: for values that are missing; the first value if None.

    Returns:
      A named tuple: ``values``, and ``inverse_indices`` of the shape of ``x``.

    Raises:
      ConcretizationError: if ``x`` is traced and there is no size.
      ShapeError: if there is nothing to fill up an empty result with.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
      Array([1, 0, 1], dtype=int32)
    """
    return UniqueInverse(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The array API's :func:`unique`; NaNs differ from each other.

    Args:
      x: an array or a scalar.
      size: the number of values in the result; needed if ``x`` is traced.
      fill_value: for values that are missing; the first value if None.

    Returns:
      A vector, in order.

    Raises:
      ConcretizationError: if ``x`` is traced and there is no size.
      ShapeError: if there is nothing to fill up an empty result with.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unique_values(jnp.array([3, 1, 3]))
      Array([1, 3], dtype=int32)
    """
    return ravel(unique(x, equal_nan=False, size=size, fill_value=fill_value))
