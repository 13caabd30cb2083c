"""Krylov solvers against a direct one: solutions, derivatives, batches, pytrees and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, ShapeError
from functrax.scipy.sparse.linalg import bicgstab, cg, gmres

SOLVERS = (cg, bicgstab, gmres)


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def system(n: int, kind: str, hermitian: bool) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, n)), rng.normal(size=n)
    if kind == "c":
        a, b = a + 1j * rng.normal(size=(n, n)), b + 1j * rng.normal(size=n)
    if hermitian:
        return a @ a.conj().T + n * np.eye(n), b
    return a + 3 * np.sqrt(n) * np.eye(n), b


@pytest.mark.parametrize(
    ("solver", "kind"), [(cg, "f"), (cg, "c"), (bicgstab, "c"), (gmres, "f"), (gmres, "c")]
)
def test_solutions_and_derivatives(solver: Callable[..., Any], kind: str) -> None:
    a, b = system(25, kind, hermitian=solver is cg)
    x, info = solver(a, b, tol=1e-12)
    assert info is None
    np.testing.assert_allclose(x, np.linalg.solve(a, b), atol=1e-9)

    def scaled(v: Any) -> Any:
        return v / jnp.diag(a)

    def through(a: Any, b: Any) -> Any:
        return jnp.abs(solver(lambda v: a @ v, b, x0=b, tol=1e-12, M=scaled)[0]).sum()

    got = functrax.jit(functrax.grad(through, (0, 1)))(a, b)
    want = functrax.grad(lambda a, b: jnp.abs(jnp.linalg.solve(a, b)).sum(), (0, 1))(a, b)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_batches_pytrees_and_dtypes(solver: Callable[..., Any]) -> None:
    a = np.eye(4) * np.arange(1.0, 4.0)[:, None, None] + 0.1
    got = functrax.vmap(lambda a: solver(a, np.ones(4), tol=1e-10)[0])(a)
    np.testing.assert_allclose(got, np.linalg.solve(a, np.ones((3, 4, 1)))[..., 0], atol=1e-8)
    tree = {"a": jnp.arange(3.0), "b": jnp.ones((2, 2), jnp.float32)}
    x, _ = solver(lambda t: functrax.tree.map(lambda x: 4 * x, t), tree)
    assert functrax.tree.map(lambda x: x.dtype, x) == functrax.tree.map(lambda x: x.dtype, tree)
    np.testing.assert_allclose(x["a"], [0, 0.25, 0.5])
    assert solver(2 * np.eye(3), np.arange(3))[0].tolist() == [0, 0.5, 1]
    assert solver(np.eye(3), np.zeros(3))[0].tolist() == [0, 0, 0]


def test_restarts_and_limits() -> None:
    a, b = system(30, "f", hermitian=False)
    np.testing.assert_allclose(gmres(a, b, tol=1e-12, restart=7)[0], np.linalg.solve(a, b))
    assert float(jnp.linalg.norm(b - a @ gmres(a, b, tol=1e-12, restart=3, maxiter=1)[0])) > 1e-3
    x, _ = gmres(np.eye(6) * 2, b[:6], restart=5)  # a space of one dimension
    np.testing.assert_allclose(x, b[:6] / 2)
    singular = gmres(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([1.0, 0.0]))[0]
    assert not np.isfinite(singular).any()
    assert cg(a @ a.T, b, maxiter=0)[0].tolist() == [0] * 30


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="not square"):
        cg(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ShapeError, match="x0"):
        bicgstab(np.eye(2), np.ones(2), x0=np.ones(3))
    with pytest.raises(ArgumentError, match="solve_method"):
        gmres(np.eye(2), np.ones(2), solve_method="direct")
