"""Functions with rules of their own that close over values that ``vmap`` maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.errors.typed import LeakedTracerError

XS = np.arange(1.0, 4.0, dtype=np.float32)


def _times_jvp(x: Any) -> Any:
    @functrax.custom_jvp
    def f(y: Any) -> Any:
        return x * y

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return x * primals[0], 10 * x * tangents[0]

    return f


def _times_vjp(x: Any) -> Any:
    @functrax.custom_vjp
    def f(y: Any) -> Any:
        return x * y

    f.defvjp(lambda y: (x * y, None), lambda _, ct: (10 * x * ct,))
    return f


@pytest.mark.parametrize("jit", [lambda f: f, functrax.jit])
@pytest.mark.parametrize("times", [_times_jvp, _times_vjp])
def test_the_argument_is_not_mapped(times: Any, jit: Any) -> None:
    values = jit(lambda y: functrax.vmap(lambda x: times(x)(y))(XS))
    np.testing.assert_allclose(values(2.0), 2 * XS)
    slope = jit(functrax.grad(lambda y: functrax.vmap(lambda x: times(x)(y))(XS).sum()))
    np.testing.assert_allclose(slope(2.0), 10 * XS.sum())
    slopes = jit(functrax.vmap(lambda x: functrax.grad(times(x))(2.0)))
    np.testing.assert_allclose(slopes(XS), 10 * XS)


@pytest.mark.parametrize("times", [_times_jvp, _times_vjp])
def test_two_levels(times: Any) -> None:
    ys = XS + 4
    grid = functrax.vmap(lambda x: functrax.vmap(lambda y: functrax.grad(times(x * y))(2.0))(ys))
    np.testing.assert_allclose(grid(XS), 10 * np.outer(XS, ys))


def test_what_is_not_mapped_stays_so() -> None:
    f = _times_jvp(3.0)
    run = functrax.vmap(lambda x: (x, f(2.0)), out_axes=(0, None))
    np.testing.assert_allclose(run(XS)[1], 6.0)


def test_a_rule_with_a_static_option_and_a_mapped_key() -> None:
    keyed = functrax.custom_jvp(
        lambda param, key: functrax.random.uniform(key, (2,), minval=param), nondiff_argnums=(1,)
    )
    keyed.defjvp(lambda key, primals, tangents: (keyed(*primals, key), jnp.ones(2) * tangents[0]))
    keys = functrax.random.split(functrax.random.key(1), 3)
    got = functrax.vmap(lambda key: keyed(0.5, key))(keys)
    want = [functrax.random.uniform(key, (2,), minval=0.5) for key in keys]
    np.testing.assert_array_equal(got, np.stack(want))


def test_a_backward_rule_alone_cannot_close_over_one() -> None:
    def run(x: Any, y: Any) -> Any:
        @functrax.custom_vjp
        def f(y: Any) -> Any:
            return y

        f.defvjp(lambda y: (y, None), lambda _, ct: (x * ct,))
        return f(y)

    inside = functrax.vmap(lambda x: functrax.grad(lambda y: run(x, y))(2.0))
    np.testing.assert_allclose(inside(XS), XS)
    with pytest.raises(LeakedTracerError, match="traced value"):
        functrax.grad(lambda y: functrax.vmap(lambda x: run(x, y))(XS).sum())(2.0)


def test_rules_that_call_the_function_again_under_nested_jacobians() -> None:
    @functrax.custom_jvp
    def inverse(x: Any) -> Any:
        return 1.0 / x

    @inverse.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        y = inverse(primals[0])
        return y, -y * y * tangents[0]

    bend = functrax.jacfwd(functrax.jacfwd(inverse))
    np.testing.assert_allclose(bend(2.0), 2 / 8, rtol=1e-6)
    np.testing.assert_allclose(functrax.vmap(bend)(XS), 2 / XS**3, rtol=1e-5)
