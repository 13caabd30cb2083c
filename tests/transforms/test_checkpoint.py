"""``checkpoint``: the same values and derivatives, with fewer residuals."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.ir.jaxpr import all_eqns
from functrax.errors import ArgumentError
from functrax.transforms.differentiation.checkpoint import checkpoint_name
from tests.transforms.numeric import FUNCTIONS, POINT, jacobian, weights

policies = functrax.checkpoint_policies


def block(x: Any) -> Any:
    y = checkpoint_name(jnp.sin(x), "first")
    z = checkpoint_name(jnp.exp(y), "second")
    return jnp.tanh(z)


def names(program: Any) -> list[str]:
    return [e.primitive.name for e in all_eqns(program.jaxpr)]


def backward_program(f: Any, x: Any) -> Any:
    """The program of the backward pass alone; its constants are the residuals."""
    _, pull = functrax.vjp(f, x)
    return functrax.make_jaxpr(pull)(jnp.ones(x.shape))


def residual_count(f: Any) -> int:
    x = jnp.asarray(np.linspace(0.1, 0.9, 5, dtype=np.float32))
    return len([c for c in backward_program(f, x).consts if c.shape == (5,)])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_agree_with_finite_differences(function: Any) -> None:
    f = functrax.checkpoint(lambda x: function(jnp, x))
    ct = weights(function(np, POINT).shape)
    wanted = np.tensordot(ct, jacobian(lambda x: function(np, x), POINT), ct.ndim)
    with functrax.enable_x64():
        np.testing.assert_allclose(np.asarray(f(POINT)), function(np, POINT), rtol=1e-13)
        for g in (functrax.grad(lambda x: jnp.sum(f(x) * ct)),):
            for h in (g, functrax.jit(g)):
                np.testing.assert_allclose(np.asarray(h(POINT)), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("policy", ["nothing_saveable", "everything_saveable", "dots_saveable"])
def test_derivatives_to_order_3(policy: str) -> None:
    f: Any = functrax.checkpoint(
        lambda x: jnp.sin(x) * jnp.exp(x), policy=getattr(policies, policy)
    )
    e, s, c = np.exp(0.4), np.sin(0.4), np.cos(0.4)
    wanted = [e * s, e * (s + c), 2 * e * c, 2 * e * (c - s)]
    with functrax.enable_x64():
        for order in range(4):
            assert float(f(0.4)) == pytest.approx(wanted[order], rel=1e-12)
            assert float(functrax.jit(f)(0.4)) == pytest.approx(wanted[order], rel=1e-12)
            f = functrax.grad(f)


def test_number_of_residuals_by_policy() -> None:
    plain = residual_count(block)
    assert plain >= 3
    assert residual_count(functrax.checkpoint(block)) == 1  # the input alone
    first = policies.save_only_these_names("first")
    assert residual_count(functrax.checkpoint(block, policy=first)) == 2
    both = policies.save_only_these_names("first", "second")
    assert residual_count(functrax.checkpoint(block, policy=both)) == 3
    neither = policies.save_only_these_names("third")
    assert residual_count(functrax.checkpoint(block, policy=neither)) == 1
    but = policies.save_any_names_but_these("first")
    assert residual_count(functrax.checkpoint(block, policy=but)) == 2
    joined = policies.save_from_both_policies(first, policies.save_only_these_names("second"))
    assert residual_count(functrax.checkpoint(block, policy=joined)) == 3
    everything = functrax.checkpoint(block, policy=policies.everything_saveable)
    assert residual_count(everything) >= 2
    x = jnp.ones(5)
    assert "exp" not in names(backward_program(everything, x))
    assert "exp" not in names(backward_program(block, x))


def test_recomputation_is_visible_in_the_program() -> None:
    f = functrax.checkpoint(block)
    program = functrax.make_jaxpr(functrax.value_and_grad(lambda x: jnp.sum(f(x))))(jnp.ones(5))
    assert names(program).count("exp") == 2 and names(program).count("tanh") >= 1
    assert "checkpoint" in [e.primitive.name for e in program.eqns]
    plain = functrax.make_jaxpr(functrax.value_and_grad(lambda x: jnp.sum(block(x))))(jnp.ones(5))
    assert names(plain).count("exp") == 1
    assert "exp" in names(backward_program(f, jnp.ones(5)))


def test_dots_saveable_keeps_contractions_only() -> None:
    w = jnp.asarray(np.eye(5, dtype=np.float32) * 0.3)
    layer = lambda x: jnp.sin(w @ jnp.sin(x))
    kept = backward_program(functrax.checkpoint(layer, policy=policies.dots_saveable), jnp.ones(5))
    assert "cos" in names(kept)
    dropped = backward_program(functrax.checkpoint(layer), jnp.ones(5))
    # With nothing saved the product of w and sin(x) is summed again, in the backward pass.
    assert names(dropped).count("reduce_sum") > names(kept).count("reduce_sum")


def shapes_kept(f: Any, x: Any) -> set[tuple[int, ...]]:
    _, pull = functrax.vjp(f, x)
    return {c.shape for c in functrax.make_jaxpr(pull)(jnp.ones(x.shape)).consts}


def test_what_loops_and_calls_inside_keep_is_computed_again() -> None:
    def loop(x: Any) -> Any:
        return functrax.lax.scan(lambda x, _: (block(x), None), x, length=7)[0]

    x = jnp.asarray(np.linspace(0.1, 0.9, 5, dtype=np.float32))
    assert (7, 5) in shapes_kept(loop, x)
    assert shapes_kept(functrax.checkpoint(loop), x) == {(5,)}
    neither = policies.save_only_these_names("third")
    assert shapes_kept(functrax.checkpoint(loop, policy=neither), x) == {(5,)}
    first = policies.save_only_these_names("first")
    assert (7, 5) in shapes_kept(functrax.checkpoint(loop, policy=first), x)
    call = functrax.checkpoint(functrax.jit(block))
    assert residual_count(call) == 1
    wanted = functrax.grad(lambda x: jnp.sum(loop(x)))(x)
    for g in (functrax.checkpoint(loop), functrax.jit(functrax.checkpoint(loop))):
        found = functrax.grad(lambda x, g=g: jnp.sum(g(x)))(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_parts_of_a_long_scan_keep_one_carry_each() -> None:
    def parts(x: Any) -> Any:
        part = functrax.checkpoint(
            lambda x, _: functrax.lax.scan(lambda x, _: (block(x), None), x, length=7)
        )
        return functrax.lax.scan(part, x, length=11)[0]

    program = functrax.make_jaxpr(functrax.grad(lambda x: jnp.sum(parts(x))))(jnp.ones(5))
    stacked = {v.aval.shape for e in program.eqns for v in e.outvars}
    assert (11, 5) in stacked and (11, 7, 5) not in stacked


def test_effects_of_loops_inside_happen_once(capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: Any, _: Any) -> Any:
        functrax.debug.print("step")
        return jnp.sin(x), None

    f = functrax.checkpoint(lambda x: functrax.lax.scan(step, x, length=3)[0])
    functrax.grad(f)(0.5)
    functrax.effects_barrier()
    assert capsys.readouterr().out == "step\n" * 3


def test_own_policies_see_primitives_types_and_parameters() -> None:
    seen: list[Any] = []

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        seen.append((str(primitive), avals[0].shape, params))
        return str(primitive) == "exp"

    f = functrax.checkpoint(block, policy=policy)
    assert residual_count(f) == 2
    assert ("exp", (5,), {}) in seen
    assert ("name", (5,), {"tag": "second"}) in seen


def test_chain_of_checkpoints_stores_one_value_for_each() -> None:
    def deep(x: Any) -> Any:
        for _ in range(4):
            x = functrax.checkpoint(block)(x)
        return x

    assert residual_count(deep) == 4
    x = np.full(5, 0.3)
    with functrax.enable_x64():
        found = functrax.grad(lambda x: jnp.sum(deep(x)))(x)
    y, slope = x, np.ones(5)
    for _ in range(4):
        z = np.exp(np.sin(y))
        slope = slope * (1 - np.tanh(z) ** 2) * z * np.cos(y)
        y = np.tanh(z)
    np.testing.assert_allclose(np.asarray(found), slope, rtol=1e-12)


def test_under_vmap_and_around_it() -> None:
    f = functrax.checkpoint(block)
    x = np.linspace(0.1, 0.9, 6).reshape(2, 3)
    z = np.exp(np.sin(x))
    wanted = (1 - np.tanh(z) ** 2) * z * np.cos(x)
    per_element = lambda x: functrax.grad(lambda x: jnp.sum(f(x)))(x)
    with functrax.enable_x64():
        for g in (
            functrax.vmap(per_element),
            functrax.jit(functrax.vmap(per_element)),
            functrax.grad(lambda x: jnp.sum(functrax.vmap(f)(x))),
            functrax.grad(lambda x: jnp.sum(functrax.checkpoint(functrax.vmap(f))(x))),
            functrax.grad(functrax.jit(lambda x: jnp.sum(functrax.vmap(functrax.vmap(f))(x)))),
        ):
            np.testing.assert_allclose(np.asarray(g(x)), wanted, rtol=1e-12)


def test_static_arguments_that_cannot_be_hashed() -> None:
    traced = []

    @functools.partial(functrax.checkpoint, static_argnums=(1,))
    def scaled(x: Any, by: list[float]) -> Any:
        traced.append(by)
        return x * by[0]

    three, four = [3.0], [4.0]
    for by in (three, four, three):
        assert functrax.grad(scaled)(2.0, by) == by[0]
        assert functrax.jit(lambda x, by=by: scaled(x, by))(2.0) == 2 * by[0]
    assert traced == [three, four]


def test_static_argnums_pytrees_and_closures() -> None:
    c = jnp.array(2.0)

    @functools.partial(functrax.checkpoint, static_argnums=(1,))
    def f(d: Any, flag: bool) -> Any:
        return {"out": d["x"] * c * d["x"] if flag else d["x"], "none": None}

    g = functrax.grad(lambda d, flag: f(d, flag)["out"])
    assert float(g({"x": 3.0}, True)["x"]) == 12.0
    assert float(g({"x": 3.0}, False)["x"]) == 1.0


def test_closure_over_a_differentiated_value() -> None:
    def outer(y: Any) -> Any:
        return functrax.checkpoint(lambda x: jnp.sin(x * y))(2.0)

    assert float(functrax.grad(outer)(0.5)) == pytest.approx(2 * np.cos(1.0), rel=1e-6)
    assert float(functrax.jit(functrax.grad(outer))(0.5)) == pytest.approx(
        2 * np.cos(1.0), rel=1e-6
    )


def test_forward_mode_does_not_compute_twice() -> None:
    f = functrax.checkpoint(block)
    program = functrax.make_jaxpr(lambda x: functrax.jvp(f, (x,), (x,)))(jnp.ones(5))
    assert names(program).count("exp") == 1


def test_names_and_concrete() -> None:
    assert functrax.remat is functrax.checkpoint
    x = jnp.ones(2)
    np.testing.assert_array_equal(np.asarray(checkpoint_name({"x": x}, "n")["x"]), [1.0, 1.0])
    with pytest.raises(ArgumentError, match="concrete=True is not supported"):
        functrax.checkpoint(block, concrete=True)
    with pytest.raises(ArgumentError, match="checkpoint: the first argument is not a function"):
        functrax.checkpoint(3)


@pytest.mark.parametrize("policy", ["dots", "", 0, False, ["x"]])
def test_a_policy_that_is_no_function_is_refused_at_once(policy: Any) -> None:
    with pytest.raises(ArgumentError, match="checkpoint: the policy is not a function") as caught:
        functrax.checkpoint(block, policy=policy)
    assert caught.value.got.startswith(repr(policy))
    with pytest.raises(ArgumentError, match="the policy is not a function"):
        functrax.checkpoint(policy=policy)
