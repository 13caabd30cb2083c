"""The generalized normal distribution of shape ``beta``: 1 is Laplace's, 2 a normal one.

>>> from functrax.scipy.stats import gennorm
>>> gennorm.pdf(0.0, 1.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammainc, gammaln
from functrax.scipy.stats.families import continuous


def _power(z: Value, beta: Value) -> Value:
    return jnp.abs(z) ** beta


_family = continuous(
    "gennorm",
    ("beta",),
    logpdf=lambda z, beta: jnp.log(0.5 * beta) - gammaln(1 / beta) - _power(z, beta),
    cdf=lambda z, beta: 0.5 * (1 + jnp.sign(z) * gammainc(1 / beta, _power(z, beta))),
)
logpdf, pdf, cdf = _family.logpdf, _family.pdf, _family.cdf

__dir__ = _listing(globals())
