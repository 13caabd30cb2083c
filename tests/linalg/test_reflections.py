"""Reflections of Householder and what is made of them, against what defines them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.options.contexts import enable_x64
from functrax.core.prims import lapack
from functrax.errors import DifferentiationError, ShapeError
from functrax.test_util import check_grads
from tests.linalg.matrices import adjoint, both, random

linalg = lax.linalg


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def near(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


@both
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 6, 4)])
def test_the_product_of_reflections_is_q(shape: tuple[int, ...], is_complex: bool) -> None:
    a = random(*shape, is_complex=is_complex)
    packed, taus = linalg.geqrf(a)
    q = linalg.householder_product(packed, taus)
    n = shape[-1]
    near(q @ jnp.triu(packed)[..., :n, :], a)
    near(adjoint(q) @ q, np.broadcast_to(np.eye(n), (*shape[:-2], n, n)))


@both
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_ormqr_multiplies_by_the_square_q(is_complex: bool, left: bool, transpose: bool) -> None:
    a, c = (random(*s, is_complex=is_complex) for s in ((5, 3), (5, 2)))
    h, taus = jnp.linalg.qr(a, mode="raw")
    q = np.linalg.qr(a, "complete")[0]
    q = adjoint(q) if transpose else q
    given = c if left else c.T
    found = functrax.jit(lambda x: linalg.ormqr(h.mT, taus, x, left=left, transpose=transpose))
    near(found(given), q @ given if left else given @ q)


@both
def test_hessenberg_is_similar(is_complex: bool) -> None:
    a = random(3, 5, 5, is_complex=is_complex)
    packed, taus = linalg.hessenberg(a)
    h = jnp.triu(packed, -1)
    q = np.stack([np.eye(5, dtype=a.dtype)] * 3)
    q[:, 1:, 1:] = linalg.householder_product(packed[:, 1:, :-1], taus)
    near(q @ h @ adjoint(q), a)


@both
@pytest.mark.parametrize("lower", [False, True])
def test_tridiagonal_has_the_eigenvalues(is_complex: bool, lower: bool) -> None:
    a = random(2, 5, 5, is_complex=is_complex)
    a = a + adjoint(a)
    half = np.tril(a) if lower else np.triu(a)  # the other triangle is not read
    _, d, e, taus = linalg.tridiagonal(half, lower=lower)
    assert taus.shape == (2, 4) and d.dtype == e.dtype == np.float64
    matrix = np.stack([np.diag(x) + np.diag(y, 1) + np.diag(y, -1) for x, y in zip(d, e)])
    near(np.linalg.eigvalsh(matrix), np.linalg.eigvalsh(a))


@pytest.fixture(params=["lapack", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NumPy's LAPACK, and without it."""
    if request.param == "steps":
        monkeypatch.setattr(lapack, "library", lambda: None)


@both
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_schur(n: int, is_complex: bool) -> None:
    a = random(n, n, is_complex=is_complex)
    t, z = functrax.jit(linalg.schur)(a)
    near(z @ t @ adjoint(z), a)
    near(adjoint(z) @ z, np.eye(n))
    below = np.diagonal(t, -1)
    assert not np.tril(t, -2).any()
    if is_complex:
        assert not below.any()
    for k in np.flatnonzero(below):
        assert t[k, k] == t[k + 1, k + 1] and t[k, k + 1] * t[k + 1, k] < 0


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("shift", [1, -1])
def test_schur_of_matrices_without_a_basis_of_eigenvectors(shift: int) -> None:
    for a in (np.diag(np.ones(4), shift), np.roll(np.eye(5), shift, 0), np.zeros((3, 3))):
        t, z = linalg.schur(a)
        near(z @ t @ adjoint(z), a)


def test_schur_of_nan_is_nan_for_that_matrix_only() -> None:
    a = random(2, 3, 3)
    a[0, 1, 1] = np.nan
    t, z = linalg.schur(a)
    assert np.isnan(t[0]).all() and np.isnan(z[0]).all()
    near(z[1] @ t[1] @ z[1].T, a[1])


@both
def test_pivots_make_the_diagonal_fall(is_complex: bool) -> None:
    a = random(2, 4, 6, is_complex=is_complex)
    q, r, order = linalg.qr(a, pivoting=True)
    near(q @ r, np.take_along_axis(a, np.asarray(order)[:, None, :], -1))
    sizes = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    assert (np.diff(sizes) <= 1e-12).all()
    check_grads(lambda x: linalg.qr(x, pivoting=True)[1], (a[0],), 1)


def test_derivatives_of_all_of_q() -> None:
    check_grads(lambda x: jnp.linalg.qr(x, "complete"), (random(5, 3),), 2)


@both
def test_derivatives_of_eigenvectors(is_complex: bool) -> None:
    a = random(4, 4, is_complex=is_complex, seed=1)

    def vectors(x: Any) -> Any:
        return linalg.eig(x, enable_eigvec_derivs=True)

    w, left, right = vectors(a)
    near(a @ right, right * w)
    near(adjoint(left) @ a, np.asarray(w)[:, None] * adjoint(left))
    step = random(4, 4, is_complex=is_complex, seed=2)
    found = functrax.jvp(vectors, (a,), (step,))[1]
    ahead, behind = vectors(a + 1e-6 * step), vectors(a - 1e-6 * step)
    for x, y, t in zip(ahead, behind, found, strict=True):
        np.testing.assert_allclose(t, (x - y) / 2e-6, rtol=1e-5, atol=1e-6)
    with pytest.raises(DifferentiationError, match="enable_eigvec_derivs"):
        functrax.jvp(linalg.eig, (a,), (step,))


def test_cholesky_update() -> None:
    r, w = np.triu(random(4, 4)) + 4 * np.eye(4), random(4, seed=3)
    s = functrax.vmap(linalg.cholesky_update)(r[None], w[None])[0]
    near(s.T @ s, r.T @ r + np.outer(w, w))
    check_grads(linalg.cholesky_update, (r, w), 1)


def test_symmetric_product() -> None:
    a, c = random(2, 4, 3), random(2, 4, 4)
    c = c + adjoint(c)
    found = linalg.symmetric_product(a, c, alpha=2.0, beta=3.0, symmetrize_output=True)
    near(found, 2 * a @ adjoint(a) + 3 * c)
    np.testing.assert_array_equal(found, found.mT)


@both
def test_qdwh(is_complex: bool) -> None:
    a = random(6, 4, is_complex=is_complex)
    u, h, count, converged = functrax.jit(linalg.qdwh)(a)
    near(u @ h, a)
    near(adjoint(u) @ u, np.eye(4))
    assert converged and 1 < count <= 8
    assert not linalg.qdwh(a, max_iterations=1)[3]


def test_what_is_refused() -> None:
    a, taus = linalg.geqrf(random(4, 2))
    with pytest.raises(ShapeError, match="more columns"):
        linalg.householder_product(a.T, taus)
    with pytest.raises(ShapeError, match="factors"):
        linalg.householder_product(a, jnp.ones(3))
    with pytest.raises(ShapeError, match="sizes"):
        linalg.ormqr(a, taus, jnp.ones((3, 3)))
    with pytest.raises(ValueError, match="sorted"):
        linalg.schur(jnp.eye(2), sort_eig_vals=True)
    with pytest.raises(ShapeError, match="rows as columns"):
        linalg.qdwh(jnp.ones((2, 3)))
    with pytest.raises(DifferentiationError, match="schur is not differentiable"):
        functrax.grad(lambda x: linalg.schur(x)[0].sum())(jnp.eye(2))
