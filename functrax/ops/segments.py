"""Reductions over segments: sums, products, minima and maxima of the elements with one number.

The names that JAX removed in favour of ``x.at[...]`` are here too: ``index``, ``index_update``
and its kin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from functrax import numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import (
    ConcretizationError,
    DTypeError,
    ShapeError,
    TracerIntegerConversionError,
)
from functrax.core.types import dtypes
from functrax.numpy.rearranging import is_known
from functrax.typing import ArrayLike

if TYPE_CHECKING:
    from functrax.lax.gather_maps import GatherScatterMode

index = np.s_


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Sums of the elements with one number: ``out[s] = sum(data[i] for i with ids[i] == s)``.

    Args:
      data: elements along the first axis, ``[n, ...]``.
      segment_ids: the number of the segment of each, ``int[n]`` (or more leading axes of
        ``data``); elements whose number is negative or too large are left out.
      num_segments: the number of segments, which has to be given inside ``jit``; the largest
        number plus one if None.
      indices_are_sorted: accepted for compatibility.
      unique_indices: accepted for compatibility.
      bucket_size: accepted for compatibility.
      mode: of ``at``, for numbers that are too large; ``"drop"`` if None.

    Returns:
      ``[num_segments, ...]``; zeros for a segment without elements.

    Raises:
      DTypeError: if the numbers are no integers.
      ShapeError: if there are more numbers than elements.

    Example:
      >>> segment_sum(jnp.array([1.0, 2.0, 4.0]), jnp.array([0, 1, 0]), 3)
      Array([5., 2., 0.], dtype=float32)
    """
    at, values = _segments("segment_sum", data, segment_ids, num_segments, 0)
    return at.add(values, mode=mode or "drop")


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """Products of the elements with one number.

    Args:
      data: elements along the first axis, ``[n, ...]``.
      segment_ids: the number of the segment of each, ``int[n]`` (or more leading axes of
        ``data``); elements whose number is negative or too large are left out.
      num_segments: the number of segments, which has to be given inside ``jit``; the largest
        number plus one if None.
      indices_are_sorted, unique_indices, bucket_size: accepted for compatibility.
      mode: of ``at``, for numbers that are too large; ``"drop"`` if None.

    Returns:
      ``[num_segments, ...]``; 1 for a segment without elements.

    Raises:
      DTypeError: if the numbers are no integers.
      ShapeError: if there is not one number for each element.
      ConcretizationError: if the number of segments is left out, and the numbers are traced.

    Example:
      >>> segment_prod(jnp.array([3.0, 2.0, 4.0]), jnp.array([0, 1, 0]), 3)
      Array([12.,  2.,  1.], dtype=float32)
    """
    at, values = _segments("segment_prod", data, segment_ids, num_segments, 1)
    return at.multiply(values, mode=mode or "drop")


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """The greatest of the elements with one number.

    Args:
      data: elements along the first axis, ``[n, ...]``.
      segment_ids: the number of the segment of each, ``int[n]`` (or more leading axes of
        ``data``); elements whose number is negative or too large are left out.
      num_segments: the number of segments, which has to be given inside ``jit``; the largest
        number plus one if None.
      indices_are_sorted, unique_indices, bucket_size: accepted for compatibility.
      mode: of ``at``, for numbers that are too large; ``"drop"`` if None.

    Returns:
      ``[num_segments, ...]``; minus infinity, or the least integer, for a segment without elements.

    Raises:
      DTypeError: if the numbers are no integers.
      ShapeError: if there is not one number for each element.
      ConcretizationError: if the number of segments is left out, and the numbers are traced.

    Example:
      >>> segment_max(jnp.array([3.0, 2.0, 4.0]), jnp.array([0, 1, 0]), 3)
      Array([  4.,   2., -inf], dtype=float32)
    """
    least = _limit(jnp.asarray(data).dtype, lowest=True)
    at, values = _segments("segment_max", data, segment_ids, num_segments, least)
    return at.max(values, mode=mode or "drop")


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """The least of the elements with one number.

    Args:
      data: elements along the first axis, ``[n, ...]``.
      segment_ids: the number of the segment of each, ``int[n]`` (or more leading axes of
        ``data``); elements whose number is negative or too large are left out.
      num_segments: the number of segments, which has to be given inside ``jit``; the largest
        number plus one if None.
      indices_are_sorted, unique_indices, bucket_size: accepted for compatibility.
      mode: of ``at``, for numbers that are too large; ``"drop"`` if None.

    Returns:
      ``[num_segments, ...]``; infinity, or the greatest integer, for a segment without elements.

    Raises:
      DTypeError: if the numbers are no integers.
      ShapeError: if there is not one number for each element.
      ConcretizationError: if the number of segments is left out, and the numbers are traced.

    Example:
      >>> segment_min(jnp.array([3.0, 2.0, 4.0]), jnp.array([0, 1, 0]), 3)
      Array([ 3.,  2., inf], dtype=float32)
    """
    greatest = _limit(jnp.asarray(data).dtype, lowest=False)
    at, values = _segments("segment_min", data, segment_ids, num_segments, greatest)
    return at.min(values, mode=mode or "drop")


