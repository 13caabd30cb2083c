"""The distribution of largest values, of Gumbel.

>>> from functrax.scipy.stats import gumbel_r
>>> gumbel_r.cdf(0.0).round(4)
Array(0.3679, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous

_family = continuous(
    "gumbel_r",
    logpdf=lambda z: -z - jnp.exp(-z),
    logcdf=lambda z: -jnp.exp(-z),
    sf=lambda z: -jnp.expm1(-jnp.exp(-z)),
    ppf=lambda q: -jnp.log(-jnp.log(q)),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf
ppf = _family.ppf

__dir__ = _listing(globals())
