"""The Poisson distribution of mean ``mu``.

>>> from functrax.scipy.stats import poisson
>>> poisson.pmf(2, 3.0).round(4)
Array(0.224, dtype=float32)
"""

from __future__ import annotations

from functrax.scipy.special import gammaincc, gammaln, xlogy
from functrax.scipy.stats.families import discrete

_family = discrete(
    "poisson",
    ("mu",),
    lambda k, mu: xlogy(k, mu) - gammaln(k + 1) - mu,
    cdf=lambda k, mu: gammaincc(k + 1, mu),
)
logpmf, pmf, cdf = _family.logpmf, _family.pmf, _family.cdf
