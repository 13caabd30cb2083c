"""Systems that have one matrix and a batch of other sides: it is factorised once."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.scipy import linalg, stats

RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((5, 5)) + 5 * np.eye(5)
LOWER = np.tril(MATRIX)
SIDES = RNG.standard_normal((6, 3, 5, 2))
#: Functions of a matrix and of another side of matrices, and the matrix of the equal system.
SOLVERS = {
    "solve": (jnp.linalg.solve, MATRIX),
    "triangle": (lambda a, b: linalg.solve_triangular(a, b, lower=True), LOWER),
    "transposed": (lambda a, b: linalg.solve_triangular(a, b, lower=True, trans=1), LOWER.T),
    "cho_solve": (lambda a, b: linalg.cho_solve((a, True), b), LOWER @ LOWER.T),
    "positive": (lambda a, b: linalg.solve(a @ a.T, b, assume_a="pos"), MATRIX @ MATRIX.T),
    "lu_solve": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b), MATRIX),
    "lu_solve, transposed": (lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 1), MATRIX.T),
}


@pytest.fixture(autouse=True)
def double():
    with functrax.enable_x64():
        yield


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("columns", [1, 2])
def test_leading_axes_of_the_other_side(name, columns):
    solve, equal = SOLVERS[name]
    a = LOWER if "tri" in name or "cho" in name or name == "transposed" else MATRIX
    b = SIDES[..., :columns]
    wanted = np.linalg.solve(np.broadcast_to(equal, (6, 3, 5, 5)), b)
    np.testing.assert_allclose(functrax.jit(solve)(a, b), wanted, rtol=1e-9, atol=1e-11)
    mapped = functrax.vmap(functrax.vmap(solve, (None, 0)), (None, 1), 1)
    np.testing.assert_allclose(functrax.jit(mapped)(a, b), wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SOLVERS)
def test_derivatives(name):
    """By both operands they are those of systems that each have a matrix."""
    solve, _ = SOLVERS[name]

    def together(a, b):
        return (solve(a, b) ** 3).sum()

    def apart(a, b):
        several = jnp.broadcast_to(a, (6, 5, 5))
        return (functrax.vmap(lambda a, b: solve(a, b))(several, b) ** 3).sum()

    b = SIDES[:, 0]
    for have, wanted in zip(*(functrax.grad(f, (0, 1))(MATRIX, b) for f in (together, apart))):
        np.testing.assert_allclose(have, wanted, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_from_the_right_and_of_complex_numbers(conjugate, transpose):
    a = np.tril(RNG.standard_normal((4, 4)) + 1j * RNG.standard_normal((4, 4))) + 3 * np.eye(4)
    b = RNG.standard_normal((6, 2, 4)) + 0j
    how = {"lower": True, "transpose_a": transpose, "conjugate_a": conjugate}
    solve = lambda b: lax.linalg.triangular_solve(a, b, left_side=False, **how)
    turned = a.T if transpose else a
    turned = turned.conj() if conjugate else turned
    np.testing.assert_allclose(functrax.vmap(solve)(b) @ turned, b, rtol=1e-9, atol=1e-9)


def test_an_empty_batch():
    none = np.zeros((0, 5, 2))
    assert functrax.vmap(lambda b: jnp.linalg.solve(MATRIX, b))(none).shape == none.shape
    assert jnp.linalg.solve(MATRIX, none).shape == none.shape


def test_a_bad_side_leaves_the_others_alone():
    b = SIDES[:, 0, :, 0].copy()
    b[2] = np.nan
    for solve in (jnp.linalg.solve, lambda a, b: linalg.solve_triangular(a, b, lower=True)):
        found = np.asarray(functrax.vmap(lambda b, solve=solve: solve(LOWER, b))(b))
        assert np.isnan(found[2]).all() and np.isfinite(np.delete(found, 2, 0)).all()


def test_one_elimination():
    solve = functrax.vmap(lambda b: jnp.linalg.solve(MATRIX, b))
    (eqn,) = [e for e in functrax.make_jaxpr(solve)(SIDES[:, 0]).eqns if "solve" in str(e)]
    assert [x.aval.shape for x in eqn.invars] == [(5, 5), (5, 12)]


def test_more_right_sides_than_a_thread_computes_by_loops():
    """Of complex numbers, which no processor's own code takes."""
    a = (np.tril(MATRIX) + 1j * np.tril(MATRIX.T, -1)).astype(np.complex64)
    b = np.ones((100_000, 5), np.complex64)
    found = functrax.jit(functrax.vmap(lambda b: linalg.solve_triangular(a, b, lower=True)))(b)
    np.testing.assert_allclose(found[::9999] @ a.T, b[::9999], rtol=1e-4)


@pytest.mark.parametrize("lead", [(), (1,), (3,), (2, 3)])
def test_densities(lead):
    x, mean = RNG.standard_normal((2, 3, 5)), RNG.standard_normal(5)
    cov = np.broadcast_to(MATRIX @ MATRIX.T, (*lead, 5, 5))
    away = np.linalg.solve(MATRIX, (x - mean).reshape(-1, 5).T)
    volume = np.linalg.slogdet(MATRIX @ MATRIX.T)[1]
    wanted = -0.5 * (away**2).sum(0) - 0.5 * volume - 2.5 * np.log(2 * np.pi)
    found = stats.multivariate_normal.logpdf(x, mean, cov)
    np.testing.assert_allclose(found, wanted.reshape(2, 3), rtol=1e-10)
