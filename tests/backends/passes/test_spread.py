"""What a broadcast repeats is reduced once."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.passes.clean.spread import spread
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.options.config import Override
from tests.backends.passes import pass_checks as check

ONE = """{ lambda ; x:f32[3,4]. let
             a:f32[3,5,4] = broadcast_in_dim[shape=(3, 5, 4), dims=(0, 2)] x
             b:f32[RESULT] = REDUCTION[axes=AXES] a
           in (b,) }"""


def program(reduction, axes, result):
    text = ONE.replace("REDUCTION", reduction).replace("AXES", axes)
    return text.replace("RESULT", result)


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"])
@pytest.mark.parametrize(
    ("axes", "result", "own", "row", "dims"),
    [
        ("(0,)", "5,4", "(0,)", "4", "(1,)"),
        ("(2,)", "3,5", "(1,)", "3", "(0,)"),
        ("(0, 2)", "5", "(0, 1)", "", "()"),
    ],
)
def test_reduced_before_it_is_repeated(name, axes, result, own, row, dims):
    wanted = f"""{{ lambda ; x:f32[3,4]. let
                   a:f32[3,5,4] = broadcast_in_dim[shape=(3, 5, 4), dims=(0, 2)] x
                   r:f32[{row}] = {name}[axes={own}] x
                   b:f32[{result}] = broadcast_in_dim[shape=({result},), dims={dims}] r
                 in (b,) }}""".replace("(5,4,)", "(5, 4)").replace("(3,5,)", "(3, 5)")
    check.expect(spread, program(name, axes, result), wanted)


@pytest.mark.parametrize(("axes", "result"), [("(1,)", "3,4"), ("(0, 1)", "4"), ("(0, 1, 2)", "")])
def test_along_the_copies_it_is_left(axes, result):
    text = program("reduce_sum", axes, result)
    assert "axes=" + axes in check.after(spread, text)


def test_rows_that_one_element_repeats():
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)

    def f(x):
        return jnp.sum(jnp.broadcast_to(x, (4, 2, 5, 3)), axis=1)

    jaxpr = functrax.make_jaxpr(f)(x).jaxpr
    found = spread(jaxpr, Rewrites())
    assert found is not jaxpr
    (got,) = check.run_reference(found, [x])
    np.testing.assert_array_equal(got, f(x))


def test_a_product_with_ones_costs_a_sum():
    x = np.ones((64, 64), np.float32)
    stages = run_pipeline(functrax.make_jaxpr(lambda x: x @ jnp.ones((64, 96), "f"))(x).jaxpr)
    assert stages["spread"].rewrites == 1
    assert not stages["recognise"].rewrites
    with Override("strict", True):
        assert all(stage.name != "spread" for stage in run_pipeline(stages.source).stages)
