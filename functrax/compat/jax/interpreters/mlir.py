"""``jax.interpreters.mlir``: how a primitive is compiled, where that is what a function does."""

from __future__ import annotations

from functrax.compat.extension.rules import (
    lower_fun as lower_fun,
    register_lowering as register_lowering,
)