def _segments(name: str, data: Any, ids: Any, num_segments: int | None, empty: Any) -> Any:
    """The ``at`` of an array full of ``empty``, and the elements to be put there."""
    values, numbers = jnp.asarray(data), jnp.asarray(ids)
    if not dtypes.is_integer(numbers.dtype):
        raise DTypeError(
            f"{name}: the numbers of the segments are integers",
            got=numbers.aval.str_short(),
            fix="segment_ids.astype(int)",
        )
    rank = numbers.ndim
    if values.shape[:rank] != numbers.shape:
        raise ShapeError(
            f"{name}: the elements do not have one number each",
            got=f"elements {values.aval.str_short()}, numbers {numbers.aval.str_short()}",
            fix=f"segment_ids of shape {values.shape[: max(rank, 1)]}",
        )
    if num_segments is None:
        # Known numbers stay known while a program is traced: they are not traced themselves.
        known = np.asarray(numbers) if is_known(numbers) else numbers
        try:
            num_segments = int(known.max(initial=-1)) + 1
        except TracerIntegerConversionError:
            raise ConcretizationError(
                f"{name}: how many segments there are depends on the values of a traced array",
                got=f"segment_ids {numbers.aval.str_short()}, num_segments=None",
                fix="num_segments=..., a number that is known",
            ) from None
    # A negative index would count from the end.
    beyond = jnp.where(numbers < 0, num_segments, numbers)
    full = jnp.full((num_segments, *values.shape[rank:]), empty, values.dtype)
    return full.at[beyond], values


def _limit(dtype: Any, lowest: bool) -> Any:
    """The least or the greatest value of a dtype."""
    if dtypes.is_bool(dtype):
        return not lowest
    if dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        return np.asarray(info.min if lowest else info.max, dtype)
    return -np.inf if lowest else np.inf


def index_update(x: ArrayLike, idx: Any, y: ArrayLike) -> Array:
    """``x.at[idx].set(y)``, which replaced it.

    Args:
      x: an array.
      idx: what ``x[idx]`` takes.
      y: an array that broadcasts to ``x[idx]``.

    Returns:
      An array like ``x``.

    Raises:
      DTypeError: for an index of another dtype.
      ShapeError: if the shapes do not go together.

    Example:
      >>> index_update(jnp.array([3, 4, 5]), index[1:], 9)
      Array([3, 9, 9], dtype=int32)
    """
    return jnp.asarray(x).at[idx].set(y)


def index_add(x: ArrayLike, idx: Any, y: ArrayLike) -> Array:
    """``x.at[idx].add(y)``, which replaced it.

    Args:
      x: an array.
      idx: what ``x[idx]`` takes.
      y: an array that broadcasts to ``x[idx]``.

    Returns:
      An array like ``x``.

    Raises:
      DTypeError: for an index of another dtype.
      ShapeError: if the shapes do not go together.

    Example:
      >>> index_add(jnp.array([3, 4, 5]), index[1:], 2)
      Array([3, 6, 7], dtype=int32)
    """
    return jnp.asarray(x).at[idx].add(y)


def index_mul(x: ArrayLike, idx: Any, y: ArrayLike) -> Array:
    """``x.at[idx].multiply(y)``, which replaced it.

    Args:
      x: an array.
      idx: what ``x[idx]`` takes.
      y: an array that broadcasts to ``x[idx]``.

    Returns:
      An array like ``x``.

    Raises:
      DTypeError: for an index of another dtype.
      ShapeError: if the shapes do not go together.

    Example:
      >>> index_mul(jnp.array([3, 4, 5]), index[1:], 2)
      Array([ 3,  8, 10], dtype=int32)
    """
    return jnp.asarray(x).at[idx].multiply(y)


def index_min(x: ArrayLike, idx: Any, y: ArrayLike) -> Array:
    """``x.at[idx].min(y)``, which replaced it.

    Args:
      x: an array.
      idx: what ``x[idx]`` takes.
      y: an array that broadcasts to ``x[idx]``.

    Returns:
      An array like ``x``.

    Raises:
      DTypeError: for an index of another dtype.
      ShapeError: if the shapes do not go together.

    Example:
      >>> index_min(jnp.array([3, 4, 5]), index[1:], 4)
      Array([3, 4, 4], dtype=int32)
    """
    return jnp.asarray(x).at[idx].min(y)


def index_max(x: ArrayLike, idx: Any, y: ArrayLike) -> Array:
    """``x.at[idx].max(y)``, which replaced it.

    Args:
      x: an array.
      idx: what ``x[idx]`` takes.
      y: an array that broadcasts to ``x[idx]``.

    Returns:
      An array like ``x``.

    Raises:
      DTypeError: for an index of another dtype.
      ShapeError: if the shapes do not go together.

    Example:
      >>> index_max(jnp.array([3, 4, 5]), index[1:], 5)
      Array([3, 5, 5], dtype=int32)
    """
    return jnp.asarray(x).at[idx].max(y)
