"""The Pareto distribution of shape ``b``, above ``loc + scale``.

>>> from functrax.scipy.stats import pareto
>>> pareto.sf(2.0, 3.0)
Array(0.125, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous

_family = continuous(
    "pareto",
    ("b",),
    support=(1.0, math.inf),
    inside=2.0,
    logpdf=lambda z, b: jnp.log(b) - (b + 1) * jnp.log(z),
    cdf=lambda z, b: -jnp.expm1(-b * jnp.log(z)),
    logsf=lambda z, b: -b * jnp.log(z),
    ppf=lambda q, b: jnp.exp(-jnp.log1p(-q) / b),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf
ppf = _family.ppf

__dir__ = _listing(globals())
