"""Products with a side in common that are added up become one product of a sum."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.contractions.added_products import share
from functrax.backends.passes.contractions.batch import batch
from functrax.backends.passes.contractions.orientation import orient
from functrax.backends.passes.contractions.recognise import recognise
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def counts(function, *args, limit=None):
    """The numbers of products before and after; both programs give the same values."""
    jaxpr = inline(close(functrax.make_jaxpr(function)(*args).jaxpr), Rewrites())
    before = jaxpr
    for run in (compose, recognise, batch, orient):
        before = run(before, Rewrites())
    after = share(before, Rewrites(limit))
    verify(after)
    values = check.draw(before)
    found, wanted, plain = (check.run_reference(j, values) for j in (after, before, jaxpr))
    for x, y, z in zip(found, wanted, plain, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(x, z, rtol=1e-4, atol=1e-3)
    return tuple(
        sum(e.primitive.name == "contraction" for e in dce(j, Rewrites()).eqns)
        for j in (before, after)
    )


G, H, X, Y = array(30, 30), array(30, 30, seed=1), array(30, 70, seed=2), array(30, 70, seed=3)


@pytest.mark.parametrize(
    "f",
    [
        lambda g, h, x, y: g @ x + g.T @ x,
        lambda g, h, x, y: g @ x + h @ x,
        lambda g, h, x, y: 3.0 * (g @ x) + -(g.T @ (x * 2.0)) + y,
        lambda g, h, x, y: y + (x.T @ g + x.T @ g.T).T,
        lambda g, h, x, y: g @ x + (y + -(h.T @ x)) + g.T @ x,
        lambda g, h, x, y: jnp.tanh(g @ x + g.T @ x) * (g @ x + g.T @ x),
    ],
    ids=["turned", "two", "numbers", "the other side", "three", "a sum of two uses"],
)
def test_products_become_one(f):
    before, after = counts(f, G, H, X, Y)
    assert before > 1
    assert after == 1


def test_the_gradient_of_all_pairs():
    def loss(x):
        return jnp.sum(jnp.tanh(2 * x @ x.T / 20) * jnp.arange(30.0))

    assert counts(functrax.grad(loss), X) == (3, 2)


def test_a_batch_of_products():
    def f(g, x):
        return jnp.einsum("bij,bjk->bik", g, x) + jnp.einsum("bji,bjk->bik", g, x)

    assert counts(f, array(3, 20, 20), array(3, 20, 80)) == (2, 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda g, h, x, y: g @ x + h @ y,
        lambda g, h, x, y: (lambda p: (p + h @ x, p))(g @ x),
        lambda g, h, x, y: g @ x * y + h @ x,
        lambda g, h, x, y: g @ x[:, :9] + h @ x[:, :9],
    ],
    ids=["nothing in common", "another use", "not linear", "few columns"],
)
def test_what_stays(f):
    before, after = counts(f, G, H, X, Y)
    assert before == after == 2


def test_nothing_is_rewritten_beyond_the_limit():
    assert counts(lambda g, x: g @ x + g.T @ x, G, X, limit=0) == (2, 2)


def test_compiled_programs_give_the_same():
    @functrax.value_and_grad
    def f(x):
        return jnp.sum(jnp.exp(-((x @ x.T) ** 2)) * jnp.arange(300.0))

    x = array(300, 80) / 10
    passes = functrax.explain(f)(x).passes
    assert next(p.rewrites for p in passes if p.name == "share") == 1
    with functrax.backend("interp"):
        wanted = f(x)
    for found, y in zip(functrax.jit(f)(x), wanted, strict=True):
        np.testing.assert_allclose(found, y, rtol=1e-4, atol=2e-2)
