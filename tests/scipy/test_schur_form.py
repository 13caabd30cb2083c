"""Functions of matrices and Sylvester's equations, against what defines them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, ShapeError
from functrax.scipy import linalg
from functrax.test_util import check_grads
from tests.linalg.matrices import adjoint, both, random


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    """With the options under which nothing promotes unseen."""
    strict = functrax.numpy_rank_promotion("raise"), functrax.numpy_dtype_promotion("strict")
    with enable_x64(), strict[0], strict[1]:
        yield


def near(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@both
@pytest.mark.parametrize("method", ["schur", "eigen"])
def test_sylvester(method: str, is_complex: bool) -> None:
    a, b, c = (random(*s, is_complex=is_complex) for s in ((2, 4, 4), (3, 3), (4, 3)))
    x = linalg.solve_sylvester(a, b, c, method=method)
    assert x.dtype == c.dtype and x.shape == (2, 4, 3)
    near(a @ x + x @ b, np.broadcast_to(c, (2, 4, 3)))


def test_derivatives_of_sylvester() -> None:
    args = random(3, 3), random(2, 2, seed=1), random(3, 2, seed=2)
    check_grads(linalg.solve_sylvester, args, 2)


@pytest.mark.parametrize("method", ["schur", "eigen"])
def test_sylvester_without_a_solution(method: str) -> None:
    a = np.diag([1.0, 2.0])
    assert np.isnan(linalg.solve_sylvester(a, -a, np.ones((2, 2)), method=method)).all()


@pytest.mark.parametrize("n", [1, 2, 6])
def test_the_complex_form_of_a_real_one(n: int) -> None:
    a = random(2, n, n)
    t, z = functrax.jit(linalg.rsf2csf)(*linalg.schur(a))
    assert not np.tril(t, -1).any()
    near(z @ t @ adjoint(z), a)


@both
def test_functions_of_matrices(is_complex: bool) -> None:
    a = random(4, 4, is_complex=is_complex)
    found, error = linalg.funm(a, jnp.exp, disp=False)
    np.testing.assert_allclose(found, linalg.expm(a), rtol=1e-7, atol=1e-7)
    assert 0 < error < 1e-10
    near(linalg.funm(a, lambda x: x * x), a @ a)


@both
def test_the_derivative_of_the_exponential(is_complex: bool) -> None:
    a, e = (random(3, 3, seed=i, is_complex=is_complex) for i in range(2))
    value, change = linalg.expm_frechet(a, e)
    block = linalg.expm(np.block([[a, e], [np.zeros_like(a), a]]))
    near(value, block[:3, :3])
    near(change, block[:3, 3:])
    near(linalg.expm_frechet(a, e, compute_expm=False), change)


@both
@pytest.mark.parametrize("n", [1, 5])
def test_hessenberg(n: int, is_complex: bool) -> None:
    a = random(2, n, n, is_complex=is_complex)
    h, q = linalg.hessenberg(a, calc_q=True)
    near(q @ h @ adjoint(q), a)
    np.testing.assert_array_equal(h, np.triu(linalg.hessenberg(a), -1))


@both
@pytest.mark.parametrize("pivoting", [False, True])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 5, 3)])
def test_products_with_q(shape: tuple[int, ...], pivoting: bool, is_complex: bool) -> None:
    a = random(*shape, is_complex=is_complex)
    *lead, m, n = shape
    k = min(m, n)
    q, r, *order = linalg.qr(a, mode="economic", pivoting=pivoting)
    left, right = (random(*lead, *s, is_complex=is_complex) for s in ((k, 2), (2, m)))
    found = linalg.qr_multiply(a, left, "left", pivoting)
    near(found[0], q @ left)
    near(found[1], r)
    for x, y in zip(found[2:], order, strict=True):
        np.testing.assert_array_equal(x, y)
    near(linalg.qr_multiply(a, right, "right", pivoting)[0], right @ q)
    near(linalg.qr_multiply(a, right, pivoting=pivoting, conjugate=True)[0], right @ q.conj())
    if not lead:
        near(linalg.qr_multiply(a, left[:, 0], "left", pivoting)[0], q @ left[:, 0])
        near(linalg.qr_multiply(a, right[0], "right", pivoting)[0], right[0] @ q)


def test_what_is_refused() -> None:
    a = np.eye(3)
    with pytest.raises(ArgumentError, match="real"):
        linalg.schur(a, "else")
    with pytest.raises(ShapeError, match="one matrix"):
        linalg.funm(a[None], jnp.exp)
    with pytest.raises(ShapeError, match="Incompatible shapes"):
        linalg.solve_sylvester(a, a, np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="Unrecognized method"):
        linalg.solve_sylvester(a, a, a, method="else")
    with pytest.raises(ShapeError, match="must match"):
        linalg.rsf2csf(a, np.eye(2))
    with pytest.raises(ArgumentError, match="mode must be"):
        linalg.qr_multiply(a, a, "else")
    with pytest.raises(ShapeError, match="other factor"):
        linalg.qr_multiply(a, np.ones((2, 2)))
    with pytest.raises(ShapeError, match="same shape"):
        linalg.expm_frechet(a, np.eye(2))
    with pytest.raises(ArgumentError, match="method"):
        linalg.expm_frechet(a, a, method="else")
