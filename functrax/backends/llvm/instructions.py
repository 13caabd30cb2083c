"""One operation of a scalar expression as LLVM IR text, for any dtype and number of lanes.

What enters is a :class:`~functrax.core.scalars.scalar.Scalar` and the names of its operands; what
leaves are lines such as ``%7 = fadd <16 x float> %5, %6`` and the name of the result.  Writing text
is on the hot path of a compile, so an operation is described once for its dtypes and lanes, as a
:class:`~functrax.backends.llvm.templates.Template` of lines with holes, and then only the holes are
filled in.

Only instructions and intrinsics which become instructions on every target are written: an
intrinsic that the target lacks would end the process.  LLVM declares intrinsics itself; the
remainder of floats, which needs a loop, and a product and a sum that are rounded once, where that
is no instruction, are functions of our own (``llvm/functions/exact.py``).

Start at :func:`emit`; ``_RULES`` lists the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from functrax.backends.llvm.conversions import bitcast, convert
from functrax.backends.llvm.templates import REGISTERS, Template, lane_order, llvm_type
from functrax.backends.targets import target
from functrax.core.scalars.scalar import Scalar

#: What the names of functions of ours begin with; then come the dtype and the number of lanes.
FMA: Final = "functrax.fma"
REMAINDER: Final = "functrax.rem"
#: Powers of two that numbers are multiplied with are larger than minus this, and what comes of NaN
#: is not.
_MOST_POWER: Final = 1 << 20

Rule = Callable[..., str]


def _is_float(t: Template) -> bool:
    return t.source.kind == "f"


def _binary(of_floats: str, of_signed: str, of_unsigned: str = "") -> Rule:
    def rule(t: Template, x: str, y: str) -> str:
        if _is_float(t):
            return t.add(f"{of_floats} {t.type} {x}, {y}")
        op = of_unsigned if of_unsigned and t.source.kind != "i" else of_signed
        return t.add(f"{op} {t.type} {x}, {y}")

    return rule


def _compare(kind: str) -> Rule:
    equality = kind in ("eq", "ne")
    of_floats = "une" if kind == "ne" else f"o{kind}"

    def rule(t: Template, x: str, y: str) -> str:
        if _is_float(t):
            return t.add(f"fcmp {of_floats} {t.type} {x}, {y}")
        sign = "" if equality else "s" if t.source.kind == "i" else "u"
        kind_of_order = kind if equality else sign + kind
        return t.add(f"icmp {kind_of_order} {t.type} {x}, {y}")

    return rule


def _extremum(name: str) -> Rule:
    order = "olt" if name == "min" else "ogt"

    def rule(t: Template, x: str, y: str) -> str:
        if t.source.kind == "b":
            return t.add(f"{'and' if name == 'min' else 'or'} {t.type} {x}, {y}")
        if not _is_float(t):
            return t.call(("s" if t.source.kind == "i" else "u") + name, x, y)
        if t.source.itemsize == 4 and target().has_extremum:
            return t.call(f"{name}imum", x, y)
        # The comparison and the choice are one instruction, which gives x if one is NaN.  So it
        # is y that is looked at: a reduction has it ready before x, what it has so far.
        better = t.add(f"fcmp {order} {t.type} {y}, {x}")
        value = t.add(f"select {t.of('i1')} {better}, {t.type} {y}, {t.type} {x}")
        missing = t.add(f"fcmp uno {t.type} {y}, {y}")
        return t.add(f"select {t.of('i1')} {missing}, {t.type} {y}, {t.type} {value}")

    return rule


def _intrinsic(name: str, extra: str = "") -> Rule:
    return lambda t, *args: t.call(name, *args, extra=extra)


def _negative(t: Template, x: str) -> str:
    if _is_float(t):
        return t.add(f"fneg {t.type} {x}")
    return t.add(f"sub {t.type} {t.splat(0, REGISTERS[t.source])}, {x}")


def _not(t: Template, x: str) -> str:
    ones = "true" if t.source.kind == "b" else "-1"
    if t.lanes > 1:
        ones = f"splat ({REGISTERS[t.source]} {ones})"
    return t.add(f"xor {t.type} {x}, {ones}")


def _select(t: Template, which: str, x: str, y: str) -> str:
    return t.add(f"select {t.of('i1')} {which}, {t.type} {x}, {t.type} {y}")


def _quotient(t: Template, x: str, y: str) -> str:
    """Integers of vectors rounded towards 0.

    There is no such instruction; a float with more than twice as many bits as the integers divides
    them exactly enough that cutting off its fraction gives the quotient.
    """
    element = REGISTERS[t.source]
    wide, back = ("double", "i64") if t.source.itemsize == 4 else ("float", "i32")
    how = "sitofp" if t.source.kind == "i" else "uitofp"
    p, q = t.cast(how, x, element, wide), t.cast(how, y, element, wide)
    ratio = t.add(f"fdiv {t.of(wide)} {p}, {q}")
    return t.cast("trunc", t.cast("fptosi", ratio, wide, back), back, element)


def _one_by_one(op: str, t: Template, x: str, y: str) -> str:
    """Division of integers by the instruction for a single one.

    A divisor of 0, and the least integer over -1, would end the process.  Neither is asked for,
    but code generation may undo a ``select`` that avoids them and compute both sides of it; so the
    divisor is changed by arithmetic, which it leaves alone: 0 and -1 become 1.
    """
    zero = t.add(f"icmp eq {t.type} {y}, {t.splat(0, REGISTERS[t.source])}")
    one = t.add(f"zext {t.of('i1')} {zero} to {t.type}")
    divisor = t.add(f"or {t.type} {y}, {one}")
    if t.source.kind != "i":
        return t.add(f"u{op} {t.type} {x}, {divisor}")
    minus = t.add(f"icmp eq {t.type} {y}, {t.splat(-1, REGISTERS[t.source])}")
    bit = t.add(f"zext {t.of('i1')} {minus} to {t.type}")
    two = t.add(f"shl {t.type} {bit}, {t.splat(1, REGISTERS[t.source])}")
    value = t.add(f"s{op} {t.type} {x}, {t.add(f'add {t.type} {divisor}, {two}')}")
    return value if op == "rem" else _select(t, minus, _negative(t, x), value)


def _div(t: Template, x: str, y: str) -> str:
    if _is_float(t):
        return t.add(f"fdiv {t.type} {x}, {y}")
    by_float = t.lanes > 1 and t.source.itemsize < 8
    return _quotient(t, x, y) if by_float else _one_by_one("div", t, x, y)


def _rem(t: Template, x: str, y: str) -> str:
    if _is_float(t):
        name = f"{REMAINDER}.{t.source.name}.{t.lanes}"
        return t.add(f"call {t.type} @{name}({t.type} {x}, {t.type} {y})")
    if t.lanes == 1 or t.source.itemsize == 8:
        return _one_by_one("rem", t, x, y)
    return t.add(f"sub {t.type} {x}, {t.add(f'mul {t.type} {_quotient(t, x, y)}, {y}')}")


def _times_power_of_two(t: Template, x: str, n: str) -> str:
    """``x 2^n``: an instruction, or two products by halves of the power, of which one is exact.

    What is zero in the end (``|x| < 2``) is zero before: a processor takes a hundred cycles
    and more for a result that underflows, and masks of ``-inf`` make many of them.
    """
    floats, ints = llvm_type(t.dtype, t.lanes), t.type
    integer = REGISTERS[t.source]
    least = 151 if t.source.itemsize == 4 else 1076
    # From -_MOST_POWER to -least; what comes of NaN is far below, and NaN stays.
    above = t.add(f"add {ints} {n}, {t.splat(_MOST_POWER, integer)}")
    vanishes = t.add(f"icmp ule {ints} {above}, {t.splat(_MOST_POWER - least, integer)}")
    zero = t.splat(0, REGISTERS[t.dtype])
    x = t.add(f"select {t.of('i1')} {vanishes}, {floats} {zero}, {floats} {x}")
    if target().has_scaling:
        if t.source.itemsize == 8:
            n, ints = t.cast("trunc", n, "i64", "i32"), t.of("i32")
        name = f"llvm.ldexp.{t.suffix(floats)}.{t.suffix(ints)}"
        return t.add(f"call {floats} @{name}({floats} {x}, {ints} {n})")
    mantissa, one = (23, 127 << 23) if t.source.itemsize == 4 else (52, 1023 << 52)
    half = t.add(f"ashr {ints} {n}, {t.splat(1, integer)}")
    for part in (half, t.add(f"sub {ints} {n}, {half}")):
        shifted = t.add(f"shl {ints} {part}, {t.splat(mantissa, integer)}")
        bits = t.add(f"add {ints} {shifted}, {t.splat(one, integer)}")
        x = t.add(f"fmul {floats} {x}, {t.add(f'bitcast {ints} {bits} to {floats}')}")
    return x


def _fma(t: Template, x: str, y: str, z: str) -> str:
    """An instruction, or a function of the module."""
    if target().has_fma:
        return t.call("fma", x, y, z)
    operands = ", ".join(f"{t.type} {a}" for a in (x, y, z))
    return t.add(f"call {t.type} @{FMA}.{t.dtype.name}.{t.lanes}({operands})")


def _nearly(name: str) -> Rule:
    """An instruction of NVIDIA's GPUs, for float32."""
    return lambda t, x: t.add(f"call float @llvm.nvvm.{name}.approx.ftz.f(float {x})")


