"""What to do with each cotangent that ``functrax.vjp`` makes: see ``f_vjp.with_refs``.

>>> import functrax, functrax.numpy as jnp
>>> total = functrax.new_ref(jnp.zeros(2))
>>> _, f_vjp = functrax.vjp(lambda x, y: (x * y).sum(), jnp.ones(2), jnp.ones(2))
>>> f_vjp.with_refs(total, DontWant())(1.0)
(GradRef(), DidntWant())
>>> total
Ref([1., 1.], dtype=float32)
"""

from __future__ import annotations

from functrax.transforms.differentiation.accumulating import (
    DidntWant as DidntWant,
    DontWant as DontWant,
    GradRef as GradRef,
    GradValue as GradValue,
)

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
