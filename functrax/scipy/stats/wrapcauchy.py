"""The Cauchy distribution wrapped around a circle, of concentration ``c`` between 0 and 1.

>>> from functrax.scipy.stats import wrapcauchy
>>> wrapcauchy.pdf(0.0, 0.5).round(4)
Array(0.4775, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.stats.families import continuous


def _logpdf(x: Value, c: Value) -> Value:
    good = (c > 0) & (c < 1)
    c = jnp.where(good, c, 0.5)
    out = jnp.log1p(-c * c) - jnp.log(2 * math.pi * (1 + c * c - 2 * c * jnp.cos(x)))
    return jnp.where(good, out, jnp.nan)


_family = continuous(
    "wrapcauchy", ("c",), support=(0.0, 2 * math.pi), inside=1.0, located=False, logpdf=_logpdf
)
logpdf, pdf = _family.logpdf, _family.pdf

__dir__ = _listing(globals())
