"""``explain_cache_misses``: why functions are traced, in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp

ONE = np.float32(1)


def explained(caplog: pytest.LogCaptureFixture, call: Callable[[], object]) -> list[str]:
    caplog.clear()
    with functrax.explain_cache_misses(), caplog.at_level(logging.WARNING, "functrax.jit"):
        call()
    return [record.getMessage() for record in caplog.records]


def test_what_differs_from_earlier_calls(caplog: pytest.LogCaptureFixture) -> None:
    @functrax.jit
    def f(x: Any, y: Any) -> Any:
        return jnp.sin(x)

    (first,) = explained(caplog, lambda: f(ONE, ONE))
    assert "never seen function, defined at" in first
    assert "TRACING CACHE MISS at test_cache_misses.py" in first
    assert explained(caplog, lambda: f(ONE, ONE)) == []
    (dtype,) = explained(caplog, lambda: f(ONE, np.int32(1)))
    assert "different input types:\n    * at y, now i32[] and before f32[]" in dtype
    (shape,) = explained(caplog, lambda: f(ONE, np.ones(2, np.float32)))
    assert "at y, now f32[2] and before" in shape
    (weak,) = explained(caplog, lambda: f(1.0, ONE))
    assert "at x, now f32[]{weak_type=True} and before f32[]{weak_type=False}" in weak
    (tree,) = explained(caplog, lambda: f(ONE, (ONE, ONE)))
    assert "different input pytree" in tree
    with functrax.numpy_rank_promotion("warn"):
        (context,) = explained(caplog, lambda: f(ONE, ONE))
    assert "different tracing context:\n    * numpy_rank_promotion, now warn and before" in context


def test_static_values(caplog: pytest.LogCaptureFixture) -> None:
    f = functrax.jit(lambda x, n: x * n, static_argnums=1)
    f(ONE, 2)
    (static,) = explained(caplog, lambda: f(ONE, 3))
    assert "static arguments: now 1: 3 and before 1: 2" in static


def test_functions_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    def loop() -> None:
        for _ in range(2):
            functrax.jit(lambda x: 2 * x)(3)

    first, second = explained(caplog, loop)
    assert "another function defined on the same line" not in first
    assert "another function defined on the same line" in second
