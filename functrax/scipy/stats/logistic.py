"""The logistic distribution.

>>> from functrax.scipy.stats import logistic
>>> logistic.cdf(0.0)
Array(0.5, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.scipy.special import expit, logit
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike


def _logpdf(z: Value) -> Value:
    return -z - 2 * jnp.logaddexp(0.0, -z)


_family = continuous(
    "logistic",
    density="exp(-z) / (1 + exp(-z))**2",
    logpdf=_logpdf,
    cdf=expit,
    sf=lambda z: expit(-z),
    ppf=logit,
    isf=lambda q: -logit(q),
)


@_family("1.0 -> -1.6265")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the logistic distribution."""


@_family("1.0 -> 0.1966")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the logistic distribution."""


@_family("1.0 -> 0.7311")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the logistic distribution."""


@_family("1.0 -> 0.2689")
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value above ``x`` is, in the logistic distribution."""


@_family("0.25 -> -1.0986")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value up to which the probability is ``q``, in the logistic distribution."""


@_family("0.25 -> 1.0986")
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value above which the probability is ``q``, in the logistic distribution."""


__dir__ = _listing(globals())
