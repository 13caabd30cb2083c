"""No sum of products stores the product: peaks of memory, in all modes and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from functrax.core.prims.arithmetic import mul, neg
from functrax.core.prims.comparisons import gt
from functrax.core.prims.reduce import reduce_or
from functrax.core.prims.reindex import broadcast_in_dim, reshape, transpose
from functrax.core.prims.slicing import pad
from functrax.core.tracing.primitive import like
from functrax.transforms.differentiation.derivatives import grad, jvp
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit
from tests.backends.programs import conv, dot, normal, peak, total, values

N = 512
MATRIX = 4 * N * N  # bytes; the product of two would be N times that


def loss(x: Any, w: Any) -> Any:
    y = dot(x, w)
    return total(mul.bind(y, y))


@pytest.fixture(scope="module")
def matrices() -> tuple[Any, Any]:
    return normal(0, N, N), normal(1, N, N)


def test_matrix_product_is_right_and_small(matrices: Any) -> None:
    x, w = matrices
    np.testing.assert_allclose(dot(x, w).value, x.value @ w.value, rtol=1e-4, atol=1e-4)
    assert peak(dot, x, w) < 2 * MATRIX
    assert peak(jit(dot), x, w) < 2 * MATRIX


def test_gradient(matrices: Any) -> None:
    gradient = grad(loss, argnums=(0, 1))
    assert peak(gradient, *matrices) < 12 * MATRIX
    assert peak(jit(gradient), *matrices) < 12 * MATRIX


def test_forward_mode_adds_two_products(matrices: Any) -> None:
    assert peak(lambda x, w: jvp(dot, (x, w), (w, x)), *matrices) < 8 * MATRIX


def test_second_order(matrices: Any) -> None:
    def second(x: Any, w: Any) -> Any:
        return grad(lambda y: total(mul.bind(grad(loss)(y, w), w)))(x)

    assert peak(second, *matrices) < 24 * MATRIX
    assert peak(jit(second), *matrices) < 24 * MATRIX


def test_batched_product(matrices: Any) -> None:
    _, w = matrices
    batch = normal(2, 4, N, N)
    assert peak(vmap(dot, in_axes=(0, None)), batch, w) < 12 * MATRIX
    assert peak(vmap(dot), batch, batch) < 12 * MATRIX
    assert peak(grad(lambda b: total(vmap(dot, in_axes=(0, None))(b, w))), batch) < 16 * MATRIX


def test_convolution_and_its_gradients() -> None:
    x, w = normal(0, 4, 8, 16, 16), normal(1, 32, 8, 3, 3)
    columns = 4 * 4 * 8 * 16 * 16 * 9  # im2col, in bytes; the product has 32 times as many

    def energy(x: Any, w: Any) -> Any:
        y = conv(x, w)
        return total(mul.bind(y, y))

    first = grad(energy, argnums=(0, 1))
    second = grad(lambda x: total(mul.bind(grad(energy)(x, w), x)))
    for function, args, times in ((conv, (x, w), 4), (first, (x, w), 6), (second, (x,), 8)):
        assert peak(function, *args) < times * columns
        assert peak(jit(function), *args) < times * columns


def test_operations_between_the_broadcast_and_the_sum(matrices: Any) -> None:
    x, w = matrices

    def spread(v: Any, *dims: int) -> Any:
        return broadcast_in_dim.bind(v, shape=(N, N, N), dims=dims)

    def scaled(x: Any, w: Any) -> Any:
        product = mul.bind(neg.bind(spread(x, 0, 2)), mul.bind(spread(w, 2, 1), like(w, 0.5)))
        product = transpose.bind(product, perm=(2, 0, 1))
        return total(reshape.bind(product, shape=(N, 2, N // 2, N, 1)))

    assert peak(scaled, x, w) < 8 * MATRIX
    expected = -0.5 * (x.value.astype(np.float64) @ w.value).sum()
    assert scaled(x, w).value == pytest.approx(expected, rel=1e-3)


def test_padding_leaves_other_axes_repeated(matrices: Any) -> None:
    x, _ = matrices

    def padded(x: Any) -> Any:
        wide = broadcast_in_dim.bind(x, shape=(N, N, N), dims=(1, 2))
        nothing = (0, 0, 0)
        return pad.bind(wide, low=(0, 1, 0), high=nothing, interior=nothing, fill=like(x, 0))

    assert peak(padded, x) < 3 * MATRIX
    assert padded(x).aval.shape == (N, N + 1, N)


def test_truth_values(matrices: Any) -> None:
    def reach(x: Any, w: Any) -> Any:
        a = broadcast_in_dim.bind(gt.bind(x, like(x, 2.5)), shape=(N, N, N), dims=(0, 2))
        b = broadcast_in_dim.bind(gt.bind(w, like(w, 2.5)), shape=(N, N, N), dims=(2, 1))
        return reduce_or.bind(mul.bind(a, b), axes=(2,))

    x, w = matrices
    (out,) = values(reach(x, w))
    np.testing.assert_array_equal(out, (x.value > 2.5) @ (w.value > 2.5))
    assert out.dtype == np.bool_
    assert peak(reach, x, w) < 6 * MATRIX


def test_programs_drop_values_after_their_last_use() -> None:
    x = normal(0, 250_000)

    def chain(x: Any) -> Any:
        for _ in range(20):
            x = neg.bind(x)
        return x

    assert peak(jit(chain), x) < 4 * 1_000_000
