"""The pass that takes out of loops what needs not be in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.passes.clean.split_loops import split_loops
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.syntax.verify import verify
from functrax.transforms.interpreters.call import run_jaxpr


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with fx.backend("interp"):
        yield


def data(*shape: int, seed: int = 0) -> Any:
    return (0.3 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def split(function: Any, *args: Any) -> tuple[Jaxpr, int]:
    """The program after the pass, which gives the same results, and the number of rewrites."""
    before = fx.make_jaxpr(function)(*args).jaxpr
    flat = [np.asarray(x) for x in fx.tree_util.tree_leaves(args)]
    rewrites = Rewrites()
    after = split_loops(before, rewrites)
    verify(after)
    for x, y in zip(run_jaxpr(before, flat), run_jaxpr(after, flat), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-4, atol=1e-4)
    return after, rewrites.count


def body_of(jaxpr: Jaxpr) -> Any:
    (loop,) = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    return loop


def names(jaxpr: Jaxpr) -> list[str]:
    return [e.primitive.name for e in jaxpr.eqns]


W, U, XS, H = data(9, 9), data(9, 9, seed=1), data(6, 9, seed=2), data(9, seed=3)


def rnn(w: Any, u: Any, xs: Any, h: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x @ u)
        return h, h

    return lax.scan(step, h, xs)


def test_products_of_inputs_come_before_the_loop() -> None:
    after, _ = split(rnn, W, U, XS, H)
    inside = body_of(after).params["jaxpr"]
    assert names(inside).count("reduce_sum") == 1
    assert names(after)[-1] == "scan" and "reduce_sum" in names(after)


def test_sums_and_stacked_products_come_after_it() -> None:
    def loss(*args: Any) -> Any:
        return jnp.sum(rnn(*args)[1] ** 2)

    after, _ = split(fx.grad(loss, argnums=(0, 1, 2, 3)), W, U, XS, H)
    backward = [e for e in after.eqns if e.primitive.name == "scan"][1]
    assert backward.params["num_carry"] == 1
    assert names(backward.params["jaxpr"]).count("reduce_sum") == 1


BODIES = {
    "the carry is read": lambda w, c, x: (c + jnp.outer(x, x) * c[0, 0], x),
    "the sum is a result": lambda w, c, x: ((n := c + jnp.outer(x, x)), n[0]),
    "added to itself": lambda w, c, x: (c + c, x),
    "the other side": lambda w, c, x: (jnp.outer(x, jnp.sin(x)) + c, x),
    "a transpose of a product": lambda w, c, x: (c + jnp.outer(x, jnp.exp(x)).T, x),
    "a shifted product": lambda w, c, x: (c + jnp.roll(jnp.outer(x, x), 1, 0), x),
    "a product of products": lambda w, c, x: (c + jnp.outer(w @ x, w.T @ x), x @ w),
    "a constant": lambda w, c, x: (c + w, x),
    "a slice of the inputs": lambda w, c, x: (c + jnp.outer(x, w[0]), jnp.max(w * x, axis=1)),
    "the largest": lambda w, c, x: (jnp.maximum(c, jnp.outer(x, x)), jnp.sum(w + x)),
    "a sum that is stacked": lambda w, c, x: (c * 0.5 + x, jnp.sum(w * c[0], axis=1)),
    "a sum of what is carried": lambda w, c, x: (jnp.sin(c) @ w, jnp.sum(c * w, axis=(0, 1))),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str, reverse: bool) -> None:
    body = BODIES[name]

    def run(w: Any, c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: body(w, c, x), c, xs, reverse=reverse)

    split(run, W, U, XS)
    split(fx.grad(lambda *args: jnp.sum(run(*args)[0]), argnums=(0, 1, 2)), W, U, XS)

    def two(w: Any, c: Any, xs: Any) -> Any:  # a loop in a loop
        return lax.scan(lambda c, x: (run(w, c, xs * x[0])[0], x), c, xs)

    split(two, W, U, XS)


def test_what_only_scalars_gain_stays() -> None:
    _, count = split(lambda xs: lax.scan(lambda c, x: (c + x, c), 0.0, xs), data(20))
    assert count == 0


def test_effects_stay_in_order() -> None:
    def run(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            fx.debug.callback(lambda _: None, x[0])
            return c + jnp.outer(x, x), None

        return lax.scan(step, jnp.zeros((9, 9)), xs)[0]

    jaxpr = fx.make_jaxpr(run)(XS).jaxpr
    assert split_loops(jaxpr, Rewrites()) is jaxpr