def _part(first: int) -> Rule:
    """The real or the imaginary parts of complex numbers."""

    def rule(t: Template, x: str) -> str:
        if t.lanes == 1:
            return t.add(f"extractelement {t.type} {x}, i64 {first}")
        places = lane_order(range(first, 2 * t.lanes, 2))
        return t.add(f"shufflevector {t.type} {x}, {t.type} poison, {places}")

    return rule


def _pairs(t: Template, x: str, y: str) -> str:
    """Complex numbers of their parts."""
    if t.lanes == 1:
        type_ = llvm_type(t.dtype, 1)
        half = t.add(f"insertelement {type_} poison, {t.type} {x}, i64 0")
        return t.add(f"insertelement {type_} {half}, {t.type} {y}, i64 1")
    places = lane_order([n for k in range(t.lanes) for n in (k, k + t.lanes)])
    return t.add(f"shufflevector {t.type} {x}, {t.type} {y}, {places}")


_RULES: Final[dict[str, Rule]] = {
    "add": _binary("fadd", "add"),
    "sub": _binary("fsub", "sub"),
    "mul": _binary("fmul", "mul"),
    "neg": _negative,
    "min": _extremum("min"),
    "max": _extremum("max"),
    "div": _div,
    "rem": _rem,
    "fma": _fma,
    **{name: _intrinsic(name) for name in ("sqrt", "floor", "ceil", "trunc", "copysign")},
    "round_even": _intrinsic("roundeven"),
    "abs": lambda t, x: t.call("fabs", x) if _is_float(t) else t.call("abs", x, extra=", i1 false"),
    **{name: _binary("", name) for name in ("and", "or", "xor", "shl")},
    "not": _not,
    "shr": _binary("", "ashr", "lshr"),
    **{name: _compare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "select": _select,
    "unlikely": _select,
    "convert": convert,
    "bitcast": bitcast,
    "ldexp": _times_power_of_two,
    "real": _part(0),
    "imag": _part(1),
    "complex": _pairs,
    "exp2_near": _nearly("ex2"),
    "log2_near": _nearly("lg2"),
    "reciprocal_near": _nearly("rcp"),
    "rsqrt_near": _nearly("rsqrt"),
    "popcount": _intrinsic("ctpop"),
    "clz": _intrinsic("ctlz", ", i1 false"),
}
#: The operations which :func:`emit` writes.
OPERATIONS: Final = frozenset(_RULES)
_Filled = tuple[tuple[str, ...], int]  # the lines, and which hole is the result
#: By the instructions that a target has, then by operation, dtypes and lanes.
_TEMPLATES: Final[dict[frozenset[str], dict[Any, _Filled]]] = {}


def emit(
    node: Scalar,
    operands: Sequence[str],
    lanes: int,
    fresh: Callable[[], str],
    lines: list[str],
) -> str:
    """Appends the instructions of an operation to ``lines``.

    Args:
      node: an operation of ``OPERATIONS``.
      operands: the names (or constants) that are its operands.
      lanes: how many elements a register holds.
      fresh: gives a name that is not used yet, such as ``%7``.
      lines: where the instructions go, indented by two spaces.

    Returns:
      The name of the result; that of an operand if there is nothing to do.
    """
    templates = _TEMPLATES.setdefault(target().functions, {})
    key = (node.op, node.dtype.num, node.args[-1].dtype.num, lanes)
    template = templates.get(key)
    if template is None:
        t = Template(node.dtype, node.args[-1].dtype, len(node.args), lanes)
        result = _RULES[node.op](t, *(f"{{{k}}}" for k in range(len(node.args))))
        template = templates[key] = tuple(t.lines), int(result[1:-1])
    names = list(operands)
    for line in template[0]:
        name = fresh()
        lines.append(f"  {name} = {line.format(*names)}")
        names.append(name)
    return names[template[1]]
