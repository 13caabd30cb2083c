"""Counting: bincount, and histograms of one, two or more dimensions.

An element's bin is found by ``searchsorted`` in the edges, and its weight is added there by one
scatter; derivatives with respect to weights follow from that.

Start at :func:`histogram`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import (
    ArgumentError,
    ConcretizationError,
    DTypeError,
    ShapeError,
    UnavailableError,
)
from functrax.core.prims.arithmetic import stop_gradient
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy import reductions
from functrax.numpy.at import At
from functrax.numpy.axes import integer
from functrax.numpy.creation import array
from functrax.numpy.differences import diff
from functrax.numpy.extrema import clip
from functrax.numpy.filling import ones_like, zeros
from functrax.numpy.joining import stack, unstack
from functrax.numpy.logic import where
from functrax.numpy.promote import convert, inexact, promote_dtypes, promoting, result, to_array
from functrax.numpy.ranges import linspace
from functrax.numpy.rearranging import is_known
from functrax.numpy.searching import searchsorted
from functrax.numpy.shaping import ravel, reshape, reshape_to
from functrax.numpy.ufuncs import refuse_complex
from functrax.typing import ArrayLike

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: None = None,
) -> Array:
    """How often each number from 0 on appears.

    Args:
      x: a vector of integers; negative ones count as 0.
      weights: what each element counts, a vector of the same size; 1 if None.
      minlength: the least size of the result, if there is no length.
      length: the size of the result, needed if ``x`` is traced; larger numbers are not counted.
      out_sharding: must be None.

    Returns:
      A vector: of the default integer, or of the dtype of the weights.

    Raises:
      DTypeError: if ``x`` holds no integers.
      ShapeError: if ``x`` is not a vector, or there is not one weight for each element.
      ConcretizationError: if ``x`` is traced and there is no length.
      UnavailableError: for ``out_sharding``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.bincount(jnp.array([1, 3, 1]))
      Array([0, 2, 0, 1], dtype=int32)
    """
    if out_sharding is not None:
        raise UnavailableError(
            "bincount: out_sharding is not supported",
            got=repr(out_sharding),
            fix="functrax.reshard(jnp.bincount(x), sharding)",
        )
    values = to_array("bincount", x)
    if not dtypes.is_integer(values.aval.dtype) and values.aval.dtype != dtypes.bool_:
        raise DTypeError("bincount: x holds integers", got=values.aval.str_short(),
                         fix="x.astype('int32')")  # fmt: skip
    if values.aval.ndim != 1:
        raise ShapeError("bincount: x is a vector", got=values.aval.str_short(), fix="ravel it")
    places = clip(convert(values, dtypes.int32), 0)
    count = _length(values, integer("bincount", "minlength", minlength), length)
    amounts = _ones(places) if weights is None else to_array("bincount", weights, 1)
    if amounts.aval.shape != values.aval.shape:
        raise ShapeError(
            "bincount: needs one weight for each element",
            got=f"{amounts.aval.str_short()} for {values.aval.str_short()}",
            fix=f"{values.aval.size} weights",
        )
    return At(zeros((count,), amounts.aval.dtype))[places].add(amounts)


def _ones(x: Value) -> Value:
    return ones_like(x, dtype=dtypes.default_int())


def _length(x: Value, least: int, length: int | None) -> int:
    if length is not None:
        return integer("bincount", "length", length)
    if not is_known(x):
        raise ConcretizationError(
            "bincount: the shape of the result depends on the values of a traced array",
            got=x.aval.str_short(),
            fix="length=..., one more than the largest number",
        )
    largest = int(np.asarray(x).max()) if x.aval.size else -1
    return max(largest + 1, least)


def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges of the bins of :func:`histogram`.

    Args:
      a: an array.
      bins: the number of bins of one width, or their edges, which are returned.
      range: the first and the last edge; the smallest and the largest element if None.
      weights: accepted, and not used.

    Returns:
      A vector of one more element than there are bins.

    Raises:
      ArgumentError: for names of rules instead of bins.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), bins=2)
      Array([0., 2., 4.], dtype=float32)
    """
    return _edges("histogram_bin_edges", to_array("histogram_bin_edges", a), bins, range)


