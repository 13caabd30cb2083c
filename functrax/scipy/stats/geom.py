"""The geometric distribution: how many trials of chance ``p`` it takes to succeed.

>>> from functrax.scipy.stats import geom
>>> geom.pmf(2, 0.5)
Array(0.25, dtype=float32)
"""

from __future__ import annotations

import functrax.numpy as jnp
from functrax.core.lazy import listing as _listing
from functrax.scipy.special import xlog1py
from functrax.scipy.stats.families import discrete

_family = discrete("geom", ("p",), lambda k, p: xlog1py(k - 1, -p) + jnp.log(p), low=1)
logpmf, pmf = _family.logpmf, _family.pmf

__dir__ = _listing(globals())
