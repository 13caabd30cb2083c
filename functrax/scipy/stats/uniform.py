"""The uniform distribution between ``loc`` and ``loc + scale``.

>>> import functrax.numpy as jnp
>>> from functrax.scipy.stats import uniform
>>> uniform.pdf(jnp.array([-1.0, 1.0, 5.0]), 0.0, 4.0)
Array([0.  , 0.25, 0.  ], dtype=float32)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_family = continuous(
    "uniform",
    density="1",
    support=(0.0, 1.0),
    inside=0.5,
    logpdf=jnp.zeros_like,
    cdf=lambda z: z,
    ppf=lambda q: q,
)


@_family("1.0, 0.0, 4.0 -> -1.3863")
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density of the uniform distribution."""


@_family("1.0, 0.0, 4.0 -> 0.25")
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density of the uniform distribution."""


@_family("1.0, 0.0, 4.0 -> 0.25")
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable a value up to ``x`` is, in the uniform distribution."""


@_family("0.25, 0.0, 4.0 -> 1.0")
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The value up to which the probability is ``q``, in the uniform distribution."""


__dir__ = _listing(globals())
