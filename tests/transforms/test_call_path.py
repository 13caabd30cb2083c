"""The calls of jitted functions, in C++ and in its Python twin: the same results either way.

``tests/transforms/test_jit.py`` tests what ``jit`` means; here are the inputs, outputs, options,
threads and memory of calls whose program is known.
"""

from __future__ import annotations

import collections
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
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.program_builder import ProgramBuilder
from functrax.backends.runtime import pool_stats
from functrax.core import native
from functrax.core.array import ConcreteArray
from functrax.core.trace import EVAL, named_axis, state
from functrax.errors import DonatedBufferError, DTypeError, FunctraxError, StaticArgumentError
from functrax.tree_util import register_pytree_node, tree_map


class _InPython:
    """A jitted function all of whose calls are made in Python."""

    def __init__(self, jitted: Any) -> None:
        self.jitted = jitted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted._call_in_python(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.jitted, name)


@pytest.fixture(params=["native", "python"])
def jit(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "python":
        return lambda *args, **kwargs: _InPython(functrax.jit(*args, **kwargs))
    if native.extension is None:
        pytest.skip("the extension is not built")
    return functrax.jit


def _is_direct(f: Any) -> bool:
    return not isinstance(f, _InPython)


def _same(left: Any, right: Any) -> None:
    assert left.aval is right.aval
    np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def _deferred() -> Any:
    """An array whose elements are not known yet, or were not when it was made."""
    x = jnp.ones((64, 64))
    return x[:, None, :] * x.T[None]


LEAVES: dict[str, Any] = {
    "float": 1.5,
    "negative zero": -0.0,
    "nan": float("nan"),
    "inf": float("-inf"),
    "int": -7,
    "largest int": 2**31 - 1,
    "bool": True,
    "complex": 1.5 - 2j,
    "array": jnp.arange(6.0).reshape(2, 3),
    "weak array": jnp.asarray(2.0) * 1,
    "empty": jnp.zeros((0, 3)),
    "bool array": jnp.array([True, False]),
    "bfloat16": jnp.ones(3, "bfloat16"),
    "transposed": jnp.arange(6.0).reshape(2, 3).T,
    "deferred": _deferred(),
    "numpy float32": np.arange(5, dtype=np.float32),
    "numpy float64": np.arange(5.0) / 3,
    "numpy int64": np.array([1, -2, 2**40]),
    "numpy uint64": np.array([1, 2**40], np.uint64),
    "numpy complex128": np.array([1 + 2j]),
    "numpy bool": np.array([[True], [False]]),
    "numpy bfloat16": np.ones(3, ml_dtypes.bfloat16),
    "numpy strided": np.arange(12, dtype=np.float32)[::3],
    "numpy backwards": np.arange(12, dtype=np.float32)[::-1],
    "numpy fortran": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "numpy big endian": np.arange(5, dtype=">f4"),
    "numpy rank 0": np.array(2.5),
    "numpy empty": np.zeros((2, 0)),
    "numpy float32 scalar": np.float32(2.5),
    "numpy float64 scalar": np.float64(1 / 3),
    "numpy int64 scalar": np.int64(-5),
    "numpy uint8 scalar": np.uint8(250),
    "numpy bool scalar": np.bool_(True),
    "numpy complex128 scalar": np.complex128(1 - 1j),
    "numpy float16 scalar": np.float16(1.5),
}
_THROUGH_PYTHON = {"numpy float16 scalar"}


@pytest.mark.parametrize("name", LEAVES)
def test_every_kind_of_leaf(jit: Callable[..., Any], name: str) -> None:
    x = LEAVES[name]
    f = jit(lambda x: (x, functrax.lax.stop_gradient(x) * x, x))
    first = f(x)
    for _ in range(3):
        for left, right in zip(f(x), first, strict=True):
            _same(left, right)
    assert f.cache_info().hits == 3
    if _is_direct(f):
        assert f._direct_hits == (0 if name in _THROUGH_PYTHON else 3)


@pytest.mark.parametrize("x64", [False, True])
def test_scalars_of_both_widths(jit: Callable[..., Any], x64: bool) -> None:
    f = jit(lambda *xs: [x + x for x in xs])
    args = (0.1, 7, 1j, np.float64(0.1), np.int64(9), np.complex128(2j), np.arange(3), np.ones(2))
    with functrax.enable_x64(x64):
        expected = [jnp.asarray(x) + jnp.asarray(x) for x in args]
        for _ in range(2):
            for left, right in zip(f(*args), expected, strict=True):
                assert left.dtype == right.dtype
                np.testing.assert_array_equal(left, right)


def test_numbers_that_do_not_fit(jit: Callable[..., Any]) -> None:
    f = jit(lambda x: x + 1)
    assert int(f(1)) == 2 and int(f(3)) == 4
    with pytest.raises(OverflowError):
        f(2**31)
    with pytest.raises(OverflowError):
        f(2**80)
    assert float(f(1.0)) == 2.0
    with np.errstate(all="ignore"):
        expected = np.asarray(np.float32(np.inf))
        assert np.asarray(f(1e300)) == expected and np.asarray(f(np.float64(1e300))) == expected


Pair = collections.namedtuple("Pair", "left right")


class Node:
    def __init__(self, x: Any, y: Any, data: Any) -> None:
        self.x, self.y, self.data = x, y, data


register_pytree_node(Node, lambda n: ((n.x, n.y), n.data), lambda d, xs: Node(*xs, d))


def test_every_kind_of_tree(jit: Callable[..., Any]) -> None:
    f = jit(lambda *trees, **more: tree_map(lambda x: x + 1, (trees, more)))
    x, name = jnp.arange(3.0), "".join(["ke", "y!"])
    trees: list[Any] = [
        (),
        None,
        [x, (x, [x])],
        {"b": x, "a": 2 * x, "c": {"z": x, "y": 3 * x}},
        {3: x, 1: 2 * x, 2: 3 * x},
        {(1, 2): x, (0, 5): 2 * x},
        {name: x, "k": 2 * x},
        Pair(x, 2 * x),
        {"n": Node(x, [2 * x], "data")},
        collections.OrderedDict(b=x, a=2 * x),
    ]
    for _ in range(3):
        for tree in trees:
            ours = f(tree, kw=tree)
            expected = (tree_map(lambda x: x + 1, tree),), {"kw": tree_map(lambda x: x + 1, tree)}
            left, structure = functrax.tree_util.tree_flatten(ours)
            right, wanted = functrax.tree_util.tree_flatten(expected)
            if not isinstance(tree, dict) or "n" not in tree:
                assert structure == wanted
            for a, b in zip(left, right, strict=True):
                _same(a, b)
    assert f.cache_info().misses == len(trees)
    if _is_direct(f):
        assert f._direct_hits == 2 * len(trees)


def test_dicts_and_keywords_in_any_order(jit: Callable[..., Any]) -> None:
    f = jit(lambda d, **more: (d["a"] - d["b"], more["x"] / more["y"]))
    a, b = jnp.array(5.0), jnp.array(3.0)
    for _ in range(3):
        for d in ({"a": a, "b": b}, {"b": b, "a": a}):
            assert [float(v) for v in f(d, x=a, y=b)] == [2.0, float(np.float32(5) / 3)]
            assert [float(v) for v in f(d, y=b, x=a)] == [2.0, float(np.float32(5) / 3)]
    assert f.cache_info().misses == 1


def test_the_data_of_nodes_is_part_of_the_signature(jit: Callable[..., Any]) -> None:
    f = jit(lambda n: n.x * n.data)
    for _ in range(3):
        for data in (2, 3, 2.5):
            assert float(f(Node(jnp.ones(()), None, data))) == data
    assert f.cache_info().misses == 3


def test_static_arguments(jit: Callable[..., Any]) -> None:
    f = jit(lambda x, n, *, mode, s: (x * n, mode, s)[0], static_argnums=1, static_argnames="mode")
    x = jnp.arange(3.0)
    for _ in range(3):
        for n in (2, 3, 2.0, True):
            for mode in ("a", "b", ("c", 1)):
                _same(f(x, n, mode=mode, s=1.0), x * n)
                _same(f(x, n, s=1.0, mode=mode), x * n)
    assert f.cache_info().misses == 12
    with pytest.raises(StaticArgumentError):
        f(x, [2], mode="a", s=1.0)
    g = jit(lambda *xs: xs[0] * xs[-1], static_argnums=-1)
    assert [float(g(jnp.ones(()), n)) for n in (2, 3, 2)] == [2.0, 3.0, 2.0]
    assert g.cache_info().misses == 2


def test_a_static_argument_whose_comparison_fails(jit: Callable[..., Any]) -> None:
    class Strange:
        fails = False

        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            if self.fails:
                raise RuntimeError("incomparable")
            return self is other

    f = jit(lambda x, s: x + 1, static_argnums=1)
    one, other = Strange(), Strange()
    f(1.0, one), f(1.0, other), f(1.0, one)
    Strange.fails = True
    with pytest.raises(RuntimeError, match="incomparable"):
        f(1.0, Strange())
    Strange.fails = False
    assert float(f(1.0, one)) == 2.0


def test_a_comparison_that_clears_the_cache(jit: Callable[..., Any]) -> None:
    class Clearing:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            f.clear_cache()
            return isinstance(other, Clearing)

    f = jit(lambda x, s: x + 1, static_argnums=1)
    for _ in range(5):
        assert float(f(1.0, Clearing())) == 2.0


def test_results_do_not_share_the_caller_s_memory(jit: Callable[..., Any]) -> None:
    f = jit(lambda x: (x, x + 1))
    for dtype in (np.float32, np.float64):
        x = np.arange(3, dtype=dtype)
        f(x)
        same, more = f(x)
        x[:] = 9
        assert same.tolist() == [0, 1, 2] and more.tolist() == [1, 2, 3]


def test_callbacks_may_keep_what_they_see(jit: Callable[..., Any]) -> None:
    seen: list[Any] = []

    @jit
    def f(x: Any, y: Any) -> Any:
        functrax.debug.callback(lambda a, b: seen.append((a, b)), x, y)
        return x + y

    x = np.arange(3, dtype=np.float32)
    for k in range(3):
        x[:] = k
        f(x, float(k))
    gc.collect()
    assert [(np.asarray(a).tolist(), float(b)) for a, b in seen] == [
        ([k] * 3, float(k)) for k in range(3)
    ]


def test_donation(jit: Callable[..., Any]) -> None:
    f = jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    g = jit(lambda x, *, y: x + y, donate_argnames="y")
    double = jit(lambda x: x * 2)
    for _ in range(3):
        x, y = double(jnp.ones(100)), double(jnp.ones(100))
        f(x, y)
        assert x.is_deleted() and not y.is_deleted()
        with pytest.raises(DonatedBufferError):
            f(x, y)
        g(y, y=y)
        assert y.is_deleted()
    x = double(jnp.arange(100.0))
    _same(f(x, x)[0], jnp.arange(100.0) * 4)
    x = double(jnp.arange(100.0))
    view = np.asarray(x)
    f(x, double(x))
    np.testing.assert_array_equal(view, np.arange(100.0) * 2)


@pytest.mark.skipif(native.extension is None, reason="the extension is not built")
def test_donated_memory_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    build, add = ProgramBuilder.build, ProgramBuilder.add

    def add_writing_over_the_input(self: ProgramBuilder, x: Any) -> None:
        add(self, replace(x, aliases=((0, 0),)))

    monkeypatch.setattr(ProgramBuilder, "add", add_writing_over_the_input)
    monkeypatch.setattr(
        ProgramBuilder, "build", lambda self, outputs: build(self, outputs, ((0, 0),))
    )
    f = functrax.jit(lambda x, y: x * 2 + y, donate_argnums=0)
    zero = jnp.zeros(1000)
    x = f(f(jnp.ones(1000), zero), zero)
    address = x._buffer.address
    x = f(x, zero)
    assert x._buffer.address == address and float(x[0]) == 8.0
    view = np.asarray(x)  # whoever looks at the memory keeps it
    y = f(x, zero)
    assert y._buffer.address != address and view[0] == 8.0 and float(y[0]) == 16.0
    address, other = y._buffer.address, ConcreteArray(y._buffer, y.aval)
    z = f(y, zero)
    assert z._buffer.address != address and float(other[0]) == 16.0 and float(z[0]) == 32.0
    address = z._buffer.address
    assert float(f(z, z)[0]) == 96.0


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
            done.wait(10)
            found.append(f(1.0).dtype)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
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
    f = jit(lambda tree, n, s: ({k: x * n for k, x in tree.items()}, s), static_argnums=1)
    key, static, x = "".join(["a", "?"]), ("static", 3)[1], jnp.arange(5.0)
    tree = {key: x, "n": np.ones(3), "f": 1.5, "i": np.int64(3), "o": Node(x, 2.0, "data")}
    tree["o"] = tree["o"].x
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
    many(2000 if isinstance(f, _InPython) else 100_000 // 20)
    gc.collect()
    second = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert [sys.getrefcount(a) for a in arguments] == before
    assert pool_stats().in_use == in_use
    assert second - first < 20_000


def test_many_calls_allocate_nothing_new(jit: Callable[..., Any]) -> None:
    f = jit(lambda xs: [x + 1 for x in xs])
    xs = [jnp.ones(3)] * 5
    xs = f(xs)
    for _ in range(10):
        xs = f(xs)
    before = pool_stats()
    for _ in range(1000 if isinstance(f, _InPython) else 100_000):
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
