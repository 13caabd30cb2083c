"""The Bernoulli distribution: 1 with probability ``p``, else 0.

>>> from functrax.scipy.stats import bernoulli
>>> bernoulli.pmf(1, 0.25)
Array(0.25, dtype=float32)
>>> bernoulli.ppf(0.9, 0.25)
Array(1., dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import xlog1py, xlogy
from functrax.scipy.special.gammas import floats
from functrax.scipy.stats.families import discrete
from functrax.typing import ArrayLike

_family = discrete(
    "bernoulli",
    {"p": "the chance of 1, from 0 to 1."},
    lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p),
    probability="p**k (1 - p)**(1 - k)",
    high=jnp.ones_like,
    cdf=lambda k, p: 1 - p,
)


@_family("1, 0.25 -> -1.3863")
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of a whole number, in the Bernoulli distribution."""


@_family("1, 0.25 -> 0.25")
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a whole number, in the Bernoulli distribution."""


@_family("1, 0.25 -> 1.0")
def cdf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """How probable a value up to ``k`` is, in the Bernoulli distribution."""


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The smallest number of which :func:`cdf` is at least ``q``, in the Bernoulli distribution.

    Args:
      q: probabilities: a number or an array.
      p: the chance of 1, from 0 to 1.

    Returns:
      Floats of the shape to which the arguments broadcast: 0 or 1, -1 for a
      ``q`` of 0; NaN unless ``0 <= q <= 1`` and ``0 <= p <= 1``.

    Raises:
      DTypeError: for lists, and what is not a number.
      ShapeError: for shapes that do not broadcast.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.stats import bernoulli
    >>> bernoulli.ppf(jnp.array([0.5, 0.9]), 0.25)
    Array([0., 1.], dtype=float32, weak_type=True)
    """
    probability, chance = floats("bernoulli.ppf", q, p)
    good = (probability >= 0) & (probability <= 1) & (chance >= 0) & (chance <= 1)
    found = jnp.where(probability <= 1 - chance, 0.0, 1.0)
    found = jnp.where(probability == 0, -1.0, found)
    return jnp.where(good, found, jnp.nan)


__dir__ = _listing(globals())
