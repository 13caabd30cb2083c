"""Student's t distribution of ``df`` degrees of freedom.

>>> from functrax.scipy.stats import t
>>> t.pdf(0.0, 3.0).round(4)
Array(0.3676, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammaln
from functrax.scipy.stats.families import continuous


def _logpdf(z: Value, df: Value) -> Value:
    half = 0.5 * (df + 1)
    constant = gammaln(half) - gammaln(0.5 * df) - 0.5 * jnp.log(df * math.pi)
    return constant - half * jnp.log1p(z * z / df)


_family = continuous("t", ("df",), logpdf=_logpdf)
logpdf, pdf = _family.logpdf, _family.pdf

__dir__ = _listing(globals())
