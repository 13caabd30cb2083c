"""``fork`` and ``wait``: functions beside each other."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp


def test_both_run_at_once() -> None:
    """T18: each waits for the other, so one after the other they would not end."""
    meeting = threading.Barrier(2, timeout=120)
    calls = [functrax.fork(lambda k: (meeting.wait(), k)[1], k) for k in range(2)]
    assert [c.wait() for c in calls] == [0, 1]


def test_programs_run_in_forks() -> None:
    f = functrax.jit(lambda x, y: jnp.tanh(x @ y).sum())
    rng = np.random.default_rng(0)
    pairs = [(rng.normal(size=(64, 64)), rng.normal(size=(64, 64))) for _ in range(8)]
    calls = [functrax.fork(f, *pair) for pair in pairs]
    assert [float(c.wait()) for c in calls] == [float(f(*pair)) for pair in pairs]


def test_an_exception_is_raised_by_every_wait() -> None:
    call = functrax.fork(lambda: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as info:
            call.wait()
    assert "test_fork.py" in info.value.__notes__[0] and len(info.value.__notes__) == 1
    assert call.done()


def test_forks_may_fork_and_wait() -> None:
    def count(depth: int) -> int:
        if depth == 0:
            return 1
        calls = [functrax.fork(count, depth - 1) for _ in range(2)]
        return sum(c.wait() for c in calls)

    assert functrax.fork(count, 7).wait() == 128


def test_the_options_are_those_of_the_caller() -> None:
    with functrax.enable_x64():
        call = functrax.fork(lambda: jnp.ones(2, jnp.float64).dtype.name)
        assert call.wait() == "float64"
    assert functrax.fork(lambda: functrax.config.enable_x64).wait() is False


def test_within_jit_it_is_a_part_of_the_program() -> None:
    @functrax.jit
    def f(x: Any) -> Any:
        call = functrax.fork(jnp.sin, x)
        return jnp.cos(x) + call.wait()

    x = jnp.linspace(0, 1, 5)
    np.testing.assert_allclose(f(x), np.sin(x) + np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(
        functrax.grad(lambda x: f(x).sum())(x), np.cos(x) - np.sin(x), rtol=1e-5
    )
