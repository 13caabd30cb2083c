"""Products that are added up become one product over more steps."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.contractions.added_products import join
from functrax.backends.passes.contractions.batch import batch
from functrax.backends.passes.contractions.orientation import orient
from functrax.backends.passes.contractions.recognise import recognise
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.options.config import Override
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def products(function, *args, limit=None):
    """The program before and after, with contractions as groups; both give the same values."""
    jaxpr = inline(close(functrax.make_jaxpr(function)(*args).jaxpr), Rewrites())
    before = jaxpr
    for run in (compose, recognise, dce, batch, orient):
        before = run(before, Rewrites())
    after = dce(join(before, Rewrites(limit)), Rewrites())
    verify(before)
    verify(after)
    values = check.draw(before)
    found, wanted, plain = (check.run_reference(j, values) for j in (after, before, jaxpr))
    for x, y, z in zip(found, wanted, plain, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(x, z, rtol=1e-5, atol=1e-4)
    return before, after


def count(jaxpr, name="contraction"):
    return sum(eqn.primitive.name == name for eqn in jaxpr.eqns)


def test_two_products_become_one():
    before, after = products(
        lambda a, b, c, d: a @ b + c @ d,
        array(64, 8),
        array(8, 96),
        array(64, 5, seed=1),
        array(5, 96, seed=2),
    )
    assert count(before) == 2
    assert count(after) == 1
    (eqn,) = [e for e in after.eqns if e.primitive.name == "contraction"]
    assert [x.aval.shape for x in eqn.invars] == [(64, 13), (13, 96)]
    assert "add" not in [e.primitive.name for e in after.eqns]


def test_operands_that_lie_across_are_turned():
    """Of one term the left side is transposed, of the other the right one, and sides change."""
    before, after = products(
        lambda a, b, c, d, e: (a.T @ b + e) + (d @ c.T).T * 2,
        array(8, 64),
        array(8, 96),
        array(64, 4),
        array(96, 4),
        array(64, 96),
    )
    assert count(before) == 2
    # the factor is applied to a product, which is no term then
    assert count(after) == 2
    before, after = products(
        lambda a, b, c, d, e: (a.T @ b + e) + (d @ c.T).T,
        array(8, 64),
        array(8, 96),
        array(64, 4),
        array(96, 4),
        array(64, 96),
    )
    assert (count(before), count(after)) == (2, 1)
    assert count(after, "add") == 1


def test_products_with_a_batch_are_joined():
    def f(a, b, c, d):
        return jnp.einsum("bik,bkj->bij", a, b) + jnp.einsum("bik,bjk->bij", c, d)

    _, after = products(f, array(3, 40, 4), array(3, 4, 40), array(3, 40, 5), array(3, 40, 5))
    assert count(after) == 1


@pytest.mark.parametrize("why", ["large operands", "another use", "one is a result", "batch"])
def test_what_stays(why):
    a, b, c, d = array(64, 8), array(8, 96), array(64, 5), array(5, 96)
    if why == "large operands":
        a, b = array(64, 500), array(500, 96)
        functions = [lambda a, b, c, d: a @ b + c @ d]
    elif why == "another use":
        functions = [lambda a, b, c, d: (a @ b + c @ d) * jnp.tanh(a @ b)]
    elif why == "one is a result":
        functions = [lambda a, b, c, d: (lambda x: (x + c @ d, x))(a @ b)]
    else:  # of one product both sides have the first axis
        z = array(96, 64, 5)
        functions = [lambda a, b, c, d: a @ b + jnp.einsum("ikl,jik->ij", jnp.stack([c, c], 2), z)]
    for f in functions:
        before, after = products(f, a, b, c, d)
        assert count(before) == count(after) >= 1


def test_the_gradient_of_a_weight_that_is_used_three_times_is_one_product():
    def loss(w, x, y, z):
        def net(v):
            return jnp.sum(jnp.tanh(v @ w) ** 2)

        return net(x) - net(y) + 2 * net(z)

    args = [array(96, 80), *(array(8, 96, seed=k) for k in range(3))]
    before, after = products(functrax.grad(loss), *args)
    assert (count(before), count(after)) == (6, 4)


def test_a_limit_of_rewrites_is_kept():
    def f(a, b, c, d):
        return a @ b + c @ d, a @ b * 2 + c @ d

    args = array(64, 8), array(8, 96), array(64, 5), array(5, 96)
    assert count(products(lambda *x: f(*x)[0], *args, limit=0)[1]) == 2


def test_sums_inside_loops_are_joined():
    def f(a, b, c, d):
        return functrax.lax.fori_loop(0, 3, lambda k, x: jnp.tanh(x + a @ b * x + c @ d), d.T @ b)

    args = array(40, 3), array(3, 40), array(40, 3), array(3, 40)
    wanted = functrax.jit(f)(*args)
    with Override("opt_limit", "join=0"):
        np.testing.assert_allclose(functrax.jit(lambda *x: f(*x))(*args), wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bfloat16"])
def test_values_when_compiled(dtype):
    with functrax.enable_x64():
        args = [
            jnp.asarray(np.round(4 * array(*s, seed=k))).astype(dtype)
            for k, s in enumerate([(48, 4), (4, 56), (4, 48), (56, 4), (48, 56)])
        ]
        got = functrax.jit(lambda a, b, c, d, e: (a @ b + e) + (d @ c).T)(*args)
        a, b, c, d, e = (np.asarray(x).astype("float64") for x in args)
        np.testing.assert_allclose(np.asarray(got).astype("float64"), a @ b + e + (d @ c).T, 0.02)
