"""Reductions that leave NaN out: each is the plain reduction with NaN masked.

Start at :func:`nansum`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy import logical_reductions, reductions, statistics
from functrax.numpy.logic import choose, isnan, logical_and, logical_not
from functrax.numpy.promote import result, to_array
from functrax.numpy.ufuncs import like_weak
from functrax.typing import ArrayLike, Axes, DTypeLike


def _numbers(name: str, x: Value, where: Any) -> Any:
    """Which elements count: those that are not NaN, and that ``where`` names."""
    if x.aval.dtype not in dtypes.INEXACT:
        return where
    present = logical_not(isnan(x))
    if where is None:
        return present
    return logical_and(present, reductions.mask_of(name, where, x.aval.ndim))


def nansum(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """:func:`sum` of the elements that are not NaN.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: in which to add up, as for :func:`sum`.
      out: must be None.
      keepdims: leave the summed axes with size 1.
      initial: a value to begin with.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the summed axes; 0 where all elements are NaN.

    Raises:
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nansum(jnp.array([1.0, jnp.nan, 2.0]))
      Array(3., dtype=float32)
    """
    x = to_array("nansum", a)
    counted = _numbers("nansum", x, where)
    return reductions.sum(x, axis, dtype, out, keepdims, initial, counted)


def nanprod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """:func:`prod` of the elements that are not NaN.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: in which to multiply, as for :func:`prod`.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      initial: a value to begin with.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the reduced axes; 1 where all elements are NaN.

    Raises:
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanprod(jnp.array([3.0, jnp.nan, 2.0]))
      Array(6., dtype=float32)
    """
    x = to_array("nanprod", a)
    counted = _numbers("nanprod", x, where)
    return reductions.prod(x, axis, dtype, out, keepdims, initial, counted)


def nanmax(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """:func:`max` of the elements that are not NaN; NaN where all are.

    Args:
      a: a real array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      initial: the least value of the result; needed for empty axes and with ``where``.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the reduced axes, of the dtype of ``a``.

    Raises:
      ShapeError: for an empty axis without ``initial``.
      ArgumentError: for ``where`` without ``initial``.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 2.0]))
      Array(2., dtype=float32)
    """
    return _extremum("nanmax", reductions.max, -np.inf, a, axis, out, keepdims, initial, where)


def nanmin(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """:func:`min` of the elements that are not NaN; NaN where all are.

    Args:
      a: a real array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      initial: the greatest value of the result; needed for empty axes and with ``where``.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the reduced axes, of the dtype of ``a``.

    Raises:
      ShapeError: for an empty axis without ``initial``.
      ArgumentError: for ``where`` without ``initial``.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanmin(jnp.array([1.0, jnp.nan, 2.0]))
      Array(1., dtype=float32)
    """
    return _extremum("nanmin", reductions.min, np.inf, a, axis, out, keepdims, initial, where)


def _extremum(name: str, function: Any, end: float, a: Any, axis: Axes, *options: Any) -> Value:
    out, keepdims, initial, where = options
    x = to_array(name, a)
    where = where if where is None else reductions.mask_of(name, where, x.aval.ndim)
    if x.aval.dtype not in dtypes.INEXACT:
        return function(x, axis, out, keepdims, initial, where)
    missing = isnan(x)
    worst = complex(end, end) if x.aval.dtype in dtypes.COMPLEX else end
    found = function(choose(missing, like(x, worst), x), axis, out, keepdims, initial, where)
    if initial is not None:
        return found
    nothing = logical_reductions.all(missing, axis, keepdims=keepdims)
    return result(choose(nothing, like_weak(found, np.nan), found))


def nanargmax(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """:func:`argmax` of the elements that are not NaN; -1 where all are, where NumPy raises.

    Args:
      a: a real array or a scalar.
      axis: an axis; None for an index into the flattened array.
      out: must be None.
      keepdims: leave the reduced axis with size 1.

    Returns:
      Positions in the default integer, without the reduced axis.

    Raises:
      ShapeError: for an axis without elements.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 2.0]))
      Array(2, dtype=int32)
    """
    return _position("nanargmax", reductions.argmax, -np.inf, a, axis, out, keepdims)


def nanargmin(
    a: ArrayLike,
    axis: int | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Array:
    """:func:`argmin` of the elements that are not NaN; -1 where all are, where NumPy raises.

    Args:
      a: a real array or a scalar.
      axis: an axis; None for an index into the flattened array.
      out: must be None.
      keepdims: leave the reduced axis with size 1.

    Returns:
      Positions in the default integer, without the reduced axis.

    Raises:
      ShapeError: for an axis without elements.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanargmin(jnp.array([[jnp.nan, 3.0], [jnp.nan, jnp.nan]]), axis=1)
      Array([ 1, -1], dtype=int32)
    """
    return _position("nanargmin", reductions.argmin, np.inf, a, axis, out, keepdims)


def _position(
    name: str, function: Any, end: float, a: Any, axis: Any, out: Any, keepdims: Any
) -> Value:
    x = to_array(name, a)
    if x.aval.dtype not in dtypes.FLOATING:
        return function(x, axis, out, keepdims)
    missing = isnan(x)
    found = function(choose(missing, like(x, end), x), axis, out, keepdims)
    nothing = logical_reductions.all(missing, axis, keepdims=bool(keepdims))
    return result(choose(nothing, like(found, -1), found))


def nanmean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """:func:`mean` of the elements that are not NaN.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: that of the result; by default that of ``a``, float32 for integers.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.

    Returns:
      An array without the reduced axes; NaN where all elements are.

    Raises:
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 2.0]))
      Array(1.5, dtype=float32)
    """
    x = to_array("nanmean", a)
    counted = _numbers("nanmean", x, where)
    return statistics.mean(x, axis, dtype, out, keepdims, where=counted)


def nanvar(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """:func:`var` of the elements that are not NaN.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: that of the result.
      out: must be None.
      ddof: what is taken from the number of elements that count.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.
      mean: the mean, if it is known; it broadcasts to ``a``.

    Returns:
      A real array without the reduced axes; NaN where all elements are.

    Raises:
      ArgumentError: for a real dtype of complex numbers.
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    return _var("nanvar", statistics.var, a, (axis, dtype, out, ddof, keepdims), where, mean)


def _var(name: str, function: Any, a: Any, options: tuple[Any, ...], where: Any, mean: Any) -> Any:
    x = to_array(name, a)
    return function(x, *options, where=_numbers(name, x, where), mean=mean)


def nanstd(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
) -> Array:
    """:func:`std` of the elements that are not NaN.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      dtype: that of the result.
      out: must be None.
      ddof: what is taken from the number of elements that count.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.
      mean: the mean, if it is known; it broadcasts to ``a``.

    Returns:
      A real array without the reduced axes; NaN where all elements are.

    Raises:
      ArgumentError: for a real dtype of complex numbers.
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 5.0]))
      Array(2., dtype=float32)
    """
    return _var("nanstd", statistics.std, a, (axis, dtype, out, ddof, keepdims), where, mean)
