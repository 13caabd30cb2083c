"""``jax.ad``, which JAX's list of modules does not have."""

from __future__ import annotations

from functrax.ad import (
    DidntWant as DidntWant,
    DontWant as DontWant,
    GradRef as GradRef,
    GradValue as GradValue,
)
