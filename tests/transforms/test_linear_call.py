"""Linear functions with a transpose of the user's own, and both halves of reverse mode."""

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax.core.errors.typed import DifferentiationError, PyTreeError, ShapeError
from functrax.custom_derivatives import linear_call


def seven(x):
    """The identity, whose transpose says 7."""
    return linear_call(lambda _, x: x, lambda _, ct: 7.0 * jnp.ones_like(ct), (), x)


def transposed(f, example):
    return lambda ct: fx.linear_transpose(f, example)(ct)[0]


def test_the_transpose_is_the_given_one_and_its_transpose_the_function():
    assert float(seven(2.0)) == 2.0
    once = transposed(seven, 1.0)
    assert float(once(1.0)) == 7.0
    twice = transposed(once, 1.0)
    assert float(twice(1.0)) == 1.0
    assert float(transposed(twice, 1.0)(1.0)) == 7.0


def scaled(r, x):
    return linear_call(
        lambda r, x: {"y": x["a"] * r + x["b"]},
        lambda r, ct: {"a": ct["y"] * r, "b": ct["y"]},
        r,
        x,
    )


def test_derivatives_in_both_modes_under_jit_and_vmap():
    x = {"a": jnp.array([1.0, 2.0]), "b": jnp.array([3.0, 4.0])}
    r = jnp.array([5.0, -1.0])
    loss = lambda x: jnp.sum(scaled(r, x)["y"] ** 2)
    plain = lambda x: jnp.sum((x["a"] * r + x["b"]) ** 2)
    want = fx.grad(plain)(x)
    for run in (lambda f: f, fx.jit):
        got = run(fx.grad(loss))(x)
        for name in ("a", "b"):
            np.testing.assert_array_equal(np.asarray(got[name]), np.asarray(want[name]))
    moved = fx.jvp(lambda a: scaled(r, {**x, "a": a})["y"], (x["a"],), (jnp.ones(2),))[1]
    np.testing.assert_array_equal(np.asarray(moved), np.asarray(r))
    rows = {"a": jnp.stack([x["a"], -x["a"]]), "b": jnp.stack([x["b"], x["b"]])}
    np.testing.assert_array_equal(
        np.asarray(fx.vmap(fx.grad(loss))(rows)["a"][0]), np.asarray(want["a"])
    )
    second = fx.hessian(lambda a: loss({**x, "a": a}))(x["a"])
    np.testing.assert_array_equal(np.asarray(second), np.diag(2 * np.asarray(r) ** 2))


def test_what_does_not_fit_is_refused():
    with pytest.raises(DifferentiationError, match="residual"):
        fx.grad(lambda r: jnp.sum(scaled(r, {"a": jnp.ones(2), "b": jnp.ones(2)})["y"]))(
            jnp.ones(2)
        )
    with pytest.raises(PyTreeError, match=r"fun_transpose\(\) output pytree"):
        linear_call(lambda _, x: x, lambda _, ct: (ct, ct), (), 1.0)
    with pytest.raises(ShapeError, match=r"fun_transpose\(\) output shapes"):
        linear_call(lambda _, x: x, lambda _, ct: jnp.ones(3), (), 1.0)


@pytest.mark.parametrize("jitted", [True, False])
def test_forward_and_backward(jitted):
    traced = []

    def f(x, n, w):
        traced.append(1)
        return jnp.sum(jnp.sin(w * x["k"])) * n, x

    fwd, bwd = fx.fwd_and_bwd(f, argnums=(0, -1), has_aux=True, jitted=jitted)
    x, w = {"k": jnp.arange(3.0)}, jnp.array([1.0, 2.0, 3.0])
    for turn in range(3):
        value, residuals, aux = fwd(x, 2.0, w + turn)
        np.testing.assert_allclose(float(value), float(f(x, 2.0, w + turn)[0]), rtol=1e-6)
        by_x, by_w = bwd(residuals, 1.0)
        want = fx.grad(lambda x, w: f(x, 2.0, w)[0], (0, 1))(x, w + turn)
        np.testing.assert_allclose(np.asarray(by_x["k"]), np.asarray(want[0]["k"]), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(by_w), np.asarray(want[1]), rtol=1e-6)
        np.testing.assert_array_equal(np.asarray(aux["k"]), np.arange(3.0))
    if jitted:
        assert len(traced) == 1 + 6  # once by `fwd`, the others by what it is compared with


def test_one_argument_has_one_cotangent():
    _, bwd = fx.fwd_and_bwd(lambda x: x**2, 0)
    _, residuals = fx.fwd_and_bwd(lambda x: x**2, 0)[0](3.0)
    assert float(bwd(residuals, 1.0)) == 6.0
    with pytest.raises(ValueError, match="argnums"):
        fx.fwd_and_bwd(lambda x: x, 3)[0](1.0)
