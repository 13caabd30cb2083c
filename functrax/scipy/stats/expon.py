"""The exponential distribution.

>>> from functrax.scipy.stats import expon
>>> expon.sf(2.0, scale=2.0).round(4)
Array(0.3679, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous

_family = continuous(
    "expon",
    support=(0.0, math.inf),
    inside=1.0,
    logpdf=lambda z: -z,
    cdf=lambda z: -jnp.expm1(-z),
    sf=lambda z: jnp.exp(-z),
    logsf=lambda z: -z,
    ppf=lambda q: -jnp.log1p(-q),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf
ppf = _family.ppf

__dir__ = _listing(globals())
