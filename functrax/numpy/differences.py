"""Differences of neighbours and what undoes them: diff, gradient, unwrap, trapezoid, interp.

All are slices and arithmetic, so derivatives follow from those.

Start at :func:`diff`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.arithmetic import stop_gradient, sub
from functrax.core.prims.comparisons import ne
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy import reductions
from functrax.numpy.axes import integer, many_axes, one_axis
from functrax.numpy.broadcasting import broadcast_to
from functrax.numpy.cumulative import cumsum
from functrax.numpy.extrema import clip
from functrax.numpy.joining import concatenate
from functrax.numpy.logic import logical_and, where
from functrax.numpy.promote import convert, inexact, promote_dtypes, result, to_array
from functrax.numpy.rearranging import take_axis
from functrax.numpy.searching import searchsorted
from functrax.numpy.shaping import join, moveaxis, ravel, reshape_to, slice_axis
from functrax.numpy.sorting import argsort
from functrax.numpy.ufuncs import absolute, mod, refuse_complex
from functrax.typing import ArrayLike, Axes

__all__ = ["diff", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The differences of neighbours along an axis, taken ``n`` times.

    Args:
      a: an array of at least one axis; neighbouring booleans are compared.
      n: how often.
      axis: the axis; it becomes shorter by ``n``.
      prepend: a scalar or an array that is put before the first element.
      append: one that is put after the last element.

    Returns:
      An array of the dtype of ``a``, whose ``axis`` is shorter by ``n``.

    Raises:
      ArgumentError: for a negative ``n``.
      ShapeError: for an array without axes.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.diff(jnp.array([1, 4, 9]))
      Array([3, 5], dtype=int32)
    """
    x, times = to_array("diff", a), integer("diff", "n", n)
    if not x.aval.ndim:
        raise ShapeError(
            "diff: takes arrays of at least one axis",
            got=x.aval.str_short(),
            fix="give an array of rank 1 or more",
        )
    if times < 0:
        raise ArgumentError("diff: n is negative", got=f"n={times}", fix="n=0 or more")
    if not times:
        return x
    k = one_axis("diff", axis, x.aval.ndim)
    ends = [None if e is None else _end(x, e, k) for e in (prepend, append)]
    parts = [part for part in (ends[0], x, ends[1]) if part is not None]
    out = concatenate(parts, k) if len(parts) > 1 else x
    minus = ne if out.aval.dtype == dtypes.bool_ else sub
    for _ in range(times):
        size = out.aval.shape[k]
        after = slice_axis(out, k, min(1, size), size)
        out = minus.bind(after, slice_axis(out, k, 0, max(size - 1, 0)))
    return result(out)


