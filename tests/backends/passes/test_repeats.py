"""Contractions of repeated arrays, and sums of their neighbours, take fewer products."""

from __future__ import annotations

import math

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.cse import cse
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.contractions import repeats as module
from functrax.backends.passes.contractions.recognise import recognise
from functrax.backends.passes.contractions.repeats import repeats
from functrax.backends.passes.fusion.kernel_groups import moved_ns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    """Programs of tests are small, and sums of neighbours always worth it."""
    monkeypatch.setattr(module, "LOOPED", 0)
    monkeypatch.setattr(module, "moved_ns", lambda values: 0.0)


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def enlarged(x, r):
    return jnp.repeat(jnp.repeat(x, r, axis=2), r, axis=3)


def convolution(x, w, pad, stride=1):
    return lax.conv_general_dilated(x, w, (stride, stride), ((pad, pad), (pad, pad)))


def products(jaxpr):
    """How many products the contractions of a program take."""
    return sum(
        math.prod(e.params["jaxpr"].eqns[k].outvars[0].aval.shape)
        for e in jaxpr.eqns
        if e.primitive.name == "contraction"
        for k, inner in enumerate(e.params["jaxpr"].eqns)
        if inner.primitive.name == "mul"
    )


def fewer(function, *args, limit=None):
    """The numbers of products before and after; both programs give the same."""
    jaxpr = inline(close(functrax.make_jaxpr(function)(*args).jaxpr), Rewrites())
    before = jaxpr
    for run in (compose, cse, recognise, dce):
        before = run(before, Rewrites())
    after = dce(repeats(before, Rewrites(limit)), Rewrites())
    verify(after)
    values = check.draw(before)
    found, wanted, plain = (check.run_reference(j, values) for j in (after, before, jaxpr))
    for x, y, z in zip(found, wanted, plain, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(x, z, rtol=1e-5, atol=1e-4)
    return products(before), products(after)


def gradient(function, k):
    """The derivative by operand ``k`` times the last argument."""

    def run(*args):
        *operands, ct = args

        def of_one(x):
            return function(*operands[:k], x, *operands[k + 1 :])

        return functrax.vjp(of_one, operands[k])[1](ct)[0]

    return run


@pytest.mark.parametrize(
    ("r", "taps", "pad", "forward"),
    [(2, 3, 1, 4 / 9), (2, 5, 2, 9 / 25), (2, 3, 0, 4 / 9), (2, 3, 2, 4 / 9), (3, 3, 1, 1),
     (3, 4, 3, 4 / 16), (4, 3, 1, 1), (2, 4, 2, 1), (2, 2, 0, 1)],
)  # fmt: skip
def test_a_convolution_of_an_enlarged_image(r, taps, pad, forward):
    """The result near each element, the gradients once for each element."""

    def f(x, w):
        return convolution(enlarged(x, r), w, pad)

    x, w = array(2, 3, 4, 5), array(4, 3, taps, taps, seed=1)
    ct = array(*functrax.eval_shape(f, x, w).shape, seed=2)
    even = ct.shape[2] % r == ct.shape[3] % r == 0
    before, after = fewer(f, x, w)
    assert after / before == pytest.approx(forward if even else 1)
    before, after = fewer(gradient(f, 0), x, w, ct)
    assert after / before == pytest.approx(1 / r**2)
    before, after = fewer(gradient(f, 1), x, w, ct)
    if ct.shape[2] > x.shape[2] and ct.shape[3] > x.shape[3]:
        assert after / before < 1
    assert after <= before


def test_a_gradient_of_weights_takes_one_product_for_each_element():
    def f(x, w):
        return convolution(enlarged(x, 2), w, 1)

    x, w, ct = array(2, 3, 4, 6), array(4, 3, 3, 3), array(2, 4, 8, 12)
    assert fewer(gradient(f, 1), x, w, ct) == (2 * 4 * 96 * 3 * 9, 2 * 4 * 24 * 3 * 9)


def test_what_both_gradients_read_is_added_up_once():
    def f(x, w, ct):
        return functrax.vjp(lambda x, w: convolution(enlarged(x, 2), w, 1), x, w)[1](ct)

    x, w, ct = array(2, 3, 4, 6), array(4, 3, 3, 3), array(2, 4, 8, 12)
    jaxpr = inline(close(functrax.make_jaxpr(f)(x, w, ct).jaxpr), Rewrites())
    for run in (compose, cse, recognise, repeats, dce):
        jaxpr = run(jaxpr, Rewrites())
    assert sum(e.primitive.name == "add" for e in jaxpr.eqns) == 2
    fewer(f, x, w, ct)


def test_one_axis_is_repeated():
    def f(x, w):
        return convolution(jnp.repeat(x, 2, axis=3), w, 1)

    x, w = array(2, 3, 5, 4), array(4, 3, 3, 3)
    before, after = fewer(f, x, w)
    assert after * 3 == before * 2
    before, after = fewer(gradient(f, 0), x, w, array(2, 4, 5, 8))
    assert after * 2 == before


def test_an_image_that_is_enlarged_by_a_broadcast():
    def f(x, w):
        n, c, h, k = x.shape
        large = jnp.broadcast_to(x[:, :, :, None, :, None], (n, c, h, 2, k, 2))
        return convolution(large.reshape(n, c, 2 * h, 2 * k), w, 1)

    x, w = array(2, 3, 4, 6), array(4, 3, 3, 3)
    before, after = fewer(f, x, w)
    assert after * 9 == before * 4
    before, after = fewer(gradient(f, 0), x, w, array(2, 4, 8, 12))
    assert after * 4 == before


def test_the_mean_of_neighbours_behind_a_convolution():
    def f(x, w):
        y = convolution(x, w, 1)
        n, c, h, k = y.shape
        return y.reshape(n, c, h // 2, 2, k // 3, 3).sum((3, 5)) / 6

    before, after = fewer(f, array(2, 3, 8, 6), array(4, 3, 3, 3))
    assert after * 6 == before


def test_sums_of_neighbours_of_a_matrix_product():
    def f(x, y):
        return (x @ y).reshape(6, 2, 9).sum(1)

    before, after = fewer(f, array(12, 7), array(7, 9))
    assert after * 2 == before


def test_a_repeated_sequence():
    """Along the summed axis of a product, and in one dimension."""

    def f(x, y):
        return jnp.einsum("bti,btj->ij", jnp.repeat(x, 4, axis=1), y)

    before, after = fewer(f, array(3, 5, 6), array(3, 20, 7))
    assert after * 4 == before


@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: convolution(enlarged(x, 2), w, 1, stride=2),
        lambda x, w: (lambda y: (y, y.reshape(2, 4, 4, 2, 10).sum(3)))(convolution(x, w, 1)),
        lambda x, w: convolution(x, w, 1).reshape(2, 4, 2, 4, 10).sum(2),
        lambda x, w: jnp.tanh(convolution(x, w, 1)).reshape(2, 4, 4, 2, 10).sum(3),
        lambda x, w: convolution(jnp.tile(x, (1, 1, 2, 1)), w, 1),
    ],
    ids=["a stride", "another use", "no neighbours", "not linear", "tiles"],
)
def test_what_stays(f):
    before, after = fewer(f, array(2, 3, 8, 10), array(4, 3, 3, 3))
    assert before == after > 0


