"""The beta distribution of shapes ``a`` and ``b``, between 0 and 1.

>>> from functrax.scipy.stats import beta
>>> beta.pdf(0.25, 2.0, 3.0).round(4)
Array(1.6875, dtype=float32)
"""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.scipy.special import betainc, betaln, xlog1py, xlogy
from functrax.scipy.stats.families import continuous

_family = continuous(
    "beta",
    ("a", "b"),
    support=(0.0, 1.0),
    inside=0.5,
    valid=lambda a, b: (a > 0) & (b > 0),
    logpdf=lambda z, a, b: xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b),
    cdf=lambda z, a, b: betainc(a, b, z),
    sf=lambda z, a, b: betainc(b, a, 1 - z),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf

__dir__ = _listing(globals())
