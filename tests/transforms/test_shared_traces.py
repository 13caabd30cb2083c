"""Several jitted functions of one function trace it once."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import functrax
from functrax.errors import StaticArgumentError


def test_jit_in_a_loop_traces_once() -> None:
    traced = []

    def f(x: Any, n: int) -> Any:
        traced.append(n)
        return x * n

    for k in range(3):
        assert float(functrax.jit(f, static_argnums=1)(float(k), 2)) == 2 * k
    assert traced == [2]
    assert float(functrax.jit(f)(3.0, 2)) == 6.0  # other roles: another trace
    assert len(traced) == 2
    jitted = functrax.jit(f, static_argnums=1)
    assert jitted._cache_size() == 1
    jitted.clear_cache()
    jitted(1.0, 2)
    assert len(traced) == 3


def test_clear_caches_forgets_what_jitted_functions_that_are_gone_traced() -> None:
    traced = []

    def f(x: Any) -> Any:
        traced.append(x)
        return x + 1

    functrax.jit(f)(1.0)
    functrax.clear_caches()
    functrax.jit(f)(1.0)
    assert len(traced) == 2


def test_callables_with_equality_of_their_own_share_nothing() -> None:
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, x: Any) -> Any:
            return x * self.by

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Scaled)

        def __hash__(self) -> int:
            return 0

    found = [float(functrax.jit(Scaled(by))(1.0)) for by in (2.0, 3.0)]
    assert found == [2.0, 3.0]


def test_traces_live_as_long_as_the_function() -> None:
    big = functrax.numpy.ones(3)

    def make() -> Any:
        return lambda x: x + big

    f = make()
    np.testing.assert_array_equal(functrax.jit(f)(1.0), 2.0)
    watch = weakref.ref(f)
    del f
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("kind", ["static", "donate"])
def test_names_that_no_keyword_can_have(kind: str) -> None:
    def f(a: Any, /, b: Any, *rest: Any, **more: Any) -> Any:
        return b

    functrax.jit(f, **{f"{kind}_argnames": ("b", "other")})
    for name in ("a", "rest"):
        with pytest.raises(StaticArgumentError, match="by position alone"):
            functrax.jit(f, **{f"{kind}_argnames": name})


def test_an_empty_list_of_names_is_not_filled_from_the_positions() -> None:
    seen = []

    def f(x: Any, y: Any) -> int:
        seen.append(y)
        return 1

    by_position = functrax.jit(f, static_argnums=1, static_argnames=())
    by_position(2, "text")
    by_position(1, y=2)
    assert seen[0] == "text"
    assert not isinstance(seen[1], int)
    by_name = functrax.jit(f, static_argnums=(), static_argnames="y")
    by_name(1, y="text")
    by_name(1, 2)
    assert seen[2] == "text"
    assert not isinstance(seen[3], int)


def test_names_need_a_signature() -> None:
    class Callable:
        @property
        def __signature__(self) -> Any:
            raise TypeError("no signature")

        def __call__(self, x: Any) -> Any:
            return x

    with pytest.raises(StaticArgumentError, match="Pass donate_argnums instead"):
        functrax.jit(Callable(), donate_argnames="x")
