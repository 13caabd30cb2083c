"""The uniform distribution between ``loc`` and ``loc + scale``.

>>> import functrax.numpy as jnp
>>> from functrax.scipy.stats import uniform
>>> uniform.pdf(jnp.array([-1.0, 1.0, 5.0]), 0.0, 4.0)
Array([0.  , 0.25, 0.  ], dtype=float32)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.scipy.stats.families import continuous

_family = continuous(
    "uniform",
    support=(0.0, 1.0),
    inside=0.5,
    logpdf=jnp.zeros_like,
    cdf=lambda z: z,
    ppf=lambda q: q,
)
logpdf, pdf, cdf, ppf = _family.logpdf, _family.pdf, _family.cdf, _family.ppf

__dir__ = _listing(globals())
