"""Rules of elementwise primitives: opcodes, and compositions where there is none.

Start at :func:`by_opcode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import (
    analytic,
    arithmetic,
    comparisons as compare,
    convert,
    identity,
    powers,
    rounding,
)
from functrax.core.prims.rounding import RoundingMethod
from functrax.core.scalars.scalar import Builder
from functrax.core.tracing.primitive import Elementwise, Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.complex_inverses import INVERSES
from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.computations.opcodes import OPCODES
from functrax.transforms.hlo.computations.views import (
    ProductView,
    remember,
    view_of,
    with_precision_of,
)
from functrax.transforms.hlo.equations import write_function, write_jaxpr
from functrax.transforms.hlo.rules import rule, unavailable
from functrax.transforms.hlo.scalars import load, write_scalars
from functrax.transforms.operations.checkpoint_name import Name

#: What XLA does not compute for some dtypes: there the lowering is written.
_EXCEPT: Final[dict[Primitive, frozenset[np.dtype[Any]]]] = {
    arithmetic.mul: dtypes.BOOL,
    arithmetic.abs_: dtypes.UNSIGNED,
    arithmetic.sign: dtypes.UNSIGNED,
    powers.cbrt: dtypes.COMPLEX,
}


def spread_all(w: Computation, eqn: Eqn, operands: Sequence[Node]) -> list[Node]:
    """The operands in the result's shape; scalars stand for arrays full of them."""
    shape = eqn.outvars[0].aval.shape
    return [w.spread(x, shape) for x in operands]


@rule(Elementwise)
def by_opcode(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """The opcode, or the lowering where there is none."""
    opcode = OPCODES.get(eqn.primitive.name)
    if opcode is None or operands[0].dtype in _EXCEPT.get(eqn.primitive, ()):
        return by_lowering(w, eqn, operands)
    return [w.op(opcode, eqn.outvars[0].aval, *spread_all(w, eqn, operands))]


@rule(arithmetic.Mul)
def multiply(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A product, which a sum may make a contraction of."""
    (out,) = by_opcode(w, eqn, operands)
    if any(x.shape != out.shape for x in operands):
        return out
    left, right = operands
    asked = view_of(w, left).precision or view_of(w, right).precision
    out = w.alias(out) if asked else out
    w.views[out] = ProductView(left, right)
    return out


def by_lowering(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """The program that the primitive is written as, or its scalar operations."""
    primitive = eqn.primitive
    wide = spread_all(w, eqn, operands)
    avals = tuple(x.aval for x in wide)
    program = primitive.written(avals) if primitive.is_written else None
    if program is not None:
        return write_jaxpr(w, program, wide)
    if not primitive.lowers(avals, eqn.params):
        raise unavailable(eqn, "it has no lowering for these dtypes")
    b = Builder()
    results = primitive.lower(b, *(load(b, k, x) for k, x in enumerate(wide)), **eqn.params)
    results = results if primitive.multiple_results else (results,)
    return write_scalars(w, results, wide, eqn.outvars[0].aval.shape)


@rule(compare.Compare)
def comparison(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A comparison; with a NaN only NE is true."""
    return w.compare(eqn.primitive.name.upper(), *spread_all(w, eqn, operands))


@rule(arithmetic.SelectN)
def select_n(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A select for each case after the first."""
    which, out, *cases = spread_all(w, eqn, operands)
    for number, case in enumerate(cases, 1):
        number_here = which
        if which.dtype != dtypes.bool_:
            number_here = w.compare("EQ", which, w.full(which.shape, number, which.dtype))
        out = w.select(number_here, case, out)
    return out


@rule(arithmetic.StopGradient, Name)
def as_it_is(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """The operand."""
    return operands[0]


@rule(identity.OperandPrecision)
def operand_precision(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """The operand, of which contractions know the precision."""
    (x,) = operands
    return remember(w, x, replace(view_of(w, x), precision=eqn.params["precision"]))


@rule(powers.Square)
def square(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """``x * x``."""
    return w.elementwise("multiply", operands[0], operands[0])


@rule(powers.IntegerPow)
def integer_pow(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Multiplications; the inverse for a negative exponent."""
    (x,) = operands
    exponent = eqn.params["y"]
    one = w.full(x.shape, 1, x.dtype)
    power: Node | None = None
    for digit in f"{abs(exponent):b}":
        power = None if power is None else w.elementwise("multiply", power, power)
        if digit == "1":
            power = x if power is None else w.elementwise("multiply", power, x)
    if power is None:
        return one
    return power if exponent > 0 else w.elementwise("divide", one, power)


@rule(powers.Pow)
def power(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """The exponent in the base's dtype."""
    x, y = spread_all(w, eqn, operands)
    return w.elementwise("power", x, w.convert(y, x.dtype))


@rule(*INVERSES)
def inverse(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """Of real numbers the compiler's own expansion."""
    if not dtypes.is_complex(operands[0].dtype):
        return by_lowering(w, eqn, operands)
    function = INVERSES[type(eqn.primitive)]
    return write_function(w, lambda z: [function(z)], *operands)


@rule(analytic.Exp2)
def exp2(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """A power of 2."""
    (x,) = operands
    return w.elementwise("power", w.full(x.shape, 2, x.dtype), x)


@rule(rounding.Round)
def round_(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """To the nearest integer, ties away from zero or to even."""
    away = eqn.params["rounding_method"] == RoundingMethod.AWAY_FROM_ZERO
    return w.elementwise(f"round-nearest-{'afz' if away else 'even'}", operands[0])


@rule(rounding.ReducePrecision)
def reduce_precision(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Rounded to fewer bits."""
    return w.elementwise("reduce-precision", operands[0], **eqn.params)


@rule(convert.ConvertElementType)
def convert_element_type(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """Another dtype; what is not 0 is true."""
    (x,), dtype = operands, eqn.params["dtype"]
    if dtypes.is_complex(x.dtype) and dtype == dtypes.bool_:
        return w.compare("NE", x, w.full(x.shape, 0, x.dtype))
    return with_precision_of(w, w.convert(x, dtype), x)


@rule(convert.BitcastConvertType)
def bitcast(w: Computation, eqn: Eqn, operands: list[Node]) -> Node:
    """The same bits."""
    (x,) = operands
    aval = eqn.outvars[0].aval
    return x if x.dtype == aval.dtype else w.op("bitcast-convert", aval, x)


@rule(identity.OptimizationBarrier)
def optimization_barrier(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """All operands through one barrier."""
    types = tuple(x.aval for x in operands)
    return w.members(w.op("opt-barrier", types, w.tuple(operands)))


def real_pair(w: Computation, x: Node) -> tuple[Node, ...]:
    """An array as real arrays: itself, or the parts of complex numbers."""
    if not dtypes.is_complex(x.dtype):
        return (x,)
    part = ShapedArray(x.shape, dtypes.real_dtype(x.dtype))
    return w.op("real", part, x), w.op("imag", part, x)
