"""Text to programs: everything that prints reads back, and everything else is a ParseError."""

from __future__ import annotations

import random
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from functrax.core.arrays.array import ConcreteArray, from_numpy
from functrax.core.errors.source import FixedLine
from functrax.core.errors.typed import ParseError, VerificationError
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul
from functrax.core.prims.reduce import argmax, reduce_sum
from functrax.core.prims.reindex import iota
from functrax.core.prims.slicing import concatenate, pad
from functrax.core.syntax.parsing import parse, parse_jaxpr
from functrax.core.tracing.primitive import Opaque
from functrax.core.tracing.stage import stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.inspect_types import make_jaxpr
from functrax.transforms.differentiation.derivatives import grad
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit, jit_call
from tests.core.index_oracle import random_map, random_structured_map

F32 = ShapedArray((), dtypes.float32)
VECTOR = ShapedArray((3,), dtypes.float32)
REAL = sorted(dtypes.ALL - dtypes.COMPLEX, key=str)


class Carrier(Opaque):
    """Takes any parameters and does nothing."""

    name = "test_carrier"
    multiple_results = True

    def shape_rule(self, **params: Any) -> Any:
        return ()

    def reference(self, **params: Any) -> Any:
        return ()

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self.bind(**params), ()

    def batch(self, size: int, args: Any, batched: Any, **params: Any) -> Any:
        return self.bind(**params), ()


carrier = Carrier()


def used_bits(dtype: np.dtype) -> np.uint8:
    """The bits of each byte that elements of the dtype use."""
    if dtype == np.bool_:
        return np.uint8(1)
    return np.uint8((1 << min(dtypes.itemsize_bits(dtype), 8)) - 1)


def through_text(value: Any) -> Any:
    """A parameter's value after printing and parsing."""
    text = str(Jaxpr((), (), (), [Eqn(carrier, (), (), {"p": value})]))
    return parse_jaxpr(text).eqns[0].params["p"]


@pytest.mark.parametrize("dtype", sorted(dtypes.ALL, key=str))
def test_every_bit_pattern_of_a_literal_comes_back(dtype: np.dtype) -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, 40 * dtype.itemsize, np.uint8)
    values = [*(raw & used_bits(dtype)).view(dtype)]
    if not (dtypes.is_integer(dtype) or dtypes.is_bool(dtype)):
        with np.errstate(over="ignore"):
            known = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.1, 1 / 3, 1e-45, 65504, 1e30]
            values += [*np.array(known, np.float64).astype(dtype)]
    for value in values:
        for weak in (False, True):
            literal = Literal(value, ShapedArray((), dtype, weak))
            assert through_literal(literal) is literal


def through_literal(literal: Literal) -> Any:
    return parse_jaxpr(Jaxpr((), (), [literal], ()).as_text()).outvars[0]


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_bit_patterns_of_narrow_floats(dtype: np.dtype) -> None:
    patterns = np.arange(0, 2**16, 41, dtype=np.uint16).view(dtype)
    outs = [Literal(x, ShapedArray((), dtype)) for x in patterns]
    parsed = parse_jaxpr(str(Jaxpr((), (), outs, ())))
    assert all(a is b for a, b in zip(parsed.outvars, outs, strict=True))


@pytest.mark.parametrize(
    "value",
    [
        3, -3, 0.1, -0.0, 1e300, float("inf"), -float("inf"), 1 - 2j, True, False, None,
        "", 'say "hi"\n\\', "naïve # ∂ 'x'", (), (1,), (1, (2.5, ("a", None))), 10**60,
        dtypes.bfloat16, dtypes.bool_, dtypes.float0, VECTOR, ShapedArray((), dtypes.int8, True),
        Literal(2, F32), IndexMap.pad((3,), (1,), (2,), (1,)), (dtypes.int32, VECTOR),
        sys, pytest.raises, Jaxpr((), (), (), ()), (Jaxpr((), (), (), ()), 3),
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value),
)  # fmt: skip
def test_values_of_parameters_come_back(value: Any) -> None:
    found = through_text(value)
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_nan_as_a_parameter() -> None:
    assert np.isnan(through_text(float("nan")))


@pytest.mark.parametrize("make", [random_map, random_structured_map])
def test_index_maps_come_back(make: Any) -> None:
    for seed in range(150):
        index_map = make(seed, seed % 3) if make is random_map else make(seed)
        # A map's own parts may simplify once more.
        again = IndexMap(
            index_map.domain, index_map.codomain, index_map.exprs, index_map.conditions
        )
        assert through_text((index_map, 1)) in ((index_map, 1), (again, 1))


