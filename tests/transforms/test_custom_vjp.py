"""``custom_vjp``: backward rules of the user's own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import (
    ArgumentError,
    DifferentiationError,
    DTypeError,
    FunctraxError,
    PyTreeError,
)


@functrax.custom_vjp
def triple(x: Any) -> Any:
    """x squared, with a derivative three times too large, so that the rule shows."""
    return x * x


triple.defvjp(lambda x: (x * x, x), lambda x, ct: (6.0 * x * ct,))


def test_value_and_reverse_mode() -> None:
    assert float(triple(3.0)) == 9.0
    assert float(functrax.grad(triple)(3.0)) == 18.0
    value, pull = functrax.vjp(triple, 3.0)
    assert float(value) == 9.0 and float(pull(10.0)[0]) == 180.0
    np.testing.assert_array_equal(
        np.asarray(functrax.jacrev(triple)(jnp.array([1.0, 2.0]))), np.diag([6.0, 12.0])
    )


def test_higher_orders_differentiate_both_rules() -> None:
    assert float(functrax.grad(functrax.grad(triple))(3.0)) == 6.0
    assert float(functrax.jacfwd(functrax.grad(triple))(3.0)) == 6.0
    assert float(functrax.grad(functrax.jit(functrax.grad(functrax.jit(triple))))(3.0)) == 6.0
    # (triple(x) x)' = 6x x + x^2, the last term by fwd, which is a plain square.
    cubic = functrax.grad(lambda x: triple(x) * x)
    assert float(cubic(2.0)) == 28.0
    assert float(functrax.grad(cubic)(2.0)) == 28.0
    assert float(functrax.grad(functrax.grad(cubic))(2.0)) == 14.0


def test_under_jit_vmap_and_inside_them() -> None:
    x = jnp.array([1.0, 2.0])
    found = functrax.vmap(functrax.grad(triple))(x)
    np.testing.assert_array_equal(np.asarray(found), [6.0, 12.0])
    found = functrax.grad(lambda x: jnp.sum(functrax.vmap(triple)(x)))(x)
    np.testing.assert_array_equal(np.asarray(found), [6.0, 12.0])
    found = functrax.grad(lambda x: jnp.sum(functrax.jit(functrax.vmap(functrax.jit(triple)))(x)))
    np.testing.assert_array_equal(np.asarray(functrax.jit(found)(x)), [6.0, 12.0])
    assert float(functrax.jit(functrax.grad(functrax.jit(functrax.jit(triple))))(3.0)) == 18.0


def test_cotangents_of_unmapped_arguments_are_summed() -> None:
    @functrax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, ct: (10.0 * ct * r[1], 10.0 * ct * r[0]))
    x = jnp.array([1.0, 2.0, 3.0])

    def total(x: Any, y: Any) -> Any:
        return jnp.sum(functrax.vmap(f, in_axes=(0, None))(x, y))

    for g in (
        functrax.grad(total, (0, 1)),
        functrax.jit(functrax.grad(functrax.jit(total), (0, 1))),
    ):
        gx, gy = g(x, 2.0)
        np.testing.assert_array_equal(np.asarray(gx), [20.0, 20.0, 20.0])
        assert float(gy) == 60.0


def test_residual_pytrees_and_closures() -> None:
    c = jnp.array(5.0)

    @functrax.custom_vjp
    def f(d: dict[str, Any], xs: list[Any]) -> dict[str, Any]:
        return {"out": d["a"] * xs[0] * c, "none": None}

    def fwd(d: dict[str, Any], xs: list[Any]) -> Any:
        return f(d, xs), {"d": d, "xs": xs, "none": None, "number": 2}

    def bwd(residuals: dict[str, Any], ct: dict[str, Any]) -> Any:
        assert ct["none"] is None
        scale = ct["out"] * c * residuals["number"]
        return {"a": scale * residuals["xs"][0]}, [scale * residuals["d"]["a"], None]

    f.defvjp(fwd, bwd)
    gd, gxs = functrax.grad(lambda d, xs: f(d, xs)["out"], (0, 1))({"a": 2.0}, [3.0, 4.0])
    assert float(gd["a"]) == 30.0
    assert [float(g) for g in gxs] == [20.0, 0.0]


def test_none_stands_for_zero_at_any_depth() -> None:
    @functrax.custom_vjp
    def f(d: dict[str, Any], y: Any) -> Any:
        return d["a"][0] * d["b"] * y

    f.defvjp(lambda d, y: (f(d, y), None), lambda _, ct: ({"a": None, "b": 7.0 * ct}, None))
    gd, gy = functrax.grad(f, (0, 1))({"a": (1.0, 2.0), "b": 3.0}, 4.0)
    assert [float(g) for g in gd["a"]] == [0.0, 0.0]
    assert float(gd["b"]) == 7.0 and float(gy) == 0.0


def test_none_in_an_argument_matches_none_in_the_cotangent() -> None:
    @functrax.custom_vjp
    def f(pair: Any) -> Any:
        return pair[0] * 2

    f.defvjp(lambda p: (f(p), None), lambda _, ct: ((ct, None),))
    assert float(functrax.grad(lambda x: f((x, None)))(1.0)) == 1.0


@pytest.mark.parametrize("position", [1, -1])
def test_nondiff_argnums(position: int) -> None:
    @functools.partial(functrax.custom_vjp, nondiff_argnums=(position,))
    def power(x: Any, n: int = 2) -> Any:
        return x**n

    power.defvjp(lambda x, n: (x**n, x), lambda n, x, ct: (100.0 * n * ct,))
    assert float(functrax.grad(power)(3.0, 3)) == 300.0
    assert float(functrax.grad(lambda x: power(x, n=4))(3.0)) == 400.0
    assert float(functrax.grad(power)(3.0)) == 200.0  # the default, left out
    assert float(functrax.jit(functrax.grad(lambda x: power(x)))(3.0)) == 200.0


def test_keywords_and_defaults() -> None:
    @functrax.custom_vjp
    def f(x: Any, y: Any = 2.0) -> Any:
        return x * y

    f.defvjp(lambda x, y: (x * y, y), lambda y, ct: (10.0 * ct * y, 100.0 * ct))
    assert float(functrax.grad(f)(3.0)) == 20.0
    assert float(functrax.grad(lambda y: f(y=y, x=3.0))(5.0)) == 100.0


def test_keyword_only_arguments_are_refused() -> None:
    @functrax.custom_vjp
    def f(x: Any, *, y: Any) -> Any:
        return x * y

    f.defvjp(lambda x, y: (x, None), lambda _, ct: (ct, ct))
    with pytest.raises(ArgumentError, match="could not be resolved to positions: y"):
        f(1.0, y=2.0)


def test_clipping_gradients() -> None:
    @functrax.custom_vjp
    def clip(low: Any, high: Any, x: Any) -> Any:
        return x

    clip.defvjp(
        lambda low, high, x: (x, (low, high)),
        lambda r, ct: (None, None, jnp.clip(ct, r[0], r[1])),
    )
    f = lambda x: jnp.sum(jnp.array([3.0, -4.0, 0.5]) * clip(-1.0, 1.0, x))
    found = functrax.grad(f)(jnp.zeros(3))
    np.testing.assert_array_equal(np.asarray(found), [1.0, -1.0, 0.5])


@pytest.mark.parametrize("where", ["eager", "jit", "vmap"])
def test_integer_arguments_and_results(where: str) -> None:
    @functrax.custom_vjp
    def f(x: Any, n: Any) -> tuple[Any, Any]:
        return x * n, n + 1

    def bwd(n: Any, cts: Any) -> Any:
        return 10.0 * cts[0] * n, np.zeros(n.shape, functrax.float0)

    f.defvjp(lambda x, n: (f(x, n), n), bwd)
    g = {"eager": f, "jit": functrax.jit(f), "vmap": functrax.vmap(f)}[where]

    def total(x: Any, n: Any) -> Any:
        y, m = g(x, n)
        return jnp.sum(y * m)

    found = functrax.grad(total)(jnp.array([1.0, 2.0]), jnp.array([3, 4]))
    np.testing.assert_array_equal(np.asarray(found), [120.0, 200.0])


def test_symbolic_zeros() -> None:
    perturbed: list[list[bool]] = []
    kinds: list[list[str]] = []

    @functrax.custom_vjp
    def f(x: Any, y: Any) -> tuple[Any, Any]:
        return x * y, x + y

    def fwd(x: Any, y: Any) -> Any:
        perturbed.append([x.perturbed, y.perturbed])
        return (x.value * y.value, x.value + y.value), (x.value, y.value)

    def bwd(residuals: Any, cts: Any) -> Any:
        kinds.append([type(ct).__name__ for ct in cts])
        x, y = residuals
        return cts[0] * y, cts[0] * x

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert float(functrax.grad(lambda x: f(x, 3.0)[0])(2.0)) == 3.0
    assert perturbed == [[True, False]]
    assert "SymbolicZero" not in kinds[0][0] and "SymbolicZero" in kinds[0][1]


def test_forward_mode_is_refused_with_advice() -> None:
    for transform in (
        lambda: functrax.jvp(triple, (3.0,), (1.0,)),
        lambda: functrax.jacfwd(triple)(3.0),
        lambda: functrax.jvp(functrax.jit(triple), (3.0,), (1.0,)),
        lambda: functrax.linearize(triple, 3.0)[1](1.0),
        lambda: functrax.jvp(functrax.vmap(triple), (jnp.ones(2),), (jnp.ones(2),)),
    ):
        with pytest.raises(DifferentiationError, match="triple: can't apply forward-mode") as info:
            transform()
        assert "custom_jvp" in str(info.value)


def test_forward_mode_with_constant_argument_is_allowed() -> None:
    value, tangent = functrax.jvp(lambda x: x * triple(3.0), (2.0,), (1.0,))
    assert (float(value), float(tangent)) == (18.0, 9.0)


def test_closure_over_a_differentiated_value_is_refused() -> None:
    def outer(y: Any) -> Any:
        @functrax.custom_vjp
        def f(x: Any) -> Any:
            return x * y

        f.defvjp(lambda x: (x * y, None), lambda _, ct: (ct * y,))
        return f(2.0) * f(y)

    for g in (functrax.grad(outer), functrax.grad(functrax.jit(outer))):
        with pytest.raises(FunctraxError, match="closes over") as info:
            g(3.0)
        assert "closure_convert" in str(info.value)


def test_closure_over_mapped_values() -> None:
    def outer(y: Any) -> Any:
        @functrax.custom_vjp
        def f(x: Any) -> Any:
            return x * y

        f.defvjp(lambda x: (x * y, None), lambda _, ct: (10.0 * ct * y,))
        return functrax.grad(f)(2.0) + f(y)

    x = jnp.array([5.0, 7.0])
    for g in (functrax.vmap(outer), functrax.jit(functrax.vmap(functrax.jit(outer)))):
        np.testing.assert_array_equal(np.asarray(g(x)), [75.0, 119.0])


def test_rules_inside_checkpoint_inside_vmap() -> None:
    f = functrax.checkpoint(lambda x: jnp.sin(triple(x)))
    x = np.array([0.3, 0.4], np.float32)
    wanted = np.cos(x * x) * 6 * x
    for g in (functrax.vmap(functrax.grad(f)), functrax.jit(functrax.vmap(functrax.grad(f)))):
        np.testing.assert_allclose(np.asarray(g(x)), wanted, rtol=1e-6)
    found = functrax.grad(lambda x: jnp.sum(functrax.vmap(f)(x)))(x)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


def test_jitted_rules_are_traced_once_and_shared() -> None:
    traces: list[str] = []

    @functrax.jit
    def fwd(x: Any) -> Any:
        traces.append("fwd")
        return x * x, x

    @functrax.jit
    def bwd(x: Any, ct: Any) -> Any:
        traces.append("bwd")
        return (6.0 * x * ct,)

    f = functrax.custom_vjp(lambda x: x * x)
    f.defvjp(fwd, bwd)
    for _ in range(3):
        assert float(functrax.grad(f)(jnp.array(3.0))) == 18.0
    assert traces == ["fwd", "bwd"]


def test_named_axes_inside_rules() -> None:
    @functrax.custom_vjp
    def f(x: Any) -> Any:
        return lax.psum(x, "i")

    f.defvjp(lambda x: (lax.psum(x, "i"), x), lambda x, ct: (lax.pmean(ct * x, "i"),))
    x = jnp.array([1.0, 2.0, 6.0])
    mapped = functrax.vmap(functrax.grad(f), axis_name="i")
    np.testing.assert_array_equal(np.asarray(mapped(x)), [3.0, 3.0, 3.0])
    np.testing.assert_array_equal(np.asarray(functrax.jit(mapped)(x)), [3.0, 3.0, 3.0])


BWD: dict[str, tuple[Any, type[Exception], str]] = {
    "not a tuple": (lambda r, ct: ct, PyTreeError, "must produce a tuple"),
    "too many": (lambda r, ct: (ct, ct), PyTreeError, "got   tuple of length 2"),
    "structure": (
        lambda r, ct: ({"a": ct},),
        PyTreeError,
        "cotangents of the structure of the arguments",
    ),
    "shape": (lambda r, ct: (jnp.ones(3),), DTypeError, "the bwd rule of f returns a cotangent"),
    "dtype": (lambda r, ct: (ct.astype("int32"),), DTypeError, "cotangent i32"),
    "text": (lambda r, ct: ("zero",), DTypeError, "of the bwd rule of f"),
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", BWD)
def test_wrong_backward_rules(name: str, jit: bool) -> None:
    bwd, error, match = BWD[name]
    f = functrax.custom_vjp(lambda x: x * 1.0)
    f.fun.__name__ = "f"
    f.defvjp(lambda x: (x * 1.0, None), bwd)
    with pytest.raises(error, match=match):
        functrax.grad(functrax.jit(f) if jit else f)(2.0)


def test_wrong_forward_rule_and_missing_rule() -> None:
    f = functrax.custom_vjp(lambda x: x * 1.0)
    with pytest.raises(ArgumentError, match="No VJP defined for"):
        f(1.0)
    f.defvjp(lambda x: x * 1.0, lambda r, ct: (ct,))
    with pytest.raises(PyTreeError, match="must produce a pair"):
        functrax.grad(f)(2.0)


def test_residuals_that_are_python_numbers_are_given_as_they_are() -> None:
    """Also where the forward rule runs several times before the backward rule does."""

    @functrax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def fwd(x: Any, y: Any) -> Any:
        perturbed = (x.perturbed, y.perturbed)
        return x.value * y.value, (x.value, y.value, perturbed, 2)

    def bwd(residuals: Any, ct: Any) -> Any:
        x, y, (by_x, by_y), two = residuals
        assert type(two) is int and type(by_x) is type(by_y) is bool
        return (two * ct * y if by_x else None), (two * ct * x if by_y else None)

    f.defvjp(fwd, bwd, symbolic_zeros=True)

    def both(x: Any, y: Any) -> Any:
        first = functrax.grad(lambda x: functrax.grad(f, 1)(x, y) * 1.0)(x)
        return f(x, 2.0) + f(3.0, y) + 0 * first

    for wrap in (lambda f: f, functrax.jit):
        found = wrap(functrax.grad(both, (0, 1)))(5.0, 7.0)
        assert [float(g) for g in found] == [4.0, 6.0]
        batched = wrap(functrax.vmap(functrax.grad(f, (0, 1)), (0, None)))(jnp.arange(2.0), 3.0)
        assert [g.tolist() for g in batched] == [[6, 6], [0, 2]]


def test_a_cotangent_stands_for_all_that_is_below_it() -> None:
    @functrax.custom_vjp
    def f(tree: Any) -> Any:
        return tree["a"][0] * tree["a"][1]

    f.defvjp(
        lambda tree: (f(tree), None), lambda _, ct: ({"a": 3 * ct, "n": jnp.ones(7), "i": ct},)
    )
    for empty in (None, ()):
        found = functrax.grad(f, allow_int=True)({"a": (2.0, 3.0), "n": empty, "i": 1})
        assert found["a"] == (3.0, 3.0) and found["n"] == empty


def test_values_of_a_forward_rule_with_symbolic_zeros():
    from functrax.custom_derivatives import custom_vjp_primal_tree_values

    @functrax.custom_vjp
    def product(pair):
        return pair["x"] * pair["y"]

    def forward(pair):
        values = custom_vjp_primal_tree_values(pair)
        return product(values), values

    def backward(values, ct):
        return ({"x": 10 * ct * values["y"], "y": ct * values["x"]},)

    product.defvjp(forward, backward, symbolic_zeros=True)
    gradient = functrax.grad(lambda x: product({"x": x, "y": 3.0}))(2.0)
    assert float(gradient) == 30.0
    with pytest.raises(ValueError, match="not an argument of a forward rule"):
        custom_vjp_primal_tree_values({"x": 1.0})
