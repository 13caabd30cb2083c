"""The von Mises distribution of angles, of concentration ``kappa``.

>>> from functrax.scipy.stats import vonmises
>>> vonmises.pdf(0.0, 0.0).round(4)
Array(0.1592, dtype=float32, weak_type=True)
"""

from __future__ import annotations

import math

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import i0e
from functrax.scipy.stats.families import continuous

_family = continuous(
    "vonmises",
    ("kappa",),
    located=False,
    logpdf=lambda x, kappa: kappa * (jnp.cos(x) - 1) - jnp.log(2 * math.pi * i0e(kappa)),
)
logpdf, pdf = _family.logpdf, _family.pdf

__dir__ = _listing(globals())
