"""Sums of arrays that are padded with zeros become arrays that are put together."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.pieces import pieces
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.options.config import Override
from functrax.core.syntax.parsing import parse_jaxpr
from tests.backends.passes import pass_checks as check


def padded(name: str, x: str, shape: str, low: str, high: str, fill: str = "0.0:f32[]") -> str:
    zeros = f"({', '.join('0' for _ in shape.split(','))},)"
    return f"{name}:f32[{shape}] = pad[low={low}, high={high}, interior={zeros}, fill={fill}] {x}\n"


def put_together(text: str) -> str:
    """What the pass makes of a program, without what nothing needs; of the same values."""
    jaxpr = parse_jaxpr(text)
    after = dce(pieces(jaxpr, Rewrites()), Rewrites())
    values = check.draw(jaxpr)
    found, wanted = (check.run_reference(j, values) for j in (after, jaxpr))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
    return after.as_text(source=False)


def test_neighbours_become_one_array():
    text = (
        "{ lambda ; x:f32[2,3] y:f32[1,3] z:f32[2,3]. let\n"
        + padded("a", "x", "5,3", "(3, 0)", "(0, 0)")
        + padded("b", "y", "5,3", "(2, 0)", "(2, 0)")
        + padded("c", "z", "5,3", "(0, 0)", "(3, 0)")
        + "d:f32[5,3] = add a b\n e:f32[5,3] = add d c in (e,) }"
    )
    found = put_together(text)
    wanted = """{ lambda ; x:f32[2,3] y:f32[1,3] z:f32[2,3]. let
                  e:f32[5,3] = concatenate[axis=0] z y x in (e,) }"""
    assert found == parse_jaxpr(wanted).as_text(source=False), found


def test_room_between_them_is_filled_and_the_rest_is_added():
    found = put_together(
        "{ lambda ; x:f32[1] y:f32[2] z:f32[6]. let\n"
        + padded("a", "x", "6", "(1,)", "(4,)")
        + padded("b", "y", "6", "(3,)", "(1,)")
        + "c:f32[6] = add a z\n d:f32[6] = add c b in (d,) }"
    )
    assert "pad" not in found and found.count("concatenate") == 1
    assert found.count("broadcast_in_dim") == 3 and found.count(" add ") == 1


def test_pieces_over_each_other_are_arrays_of_their_own():
    found = put_together(
        "{ lambda ; x:f32[1] y:f32[2] z:f32[1] w:f32[2]. let\n"
        + padded("a", "x", "3", "(0,)", "(2,)")
        + padded("b", "y", "3", "(1,)", "(0,)")
        + padded("c", "z", "3", "(2,)", "(0,)")
        + padded("d", "w", "3", "(0,)", "(1,)")
        + "e:f32[3] = add a b\n f:f32[3] = add c d\n g:f32[3] = add e f in (g,) }"
    )
    assert "pad" not in found and found.count("concatenate") == 2 and found.count(" add ") == 1


@pytest.mark.parametrize(
    ("low", "high", "fill"),
    [
        ("(0, 1)", "(2, 0)", "0.0:f32[]"),  # along two axes
        ("(2, 0)", "(0, 0)", "1.0:f32[]"),  # with ones
        ("(2, 0)", "(0, 0)", "-0.0:f32[]"),  # with zeros that leave -0 as it is
    ],
)
def test_others_stay(low, high, fill):
    shape = "3,3" if "1" in low else "3,2"
    check.unchanged(
        pieces,
        f"{{ lambda ; x:f32[1,2] y:f32[1,{shape[-1]}]. let\n"
        + padded("a", "x", shape, low, high, fill)
        + padded("b", "y", shape, "(1, 0)", "(1, 0)")
        + f"c:f32[{shape}] = add a b in (c,) }}",
    )


def test_a_sum_that_something_else_needs_stays():
    check.unchanged(
        pieces,
        "{ lambda ; x:f32[1] y:f32[2] z:f32[3]. let\n"
        + padded("a", "x", "3", "(0,)", "(2,)")
        + padded("b", "y", "3", "(1,)", "(0,)")
        + "c:f32[3] = add a z\n d:f32[3] = add c b in (c, d) }",
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradients_by_parts_of_an_array(axis):
    def f(w):
        parts = jnp.split(w, 3, axis)
        return sum((jnp.sin(part) * (n + 1)).sum() for n, part in enumerate(parts))

    w = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
    program = run_pipeline(functrax.make_jaxpr(functrax.grad(f))(w).jaxpr)
    assert program["pieces"].rewrites == 1
    found = functrax.jit(functrax.grad(f))(w)
    scale = np.repeat([1, 2, 3], w.shape[axis] // 3)
    wanted = np.cos(w) * (scale if axis else scale[:, None])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_strict_mode_leaves_them():
    with Override("strict", True):
        program = run_pipeline(
            functrax.make_jaxpr(functrax.grad(lambda w: (w[0] * w[1]).sum()))(
                np.ones((2, 3), np.float32)
            ).jaxpr
        )
    assert "pieces" not in [stage.name for stage in program.stages]


def test_sums_of_many_pieces():
    def f(w):
        return sum(jnp.sin(w[n]).sum() for n in range(1500))

    w = np.linspace(0, 1, 3000, dtype=np.float32).reshape(1500, 2)
    jaxpr = functrax.make_jaxpr(functrax.grad(f))(w).jaxpr
    assert run_pipeline(jaxpr)["pieces"].rewrites == 1


def test_a_piece_that_is_added_several_times_counts_as_often():
    found = put_together(
        "{ lambda ; x:f32[1] y:f32[2]. let\n"
        + padded("a", "x", "3", "(0,)", "(2,)")
        + padded("b", "y", "3", "(1,)", "(0,)")
        + "c:f32[3] = add a b\n d:f32[3] = add c a\n e:f32[3] = add d b\n"
        + "f:f32[3] = add e b in (f,) }"
    )
    assert found.count("concatenate") == 2 and found.count(" add ") == 2
