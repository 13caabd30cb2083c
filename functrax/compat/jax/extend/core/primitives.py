"""``jax.extend.core.primitives``: functrax's primitives under JAX's names."""

from __future__ import annotations

from typing import Any

from functrax.compat.extension.programs import primitive_named


def __getattr__(name: str) -> Any:
    found = primitive_named(name)
    if found is None:
        raise AttributeError(name)
    return found
