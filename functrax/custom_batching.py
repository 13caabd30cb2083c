"""Batching rules of the user's own, as ``jax.custom_batching`` has them."""

from __future__ import annotations

from functrax.transforms.user_rules.custom_vmap import (
    custom_vmap as custom_vmap,
    sequential_vmap as sequential_vmap,
)
