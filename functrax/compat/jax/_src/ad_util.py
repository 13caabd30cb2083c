"""``jax._src.ad_util``: what libraries take from it."""

from __future__ import annotations

from functrax.compat.extension.rules import Zero as Zero, instantiate_zeros as instantiate
from functrax.compat.extension.user_primitives import Primitive

__all__ = ["Zero", "instantiate", "stop_gradient_p"]

#: The identity, which has no derivative; ``lax.stop_gradient`` is another operation, as in JAX.
stop_gradient_p = Primitive("stop_gradient")
stop_gradient_p.def_impl(lambda x: x)
stop_gradient_p.def_abstract_eval(lambda x: x)
