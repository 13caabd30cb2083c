"""Scalar expressions into instructions: the primitives' own lowerings (``core/scalars/scalar.py``).

What XLA has no opcode for is written with the operations that ``Primitive.lower`` gives, and those
of the compiler's expansions of functions, each for whole arrays.  Those expansions ask whether this
processor multiplies and adds in one step, so that texts with them can differ between processors.

Start at :func:`write_scalars`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from functrax.backends.kernels.math import EXPANSIONS
from functrax.core.prims.lowered_bits import threefry2x32
from functrax.core.scalars.scalar import MATH, WORD, Builder, Scalar
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.computation import Computation, Node, Shape
from functrax.transforms.hlo.computations.opcodes import OPCODES

#: Numbers that round another to an integer where they are added to it (``kernels/math``).
_SHIFTERS: Final = (1.5 * 2.0**23, 1.5 * 2.0**52)
_COMPARISONS: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def load(b: Builder, number: int, x: Node) -> Scalar:
    """The scalar that stands for an operand in an expression."""
    return b.node("load", x.dtype, (), number)


def write_scalars(
    w: Computation, results: Sequence[Scalar], operands: Sequence[Node], shape: Shape
) -> list[Node]:
    """The arrays of some expressions' values.

    Args:
      w: the computation to write in.
      results: the expressions; :func:`load` stands for an operand in them.
      operands: arrays of the shape.
      shape: of the results.
    """
    return _Writer(w, operands, shape).write(results)


class _Writer:
    """Writes expressions; each of their scalars is one array."""

    def __init__(self, w: Computation, operands: Sequence[Node], shape: Shape) -> None:
        self._w = w
        self._operands = operands
        self._shape = shape
        self._builder = Builder()
        self._nodes: dict[Scalar, Node] = {}
        self._expanded: dict[Scalar, Scalar] = {}

    def write(self, results: Sequence[Scalar]) -> list[Node]:
        """The arrays; expressions are deep, so they are walked with a stack."""
        waiting = list(results)
        while waiting:
            x = waiting[-1]
            if x in self._nodes:
                waiting.pop()
                continue
            missing = [a for a in self._inputs(x) if a not in self._nodes]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            self._nodes[x] = self._node(x)
        return [self._nodes[x] for x in results]

    def _inputs(self, x: Scalar) -> tuple[Scalar, ...]:
        """What must be written before: the operands, or the expansion."""
        if not _is_expanded(x):
            return x.args
        if x not in self._expanded:
            if x.op == WORD:
                found = threefry2x32(self._builder, *x.args[0].args)[x.attr]
            else:
                found = EXPANSIONS[x.op](self._builder, *x.args)
            self._expanded[x] = found
        return (self._expanded[x],)

    def _node(self, x: Scalar) -> Node:
        w = self._w
        if x.op == "const":
            return w.full(self._shape, x.attr, x.dtype)
        if x.op == "load":
            number: int = x.attr
            return self._operands[number]
        args: list[Node] = [self._nodes[a] for a in self._inputs(x)]
        if _is_expanded(x):
            return args[0]
        special = _SPECIAL.get(x.op)
        if special is not None:
            return _kept(w, x, special(w, x, args))
        if x.op in _COMPARISONS:
            return w.compare(x.op.upper(), *args)
        return _kept(w, x, w.op(OPCODES[x.op], ShapedArray(self._shape, x.dtype), *args))


def _is_expanded(x: Scalar) -> bool:
    return (x.op in MATH or x.op == WORD) and x.op not in OPCODES


def _kept(w: Computation, x: Scalar, out: Node) -> Node:
    """A number that is added to be taken away again, to round, behind a barrier.

    XLA would make ``x`` of ``(x + c) - c``.
    """
    if x.op not in ("add", "fma") or not any(a.is_constant and a.attr in _SHIFTERS for a in x.args):
        return out
    return w.members(w.op("opt-barrier", (out.aval,), w.tuple([out])))[0]


def _select(w: Computation, x: Scalar, args: list[Node]) -> Node:
    return w.select(*args)


def _convert(w: Computation, x: Scalar, args: list[Node]) -> Node:
    return w.convert(args[0], x.dtype)


def _bitcast(w: Computation, x: Scalar, args: list[Node]) -> Node:
    return w.op("bitcast-convert", ShapedArray(args[0].shape, x.dtype), args[0])


def _shift_right(w: Computation, x: Scalar, args: list[Node]) -> Node:
    kind = "arithmetic" if x.dtype in dtypes.SIGNED else "logical"
    return w.elementwise(f"shift-right-{kind}", *args)


def _fma(w: Computation, x: Scalar, args: list[Node]) -> Node:
    """Of single precision in double precision, in which the product is exact."""
    wide = [w.convert(a, dtypes.float64) for a in args]
    total = w.elementwise("add", w.elementwise("multiply", *wide[:2]), wide[2])
    return w.convert(total, x.dtype)


def _trunc(w: Computation, x: Scalar, args: list[Node]) -> Node:
    (a,) = args
    negative = w.compare("LT", a, w.full(a.shape, 0, a.dtype))
    return w.select(negative, w.elementwise("ceil", a), w.elementwise("floor", a))


def _copysign(w: Computation, x: Scalar, args: list[Node]) -> Node:
    """By the sign bit, which zeros and NaNs have as well."""
    size, sign = args
    bits = dtypes.int32 if x.dtype == dtypes.float32 else dtypes.int64
    raw = w.op("bitcast-convert", ShapedArray(sign.shape, bits), sign)
    magnitude = w.elementwise("abs", size)
    negative = w.compare("LT", raw, w.full(raw.shape, 0, bits))
    return w.select(negative, w.elementwise("negate", magnitude), magnitude)


def _ldexp(w: Computation, x: Scalar, args: list[Node]) -> Node:
    """``x 2^n``: products by halves of the power, of which one is exact."""
    out, n = args
    mantissa, bias = (23, 127) if x.dtype == dtypes.float32 else (52, 1023)

    def number(value: int) -> Node:
        return w.full(n.shape, value, n.dtype)

    n = w.elementwise("clamp", number(2 - 2 * bias), n, number(2 * bias))
    half = w.elementwise("shift-right-arithmetic", n, number(1))
    for part in (half, w.elementwise("subtract", n, half)):
        biased = w.elementwise("add", part, number(bias))
        bits = w.elementwise("shift-left", biased, number(mantissa))
        power = w.op("bitcast-convert", ShapedArray(n.shape, x.dtype), bits)
        out = w.elementwise("multiply", out, power)
    return out


_SPECIAL: Final[dict[str, Callable[[Computation, Scalar, list[Node]], Node]]] = {
    "select": _select,
    "unlikely": _select,
    "convert": _convert,
    "bitcast": _bitcast,
    "shr": _shift_right,
    "fma": _fma,
    "trunc": _trunc,
    "copysign": _copysign,
    "ldexp": _ldexp,
}
