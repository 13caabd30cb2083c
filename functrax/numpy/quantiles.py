"""Quantiles, percentiles and medians: sort along the axes, then read between two neighbours.

The reduced axes become one last axis, along which the array is sorted; NaN comes last there, and
makes the result NaN, or is left out by the ``nan`` functions.  Reading is a ``reindex`` with
computed positions, so derivatives go to the elements that are read.

Start at :func:`quantile`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError, UnavailableError
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.cumulative import cumsum
from functrax.core.prims.mapped import reindex
from functrax.core.prims.ordering import sort
from functrax.core.prims.reduce import reduce_max, reduce_or, reduce_sum, respread
from functrax.core.prims.reindex import broadcast_in_dim, reshape, transpose
from functrax.core.prims.rounding import ceil
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.types import dtypes
from functrax.numpy.filling import ones_like
from functrax.numpy.logic import choose, no_out
from functrax.numpy.promote import (
    broadcast_value,
    convert,
    inexact,
    promote_dtypes,
    result,
    to_array,
)
from functrax.numpy.reductions import checked_axes
from functrax.numpy.statistics import spread_weights
from functrax.numpy.ufuncs import refuse_complex
from functrax.typing import ArrayLike, Axes

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The value below which a fraction ``q`` of the elements along axes lies.

    Args:
      a: a real array or a scalar; NaN among the elements gives NaN.
      q: a fraction from 0 to 1, or several in an array of one axis.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      overwrite_input: must be False.
      method: between two elements: "linear", "lower", "higher", "midpoint" or "nearest"; or
        "inverted_cdf", the first element up to which a fraction ``q`` of all weights lies.
      keepdims: leave the reduced axes with size 1.
      weights: for "inverted_cdf", how much each element counts: an array of the shape of ``a``,
        or of the sizes of the axes named.  Those that are negative or NaN are 0.

    Returns:
      An array of the shape of ``q`` followed by that of the axes that are left.

    Raises:
      ShapeError: for an axis without elements, a ``q`` of several axes, and weights of another
        shape.
      ArgumentError: for another method.
      DTypeError: for complex numbers.
      UnavailableError: for weights with a method that has none, and for ``out`` and
        ``overwrite_input``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.quantile(jnp.array([1.0, 2.0, 4.0]), 0.75)
      Array(3., dtype=float32)
    """
    _no_output("quantile", out, overwrite_input)
    return _quantile("quantile", a, q, 1, axis, method, keepdims, False, weights)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """:func:`quantile` of the elements that are not NaN; NaN where all are.

    Args:
      a: a real array or a scalar.
      q: a fraction from 0 to 1, or several in an array of one axis.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      overwrite_input: must be False.
      method: as for :func:`quantile`.
      keepdims: leave the reduced axes with size 1.
      weights: as for :func:`quantile`.

    Returns:
      An array of the shape of ``q`` followed by that of the axes that are left.

    Raises:
      ShapeError: for an axis without elements, a ``q`` of several axes, and weights of another
        shape.
      ArgumentError: for another method.
      DTypeError: for complex numbers.
      UnavailableError: for weights with a method that has none, and for ``out`` and
        ``overwrite_input``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 2.0, 4.0]), 0.75)
      Array(3., dtype=float32)
    """
    _no_output("nanquantile", out, overwrite_input)
    return _quantile("nanquantile", a, q, 1, axis, method, keepdims, True, weights)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """:func:`quantile` with ``q`` from 0 to 100.

    Args:
      a: a real array or a scalar; NaN among the elements gives NaN.
      q: a number from 0 to 100, or several in an array of one axis.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      overwrite_input: must be False.
      method: as for :func:`quantile`.
      keepdims: leave the reduced axes with size 1.
      weights: as for :func:`quantile`.

    Returns:
      An array of the shape of ``q`` followed by that of the axes that are left.

    Raises:
      ShapeError: for an axis without elements, a ``q`` of several axes, and weights of another
        shape.
      ArgumentError: for another method.
      DTypeError: for complex numbers.
      UnavailableError: for weights with a method that has none, and for ``out`` and
        ``overwrite_input``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.percentile(jnp.array([1.0, 2.0, 4.0]), 75)
      Array(3., dtype=float32)
    """
    _no_output("percentile", out, overwrite_input)
    return _quantile("percentile", a, q, 100, axis, method, keepdims, False, weights)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """:func:`nanquantile` with ``q`` from 0 to 100.

    Args:
      a: a real array or a scalar.
      q: a number from 0 to 100, or several in an array of one axis.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      overwrite_input: must be False.
      method: as for :func:`quantile`.
      keepdims: leave the reduced axes with size 1.
      weights: as for :func:`quantile`.

    Returns:
      An array of the shape of ``q`` followed by that of the axes that are left.

    Raises:
      ShapeError: for an axis without elements, a ``q`` of several axes, and weights of another
        shape.
      ArgumentError: for another method.
      DTypeError: for complex numbers.
      UnavailableError: for weights with a method that has none, and for ``out`` and
        ``overwrite_input``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 2.0, 4.0]), 75)
      Array(3., dtype=float32)
    """
    _no_output("nanpercentile", out, overwrite_input)
    return _quantile("nanpercentile", a, q, 100, axis, method, keepdims, True, weights)


