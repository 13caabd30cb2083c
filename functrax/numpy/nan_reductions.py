"""Reductions that leave NaN out: each is the plain reduction with NaN masked.

Start at :func:`nansum`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy import reductions, statistics
from functrax.numpy.logic import choose, isnan, logical_and, logical_not
from functrax.numpy.promote import result, to_array
from functrax.numpy.reductions import Axis
from functrax.numpy.ufuncs import like_weak


def _numbers(name: str, x: Value, where: Any) -> Any:
    """Which elements count: those that are not NaN, and that ``where`` names."""
    if x.aval.dtype not in dtypes.INEXACT:
        return where
    present = logical_not(isnan(x))
    if where is None:
        return present
    return logical_and(present, reductions.mask_of(name, where, x.aval.ndim))


def nansum(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Value:  # fmt: skip
    """:func:`sum` of the elements that are not NaN."""
    x = to_array("nansum", a)
    counted = _numbers("nansum", x, where)
    return reductions.sum(x, axis, dtype, out, keepdims, initial, counted)


def nanprod(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Value:  # fmt: skip
    """:func:`prod` of the elements that are not NaN."""
    x = to_array("nanprod", a)
    counted = _numbers("nanprod", x, where)
    return reductions.prod(x, axis, dtype, out, keepdims, initial, counted)


def nanmax(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Value:  # fmt: skip
    """:func:`max` of the elements that are not NaN; NaN where all are."""
    return _extremum("nanmax", reductions.max, -np.inf, a, axis, out, keepdims, initial, where)


def nanmin(
    a: Any, axis: Axis = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Value:  # fmt: skip
    """:func:`min` of the elements that are not NaN; NaN where all are."""
    return _extremum("nanmin", reductions.min, np.inf, a, axis, out, keepdims, initial, where)


def _extremum(name: str, function: Any, end: float, a: Any, axis: Axis, *options: Any) -> Value:
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
    nothing = reductions.all(missing, axis, keepdims=keepdims)
    return result(choose(nothing, like_weak(found, np.nan), found))


def nanargmax(a: Any, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Value:
    """:func:`argmax` of the elements that are not NaN; -1 where all are."""
    return _position("nanargmax", reductions.argmax, -np.inf, a, axis, out, keepdims)


def nanargmin(a: Any, axis: Any = None, out: None = None, keepdims: bool | None = None) -> Value:
    """:func:`argmin` of the elements that are not NaN; -1 where all are."""
    return _position("nanargmin", reductions.argmin, np.inf, a, axis, out, keepdims)


def _position(
    name: str, function: Any, end: float, a: Any, axis: Any, out: Any, keepdims: Any
) -> Value:
    x = to_array(name, a)
    if x.aval.dtype not in dtypes.FLOATING:
        return function(x, axis, out, keepdims)
    missing = isnan(x)
    found = function(choose(missing, like(x, end), x), axis, out, keepdims)
    nothing = reductions.all(missing, axis, keepdims=bool(keepdims))
    return result(choose(nothing, like(found, -1), found))


def nanmean(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    where: Any = None,
) -> Value:  # fmt: skip
    """:func:`mean` of the elements that are not NaN."""
    x = to_array("nanmean", a)
    counted = _numbers("nanmean", x, where)
    return statistics.mean(x, axis, dtype, out, keepdims, where=counted)


def nanvar(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: Any = 0,
    keepdims: bool = False, where: Any = None, mean: Any = None,
) -> Value:  # fmt: skip
    """:func:`var` of the elements that are not NaN."""
    return _var("nanvar", statistics.var, a, (axis, dtype, out, ddof, keepdims), where, mean)


def _var(name: str, function: Any, a: Any, options: tuple[Any, ...], where: Any, mean: Any) -> Any:
    x = to_array(name, a)
    return function(x, *options, where=_numbers(name, x, where), mean=mean)


def nanstd(
    a: Any, axis: Axis = None, dtype: Any = None, out: None = None, ddof: Any = 0,
    keepdims: bool = False, where: Any = None, mean: Any = None,
) -> Value:  # fmt: skip
    """:func:`std` of the elements that are not NaN."""
    return _var("nanstd", statistics.std, a, (axis, dtype, out, ddof, keepdims), where, mean)
