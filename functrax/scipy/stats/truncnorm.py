"""The normal distribution between ``a`` and ``b``, which count in scales from the location.

>>> from functrax.scipy.stats import truncnorm
>>> truncnorm.cdf(0.0, -1.0, 1.0)
Array(0.5, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import log_ndtr, ndtr
from functrax.scipy.stats import norm
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike


def _log_mass(a: Value, b: Value) -> Value:
    """The logarithm of the normal probability between ``a`` and ``b``, precise in both tails."""
    # In the right tail count from the other side, where probabilities are small numbers.
    right = a > 0
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, b)
    tail = high <= 0
    near, far = log_ndtr(jnp.where(tail, high, 0.0)), log_ndtr(jnp.where(tail, low, -1.0))
    of_tail = near + jnp.log(-jnp.expm1(jnp.where(far < near, far - near, -jnp.inf)))
    both = ndtr(jnp.where(tail, -1.0, low)) + ndtr(-jnp.where(tail, 1.0, high))
    out = jnp.where(tail, of_tail, jnp.log1p(-both))
    return jnp.where(a < b, out, -jnp.inf)


def _logpdf(z: Value, a: Value, b: Value) -> Value:
    inside = (z >= a) & (z <= b)
    return jnp.where(inside, norm.logpdf(z) - _log_mass(a, b), -jnp.inf)


_family = continuous(
    "truncnorm",
    {
        "a": "the lower end, in scales from the location.",
        "b": "the upper end, above ``a``; otherwise the result is NaN.",
    },
    density="exp(-z**2 / 2) / (sqrt(2 pi) (ndtr(b) - ndtr(a)))",
    valid=lambda a, b: a < b,
    logpdf=_logpdf,
    logcdf=lambda z, a, b: _log_mass(a, jnp.clip(z, a, b)) - _log_mass(a, b),
    logsf=lambda z, a, b: _log_mass(jnp.clip(z, a, b), b) - _log_mass(a, b),
)


@_family("0.5, -1.0, 2.0 -> -0.8438")
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density of the truncated normal distribution."""


@_family("0.5, -1.0, 2.0 -> 0.4301")
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density of the truncated normal distribution."""


@_family("0.5, -1.0, 2.0 -> 0.6509")
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """How probable a value up to ``x`` is, in the truncated normal one."""


@_family("0.5, -1.0, 2.0 -> -0.4294")
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the truncated normal one."""


@_family("0.5, -1.0, 2.0 -> 0.3491")
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the truncated normal one."""


@_family("0.5, -1.0, 2.0 -> -1.0523")
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the truncated normal one."""


__dir__ = _listing(globals())
