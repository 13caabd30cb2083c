"""The distribution of largest values, of Gumbel.

>>> from functrax.scipy.stats import gumbel_r
>>> gumbel_r.cdf(0.0).round(4)
Array(0.3679, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_family = continuous(
    "gumbel_r",
    density="exp(-z - exp(-z))",
    logpdf=lambda z: -z - jnp.exp(-z),
    logcdf=lambda z: -jnp.exp(-z),
    sf=lambda z: -jnp.expm1(-jnp.exp(-z)),
    ppf=lambda q: -jnp.log(-jnp.log(q)),
)


@_family("0.5 -> -1.1065")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of Gumbel's distribution of largest values."""


@_family("0.5 -> 0.3307")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of Gumbel's distribution of largest values."""


@_family("0.5 -> 0.5452")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, of Gumbel's largest values."""


@_family("0.5 -> -0.6065")
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value up to ``x`` is, of Gumbel's largest values."""


@_family("0.5 -> 0.4548")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, of Gumbel's largest values."""


@_family("0.5 -> -0.788")
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value above ``x`` is, of Gumbel's largest values."""


@_family("0.25 -> -0.3266")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value up to which the probability is ``q``, of Gumbel's largest values."""


__dir__ = _listing(globals())
