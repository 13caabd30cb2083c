"""``jax._src.flatten_util``: what libraries take from it."""

from __future__ import annotations

from functrax.flatten_util import ravel_pytree as ravel_pytree
