"""Algebraic simplification: for each rule of the table a program, and what it becomes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from functrax.backends.passes.algebra.rule_table import RULES
from functrax.backends.passes.algebra.simplify import simplify
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.types import dtypes
from tests.backends.passes import pass_checks as check


def clean(jaxpr, rewrites):
    return dce(simplify(jaxpr, rewrites), Rewrites())


def program(inputs, body, result):
    """``x:f32[4]`` and equations, one for each line."""
    lines = "\n".join(line.strip() for line in body.split(";"))
    return f"{{ lambda ; {inputs}. let {lines} in ({result},) }}"


F, N, B, C, U, H = "x:f32[4]", "x:i32[4]", "x:bool[4]", "x:c64[4]", "x:u8[4]", "x:bf16[4]"
FF, NN, CC = (f"{a} y:{a[2:]}" for a in (F, N, C))

#: rule -> (inputs, before, after), results in z.
EXAMPLES = {
    "constant goes last": (F, "z:f32[4] = mul 3.0:f32[] x", "z:f32[4] = mul x 3.0:f32[]"),
    "--x": (F, "a:f32[4] = neg x; b:f32[4] = neg a; z:f32[4] = exp b", "z:f32[4] = exp x"),
    "x + -y": (FF, "a:f32[4] = neg x; z:f32[4] = add a y", "z:f32[4] = sub y x"),
    "x - -y": (FF, "a:f32[4] = neg y; z:f32[4] = sub x a", "z:f32[4] = add x y"),
    "-0 - x": (F, "z:f32[4] = sub -0.0:f32[] x", "z:f32[4] = neg x"),
    "x - x": (N, "z:i32[4] = sub x x", "z:i32[4] = broadcast_in_dim[shape=(4,), dims=()] 0:i32[]"),
    "(x + a) + b": (
        N,
        "a:i32[4] = mul x 2147483647:i32[]; z:i32[4] = mul a 2:i32[]",
        "z:i32[4] = mul x -2:i32[]",
    ),
    "x * 0": (
        N,
        "z:i32[4] = mul x 0:i32[]",
        "z:i32[4] = broadcast_in_dim[shape=(4,), dims=()] 0:i32[]",
    ),
    "x * -1": (F, "z:f32[4] = mul x -1.0:f32[]", "z:f32[4] = neg x"),
    "-x * -y": (F, "a:f32[4] = neg x; z:f32[4] = div a 3.0:f32[]", "z:f32[4] = div x -3.0:f32[]"),
    "x / 2**n": (F, "z:f32[4] = div x -4.0:f32[]", "z:f32[4] = mul x -0.25:f32[]"),
    "x ** n": (F, "z:f32[4] = pow x 2.0:f32[]", "z:f32[4] = mul x x"),
    "x ** 2": (H, "z:bf16[4] = square x", "z:bf16[4] = mul x x"),
    "equal cases": (
        f"c:bool[4] {F}",
        "a:f32[4] = select_n c x x; z:f32[4] = exp a",
        "z:f32[4] = exp x",
    ),
    "known choice": (
        FF,
        "a:f32[4] = select_n True:bool[] x y; z:f32[4] = exp a",
        "z:f32[4] = exp y",
    ),
    "choice by complement": (
        f"c:bool[4] {FF}",
        "d:bool[4] = not c; z:f32[4] = select_n d x y",
        "z:f32[4] = select_n c y x",
    ),
    "choice in choice": (
        f"c:bool[4] {FF}",
        "a:f32[4] = select_n c x y; z:f32[4] = select_n c a 1.0:f32[]",
        "z:f32[4] = select_n c x 1.0:f32[]",
    ),
    "choice of an update": (
        f"c:bool[4] {F} u:f32[] i:i32[]",
        """a:f32[4] = scatter[map={[] -> [4]: (e0())}, op="set", unique=False] x u i;
           z:f32[4] = select_n c x a""",
        """a:bool[] = reindex[map={[] -> [4]: (e0())}, fill=False:bool[]] c i;
           b:f32[] = reindex[map={[] -> [4]: (e0())}, fill=0.0:f32[]] x i;
           d:f32[] = select_n a b u;
           z:f32[4] = scatter[map={[] -> [4]: (e0())}, op="set", unique=False] x d i""",
    ),
    "read where it is written": (
        f"c:bool[] {F} u:f32[] i:i32[]",
        """j:i32[] = clamp 0:i32[] i 3:i32[];
           a:f32[] = reindex[map={[] -> [4]: (e0())}, fill=0.0:f32[]] x j;
           b:f32[] = select_n c a u;
           z:f32[4] = scatter[map={[] -> [4]: (e0())}, op="set", unique=False] x b i""",
        """a:f32[] = reindex[map={[] -> [4]: (e0())}, fill=0.0:f32[]] x i;
           b:f32[] = select_n c a u;
           z:f32[4] = scatter[map={[] -> [4]: (e0())}, op="set", unique=False] x b i""",
    ),
    "max(x, x)": (F, "a:f32[4] = max x x; z:f32[4] = exp a", "z:f32[4] = exp x"),
    "max(x, -inf)": (F, "a:f32[4] = max x -inf:f32[]; z:f32[4] = exp a", "z:f32[4] = exp x"),
    "known by ranges": (
        N,
        "a:i32[4] = max x 2:i32[]; z:bool[4] = lt a 2:i32[]",
        "z:bool[4] = broadcast_in_dim[shape=(4,), dims=()] False:bool[]",
    ),
    "inside its limits": (
        N,
        "a:i32[4] = rem x 5:i32[]; b:i32[4] = clamp -4:i32[] a 4:i32[]; z:i32[4] = neg b",
        "a:i32[4] = rem x 5:i32[]; z:i32[4] = neg a",
    ),
    "x == x": (
        N,
        "z:bool[4] = le x x",
        "z:bool[4] = broadcast_in_dim[shape=(4,), dims=()] True:bool[]",
    ),
    "not not x": (FF, "a:bool[4] = eq x y; z:bool[4] = not a", "z:bool[4] = ne x y"),
    "x and True": (B, "z:bool[4] = xor x True:bool[]", "z:bool[4] = not x"),
    "x xor x": (
        N,
        "z:i32[4] = xor x x",
        "z:i32[4] = broadcast_in_dim[shape=(4,), dims=()] 0:i32[]",
    ),
    "conversion of a conversion": (
        H,
        """a:f32[4] = convert_element_type[dtype=f32, weak_type=False] x;
           z:i32[4] = convert_element_type[dtype=i32, weak_type=False] a""",
        "z:i32[4] = convert_element_type[dtype=i32, weak_type=False] x",
    ),
    "|-x|": (F, "a:f32[4] = neg x; z:f32[4] = abs a", "z:f32[4] = abs x"),
    "rounded before": (
        F,
        "a:f32[4] = ceil x; b:f32[4] = floor a; z:f32[4] = exp b",
        "a:f32[4] = ceil x; z:f32[4] = exp a",
    ),
    "parts of parts": (
        C,
        "a:f32[4] = real x; b:f32[4] = imag x; c:c64[4] = complex a b; z:c64[4] = neg c",
        "z:c64[4] = neg x",
    ),
    "as it is": (F, "a:f32[4] = stop_gradient x; z:f32[4] = exp a", "z:f32[4] = exp x"),
    "nothing is read": (
        F,
        "z:f32[3] = reindex[map={[3] -> [4]: (d0 + 4)}, fill=2.0:f32[]] x",
        "z:f32[3] = broadcast_in_dim[shape=(3,), dims=()] 2.0:f32[]",
    ),
    "reduction of copies": (
        F,
        """a:f32[4,3] = broadcast_in_dim[shape=(4, 3), dims=(0,)] x;
           z:f32[4] = reduce_sum[axes=(1,)] a""",
        "a:f32[4] = mul x 3.0:f32[]; z:f32[4] = add a 0.0:f32[]",
    ),
}


def special(dtype):
    """Numbers with which a rule that is not exact would be found out."""
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return [0, 1, 2, 3, info.max, info.min, info.max - 1, info.min + 1]
    tiny = float(dtypes.finfo(dtype).smallest_subnormal)
    big = float(dtypes.finfo(dtype).max)
    reals = [0.0, -0.0, 1.0, -1.5, 3.7, np.inf, -np.inf, np.nan, tiny, 3 * tiny, big, -big, 1e-30]
    if dtype.kind == "c":
        return [complex(a, b) for a, b in itertools.product(reals[:9:2], repeat=2)]
    return reals


def check_special(run, text):
    """Check that a pass keeps the values of a program, for all special numbers."""
    jaxpr = parse_jaxpr(text)
    after = run(jaxpr, Rewrites())
    columns = [special(a.dtype) for a in jaxpr.in_avals]
    rows = list(itertools.islice(itertools.product(*columns), 400))
    rows += [rows[-1]] * (-len(rows) % 4)
    for start in range(0, len(rows), 4):
        parts = zip(*rows[start : start + 4])
        with np.errstate(all="ignore"):
            values = [
                np.resize(p, a.shape).astype(a.dtype)
                for p, a in zip(parts, jaxpr.in_avals, strict=True)
            ]
        found, wanted = check.run_reference(after, values), check.run_reference(jaxpr, values)
        assert check.same_bits(found, wanted), (values, found, wanted)


def test_every_rule_has_an_example():
    assert [rule.name for rule in RULES] == list(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_rule(name):
    inputs, before, after = EXAMPLES[name]
    text = program(inputs, before, "z")
    check.expect(clean, text, program(inputs, after, "z"))
    rewrites = Rewrites(remember=True)
    simplify(parse_jaxpr(text), rewrites)
    assert name in [rule for rule, _ in rewrites.made]
    check_special(clean, text)


EXACT = {
    "sum with a negation": (FF, "a:f32[4] = neg y; z:f32[4] = add x a"),
    "zero minus an integer": (N, "z:i32[4] = sub 0:i32[] x"),
    "integer sums": (N, "a:i32[4] = add x 2147483647:i32[]; z:i32[4] = add a 3:i32[]"),
    "negation into a factor": (F, "a:f32[4] = neg x; z:f32[4] = mul a 3.0:f32[]"),
    "negation of integers": (N, "a:i32[4] = neg x; z:i32[4] = mul a 3:i32[]"),
    "quotient by a small number": (F, "z:f32[4] = div x 1.1754943508222875e-38:f32[]"),
    "half precision quotient": (H, "z:bf16[4] = div x 8.0:bf16[]"),
    "integer power": (N, "z:i32[4] = integer_pow[y=2] x"),
    "zeroth power": (F, "z:f32[4] = pow x 0.0:f32[]"),
    "complement of an order": (NN, "a:bool[4] = lt x y; z:bool[4] = not a"),
    "unsigned magnitude": (U, "z:u8[4] = abs x"),
    "bits": (N, "a:i32[4] = and x -1:i32[]; b:i32[4] = or a 0:i32[]; z:i32[4] = xor b -1:i32[]"),
    "integer through a wider one": (
        U,
        """a:i32[4] = convert_element_type[dtype=i32, weak_type=False] x;
           z:i8[4] = convert_element_type[dtype=i8, weak_type=False] a""",
    ),
    "conjugate twice": (C, "a:c64[4] = conj x; b:c64[4] = conj a; z:c64[4] = neg b"),
    "sum of one element": (
        F,
        """a:f32[4,1] = reshape[shape=(4, 1)] x;
           z:f32[4] = reduce_sum[axes=(1,)] a""",
    ),
    "maximum of copies": (
        F,
        """a:f32[2,4,3] = broadcast_in_dim[shape=(2, 4, 3), dims=(1,)] x;
           z:f32[4] = reduce_max[axes=(0, 2)] a""",
    ),
    "maximum along one of two repeated axes": (
        F,
        """a:f32[2,4,3] = broadcast_in_dim[shape=(2, 4, 3), dims=(1,)] x;
           z:f32[4,3] = reduce_max[axes=(0,)] a""",
    ),
    "integer sum of copies": (
        U,
        """a:u8[4,300] = broadcast_in_dim[shape=(4, 300), dims=(0,)] x;
           z:u8[4] = reduce_sum[axes=(1,)] a""",
    ),
    "half precision sum of copies": (
        H,
        """a:bf16[4,7] = broadcast_in_dim[shape=(4, 7), dims=(0,)] x;
           z:bf16[4] = reduce_sum[axes=(1,)] a""",
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_more_uses_of_the_rules_are_exact(name):
    inputs, body = EXACT[name]
    text = program(inputs, body, "z")
    assert check.after(clean, text) != parse_jaxpr(text).as_text(source=False)
    check_special(clean, text)


LEFT_ALONE = {
    "x + 0 where x may be -0": (F, "z:f32[4] = add x 0.0:f32[]"),
    "0 - x where x may be 0": (F, "z:f32[4] = sub 0.0:f32[] x"),
    "x - x where x may be NaN": (F, "z:f32[4] = sub x x"),
    "x * 0 where x may be NaN": (F, "z:f32[4] = mul x 0.0:f32[]"),
    "x / 3": (F, "z:f32[4] = div x 3.0:f32[]"),
    "x / subnormal": (F, "z:f32[4] = div x 1e-45:f32[]"),
    "log exp": (F, "a:f32[4] = exp x; z:f32[4] = log a"),
    "float constants": (F, "a:f32[4] = add x 1.0:f32[]; z:f32[4] = add a 2.0:f32[]"),
    "x == x where x may be NaN": (F, "z:bool[4] = eq x x"),
    "not x < y where they may be NaN": (FF, "a:bool[4] = lt x y; z:bool[4] = not a"),
    "max(x, y)": (FF, "z:f32[4] = max x y"),
    "quotient of a negated integer": (N, "a:i32[4] = neg x; z:i32[4] = div a 3:i32[]"),
    "through a shorter type": (
        F,
        """a:bf16[4] = convert_element_type[dtype=bf16, weak_type=False] x;
           z:f32[4] = convert_element_type[dtype=f32, weak_type=False] a""",
    ),
    "integers wrap around and floats saturate": (
        N,
        """a:f64[4] = convert_element_type[dtype=f64, weak_type=False] x;
           z:i8[4] = convert_element_type[dtype=i8, weak_type=False] a""",
    ),
    "a float64 sum of copies": (
        "x:f64[4]",
        """a:f64[4,3] = broadcast_in_dim[shape=(4, 3), dims=(0,)] x;
           z:f64[4] = reduce_sum[axes=(1,)] a""",
    ),
    "a sum of no copies": (
        F,
        """a:f32[4,0] = broadcast_in_dim[shape=(4, 0), dims=(0,)] x;
           z:f32[4] = reduce_sum[axes=(1,)] a""",
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_would_change_a_bit_is_left_alone(name):
    inputs, body = LEFT_ALONE[name]
    check.unchanged(simplify, program(inputs, body, "z"))


def test_operations_that_primitives_know_to_do_nothing():
    body = """a:f32[4] = mul x 1.0:f32[]; b:f32[4] = reshape[shape=(4,)] a;
              z:f32[4] = sub b 0.0:f32[]"""
    check.expect(simplify, program(F, body, "z"), "{ lambda ; x:f32[4]. let in (x,) }")


def test_rules_apply_in_loops_and_count_against_the_limit():
    text = """{ lambda ; x:f32[4]. let
        y:f32[4] = scan[
          jaxpr={ lambda ; c:f32[4]. let d:f32[4] = square c e:f32[4] = square d in (e,) },
          length=2, num_consts=0, num_carry=1, reverse=False
        ] x
        z:f32[4] = square y
      in (z,) }"""
    for limit in range(5):
        assert check.after(simplify, text, limit).count("mul") == min(limit, 3)
