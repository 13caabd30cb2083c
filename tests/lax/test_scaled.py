"""Products of arrays with a scale for each block of elements."""

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax
from functrax.core.errors.typed import ArgumentError, ShapeError


def operands(batch=(), m=3, n=4, k=8, blocks=2):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(*batch, m, k)), jnp.float8_e4m3fn)
    y = jnp.asarray(rng.normal(size=(*batch, k, n)), jnp.float8_e5m2)
    of_x = jnp.asarray(2.0 ** rng.integers(-3, 3, (*batch, m, blocks)), jnp.float8_e8m0fnu)
    of_y = jnp.asarray(2.0 ** rng.integers(-3, 3, (*batch, blocks, n)), jnp.float8_e8m0fnu)
    return x, y, of_x, of_y


def wide(x):
    return np.asarray(x.astype(jnp.float32), np.float64)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_scaled_dot_is_the_product_of_scaled_operands(batch):
    x, y, of_x, of_y = operands(batch)
    want = (wide(x) * np.repeat(wide(of_x), 4, -1)) @ (wide(y) * np.repeat(wide(of_y), 4, -2))
    for run in (lambda f: f, fx.jit):
        got = run(
            lambda *a: lax.scaled_dot(
                a[0], a[1], lhs_scale=a[2], rhs_scale=a[3], preferred_element_type=jnp.float32
            )
        )(x, y, of_x, of_y)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
    short = lax.scaled_dot(x, y, rhs_scale=of_y)
    assert short.dtype == jnp.bfloat16
    plain = wide(x) @ (wide(y) * np.repeat(wide(of_y), 4, -2))
    np.testing.assert_allclose(wide(short), plain, rtol=2e-2, atol=1e-2)


def test_scaled_matmul_multiplies_rows_with_rows():
    x, y, of_x, of_y = operands((2,))
    y, of_y = jnp.swapaxes(y, 1, 2), jnp.swapaxes(of_y, 1, 2)
    got = fx.nn.scaled_matmul(x, y, of_x, of_y)
    left, right = (wide(a) * np.repeat(wide(s), 4, -1) for a, s in ((x, of_x), (y, of_y)))
    np.testing.assert_allclose(np.asarray(got), left @ np.swapaxes(right, 1, 2), rtol=1e-6)
    assert fx.nn.scaled_matmul(x, y, of_x, of_y, jnp.bfloat16).dtype == jnp.bfloat16


def test_gradients_reach_the_scales():
    x, y, of_x, _ = operands()
    scales = of_x.astype(jnp.float32)
    f = lambda s: jnp.sum(lax.scaled_dot(x, y, lhs_scale=s, preferred_element_type=jnp.float32))
    terms = wide(x) * wide(y).sum(1)
    want = terms.reshape(3, 2, 4).sum(-1)
    np.testing.assert_allclose(np.asarray(fx.grad(f)(scales)), want, rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (3, 8), (2, 2), (3,), (3, 0)])
def test_scales_that_do_not_fit_are_refused(shape):
    x, y, *_ = operands()
    with pytest.raises(ShapeError, match="scales do not fit"):
        lax.scaled_dot(x, y, lhs_scale=jnp.ones(shape))


def test_other_operands_that_do_not_fit_are_refused():
    x, y, of_x, of_y = operands()
    with pytest.raises(ArgumentError, match="matrices"):
        lax.scaled_dot(x[0], x[0])
    with pytest.raises(ShapeError, match="3-dimensional"):
        fx.nn.scaled_matmul(x, y, of_x, of_y)
    with pytest.raises(ShapeError, match="matching batch"):
        fx.nn.scaled_matmul(x[None], y[None], of_x[None], of_y[None])
