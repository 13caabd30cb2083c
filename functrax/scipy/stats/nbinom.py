"""The negative binomial distribution: failures before ``n`` successes of chance ``p``.

>>> from functrax.scipy.stats import nbinom
>>> nbinom.pmf(0, 2, 0.5)
Array(0.25, dtype=float32)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammaln, xlog1py
from functrax.scipy.stats.families import discrete


def _logpmf(k: Value, n: Value, p: Value) -> Value:
    ways = gammaln(k + n) - gammaln(n) - gammaln(k + 1)
    return ways + n * jnp.log(p) + xlog1py(k, -p)


_family = discrete("nbinom", ("n", "p"), _logpmf)
logpmf, pmf = _family.logpmf, _family.pmf

__dir__ = _listing(globals())
