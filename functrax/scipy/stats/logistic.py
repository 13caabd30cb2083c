"""The logistic distribution.

>>> from functrax.scipy.stats import logistic
>>> logistic.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import expit, logit
from functrax.scipy.stats.families import continuous


def _logpdf(z: Value) -> Value:
    return -z - 2 * jnp.logaddexp(0.0, -z)


_family = continuous(
    "logistic",
    logpdf=_logpdf,
    cdf=expit,
    sf=lambda z: expit(-z),
    ppf=logit,
    isf=lambda q: -logit(q),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, sf, ppf, isf = _family.cdf, _family.sf, _family.ppf, _family.isf

__dir__ = _listing(globals())
