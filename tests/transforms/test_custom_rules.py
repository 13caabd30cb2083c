"""Functions with rules of their own: where no rule is asked for, and what rules may return."""

import functools
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.errors.typed import MissingRuleError, PyTreeError
from functrax.custom_batching import custom_vmap

Decorator = Any


def scanned(f: Any, x: Any) -> Any:
    return functrax.lax.scan(lambda x, _: (f(x), None), x, None, length=1)[0]


@pytest.mark.parametrize("decorator", [functrax.custom_jvp, functrax.custom_vjp])
def test_outside_of_transformations_the_function_is_called_as_it_is(decorator: Any) -> None:
    @decorator
    def f(x: Any, name: str) -> Any:
        return x, name

    if decorator is functrax.custom_jvp:
        f.defjvp(lambda p, t: (p, t))
    else:
        f.defvjp(lambda x, n: ((x, n), None), lambda r, ct: ct)
    out = f(2.0, "a")
    assert out == (2.0, "a") and type(out[0]) is float


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        (functrax.custom_jvp, "No JVP defined for custom_jvp function f using defjvp"),
        (functrax.custom_vjp, "No VJP defined for custom_vjp function f using defvjp"),
        (custom_vmap, "No batching rule defined for custom_vmap function f"),
    ],
)
def test_a_missing_rule_is_an_attribute_error(decorator: Any, message: str) -> None:
    @decorator
    def f(x: Any) -> Any:
        return x

    for kind in (AttributeError, MissingRuleError):
        with pytest.raises(kind, match=message):
            f(2.0)


@pytest.mark.parametrize("rule", [lambda x: (x, x), lambda x: jnp.zeros((3, *x.shape))])
def test_rules_whose_value_is_of_another_type_are_refused(rule: Any) -> None:
    @functrax.custom_jvp
    def f(x: Any) -> Any:
        return x

    f.defjvp(lambda p, t: (rule(p[0]), rule(t[0])))
    with pytest.raises(PyTreeError, match="in particular"):
        functrax.jvp(lambda x: scanned(f, x), (1.0,), (1.0,))

    @functrax.custom_vjp
    def g(x: Any) -> Any:
        return x

    g.defvjp(lambda x: (rule(x), None), lambda _, ct: (ct,))
    with pytest.raises(TypeError, match="Custom VJP fwd rule <lambda> for function g must produce"):
        functrax.grad(lambda x: scanned(g, x))(1.0)


def test_rules_are_given_through_decorators_on_top() -> None:
    @custom_vmap
    @functrax.custom_jvp
    def f(x: Any) -> Any:
        return 2.0 * x

    f.def_vmap(lambda size, batched, xs: (3.0 * xs, True))
    f.defjvp(lambda p, t: (2.0 * p[0], 5.0 * t[0]))
    assert f(1.0) == 2.0 and functrax.grad(f)(1.0) == 5.0
    assert functrax.vmap(f)(jnp.ones(1)).tolist() == [3.0]
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = f.missing


def test_arguments_that_fit_no_position_are_named() -> None:
    @functrax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x

    f.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        f(1.0)
    with pytest.raises(TypeError, match=r"custom_jvp-decorated function f\(x: "):
        f(1.0)


def test_keywords_that_a_partial_has_bound_are_no_arguments() -> None:
    scaled = functools.partial(lambda x, y, a: x + y * a, a=0.5)
    f = functrax.custom_jvp(scaled)
    f.defjvp(lambda primals, tangents: functrax.jvp(scaled, primals, tangents))
    assert functrax.grad(lambda args: f(*args))((1.0, 2.0)) == (1.0, 0.5)


def test_cotangents_of_another_precision_are_taken() -> None:
    @functrax.custom_vjp
    def f(x: Any) -> Any:
        return 2 * x

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (2 * ct.astype("float32"),))
    x = jnp.ones(3, "bfloat16")
    found = functrax.grad(lambda x: f(x).sum())(x)
    assert found.dtype == jnp.bfloat16 and found.tolist() == [2, 2, 2]
