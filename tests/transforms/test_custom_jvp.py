"""``custom_jvp``: forward rules of the user's own, which serve both modes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.custom_derivatives import SymbolicZero, zero_from_primal
from functrax.errors import ArgumentError, DTypeError, FunctraxError, PyTreeError


@functrax.custom_jvp
def triple(x: Any) -> Any:
    """x squared, with a derivative three times too large, so that the rule shows."""
    return x * x


@triple.defjvp
def _triple_rule(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return triple(x), 6.0 * x * t


def test_value_and_both_modes() -> None:
    assert float(triple(3.0)) == 9.0
    assert triple.__name__ == "triple" and "three times" in triple.__doc__
    assert [float(v) for v in functrax.jvp(triple, (3.0,), (2.0,))] == [9.0, 36.0]
    assert float(functrax.grad(triple)(3.0)) == 18.0
    assert float(functrax.vjp(triple, 3.0)[1](10.0)[0]) == 180.0


def test_higher_orders_differentiate_the_rule() -> None:
    assert float(functrax.grad(functrax.grad(triple))(3.0)) == 6.0
    assert float(functrax.grad(functrax.grad(functrax.grad(triple)))(3.0)) == 0.0
    assert float(functrax.hessian(triple)(3.0)) == 6.0


def test_under_jit_vmap_and_inside_them() -> None:
    x = jnp.array([1.0, 2.0])
    by_element = functrax.vmap(functrax.grad(triple))(x)
    np.testing.assert_array_equal(np.asarray(by_element), [6.0, 12.0])
    of_batch = functrax.grad(lambda x: jnp.sum(functrax.vmap(triple)(x)))(x)
    np.testing.assert_array_equal(np.asarray(of_batch), [6.0, 12.0])
    for f in (functrax.jit(functrax.grad(triple)), functrax.grad(functrax.jit(triple))):
        assert float(f(3.0)) == 18.0
    twice = functrax.grad(functrax.grad(functrax.jit(triple)))
    assert float(functrax.jit(twice)(3.0)) == 6.0
    deep = functrax.jit(functrax.vmap(functrax.jit(functrax.grad(functrax.jit(triple)))))
    np.testing.assert_array_equal(np.asarray(deep(x)), [6.0, 12.0])
    batch_then_grad = functrax.grad(lambda x: jnp.sum(functrax.vmap(functrax.jit(triple))(x)))
    np.testing.assert_array_equal(np.asarray(functrax.jit(batch_then_grad)(x)), [6.0, 12.0])


def test_nested_vmap_with_one_argument_unmapped() -> None:
    @functrax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvp(lambda p, t: (f(*p), 10.0 * (t[0] * p[1] + p[0] * t[1])))
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0, 5.0])

    def total(x: Any, y: Any) -> Any:
        inner = functrax.vmap(f, in_axes=(None, 0))
        return jnp.sum(functrax.vmap(inner, in_axes=(0, None))(x, y))

    gx, gy = functrax.grad(total, (0, 1))(x, y)
    np.testing.assert_array_equal(np.asarray(gx), [120.0, 120.0])
    np.testing.assert_array_equal(np.asarray(gy), [30.0, 30.0, 30.0])
    mapped = functrax.vmap(functrax.grad(f, (0, 1)), in_axes=(None, 0))(2.0, y)
    np.testing.assert_array_equal(np.asarray(mapped[0]), [30.0, 40.0, 50.0])
    np.testing.assert_array_equal(np.asarray(mapped[1]), [20.0, 20.0, 20.0])


def test_stays_a_call_in_programs() -> None:
    closed = functrax.make_jaxpr(lambda x: triple(x) + 1.0)(2.0)
    assert [e.primitive.name for e in closed.eqns] == ["custom_jvp_call", "add"]


def test_pytrees() -> None:
    @functrax.custom_jvp
    def f(d: dict[str, Any]) -> tuple[Any, list[Any]]:
        return d["a"] * d["b"], [d["a"], None]

    @f.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        (d,), (t,) = primals, tangents
        return f(d), (100.0 * t["a"], [t["b"], None])

    value, tangent = functrax.jvp(f, ({"a": 2.0, "b": 3.0},), ({"a": 1.0, "b": 7.0},))
    assert float(value[0]) == 6.0 and value[1][1] is None
    assert float(tangent[0]) == 100.0 and float(tangent[1][0]) == 7.0
    g = functrax.grad(lambda d: f(d)[0] + f(d)[1][0])({"a": 2.0, "b": 3.0})
    assert {k: float(v) for k, v in g.items()} == {"a": 100.0, "b": 1.0}


@pytest.mark.parametrize("position", [1, -1])
def test_nondiff_argnums(position: int) -> None:
    @functools.partial(functrax.custom_jvp, nondiff_argnums=(position,))
    def power(x: Any, n: int = 2) -> Any:
        return x**n

    @power.defjvp
    def _rule(n: int, primals: Any, tangents: Any) -> Any:
        assert isinstance(n, int)
        return power(primals[0], n), 100.0 * n * tangents[0]

    assert float(functrax.grad(power)(3.0, 3)) == 300.0
    assert float(functrax.grad(lambda x: power(x, n=4))(3.0)) == 400.0
    assert float(functrax.grad(power)(3.0)) == 200.0  # the default, left out
    assert float(functrax.jit(lambda x: power(x))(3.0)) == 9.0


def test_nondiff_functions() -> None:
    @functools.partial(functrax.custom_jvp, nondiff_argnums=(0, 2))
    def apply(f: Any, x: Any, g: Any) -> Any:
        return g(f(x))

    @apply.defjvp
    def _rule(f: Any, g: Any, primals: Any, tangents: Any) -> Any:
        return apply(f, primals[0], g), tangents[0] * g(f(2.0))

    assert float(functrax.grad(apply, argnums=1)(jnp.square, 3.0, lambda x: x + 1)) == 5.0


def test_keywords_and_defaults() -> None:
    @functrax.custom_jvp
    def f(x: Any, y: Any = 2.0) -> Any:
        return x * y

    f.defjvp(lambda p, t: (f(*p), 10.0 * t[0] * p[1] + 100.0 * t[1]))
    assert float(f(3.0)) == 6.0 and float(f(y=5.0, x=3.0)) == 15.0
    assert float(functrax.grad(f)(3.0)) == 20.0
    assert float(functrax.grad(lambda y: f(3.0, y=y))(5.0)) == 100.0


def test_defjvps() -> None:
    @functrax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defjvps(lambda t, value, x, y: 10.0 * t * y, None)
    assert [float(g) for g in functrax.grad(f, (0, 1))(2.0, 3.0)] == [30.0, 0.0]


@pytest.mark.parametrize("where", ["eager", "jit", "vmap", "jit of vmap"])
def test_integer_arguments_and_results(where: str) -> None:
    @functrax.custom_jvp
    def f(x: Any, n: Any) -> tuple[Any, Any]:
        return x * n, n + 1

    @f.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        (x, n), (t, _) = primals, tangents
        return f(x, n), (10.0 * t * n, np.zeros(n.shape, functrax.float0))

    g = f
    if "vmap" in where:
        g = functrax.vmap(g)
    if "jit" in where:
        g = functrax.jit(g)

    def total(x: Any, n: Any) -> Any:
        y, m = g(x, n)
        return jnp.sum(y * m)

    x, n = jnp.array([1.0, 2.0]), jnp.array([3, 4])
    assert float(total(x, n)) == 12.0 + 40.0
    np.testing.assert_array_equal(np.asarray(functrax.grad(total)(x, n)), [120.0, 200.0])


def test_symbolic_zeros() -> None:
    seen: list[tuple[str, ...]] = []

    @functrax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        seen.append(tuple(type(t).__name__ for t in tangents))
        (x, y), (t, s) = primals, tangents
        total = t * y if "Symbolic" not in type(t).__name__ else 0.0
        return f(x, y), total + (s * x if "Symbolic" not in type(s).__name__ else 0.0)

    f.defjvp(rule, symbolic_zeros=True)
    assert float(functrax.grad(f, 0)(2.0, 3.0)) == 3.0
    assert float(functrax.grad(f, 1)(2.0, 3.0)) == 2.0
    assert [["Symbolic" in n for n in names] for names in seen] == [[False, True], [True, False]]
    seen.clear()
    mapped = functrax.grad(lambda x: jnp.sum(functrax.vmap(f, (0, None))(x, 3.0)))(jnp.ones(2))
    np.testing.assert_array_equal(np.asarray(mapped), [3.0, 3.0])
    assert seen and "Symbolic" in seen[0][1]


def test_closures_over_arrays_and_outer_tracers() -> None:
    c = jnp.array([1.0, 2.0])

    @functrax.custom_jvp
    def scaled(x: Any) -> Any:
        return jnp.sum(x * c)

    scaled.defjvp(lambda p, t: (scaled(*p), 10.0 * jnp.sum(t[0] * c)))
    for f in (functrax.grad(scaled), functrax.jit(functrax.grad(functrax.jit(scaled)))):
        np.testing.assert_array_equal(np.asarray(f(jnp.ones(2))), [10.0, 20.0])

    def outer(y: Any) -> Any:
        @functrax.custom_jvp
        def f(x: Any) -> Any:
            return x * y

        f.defjvp(lambda p, t: (p[0] * y, 10.0 * t[0] * y))
        return functrax.grad(f)(2.0) + f(y)

    assert float(functrax.jit(outer)(5.0)) == 50.0 + 25.0
    found = functrax.vmap(outer)(jnp.array([5.0, 7.0]))
    np.testing.assert_array_equal(np.asarray(found), [75.0, 119.0])
    found = functrax.jit(functrax.vmap(functrax.jit(outer)))(jnp.array([5.0, 7.0]))
    np.testing.assert_array_equal(np.asarray(found), [75.0, 119.0])


def test_closure_over_a_differentiated_value_is_refused() -> None:
    def outer(y: Any) -> Any:
        @functrax.custom_jvp
        def f(x: Any) -> Any:
            return x * y

        f.defjvp(lambda p, t: (p[0] * y, t[0] * y))
        return f(2.0) * f(y)

    for g in (functrax.grad(outer), functrax.grad(functrax.jit(outer))):
        with pytest.raises(FunctraxError, match="closes over") as info:
            g(3.0)
        assert "closure_convert" in str(info.value)


def test_rule_runs_instead_of_the_function_and_may_use_transformations() -> None:
    @functrax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    @f.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        slope = functrax.jit(functrax.grad(lambda y: 5.0 * functrax.vmap(jnp.exp)(y[None])[0]))
        return f(primals[0]), slope(primals[0]) * tangents[0]

    assert float(functrax.grad(f)(0.0)) == 5.0
    assert float(functrax.grad(functrax.grad(f))(0.0)) == 5.0
    jitted = functrax.jit(functrax.grad(functrax.checkpoint(f)))
    assert float(jitted(0.0)) == 5.0


def test_methods() -> None:
    class Scale:
        factor = 7.0

        @functools.partial(functrax.custom_jvp, nondiff_argnums=(0,))
        def apply(self, x: Any) -> Any:
            return self.factor * x

        @apply.defjvp
        def rule(self, primals: Any, tangents: Any) -> Any:
            return self.apply(*primals), 2.0 * self.factor * tangents[0]

    assert float(Scale().apply(2.0)) == 14.0
    assert float(functrax.grad(Scale().apply)(2.0)) == 14.0


RULES: dict[str, tuple[Any, type[Exception], str]] = {
    "not a pair": (lambda p, t: p[0], PyTreeError, "for function f must produce a pair"),
    "structure": (lambda p, t: (p[0], (t[0],)), PyTreeError, "equal container"),
    "shape": (lambda p, t: (p[0], jnp.ones(3)), DTypeError, "corresponding shapes and dtypes"),
    "dtype": (
        lambda p, t: (p[0], t[0].astype("float16")),
        DTypeError,
        "a tangent f16",
    ),
    "not an array": (lambda p, t: (p[0], "zero"), DTypeError, "tangent of the jvp rule of f"),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("jit", [False, True])
def test_wrong_rules(name: str, jit: bool) -> None:
    rule, error, match = RULES[name]

    @functrax.custom_jvp
    def f(x: Any) -> Any:
        return x * 1.0

    f.defjvp(rule)
    g = functrax.jit(f) if jit else f
    assert float(g(2.0)) == 2.0
    with pytest.raises(error, match=match):
        functrax.grad(g)(2.0)


def test_missing_rule() -> None:
    f = functrax.custom_jvp(lambda x: x)
    with pytest.raises(ArgumentError, match="No JVP defined for"):
        f(1.0)
    with pytest.raises(ArgumentError, match="not with nondiff_argnums"):
        functrax.custom_jvp(lambda x, n: x, nondiff_argnums=(1,)).defjvps(None)


def test_zeros_of_primals() -> None:
    tree = {"x": np.ones(3, np.float32), "n": 2}
    zeros = zero_from_primal(tree)
    np.testing.assert_array_equal(zeros["x"], np.zeros(3))
    assert zeros["n"].dtype == functrax.dtypes.float0
    symbolic = zero_from_primal(tree, symbolic_zeros=True)
    assert type(symbolic["x"]) is type(symbolic["n"]) is SymbolicZero

    @functrax.custom_jvp
    def split(x: Any) -> Any:
        return x * 2, x * 3

    @split.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        out = split(*primals)
        return out, (5 * tangents[0], zero_from_primal(out[1], symbolic_zeros=True))

    out, tangents = functrax.jit(lambda x: functrax.jvp(split, (x,), (1.0,)))(2.0)
    assert [float(x) for x in (*out, *tangents)] == [4, 6, 5, 0]
    assert functrax.grad(lambda x: sum(split(x)))(2.0) == 5
