"""The conventions of docs/subgradients.md, row by row."""

import numpy as np
import pytest

import functrax
import functrax.lax as lax
import functrax.numpy as jnp
from functrax import grad, hessian, vjp


def value(x):
    return np.asarray(x)


@pytest.mark.parametrize("function", [jnp.maximum, jnp.minimum])
def test_binary_extremum_shares_a_tie(function):
    dx, dy = grad(function, argnums=(0, 1))(2.0, 2.0)
    assert (float(dx), float(dy)) == (0.5, 0.5)
    dx, dy = grad(function, argnums=(0, 1))(2.0, 3.0)
    assert {float(dx), float(dy)} == {0.0, 1.0}


@pytest.mark.parametrize("function", [jnp.max, jnp.min])
def test_reduced_extremum_shares_ties_evenly(function):
    x = jnp.array([1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(value(grad(function)(x)), 0.25)
    y = jnp.array([5.0, -5.0, 5.0, -5.0])
    expected = [0.5, 0, 0.5, 0] if function is jnp.max else [0, 0.5, 0, 0.5]
    np.testing.assert_allclose(value(grad(function)(y)), expected)


@pytest.mark.parametrize("function", [jnp.max, jnp.min])
def test_reduced_extremum_that_is_nan(function):
    assert np.isnan(value(grad(function)(jnp.array([1.0, np.nan, 2.0])))).all()


def test_index_out_of_range():
    x, i = jnp.array([1.0, 2.0, 3.0]), jnp.array([0, 7, -9])
    np.testing.assert_array_equal(value(x[i]), [1.0, 3.0, 1.0])
    np.testing.assert_array_equal(value(grad(lambda x: x[i].sum())(x)), [2.0, 0.0, 1.0])


def test_sort_sends_cotangents_where_the_stable_sort_put_the_ties():
    x = jnp.array([2.0, 1.0, 2.0, 1.0])
    _, pull = vjp(lambda x: lax.sort(x), x)
    (ct,) = pull(jnp.array([10.0, 20.0, 30.0, 40.0]))
    np.testing.assert_array_equal(value(ct), [30.0, 10.0, 40.0, 20.0])


def test_abs_at_zero():
    assert float(grad(jnp.abs)(0.0)) == 1.0


def test_relu_at_zero():
    assert float(grad(lambda x: functrax.nn.relu(x))(0.0)) == 0.0


def test_prod_with_one_zero():
    x = jnp.array([2.0, 0.0, 3.0])
    np.testing.assert_array_equal(value(grad(jnp.prod)(x)), [0.0, 6.0, 0.0])


def test_prod_with_two_zeros_to_second_order():
    x = jnp.array([0.0, 0.0, 3.0])
    np.testing.assert_array_equal(value(grad(jnp.prod)(x)), [0.0, 0.0, 0.0])
    expected = np.zeros((3, 3))
    expected[0, 1] = expected[1, 0] = 3.0
    np.testing.assert_array_equal(value(hessian(jnp.prod)(x)), expected)


def test_sqrt_at_zero_is_infinite():
    assert float(grad(jnp.sqrt)(0.0)) == np.inf


def test_norm_at_zero_is_finite_to_second_order():
    x = jnp.zeros(3)
    np.testing.assert_array_equal(value(grad(jnp.linalg.norm)(x)), 0.0)
    np.testing.assert_array_equal(value(hessian(jnp.linalg.norm)(x)), 0.0)
    y = jnp.array([3.0, 0.0, 4.0])
    np.testing.assert_allclose(value(grad(jnp.linalg.norm)(y)), [0.6, 0.0, 0.8], rtol=1e-6)


def test_where_with_a_finite_branch_not_taken():
    assert float(grad(lambda x: jnp.where(x > 0, x, x * 100.0))(2.0)) == 1.0


def test_where_with_a_nan_branch():
    by_number = grad(lambda x: jnp.where(x > 0, jnp.log(x), 0.0))(0.0)
    assert float(by_number) == 0.0
    by_array = grad(lambda x: jnp.where(x > 0, jnp.log(x), 0.0).sum())(jnp.zeros(1))
    assert np.isnan(value(by_array)).all()
    guarded = grad(lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0))(0.0)
    assert float(guarded) == 0.0


def test_mod_with_a_cotangent_that_is_not_one():
    _, pull = vjp(jnp.mod, 7.5, 2.0)
    dx, dy = pull(10.0)
    assert (float(dx), float(dy)) == (10.0, -30.0)
    _, pull = vjp(jnp.mod, -7.5, 2.0)
    dx, dy = pull(10.0)
    assert (float(dx), float(dy)) == (10.0, 40.0)


def test_integer_powers():
    assert float(grad(lambda x: jnp.power(x, 2))(0.0)) == 0.0
    assert float(grad(grad(lambda x: jnp.power(x, 2)))(0.0)) == 2.0
    assert float(grad(lambda x: jnp.power(x, 2))(-2.0)) == -4.0
    assert float(grad(lambda x: jnp.power(x, 2.0))(0.0)) == 0.0
    assert float(grad(lambda x: jnp.power(x, 2.0))(-2.0)) == -4.0


def test_power_by_its_exponent_at_base_zero():
    assert float(grad(jnp.power, argnums=1)(0.0, 2.0)) == 0.0


@pytest.mark.parametrize("function", [jnp.floor, jnp.ceil, jnp.round, jnp.sign])
def test_steps_have_no_slope(function):
    assert float(grad(function)(1.3)) == 0.0


def test_clip_at_its_bounds():
    clipped = grad(lambda x: jnp.clip(x, 0.0, 1.0))
    nested = grad(lambda x: jnp.minimum(jnp.maximum(x, 0.0), 1.0))
    for x in (-1.0, 0.0, 0.5, 1.0, 2.0):
        assert float(clipped(x)) == float(nested(x))
