"""The text of programs, exactly as it stands."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.source import FixedLine
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from functrax.core.ir.object_names import named_object, object_name
from functrax.core.ir.printing import value_text
from functrax.core.prims.arithmetic import add, mul, select_n
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.prims.slicing import pad
from functrax.core.tracing.stage import stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.interpreters.call import Call
from functrax.transforms.staging.jit import jit_call

F32 = ShapedArray((), dtypes.float32)
VECTOR = ShapedArray((3,), dtypes.float32)


def expect(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def test_a_program_with_constants_sources_and_names() -> None:
    c, x, s = Var(VECTOR), Var(VECTOR), Var(ShapedArray((), dtypes.float32, True))
    y, z = Var(VECTOR), Var(F32)
    eqns = [
        Eqn(add, [x, c], [y], {}, FixedLine("train.py", 41, "loss")),
        Eqn(reduce_sum, [y], [z], {"axes": (0,)}, FixedLine("train.py", 42, "loss")),
    ]
    jaxpr = Jaxpr([c], [x, s], [z, s], eqns, "loss", ["w", "scale"])
    closed = ClosedJaxpr(jaxpr, [from_numpy(np.float32([0.1, -0.0, np.nan]))])
    assert str(closed) == expect("""
        { lambda a:f32[3] ; b:f32[3] c:~f32[]. let  # loss: w, scale
            d:f32[3] = add b a  # train.py:41 in loss
            e:f32[] = reduce_sum[axes=(0,)] d  # train.py:42 in loss
          in (e, c) }
        where
          a = (0.1, -0.0, nan)
    """)
    assert repr(closed) == str(closed)
    assert jaxpr.as_text(source=False) == expect("""
        { lambda a:f32[3] ; b:f32[3] c:~f32[]. let
            d:f32[3] = add b a
            e:f32[] = reduce_sum[axes=(0,)] d
          in (e, c) }
    """)
    assert repr(eqns[1]) == "b:f32[] = reduce_sum[axes=(0,)] a"


def test_an_inner_program_has_lines_of_its_own() -> None:
    inner, _ = stage(lambda x, y: [mul(x, y), add(x, y)], [VECTOR, VECTOR])
    outer, _ = stage(lambda x: jit_call(x, x, jaxpr=inner)[1:], [VECTOR], "outer")
    assert outer.as_text(source=False) == expect("""
        { lambda ; a:f32[3]. let
            _:f32[3] b:f32[3] = jit[
              jaxpr={ lambda ; a:f32[3] b:f32[3]. let
                  c:f32[3] = mul a b
                  d:f32[3] = add a b
                in (c, d) },
            ] a a
          in (b,) }
    """)


def test_a_tuple_of_programs() -> None:
    branch = Jaxpr((), [x := Var(F32)], [x], ())
    eqn = Eqn(jit_call, [Var(F32)], [Var(F32)], {"branches": (branch, 1), "name": "f"})
    assert repr(eqn) == expect("""
        b:f32[] = jit[
          branches=(
            { lambda ; a:f32[]. let
              in (a,) },
            1,
          ),
          name="f",
        ] a
    """)


def test_programs_without_inputs_equations_and_results() -> None:
    assert Jaxpr((), (), (), ()).as_text(False) == "{ lambda ; . let\n  in () }"
    nothing = Eqn(jit_call, [], [], {"jaxpr": 3})
    assert repr(nothing) == "() = jit[jaxpr=3]"


def test_names_after_z_and_reserved_words() -> None:
    variables = [Var(F32) for _ in range(300)]
    text = Jaxpr((), variables, (), ()).as_text(False)
    assert " z:f32[] aa:f32[] ab:f32[]" in text
    assert " im:f32[] io:f32[]" in text  # no variable is called "in"


def test_the_users_line_is_shown() -> None:
    jaxpr, _ = stage(lambda x: [mul(x, x)], [F32], "square")
    line = test_the_users_line_is_shown.__code__.co_firstlineno + 1
    assert f"= mul a a  # test_printing.py:{line} in <lambda>" in str(jaxpr)
    assert str(jaxpr).startswith("{ lambda ; a:f32[]. let  # square\n")


def literal(value: object, dtype: np.dtype) -> Literal:
    return Literal(value, ShapedArray((), dtype))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (literal(0.1, dtypes.float32), "0.1:f32[]"),
        (literal(1e20, dtypes.float32), "1e+20:f32[]"),
        (literal(0.1, dtypes.bfloat16), "0.1:bf16[]"),
        (literal(0.1, dtypes.float64), "0.1:f64[]"),
        (literal(-0.0, dtypes.float16), "-0.0:f16[]"),
        (literal(-np.inf, dtypes.float32), "-inf:f32[]"),
        (literal(np.nan, dtypes.float32), "nan:f32[]"),
        (literal(np.uint32(0xFFC00001).view(np.float32), dtypes.float32), "0xffc00001:f32[]"),
        (literal(True, dtypes.bool_), "True:bool[]"),
        (literal(-128, dtypes.int8), "-128:i8[]"),
        (literal(2**64 - 1, dtypes.uint64), "18446744073709551615:u64[]"),
        (literal(complex(1, -0.0), dtypes.complex64), "complex(1.0, -0.0):c64[]"),
        (Literal(2, ShapedArray((), dtypes.float32, True)), "2.0:~f32[]"),
        (3, "3"),
        (3.0, "3.0"),
        (float("inf"), "inf"),
        (1 + 2j, "complex(1.0, 2.0)"),
        (True, "True"),
        (None, "None"),
        ('a "quote" \n', '"a \\"quote\\" \\n"'),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, ("x", None)), '(1, ("x", None))'),
        (dtypes.bfloat16, "bf16"),
        (VECTOR, "f32[3]"),
        (IndexMap.reverse((3,), (0,)), "{[3] -> [3]: (-d0 + 2)}"),
    ],
)
def test_values_of_parameters(value: object, text: str) -> None:
    assert value_text(value) == text


def test_objects_print_as_names_that_lead_back_to_them_while_they_live() -> None:
    def rule() -> None:
        """Any object."""

    name = object_name(rule)
    assert value_text(rule) == f"@{name}"
    assert name.startswith("rule#")
    assert named_object(name) is rule
    del rule
    assert named_object(name) is None


def test_large_constants_are_hex() -> None:
    x = Var(ShapedArray((65,), dtypes.uint8))
    closed = ClosedJaxpr(Jaxpr([x], (), [x], ()), [from_numpy(np.arange(65, dtype=np.uint8))])
    assert str(closed).endswith('\n  a = hex "' + bytes(range(65)).hex() + '"')


def test_a_broken_program_prints_all_the_same() -> None:
    x, unknown = Var(F32), Var(VECTOR)
    broken = Jaxpr((), [x], [unknown], [Eqn(mul, [x, unknown], [x], {})])
    assert broken.as_text(False) == expect("""
        { lambda ; a:f32[]. let
            a:f32[] = mul a b
          in (b,) }
    """)


def test_literals_in_equations() -> None:
    zero = literal(0, dtypes.float32)

    def f(which: object, x: object) -> list[object]:
        padded = pad(x, low=(1,), high=(0,), interior=(0,), fill=zero)
        rows = broadcast_in_dim(padded, shape=(2, 4), dims=(1,))
        return [select_n(which, x, zero), rows]

    jaxpr, _ = stage(f, [ShapedArray((3,), dtypes.bool_), VECTOR])
    assert jaxpr.as_text(source=False) == expect("""
        { lambda ; a:bool[3] b:f32[3]. let
            c:f32[4] = pad[low=(1,), high=(0,), interior=(0,), fill=0.0:f32[]] b
            d:f32[2,4] = broadcast_in_dim[shape=(2, 4), dims=(1,)] c
            e:f32[3] = select_n a b 0.0:f32[]
          in (e, d) }
    """)


def test_a_call_is_shown_by_the_name_of_its_primitive() -> None:
    assert isinstance(jit_call, Call)
    assert repr(Eqn(jit_call, [], [Var(F32)], {})) == "a:f32[] = jit"
