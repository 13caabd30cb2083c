"""Contractions give what the products' definition gives: random ones, in all dtypes, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from functrax.backends.reference import strided
from functrax.backends.reference.deferred import Deferred
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.options.config import Override
from functrax.core.options.contexts import backend, enable_x64
from functrax.core.prims import mapped
from functrax.core.prims.arithmetic import add, mul, neg, sub
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, reshape, rev, transpose
from functrax.core.prims.slicing import slice_
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import like
from functrax.transforms.differentiation.derivatives import grad, jvp
from functrax.transforms.staging.jit import jit
from tests.backends.programs import conv, dot, normal, plainly, total, values

DTYPES = (
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64, np.complex128,
    np.int8, np.uint8, np.int32, np.uint64,
)  # fmt: skip


@pytest.fixture(autouse=True)
def everything_counts_as_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(strided, "SMALL", 0)
    monkeypatch.setattr(strided, "OUTGROWN", 0)
    with enable_x64(), backend("interp"):
        yield


def check(function: Any, *args: Any, rtol: float = 1e-10, strict: bool = False) -> None:
    """Against the definition; on the compiler with or without products that are not rounded."""
    expected = plainly(function, *args)
    for run in (function, jit(function)):
        for got, want in zip(values(run(*args)), expected, strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol, atol=rtol * 10)
    for once, compiled in zip(values(function(*args)), values(jit(function)(*args)), strict=True):
        np.testing.assert_array_equal(once, compiled)
    with backend("llvm"), Override("strict", strict):
        for got, want in zip(values(jit(function)(*args)), expected, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol, atol=rtol * 10)


@pytest.mark.parametrize("seed", range(60))
def test_random_contraction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 6))
    sizes = (0, 1, 2, 3, 4, 5) if seed % 6 == 0 else (1, 2, 3, 4, 5)
    shape = tuple(int(n) for n in rng.choice(sizes, rank))
    factors = []
    for k in range(int(rng.integers(2, 5))):
        dims = rng.permutation(rank)[: rng.integers(0, rank + 1)]
        own = tuple(1 if rng.random() < 0.1 else shape[d] for d in dims)
        factors.append((normal(100 * seed + k, *own, dtype=np.float64), tuple(map(int, dims))))
    axes = tuple(sorted(map(int, rng.permutation(rank)[: rng.integers(0, rank + 1)])))

    def function(*xs: Any) -> Any:
        out = None
        for x, (_, dims) in zip(xs, factors, strict=True):
            spread = broadcast_in_dim.bind(x, shape=shape, dims=dims)
            out = spread if out is None else mul.bind(out, spread)
        return reduce_sum.bind(out, axes=axes)

    check(function, *[x for x, _ in factors])


@pytest.mark.parametrize("seed", range(60))
def test_random_windows(seed: int) -> None:
    """Strided, dilated, reversed and padded windows, and what sums into them."""
    rng = np.random.default_rng(seed)
    n, c, size, taps = (int(rng.integers(1, k)) for k in (4, 4, 12, 5))
    stride, dilation = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    offset = int(rng.integers(-4, 5))
    outputs = int(rng.integers(1, 9))
    b, _, place, channel, tap = (Dim(k) for k in range(5))
    index = stride * place + dilation * tap + offset
    if seed % 3 == 1:
        index = size - 1 - index
    conditions = ((index % 2).eq(0),) if seed % 5 < 2 else ()
    if seed % 5 == 1:
        index = index // 2  # an array with holes
    domain = (n, 3, outputs, c, taps)
    index_map = IndexMap(domain, (n, c, size), (b, channel, index), conditions)

    def function(x: Any, w: Any) -> Any:
        windows = mapped.reindex.bind(x, map=index_map, fill=like(x, 0))
        weights = broadcast_in_dim.bind(w, shape=domain, dims=(1, 3, 4))
        product = mul.bind(windows, weights)
        back = mapped.reindex_reduce.bind(product, map=index_map, op="add")
        return reduce_sum.bind(product, axes=(3, 4)), back

    check(
        function,
        normal(seed, n, c, size, dtype=np.float64),
        normal(seed + 1, 3, c, taps, dtype=np.float64),
    )


def test_windows_of_an_array_with_holes_are_views() -> None:
    place = 3 * Dim(0) + 2 * Dim(1) - 2
    holes = IndexMap((5, 3), (8,), (place // 2,), ((place % 2).eq(0),))
    assert strided.window_of(holes) is not None
    x, ct = normal(0, 8, dtype=np.float64), normal(1, 5, 3, dtype=np.float64)
    check(lambda x: mapped.reindex.bind(x, map=holes, fill=like(x, 7)), x)
    check(lambda ct: mapped.reindex_reduce.bind(ct, map=holes, op="add"), ct)
    odd = IndexMap((5, 3), (8,), (place // 2,), ((place % 2).eq(1),))
    assert strided.window_of(odd) is None
    check(lambda x: mapped.reindex.bind(x, map=odd, fill=like(x, 7)), x)


def test_fill_value_of_windows() -> None:
    x = normal(0, 7, dtype=np.float64)
    index_map = IndexMap((9, 3), (7,), (Dim(0) + Dim(1) - 2,))
    check(lambda x: mapped.reindex.bind(x, map=index_map, fill=like(x, -5)), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_dtypes(dtype: Any) -> None:
    x, w = normal(0, 5, 7, dtype=dtype), normal(1, 7, 3, dtype=dtype)
    rtol = {2: 0.02, 1: 0, 4: 1e-5}.get(np.dtype(dtype).itemsize, 1e-10)
    check(dot, x, w, rtol=1e-5 if dtype is np.complex64 else rtol)


def test_integers_wrap_around() -> None:
    big = np.full((3, 40), 2**31 - 5, np.int32)
    x = normal(0, 40, 3, dtype=np.int32)
    got = dot(as_value(big), x).value
    np.testing.assert_array_equal(got, big @ x.value)


def test_narrow_floats_are_added_up_in_float32() -> None:
    ones = as_value(np.ones((1, 4097), np.float16))
    assert dot(ones, transpose.bind(ones, perm=(1, 0))).value == 4096  # rounded once, to even
    many = as_value(np.ones((1, 3000), ml_dtypes.bfloat16))
    assert float(dot(many, transpose.bind(many, perm=(1, 0))).value[0, 0]) == 3008


def test_linear_operations_on_the_product() -> None:
    x, w = normal(0, 4, 5), normal(1, 5, 6)

    def function(x: Any, w: Any) -> Any:
        a = broadcast_in_dim.bind(x, shape=(4, 6, 5), dims=(0, 2))
        b = broadcast_in_dim.bind(w, shape=(4, 6, 5), dims=(2, 1))
        product = sub.bind(neg.bind(mul.bind(a, b)), mul.bind(mul.bind(a, like(a, 3)), b))
        product = add.bind(add.bind(product, like(a, 0.5)), a)
        return reduce_sum.bind(
            convert_element_type.bind(product, dtype=np.dtype(np.float64)), axes=(0, 2)
        )

    check(function, x, w, rtol=1e-5)


def test_reindexes_of_the_product() -> None:
    x, w = normal(0, 4, 5, dtype=np.float64), normal(1, 5, 6, dtype=np.float64)

    def function(x: Any, w: Any) -> Any:
        a = broadcast_in_dim.bind(x, shape=(4, 6, 5), dims=(0, 2))
        b = broadcast_in_dim.bind(w, shape=(4, 6, 5), dims=(2, 1))
        p = mul.bind(a, b)
        p = rev.bind(transpose.bind(p, perm=(2, 0, 1)), axes=(1,))
        p = slice_.bind(p, start=(1, 0, 1), limit=(5, 4, 6), strides=(2, 1, 2))
        p = broadcast_in_dim.bind(p, shape=(2, 4, 7, 3), dims=(0, 1, 3))
        q = reshape.bind(p, shape=(8, 7, 3))
        r = reshape.bind(p, shape=(2, 28, 3))
        return [reduce_sum.bind(v, axes=(0,)) for v in (p, q, r)]

    check(function, x, w)


def test_derivatives() -> None:
    x, w = normal(0, 2, 3, 6, 5, dtype=np.float64), normal(1, 4, 3, 3, 3, dtype=np.float64)
    for stride in (1, 2):

        def energy(x: Any, w: Any, stride: int = stride) -> Any:
            y = conv(x, w, stride)
            return total(mul.bind(mul.bind(y, y), y))

        check(grad(energy, argnums=(0, 1)), x, w)
        check(lambda x, w, f=energy: jvp(f, (x, w), (x, w)), x, w)
        check(grad(lambda x, w, f=energy: total(grad(f)(x, w))), x, w)


def test_differences_are_not_multiplied_out() -> None:
    """``(a*b - c)**2`` must not become ``(a*b)**2 - 2*a*b*c + c**2``, whose digits cancel."""
    x = as_value(np.linspace(1000, 1001, 50, dtype=np.float32))
    one = as_value(np.ones(60, np.float32))

    def function(x: Any, one: Any) -> Any:
        a = broadcast_in_dim.bind(x, shape=(50, 60), dims=(0,))
        b = broadcast_in_dim.bind(one, shape=(50, 60), dims=(1,))
        difference = sub.bind(mul.bind(a, b), mul.bind(mul.bind(b, a), like(a, 1 + 1e-6)))
        return total(mul.bind(difference, difference))

    check(function, x, one, rtol=1e-5, strict=True)


def test_only_a_product_is_put_off() -> None:
    x, y = normal(0, 30, dtype=np.float64), normal(1, 40, dtype=np.float64)
    a = broadcast_in_dim.bind(x, shape=(30, 40), dims=(0,))
    b = broadcast_in_dim.bind(y, shape=(30, 40), dims=(1,))
    out = mul.bind(a, b)
    assert type(out.buffer) is Deferred
    for made in (add.bind(neg.bind(out), mul.bind(a, b)), mul.bind(out, a)):
        assert type(made.buffer) is np.ndarray
