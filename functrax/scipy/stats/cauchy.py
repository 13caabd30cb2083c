"""The Cauchy distribution.

>>> from functrax.scipy.stats import cauchy
>>> cauchy.cdf(1.0).round(4)
Array(0.75, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike


def _ppf(q: Value) -> Value:
    low = q < 0.5
    return jnp.where(low, -1.0, 1.0) / jnp.tan(math.pi * jnp.where(low, q, 1 - q))


_family = continuous(
    "cauchy",
    density="1 / (pi (1 + z**2))",
    logpdf=lambda z: -math.log(math.pi) - jnp.log1p(z * z),
    cdf=lambda z: jnp.arctan2(1.0, -z) / math.pi,
    sf=lambda z: jnp.arctan2(1.0, z) / math.pi,
    ppf=_ppf,
    isf=lambda q: -_ppf(q),
)


@_family("1.0 -> -1.8379")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Cauchy distribution."""


@_family("1.0 -> 0.1592")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Cauchy distribution."""


@_family("1.0 -> 0.75")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the Cauchy distribution."""


@_family("1.0 -> -0.2877")
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the Cauchy distribution."""


@_family("1.0 -> 0.25")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the Cauchy distribution."""


@_family("1.0 -> -1.3863")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the Cauchy distribution."""


@_family("0.75 -> 1.0")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value up to which the probability is ``q``, in the Cauchy distribution."""


@_family("0.75 -> -1.0")
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which the probability is ``q``, in the Cauchy distribution."""


__dir__ = _listing(globals())
