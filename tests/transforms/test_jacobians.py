"""``jacfwd``, ``jacrev`` and ``hessian``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import DifferentiationError
from tests.transforms.numeric import FUNCTIONS, POINT, jacobian

BOTH = (functrax.jacfwd, functrax.jacrev)


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_agrees_with_finite_differences(function: Any, transform: Any) -> None:
    with functrax.enable_x64():
        found = transform(lambda x: function(jnp, x))(jnp.asarray(POINT))
    wanted = jacobian(lambda x: function(np, x), POINT)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_hessian_agrees_with_finite_differences(function: Any) -> None:
    with functrax.enable_x64():
        found = functrax.hessian(lambda x: function(jnp, x))(jnp.asarray(POINT))
    wanted = jacobian(lambda y: jacobian(lambda x: function(np, x), y), POINT)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
def test_shapes_are_those_of_the_result_then_of_the_argument(transform: Any) -> None:
    f = lambda x: jnp.sum(x[:, :, None] * jnp.arange(4.0), axis=0)
    found = transform(f)(jnp.ones((2, 3)))
    assert found.shape == (3, 4, 2, 3)
    wanted = np.einsum("jb,k->jkb", np.eye(3), np.arange(4.0))[:, :, None, :]
    np.testing.assert_array_equal(np.asarray(found), np.broadcast_to(wanted, (3, 4, 2, 3)))


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
def test_pytrees_of_results_hold_pytrees_of_arguments(transform: Any) -> None:
    def f(d: dict[str, Any]) -> dict[str, Any]:
        return {"p": d["a"] * d["b"][0], "q": jnp.sum(d["a"])}

    jac = transform(f)({"a": jnp.array([1.0, 2.0]), "b": [3.0]})
    np.testing.assert_array_equal(np.asarray(jac["p"]["a"]), [[3.0, 0.0], [0.0, 3.0]])
    np.testing.assert_array_equal(np.asarray(jac["p"]["b"][0]), [1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(jac["q"]["a"]), [1.0, 1.0])
    assert float(jac["q"]["b"][0]) == 0.0


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
def test_argnums_tuple_and_negative(transform: Any) -> None:
    f = lambda x, y: x * x * y
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    by_y, by_x = transform(f, argnums=(1, 0))(x, y)
    np.testing.assert_array_equal(np.asarray(by_y), np.diag([1.0, 4.0]))
    np.testing.assert_array_equal(np.asarray(by_x), np.diag([6.0, 16.0]))
    last = transform(f, argnums=-1)(x, y)
    np.testing.assert_array_equal(np.asarray(last), np.diag([1.0, 4.0]))


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
def test_has_aux_and_keywords(transform: Any) -> None:
    f = lambda x, k: (k * x * x, {"aux": x + k})
    jac, aux = transform(f, has_aux=True)(jnp.array([1.0, 2.0]), k=3.0)
    np.testing.assert_array_equal(np.asarray(jac), np.diag([6.0, 12.0]))
    np.testing.assert_array_equal(np.asarray(aux["aux"]), [4.0, 5.0])


def test_hessian_has_aux_and_argnums() -> None:
    f = lambda x, y: (jnp.sum(x * x * y), x + y)
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])
    hess, aux = functrax.hessian(f, argnums=(0, 1), has_aux=True)(x, y)
    np.testing.assert_array_equal(np.asarray(hess[0][0]), np.diag([6.0, 8.0]))
    np.testing.assert_array_equal(np.asarray(hess[0][1]), np.diag([2.0, 4.0]))
    np.testing.assert_array_equal(np.asarray(hess[1][0]), np.diag([2.0, 4.0]))
    np.testing.assert_array_equal(np.asarray(hess[1][1]), np.zeros((2, 2)))
    np.testing.assert_array_equal(np.asarray(aux), [4.0, 6.0])


def test_hessian_of_a_pytree() -> None:
    hess = functrax.hessian(lambda d: d["a"] * d["b"] ** 2)({"a": 2.0, "b": 3.0})
    found = [[float(hess[i][j]) for j in "ab"] for i in "ab"]
    assert found == [[0.0, 6.0], [6.0, 4.0]]


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
def test_constant_results_scalars_and_zero_sizes(transform: Any) -> None:
    zero = transform(lambda x: jnp.ones(3))(jnp.ones(2))
    np.testing.assert_array_equal(np.asarray(zero), np.zeros((3, 2)))
    assert float(transform(lambda x: x * x)(3.0)) == 6.0
    assert transform(jnp.sin)(jnp.zeros(0)).shape == (0, 0)
    assert transform(lambda x: x[:0])(jnp.ones(3)).shape == (0, 3)
    assert transform(lambda x: jnp.ones(3) * jnp.sum(x))(jnp.ones(0)).shape == (3, 0)


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
def test_holomorphic(transform: Any) -> None:
    z = jnp.array([1.0 + 1.0j, 2.0 - 1.0j])
    found = transform(lambda z: z * z, holomorphic=True)(z)
    np.testing.assert_allclose(np.asarray(found), np.diag(2 * np.asarray(z)), rtol=1e-6)


@pytest.mark.parametrize("transform", BOTH, ids=lambda f: f.__name__)
def test_under_jit_and_vmap(transform: Any) -> None:
    f = lambda x: jnp.outer(x, jnp.sin(x))
    x = jnp.asarray([[0.1, 0.2], [0.3, 0.4]])
    batch = functrax.jit(functrax.vmap(transform(f)))(x)
    one = transform(f)(x[1])
    assert batch.shape == (2, 2, 2, 2)
    np.testing.assert_allclose(np.asarray(batch[1]), np.asarray(one), rtol=1e-6)


def test_third_derivatives_by_three_orders_of_modes() -> None:
    f = lambda x: jnp.sum(x**4) * x[0]
    x = np.array([0.5, -1.0])

    def third(i: int, j: int, k: int) -> float:
        # T = d^3 (x0^5 + x0 x1^4) by hand
        count = (i, j, k).count(0)
        a, b = x
        return {3: 60 * a * a, 2: 0.0, 1: 12 * b * b, 0: 24 * a * b}[count]

    wanted = [[[third(i, j, k) for k in (0, 1)] for j in (0, 1)] for i in (0, 1)]
    fwd, rev = functrax.jacfwd, functrax.jacrev
    for transform in (fwd(fwd(rev(f))), rev(rev(rev(f))), rev(fwd(fwd(f))), fwd(rev(rev(f)))):
        np.testing.assert_allclose(np.asarray(transform(jnp.asarray(x))), wanted, rtol=1e-5)


def test_jacrev_allow_int_gives_float0() -> None:
    found = functrax.jacrev(lambda n: n * 2.0, allow_int=True)(jnp.array([1, 2, 3]))
    assert found.dtype == functrax.float0 and found.shape == (3, 3)


def test_refusals() -> None:
    with pytest.raises(DifferentiationError, match=r"jacfwd requires .* not a real floating point"):
        functrax.jacfwd(lambda x: x)(jnp.array([1, 2]))
    with pytest.raises(DifferentiationError, match=r"jacrev requires .* not a real floating point"):
        functrax.jacrev(lambda x: x)(jnp.array([1, 2]))
    with pytest.raises(DifferentiationError, match=r"jacrev requires .* not a real floating point"):
        functrax.jacrev(lambda x: x.astype("int32"))(jnp.array([1.0, 2.0]))
    with pytest.raises(DifferentiationError, match="is not complex"):
        functrax.jacfwd(lambda x: x, holomorphic=True)(jnp.ones(2))
