"""``scan`` against Python loops: values, derivatives, batching, types, errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.config import Override
from functrax.errors import ArgumentError, DTypeError, FunctraxError, PyTreeError, ShapeError
from functrax.tree_util import register_dataclass
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import close, derivatives_agree, same

W = jnp.asarray(np.linspace(-0.5, 0.7, 9).reshape(3, 3).astype("float32"))
H = jnp.asarray(np.array([0.3, -0.2, 0.9], "float32"))
XS = jnp.asarray(np.sin(np.arange(12.0)).reshape(4, 3).astype("float32"))


def rnn(w: Any, h: Any, xs: Any, loop: Any = lax.scan, reverse: bool = False) -> Any:
    def step(h: Any, x: Any) -> Any:
        new = jnp.tanh(w @ h + x)
        return new, new * x[0]

    return loop(step, h, xs, reverse=reverse)


def unrolled_rnn(w: Any, h: Any, xs: Any, reverse: bool = False) -> Any:
    return rnn(w, h, xs, unrolled.scan, reverse)


class Pair(NamedTuple):
    left: Any
    right: Any


@register_dataclass
@dataclass
class State:
    position: Any
    count: Any


def eqn_names(f: Any, *args: Any) -> list[str]:
    return [e.primitive.name for e in functrax.make_jaxpr(f)(*args).jaxpr.eqns]


@pytest.mark.parametrize("reverse", [False, True])
def test_values_and_derivatives_by_constants_carry_and_inputs(reverse: bool) -> None:
    def f(*args: Any) -> Any:
        return rnn(*args, reverse=reverse)

    def g(*args: Any) -> Any:
        return unrolled_rnn(*args, reverse=reverse)

    close(f(W, H, XS), g(W, H, XS))
    derivatives_agree(f, g, (W, H, XS))


def test_jit_is_eager() -> None:
    close(functrax.jit(rnn)(W, H, XS), rnn(W, H, XS), 1e-6)  # sums are added up in other orders


def test_one_equation() -> None:
    assert eqn_names(rnn, W, H, XS) == ["scan"]


@pytest.mark.parametrize(
    "axes",
    [
        (a, b, c)
        for a in (None, 0)
        for b in (None, 0)
        for c in (None, 0)
        if (a, b, c) != (None,) * 3
    ],
)
def test_vmap(axes: tuple[int | None, ...]) -> None:
    args = tuple(
        x if axis is None else jnp.stack([x, 0.5 * x, x - 0.1])
        for x, axis in zip((W, H, XS), axes, strict=True)
    )

    def looped(f: Any) -> Any:
        outs = [
            f(*(x if a is None else x[i] for x, a in zip(args, axes, strict=True)))
            for i in range(3)
        ]
        return functrax.tree.map(lambda *ys: jnp.stack(ys), *outs)

    close(functrax.vmap(rnn, axes)(*args), looped(unrolled_rnn))
    gradient = functrax.grad(unrolled.summed(rnn), (0, 1, 2))
    wanted = functrax.grad(unrolled.summed(unrolled_rnn), (0, 1, 2))
    close(functrax.vmap(gradient, axes)(*args), looped(wanted), 1e-4)


def test_vmap_of_an_inner_axis() -> None:
    got = functrax.vmap(lambda xs: rnn(W, H, xs), 1, 1)(jnp.stack([XS, XS * 2], 1))
    want = [rnn(W, H, XS), rnn(W, H, XS * 2)]
    close(got, functrax.tree.map(lambda a, b: jnp.stack([a, b], 1), *want))


def test_carry_that_becomes_batched_and_differentiable_steps_later() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: ((x, c[0], c[1]), c[2]), (1.0, 2.0, 3.0), None, length=5)

    def g(x: Any) -> Any:
        init = (jnp.float32(1), jnp.float32(2), jnp.float32(3))
        return unrolled.scan(lambda c, _: ((x, c[0], c[1]), c[2]), init, None, length=5)

    x = jnp.float32(7)
    close(f(x), g(x))
    derivatives_agree(f, g, (x,))
    close(functrax.vmap(f)(x * jnp.arange(3.0))[1][1], g(x)[1])


@pytest.mark.parametrize("reverse", [False, True])
def test_no_steps(reverse: bool) -> None:
    def f(w: Any, h: Any, xs: Any) -> Any:
        return rnn(w, h, xs, reverse=reverse)

    last, ys = f(W, H, XS[:0])
    same(last, H)
    assert ys.shape == (0, 3)
    gw, gh, gx = functrax.grad(unrolled.summed(f), (0, 1, 2))(W, H, XS[:0])
    same(gw, jnp.zeros((3, 3)))
    close(gh, jnp.cos(1.0 + jnp.arange(3.0)))
    assert gx.shape == (0, 3)


def test_empty_pytrees() -> None:
    assert lax.scan(lambda c, x: (c, None), (), None, length=3) == ((), None)
    carry, ys = lax.scan(lambda c, x: ({}, x), {}, XS)
    assert carry == {}
    same(ys, XS)
    carry, none = lax.scan(lambda c, x: (c + x["a"], None), H, {"a": XS, "b": None})
    assert none is None
    close(carry, H + XS.sum(0))


def test_integer_carry_beside_a_differentiable_one() -> None:
    def step(c: Any, x: Any) -> Any:
        i, h = c
        return (i + 1, jnp.sin(h * x) + i.astype("float32")), (i, h)

    def f(h: Any, xs: Any) -> Any:
        return lax.scan(step, (jnp.int32(0), h), xs)

    def g(h: Any, xs: Any) -> Any:
        return unrolled.scan(step, (jnp.int32(0), h), xs)

    close(f(H, XS), g(H, XS))
    derivatives_agree(f, g, (H, XS))


def test_transpose_of_a_scan_with_a_counter() -> None:
    def f(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            i, total = c
            return (i + 1, total + x * i.astype("float32")), 2.0 * total

        return lax.scan(step, (jnp.int32(0), jnp.zeros(3)), xs)

    def linear(xs: Any) -> Any:
        (_, total), ys = f(xs)
        return total, ys

    (got,) = functrax.linear_transpose(linear, XS)((H, XS + 1))
    want = functrax.vjp(linear, XS)[1]((H, XS + 1))[0]
    close(got, want)


def test_pytrees() -> None:
    def step(c: Any, x: Any) -> Any:
        new = Pair(c["s"].left * x.right, c["s"].right + x.left)
        state = State(c["p"].position + new.left, c["p"].count + 1)
        return {"s": new, "p": state}, [new.left, {"r": new.right}]

    init = {"s": Pair(H, 1.0), "p": State(jnp.zeros(3), 0)}
    settled = {"s": Pair(H, jnp.ones(())), "p": State(jnp.zeros(3), jnp.int32(0))}
    xs = Pair(jnp.arange(4.0), XS)
    got, want = lax.scan(step, init, xs), unrolled.scan(step, settled, xs)
    assert type(got[0]["s"]) is Pair
    assert type(got[0]["p"]) is State
    close(got, want)
    derivatives_agree(
        lambda x: lax.scan(step, init, x), lambda x: unrolled.scan(step, settled, x), (xs,)
    )


def test_list_for_the_pair_and_numpy_inputs() -> None:
    carry, ys = lax.scan(lambda c, x: [c + x, x], 0.0, np.arange(4.0, dtype="float32"))
    assert float(carry) == 6.0
    same(ys, jnp.arange(4.0))


def test_weak_types_settle() -> None:
    assert lax.scan(lambda c, x: (c + x, None), 0, XS[:, 0])[0].dtype == jnp.float32
    half = lax.scan(lambda c, x: (c * x, c), 1.0, XS[:, 0].astype("bfloat16"))
    assert half[0].dtype == half[1].dtype == jnp.bfloat16
    stays = lax.scan(lambda c, _: (c + 1, c), 0, None, length=3)
    assert stays[0].dtype == jnp.int32
    assert stays[0].weak_type
    changed = lax.scan(lambda c, _: (c + 1.0, None), 0, None, length=3)[0]
    assert changed.dtype == jnp.float32
    assert not changed.weak_type
    # A weak carry that keeps its dtype is weak where the body makes it so, as in JAX.
    chain = lax.scan(lambda c, x: ((c[1], c[2], x), None), (0.0, 0.0, 0.0), XS[:, 0])[0]
    assert [a.weak_type for a in chain] == [True, True, False]
    mixed = lax.scan(lambda c, x: ((c[1], c[1] * x), None), (0, 1.0), XS[:, 0].astype("float16"))[0]
    assert [a.dtype for a in mixed] == [jnp.float16] * 2


def test_bfloat16() -> None:
    args = tuple(x.astype("bfloat16") for x in (W, H, XS))
    close(rnn(*args), unrolled_rnn(*args), 2e-2)
    got = functrax.grad(unrolled.summed(rnn), (0, 1, 2))(*args)
    want = functrax.grad(unrolled.summed(unrolled_rnn), (0, 1, 2))(*args)
    assert all(g.dtype == jnp.bfloat16 for g in got)
    close(got, want, 6e-2)


@Override("strict", True)
def test_keys_as_carries_inputs_and_results() -> None:
    def step(key: Any, _: Any) -> Any:
        key, sub = functrax.random.split(key)
        return key, (functrax.random.normal(sub, (2,)), sub)

    key = functrax.random.key(0)
    last, (draws, keys) = lax.scan(step, key, None, length=3)
    carry, wanted = key, []
    for _ in range(3):
        carry, (draw, _) = step(carry, None)
        wanted.append(draw)
    same(draws, jnp.stack(wanted))
    same(functrax.random.key_data(last), functrax.random.key_data(carry))
    assert keys.shape == (3,)
    again = lax.scan(lambda c, k: (c, functrax.random.normal(k, (2,))), (), keys)[1]
    same(again, draws)


@pytest.mark.parametrize("unroll", [True, 0, 2, 3, 100])
@pytest.mark.parametrize("reverse", [False, True])
def test_unroll(unroll: Any, reverse: bool) -> None:
    def step(w: Any, h: Any, x: Any) -> Any:
        return jnp.tanh(w @ h + x), h * x

    def f(w: Any, h: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: step(w, h, x), h, xs, reverse=reverse, unroll=unroll)

    def g(w: Any, h: Any, xs: Any) -> Any:
        return unrolled.scan(lambda h, x: step(w, h, x), h, xs, reverse=reverse)

    close(f(W, H, XS), g(W, H, XS))
    derivatives_agree(f, g, (W, H, XS))


def backward_scan(f: Any, *args: Any) -> tuple[Any, Any]:
    """The forward and the backward scan of a gradient."""
    jaxpr = functrax.make_jaxpr(functrax.value_and_grad(unrolled.summed(f)))(*args).jaxpr
    first, second = [e for e in all_eqns(jaxpr) if e.primitive.name == "scan"]
    return first, second


def num_stacked(eqn: Any) -> int:
    return len(eqn.invars) - eqn.params["num_consts"] - eqn.params["num_carry"]


def num_results(eqn: Any) -> int:
    return len(eqn.outvars) - eqn.params["num_carry"]


def test_inputs_are_not_stacked_again() -> None:
    def f(h: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (h * x, None), h, xs)[0]

    forward, backward = backward_scan(f, H, XS)
    assert num_results(forward) == 0
    assert num_stacked(backward) == 1


def test_what_does_not_change_is_not_stacked() -> None:
    def f(h: Any, w: Any) -> Any:
        return lax.scan(lambda h, _: (h * jnp.exp(w), None), h, None, length=4)[0]

    forward, _ = backward_scan(f, H, H)
    assert num_results(forward) == 0


def test_what_is_cheap_is_computed_again() -> None:
    def f(h: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            t = jnp.tanh(h)
            return t * (1.0 - t) * (2.0 + t), None

        return lax.scan(step, h, None, length=4)[0]

    forward, _ = backward_scan(f, H)
    assert num_results(forward) == 1  # tanh alone


def test_results_are_not_stacked_twice() -> None:
    def f(h: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            t = jnp.tanh(h)
            return t, t

        return lax.scan(step, h, None, length=4)

    forward, _ = backward_scan(f, H)
    assert num_results(forward) == 1


def test_a_slice_of_a_carry_is_kept_and_not_the_carry() -> None:
    def f(h: Any, b: Any) -> Any:
        return lax.scan(lambda h, _: (h * b + h[0] * h[1], None), h, None, length=4)[0]

    jaxpr = functrax.make_jaxpr(functrax.value_and_grad(unrolled.summed(f)))(jnp.ones(100), H[0])
    forward = next(e for e in jaxpr.jaxpr.eqns if e.primitive.name == "scan")
    assert sum(v.aval.size for v in forward.outvars[1:]) == 4 * 2


def test_large_invariant_values_stay_in_the_body() -> None:
    def f(h: Any, w: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            return jnp.sum(w[:, None] * w[None, :] * h[None, :], axis=1) + jnp.sin(w), None

        return lax.scan(step, h, None, length=3)[0]

    args = (H, H + 1.0)
    jaxpr = functrax.make_jaxpr(functrax.value_and_grad(unrolled.summed(f)))(*args).jaxpr
    outside = {v.aval.shape for e in jaxpr.eqns for v in e.outvars}
    assert (3, 3) not in outside
    assert "sin" in [e.primitive.name for e in jaxpr.eqns]
    derivatives_agree(f, unrolled_f, args)


def unrolled_f(h: Any, w: Any) -> Any:
    for _ in range(3):
        h = jnp.sum(w[:, None] * w[None, :] * h[None, :], axis=1) + jnp.sin(w)
    return h


def test_cheap_values_of_two_dear_ones_are_kept_themselves() -> None:
    def f(h: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            s = jnp.sum(h[None] * W, 1) + jnp.prod(h[None] + W, 1)
            return s * s, None

        return lax.scan(step, h, None, length=3)[0]

    def g(h: Any) -> Any:
        for _ in range(3):
            s = jnp.sum(h[None] * W, 1) + jnp.prod(h[None] + W, 1)
            h = s * s
        return h

    derivatives_agree(f, g, (H,), 2e-3)


ERRORS: list[tuple[Any, type[FunctraxError], list[str]]] = [
    (
        lambda: lax.scan(lambda c, x: (c[:2], None), H, None, length=2),
        ShapeError,
        ["carry was f32[3] and becomes f32[2]"],
    ),
    (
        lambda: lax.scan(
            lambda c, x: ({"a": (c["a"][0], c["a"][1][0])}, None), {"a": (H, W)}, None, length=2
        ),
        ShapeError,
        ["carry['a'][1] was f32[3,3] and becomes f32[3]"],
    ),
    (
        lambda: lax.scan(lambda c, x: (c + x, None), jnp.int32(0), XS[:, 0]),
        DTypeError,
        ["carry was i32[] and becomes f32[]", "try   start"],
    ),
    (
        lambda: lax.scan(lambda c, x: ([c], None), H, XS),
        PyTreeError,
        ["another structure", "given PyTreeDef(*), returned PyTreeDef([*])"],
    ),
    (lambda: lax.scan(lambda c, x: c, H, XS), PyTreeError, ["does not return a pair"]),
    (lambda: lax.scan(lambda c, x: (c, x), H, (XS, XS[:2])), ShapeError, ["f32[4,3], f32[2,3]"]),
    (lambda: lax.scan(lambda c, x: (c, x), H, XS, length=3), ShapeError, ["length=3"]),
    (lambda: lax.scan(lambda c, x: (c, x), H, 1.0), ShapeError, ["no leading axis"]),
    (lambda: lax.scan(lambda c, x: (c, x), H, None), ArgumentError, ["how many steps"]),
    (lambda: lax.scan(lambda c, x: (c, x), H, None, length=-1), ArgumentError, ["-1"]),
    (lambda: lax.scan(lambda c, x: (c, x), H, XS, unroll=-1), ArgumentError, ["`unroll` must be"]),
    (lambda: lax.scan(3, H, XS), ArgumentError, ["not a function"]),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case: int) -> None:
    call, kind, texts = ERRORS[case]
    with pytest.raises(kind) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)
