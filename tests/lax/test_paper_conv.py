"""The convolution of four meta-operators (Hu et al., 2020, Listing 1), and its derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.backends.cpu import CpuDevice
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.contexts import enable_x64
from functrax.transforms.arguments.inspect_types import make_jaxpr
from functrax.transforms.differentiation.derivatives import grad
from functrax.transforms.staging.jit import jit
from tests.lax.oracles import check_derivatives


def paper_conv(x: Any, p: Any) -> Any:
    N, _, H, W = x.shape
    o, i, h, w = p.shape
    xx = lax.reindex(x, shape=(N, o, H, W, i, h, w), indices=("i0", "i4", "i2-i5", "i3-i6"))
    pp = lax.broadcast(p, xx.shape, dims=(0, 2, 3))
    yy = lax.mul(xx, pp)
    return lax.reduce_sum(yy, (4, 5, 6))


def naive(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    y = np.zeros((x.shape[0], p.shape[0], *x.shape[2:]))
    for n, o, a, b in itertools.product(*map(range, y.shape)):
        for i, h, w in itertools.product(*map(range, p.shape[1:])):
            if a - h >= 0 and b - w >= 0:
                y[n, o, a, b] += x[n, i, a - h, b - w] * p[o, i, h, w]
    return y


def naive_gradients(x: np.ndarray, p: np.ndarray, ct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    dx, dp = np.zeros_like(x), np.zeros_like(p)
    for n, o, a, b in itertools.product(*map(range, ct.shape)):
        for i, h, w in itertools.product(*map(range, p.shape[1:])):
            if a - h >= 0 and b - w >= 0:
                dx[n, i, a - h, b - w] += ct[n, o, a, b] * p[o, i, h, w]
                dp[o, i, h, w] += ct[n, o, a, b] * x[n, i, a - h, b - w]
    return dx, dp


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(2, 3, 2, 3))


def test_value(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    x, p = arrays
    for function in (paper_conv, jit(paper_conv)):
        np.testing.assert_allclose(function(x, p), naive(x, p), rtol=1e-5, atol=1e-5)


def test_double_precision(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    with enable_x64():
        np.testing.assert_allclose(paper_conv(*arrays), naive(*arrays), rtol=1e-13)


def test_first_derivatives(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    x, p = arrays
    ct = np.random.default_rng(1).normal(size=(2, 2, 5, 4))

    def loss(x: Any, p: Any) -> Any:
        return lax.reduce_sum(lax.mul(paper_conv(x, p), ct), (0, 1, 2, 3))

    with enable_x64():
        for got, expected in zip(grad(loss, (0, 1))(x, p), naive_gradients(x, p, ct), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_second_derivatives(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    x, p = arrays
    ct = np.random.default_rng(1).normal(size=(2, 2, 5, 4))
    u = np.random.default_rng(2).normal(size=x.shape)

    def along(p: Any) -> Any:  # <d loss / d x, u>, which is linear in p with derivative dp(u)
        gradient = grad(lambda x: lax.reduce_sum(lax.mul(paper_conv(x, p), ct), (0, 1, 2, 3)))(x)
        return lax.reduce_sum(lax.mul(gradient, u), (0, 1, 2, 3))

    with enable_x64():
        np.testing.assert_allclose(grad(along)(p), naive_gradients(u, p, ct)[1], rtol=1e-12)
        check_derivatives(paper_conv, x, p)


def test_backward_is_made_of_meta_operators(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    def loss(x: Any, p: Any) -> Any:
        return lax.reduce_sum(lax.square(paper_conv(x, p)), (0, 1, 2, 3))

    closed = make_jaxpr(grad(loss, (0, 1)))(*arrays)
    families = {eqn.primitive.family for eqn in all_eqns(closed.jaxpr)}
    assert families <= {"elementwise", "reindex", "reindex_reduce"}


def test_four_meta_operators_are_one_kernel(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    """The windows, the repeated weights and their product are never stored."""
    x, p = (a.astype(np.float32) for a in arrays)
    with functrax.backend("llvm"):
        record = functrax.explain(jit(paper_conv))(x, p)
        (work,) = CpuDevice().compiled(make_jaxpr(paper_conv)(x, p).jaxpr).works
    assert len(record.kernels) == 1
    assert record.peak_bytes == 0
    assert [type(i).__name__ for i in work.instructions] == ["Launch"]
    assert [len(v.aval.shape) for v in work.eqn.outvars] == [4]


def test_large_convolutions_store_no_product() -> None:
    rng = np.random.default_rng(0)
    x, p = (rng.normal(size=s).astype(np.float32) for s in ((2, 4, 40, 40), (8, 4, 3, 3)))
    with functrax.backend("llvm"):
        program = CpuDevice().compiled(make_jaxpr(paper_conv)(x, p).jaxpr).program
        assert all(len(slot.shape) <= 4 for slot in program.slots)
        np.testing.assert_allclose(jit(paper_conv)(x, p), naive(x, p), rtol=1e-4, atol=1e-4)