def loss(w: Any, x: Any) -> Any:
    z = jit(lambda a, b: mul(a, add(a, b)))(w, x)
    return reduce_sum(mul(z, z), axes=(0,))


@pytest.mark.parametrize(
    "f", [loss, grad(loss), grad(lambda w, x: reduce_sum(grad(loss)(w, x), axes=(0,)))]
)
def test_programs_come_back(f: Any) -> None:
    closed = make_jaxpr(f)(np.ones(3, np.float32), np.arange(3, dtype=np.float32))
    parsed = parse(str(closed))
    assert isinstance(parsed, ClosedJaxpr)
    assert parsed == closed
    assert str(parsed) == str(closed)
    assert parse_jaxpr(str(closed.jaxpr)) == closed.jaxpr
    assert parse(closed.as_text(source=False)) == closed


def test_batched_programs_come_back() -> None:
    xs = np.ones((4, 3), np.float32)
    closed = make_jaxpr(vmap(grad(loss), in_axes=(0, None)))(xs, xs[0])
    assert parse(str(closed)) == closed


@pytest.mark.parametrize("dtype", sorted(dtypes.ALL, key=str))
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 4), (9, 9)])
def test_constants_come_back(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    size = int(np.prod(shape))
    raw = rng.integers(0, 256, size * dtype.itemsize, np.uint8)
    value = (raw & used_bits(dtype)).view(dtype).reshape(shape)
    x = Var(ShapedArray(shape, dtype))
    closed = ClosedJaxpr(Jaxpr([x], (), [x], ()), [from_numpy(value)])
    parsed = parse(str(closed))
    assert isinstance(parsed, ClosedJaxpr)
    (const,) = parsed.consts
    assert isinstance(const, ConcreteArray)
    assert const.aval is x.aval
    assert const.value.tobytes() == value.tobytes()
    assert parsed == closed


def test_several_weak_and_float0_constants() -> None:
    a, b = Var(ShapedArray((), dtypes.float32, True)), Var(ShapedArray((2,), dtypes.float0))
    consts = [from_numpy(np.float32(3), weak_type=True), from_numpy(np.zeros(2, dtypes.float0))]
    closed = ClosedJaxpr(Jaxpr([a, b], (), [b, a], ()), consts)
    parsed = parse(str(closed))
    assert parsed == closed
    assert isinstance(parsed, ClosedJaxpr)
    assert parsed.consts[0].aval is a.aval


def test_a_program_without_values_for_its_constants_is_a_jaxpr() -> None:
    text = "{ lambda c:f32[3] ; . let in (c,) }"
    parsed = parse(text)
    assert isinstance(parsed, Jaxpr)
    assert parsed == parse_jaxpr(text + " where c = (1.0, 2.0, 3.0)")


def test_source_lines_and_names_come_back() -> None:
    text = textwrap.dedent("""\
        { lambda ; a:f32[3]. let  # loss: w
            b:f32[3] = neg a  # train.py:41 in loss
            c:f32[3] = neg b  # a remark
          in (c,) }""")
    jaxpr = parse_jaxpr(text)
    assert (jaxpr.name, jaxpr.arg_names) == ("loss", ("w",))
    line = jaxpr.eqns[0].source
    assert isinstance(line, FixedLine)
    assert (line.file, line.line, line.function) == ("train.py", 41, "loss")
    assert jaxpr.eqns[1].source is None
    assert str(jaxpr) == text.replace("  # a remark", "")


def test_results_that_nobody_uses() -> None:
    jaxpr = parse_jaxpr("{ lambda ; a:f32[3]. let _:f32[3] = neg a _:f32[3] = add a a in () }")
    assert len(jaxpr.eqns) == 2
    with pytest.raises(ParseError, match="'_' is not defined here"):
        parse("{ lambda ; a:f32[3]. let _:f32[3] = neg a in (_,) }")


def test_objects_of_another_process_must_be_given() -> None:
    text = "{ lambda ; a:f32[3]. let b:f32[3] = jit[jaxpr=@rule#123456] a in (b,) }"
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert "the object @rule#123456 does not exist in this process" in str(raised.value)
    assert "parse(text, objects={'rule#123456': ...})" in str(raised.value)
    inner = Jaxpr((), [x := Var(VECTOR)], [x], ())
    for key in ("rule", "@rule", "rule#123456", "@rule#123456"):
        found = parse_jaxpr(text, objects={key: inner})
        assert found.eqns[0].params["jaxpr"] is inner


def test_errors_show_the_place() -> None:
    text = "{ lambda ; a:f32[3]. let\n    b:f32[3] = mul a q\n  in (b,) }"
    with pytest.raises(ParseError) as raised:
        parse(text)
    lines = str(raised.value).split("\n")
    assert lines[0] == "parse: 'q' is not defined here"
    assert lines[1] == "  got   q at line 2, column 22"
    assert lines[2].strip() == "b:f32[3] = mul a q"
    assert lines[3].index("^") == lines[2].index("q")
    assert lines[4].startswith("  at    test_parsing.py:")
    assert lines[5].startswith("  try   a variable that an input or an earlier equation")


def test_errors_cut_long_lines() -> None:
    text = "{ lambda ; . let in (" + "1.0:f32[], " * 90 + "?) }"
    with pytest.raises(ParseError) as raised:
        parse(text)
    lines = str(raised.value).split("\n")
    assert max(map(len, lines)) < 110
    assert lines[2][lines[3].index("^")] == "?"


BODY = "{{ lambda ; a:f32[3] i:i32[3]. let {} in (a,) }}"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "expected '{' before a program"),
        ("{ lambda ; a:f32[3]. let", "expected an equation, or 'in'"),
        ("{ lambda ; a:f32[3]. let in (a,)", "expected '}' after a program"),
        ("{ lambda ; a:f33[3]. let in (a,) }", "not a dtype"),
        ("{ lambda ; a:f32[-3]. let in (a,) }", "expected the size of an axis"),
        ("{ lambda ; a:f32[3] a:f32[]. let in (a,) }", "'a' is defined twice"),
        ("{ lambda ; in:f32[3]. let in (a,) }", "a reserved word cannot be a variable"),
        ("{ lambda ; a:f32[3]. let in (a,) } x", "expected nothing more after the program"),
        ("{ lambda ; a:f32[3]. let in (a,) } where a", "not a constant of the program"),
        (BODY.format("b:f32[3] = nag a"), "there is no such primitive"),
        (BODY.format("b:f32[3] neg a"), "expected ':' between a variable and its type"),
        (BODY.format("() neg a"), "expected '=' between the results"),
        (BODY.format("a:f32[3] = neg a"), "'a' is defined twice"),
        (BODY.format("b:f32[3] b:f32[3] = neg a"), "'b' is defined twice"),
        (BODY.format("b:f32[3] = add a b"), "'b' is not defined here"),
        (BODY.format("b:f32[3] = add a 2.0"), "expected ':' and a type after a literal"),
        (BODY.format("b:f32[3] = add a 2.0:f32[3]"), "a literal that is not a scalar"),
        (BODY.format("b:f32[3] = add a 1e99:f32[]"), "too large for float32"),
        (BODY.format("b:f32[3] = add a 0x1ffffffff:f32[]"), "more bits than float32 has"),
        (BODY.format("b:i32[3] = add i 1.5:i32[]"), "not a number of this type"),
        (BODY.format("b:i8[3] = add i 128:i8[]"), "does not fit int8"),
        (BODY.format("b:f32[3] = add a -nan:f32[]"), "a number that has no sign"),
        (BODY.format("b:f32[3] = add a True:f32[]"), "not a number of this type"),
        (BODY.format("b:f32[3] = add a complex(1, 2):f32[]"), "a complex number is not"),
        (BODY.format("b:f32[3] = neg[axis] a"), "expected '=' after the name of a parameter"),
        (BODY.format("b:f32[3] = neg[axis=] a"), "expected the value of a parameter"),
        (BODY.format("b:f32[3] = neg[axis=1, axis=2] a"), "a parameter is given twice"),
        (BODY.format("b:f32[3] = neg[axis=(1, 2] a"), "after the values of a tuple"),
        (BODY.format('b:f32[3] = neg[axis="\\x"] a'), "not a string of JSON"),
        (BODY.format('b:f32[3] = neg[axis="x] a'), "a character that no program has"),
        (BODY.format("b:f32[3] = neg[axis=no.such.Enum] a"), "not a member of an enumeration"),
        (BODY.format("b:f32[3] = neg[axis=sys.path.append] a"), "not a member of an enum"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3]: (d1)}] a"), "dimension d1 is not one of"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3]: (d0*d0)}] a"), "only a constant can"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3]: (d0//0)}] a"), "index expression"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3]: ()}] a"), "not an index map"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3]: (d0 |)}] a"), "not an index map"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3]: (d99999)}] a"), "not part of an index map"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3] a"), "not an index map"),
        (BODY.format("b:f32[3] = neg[m={[3] -> [3]: " + "(" * 9999 + "}] a"), "not an index map"),
        (BODY.format("b:f32[3] = neg[p=" + "(" * 9999 + "] a"), "nested more than"),
        (BODY.format("b:f32[3] = neg[p=" + "9" * 9999 + "] a"), "not a number"),
        ("{ lambda c:f32[2] ; . let in () } where d = 1", "not a constant of the program"),
        ("{ lambda c:f32[2] ; . let in () } where", "no value for the constant 'c'"),
        ("{ lambda c:f32[2] ; . let in () } where c = (1, 2, 3)", "3 elements, where 2"),
        ("{ lambda c:f32[2] ; . let in () } where c = 1.0", "1 elements, where 2"),
        ('{ lambda c:f32[2] ; . let in () } where c = hex "00"', "1 bytes, where 8"),
        ('{ lambda c:f32[2] ; . let in () } where c = hex "zz"', "not a value of f32"),
        ("{ lambda c:f32[2] ; . let in () } where c = @Tracer#1", "does not exist in this"),
    ],
)  # fmt: skip
def test_what_is_no_program(text: str, match: str) -> None:
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert match in str(raised.value)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (BODY.format("b:f32[4] = neg a"), "found f32[4], expected f32[3]"),
        (BODY.format("b:f32[3] = add a i"), "the same dtypes"),
        (BODY.format("b:f32[3] = neg[axis=1] a"), "neg does not take these"),
        (BODY.format("b:f32[3] = neg"), "neg"),
        (BODY.format("() = neg a"), "found 0, expected 1"),
    ],
)
def test_programs_that_break_a_rule(text: str, match: str) -> None:
    with pytest.raises(VerificationError) as raised:
        parse(text)
    assert match in str(raised.value)


