"""References to arrays that can be changed in place: what ``functrax.new_ref`` makes.

>>> import functrax, functrax.numpy as jnp
>>> from functrax import ref
>>> r = ref.new_ref(jnp.arange(3.0))
>>> ref.swap(r, 0, jnp.float32(7.0))
Array(0., dtype=float32)
>>> ref.freeze(r)
Array([7., 1., 2.], dtype=float32)
"""

from __future__ import annotations

from functrax.core.state.lifetime import (
    empty_ref as empty_ref,
    free_ref as free_ref,
    freeze as freeze,
    new_ref as new_ref,
)
from functrax.core.state.reference_access import (
    addupdate as addupdate,
    get as get,
    set_ as set,  # JAX's name
    swap as swap,
)
from functrax.core.state.references import AbstractRef as AbstractRef, Ref as Ref

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]
