"""The rules of the language, each with a program that breaks it and the text of the error."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.source import FixedLine
from functrax.core.errors.typed import FunctraxError, ShapeError, VerificationError
from functrax.core.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add, mul, neg
from functrax.core.prims.reduce import reduce_sum
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.syntax.verify import checking, meta_only, verify
from functrax.core.tracing.primitive import Opaque
from functrax.core.tracing.stage import program_observers, stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.staging.jit import jit_call

F32 = ShapedArray((), dtypes.float32)
VECTOR = ShapedArray((3,), dtypes.float32)


def chain(n: int) -> list[Var]:
    return [Var(VECTOR) for _ in range(n)]


def program(eqns: Sequence[Eqn], invars: Sequence[Var], outvars: Sequence[Any]) -> Jaxpr:
    return Jaxpr((), invars, outvars, eqns, "broken")


def refused(jaxpr: Jaxpr) -> str:
    with pytest.raises(VerificationError) as raised:
        verify(jaxpr)
    return str(raised.value)


def test_a_right_program_passes() -> None:
    jaxpr, _ = stage(lambda x: [reduce_sum(mul(x, x), axes=(0,))], [VECTOR])
    verify(jaxpr)
    assert jaxpr.memo["verified"]


def test_double_definition() -> None:
    x, y = chain(2)
    eqns = [Eqn(neg, [x], [y], {}), Eqn(add, [x, y], [y], {})]
    message = refused(program(eqns, [x], [y]))
    assert message.startswith("verify: result 0 of add is defined twice")
    assert "b:f32[3] = add a b" in message
    assert "found another definition of b:f32[3] before, expected a variable of its own" in message


def test_an_input_is_defined_twice() -> None:
    (x,) = chain(1)
    message = refused(program([], [x, x], [x]))
    assert "input 1 is defined twice" in message
    assert "in the program broken" in message


def test_use_before_definition() -> None:
    x, y, z = chain(3)
    source = FixedLine("model.py", 7, "layer")
    eqns = [Eqn(mul, [x, y], [z], {}, source), Eqn(neg, [x], [y], {})]
    message = refused(program(eqns, [x], [z]))
    assert "operand 1 of mul is used before it is defined" in message
    assert "b:f32[3] = mul a c" in message
    assert "which a later equation defines" in message
    assert "model.py:7 in layer" in message


def test_use_out_of_scope() -> None:
    outer, inside, result = chain(3)
    inner = Jaxpr((), (), [inside], [Eqn(neg, [outer], [inside], {})], "inner")
    eqns = [Eqn(jit_call, [], [result], {"jaxpr": inner})]
    message = refused(program(eqns, [outer], [result]))
    assert "operand 0 of neg is not defined" in message
    assert "nothing in this program defines" in message
    assert "an inner program takes outer values as inputs" in message


def test_result_of_the_program_is_not_defined() -> None:
    x, y = chain(2)
    assert "result 0 of the program is not defined" in refused(program([], [x], [y]))


def test_an_inner_program_with_constants() -> None:
    x, c, result = chain(3)
    inner = Jaxpr([c], (), [c], ())
    eqns = [Eqn(jit_call, [], [result], {"jaxpr": inner})]
    assert "parameter jaxpr of jit has constants" in refused(program(eqns, [x], [result]))


def test_an_inner_program_of_other_types() -> None:
    a, x, result = Var(F32), *chain(2)
    inner = Jaxpr((), [a], [a], ())
    message = refused(program([Eqn(jit_call, [x], [result], {"jaxpr": inner})], [x], [result]))
    assert "operands do not fit the program" in message


def test_unknown_primitive() -> None:
    x, y = chain(2)

    class Other:
        name = "mystery"

    message = refused(program([Eqn(Other(), [x], [y], {})], [x], [y]))
    assert "unknown primitive" in message
    assert "found 'mystery', expected a primitive of the registry" in message


def test_an_operand_of_another_kind() -> None:
    x, y = chain(2)
    eqns = [Eqn(neg, [3.0], [y], {})]
    x_error = refused(program(eqns, [x], [y]))
    assert "operand 0 of neg is no operand" in x_error
    assert "found a float, expected a Var or a Literal" in x_error


def test_a_result_that_is_no_variable() -> None:
    (x,) = chain(1)
    one = Literal(1, F32)
    with pytest.raises(VerificationError, match="result 0 of neg is not a variable"):
        verify(program([Eqn(neg, [one], [one], {})], [x], []))


def test_the_wrong_result_type() -> None:
    x, y = Var(VECTOR), Var(ShapedArray((3,), dtypes.float32, True))
    message = refused(program([Eqn(neg, [x], [y], {})], [x], [y]))
    assert "result 0 of neg has another type" in message
    assert "found ~f32[3], expected f32[3]" in message


def test_the_wrong_number_of_results() -> None:
    x, y, z = chain(3)
    message = refused(program([Eqn(neg, [x], [y, z], {})], [x], [y]))
    assert "neg has another number of results" in message
    assert "found 2, expected 1" in message


def test_operands_that_the_primitive_refuses() -> None:
    x, i, y = Var(VECTOR), Var(ShapedArray((3,), dtypes.int32)), Var(VECTOR)
    message = refused(program([Eqn(add, [x, i], [y], {})], [x, i], [y]))
    assert "add requires arguments to have the same dtypes" in message
    assert "found f32[3], i32[3]" in message


@pytest.mark.parametrize(
    "params", [{"axes": (0,), "extra": 1}, {}, {"axes": "x"}, {"axes": (None,)}]
)
def test_parameters_that_the_primitive_refuses(params: dict[str, Any]) -> None:
    x, y = Var(VECTOR), Var(F32)
    assert "reduce_sum" in refused(program([Eqn(reduce_sum, [x], [y], params)], [x], [y]))


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([0], "is not hashable"),
        ({}, "is not hashable"),
        (np.int64(0), "is a NumPy value"),
        ((np.int64(0),), "is a NumPy value"),
        (np.zeros(1), "is a NumPy value"),
    ],
)
def test_parameters_that_are_not_data(value: Any, match: str) -> None:
    x, y = Var(VECTOR), Var(F32)
    message = refused(program([Eqn(reduce_sum, [x], [y], {"axes": value})], [x], [y]))
    assert f"parameter axes of reduce_sum {match}" in message


def test_only_literals_may_be_scalars_among_arrays() -> None:
    x, s, y = Var(VECTOR), Var(F32), Var(VECTOR)
    message = refused(program([Eqn(mul, [x, s], [y], {})], [x, s], [y]))
    assert "operand 1 of mul has another shape" in message
    assert "found b:f32[], expected the shape (3,) of a:f32[3]" in message
    verify(program([Eqn(mul, [x, Literal(2, F32)], [y], {})], [x, s], [y]))


def test_float0_is_in_no_equation() -> None:
    nothing = ShapedArray((3,), dtypes.float0)
    x, y = Var(nothing), Var(nothing)
    verify(program([], [x], [x]))
    assert "neg touches float0" in refused(program([Eqn(neg, [x], [y], {})], [x], [y]))


def test_constants_have_the_type_of_their_variables() -> None:
    x = Var(VECTOR)
    closed = ClosedJaxpr(Jaxpr([x], (), [x], ()), [from_numpy(np.zeros(3, np.int32))])
    with pytest.raises(VerificationError, match="found i32\\[3\\], expected f32\\[3\\]"):
        verify(closed)


def test_an_ill_typed_operation_raises_when_it_is_built() -> None:
    def f(x: Any, y: Any) -> list[Any]:
        return [mul(x, y)]

    with pytest.raises(ShapeError, match="mul: operands have different shapes"):
        stage(f, [VECTOR, ShapedArray((4,), dtypes.float32)])


def test_checking_verifies_what_is_traced_inside() -> None:
    def f(x: Any) -> list[Any]:
        return [neg(x)]

    with checking():
        inside, _ = stage(f, [VECTOR])
    outside, _ = stage(f, [VECTOR])
    assert inside.memo.get("verified")
    assert not outside.memo.get("verified")
    assert verify not in program_observers


class Color(enum.Enum):
    RED = 1


class Identity(Opaque):
    """Outside of the meta-operators; takes any parameters."""

    name = "test_identity"

    def shape_rule(self, x: ShapedArray, **params: Any) -> ShapedArray:
        return x

    def reference(self, x: Any, **params: Any) -> Any:
        return x

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self.bind(*primals, **params), self.bind(*tangents, **params)

    def batch(self, size: int, args: Any, batched: Any, **params: Any) -> Any:
        return self.bind(*args, **params), True


identity = Identity()


def test_meta_only_lists_what_is_no_meta_operator() -> None:
    pure, _ = stage(lambda x: [reduce_sum(mul(x, x), axes=(0,))], [VECTOR])
    assert meta_only(pure) == []
    mixed, _ = stage(lambda x: [neg(identity(x))], [VECTOR])
    outer, _ = stage(lambda x: jit_call(x, jaxpr=mixed), [VECTOR])
    assert [eqn.primitive.name for eqn in meta_only(outer)] == ["test_identity"]
    assert meta_only(ClosedJaxpr(outer, ())) == meta_only(outer)


def test_enumerations_and_objects_are_parameters() -> None:
    def rule() -> None:
        """Any function."""

    jaxpr, _ = stage(lambda x: [identity(x, color=Color.RED, rule=rule, dtype=None)], [VECTOR])
    verify(jaxpr)
    assert f"color={__name__}.Color.RED, rule=@rule#" in str(jaxpr)
    assert parse_jaxpr(str(jaxpr)) == jaxpr


def test_every_refusal_is_one_kind_of_error() -> None:
    assert issubclass(VerificationError, FunctraxError)
