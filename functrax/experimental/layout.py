"""How elements lie in memory; as ``jax.experimental.layout``.  Arrays lie row by row.

>>> import functrax.numpy as jnp
>>> jnp.ones((2, 3)).format.layout.major_to_minor
(0, 1)
"""

from __future__ import annotations

from functrax.backends.sharding.layouts import (
    Format as Format,
    Layout as Layout,
    with_layout_constraint as with_layout_constraint,
)
