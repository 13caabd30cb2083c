"""The beta distribution of shapes ``a`` and ``b``, between 0 and 1.

>>> from functrax.scipy.stats import beta
>>> beta.pdf(0.25, 2.0, 3.0).round(4)
Array(1.6875, dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import betainc, betaln, xlog1py, xlogy
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_family = continuous(
    "beta",
    {"a": "the first shape, above 0.", "b": "the second shape, above 0."},
    density="z**(a - 1) (1 - z)**(b - 1) / B(a, b)",
    support=(0.0, 1.0),
    inside=0.5,
    valid=lambda a, b: (a > 0) & (b > 0),
    logpdf=lambda z, a, b: xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b),
    cdf=lambda z, a, b: betainc(a, b, z),
    sf=lambda z, a, b: betainc(b, a, 1 - z),
)


@_family("0.25, 2.0, 3.0 -> 0.5232")
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density of the beta distribution."""


@_family("0.25, 2.0, 3.0 -> 1.6875")
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density of the beta distribution."""


@_family("0.25, 2.0, 3.0 -> 0.2617")
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """How probable a value up to ``x`` is, in the beta distribution."""


@_family("0.25, 2.0, 3.0 -> -1.3405")
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the beta distribution."""


@_family("0.25, 2.0, 3.0 -> 0.7383")
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the beta distribution."""


@_family("0.25, 2.0, 3.0 -> -0.3034")
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the beta distribution."""


__dir__ = _listing(globals())
