"""The gamma distribution of shape ``a``.

>>> from functrax.scipy.stats import gamma
>>> gamma.pdf(1.0, a=2.0, scale=0.5).round(4)
Array(0.5413, dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import gammainc, gammaincc, gammaln, xlogy
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_family = continuous(
    "gamma",
    {"a": "the shape, above 0."},
    density="z**(a - 1) exp(-z) / gamma(a)",
    support=(0.0, math.inf),
    inside=1.0,
    logpdf=lambda z, a: xlogy(a - 1, z) - z - gammaln(a),
    cdf=lambda z, a: gammainc(a, z),
    sf=lambda z, a: gammaincc(a, z),
)


@_family("1.0, 2.0, 0.0, 0.5 -> -0.6137")
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the gamma distribution."""


@_family("1.0, 2.0, 0.0, 0.5 -> 0.5413")
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the gamma distribution."""


@_family("1.0, 2.0, 0.0, 0.5 -> 0.594")
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the gamma distribution."""


@_family("1.0, 2.0, 0.0, 0.5 -> -0.5209")
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the gamma distribution."""


@_family("1.0, 2.0, 0.0, 0.5 -> 0.406")
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the gamma distribution."""


@_family("1.0, 2.0, 0.0, 0.5 -> -0.9014")
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the gamma distribution."""


__dir__ = _listing(globals())
