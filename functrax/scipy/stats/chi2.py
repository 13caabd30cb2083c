"""The chi-squared distribution of ``df`` degrees of freedom.

>>> from functrax.scipy.stats import chi2
>>> chi2.sf(3.0, 2.0).round(4)
Array(0.2231, dtype=float32, weak_type=True)
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
    "chi2",
    {"df": "degrees of freedom, above 0."},
    density="z**(df/2 - 1) exp(-z/2) / (2**(df/2) gamma(df/2))",
    support=(0.0, math.inf),
    inside=1.0,
    logpdf=lambda z, df: xlogy(0.5 * df - 1, 0.5 * z) - 0.5 * z - gammaln(0.5 * df) - math.log(2.0),
    cdf=lambda z, df: gammainc(0.5 * df, 0.5 * z),
    sf=lambda z, df: gammaincc(0.5 * df, 0.5 * z),
)


@_family("3.0, 2.0 -> -2.1931")
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the chi-squared distribution."""


@_family("3.0, 2.0 -> 0.1116")
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the chi-squared distribution."""


@_family("3.0, 2.0 -> 0.7769")
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the chi-squared distribution."""


@_family("3.0, 2.0 -> -0.2525")
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the chi-squared distribution."""


@_family("3.0, 2.0 -> 0.2231")
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the chi-squared distribution."""


@_family("3.0, 2.0 -> -1.5")
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the chi-squared distribution."""


__dir__ = _listing(globals())
