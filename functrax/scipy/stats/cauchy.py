"""The Cauchy distribution.

>>> from functrax.scipy.stats import cauchy
>>> cauchy.cdf(1.0).round(4)
Array(0.75, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.stats.families import continuous


def _ppf(q: Value) -> Value:
    low = q < 0.5
    return jnp.where(low, -1.0, 1.0) / jnp.tan(math.pi * jnp.where(low, q, 1 - q))


_family = continuous(
    "cauchy",
    logpdf=lambda z: -math.log(math.pi) - jnp.log1p(z * z),
    cdf=lambda z: jnp.arctan2(1.0, -z) / math.pi,
    sf=lambda z: jnp.arctan2(1.0, z) / math.pi,
    ppf=_ppf,
    isf=lambda q: -_ppf(q),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf
ppf, isf = _family.ppf, _family.isf

__dir__ = _listing(globals())