@promoting
def _edges(name: str, x: Value, bins: Any, limits: Any) -> Value:
    if isinstance(bins, str):
        raise ArgumentError(
            f"{name}: rules for the number of bins are not supported", got=f"bins={bins!r}",
            fix="a number of bins, or edges",
        )  # fmt: skip
    refuse_complex(name, x)
    dtype = inexact(x.aval.dtype)
    edges = None if isinstance(bins, int) else to_array(name, bins, 1)
    if edges is not None and edges.aval.ndim == 1:
        return convert(edges, dtype)
    count = integer(name, "bins", bins)
    if count < 1:
        raise ArgumentError(f"{name}: there are no bins", got=f"bins={count}", fix="bins=1 or more")
    if limits is not None:
        low, high = convert(array(limits[0]), dtype), convert(array(limits[1]), dtype)
    elif x.aval.size:
        low, high = reductions.min(x), reductions.max(x)
    else:
        low, high = convert(array(0), dtype), convert(array(1), dtype)
    same = low == high  # bins need a width
    low, high = where(same, low - 0.5, low), where(same, high + 0.5, high)
    return linspace(low, high, count + 1, dtype=dtype)


@promoting
def _places(x: Value, edges: Value) -> tuple[Value, Value]:
    """The bin of each element, and whether it is in one; the last bin has its right edge."""
    values, limits = stop_gradient.bind(x), stop_gradient.bind(edges)
    place = searchsorted(limits, values, "right")
    last = limits.aval.size - 1
    place = where(values == limits[-1], last, place) - 1
    inside = (values >= limits[0]) & (values <= limits[-1])
    return clip(place, 0, max(last - 1, 0)), inside


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """How many elements are in each bin.

    Args:
      a: an array; NaN and elements outside of the bins are not counted.
      bins: the number of bins of one width, or a vector of their edges, which increases.
      range: the first and the last edge; the smallest and the largest element if None.
      weights: what each element counts, an array of the shape of ``a``; 1 if None.
      density: divide by the sum and by the widths, so that the integral is 1.

    Returns:
      The counts (floats, as in JAX), and the edges.

    Raises:
      ShapeError: if weights have another shape.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.histogram(jnp.array([0.0, 1.0, 1.5, 4.0]), bins=2)[0]
      Array([3., 1.], dtype=float32)
    """
    if weights is None:
        (x,) = promote_dtypes("histogram", to_array("histogram", a), kind=inexact)
        amounts = ones_like(x)
    else:
        x, amounts = promote_dtypes(
            "histogram", to_array("histogram", a), to_array("histogram", weights, 3), kind=inexact
        )
    x, amounts = result(x), result(amounts)
    _check_weights("histogram", x.aval.shape, amounts)
    edges = _edges("histogram", x, bins, range)
    place, inside = _places(ravel(x), edges)
    amounts = where(inside, ravel(amounts), 0)
    counts = At(zeros((edges.aval.size - 1,), amounts.aval.dtype))[place].add(amounts)
    if density:
        counts = counts / diff(edges) / reductions.sum(counts)
    return counts, edges


def _check_weights(name: str, shape: tuple[int, ...], weights: Value) -> None:
    if weights.aval.shape != shape:
        raise ShapeError(
            f"{name}: needs one weight for each element",
            got=f"{weights.aval.str_short()} for the shape {shape}",
            fix=f"weights of shape {shape}",
        )


