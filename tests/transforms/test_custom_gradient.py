"""``custom_gradient`` and ``closure_convert``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import PyTreeError


def test_single_argument() -> None:
    @functrax.custom_gradient
    def f(x: Any) -> Any:
        return x * x, lambda ct: (10.0 * ct * x,)

    assert float(f(3.0)) == 9.0
    assert float(functrax.grad(f)(3.0)) == 30.0
    assert float(functrax.jit(functrax.grad(f))(3.0)) == 30.0
    assert float(functrax.grad(functrax.grad(f))(3.0)) == 10.0
    found = functrax.vmap(functrax.grad(f))(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(found), [10.0, 20.0])


def test_bare_cotangent_and_pytrees() -> None:
    @functrax.custom_gradient
    def f(d: Any) -> Any:
        return {"out": d["a"] * d["b"]}, lambda ct: {"a": ct["out"], "b": 2.0 * ct["out"]}

    g = functrax.grad(lambda d: f(d)["out"])({"a": 2.0, "b": 3.0})
    assert {k: float(v) for k, v in g.items()} == {"a": 1.0, "b": 2.0}


def test_several_arguments() -> None:
    @functrax.custom_gradient
    def f(x: Any, y: Any) -> Any:
        return x * y, lambda ct: (ct * y * 10.0, ct * x * 100.0)

    assert [float(g) for g in functrax.grad(f, (0, 1))(2.0, 3.0)] == [30.0, 200.0]
    x = jnp.array([1.0, 2.0])
    gx, gy = functrax.grad(lambda x, y: jnp.sum(functrax.vmap(f, (0, None))(x, y)), (0, 1))(x, 3.0)
    np.testing.assert_array_equal(np.asarray(gx), [30.0, 30.0])
    assert float(gy) == 300.0


def test_inside_jit_and_checkpoint() -> None:
    @functrax.custom_gradient
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        return y, lambda ct: (ct * y,)

    g = functrax.jit(functrax.grad(functrax.checkpoint(lambda x: 2.0 * f(x))))
    assert float(g(0.5)) == pytest.approx(2 * np.sin(0.5), rel=1e-6)


def test_closure_convert_hoists_differentiated_values_only() -> None:
    c = jnp.array([1.0, 2.0])

    def outer(y: Any) -> Any:
        converted, consts = functrax.closure_convert(lambda x: jnp.sum(x * y * c), jnp.ones(2))
        assert len(consts) == 1
        return converted(jnp.array([3.0, 4.0]), *consts)

    assert float(functrax.grad(outer)(2.0)) == 11.0
    assert float(functrax.jit(functrax.grad(outer))(2.0)) == 11.0


def test_closure_convert_without_tracers_hoists_nothing() -> None:
    converted, consts = functrax.closure_convert(lambda x: {"y": x * 2.0}, 1.0)
    assert consts == []
    assert float(converted(3.0)["y"]) == 6.0
    with pytest.raises(PyTreeError, match="closure produced by closure_convert"):
        converted((3.0,))


def test_closure_convert_makes_custom_rules_of_closures_possible() -> None:
    def solve(f: Any, x: Any) -> Any:
        """f(x), differentiated by all that f closes over, by a rule ten times too large."""
        converted, consts = functrax.closure_convert(f, x)

        @functrax.custom_vjp
        def run(x: Any, *consts: Any) -> Any:
            return converted(x, *consts)

        def fwd(x: Any, *consts: Any) -> Any:
            return run(x, *consts), (x, consts)

        def bwd(residuals: Any, ct: Any) -> Any:
            x, consts = residuals
            cts = functrax.vjp(converted, x, *consts)[1](ct)
            return tuple(10.0 * c for c in cts)

        run.defvjp(fwd, bwd)
        return run(x, *consts)

    f = lambda a: solve(lambda x: a * x * x, jnp.array(3.0))
    assert float(functrax.grad(f)(2.0)) == 90.0
    assert float(functrax.jit(functrax.grad(f))(2.0)) == 90.0
    found = functrax.vmap(functrax.grad(f))(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(found), [90.0, 90.0])
