"""``jax._src.dispatch``: what libraries take from it."""

from __future__ import annotations

from functrax.backends.sharding.placement import effects_barrier


def wait_for_tokens() -> None:
    """Wait until every side effect so far has happened."""
    effects_barrier()
