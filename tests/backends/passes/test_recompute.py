"""Computing values again instead of storing them: what it may cost to look for them."""

from __future__ import annotations

from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.passes.fusion import recompute
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct

LEVELS = 5


def chain(x: Any) -> Any:
    """Equations that each use the one before several times, and readers in several kernels."""
    y = x
    for i in range(LEVELS):
        y = functrax.lax.select(y > float(i), y * y, y)
    return y, jnp.sum(y, 0), jnp.sum(y, 1)


def test_an_equation_is_looked_at_few_times_however_often_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def counted(eqn: Any, plain: Any = recompute.is_dear) -> bool:
        asked.append(eqn)
        return bool(plain(eqn))

    monkeypatch.setattr(recompute, "is_dear", counted)
    functrax.jit(chain).lower(ShapeDtypeStruct((257, 263), "float32")).compile()
    assert asked
    most = max(sum(e is eqn for e in asked) for eqn in asked)
    assert most <= 100, f"an equation was looked at {most} times"  # once for each value, in rounds
