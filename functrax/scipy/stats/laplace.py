"""The Laplace distribution.

>>> from functrax.scipy.stats import laplace
>>> laplace.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
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


def _cdf(z: Value) -> Value:
    tail = 0.5 * jnp.exp(-jnp.abs(z))
    return jnp.where(z < 0, tail, 1 - tail)


_family = continuous(
    "laplace",
    density="exp(-|z|) / 2",
    logpdf=lambda z: -jnp.abs(z) - math.log(2.0),
    cdf=_cdf,
)


@_family("-1.0 -> -1.6931")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Laplace distribution."""


@_family("-1.0 -> 0.1839")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Laplace distribution."""


@_family("-1.0 -> 0.1839")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the Laplace distribution."""


__dir__ = _listing(globals())
