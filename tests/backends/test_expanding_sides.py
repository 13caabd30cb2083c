"""Products whose sides are computed from much smaller arrays are kernels, and no host calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, nn

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


CLASSES = RNG.integers(-1, 12, 3000).astype(np.int32)  # two outside: their rows are zero
CLASSES[:3] = -1, 10, 11

#: Name, function, the same in NumPy, arrays.  Each sums more products than a plain loop is for.
CASES: list[tuple[str, Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (
        "classes",
        lambda k, w: nn.one_hot(k, 10) @ w,
        lambda k, w: (k[:, None] == np.arange(10)).astype(w.dtype) @ w,
        (CLASSES, floats(10, 64)),
    ),
    (
        "classes on the right",
        lambda k, w: w @ nn.one_hot(k, 10, axis=0),
        lambda k, w: w @ (np.arange(10)[:, None] == k).astype(w.dtype),
        (CLASSES, floats(64, 10)),
    ),
    (
        "triangles of outer products",
        lambda a, b, w: w @ (jnp.tril(jnp.outer(a, b)) + jnp.diag(a)),
        lambda a, b, w: w @ (np.tril(np.outer(a, b)) + np.diag(a)),
        (floats(100), floats(100), floats(90, 100)),
    ),
    (
        "an epilogue, and a batch",
        lambda k, w: jnp.tanh(jnp.einsum("bki,bij->bkj", nn.one_hot(k, 10), w)),
        lambda k, w: np.tanh(np.einsum("bki,bij->bkj", k[..., None] == np.arange(10), w)),
        (CLASSES.reshape(3, 1000), floats(3, 10, 40)),
    ),
]


@pytest.mark.parametrize(
    ("function", "reference", "arrays"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_side_is_stored_though_it_reads_little(
    function: Callable[..., Any], reference: Callable[..., Any], arrays: tuple[np.ndarray, ...]
) -> None:
    explained = functrax.explain(function)(*arrays)
    assert [k.kind for k in explained.kernels] == ["kernel"] * len(explained.kernels)
    wide = [a if a.dtype.kind == "i" else a.astype(np.float64) for a in arrays]
    found = functrax.jit(function)(*arrays)
    np.testing.assert_allclose(found, reference(*wide), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16])
def test_classes_of_other_dtypes(dtype: Any) -> None:
    w = RNG.integers(-9, 9, (10, 64)).astype(dtype)
    with functrax.enable_x64(True):
        function = lambda k, w: nn.one_hot(k, 10, dtype=dtype) @ w
        assert functrax.explain(function)(CLASSES, w).kernels[-1].kind == "kernel"
        found = functrax.jit(function)(CLASSES, w)
    assert found.dtype == dtype
    expected = np.where((CLASSES >= 0)[:, None] & (CLASSES < 10)[:, None], w[CLASSES % 10], 0)
    np.testing.assert_array_equal(found, expected)  # one product of each sum is not zero


def test_gradients_of_classes_and_of_a_cholesky_decomposition() -> None:
    w, seed = floats(10, 64), floats(3000, 64)
    grad = functrax.jit(functrax.grad(lambda w: jnp.sum((nn.one_hot(CLASSES, 10) @ w) * seed)))
    onehot = (CLASSES[:, None] == np.arange(10)).astype(np.float64)
    np.testing.assert_allclose(grad(w), onehot.T @ seed, rtol=1e-4, atol=1e-4)

    def loss(k: Any, y: Any) -> Any:
        root = jnp.linalg.cholesky(k)
        alpha = lax.linalg.triangular_solve(root, y[:, None], left_side=True, lower=True)[:, 0]
        return 0.5 * alpha @ alpha + jnp.log(jnp.diag(root)).sum()

    a, y = RNG.standard_normal((100, 120)).astype(np.float32), floats(100)
    k = a @ a.T + 100 * np.eye(100, dtype=np.float32)
    explained = functrax.explain(functrax.grad(loss))(k, y)
    products = [x for x in explained.kernels if "contraction" in x.name]
    assert [x.kind for x in products] == ["kernel"]
    found = functrax.jit(functrax.grad(loss))(k, y)
    inverse = np.linalg.inv(k.astype(np.float64))
    beta = inverse @ y
    np.testing.assert_allclose(found, 0.5 * (inverse - np.outer(beta, beta)), atol=1e-6)
