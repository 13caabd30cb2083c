"""functrax.scipy against SciPy, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg as wanted_linalg
import scipy.special as wanted_special

import functrax
import functrax.numpy as jnp
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, ShapeError
from functrax.scipy import linalg, special

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
Z = A + 1j * RNG.normal(size=(4, 4))
B = RNG.normal(size=(4, 2))
X = np.linspace(0.1, 0.9, 7)


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def near(got: Any, wanted: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("a", [A, Z])
def test_systems_equal_scipy(a: np.ndarray[Any, Any]) -> None:
    positive = a @ a.conj().T
    for b in (B, B[:, 0]):
        for trans in (0, 1, 2, "C"):
            for lower in (True, False):
                how = {"trans": trans, "lower": lower}
                near(
                    linalg.solve_triangular(a, b, **how),
                    wanted_linalg.solve_triangular(a, b, **how),
                )
        near(linalg.solve(a, b), wanted_linalg.solve(a, b))
        near(linalg.solve(positive, b, assume_a="pos"), np.linalg.solve(positive, b))
        for lower in (True, False):
            near(
                linalg.cho_solve(linalg.cho_factor(positive, lower), b),
                np.linalg.solve(positive, b),
            )
        for trans in (0, 1, 2):
            near(
                linalg.lu_solve(linalg.lu_factor(a), b, trans),
                wanted_linalg.lu_solve(wanted_linalg.lu_factor(a), b, trans),
            )
    near(linalg.cholesky(np.triu(positive)), wanted_linalg.cholesky(positive))
    near(linalg.det(a), wanted_linalg.det(a))
    near(linalg.inv(a), wanted_linalg.inv(a))
    near(linalg.eigh(positive, eigvals_only=True), wanted_linalg.eigvalsh(positive))


@pytest.mark.parametrize("shape", [(4, 4), (4, 2), (2, 4)])
def test_factorisations_equal_scipy(shape: tuple[int, int]) -> None:
    a = RNG.normal(size=shape)
    for got, wanted in zip(linalg.lu(a), wanted_linalg.lu(a), strict=True):
        near(got, wanted)
    left, right = linalg.lu(a, permute_l=True)
    near(np.asarray(left) @ np.asarray(right), a)
    q, r = linalg.qr(a)
    assert q.shape == (shape[0], shape[0])
    near(np.asarray(q) @ np.asarray(r), a)
    near(linalg.svd(a, compute_uv=False), wanted_linalg.svdvals(a))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_expm_equals_scipy(scale: float) -> None:
    a = scale * RNG.normal(size=(2, 3, 3))
    near(linalg.expm(a), wanted_linalg.expm(a), 1e-8)
    near(linalg.expm(1j * a), wanted_linalg.expm(1j * a), 1e-8)
    assert np.isnan(np.asarray(linalg.expm(1e9 * np.eye(2)))).all()


def test_expm_has_derivatives() -> None:
    t = RNG.normal(size=(3, 3))
    a = A[:3, :3] / 4
    got = functrax.jvp(linalg.expm, (jnp.asarray(a),), (jnp.asarray(t),))[1]
    near(got, wanted_linalg.expm_frechet(a, t, compute_expm=False))


def test_block_diag_equals_scipy() -> None:
    blocks = [A, 2.0, np.ones(3)]
    near(linalg.block_diag(*blocks), wanted_linalg.block_diag(*blocks))


ONE = {
    "digamma": X, "entr": X, "erf": X, "erfc": X, "erfinv": X,
    "exp1": np.array([1e-3, 0.5, 1.9, 2.1, 5.0, 40.0]),
    "expi": np.array([-30.0, -2.5, -0.1, 0.2, 3.0, 35.0, 45.0, 90.0]),
    "expit": X, "factorial": 3 * X, "gamma": 5 * X - 3.03, "gammaln": X, "gammasgn": 6 * X - 3.01,
    "i0": X, "i0e": X, "i1": X, "i1e": X, "log_ndtr": 60 * X - 40, "logit": X, "loggamma": X,
    "ndtr": 6 * X - 3, "ndtri": np.array([1e-20, 1e-3, 0.1, 0.4, 0.5, 0.7, 0.95]), "zeta": 1 + X,
}  # fmt: skip
TWO = {
    "beta": (X, 2 * X), "betaln": (X, 2 * X), "boxcox": (X, 2 * X - 1.2), "boxcox1p": (X, X),
    "comb": (9 * X, 2 * X), "gammainc": (2 * X, X), "gammaincc": (2 * X, X), "kl_div": (X, 2 * X),
    "poch": (X, 2 * X), "rel_entr": (X, 2 * X), "xlog1py": (X, X), "xlogy": (X, X),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_argument(name: str) -> None:
    f, x = getattr(special, name), ONE[name]
    near(f(x), getattr(wanted_special, name)(x), 1e-7)
    assert f(x.astype(np.float32)).dtype == np.float32
    if name not in ("gammasgn", "zeta"):
        _check_derivative(f, x, x)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arguments(name: str) -> None:
    f, (x, y) = getattr(special, name), TWO[name]
    near(f(x, y), getattr(wanted_special, name)(x, y))
    _check_derivative(lambda v: f(x, v), y, y)
    if not name.startswith("gamma"):
        _check_derivative(lambda v: f(v, y), x, x)


def _check_derivative(f: Any, x: Any, scale: Any) -> None:
    """First and second derivative, by steps relative to the size of ``x``."""
    for _ in range(2):
        step = 1e-5 * np.where(scale == 0, 1, np.abs(scale))
        wanted = (np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * step)
        f = _derivative(f)
        np.testing.assert_allclose(f(x), wanted, rtol=1e-5, atol=1e-5)


def _derivative(f: Any) -> Any:
    return lambda x: functrax.jvp(f, (jnp.asarray(x),), (jnp.ones_like(jnp.asarray(x)),))[1]


def test_functions_with_other_arguments() -> None:
    near(special.betainc(2 * X, 1.5, X), wanted_special.betainc(2 * X, 1.5, X))
    for n in range(4):
        near(special.polygamma(n, X), wanted_special.polygamma(n, X))
    near(special.multigammaln(3 + X, 3), [wanted_special.multigammaln(3 + x, 3) for x in X])
    near(special.zeta(2.0, X), wanted_special.zeta(2.0, X))
    near(special.comb(5, 3, repetition=True), wanted_special.comb(5, 3, repetition=True))
    near(special.bernoulli(10), wanted_special.bernoulli(10))
    near(special.softmax(A), wanted_special.softmax(A))
    near(special.log_softmax(A, axis=1), wanted_special.log_softmax(A, axis=1))
    near(special.logsumexp(A, axis=0), wanted_special.logsumexp(A, axis=0))


def test_confluent_hypergeometric_function() -> None:
    for a, b in ((0.7, 1.9), (-2.3, 0.4), (3.0, -1.5), (-3.0, 2.0)):
        x = np.array([-60.0, -5.0, -0.3, 0.0, 0.4, 7.0, 150.0])
        near(special.hyp1f1(a, b, x), wanted_special.hyp1f1(a, b, x), 1e-7)
    args = (0.7, 1.9, -2.5)
    got = functrax.grad(special.hyp1f1, (0, 1, 2))(*args)
    for i in range(3):
        high, low = ([v + s * (i == j) for j, v in enumerate(args)] for s in (1e-6, -1e-6))
        near(got[i], (special.hyp1f1(*high) - special.hyp1f1(*low)) / 2e-6, 1e-6)
    near(functrax.vmap(special.hyp1f1, (None, None, 0))(0.7, 1.9, x),
         wanted_special.hyp1f1(0.7, 1.9, x), 1e-7)  # fmt: skip


def test_limits() -> None:
    near(special.exp1(np.array([0.0, -1.0])), [np.inf, np.nan])
    near(special.expi(0.0), -np.inf)
    near(special.xlogy(0.0, 0.0), 0)
    assert np.isnan(special.xlogy(0.0, np.nan)) and np.isnan(special.xlog1py(0.0, np.nan))
    near(special.entr(np.array([0.0, -1.0])), [0, -np.inf])
    near(special.ndtri(np.array([0.0, 1.0, 2.0])), [-np.inf, np.inf, np.nan])
    near(
        special.rel_entr(np.array([0.0, 1.0, -1.0]), np.array([0.0, 0.0, 1.0])), [0, np.inf, np.inf]
    )
    near(special.ndtri(np.array([1e-300, 1 - 1e-9])), wanted_special.ndtri([1e-300, 1 - 1e-9]))
    near(functrax.grad(special.xlogy)(0.0, 2.0), np.log(2))
    near(functrax.grad(special.log_ndtr)(-1e4), 1e4, 1e-6)


def test_refused_arguments() -> None:
    with pytest.raises(ShapeError, match="sizes"):
        linalg.solve_triangular(A, np.ones(3))
    with pytest.raises(ShapeError, match="square"):
        linalg.expm(np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="trans"):
        linalg.solve_triangular(A, B, trans="H")
    with pytest.raises(ArgumentError, match="assume_a"):
        linalg.solve(A, B, assume_a="banded")
    with pytest.raises(ArgumentError, match="plain problem"):
        linalg.eigh(A, A)
    with pytest.raises(ArgumentError, match="exact"):
        special.factorial(3, exact=True)
    with pytest.raises(ArgumentError, match="unknown keyword"):
        special.ndtr(y=1.0)


def test_bessel_functions_have_their_derivatives_at_0():
    first = functrax.grad(functrax.scipy.special.i0)
    assert first(0.0) == 0
    assert functrax.grad(first)(0.0) == 0.5
    assert functrax.grad(functrax.grad(functrax.scipy.special.i1))(0.0) == 0
