"""What ``jax.scipy`` has: linear algebra and special functions; SciPy itself is not needed.

>>> import functrax, functrax.numpy as jnp
>>> functrax.scipy.special.expit(jnp.zeros(1))
Array([0.5], dtype=float32)
"""

from __future__ import annotations

from functrax.scipy import linalg as linalg, special as special
