"""The gamma distribution of shape ``a``.

>>> from functrax.scipy.stats import gamma
>>> gamma.pdf(1.0, a=2.0, scale=0.5).round(4)
Array(0.5413, dtype=float32)
"""

from __future__ import annotations

import math

from functrax.core.lazy import listing as _listing
from functrax.scipy.special import gammainc, gammaincc, gammaln, xlogy
from functrax.scipy.stats.families import continuous

_family = continuous(
    "gamma",
    ("a",),
    support=(0.0, math.inf),
    inside=1.0,
    logpdf=lambda z, a: xlogy(a - 1, z) - z - gammaln(a),
    cdf=lambda z, a: gammainc(a, z),
    sf=lambda z, a: gammaincc(a, z),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf

__dir__ = _listing(globals())