def median(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element along axes, or the mean of the two in the middle.

    Args:
      a: a real array or a scalar; NaN among the elements gives NaN.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      overwrite_input: must be False.
      keepdims: leave the reduced axes with size 1.

    Returns:
      A floating point array without the reduced axes.

    Raises:
      ShapeError: for an axis without elements, where NumPy gives NaN.
      DTypeError: for complex numbers.
      UnavailableError: for ``out`` and ``overwrite_input``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.median(jnp.array([5, 1, 2, 9]))
      Array(3.5, dtype=float32)
    """
    _no_output("median", out, overwrite_input)
    return _quantile("median", a, 0.5, 1, axis, "midpoint", keepdims, False)


def nanmedian(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """:func:`median` of the elements that are not NaN; NaN where all are.

    Args:
      a: a real array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      overwrite_input: must be False.
      keepdims: leave the reduced axes with size 1.

    Returns:
      A floating point array without the reduced axes.

    Raises:
      ShapeError: for an axis without elements.
      DTypeError: for complex numbers.
      UnavailableError: for ``out`` and ``overwrite_input``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanmedian(jnp.array([5.0, jnp.nan, 1.0, 2.0]))
      Array(2., dtype=float32)
    """
    _no_output("nanmedian", out, overwrite_input)
    return _quantile("nanmedian", a, 0.5, 1, axis, "midpoint", keepdims, True)


def _quantile(
    name: str,
    a: Any,
    q: Any,
    whole: int,
    axis: Axes,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    weights: Any = None,
) -> Value:
    if method not in METHODS:
        raise ArgumentError(
            f"{name}: no such method", got=repr(method), fix="one of " + ", ".join(METHODS)
        )
    x, w = _operands(name, a, weights, axis, method)
    refuse_complex(name, x)
    shape, dtype = x.aval.shape, x.aval.dtype
    work = dtypes.float32 if dtype in dtypes.NARROW else dtype
    fraction = to_array(name, q, 1)
    if fraction.aval.ndim > 1:
        raise ShapeError(
            f"{name}: q has more than one axis", got=fraction.aval.str_short(), fix="q.ravel()"
        )
    fraction = prims.div.bind(convert(fraction, work), literal(whole, work))
    axes = checked_axes(name, axis, len(shape))
    rows = _rows(name, convert(x, work), axes)
    if method == "inverted_cdf":
        counted = ones_like(result(rows)) if w is None else _rows(name, convert(w, work), axes)
        found = _weighted(rows, counted, fraction, skip_nan)
    else:
        found = _read(_sorted(rows, skip_nan), fraction, method)
    if keepdims:
        kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
        found = reshape.bind(found, shape=fraction.aval.shape + kept)
    return result(convert(found, dtype))


def _operands(
    name: str, a: Any, weights: Any, axis: Axes, method: str
) -> tuple[Value, Value | None]:
    """The array, and its weights in its shape."""
    x = to_array(name, a)
    if weights is None:
        (x,) = promote_dtypes(name, x, kind=inexact)
        return x, None
    if method != "inverted_cdf":
        raise UnavailableError(
            f"{name}: this method has no weights",
            got=repr(method),
            fix="method='inverted_cdf'",
        )
    w = to_array(name, weights, 2)
    refuse_complex(name, w)
    x, w = promote_dtypes(name, x, w, kind=inexact)
    return x, spread_weights(name, x, w, axis)


def _rows(name: str, x: Value, axes: tuple[int, ...]) -> Value:
    """The array with the axes joined into one last axis."""
    shape = x.aval.shape
    left = tuple(i for i in range(len(shape)) if i not in axes)
    size = math.prod(shape[i] for i in axes)
    if size == 0:
        raise ShapeError(
            f"{name}: there are no elements along the axes",
            got=f"{x.aval.str_short()} along {axes}",
            fix="axes of at least one element",
        )
    x = transpose.bind(x, perm=left + axes)
    return reshape.bind(x, shape=(*(shape[i] for i in left), size))


def _sorted(rows: Value, skip_nan: bool) -> tuple[Value, Value]:
    """The rows in order, and the position of the last element of each that counts.

    Where that is not known beforehand it is an array; all NaN is as if one NaN counted.
    """
    last = rows.aval.ndim - 1
    size = rows.aval.shape[last]
    missing = compare.ne.bind(rows, rows)
    nan = like(rows, np.nan)
    if skip_nan:
        rows = prims.select_n.bind(missing, rows, nan)  # of either sign
        present = convert(compare.not_.bind(missing), rows.aval.dtype)
        counts = reduce_sum.bind(present, axes=(last,))
        end = prims.max_.bind(prims.sub.bind(counts, like(counts, 1)), like(counts, 0))
    else:
        spoilt = reduce_or.bind(missing, axes=(last,))
        dims = tuple(range(last))
        spoilt = broadcast_in_dim.bind(spoilt, shape=rows.aval.shape, dims=dims)
        rows = prims.select_n.bind(spoilt, rows, nan)
        end = like(rows, size - 1)
    (ordered,) = sort.bind(rows, dimension=last, is_stable=True, num_keys=1)
    return ordered, end


def _weighted(rows: Value, weights: Value, fraction: Value, skip_nan: bool) -> Value:
    """The first element of each row at which the sum of weights reaches a fraction of it all."""
    shape = rows.aval.shape
    last, size = len(shape) - 1, shape[-1]
    zero = like(weights, 0)
    counts = compare.gt.bind(weights, zero)
    if skip_nan:
        counts = compare.and_.bind(counts, compare.eq.bind(rows, rows))
    else:
        spoilt = respread(reduce_or.bind(compare.ne.bind(rows, rows), axes=(last,)), rows, (last,))
        rows = prims.select_n.bind(spoilt, rows, like(rows, np.nan))
    weights = prims.select_n.bind(counts, zero, weights)
    ordered, weights = sort.bind(rows, weights, dimension=last, is_stable=True, num_keys=1)
    sums = cumsum.bind(weights, axis=last, reverse=False)
    target = fraction.aval.shape + shape
    own = fraction.aval.ndim
    whole = respread(reduce_max.bind(sums, axes=(last,)), sums, (last,))
    sums, whole = (
        broadcast_in_dim.bind(v, shape=target, dims=tuple(range(own, len(target))))
        for v in (sums, whole)
    )
    aimed = prims.mul.bind(
        broadcast_in_dim.bind(fraction, shape=target, dims=tuple(range(own))), whole
    )
    below = convert(compare.lt.bind(sums, aimed), rows.aval.dtype)
    place = reduce_sum.bind(below, axes=(len(target) - 1,))
    return _element(ordered, place, like(place, size - 1))


def _read(ordered_and_end: tuple[Value, Value], fraction: Value, method: str) -> Value:
    ordered, end = ordered_and_end
    rest = ordered.aval.shape[:-1]
    shape = fraction.aval.shape + rest
    own = fraction.aval.ndim
    fractions = broadcast_in_dim.bind(fraction, shape=shape, dims=tuple(range(own)))
    if end.aval.shape == rest and rest:
        end = broadcast_in_dim.bind(end, shape=shape, dims=tuple(range(own, len(shape))))
    elif end.aval.shape != shape:
        end = broadcast_value(to_array("quantile", result(end)), shape)
    place = prims.mul.bind(fractions, end)
    low, high = prims.floor.bind(place), ceil.bind(place)
    weight = prims.sub.bind(place, low)
    below = _element(ordered, low, end)
    above = _element(ordered, high, end)
    if method == "lower":
        return below
    if method == "higher":
        return above
    half = like(weight, 0.5)
    if method == "midpoint":
        return prims.mul.bind(prims.add.bind(below, above), half)
    if method == "nearest":
        return choose(compare.gt.bind(weight, half), above, below)
    kept = prims.sub.bind(like(weight, 1), weight)
    return prims.add.bind(prims.mul.bind(below, kept), prims.mul.bind(above, weight))


def _element(ordered: Value, position: Value, end: Value) -> Value:
    """The element of each row at a whole position, limited to the row."""
    limited = prims.max_.bind(like(position, 0), prims.min_.bind(position, end))
    index = convert(limited, dtypes.position_dtype(ordered.aval.shape[-1]))
    shape = index.aval.shape
    dims = [Dim(i) for i in range(len(shape))]
    rest = dims[len(shape) - (ordered.aval.ndim - 1) :]
    index_map = IndexMap(shape, ordered.aval.shape, (*rest, Load(0, dims)))
    return reindex.bind(ordered, index, map=index_map, fill=like(ordered, 0))


def _no_output(name: str, out: Any, overwrite_input: bool) -> None:
    """Refuse the arguments of NumPy that name memory to write to."""
    no_out(name, out)
    if overwrite_input:
        raise UnavailableError(
            f"{name}: overwrite_input= is not supported, for arrays are immutable",
            got="overwrite_input=True",
            fix="leave it out",
        )