def test_nothing_is_rewritten_beyond_the_limit():
    def f(x, w):
        return convolution(enlarged(x, 2), w, 1)

    before, after = fewer(f, array(2, 3, 4, 6), array(4, 3, 3, 3), limit=0)
    assert before == after


def large():
    """An enlarged image's convolution and both gradients, and arrays that pay for the rewrite."""

    def f(x, w, ct):
        y, back = functrax.vjp(lambda x, w: convolution(enlarged(x, 2), w, 1), x, w)
        return y, *back(ct)

    return f, (array(4, 16, 8, 6), array(16, 16, 3, 3), array(4, 16, 16, 12))


def test_compiled_programs_give_the_same():
    f, args = large()
    with functrax.backend("interp"):
        wanted = f(*args)
    compiled = functrax.explain(f)(*args)
    assert next(p.rewrites for p in compiled.passes if p.name == "repeats") == 4
    for x, y in zip(functrax.jit(f)(*args), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-3)


def test_infinities_meet_what_they_met_before():
    """An element reaches the results beside it, and no others."""
    f, (x, w, ct) = large()
    x[1, 2, 3, 4], x[2, 5, 0, 0] = np.inf, np.nan
    ct[3, 1, 4, 4] = np.inf
    with functrax.backend("interp"):
        wanted = f(x, w, ct)
    for found, y in zip(functrax.jit(f)(x, w, ct), wanted, strict=True):
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(y))


def test_small_sums_stay(monkeypatch):
    monkeypatch.setattr(module, "moved_ns", moved_ns)
    x, w = array(2, 1, 4, 6), array(1, 1, 3, 3)
    before, after = fewer(gradient(lambda x, w: convolution(enlarged(x, 2), w, 1), 0), x, w,
                          array(2, 1, 8, 12))  # fmt: skip
    assert before == after
