"""The Poisson distribution of mean ``mu``.

>>> from functrax.scipy.stats import poisson
>>> poisson.pmf(2, 3.0).round(4)
Array(0.224, dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.numpy.promote import promoting
from functrax.scipy.special import gammaincc, gammaln, xlogy
from functrax.scipy.special.gammas import floats
from functrax.scipy.stats.families import discrete
from functrax.typing import ArrayLike

_family = discrete(
    "poisson",
    {"mu": "the mean, at least 0."},
    lambda k, mu: xlogy(k, mu) - gammaln(k + 1) - mu,
    probability="exp(-mu) mu**k / k!",
    cdf=lambda k, mu: gammaincc(k + 1, mu),
)


@_family("2, 3.0 -> -1.4959")
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of a whole number, in the Poisson distribution."""


@_family("2, 3.0 -> 0.224")
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a whole number, in the Poisson distribution."""


@_family("2, 3.0 -> 0.4232")
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """How probable a value up to ``k`` is, in the Poisson distribution."""


#: Above this mean the entropy is an asymptotic series, below it a sum.
_LARGE = 80.0


def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy of the Poisson distribution, in nats.

    The sum of ``-p log(p)``; for a ``mu`` above 80 the asymptotic series of R. J. Evans and others.

    Args:
      mu: means; NaN below 0.
      loc: a shift, which does not change it.

    Returns:
      Floats of the shape to which the arguments broadcast.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> from functrax.scipy.stats import poisson
    >>> poisson.entropy(1.0).round(4)
    Array(1.3048, dtype=float32)
    """
    return _entropy(floats("poisson.entropy", mu, loc)[0])


@promoting
def _entropy(mu: Value) -> Value:
    small = jnp.where((mu > 0) & (mu < _LARGE), mu, 1.0)

    def add(k: Value, total: Value) -> Value:
        number = k.astype(mu.dtype)
        log = number * jnp.log(small) - small - gammaln(number + 1)
        return total - jnp.exp(log) * log

    by_sum = lax.fori_loop(0, 200, add, jnp.zeros_like(mu))
    large = jnp.where(mu < _LARGE, _LARGE, mu)
    r = 1 / large
    series = r / 12 + r**2 / 24 + 19 * r**3 / 360 + 9 * r**4 / 80
    by_series = 0.5 * jnp.log(2 * math.pi * math.e * large) - series
    out = jnp.where(mu < _LARGE, by_sum, by_series)
    return jnp.where(mu == 0, 0.0, jnp.where(mu >= 0, out, jnp.nan)).astype(mu.dtype)


__dir__ = _listing(globals())
