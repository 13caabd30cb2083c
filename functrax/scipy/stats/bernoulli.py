"""The Bernoulli distribution: 1 with probability ``p``, else 0.

>>> from functrax.scipy.stats import bernoulli
>>> bernoulli.pmf(1, 0.25)
Array(0.25, dtype=float32)
>>> bernoulli.ppf(0.9, 0.25)
Array(1., dtype=float32, weak_type=True)
"""

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
    ("p",),
    lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p),
    high=jnp.ones_like,
    cdf=lambda k, p: 1 - p,
)
logpmf, pmf, cdf = _family.logpmf, _family.pmf, _family.cdf


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The smallest number of which :func:`cdf` is at least ``q``; NaN unless ``0 <= q <= 1``."""
    probability, chance = floats("bernoulli.ppf", q, p)
    good = (probability >= 0) & (probability <= 1) & (chance >= 0) & (chance <= 1)
    found = jnp.where(probability <= 1 - chance, 0.0, 1.0)
    found = jnp.where(probability == 0, -1.0, found)
    return jnp.where(good, found, jnp.nan)


__dir__ = _listing(globals())
