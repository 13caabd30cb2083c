"""Minimization, differential equations and Taylor series against SciPy and closed forms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize as wanted

import functrax
import functrax.numpy as jnp
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, ShapeError
from functrax.experimental.jet import jet
from functrax.experimental.ode import odeint
from functrax.scipy import optimize


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def near(got: Any, want: Any, rtol: float = 1e-6, atol: float = 1e-8) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=atol)


def rosenbrock(x: Any, a: Any = 100.0) -> Any:
    return jnp.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2


def steep(x: Any) -> Any:
    return jnp.sum(jnp.cosh(3.0 * x)) + jnp.sum(jnp.abs(x) ** 3)


@pytest.mark.parametrize(
    ("f", "start"),
    [(rosenbrock, [-1.2, 1.0]), (rosenbrock, [0.0] * 5), (himmelblau, [1.0, 1.0]),
     (steep, [2.0, -3.0, 1.0])],
)  # fmt: skip
def test_minima(f: Any, start: list[float]) -> None:
    x0 = np.array(start)
    found = optimize.minimize(f, x0, method="BFGS", tol=1e-8)
    want = wanted.minimize(lambda x: float(f(jnp.asarray(x))), x0, method="BFGS")
    assert bool(found.success) and int(found.status) == 0
    near(found.x, want.x, 1e-4, 1e-4)
    near(found.jac, np.zeros_like(x0), atol=1e-8)
    near(found.fun, f(found.x))
    assert int(found.nfev) == int(found.njev) >= int(found.nit) > 0


def test_minimization_inside_jit_and_vmap() -> None:
    def solve(start: Any, a: Any) -> Any:
        return optimize.minimize(rosenbrock, start, (a,), method="BFGS").x

    starts = jnp.array([[0.0, 0.0], [-1.0, 2.0], [1.0, 1.0]])
    found = functrax.jit(functrax.vmap(solve))(starts, jnp.array([1.0, 20.0, 100.0]))
    near(found, np.ones((3, 2)), 1e-4)


def test_minimization_that_stops_early() -> None:
    x0 = np.array([-1.2, 1.0])
    few = optimize.minimize(rosenbrock, x0, method="BFGS", options={"maxiter": 2})
    assert (bool(few.success), int(few.status), int(few.nit)) == (False, 1, 2)
    up = optimize.minimize(
        lambda x: -jnp.sum(x), x0, method="BFGS", options={"line_search_maxiter": 4}
    )
    assert not bool(up.success)
    with pytest.raises(ArgumentError, match="unknown method"):
        optimize.minimize(rosenbrock, x0, method="CG")
    with pytest.raises(ArgumentError, match="unknown options"):
        optimize.minimize(rosenbrock, x0, method="BFGS", options={"disp": True})
    with pytest.raises(ShapeError, match="x0 is not a vector"):
        optimize.minimize(rosenbrock, np.ones((2, 2)), method="BFGS")


def predators(y: Any, t: Any, a: Any, b: Any) -> Any:
    return {"x": y["x"] * (a - b * y["z"]), "z": y["z"] * (b * y["x"] - a) * jnp.cos(t)}


TIMES = np.array([0.0, 0.7, 1.0, 3.0])


def solved(y0: Any, times: Any, *args: Any, **how: Any) -> Any:
    out = odeint(predators, y0, times, *args, **how)
    return jnp.stack([out["x"], out["z"]], 1)


def test_solution_equals_scipy() -> None:
    def flat(t: float, y: Any) -> Any:
        return [y[0] * (1.1 - 0.4 * y[1]), y[1] * (0.4 * y[0] - 1.1) * np.cos(t)]

    want = scipy.integrate.solve_ivp(
        flat, (0, 3), [2.0, 1.0], t_eval=TIMES, rtol=1e-11, atol=1e-11
    ).y.T
    y0 = {"x": 2.0, "z": 1.0}
    near(solved(y0, TIMES, 1.1, 0.4), want, 1e-6)
    near(functrax.jit(solved)(y0, TIMES, 1.1, 0.4), want, 1e-6)
    near(solved(y0, TIMES, 1.1, 0.4, hmax=0.05), want, 1e-6)
    near(solved(y0, TIMES, 1.1, 0.4, rtol=1e-3, atol=1e-3), want, 1e-1)
    assert np.abs(np.asarray(solved(y0, TIMES, 1.1, 0.4, mxstep=1)) - want).max() > 1e-3


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_derivatives_of_a_solution(mode: str) -> None:
    def loss(y0: Any, times: Any, a: Any, b: Any) -> Any:
        return jnp.sum(jnp.sin(solved({"x": y0[0], "z": y0[1]}, times, a, b)))

    args = (jnp.array([2.0, 1.0]), jnp.asarray(TIMES), 1.1, 0.4)
    which = (0, 1, 2, 3)
    if mode == "reverse":
        got = functrax.jit(functrax.grad(loss, which))(*args)
    else:
        got = functrax.jit(functrax.jacfwd(loss, which))(*args)
    for k in which:
        flat = np.asarray(args[k], np.float64).reshape(-1)
        for i in range(flat.size):
            ends = []
            for s in (1e-5, -1e-5):
                moved = flat.copy()
                moved[i] += s
                at = list(args)
                at[k] = jnp.asarray(moved.reshape(np.shape(args[k])))
                ends.append(float(loss(*at)))
            near(np.asarray(got[k]).reshape(-1)[i], (ends[0] - ends[1]) / 2e-5, 1e-4, 1e-5)


def test_batched_solutions_and_second_derivatives() -> None:
    decay = lambda k: odeint(lambda y, t: -k * y, 1.0, jnp.array([0.0, 1.0]))[-1]
    ks = jnp.array([0.5, 2.0])
    near(functrax.vmap(decay)(ks), np.exp(-ks))
    near(functrax.vmap(functrax.grad(decay))(ks), -np.exp(-ks))
    near(functrax.grad(functrax.grad(decay))(0.5), np.exp(-0.5), 1e-5)
    assert odeint(lambda y, t: y, jnp.ones(3), jnp.array([0.0])).shape == (1, 3)
    with pytest.raises(ShapeError, match="the times are not a vector"):
        odeint(lambda y, t: y, 1.0, 1.0)


def test_taylor_series() -> None:
    f = lambda x: jnp.sin(x) * jnp.exp(x)
    value, terms = jet(f, (0.3,), ((1.0, 0.0, 0.0, 0.0),))
    g, wanted_terms = f, []
    for _ in range(4):
        g = functrax.grad(g)
        wanted_terms.append(float(g(0.3)))
    near(value, f(0.3))
    near([float(t) for t in terms], wanted_terms)


def test_taylor_series_along_curves_of_several_arguments() -> None:
    curves = (lambda s: jnp.sin(s) + 0.5, lambda s: jnp.array([1.0, 2.0]) * jnp.exp(0.3 * s))
    f = lambda x, y: {"a": x * y, "b": jnp.sum(jnp.tanh(y) ** x)}
    order = 3

    def derivatives(g: Any) -> list[Any]:
        found = [g]
        for _ in range(order):
            found.append(functrax.jacfwd(found[-1]))
        return [h(0.0) for h in found]

    start, series = zip(*((d[0], d[1:]) for d in map(derivatives, curves)), strict=True)
    want = derivatives(lambda s: f(*(c(s) for c in curves)))
    value, terms = jet(f, start, series)
    for got, w in zip([value, *terms], want, strict=True):
        near(got["a"], w["a"])
        near(got["b"], w["b"])
    scaled = [[t / math.factorial(k + 1) for k, t in enumerate(ts)] for ts in series]
    _, coefficients = jet(f, start, scaled, factorial_scaled=False)
    for k, (got, w) in enumerate(zip(coefficients, terms, strict=True)):
        near(got["a"], w["a"] / math.factorial(k + 1))
    with pytest.raises(ArgumentError, match="different numbers of terms"):
        jet(f, start, (series[0], series[1][:1]))
    with pytest.raises(ArgumentError, match="not an array"):
        jet(lambda d: d["a"], ({"a": 1.0, "b": 2.0},), ((1.0,),))


def test_a_search_ends_where_no_number_is_nearer() -> None:
    """The slope of float32 cannot be small enough: at last every step stays where it is."""

    def f(x: Any) -> Any:
        return jnp.sum(1e3 * (x - 1.1) ** 2) + jnp.sum(jnp.cosh(x))

    with enable_x64(False):
        found = functrax.jit(lambda x: optimize.minimize(f, x, method="BFGS", tol=1e-9))(
            np.array([3.0, -2.0, 0.5], np.float32)
        )
    assert int(found.status) == 3 and int(found.nit) < 60
    near(found.x, np.full(3, 1.0993), rtol=1e-4)


def test_further_arguments_are_a_tuple() -> None:
    with pytest.raises(ArgumentError, match="must be a tuple"):
        optimize.minimize(lambda x, a: (x * a).sum(), np.ones(2), args=45, method="BFGS")


def test_minimize_says_what_it_needs() -> None:
    def square(x: Any) -> Any:
        return jnp.sum(x**2)

    with pytest.raises(ArgumentError, match=r"^minimize: needs a method") as caught:
        optimize.minimize(square, jnp.ones(2))
    assert caught.value.fix == "method='BFGS'"
    for given in ({"tol": "a"}, {"options": {"gtol": "a"}}, {"options": {"maxiter": [3]}}):
        with pytest.raises(ArgumentError, match=r"^minimize: \w+ is not a number"):
            optimize.minimize(square, jnp.ones(2), method="BFGS", **given)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="unknown keyword"):
        optimize.minimize(square, jnp.ones(2), methods="BFGS")  # type: ignore[call-arg]


def test_numbers_of_minimize_may_be_arrays() -> None:
    def steps(tol: Any) -> Any:
        options = {"maxiter": None, "line_search_maxiter": np.int32(20)}
        return optimize.minimize(
            rosenbrock, jnp.zeros(2), method="BFGS", tol=tol, options=options
        ).nit

    assert functrax.jit(steps)(1e-1) < functrax.jit(steps)(jnp.asarray(1e-6))
