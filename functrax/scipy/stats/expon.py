"""The exponential distribution.

>>> from functrax.scipy.stats import expon
>>> expon.sf(2.0, scale=2.0).round(4)
Array(0.3679, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_family = continuous(
    "expon",
    density="exp(-z)",
    support=(0.0, math.inf),
    inside=1.0,
    logpdf=lambda z: -z,
    cdf=lambda z: -jnp.expm1(-z),
    sf=lambda z: jnp.exp(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -jnp.log1p(-q),
)


@_family("2.0, 0.0, 2.0 -> -1.6931")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the exponential distribution."""


@_family("2.0, 0.0, 2.0 -> 0.1839")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the exponential distribution."""


@_family("2.0, 0.0, 2.0 -> 0.6321")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the exponential distribution."""


@_family("2.0, 0.0, 2.0 -> -0.4587")
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the exponential distribution."""


@_family("2.0, 0.0, 2.0 -> 0.3679")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the exponential distribution."""


@_family("2.0, 0.0, 2.0 -> -1.0")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the exponential distribution."""


@_family("0.5 -> 0.6931")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value up to which the probability is ``q``, in the exponential distribution."""


__dir__ = _listing(globals())
