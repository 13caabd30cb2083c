"""Few elements at computed places are added where they belong, not as arrays of zeros."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.passes.clean.accumulate import accumulate
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.config import Override
from functrax.core.syntax.parsing import parse_jaxpr
from tests.backends.passes import pass_checks as check

AT = "reindex_reduce[map={[2] -> [8]: (e0(d0))}, op="


def after(text: str) -> str:
    """What the pass makes of a program, without what nothing needs; of the same values."""
    jaxpr = parse_jaxpr(text)
    changed = dce(accumulate(jaxpr, Rewrites()), Rewrites())
    values = check.draw(jaxpr)
    found, wanted = (check.run_reference(j, values) for j in (changed, jaxpr))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    return changed.as_text(source=False)


def test_elements_are_added_to_the_rest_of_the_sum():
    found = after(
        "{ lambda ; x:f32[8] y:f32[8] u:f32[2] i:i32[2] j:i32[2]. let\n"
        f'a:f32[8] = {AT}"add"] u i\n b:f32[8] = {AT}"add"] u j\n'
        "c:f32[8] = add a x\n d:f32[8] = add b y\n e:f32[8] = add c d in (e,) }"
    )
    wanted = """{ lambda ; x:f32[8] y:f32[8] u:f32[2] i:i32[2] j:i32[2]. let
      a:f32[8] = add x y
      b:f32[8] = scatter[map={[2] -> [8]: (e0(d0))}, op="add", unique=False] a u i
      c:f32[8] = scatter[map={[2] -> [8]: (e0(d0))}, op="add", unique=False] b u j in (c,) }"""
    assert found == parse_jaxpr(wanted).as_text(source=False), found


def test_the_first_of_several_gives_the_zeros():
    found = after(
        "{ lambda ; u:f32[2] i:i32[2] j:i32[2]. let\n"
        f'a:f32[8] = {AT}"add"] u i\n b:f32[8] = {AT}"add"] u j\n c:f32[8] = add a b in (c,) }}'
    )
    counts = [found.count(name) for name in ("reindex_reduce", " scatter", " add ")]
    assert counts == [1, 1, 0]


def test_numbers_are_added_to_arrays():
    found = after(
        "{ lambda ; u:f32[2] i:i32[2] j:i32[2] k:i32[2]. let\n"
        f'a:f32[8] = {AT}"add"] u i\n b:f32[8] = {AT}"add"] u j\n c:f32[8] = {AT}"add"] u k\n'
        "d:f32[8] = add a 1.0:f32[]\n e:f32[8] = add d b\n f:f32[8] = add c e in (f,) }"
    )
    assert [found.count(name) for name in ("reindex_reduce", " scatter", " add ")] == [1, 2, 1]


@pytest.mark.parametrize(
    "body",
    [
        f'a:f32[8] = {AT}"add"] u i\n c:f32[8] = add x a in (c, a) }}',  # needed elsewhere
        f'a:f32[8] = {AT}"add"] u i\n c:f32[8] = add a a in (c,) }}',  # twice
        f'a:f32[8] = {AT}"max"] u i\n c:f32[8] = add x a in (c,) }}',  # not 0 elsewhere
        f'a:f32[8] = {AT}"add"] u i\n c:f32[8] = add a 1.0:f32[] in (c,) }}',  # no array to add to
        # in the kernel of what follows
        f'a:f32[8] = {AT}"add"] u i\n b:f32[8] = sin x\n c:f32[8] = add a b in (c,) }}',
    ],
)
def test_others_stay(body):
    check.unchanged(accumulate, f"{{ lambda ; x:f32[8] u:f32[2] i:i32[2]. let\n {body}")


def test_many_elements_stay():
    check.unchanged(
        accumulate,
        "{ lambda ; x:f32[8] u:f32[5] i:i32[5]. let\n"
        'a:f32[8] = reindex_reduce[map={[5] -> [8]: (e0(d0))}, op="add"] u i\n'
        "c:f32[8] = add x a in (c,) }",
    )


def path_cost(costs):
    """The smoothed cost of the best path from one corner of a table to the other."""

    def step(k, table):
        i, j = k // 6, k % 6
        before = jnp.stack([table[i, j], table[i, j + 1], table[i + 1, j]])
        value = costs[i, j] - functrax.nn.logsumexp(-before)
        return table.at[i + 1, j + 1].set(value)

    table = jnp.full((6, 7), 1e3).at[0, 0].set(0.0)
    return lax.fori_loop(0, 30, step, table)[5, 6]


def test_the_gradient_of_a_loop_adds_in_place():
    costs = np.random.default_rng(0).uniform(size=(5, 6)).astype(np.float32)
    gradient = functrax.grad(path_cost)
    program = run_pipeline(functrax.make_jaxpr(gradient)(costs).jaxpr)
    assert program["accumulate"].rewrites >= 2
    large = [e for e in all_eqns(program["dce"].program) if e.primitive.name == "add"]
    assert not [e for e in large if e.outvars[0].aval.shape in [(5, 6), (6, 7)]]
    found = functrax.jit(gradient)(costs)
    with Override("strict", True):
        wanted = functrax.jit(lambda costs: gradient(costs))(costs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_repeated_and_missing_places_of_a_batch():
    def f(x, i, u):
        return jnp.tanh(x) + jnp.zeros_like(x).at[i].add(u)

    draw = np.random.default_rng(1)
    x, u = draw.normal(size=(4, 40)).astype(np.float32), draw.normal(size=(4, 3)).astype(np.float32)
    i = np.array([[3, 3, 3], [0, 99, -1], [39, 1, 39], [-50, 2, 2]], np.int32)
    found = functrax.jit(functrax.vmap(f))(x, i, u)
    wanted = np.tanh(x)
    for row, places, values in zip(wanted, i, u, strict=True):
        for place, value in zip(places, values, strict=True):
            if -40 <= place < 40:
                row[place] += value
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_strict_mode_leaves_them():
    with Override("strict", True):
        program = run_pipeline(
            functrax.make_jaxpr(functrax.grad(path_cost))(np.ones((5, 6), np.float32)).jaxpr
        )
    assert "accumulate" not in [stage.name for stage in program.stages]
