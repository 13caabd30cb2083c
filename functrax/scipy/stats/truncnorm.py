"""The normal distribution between ``a`` and ``b``, which count in scales from the location.

>>> from functrax.scipy.stats import truncnorm
>>> truncnorm.cdf(0.0, -1.0, 1.0)
Array(0.5, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import log_ndtr, ndtr
from functrax.scipy.stats import norm
from functrax.scipy.stats.families import continuous


def _log_mass(a: Value, b: Value) -> Value:
    """The logarithm of the normal probability between ``a`` and ``b``, precise in both tails."""
    # In the right tail count from the other side, where probabilities are small numbers.
    right = a > 0
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, b)
    tail = high <= 0
    near, far = log_ndtr(jnp.where(tail, high, 0.0)), log_ndtr(jnp.where(tail, low, -1.0))
    of_tail = near + jnp.log(-jnp.expm1(jnp.where(far < near, far - near, -jnp.inf)))
    both = ndtr(jnp.where(tail, -1.0, low)) + ndtr(-jnp.where(tail, 1.0, high))
    out = jnp.where(tail, of_tail, jnp.log1p(-both))
    return jnp.where(a < b, out, -jnp.inf)


def _logpdf(z: Value, a: Value, b: Value) -> Value:
    inside = (z >= a) & (z <= b)
    return jnp.where(inside, norm.logpdf(z) - _log_mass(a, b), -jnp.inf)


_family = continuous(
    "truncnorm",
    ("a", "b"),
    valid=lambda a, b: a < b,
    logpdf=_logpdf,
    logcdf=lambda z, a, b: _log_mass(a, jnp.clip(z, a, b)) - _log_mass(a, b),
    logsf=lambda z, a, b: _log_mass(jnp.clip(z, a, b), b) - _log_mass(a, b),
)
logpdf, pdf = _family.logpdf, _family.pdf
cdf, logcdf, sf, logsf = _family.cdf, _family.logcdf, _family.sf, _family.logsf

__dir__ = _listing(globals())
