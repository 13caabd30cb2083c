"""Transposes behind elementwise equations become part of the contractions before them."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.contractions.orientation import orient
from functrax.backends.passes.contractions.recognise import recognise
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X, W, Y, V, ROW = array(32, 16), array(16, 64), array(32, 8), array(8, 64), array(64)


def oriented(function, *args):
    """The names of its equations; what comes out has the values of what goes in."""
    jaxpr = inline(close(functrax.make_jaxpr(function)(*args).jaxpr), Rewrites())
    before = dce(recognise(compose(jaxpr, Rewrites()), Rewrites()), Rewrites())
    after = orient(before, Rewrites())
    verify(after)
    values = check.draw(before)
    found, wanted = (check.run_reference(j, values) for j in (after, before))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    return [eqn.primitive.name for eqn in after.eqns]


def test_sums_of_products_are_turned():
    assert "transpose" not in oriented(lambda x, w, y, v: (x @ w + y @ v).T, X, W, Y, V)


def test_numbers_functions_and_broadcasts_are_turned():
    found = oriented(lambda x, w, row: jnp.tanh(2 * (x @ w) + row).T, X, W, ROW)
    assert "transpose" not in found and found.count("broadcast_in_dim") == 1


def test_a_broadcast_that_something_else_needs_stays_too():
    def f(x, w, row):
        wide = jnp.broadcast_to(row, (32, 64))
        return (x @ w * wide).T, jnp.sin(wide)

    found = oriented(f, X, W, ROW)
    assert "transpose" not in found and found.count("broadcast_in_dim") == 2


def test_axes_of_size_1_are_inserted_into_what_is_turned():
    jaxpr = dce(
        compose(
            inline(functrax.make_jaxpr(lambda x: (x * 2).T[None])(X).jaxpr, Rewrites()), Rewrites()
        ),
        Rewrites(),
    )
    assert jaxpr.eqns[-1].params["dims"] == (2, 1)  # one equation does both
    program = run_pipeline(functrax.make_jaxpr(lambda x, w: (x @ w).T[None])(X, W).jaxpr)
    views = [e for e in program["dce"].program.eqns if e.primitive.name == "broadcast_in_dim"]
    assert [view.params["dims"] for view in views] == [(1, 2)]
    found = functrax.jit(lambda x, w: (x @ w).T[None])(X, W)
    np.testing.assert_allclose(found, (X @ W).T[None], rtol=1e-4, atol=1e-4)


def test_axes_of_three_dims():
    def f(x, w):
        return jnp.transpose(jnp.einsum("bik,bkj->bij", x, w) * 3 + ROW[:40], (2, 0, 1))

    assert "transpose" not in oriented(f, array(3, 32, 5), array(3, 5, 40))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, z: (x @ w + z).T,  # an array would have to be transposed instead
        lambda x, w, z: ((y := jnp.tanh(x @ w)).T, y),
        lambda x, w, z: ((y := x @ w) + 1).T * jnp.sum(y),
        lambda x, w, z: ((jnp.sin(z) * 2).T, x @ w),
    ],
)
def test_what_stays(function):
    assert "transpose" in oriented(function, X, W, array(32, 64))
