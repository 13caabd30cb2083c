"""What ``jax.ad_checkpoint`` has: ``checkpoint``, and names for its policies to speak of.

>>> import functrax, functrax.numpy as jnp
>>> from functrax.ad_checkpoint import checkpoint, checkpoint_name, checkpoint_policies
>>> policy = checkpoint_policies.save_only_these_names("cosine")
>>> f = checkpoint(lambda x: jnp.sin(checkpoint_name(jnp.cos(x), "cosine")), policy=policy)
>>> functrax.grad(f)(0.0)
Array(-0., dtype=float32, weak_type=True)
"""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.transforms.differentiation.checkpoint import (
    checkpoint as checkpoint,
    checkpoint_name as checkpoint_name,
    checkpoint_policies as checkpoint_policies,
    remat as remat,
)
from functrax.transforms.differentiation.saved_residuals import (
    print_saved_residuals as print_saved_residuals,
)

__dir__ = _listing(globals())
