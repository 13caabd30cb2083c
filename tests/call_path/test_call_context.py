"""Jitted calls and what is around them: options, threads, callbacks, errors, memory, copies."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.runtime.choice import pool_stats
from functrax.core.arrays.array import ConcreteArray
from functrax.core.tracing.trace import EVAL, named_axis, state
from functrax.errors import DonatedBufferError, DTypeError, FunctraxError
from functrax.transforms.staging.jit import Jitted
from functrax.tree_util import register_pytree_node, tree_map


def _same(left: Any, right: Any) -> None:
    assert left.aval is right.aval
    np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


OPTIONS: list[tuple[Callable[[], Any], bool]] = [
    (functrax.enable_x64, True),
    (lambda: functrax.default_matmul_precision("high"), True),
    (lambda: functrax.numpy_rank_promotion("raise"), True),
    (lambda: functrax.numpy_dtype_promotion("strict"), True),
    (lambda: functrax.backend("interp"), False),
    (functrax.log_compiles, False),
]


@pytest.mark.parametrize(("option", "traces"), OPTIONS)
def test_options_take_effect_between_calls(
    jit: Callable[..., Any], option: Callable[[], Any], traces: bool
) -> None:
    f = jit(lambda x: x + 1)
    x = jnp.ones(3)
    for _ in range(3):
        f(x)
        with option():
            f(x), f(x)
        f(x)
    assert f.cache_info().misses == 1 + traces


def test_updates_for_the_process_take_effect(jit: Callable[..., Any]) -> None:
    f = jit(lambda x: x + np.float64(0.1))
    assert f(1.0).dtype == f(1.0).dtype == np.float32
    functrax.config.update("enable_x64", True)
    try:
        assert f(1.0).dtype == f(1.0).dtype == np.float64
    finally:
        functrax.config.update("enable_x64", False)
    assert f(1.0).dtype == np.float32


def test_debugging_takes_effect_between_calls(jit: Callable[..., Any]) -> None:
    traced = []
    f = jit(lambda x: (traced.append(1), jnp.log(x))[1])
    x = jnp.array([-1.0])
    f(x), f(x)
    with functrax.debug_nans(), pytest.raises(FunctraxError):
        f(x)
    f(x)
    count = len(traced)
    with functrax.disable_jit():
        f(x), f(x)
    assert len(traced) == count + 2
    f(x)
    assert len(traced) == count + 2


def test_an_option_holds_in_its_thread_only(jit: Callable[..., Any]) -> None:
    f = jit(lambda x: x + 1)
    f(1.0), f(1.0)
    inside, done = threading.Event(), threading.Event()
    found: list[Any] = []

    def other() -> None:
        with functrax.enable_x64():
            found.append(f(1.0).dtype)
            inside.set()
            done.wait(120)
            found.append(f(1.0).dtype)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(120)
    found.append(f(1.0).dtype)
    done.set()
    thread.join()
    assert found == [np.float64, np.float32, np.float64]


def test_transformations_and_named_axes(jit: Callable[..., Any]) -> None:
    f = jit(lambda x: x * x)
    g = jit(lambda x: x / functrax.lax.psum(x, "i"))
    x = jnp.arange(1.0, 4.0)
    for _ in range(3):
        f(2.0)
        assert float(functrax.grad(lambda x: f(x))(2.0)) == 4.0
        _same(functrax.vmap(lambda x: f(x))(x), x * x)
        assert str(functrax.make_jaxpr(lambda x: f(x))(2.0)).count("mul") == 1
        _same(functrax.vmap(lambda x: g(x), axis_name="i")(x), x / 6)
        with pytest.raises(FunctraxError):
            g(1.0)
    h = jit(lambda x: x * functrax.lax.axis_size("j"))
    for size in (2, 3, 2):
        with named_axis("j", size):
            assert float(h(1.0)) == size


def test_a_callback_calls_the_function_itself(jit: Callable[..., Any]) -> None:
    @jit
    def f(x: Any) -> Any:
        below = functrax.pure_callback(
            lambda v: np.float32(0) if v <= 0 else np.asarray(f(np.float32(v - 1))),
            functrax.ShapeDtypeStruct((), np.float32),
            x,
        )
        return below + x

    f(np.float32(0))
    assert float(f(np.float32(4))) == 10.0
    assert float(f(np.float32(4))) == 10.0


def test_errors_leave_the_function_usable(jit: Callable[..., Any]) -> None:
    def check(v: Any) -> Any:
        if v < 0:
            raise ValueError("negative")
        return v

    @jit
    def f(x: Any) -> Any:
        return functrax.pure_callback(check, functrax.ShapeDtypeStruct((), np.float32), x) + 1

    for _ in range(3):
        assert float(f(1.0)) == 2.0
        with pytest.raises(ValueError, match="negative"):
            f(-1.0)
        with pytest.raises(DTypeError):
            f("text")
        with pytest.raises(TypeError):
            f(1.0, 2.0)
        x = jnp.ones(())
        x.delete()
        with pytest.raises(DonatedBufferError):
            f(x)


def test_eight_threads(jit: Callable[..., Any]) -> None:
    f = jit(lambda tree, n: {k: x * n for k, x in tree.items()}, static_argnums=1)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        try:
            for k in range(150):
                n, size = 1 + (seed + k) % 3, 1 + k % 5
                out = f({"a": jnp.full(size, float(k)), "b": np.full(2, seed)}, n)
                if (
                    out["a"].tolist() != [float(k * n)] * size
                    or out["b"].tolist() != [seed * n] * 2
                ):
                    wrong.append((seed, k, out))
                if seed == 0 and k % 50 == 49:
                    f.clear_cache()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_leave_nothing_behind(jit: Callable[..., Any]) -> None:
    f = jit(lambda tree, n, s: (tree_map(lambda x: x * n, tree), s), static_argnums=1)
    key, static, x = "".join(["a", "?"]), ("static", 3)[1], jnp.arange(5.0)
    tree = {key: x, "n": np.ones(3), "f": 1.5, "i": np.int64(3), "o": (x, [2.0])}
    x64 = np.arange(4.0)
    arguments: list[Any] = [x, x.aval, tree, key, x64, f]

    def many(count: int) -> None:
        for _ in range(count):
            f(tree, static, x64)

    many(2000)
    gc.collect()
    before = [sys.getrefcount(a) for a in arguments]
    in_use = pool_stats().in_use
    tracemalloc.start()
    many(200)
    first = tracemalloc.get_traced_memory()[0]
    many(2000 if type(f) is not Jitted else 100_000 // 20)
    gc.collect()
    second = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert [sys.getrefcount(a) for a in arguments] == before
    assert pool_stats().in_use == in_use
    assert second - first < 20_000


@pytest.mark.usefixtures("no_collection")
def test_many_calls_allocate_nothing_new(jit: Callable[..., Any]) -> None:
    f = jit(lambda xs: [x + 1 for x in xs])
    xs = [jnp.ones(3)] * 5
    xs = f(xs)
    for _ in range(10):
        xs = f(xs)
    before = pool_stats()
    for _ in range(1000 if type(f) is not Jitted else 100_000):
        xs = f(xs)
    after = pool_stats()
    assert after.allocations == before.allocations and after.in_use == before.in_use


def test_functions_and_what_they_hold_are_freed() -> None:
    class Held:
        pass

    held = Held()
    big = jnp.ones(1000)

    def closing_over(held: Any, big: Any) -> Any:
        def function(x: Any, n: Any) -> Any:
            assert function and held
            return x + big * n.value

        return function

    class Static(Held):
        value = 2

    static, function = Static(), closing_over(held, big)
    f = functrax.jit(function, static_argnums=1)
    f(1.0, static), f(1.0, static)
    function.f, held.function = f, function  # a cycle through the cache
    dead = [weakref.ref(x) for x in (held, f, static, function, big)]
    del f, function, held, static, big
    gc.collect()
    assert [r() for r in dead] == [None] * 5


def test_new_signatures_without_end(jit: Callable[..., Any]) -> None:
    f = jit(lambda x, n: x + 1, static_argnums=1)
    for n in range(50):
        assert float(f(1.0, n)) == 2.0
    g = jit(lambda d: d[min(d)] + 1)
    names = [f"name {k}" for k in range(7)]
    for k in range(200):  # the same dict in ever other orders
        order = names[k % 7 :] + names[: k % 7]
        order[0], order[k % 7] = order[k % 7], order[0]
        assert float(g(dict.fromkeys(order, 1.0))) == 2.0
    assert g.cache_info().misses == 1


def test_clearing_caches_traces_again(jit: Callable[..., Any]) -> None:
    traced = []
    f = jit(lambda x: (traced.append(1), x + 1)[1])
    f(1.0), f(1.0)
    f.clear_cache()
    f(1.0), f(1.0)
    functrax.clear_caches()
    f(1.0), f(1.0)
    assert len(traced) == 3


class _Owner:
    def __init__(self) -> None:
        self.scale = 3.0

    @functools.partial(functrax.jit, static_argnums=0)
    def method(self, x: Any) -> Any:
        return x * self.scale


def _module_function(x: Any) -> Any:
    return x + 1


def test_jitted_functions_as_objects() -> None:
    f = functrax.jit(_module_function)
    f(1.0), f(1.0)
    for other in (copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert other is not f and type(other) is type(f)
        assert float(other(2.0)) == float(other(2.0)) == 3.0
        assert other.cache_info().misses == 1
    assert f.cache_info().hits == 1 and f.__wrapped__ is _module_function
    assert f.__name__ == "_module_function" and list(inspect.signature(f).parameters) == ["x"]
    assert weakref.ref(f)() is f and callable(f) and isinstance(f, type(functrax.jit(len)))
    owner = _Owner()
    assert [float(owner.method(2.0)) for _ in range(3)] == [6.0] * 3
    assert float(functools.partial(f, 1.0)()) == 2.0
    assert list(map(float, map(f, [1.0, 2.0]))) == [2.0, 3.0]
    assert "sin" in str(functrax.jit(jnp.sin).lower(1.0).as_text())


def test_a_node_whose_children_change_meanwhile(jit: Callable[..., Any]) -> None:
    items: list[Any] = []

    class Emptying:
        pass

    register_pytree_node(Emptying, lambda n: (items.clear() or (), None), lambda d, xs: Emptying())
    f = jit(lambda xs: len(xs))
    for _ in range(3):
        items[:] = [Emptying(), jnp.ones(2), 1.0]
        f(items)


def test_the_state_of_a_thread_is_its_own() -> None:
    found: list[Any] = []

    def other() -> None:
        found.append((state.trace, state.source, state.axis_env))
        state.trace = EVAL

    def traced(x: Any) -> Any:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert state.trace is not EVAL
        return x

    with named_axis("i", 2):
        functrax.make_jaxpr(traced)(1.0)
    assert found == [(EVAL, None, ())] and state.trace is EVAL
    assert isinstance(functrax.jit(lambda: 1.0)(), ConcreteArray)
