"""The geometric distribution: how many trials of chance ``p`` it takes to succeed.

>>> from functrax.scipy.stats import geom
>>> geom.pmf(2, 0.5)
Array(0.25, dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import xlog1py
from functrax.scipy.stats.families import discrete
from functrax.typing import ArrayLike

_family = discrete(
    "geom",
    {"p": "the chance of success, from 0 to 1."},
    lambda k, p: xlog1py(k - 1, -p) + jnp.log(p),
    probability="(1 - p)**(k - 1) p",
    low=1,
)


@_family("2, 0.25 -> -1.674")
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of a whole number, in the geometric distribution."""


@_family("2, 0.25 -> 0.1875")
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a whole number, in the geometric distribution."""


__dir__ = _listing(globals())
