"""What is kept of programs that eager mode compiled: at most so much, and nothing once cleared."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.eager import run as eager_run

N = 300


def cut(x: Any, length: int) -> Any:
    """A cut of about ``2 * length`` operations that does not fit any other length."""
    for i in range(length):
        x = jnp.sin(x) * (1.0 + i / 8)
    return np.asarray(x)


def reference(x: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    for i in range(length):
        x = np.sin(x) * np.float32(1.0 + i / 8)
    return x


@pytest.fixture(autouse=True)
def nothing_is_kept() -> None:
    eager_run.forget()


def test_at_most_so_many_operations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager_run, "MAX_REMEMBERED", 100)
    x = np.linspace(-1, 1, N * N, dtype="float32").reshape(N, N)
    most = 0
    for length in range(2, 20):
        np.testing.assert_allclose(
            cut(jnp.asarray(x), length), reference(x, length), rtol=1e-3, atol=1e-4
        )
        most = max(most, eager_run._operations)
    assert 50 < most < 100 + 2 * 20 + 2


def test_clear_caches_forgets_the_programs_of_eager_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Any]] = []
    plain = eager_run._compile_one

    def compile_one(jaxpr: Any) -> Any:
        made.append(weakref.ref(jaxpr))
        return plain(jaxpr)

    monkeypatch.setattr(eager_run, "_compile_one", compile_one)
    cut(jnp.ones((N, N)), 7)
    assert made
    assert eager_run._programs
    functrax.clear_caches()
    gc.collect()
    assert not eager_run._programs
    assert not [ref for ref in made if ref() is not None]
