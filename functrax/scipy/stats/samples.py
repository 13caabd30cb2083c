"""What is said of samples: ranks, the most frequent value, the error of the mean.

Start at :func:`rankdata`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.tracing.primitive import Value
from functrax.numpy.promote import promoting
from functrax.transforms.mapping.vmap import vmap
from functrax.typing import ArrayLike

__all__ = ["ModeResult", "mode", "rankdata", "sem"]

_METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The most frequent values, and how often they come."""

    mode: Any
    count: Any


def _check_policy(name: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        raise UnavailableError(
            f"{name}: NaNs are not left out here",
            got=f"nan_policy={nan_policy!r}",
            fix="nan_policy='propagate'",
        )


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent value along an axis, the smallest of them if there are several.

    Args:
      a: an array; NaNs count as one value, above all others.
      axis: along which; None for all elements.
      nan_policy: must be "propagate".
      keepdims: whether the axis stays, with one element.

    Returns:
      ``ModeResult(mode, count)``, arrays without the axis; NaN and 0 of no elements.

    Raises:
      UnavailableError: for another ``nan_policy``.
      AxisError: for an axis out of range.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import mode
    >>> mode(jnp.array([3, 1, 3, 1, 2]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    _check_policy("mode", nan_policy)
    x = jnp.asarray(a)
    if not x.size:
        shape = jnp.sum(x, axis, keepdims=keepdims).shape
        return ModeResult(*(jnp.full(shape, v) for v in (jnp.nan, 0.0)))
    if axis is None:
        flat = mode(x.reshape(-1), 0)
        ones = (1,) * x.ndim
        return ModeResult(*(v.reshape(ones) if keepdims else v for v in flat))
    rows = jnp.sort(x, axis=axis)
    rows = jnp.moveaxis(rows, axis, -1)
    places = jnp.arange(rows.shape[-1])
    # NaNs, which are last, count as one value.
    changes = (rows[..., 1:] != rows[..., :-1]) & ~jnp.isnan(rows[..., :-1])
    new = jnp.concatenate([jnp.ones_like(rows[..., :1], bool), changes], axis=-1)
    # How far each element is from the first one equal to it.
    since = places - lax.cummax(jnp.where(new, places, 0), axis=new.ndim - 1)
    best = jnp.argmax(since, -1)
    found = jnp.take_along_axis(rows, best[..., None], -1)[..., 0]
    count = jnp.max(since, -1) + 1
    if keepdims:
        found, count = jnp.expand_dims(found, axis), jnp.expand_dims(count, axis)
    return ModeResult(found, count)


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The rank of each element, from 1.

    Args:
      a: an array.
      method: what equal elements get: "average", "min" or "max" of their ranks; "dense", where no
        rank is left out; "ordinal", where the earlier element has the smaller rank.
      axis: along which; None for all elements, flattened.
      nan_policy: "propagate": a NaN makes all ranks NaN.

    Returns:
      Floats, of the shape of ``a``, or a vector if ``axis`` is None.

    Raises:
      ArgumentError: for another method.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.stats.rankdata(jnp.array([30.0, 10.0, 30.0]))
    Array([2.5, 1. , 2.5], dtype=float32)
    """
    _check_policy("rankdata", nan_policy)
    if method not in _METHODS:
        raise ArgumentError(
            "rankdata: unknown method", got=repr(method), fix="one of " + ", ".join(_METHODS)
        )
    x = jnp.asarray(a)
    if axis is None:
        x, axis = x.reshape(-1), 0
    moved = jnp.moveaxis(x, axis, -1)
    rows = moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])
    ranks = vmap(lambda row: _ranks(row, method))(rows) if rows.size else rows
    return jnp.moveaxis(ranks.reshape(moved.shape).astype(jnp.result_type(float)), -1, axis)


@promoting
def _ranks(x: Value, method: str) -> Value:
    found = _known_ranks(x, method).astype(jnp.result_type(float))
    return jnp.where(jnp.isnan(x).any(), jnp.nan, found)


def _known_ranks(x: Value, method: str) -> Value:
    order = jnp.argsort(x)
    ordinal = jnp.argsort(order) + 1
    if method == "ordinal":
        return ordinal
    ordered = x[order]
    new = jnp.concatenate([jnp.ones_like(ordered[:1], bool), ordered[1:] != ordered[:-1]])
    dense = jnp.cumsum(new)[ordinal - 1]
    if method == "dense":
        return dense
    low = jnp.searchsorted(ordered, x, side="left") + 1
    high = jnp.searchsorted(ordered, x, side="right")
    if method == "average":
        return (low + high) * 0.5
    return low if method == "min" else high


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean: the standard deviation divided by ``sqrt(n)``.

    Args:
      a: an array.
      axis: along which; None for all elements.
      ddof: how many degrees of freedom are taken off for the standard deviation.
      nan_policy: "propagate", or "omit" to leave NaNs out.
      keepdims: whether the axis stays, with one element.

    Returns:
      Floats without the axis.

    Raises:
      UnavailableError: for another ``nan_policy``.
      AxisError: for an axis out of range.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import sem
    >>> sem(jnp.array([1.0, 3.0]))
    Array(1., dtype=float32)
    """
    x = jnp.asarray(a)
    if nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(x), axis=axis, keepdims=keepdims)
        spread = jnp.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims)
        return spread / jnp.sqrt(count.astype(spread.dtype))
    _check_policy("sem", nan_policy)
    spread = jnp.std(x, axis=axis, ddof=ddof, keepdims=keepdims)
    return spread / (x.size if axis is None else x.shape[axis]) ** 0.5


_explain_all(globals())