def _end(x: Value, end: Any, axis: int) -> Value:
    value = to_array("diff", end)
    if value.aval.ndim:
        return value
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.aval.shape))
    return broadcast_to(value, shape)


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of neighbours in row-major order, with values around them.

    Args:
      ary: an array.
      to_end: values put after the differences.
      to_begin: values put before them.

    Returns:
      A vector of the dtype of ``ary``.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ediff1d(jnp.array([1, 4, 9]), to_begin=0)
      Array([0, 3, 5], dtype=int32)
    """
    x = ravel(to_array("ediff1d", ary))
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, convert(ravel(to_array("ediff1d", to_begin)), x.aval.dtype))
    if to_end is not None:
        parts.append(convert(ravel(to_array("ediff1d", to_end)), x.aval.dtype))
    return concatenate(parts)


def gradient(
    f: ArrayLike,
    *varargs: ArrayLike | Sequence[ArrayLike],
    axis: Axes = None,
    edge_order: int | None = None,
) -> Array | list[Array]:
    """The slope at every element, along axes: central differences, one-sided at the ends.

    For uneven distances the formula is that of NumPy, of second order.

    Args:
      f: an array.
      *varargs: distances: one number for all axes, or for each axis a number or the coordinates
        of its elements; 1 if there are none.
      axis: an axis, or several; None means all.
      edge_order: must be None or 1.

    Returns:
      An array, or a list of them if there are several axes.

    Raises:
      ArgumentError: if the number of distances does not fit, or for another ``edge_order``.
      ShapeError: for an axis of fewer than 2 elements.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
      Array([3., 4., 5.], dtype=float32)
    """
    if edge_order not in (None, 1):
        raise ArgumentError("gradient: ends are of order 1", got=f"edge_order={edge_order}",
                            fix="edge_order=1")  # fmt: skip
    (x,) = promote_dtypes("gradient", to_array("gradient", f), kind=inexact)
    axes = many_axes("gradient", axis, x.aval.ndim)
    if len(varargs) not in (0, 1, len(axes)):
        raise ArgumentError(
            "gradient: needs one distance, or one for each axis",
            got=f"{len(varargs)} for {len(axes)} axes",
            fix="as many distances as axes",
        )
    distances = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    slopes = [_slope(x, k, to_array("gradient", h)) for k, h in zip(axes, distances, strict=True)]
    return slopes[0] if len(slopes) == 1 else slopes


def _slope(x: Value, k: int, h: Value) -> Value:
    size = x.aval.shape[k]
    if size < 2:
        raise ShapeError(
            "gradient: an axis has fewer than 2 elements", got=f"axis {k} of {x.aval.str_short()}",
            fix="axis= names the axes",
        )  # fmt: skip
    low, middle, high = (slice_axis(x, k, s, size - 2 + s) for s in (0, 1, 2))
    first, last = (
        slice_axis(x, k, s + 1, s + 2) - slice_axis(x, k, s, s + 1) for s in (0, size - 2)
    )
    if not h.aval.ndim:
        return result(join([first / h, (high - low) / (2 * h), last / h], k))
    if h.aval.shape != (size,):
        raise ShapeError(
            "gradient: needs one coordinate for each element",
            got=f"{h.aval.str_short()} for axis {k} of {x.aval.str_short()}",
            fix=f"{size} coordinates, or one distance",
        )
    steps = reshape_to(diff(h), tuple(size - 1 if i == k else 1 for i in range(x.aval.ndim)))
    back, ahead = slice_axis(steps, k, 0, size - 2), slice_axis(steps, k, 1, size - 1)
    inner = (
        -ahead / (back * (back + ahead)) * low
        + (ahead - back) / (back * ahead) * middle
        + back / (ahead * (back + ahead)) * high
    )
    ends = (slice_axis(steps, k, 0, 1), slice_axis(steps, k, size - 2, size - 1))
    return concatenate([first / ends[0], inner, last / ends[1]], k)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral along an axis by the trapezoidal rule.

    Args:
      y: values, an array.
      x: their coordinates: a vector, or an array that broadcasts with ``y``.
      dx: the distance of the coordinates, if there are none; an array of distances broadcasts
        with the differences of ``y``.
      axis: along which to integrate.

    Returns:
      A floating point array without the axis.

    Raises:
      AxisError: for an axis out of range.
      ShapeError: if ``x`` does not broadcast with ``y``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.trapezoid(jnp.array([1.0, 2.0, 4.0]))
      Array(4.5, dtype=float32)
    """
    name = "trapezoid"
    if x is None:
        (values,) = promote_dtypes(name, to_array(name, y), kind=inexact)
        steps = dx
        if not isinstance(dx, (int, float)):
            steps = to_array(name, dx)
            missing = max(result(values).aval.ndim - steps.aval.ndim, 0)
            if steps.aval.ndim:  # along ``axis``, as the values
                steps = moveaxis(reshape_to(steps, (1,) * missing + steps.aval.shape), axis, -1)
    else:
        values, places = promote_dtypes(name, to_array(name, y), to_array(name, x), kind=inexact)
        places = result(places)
        if places.aval.ndim != 1:
            k = one_axis(name, axis, places.aval.ndim)
            places = moveaxis(places, k, -1)
        steps = diff(places)
    values = moveaxis(result(values), one_axis(name, axis, values.aval.ndim), -1)
    return 0.5 * reductions.sum(steps * (values[..., 1:] + values[..., :-1]), axis=-1)


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi
) -> Array:
    """Angles continued along an axis: no step is larger than half a period.

    Args:
      p: angles, a real array.
      discont: only steps larger than this are changed; half a period if None.
      axis: along which to continue.
      period: a full turn.

    Returns:
      An array of the same shape.

    Raises:
      DTypeError: for complex numbers.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unwrap(jnp.array([0, 4, 8, 12]), period=6)
      Array([ 0, -2, -4, -6], dtype=int32)
    """
    x, turn = (result(v) for v in promote_dtypes("unwrap", to_array("unwrap", p), period))
    refuse_complex("unwrap", x)
    k = one_axis("unwrap", axis, x.aval.ndim)
    steps = diff(x, axis=k)
    even: Any
    if dtypes.is_integer(x.aval.dtype):
        half, even = turn // 2, turn % 2 == 0
    else:
        half, even = turn / 2, True
    change = mod(steps + half, turn) - half
    change = where(logical_and(logical_and(change == -half, steps > 0), even), half, change)
    least = half if discont is None else discont
    correction = where(absolute(steps) < least, 0, change - steps)
    later = slice_axis(x, k, min(1, x.aval.shape[k]), x.aval.shape[k])
    moved = later + cumsum(convert(correction, x.aval.dtype), k)
    return concatenate([slice_axis(x, k, 0, min(1, x.aval.shape[k])), moved], k)


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Between known points, the straight line from one to the next.

    Args:
      x: where to evaluate, a real array of any shape.
      xp: the coordinates of the points, an increasing vector.
      fp: their values, a vector of the same size.
      left: the value before the first point: ``fp[0]`` if None; ``"extrapolate"`` continues.
      right: the value after the last point: ``fp[-1]`` if None; ``"extrapolate"`` continues.
      period: if given, coordinates are angles with that period, in any order.

    Returns:
      An array of the shape of ``x``.

    Raises:
      ShapeError: if the points are not two vectors of one size, or there are none.
      ArgumentError: for another string, and for ends together with a period.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.interp(2.5, jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 4.0, 9.0]))
      Array(6.5, dtype=float32)
    """
    at, places = (result(v) for v in promote_dtypes("interp", x, xp, kind=inexact))
    refuse_complex("interp", at)
    (values,) = promote_dtypes("interp", to_array("interp", fp, 2), kind=inexact)
    values = result(values)
    shape = places.aval.shape
    if len(shape) != 1 or shape != values.aval.shape or not shape[0]:
        raise ShapeError(
            "interp: xp and fp are vectors of one size, with at least one point",
            got=f"{places.aval.str_short()} and {values.aval.str_short()}",
            fix="flatten them, and give as many values as places",
        )
    for end in (left, right):
        if isinstance(end, str) and end != "extrapolate":
            raise ArgumentError("interp: unknown string for an end", got=repr(end),
                                fix="'extrapolate'")  # fmt: skip
    if period is not None:
        at, places, values = _periodic(at, places, values, period)
    return _interpolate(at, places, values, left, right, period is None)


def _periodic(at: Value, places: Value, values: Value, period: Any) -> Sequence[Value]:
    """Coordinates within one period, in order, with one more point on either side."""
    turn = absolute(convert(to_array("interp", period), at.aval.dtype))
    at, places = mod(at, turn), mod(places, turn)
    order = argsort(stop_gradient.bind(places))
    places, values = take_axis(places, 0, order), take_axis(values, 0, order)
    places = concatenate([places[-1:] - turn, places, places[:1] + turn])
    return at, places, concatenate([values[-1:], values, values[:1]])


def _interpolate(
    at: Value, places: Value, values: Value, left: Any, right: Any, has_ends: bool
) -> Value:
    size = places.aval.size
    upper = searchsorted(stop_gradient.bind(places), stop_gradient.bind(at), "right")
    upper = clip(upper, 1, max(size - 1, 1)) if size > 1 else 0 * upper
    lower = clip(upper - 1, 0)
    x0, y0 = take_axis(places, 0, lower), take_axis(values, 0, lower)
    dx = take_axis(places, 0, upper) - x0
    dy = take_axis(values, 0, upper) - y0
    still = dx == 0
    out = where(still, y0, y0 + (at - x0) / where(still, 1, dx) * dy)
    if not has_ends:
        return out
    if not isinstance(left, str):
        out = where(at < places[0], values[0] if left is None else left, out)
    if not isinstance(right, str):
        out = where(at > places[-1], values[-1] if right is None else right, out)
    return out
