"""The normal distribution.

>>> import functrax.numpy as jnp
>>> from functrax.scipy.stats import norm
>>> norm.pdf(jnp.array([0.0, 1.0])).round(4)
Array([0.3989, 0.242 ], dtype=float32)
>>> norm.ppf(norm.cdf(3.0, loc=2.0, scale=0.5), loc=2.0, scale=0.5).round(4)
Array(3., dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import log_ndtr, ndtr, ndtri
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_family = continuous(
    "norm",
    density="exp(-z**2 / 2) / sqrt(2 pi)",
    logpdf=lambda z: -0.5 * z * z - _HALF_LOG_2PI,
    cdf=ndtr,
    logcdf=log_ndtr,
    sf=lambda z: ndtr(-z),
    logsf=lambda z: log_ndtr(-z),
    ppf=ndtri,
    isf=lambda q: -ndtri(q),
)


@_family("1.0, 2.0, 0.5 -> -2.2258")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the normal distribution."""


@_family("1.0, 2.0, 0.5 -> 0.108")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the normal distribution."""


@_family("1.0, 2.0, 0.5 -> 0.0228")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the normal distribution."""


@_family("1.0, 2.0, 0.5 -> -3.7832")
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the normal distribution."""


@_family("1.0, 2.0, 0.5 -> 0.9772")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the normal distribution."""


@_family("1.0, 2.0, 0.5 -> -0.023")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the normal distribution."""


@_family("0.25, 2.0, 0.5 -> 1.6628")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value up to which the probability is ``q``, in the normal distribution."""


@_family("0.25, 2.0, 0.5 -> 2.3372")
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which the probability is ``q``, in the normal distribution."""


__dir__ = _listing(globals())
