"""Derivative rules of the user's own, as ``jax.custom_derivatives`` has them."""

from __future__ import annotations

from functrax.transforms.custom import (
    CustomVJPPrimal as CustomVJPPrimal,
    closure_convert as closure_convert,
    custom_gradient as custom_gradient,
    custom_jvp as custom_jvp,
    custom_vjp as custom_vjp,
)
from functrax.transforms.custom_call import SymbolicZero as SymbolicZero
