"""The binomial distribution: how many of ``n`` trials of chance ``p`` succeed.

>>> from functrax.scipy.stats import binom
>>> binom.pmf(2, 4, 0.5).round(4)
Array(0.375, dtype=float32)
"""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammaln, xlog1py, xlogy
from functrax.scipy.stats.families import discrete


def _logpmf(k: Value, n: Value, p: Value) -> Value:
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return ways + xlogy(k, p) + xlog1py(n - k, -p)


_family = discrete("binom", ("n", "p"), _logpmf, high=lambda n, p: n)
logpmf, pmf = _family.logpmf, _family.pmf

__dir__ = _listing(globals())
