"""The binomial distribution: how many of ``n`` trials of chance ``p`` succeed.

>>> from functrax.scipy.stats import binom
>>> binom.pmf(2, 4, 0.5).round(4)
Array(0.375, dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammaln, xlog1py, xlogy
from functrax.scipy.stats.families import discrete
from functrax.typing import ArrayLike


def _logpmf(k: Value, n: Value, p: Value) -> Value:
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return ways + xlogy(k, p) + xlog1py(n - k, -p)


_family = discrete(
    "binom",
    {"n": "how many trials there are.", "p": "the chance of success, from 0 to 1."},
    _logpmf,
    probability="C(n, k) p**k (1 - p)**(n - k)",
    high=lambda n, p: n,
)


@_family("2, 4, 0.5 -> -0.9808")
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of a whole number, in the binomial distribution."""


@_family("2, 4, 0.5 -> 0.375")
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a whole number, in the binomial distribution."""


__dir__ = _listing(globals())
