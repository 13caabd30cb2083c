"""The inputs and outputs of jitted calls: every kind of leaf, of tree and of argument."""

from __future__ import annotations

import collections
import gc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core import native
from functrax.core.arrays.array import ConcreteArray
from functrax.errors import DonatedBufferError, StaticArgumentError
from functrax.transforms.staging.jit import Jitted
from functrax.tree_util import register_pytree_node, tree_map


def _is_direct(f: Any) -> bool:
    return type(f) is Jitted


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
def test_donated_memory_is_used_again() -> None:
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
