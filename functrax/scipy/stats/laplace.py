"""The Laplace distribution.

>>> from functrax.scipy.stats import laplace
>>> laplace.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.stats.families import continuous


def _cdf(z: Value) -> Value:
    tail = 0.5 * jnp.exp(-jnp.abs(z))
    return jnp.where(z < 0, tail, 1 - tail)


_family = continuous("laplace", logpdf=lambda z: -jnp.abs(z) - math.log(2.0), cdf=_cdf)
logpdf, pdf, cdf = _family.logpdf, _family.pdf, _family.cdf

__dir__ = _listing(globals())
