"""What ``jax.custom_derivatives`` has and ``functrax.custom_derivatives`` has not: primitives."""

from __future__ import annotations

from functrax.compat.jax.extend.core.primitives import __getattr__ as __getattr__
