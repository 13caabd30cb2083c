"""The generalized normal distribution of shape ``beta``: 1 is Laplace's, 2 a normal one.

>>> from functrax.scipy.stats import gennorm
>>> gennorm.pdf(0.0, 1.0)
Array(0.5, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import gammainc, gammaln
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike


def _power(z: Value, beta: Value) -> Value:
    return jnp.abs(z) ** beta


_family = continuous(
    "gennorm",
    {"beta": "the shape, above 0: 1 is Laplace's distribution, 2 a normal one."},
    density="beta exp(-|z|**beta) / (2 gamma(1 / beta))",
    logpdf=lambda z, beta: jnp.log(0.5 * beta) - gammaln(1 / beta) - _power(z, beta),
    cdf=lambda z, beta: 0.5 * (1 + jnp.sign(z) * gammainc(1 / beta, _power(z, beta))),
)


@_family("1.0, 1.5 -> -1.5908")
def logpdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the generalized normal distribution."""


@_family("1.0, 1.5 -> 0.2038")
def pdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the generalized normal distribution."""


@_family("1.0, 1.5 -> 0.8876")
def cdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the generalized normal distribution."""


__dir__ = _listing(globals())
