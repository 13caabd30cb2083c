"""Names that matter on several platforms, and systems of three diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.custom_derivatives import SymbolicZero, custom_jvp
from functrax.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(0)


def test_platform_dependent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCTRAX_CUDA_DRIVER", "simulated")
    with functrax.backend("llvm"):
        assert lax.platform_dependent(2, cpu=lambda x: x + 1, default=lambda x: x) == 3
        assert lax.platform_dependent(2, cuda=lambda x: x + 1, default=lambda x: x) == 2
        with pytest.raises(ArgumentError, match="no function for the platform 'cpu'"):
            lax.platform_dependent(2, cuda=lambda x: x)
    with functrax.backend("cuda"):
        assert lax.platform_dependent(2, cuda=lambda x: x + 1, default=lambda x: x) == 3
        with pytest.raises(ArgumentError, match="no function for the platform 'cuda'"):
            lax.platform_dependent(2, cpu=lambda x: x)


def test_composite_is_what_it_is_made_of() -> None:
    scaled = lax.composite(lambda x, *, scale: x * scale, "my.scale", version=1)
    found = functrax.jit(functrax.grad(lambda x: scaled(x, scale=3.0)))(2.0)
    assert float(found) == 3.0
    with pytest.raises(ArgumentError, match="the name is empty"):
        lax.composite(jnp.sin, "")


def test_approximate_orders_are_exact() -> None:
    x = RNG.standard_normal((3, 9)).astype(np.float32)
    values, indices = lax.approx_max_k(x, 4)
    np.testing.assert_array_equal(values, -np.sort(-x)[:, :4])
    np.testing.assert_array_equal(indices, np.argsort(-x)[:, :4])
    values, indices = lax.approx_min_k(x, 2, reduction_dimension=0)
    np.testing.assert_array_equal(values, np.sort(x, axis=0)[:2])
    np.testing.assert_array_equal(indices, np.argsort(x, axis=0)[:2])


def test_typeof() -> None:
    assert functrax.typeof(jnp.ones(3)).shape == (3,) and functrax.typeof(1.0).weak_type
    seen: list[Any] = []
    functrax.jit(lambda x: seen.append(functrax.typeof(x)))(np.ones((2, 3), np.int32))
    assert repr(seen[0]) == "ShapedArray(int32[2,3])"


def test_custom_derivatives_has_the_decorators() -> None:
    assert custom_jvp is functrax.custom_jvp and SymbolicZero.__name__ == "SymbolicZero"


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_tridiagonal_solve(lead: tuple[int, ...], dtype: Any) -> None:
    dl, d, du = (RNG.standard_normal((*lead, 6)).astype(dtype) for _ in range(3))
    d += 4 * np.sign(d.real)
    b = RNG.standard_normal((*lead, 6, 2)).astype(dtype)
    matrix = np.zeros((*lead, 6, 6), dtype)
    i = np.arange(6)
    matrix[..., i, i] = d
    matrix[..., i[1:], i[:-1]] = dl[..., 1:]
    matrix[..., i[:-1], i[1:]] = du[..., :-1]
    found = functrax.jit(lax.linalg.tridiagonal_solve)(dl, d, du, b)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, b), rtol=1e-4, atol=1e-6)


def test_derivative_of_a_tridiagonal_solve() -> None:
    one = np.ones(4, np.float32)
    b = RNG.standard_normal((4, 1)).astype(np.float32)

    def f(d: Any) -> Any:
        return lax.linalg.tridiagonal_solve(one, d, one, b).sum()

    d = 4 + RNG.random(4).astype(np.float32)
    matrix = np.diag(d) + np.diag(one[:3], 1) + np.diag(one[:3], -1)
    x = np.linalg.solve(matrix, b)[:, 0]
    wanted = -np.linalg.solve(matrix.T, one) * x
    np.testing.assert_allclose(functrax.grad(f)(d), wanted, rtol=1e-4, atol=1e-6)


def test_wrong_tridiagonal_systems() -> None:
    one = jnp.ones(3)
    with pytest.raises(ShapeError, match="do not fit the right-hand sides"):
        lax.linalg.tridiagonal_solve(one, one, one, one)
    with pytest.raises(DTypeError, match="of one dtype"):
        lax.linalg.tridiagonal_solve(one, one, one, jnp.ones((3, 1), int))


def test_tridiagonal_solve_exchanges_rows() -> None:
    dl, d, du = np.array([[0.0, 1.0, 2.0, 1.0], [0.0, 0.0, 1.0, 3.0], [1.0, 2.0, 1.0, 0.0]])
    b = np.arange(8.0).reshape(4, 2)
    matrix = np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)
    found = lax.linalg.tridiagonal_solve(dl, d, du, b)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, b), rtol=1e-5)


def test_singular_tridiagonal_systems_have_large_solutions_if_asked() -> None:
    one, zero = np.ones(3), np.zeros(3)
    large = lax.linalg.tridiagonal_solve(zero, zero, zero, one[:, None], perturb_singular=True)
    assert np.isfinite(large).all() and (np.abs(large) > 1e6).all()
    plain = lax.linalg.tridiagonal_solve(zero, zero, zero, one[:, None])
    assert not np.isfinite(plain).all()
