"""The beta-binomial distribution: ``n`` trials, whose chance has a beta distribution.

>>> from functrax.scipy.stats import betabinom
>>> betabinom.pmf(1, 3, 1.0, 1.0).round(4)
Array(0.25, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import betaln
from functrax.scipy.stats.families import discrete


def _logpmf(k: Value, n: Value, a: Value, b: Value) -> Value:
    ways = -jnp.log(n + 1) - betaln(n - k + 1, k + 1)
    return ways + betaln(k + a, n - k + b) - betaln(a, b)


_family = discrete("betabinom", ("n", "a", "b"), _logpmf, high=lambda n, a, b: n)
logpmf, pmf = _family.logpmf, _family.pmf

__dir__ = _listing(globals())
