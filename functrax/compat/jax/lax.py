"""What ``jax.lax`` has and ``functrax.lax`` has not: the primitives."""

from __future__ import annotations

from functrax.compat.jax.extend.core.primitives import __getattr__ as __getattr__
