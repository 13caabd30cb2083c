"""Products that share an operand become one product."""

from __future__ import annotations

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax.backends.passes.batch import MIN_PRODUCTS, batch
from functrax.backends.passes.dce import dce
from functrax.backends.passes.inline import inline
from functrax.backends.passes.recognise import recognise
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.stage import close
from functrax.core.verify import verify
from tests.backends.passes import pass_checks as check


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def products(function, *args, limit=None):
    """The program before and after, with contractions as groups; both give the same values."""
    jaxpr = inline(close(functrax.make_jaxpr(function)(*args).jaxpr), Rewrites())
    before = dce(recognise(jaxpr, Rewrites()), Rewrites())
    after = batch(before, Rewrites(limit))
    verify(after)
    values = check.draw(before)
    found, wanted = (check.run_reference(j, values) for j in (after, before))
    assert check.nearly_equal(found, wanted)
    return before, after


def count(jaxpr, name="contraction"):
    return sum(eqn.primitive.name == name for eqn in jaxpr.eqns)


def lstm(params, xs):
    """An unrolled recurrent network; gates of width 32."""
    w, u, b = params
    h = c = jnp.zeros((8, 32))
    for x in xs:
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = functrax.nn.sigmoid(f) * c + functrax.nn.sigmoid(i) * jnp.tanh(g)
        h = functrax.nn.sigmoid(o) * jnp.tanh(c)
    return h


PARAMS = (array(24, 128), array(32, 128, seed=1), array(128, seed=2))
STEPS = [array(8, 24, seed=k) for k in range(10)]


def test_the_input_products_of_ten_steps_become_one():
    before, after = products(lstm, PARAMS, STEPS)
    assert count(before) == 20
    assert count(after) == 1 + 10
    first = next(eqn for eqn in after.eqns if eqn.primitive.name == "contraction")
    assert first.outvars[0].aval.shape == (10, 8, 128)


def test_steps_of_one_array():
    _, after = products(lambda p, xs: lstm(p, [xs[k] for k in range(10)]), PARAMS, array(10, 8, 24))
    assert count(after) == 11


def test_products_that_depend_on_each_other_stay():
    def power(x, w):
        for _ in range(6):
            x = jnp.tanh(x @ w)
        return x

    before, after = products(power, array(32, 32), array(32, 32))
    assert before is after


def test_few_products_stay():
    few = [array(8, 32, seed=k) for k in range(MIN_PRODUCTS - 1)]
    before, after = products(lambda w, xs: [x @ w for x in xs], array(32, 64), few)
    assert before is after


def test_large_operands_are_not_copied():
    large = [array(256, 32, seed=k) for k in range(6)]
    before, after = products(lambda w, xs: [x @ w for x in xs], array(32, 64), large)
    assert before is after


def test_programs_with_side_effects_stay():
    def f(w, xs):
        functrax.debug.print("{}", xs[0][0, 0])
        return [x @ w for x in xs]

    jaxpr = inline(close(functrax.make_jaxpr(f)(PARAMS[0], STEPS).jaxpr), Rewrites())
    before = dce(recognise(jaxpr, Rewrites()), Rewrites())
    assert count(before) == 10
    assert batch(before, Rewrites()) is before


def test_the_limit():
    before, after = products(lstm, PARAMS, STEPS, limit=0)
    assert before is after
