"""The Cauchy distribution wrapped around a circle, of concentration ``c`` between 0 and 1.

>>> from functrax.scipy.stats import wrapcauchy
>>> wrapcauchy.pdf(0.0, 0.5).round(4)
Array(0.4775, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike


def _logpdf(x: Value, c: Value) -> Value:
    good = (c > 0) & (c < 1)
    c = jnp.where(good, c, 0.5)
    out = jnp.log1p(-c * c) - jnp.log(2 * math.pi * (1 + c * c - 2 * c * jnp.cos(x)))
    return jnp.where(good, out, jnp.nan)


_family = continuous(
    "wrapcauchy",
    {"c": "the concentration, between 0 and 1; otherwise the result is NaN."},
    density="(1 - c**2) / (2 pi (1 + c**2 - 2 c cos(x)))",
    support=(0.0, 2 * math.pi),
    inside=1.0,
    located=False,
    logpdf=_logpdf,
)


@_family("1.0, 0.5 -> -1.7826")
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The logarithm of the density of the wrapped Cauchy distribution."""


@_family("1.0, 0.5 -> 0.1682")
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """The density of the wrapped Cauchy distribution."""


__dir__ = _listing(globals())
