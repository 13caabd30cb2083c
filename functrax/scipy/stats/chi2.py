"""The chi-squared distribution of ``df`` degrees of freedom.

>>> from functrax.scipy.stats import chi2
>>> chi2.sf(3.0, 2.0).round(4)
Array(0.2231, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

from functrax.core.lazy import listing as _listing
from functrax.scipy.special import gammainc, gammaincc, gammaln, xlogy
from functrax.scipy.stats.families import continuous

_family = continuous(
    "chi2",
    ("df",),
    support=(0.0, math.inf),
    inside=1.0,
    logpdf=lambda z, df: xlogy(0.5 * df - 1, 0.5 * z) - 0.5 * z - gammaln(0.5 * df) - math.log(2.0),
    cdf=lambda z, df: gammainc(0.5 * df, 0.5 * z),
    sf=lambda z, df: gammaincc(0.5 * df, 0.5 * z),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf

__dir__ = _listing(globals())
