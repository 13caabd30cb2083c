"""The Pareto distribution of shape ``b``, above ``loc + scale``.

>>> from functrax.scipy.stats import pareto
>>> pareto.sf(2.0, 3.0)
Array(0.125, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_family = continuous(
    "pareto",
    {"b": "the shape, above 0."},
    density="b / z**(b + 1)",
    support=(1.0, math.inf),
    inside=2.0,
    logpdf=lambda z, b: jnp.log(b) - (b + 1) * jnp.log(z),
    cdf=lambda z, b: -jnp.expm1(-b * jnp.log(z)),
    logsf=lambda z, b: -b * jnp.log(z),
    ppf=lambda q, b: jnp.exp(-jnp.log1p(-q) / b),
)


@_family("2.0, 3.0 -> -1.674")
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the Pareto distribution."""


@_family("2.0, 3.0 -> 0.1875")
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the Pareto distribution."""


@_family("2.0, 3.0 -> 0.875")
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the Pareto distribution."""


@_family("2.0, 3.0 -> -0.1335")
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value up to ``x`` is, in the Pareto distribution."""


@_family("2.0, 3.0 -> 0.125")
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the Pareto distribution."""


@_family("2.0, 3.0 -> -2.0794")
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of how probable a value above ``x`` is, in the Pareto distribution."""


@_family("0.25, 3.0 -> 1.1006")
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value up to which the probability is ``q``, in the Pareto distribution."""


__dir__ = _listing(globals())
