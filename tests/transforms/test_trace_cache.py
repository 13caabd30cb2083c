"""Programs of signatures that are not used again are dropped, and those that are stay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core import native
from functrax.transforms.staging import trace_cache


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Twenty programs of two equations are what new ones may weigh."""
    monkeypatch.setattr(trace_cache, "FIRST_BOUND", 20 * (trace_cache.OVERHEAD + 2))
    yield


def check(call: functrax.transforms.Jitted, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(call(x)), x * 2 + 1)


def test_what_is_not_used_again_is_dropped() -> None:
    call = functrax.jit(lambda x: x * 2 + 1)
    for n in range(1, 201):
        check(call, n)
        assert call.cache_info().currsize <= 45
    assert call.cache_info().misses == 200
    check(call, 3)  # it is made again
    assert call.cache_info().misses == 201


def test_what_is_used_stays() -> None:
    call = functrax.jit(lambda x: x * 2 + 1)
    for n in range(1, 301):
        check(call, n)
        check(call, 1000)  # in C++, where there is one
    assert call.cache_info().misses == 301


def test_what_other_traces_use_stays() -> None:
    inner = functrax.jit(lambda x: x * 2 + 1)
    inner(np.float32(3))
    for n in range(1, 201):
        inner(np.zeros(n, np.float32))
        functrax.make_jaxpr(lambda x: inner(x) * 3)(np.float32(3))
    assert inner.cache_info().misses == 201


def test_many_sizes_in_turn_are_all_kept_after_some_rounds() -> None:
    call = functrax.jit(lambda x: x * 2 + 1)
    made = []
    for _ in range(6):
        before = call.cache_info().misses
        for n in range(1, 101):
            check(call, n)
        made.append(call.cache_info().misses - before)
    assert made[0] == 100 and made[-1] == 0
    call.clear_cache()
    assert call.cache_info().currsize == 0
    check(call, 4)


def test_a_function_that_shares_its_traces_calls_what_it_has() -> None:
    def f(x: functrax.Array) -> functrax.Array:
        return x * 2 + 1

    first, second = functrax.jit(f), functrax.jit(f)
    check(first, 7)
    for n in range(10, 200):
        check(second, n)
    check(first, 7)  # Python asks for it again, C++ has it
    in_cpp = native.extension is not None and functrax.config.backend != "interp"
    assert first.cache_info().misses == (1 if in_cpp else 2)


def test_the_gradient_of_many_sizes() -> None:
    call = functrax.jit(functrax.grad(lambda x: jnp.sum(x**3)))
    for n in range(1, 120):
        x = np.linspace(0, 1, n, dtype=np.float32)
        np.testing.assert_allclose(np.asarray(call(x)), 3 * x * x, rtol=1e-5)
    assert call.cache_info().currsize < 60
