"""Special functions against SciPy's, in both precisions, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as wanted

import functrax
import functrax.numpy as jnp
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, DTypeError
from functrax.scipy import special
from functrax.test_util import check_grads

WIDE = np.concatenate([np.linspace(-12, 12, 101), 10.0 ** np.arange(-6, 6), [0.0, np.inf, -np.inf]])
RNG = np.random.default_rng(0)
UNIT = RNG.uniform(0.1, 0.9, size=(4, 60))
H, A = RNG.normal(size=(2, 60)) * 2
PLANE = RNG.normal(size=80) * 3 + 1j * RNG.normal(size=80) * 3
EDGES = np.array([0.0, 0.0, 1.0, 1.0, 0.0, np.inf])
SLOPES = np.array([np.inf, 2.0, np.inf, -np.inf, 0.0, 1.0])
HYPER = (
    np.array([0, 1, 1, 1, 1, 5, 5, 0.45, 2, 0.4, 4, -2, 0.3]),
    np.array([1, 0, 1, 1, 1, 1, 1, 0.7, 1, 0.7, 3, 1, 0.2]),
    np.array([1, 1, 0, 1, -1, 3, 3, 0.45, 5, 0.3, 7, 4, 0.9]),
    np.array([1, 1, 1, 0, 1, 0.5, 1, 1.5, 1, 0.4, 0.95, 3, -4]),
)

#: The function's name, its arguments, and how far it may be off: in units of relative precision,
#: and of absolute precision near its zeros.
CASES: list[tuple[str, tuple[Any, ...], float, float]] = [
    ("erfcx", (WIDE[WIDE > -4],), 30, 0),
    ("erfcx", (PLANE[(PLANE * PLANE).real < 60],), 200, 0),
    ("wofz", (PLANE[(PLANE * PLANE).real > -60],), 200, 0),
    ("gamma", (PLANE[np.abs(PLANE.imag) > 0.3],), 500, 1e-3),
    ("loggamma", (PLANE,), 100, 100),
    ("dawsn", (WIDE[np.isfinite(WIDE)],), 30, 0),
    ("fresnel", (WIDE[np.abs(WIDE) < 50],), 30, 30),
    ("sici", (WIDE,), 30, 30),
    ("spence", (WIDE[np.inf > WIDE],), 60, 60),
    ("owens_t", (H, A), 60, 1),
    ("owens_t", (EDGES, SLOPES), 30, 0),
    ("expn", (RNG.integers(0, 10, 60), np.abs(A)), 200, 0),
    ("expn", (np.array([0, 1, 2, 3, 50, 100]), np.array([0, 0, 0, 0, 1.0, 0.5])), 30, 0),
    ("hyp2f1", tuple(UNIT), 60, 0),
    ("hyp2f1", HYPER, 200, 0),
]


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_values(case: tuple[str, tuple[Any, ...], float, float], precision: Any) -> None:
    name, given, relative, absolute = case
    narrow = np.result_type(precision, np.complex64)
    args = [
        x if x.dtype.kind == "i" else x.astype(narrow if x.dtype.kind == "c" else precision)
        for x in given
    ]
    exact = [x.astype(np.result_type(x, np.float64)) if x.dtype.kind != "i" else x for x in args]
    with enable_x64():
        found = functrax.tree.leaves(getattr(special, name)(*args))
        compiled = functrax.tree.leaves(functrax.jit(getattr(special, name))(*args))
    want = functrax.tree.leaves(getattr(wanted, name)(*exact))
    eps = float(np.finfo(precision).eps)
    for x, y, z in zip(found, compiled, want, strict=True):
        assert x.dtype.itemsize == args[-1].dtype.itemsize
        np.testing.assert_allclose(x, z, rtol=relative * eps, atol=absolute * eps)
        np.testing.assert_allclose(y, x, rtol=relative * eps, atol=absolute * eps)


def test_the_cut_and_the_poles_of_gamma() -> None:
    z = np.array([-0.5 + 0j, -1.5 + 0j, -2.5 + 1e-12j, -2.5 - 1e-12j, 3 + 0j])
    with enable_x64():
        np.testing.assert_allclose(special.gamma(z), wanted.gamma(z), rtol=1e-9)
        np.testing.assert_allclose(special.loggamma(z), wanted.loggamma(z), rtol=1e-9)
        poles = special.gamma(np.array([0j, -1 + 0j, -5 + 0j]))
    assert np.isnan(poles.real).all() and np.isnan(poles.imag).all()


def test_spherical_harmonics() -> None:
    m = RNG.integers(-5, 6, 50)
    n = np.abs(m) + RNG.integers(0, 3, 50)
    theta, phi = np.linspace(-2, 3, 50), np.linspace(-4, 6, 50)
    with enable_x64():
        found = special.sph_harm_y(n, m, theta, phi)
        np.testing.assert_allclose(found, wanted.sph_harm_y(n, m, theta, phi), atol=1e-13)
        traced = functrax.jit(lambda n: special.sph_harm_y(n, m, theta, phi, n_max=7))(n)
        np.testing.assert_allclose(traced, found, atol=1e-13)
    with pytest.raises(ArgumentError, match="n_max"):
        functrax.jit(lambda n: special.sph_harm_y(n, m, theta, phi))(n)


def test_bessel_functions() -> None:
    z = np.linspace(-10, 20, 31)
    with enable_x64():
        found = special.bessel_jn(z, v=3)
    np.testing.assert_allclose(found, [wanted.jv(k, z) for k in range(4)], atol=1e-13)
    np.testing.assert_array_equal(special.bessel_jn(jnp.zeros(2), v=1), [[1, 1], [0, 0]])
    with pytest.raises(ArgumentError, match="order"):
        special.bessel_jn(z, v=3, n_iter=2)


ORDERS = np.arange(5)
SMOOTH: list[Callable[[Any], Any]] = [
    special.erfcx,
    special.dawsn,
    special.fresnel,
    special.sici,
    special.spence,
    lambda x: special.owens_t(x, 2 * x),
    lambda x: special.expn(ORDERS, x),
    lambda x: special.hyp2f1(x, x + 0.3, x + 0.5, x / 7),
    lambda x: special.bessel_jn(x, v=2, n_iter=20),
    lambda x: special.wofz(x + 1j).real,
    lambda x: special.zeta(x + 1.5, x + 0.5),
    lambda x: special.loggamma(x - 1.2 + 0.5j).imag,
]


@pytest.mark.parametrize("function", SMOOTH)
def test_derivatives(function: Callable[[Any], Any]) -> None:
    with enable_x64():
        check_grads(function, (np.linspace(0.1, 3, 5),), 2)


def test_no_promotion_is_asked_of_users() -> None:
    x = jnp.linspace(0.1, 0.9, 3)
    with functrax.numpy_rank_promotion("raise"), functrax.numpy_dtype_promotion("strict"):
        for function in SMOOTH[:5]:
            functrax.grad(lambda x, f=function: functrax.tree.leaves(f(x))[0].sum())(x)
        special.hyp2f1(x, x, x, x)
        special.hyp1f1(x, x, x)


def test_numbers_that_are_refused() -> None:
    for match, call in (
        ("complex", lambda: special.wofz(jnp.ones(2))),
        ("real", lambda: special.sici(jnp.ones(2) * 1j)),
        ("real", lambda: special.fresnel(jnp.ones(2) * 1j)),
        ("real", lambda: special.bessel_jn(jnp.ones(2) * 1j, v=1)),
    ):
        with pytest.raises(ArgumentError, match=match):
            call()


@pytest.mark.parametrize(("wide", "rtol"), [(False, 3e-6), (True, 1e-8)])
def test_derivatives_of_log_ndtr(wide: bool, rtol: float) -> None:
    """Far on the left the logarithms of density and probability are large, and nearly equal."""
    low = -20.0 if wide else -10.0  # from where the series is taken
    x = [-1e15, -1e5, -1000, -40, low - 0.01, low, low + 0.01, -5, 0, 3, 9]
    with enable_x64(wide):
        found = jnp.asarray(np.array(x, np.float64 if wide else np.float32))
        at = np.asarray(found, np.float64)
        first = math.sqrt(2 / math.pi) / wanted.erfcx(-at / math.sqrt(2))
        slope = functrax.vmap(functrax.grad(special.log_ndtr))
        np.testing.assert_allclose(slope(found), first, rtol)
        some = at > -1000  # below it the closed form of the second derivative cancels
        second = functrax.vmap(functrax.grad(functrax.grad(special.log_ndtr)))(found[some])
        np.testing.assert_allclose(second, -first[some] * (at[some] + first[some]), 100 * rtol)
        assert slope(jnp.array([-np.inf]))[0] == np.inf


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("dawsn", 1), ("entr", 1), ("exp1", 1), ("expi", 1), ("hyp1f1", 3), ("kl_div", 2),
        ("rel_entr", 2), ("spence", 1),
    ],
)  # fmt: skip
def test_functions_of_real_numbers_refuse_complex_ones(name: str, operands: int) -> None:
    with pytest.raises(DTypeError, match=f"{name}: takes real numbers"):
        getattr(special, name)(*[0.7 + 0.4j] * operands)
