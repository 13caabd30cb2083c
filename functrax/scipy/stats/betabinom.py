"""The beta-binomial distribution: ``n`` trials, whose chance has a beta distribution.

>>> from functrax.scipy.stats import betabinom
>>> betabinom.pmf(1, 3, 1.0, 1.0).round(4)
Array(0.25, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import betaln
from functrax.scipy.stats.families import discrete
from functrax.typing import ArrayLike


def _logpmf(k: Value, n: Value, a: Value, b: Value) -> Value:
    ways = -jnp.log(n + 1) - betaln(n - k + 1, k + 1)
    return ways + betaln(k + a, n - k + b) - betaln(a, b)


_family = discrete(
    "betabinom",
    {
        "n": "how many trials there are.",
        "a": "the first shape of the beta distribution, above 0.",
        "b": "the second shape, above 0.",
    },
    _logpmf,
    probability="C(n, k) B(k + a, n - k + b) / B(a, b)",
    high=lambda n, a, b: n,
)


@_family("1, 3, 1.0, 2.0 -> -1.204")
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of a whole number, in the beta-binomial distribution."""


@_family("1, 3, 1.0, 2.0 -> 0.3")
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a whole number, in the beta-binomial distribution."""


__dir__ = _listing(globals())
