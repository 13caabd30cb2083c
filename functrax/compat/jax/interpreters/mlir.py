"""``jax.interpreters.mlir``: how a primitive is compiled, by rules that are traced."""

from __future__ import annotations

from functrax.compat.extension.lowering import (
    LoweringRuleContext as LoweringRuleContext,
    ModuleContext as ModuleContext,
    emit_python_callback as emit_python_callback,
    lower_fun as lower_fun,
)
from functrax.compat.extension.rules import register_lowering as register_lowering
