"""Student's t distribution of ``df`` degrees of freedom.

>>> from functrax.scipy.stats import t
>>> t.pdf(0.0, 3.0).round(4)
Array(0.3676, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammaln
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike


def _logpdf(z: Value, df: Value) -> Value:
    half = 0.5 * (df + 1)
    constant = gammaln(half) - gammaln(0.5 * df) - 0.5 * jnp.log(df * math.pi)
    return constant - half * jnp.log1p(z * z / df)


_family = continuous(
    "t",
    {"df": "degrees of freedom, above 0."},
    density="gamma((df + 1)/2) / (sqrt(pi df) gamma(df/2)) (1 + z**2/df)**(-(df + 1)/2)",
    logpdf=_logpdf,
)


@_family("1.0, 3.0 -> -1.5763")
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of Student's t distribution."""


@_family("1.0, 3.0 -> 0.2067")
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of Student's t distribution."""


__dir__ = _listing(globals())
