"""Batching rules of the user's own, as ``jax.custom_batching`` has them."""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.transforms.user_rules.custom_vmap import (
    custom_vmap as custom_vmap,
    sequential_vmap as sequential_vmap,
)

__dir__ = _listing(globals())
