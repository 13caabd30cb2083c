"""The negative binomial distribution: failures before ``n`` successes of chance ``p``.

>>> from functrax.scipy.stats import nbinom
>>> nbinom.pmf(0, 2, 0.5)
Array(0.25, dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammaln, xlog1py
from functrax.scipy.stats.families import discrete
from functrax.typing import ArrayLike


def _logpmf(k: Value, n: Value, p: Value) -> Value:
    ways = gammaln(k + n) - gammaln(n) - gammaln(k + 1)
    return ways + n * jnp.log(p) + xlog1py(k, -p)


_family = discrete(
    "nbinom",
    {"n": "how many successes end it.", "p": "the chance of success, from 0 to 1."},
    _logpmf,
    probability="C(k + n - 1, n - 1) p**n (1 - p)**k",
)


@_family("2, 3, 0.5 -> -1.674")
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of a whole number, in the negative binomial distribution."""


@_family("2, 3, 0.5 -> 0.1875")
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a whole number, in the negative binomial distribution."""


__dir__ = _listing(globals())