def fuzz_programs() -> list[str]:
    zero = Literal(0, F32)

    def f(x: Any, w: Any) -> list[Any]:
        padded = pad(x, low=(1,), high=(0,), interior=(1,), fill=zero)
        inner = jit_call(x, w, jaxpr=stage(lambda a, b: [add(a, b)], [VECTOR, VECTOR])[0])
        counts = iota(shape=(2, 3), dtype=dtypes.int32, axis=1)
        most = argmax(x, axis=0, index_dtype=dtypes.int32)
        return [concatenate(padded, *inner, axis=0), counts, most, mul(x, zero)]

    jaxpr, _ = stage(f, [VECTOR, VECTOR])
    closed = make_jaxpr(grad(loss))(np.ones(3, np.float32), np.ones(3, np.float32))
    c = Var(ShapedArray((2,), dtypes.complex64))
    constant = ClosedJaxpr(Jaxpr([c], (), [c], ()), [from_numpy(np.complex64([1, 2j]))])
    index_map = "{ lambda ; . let () = test_carrier[m={[4,5] -> [9]: (d0 + e0(d1, 3)%4 "
    index_map += '| (d0 - [d1 >= 2])//3 == 0)}, n="x", o=(f32, ~i8[2], None)] in () }'
    return [str(jaxpr), str(closed), str(constant), index_map]


def test_mutated_text_gives_no_other_error() -> None:
    rng = random.Random(0)
    texts = fuzz_programs()
    words = "{ } ( ) [ ] , : ; . = ~ - -> // % lambda let in where 0 1 2.5 -1 f32 nan 0x7 a b d0 e1"
    extra = [*words.split(), *'"@#\\?', "\n", "complex", "hex", "@f#1", "None", "9" * 30, "1e999"]
    accepted = 0
    for _ in range(1500):
        text = rng.choice(texts)
        for _ in range(rng.randint(1, 3)):
            i, j = sorted(rng.randrange(len(text) + 1) for _ in range(2))
            j = min(j, i + rng.choice((0, 1, 2, 9)))
            text = text[:i] + rng.choice(("", rng.choice(extra), text[j : j + 7])) + text[j:]
        try:
            parsed = parse(text)
        except (ParseError, VerificationError):
            continue
        accepted += 1
        assert parse(str(parsed)) == parsed
    assert accepted > 20  # mutations in comments and of names change nothing