def histogramdd(
    sample: ArrayLike | Sequence[ArrayLike],
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[Sequence[ArrayLike] | None] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """How many points are in each cell of a grid.

    Args:
      sample: points, an array of shape ``(number, dimensions)``, or a sequence of vectors, one
        for each dimension.
      bins: as for :func:`histogram`; one for all dimensions, or a sequence with one for each.
      range: None, or for each dimension None or the first and the last edge.
      weights: what each point counts; 1 if None.
      density: divide by the sum and by the volumes of the cells.

    Returns:
      The counts, with one axis for each dimension, and the edges.

    Raises:
      ShapeError: if there is not one weight for each point.
      ArgumentError: if there are not bins, or ranges, for each dimension.

    Example:
      >>> import functrax.numpy as jnp
      >>> points = jnp.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
      >>> jnp.histogramdd(points, bins=2)[0]
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    return _histogram("histogramdd", sample, bins, range, weights, density)


def _histogram(
    name: str, sample: Any, bins: Any, range: Any, weights: Any, density: bool | None
) -> tuple[Array, list[Array]]:
    """:func:`histogramdd`, for a function of a name."""
    points = _columns(name, sample)
    count = len(points)
    listed = list(bins) if isinstance(bins, (list, tuple)) else [bins] * count
    ranges = [None] * count if range is None else list(range)
    if len(listed) != count or len(ranges) != count:
        raise ArgumentError(
            f"{name}: needs bins and a range for each dimension",
            got=f"{len(listed)} bins, {len(ranges)} ranges, {count} dimensions",
            fix=f"{count} of them, or one number of bins",
        )
    edges = [_edges(name, x, b, r) for x, b, r in zip(points, listed, ranges, strict=True)]
    shape = tuple(edge.aval.size - 1 for edge in edges)
    flat, inside = _cell(points, edges, shape)
    amounts = _ones(flat) if weights is None else to_array(name, weights, 3)
    _check_weights(name, points[0].aval.shape, amounts)
    counts = At(zeros((math.prod(shape),), amounts.aval.dtype))[flat].add(where(inside, amounts, 0))
    counts = reshape_to(counts, shape)
    if density:
        (counts,) = map(result, promote_dtypes(name, counts, kind=inexact))
    return (_densities(counts, edges) if density else counts), edges


def _columns(name: str, sample: Any) -> list[Value]:
    """The coordinates of points, one vector for each dimension."""
    if isinstance(sample, (list, tuple)):
        each = [to_array(name, v, k) for k, v in enumerate(sample)]
        if len({v.aval.shape for v in each}) > 1:
            raise ShapeError(
                f"{name}: the coordinates of points differ in number",
                got=", ".join(v.aval.str_short() for v in each),
                fix="one coordinate of each point in each of the arrays",
            )
        x = stack(each, axis=1)
    else:
        x = to_array(name, sample)
    if x.aval.ndim != 2:
        raise ShapeError(
            f"{name}: takes points", got=x.aval.str_short(),
            fix="an array of shape (number, dimensions)",
        )  # fmt: skip
    return list(unstack(x, axis=1))


def _cell(points: list[Value], edges: list[Value], shape: tuple[int, ...]) -> tuple[Value, Value]:
    """The row-major position of the cell of each point, and whether it is in one."""
    flat, inside = _places(points[0], edges[0])
    for x, edge, size in zip(points[1:], edges[1:], shape[1:], strict=True):
        place, within = _places(x, edge)
        flat, inside = flat * size + place, inside & within
    return flat, inside


def _densities(counts: Value, edges: list[Value]) -> Value:
    found = counts / reductions.sum(counts)
    for k, edge in enumerate(edges):
        shape = tuple(-1 if i == k else 1 for i, _ in enumerate(edges))
        found = found / reshape(diff(edge), shape)
    return found


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[Sequence[ArrayLike] | None] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """:func:`histogramdd` of two dimensions.

    Args:
      x: first coordinates, a vector.
      y: second coordinates, a vector of the same size.
      bins: a number for both, a vector of edges for both, or a sequence with one for each.
      range: None, or for each dimension None or the first and the last edge.
      weights: what each point counts; 1 if None.
      density: divide by the sum and by the areas of the cells.

    Returns:
      The counts, the edges along ``x``, and the edges along ``y``.

    Raises:
      ShapeError: if ``x`` and ``y`` differ in size, or there is not one weight for each point.
      ArgumentError: if there are not bins, or ranges, for each dimension.

    Example:
      >>> import functrax.numpy as jnp
      >>> line = jnp.array([0.0, 1.0, 2.0])
      >>> jnp.histogram2d(line, line, bins=2)[0]
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    both: list[Any] = list(bins) if isinstance(bins, (list, tuple)) else [bins, bins]
    counts, (first, second) = _histogram("histogram2d", [x, y], both, range, weights, density)
    return counts, first, second
