"""The normal distribution.

>>> import functrax.numpy as jnp
>>> from functrax.scipy.stats import norm
>>> norm.pdf(jnp.array([0.0, 1.0])).round(4)
Array([0.3989, 0.242 ], dtype=float32)
>>> norm.ppf(norm.cdf(3.0, loc=2.0, scale=0.5), loc=2.0, scale=0.5).round(4)
Array(3., dtype=float32)
"""

from __future__ import annotations

import math

from functrax.core.lazy import listing as _listing
from functrax.scipy.special import log_ndtr, ndtr, ndtri
from functrax.scipy.stats.families import continuous

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_family = continuous(
    "norm",
    logpdf=lambda z: -0.5 * z * z - _HALF_LOG_2PI,
    cdf=ndtr,
    logcdf=log_ndtr,
    sf=lambda z: ndtr(-z),
    logsf=lambda z: log_ndtr(-z),
    ppf=ndtri,
    isf=lambda q: -ndtri(q),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf
ppf, isf = _family.ppf, _family.isf

__dir__ = _listing(globals())
