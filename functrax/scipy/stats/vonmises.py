"""The von Mises distribution of angles, of concentration ``kappa``.

>>> from functrax.scipy.stats import vonmises
>>> vonmises.pdf(0.0, 0.0).round(4)
Array(0.1592, dtype=float32, weak_type=True)
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import i0e
from functrax.scipy.stats.families import continuous
from functrax.typing import ArrayLike

_family = continuous(
    "vonmises",
    {"kappa": "the concentration, at least 0."},
    density="exp(kappa cos(x)) / (2 pi I0(kappa))",
    located=False,
    logpdf=lambda x, kappa: kappa * (jnp.cos(x) - 1) - jnp.log(2 * math.pi * i0e(kappa)),
)


@_family("0.5, 2.0 -> -0.9067")
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The logarithm of the density of the von Mises distribution."""


@_family("0.5, 2.0 -> 0.4039")
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """The density of the von Mises distribution."""


__dir__ = _listing(globals())
