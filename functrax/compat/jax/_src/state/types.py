"""``jax._src.state.types``: the type of references."""

from __future__ import annotations

from functrax.ref import AbstractRef as AbstractRef
