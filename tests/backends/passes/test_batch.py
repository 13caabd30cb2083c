"""Products that share an operand become one product."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.contractions.batch import MIN_PRODUCTS, batch
from functrax.backends.passes.contractions.recognise import recognise
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def products(function, *args, limit=None, composed=False):
    """The program before and after, with contractions as groups; both give the same values.

    If it is composed, as in the pipeline, what slices is a part of the groups.
    """
    jaxpr = inline(close(functrax.make_jaxpr(function)(*args).jaxpr), Rewrites())
    jaxpr = compose(jaxpr, Rewrites()) if composed else jaxpr
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


@pytest.mark.parametrize("composed", [False, True])
def test_steps_of_one_array(composed):
    def f(params, xs):
        return lstm(params, [xs[k] for k in range(10)])

    before, after = products(f, PARAMS, array(10, 8, 24), composed=composed)
    assert count(before) - count(after) == 9


@pytest.mark.parametrize(
    "order", [range(10), range(9, -1, -1), range(0, 10, 2), [4, 4, 5, 6, 7], [9, 6, 3, 0]]
)
def test_steps_are_a_dimension_of_the_map(order):
    """They are not copied, so together they may be larger than the weights."""
    _, after = products(
        lambda w, xs: [jnp.tanh(xs[k] @ w) for k in order],
        array(24, 64), array(10, 32, 24),
        composed=True,
    )  # fmt: skip
    assert count(after) == 1 and count(after, "concatenate") == 0
    product = next(eqn for eqn in after.eqns if eqn.primitive.name == "contraction")
    assert product.outvars[0].aval.shape == (len(set(order)), 32, 64)


@pytest.mark.parametrize("axis", [0, 1])
def test_windows_that_overlap_are_steps(axis):
    def f(w, x):
        windows = [lax.slice_in_dim(x, k, k + 16, axis=axis) for k in range(0, 15, 3)]
        return [(v.T if axis == 0 else v) @ w for v in windows]

    _, after = products(f, array(16, 64), array(32, 32), composed=True)
    assert count(after) == 1


def test_parts_of_arrays_of_different_sizes_are_not_stacked():
    before, after = products(
        lambda w, xs: [x[:8].T @ w for x in xs],
        array(8, 64), [array(8 + k, 16) for k in range(4)],
        composed=True,
    )  # fmt: skip
    assert count(before) == count(after) == 4


def test_places_without_a_stride_are_no_steps():
    before, after = products(
        lambda w, xs: [xs[k] @ w for k in (0, 1, 3, 4, 9)],
        array(24, 128), array(10, 8, 24),
        composed=True,
    )  # fmt: skip
    assert count(before) == count(after) == 5


def test_steps_that_wait_for_each_other_stay():
    def f(w, xs):
        y = xs[0] @ w
        for k in range(1, 6):
            y = (xs[k] + y) @ w
        return y

    before, after = products(f, array(64, 64), array(6, 8, 64), composed=True)
    assert count(before) == count(after) == 6


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
