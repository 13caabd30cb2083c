"""Constant folding: a small program in, the expected one beneath."""

from __future__ import annotations

import pytest

from functrax.backends.passes.clean.constant_folding import constant_folding
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.rewrites import Rewrites
from tests.backends.passes import pass_checks as check


def clean(jaxpr, rewrites):
    return dce(constant_folding(jaxpr, rewrites), Rewrites())


def test_operations_on_numbers():
    check.expect(
        clean,
        """{ lambda ; x:f32[3]. let
             a:f32[] = add 1.0:f32[] 2.0:f32[]
             b:f32[] = sqrt a
             c:f32[3] = mul x b
           in (c, a) }""".replace("mul x b", "mul x 1.0:f32[]"),
        "{ lambda ; x:f32[3]. let c:f32[3] = mul x 1.0:f32[] in (c, 3.0:f32[]) }",
    )


def test_a_full_array_becomes_a_number_where_it_is_an_operand():
    check.expect(
        clean,
        """{ lambda ; x:f32[3]. let
             a:f32[3] = broadcast_in_dim[shape=(3,), dims=()] 2.0:f32[]
             b:f32[3] = mul x a
           in (b,) }""",
        "{ lambda ; x:f32[3]. let b:f32[3] = mul x 2.0:f32[] in (b,) }",
    )


def test_operations_on_full_arrays_give_a_full_array():
    check.expect(
        clean,
        """{ lambda ; . let
             a:f32[2,3] = broadcast_in_dim[shape=(2, 3), dims=()] 2.0:f32[]
             b:f32[3,2] = transpose[perm=(1, 0)] a
             c:f32[3,2] = mul b b
             d:f32[4,2] = pad[low=(1, 0), high=(0, 0), interior=(0, 0), fill=4.0:f32[]] c
           in (d,) }""",
        "{ lambda ; . let d:f32[4,2] = broadcast_in_dim[shape=(4, 2), dims=()] 4.0:f32[] in (d,) }",
    )


def test_a_reindex_that_fills_with_the_number_that_is_there():
    check.expect(
        clean,
        """{ lambda ; i:i32[5]. let
             a:f32[3] = broadcast_in_dim[shape=(3,), dims=()] 0.0:f32[]
             b:f32[5] = reindex[map={[5] -> [3]: (e0(d0))}, fill=0.0:f32[]] a i
           in (b,) }""",
        """{ lambda ; i:i32[5]. let
             b:f32[5] = broadcast_in_dim[shape=(5,), dims=()] 0.0:f32[]
           in (b,) }""",
    )


@pytest.mark.parametrize(
    ("equation", "result"),
    [
        ("reduce_max[axes=(0,)] a", "3.0:f32[]"),
        ("reduce_sum[axes=(0,)] a", "3000.0:f32[]"),
    ],
)
def test_reductions_of_full_arrays(equation, result):
    check.expect(
        clean,
        f"""{{ lambda ; . let
              a:f32[1000] = broadcast_in_dim[shape=(1000,), dims=()] 3.0:f32[]
              b:f32[] = {equation}
            in (b,) }}""",
        f"{{ lambda ; . let in ({result},) }}",
    )


def test_a_sum_that_is_not_exact_is_left_to_the_program():
    check.unchanged(
        constant_folding,
        """{ lambda ; . let
             a:f32[1000] = broadcast_in_dim[shape=(1000,), dims=()] 0.1:f32[]
             b:f32[] = reduce_sum[axes=(0,)] a
           in (b,) }""",
    )


def test_comparisons_of_small_index_ranges():
    check.expect(
        clean,
        """{ lambda ; x:f32[5]. let
             i:i32[5] = iota[shape=(5,), dtype=i32, axis=0]
             n:bool[5] = lt i 0:i32[]
             y:f32[5] = select_n n x 1.0:f32[]
           in (y, i) }""",
        """{ lambda ; x:f32[5]. let
             i:i32[5] = iota[shape=(5,), dtype=i32, axis=0]
             y:f32[5] = select_n False:bool[] x 1.0:f32[]
           in (y, i) }""",
    )


def test_minus_zero_and_zero_are_not_one_number():
    check.unchanged(
        constant_folding,
        """{ lambda ; . let
             a:f32[3] = broadcast_in_dim[shape=(3,), dims=()] -0.0:f32[]
             b:f32[5] = pad[low=(1,), high=(1,), interior=(0,), fill=0.0:f32[]] a
           in (b,) }""",
    )


def test_large_index_ranges_and_empty_arrays_are_left():
    check.unchanged(
        constant_folding,
        """{ lambda ; . let
             i:i32[5000] = iota[shape=(5000,), dtype=i32, axis=0]
             n:bool[5000] = lt i 0:i32[]
             e:f32[0] = broadcast_in_dim[shape=(0,), dims=()] 1.0:f32[]
             s:f32[] = reduce_max[axes=(0,)] e
           in (n, s) }""",
    )


def test_folding_in_a_loop():
    text = """{ lambda ; x:f32[3]. let
        y:f32[3] = scan[
          jaxpr={ lambda ; c:f32[3]. let
            d:f32[3] = broadcast_in_dim[shape=(3,), dims=()] 2.0:f32[]
            e:f32[3] = mul c d in (e,) },
          length=2, num_consts=0, num_carry=1, reverse=False
        ] x
      in (y,) }"""
    assert "mul a 2.0:f32[]" in check.after(constant_folding, text)
