"""``linearize`` and ``linear_transpose``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import DifferentiationError, DTypeError, PyTreeError
from tests.transforms.numeric import DIRECTION, FUNCTIONS, POINT, directional


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_agrees_with_finite_differences(function: Any) -> None:
    with functrax.enable_x64():
        value, push = functrax.linearize(lambda x: function(jnp, x), jnp.asarray(POINT))
        np.testing.assert_allclose(np.asarray(value), function(np, POINT), rtol=1e-13)
        wanted = directional(lambda x: function(np, x), POINT, DIRECTION)
        found = push(jnp.asarray(DIRECTION))
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


def test_function_runs_once() -> None:
    runs: list[int] = []

    def f(x: Any) -> Any:
        runs.append(1)
        return jnp.sin(x) * x

    _, push = functrax.linearize(f, 2.0)
    found = [float(push(t)) for t in (1.0, 2.0, -1.0)]
    slope = np.cos(2.0) * 2.0 + np.sin(2.0)
    np.testing.assert_allclose(found, [slope, 2 * slope, -slope], rtol=1e-6)
    assert len(runs) == 1


def test_the_linear_function_computes_no_nonlinear_operation() -> None:
    _, push = functrax.linearize(lambda x: jnp.exp(jnp.sin(x)), 2.0)
    names = {e.primitive.name for e in functrax.make_jaxpr(push)(1.0).eqns}
    assert names and names.isdisjoint({"sin", "cos", "exp"})


def test_pytrees_aux_and_constant_results() -> None:
    def f(d: Any, y: Any) -> Any:
        return {"p": d["a"] * y, "c": jnp.array([1.0, 2.0])}, d["a"] + 1.0

    value, push, aux = functrax.linearize(f, {"a": 2.0}, 3.0, has_aux=True)
    assert float(value["p"]) == 6.0 and float(aux) == 3.0
    out = push({"a": 1.0}, 10.0)
    assert float(out["p"]) == 3.0 + 20.0
    np.testing.assert_array_equal(np.asarray(out["c"]), [0.0, 0.0])


def test_under_jit_vmap_and_grad() -> None:
    def f(x: Any) -> Any:
        return functrax.linearize(lambda y: y**3, x)[1](1.0)

    assert float(functrax.jit(f)(2.0)) == 12.0
    assert float(functrax.grad(f)(2.0)) == 12.0
    x = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(functrax.vmap(f)(x)), [3.0, 12.0])
    _, push = functrax.linearize(lambda x: jnp.sum(x * x), x)
    np.testing.assert_array_equal(np.asarray(functrax.vmap(push)(jnp.eye(2))), [2.0, 4.0])


def test_linearize_refuses_tangents_that_do_not_fit() -> None:
    _, push = functrax.linearize(lambda x: x, jnp.ones(2))
    with pytest.raises(DTypeError, match="tangent values inconsistent"):
        push(1.0)
    with pytest.raises(PyTreeError, match="another tree structure"):
        push(jnp.ones(2), jnp.ones(2))


MAPS = {
    "scale": (lambda x: x * 3.0, (4,)),
    "sum": (lambda x: jnp.sum(x, axis=0), (3, 4)),
    "slice": (lambda x: x[1:, ::-2], (3, 4)),
    "gather": (lambda x: x[jnp.array([2, 0, 2])], (3, 2)),
    "transpose": (lambda x: lax.transpose(x, (1, 0)) * 2.0, (3, 2)),
    "matrix": (lambda x: jnp.arange(6.0).reshape(2, 3) @ x, (3, 2)),
    "pad": (lambda x: lax.pad(x, 0.0, [(1, 2, 1)]), (4,)),
    "diamond": (lambda x: x + 2.0 * x[::-1], (4,)),
    "repeated": (lambda x: lax.broadcast_in_dim(x, (3, 4), (1,)), (4,)),
    "jitted": (functrax.jit(lambda x: 2.0 * x[::-1]), (4,)),
    "vmapped": (functrax.vmap(lambda x: jnp.sum(x) * jnp.arange(2.0)), (3, 4)),
    "indexed_update": (lambda x: jnp.zeros(5).at[jnp.array([1, 1, 4])].add(x), (3,)),
}


@pytest.mark.parametrize("name", MAPS)
def test_transpose_is_the_adjoint(name: str) -> None:
    function, shape = MAPS[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    y = function(jnp.asarray(x))
    ct = rng.standard_normal(y.shape).astype(np.float32)
    (back,) = functrax.linear_transpose(function, jnp.zeros(shape))(jnp.asarray(ct))
    # <ct, A x> = <A^T ct, x>, computed by NumPy in double precision.
    left = np.sum(ct.astype(float) * np.asarray(y, float))
    right = np.sum(np.asarray(back, float) * x.astype(float))
    assert left == pytest.approx(right, rel=1e-5, abs=1e-5)
    assert abs(left) > 1e-3


def test_linear_transpose_takes_the_dtypes_that_arrays_have() -> None:
    example = np.ones(3)  # float64, which is float32 here
    back = functrax.linear_transpose(lambda x: 2 * x, example)
    (ct,) = back(example)
    assert ct.dtype == np.float32
    np.testing.assert_array_equal(ct, [2, 2, 2])


def test_linear_transpose_takes_types_and_pytrees() -> None:
    struct = functrax.ShapeDtypeStruct((2,), "float32")
    back = functrax.linear_transpose(
        lambda d: {"s": d["a"] + 2 * d["b"]}, {"a": struct, "b": struct}
    )
    (d,) = back({"s": jnp.array([1.0, 10.0])})
    np.testing.assert_array_equal(np.asarray(d["a"]), [1.0, 10.0])
    np.testing.assert_array_equal(np.asarray(d["b"]), [2.0, 20.0])


def test_linear_transpose_twice_is_the_function() -> None:
    f = lambda x: jnp.arange(6.0).reshape(2, 3) @ x
    once = functrax.linear_transpose(f, jnp.zeros(3))
    twice = functrax.linear_transpose(lambda ct: once(ct)[0], jnp.zeros(2))
    np.testing.assert_array_equal(np.asarray(twice(jnp.ones(3))[0]), [3.0, 12.0])


def test_linear_transpose_under_jit() -> None:
    f = lambda ct: functrax.linear_transpose(lambda x: 3.0 * x, 1.0)(ct)[0]
    assert float(functrax.jit(f)(2.0)) == 6.0


@pytest.mark.parametrize(
    "function",
    [lambda x: x * x, jnp.sin, lambda x: 1.0 / x, lambda x: jnp.where(x > 0, x, -x)],
    ids=["product", "sin", "quotient", "where"],
)
def test_linear_transpose_refuses_what_is_not_linear(function: Any) -> None:
    with pytest.raises(DifferentiationError, match="linear"):
        functrax.linear_transpose(function, 2.0)(1.0)
