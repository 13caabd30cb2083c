"""What ``vjp``, ``linearize`` and ``linear_transpose`` return are pytrees of their residuals."""

import functools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.errors.typed import (
    ArgumentError,
    DifferentiationError,
    PyTreeError,
    TangentError,
)
from functrax.tree_util import Partial


def square_of_sine(x: Any) -> Any:
    return jnp.sin(x) ** 2


SLOPE = 2 * np.sin(0.5) * np.cos(0.5)


def test_vjp_leaves_jit_and_enters_it_again() -> None:
    _, pull = functrax.jit(lambda x: functrax.vjp(square_of_sine, x))(0.5)
    np.testing.assert_allclose(pull(1.0)[0], SLOPE, rtol=1e-6)
    np.testing.assert_allclose(functrax.jit(lambda f, c: f(c))(pull, 2.0)[0], 2 * SLOPE, rtol=1e-6)


def test_linearize_leaves_jit_and_enters_it_again() -> None:
    _, push = functrax.jit(lambda x: functrax.linearize(square_of_sine, x))(0.5)
    np.testing.assert_allclose(push(1.0), SLOPE, rtol=1e-6)
    np.testing.assert_allclose(functrax.jit(lambda f, t: f(t))(push, 2.0), 2 * SLOPE, rtol=1e-6)


def test_linearized_functions_are_batched_as_containers() -> None:
    xs = jnp.arange(3.0)
    pushes = functrax.vmap(lambda x: functrax.linearize(jnp.sin, x)[1])(xs)
    slopes = functrax.vmap(lambda f: f(1.0))(pushes)
    np.testing.assert_allclose(slopes, np.cos(np.arange(3.0)), rtol=1e-6)


def test_linearize_returns_a_partial_of_its_program() -> None:
    _, push = functrax.linearize(square_of_sine, 0.5)
    assert isinstance(push, Partial) and push.keywords == {}
    assert isinstance(push.func, functools.partial)
    np.testing.assert_allclose(push.func(*push.args, 1.0), SLOPE, rtol=1e-6)
    assert str(push.func.args[0]).count(" mul ") == 2


def test_arguments_can_be_taken_out_of_a_vjp_and_put_back() -> None:
    _, pull = functrax.vjp(lambda x, w: 2.0 * (x @ w), jnp.ones((3, 4)), w := jnp.ones((4, 2)))
    pull.args_res[1] = None
    pull.args_res[1] = w
    x_ct, w_ct = pull(jnp.ones((3, 2)))
    np.testing.assert_allclose(x_ct, np.full((3, 4), 4.0))
    np.testing.assert_allclose(w_ct, np.full((4, 2), 6.0))


def test_a_vjp_says_which_arguments_it_does_not_need() -> None:
    _, pull = functrax.vjp(lambda x, y: jnp.sin(x) + y * y, 1.0, 2.0)
    unused, used = pull.args_res
    assert type(unused).__name__ == "NotNeeded" and used == 2.0
    (cosine,) = pull.opaque_residuals
    np.testing.assert_allclose(cosine, np.cos(1.0), rtol=1e-6)


def test_a_residual_of_another_type_is_refused() -> None:
    _, pull = functrax.vjp(lambda x: x * x, jnp.ones(3))
    pull.args_res = [jnp.ones(4)]
    with pytest.raises(TangentError, match="residual"):
        pull(jnp.ones(3))
    pull.args_res = []
    with pytest.raises(PyTreeError, match="args_res"):
        pull(jnp.ones(3))


def test_a_vjp_of_two_cotangents_names_the_function() -> None:
    def pair(x: Any) -> Any:
        return x, x

    _, pull = functrax.vjp(pair, 1.0)
    with pytest.raises(ArgumentError, match="pair was called with 2 arguments"):
        pull(1.0, 1.0)


def test_linear_transpose_of_integers_and_through_jit() -> None:
    (found,) = functrax.linear_transpose(lambda x: 2 * x, 1)(3)
    assert found == 6 and found.dtype == jnp.int32
    transposed = functrax.jit(lambda x: functrax.linear_transpose(lambda y: x * y, x))(2.0)
    assert transposed(3.0) == (6.0,)
    with pytest.raises(DifferentiationError, match="linear_transpose only supports"):
        functrax.linear_transpose(lambda x: 2.0 * x, 1)
