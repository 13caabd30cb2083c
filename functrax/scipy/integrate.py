"""Integrals of samples, as in ``jax.scipy.integrate``.

>>> import functrax, functrax.numpy as jnp
>>> functrax.scipy.integrate.trapezoid(jnp.array([1.0, 2.0, 3.0]))
Array(4., dtype=float32)
"""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.numpy.differences import trapezoid as trapezoid

__dir__ = _listing(globals())
