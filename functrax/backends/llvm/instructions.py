"""One operation of a scalar expression as LLVM IR text, for any dtype and number of lanes.

What enters is a :class:`~functrax.core.scalars.scalar.Scalar` and the names of its operands; what
leaves are lines such as ``%7 = fadd <16 x float> %5, %6`` and the name of the result.  Writing text
is on the hot path of a compile, so an operation is described once for its dtypes and lanes, as a
:class:`Template` of lines with holes, and then only the holes are filled in.

Values in registers: a bool is ``i1``; float16 and bfloat16 are ``i16``, stored dtypes ``i8``, their
bits, for they are only ever loaded, converted, chosen and stored (arithmetic is done in float32).
Thus LLVM is never asked for arithmetic that a CPU may lack, which it would turn into calls of a
library.

Only instructions and intrinsics which become instructions on every target are written: an
intrinsic that the target lacks would end the process.  LLVM declares intrinsics itself; the
remainder of floats, which needs a loop, and a product and a sum that are rounded once, where that
is no instruction, are functions of our own, which :func:`definitions` adds to a module that calls
them.

Start at :func:`emit`; ``_RULES`` lists the operations.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from functrax.backends.llvm.fma import BY_INTEGERS, FMA, fma_function
from functrax.backends.llvm.remainder import REMAINDER, remainder_function
from functrax.backends.targets import target
from functrax.core.errors.typed import DTypeError
from functrax.core.scalars.scalar import Scalar
from functrax.core.types import dtypes

_REGISTERS: Final[dict[np.dtype[Any], str]] = {
    dtypes.bool_: "i1",
    **{d: f"i{8 * d.itemsize}" for d in dtypes.INTEGER | dtypes.NARROW},
    dtypes.float32: "float",
    dtypes.float64: "double",
}
#: A complex number is a vector of its two parts; several are in turn what is in memory.
_PARTS: Final = {dtypes.complex64: "float", dtypes.complex128: "double"}
#: Powers of two that numbers are multiplied with are larger than minus this.
_MOST_POWER: Final = 1 << 20
_SUFFIXES: Final = {"half": "f16", "float": "f32", "double": "f64"}


@cache
def llvm_type(dtype: np.dtype[Any], lanes: int) -> str:
    """The type of ``lanes`` elements of a dtype in registers; of one lane no vector."""
    if dtype in _PARTS:
        return f"<{2 * lanes} x {_PARTS[dtype]}>"
    element = _REGISTERS.get(dtype)
    if element is None:
        raise DTypeError(
            "a kernel computes with bools, integers, floats and complex numbers",
            got=str(dtype),
            fix="leave it to the reference",
        )
    return _vector(element, lanes)


def _vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def constant(number: Any, dtype: np.dtype[Any], lanes: int) -> str:
    """A number in every lane, to be written after its type."""
    if dtype in dtypes.STORED:
        text = str(int(np.asarray(number, dtype).view(np.uint8)))
    elif dtype.kind == "f" and dtype.itemsize > 2:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    elif dtype in dtypes.HALF:
        text = str(int(np.asarray(number, dtype).view(np.uint16)))
    elif dtype.kind == "b":
        text = "true" if number else "false"
    else:
        text = str(int(number))
    return text if lanes == 1 else f"splat ({_REGISTERS[dtype]} {text})"


class Template:
    """The lines of an operation, with holes.

    Hole ``{k}`` stands for the k-th operand, and after the operands for the k-th result.

    Attributes:
      dtype: of the result.
      source: the dtype of the first operand, or of the second one of a ``select``.
      type: what LLVM calls ``source``.
      lanes: number of elements.
      lines: the right hand sides so far.
    """

    def __init__(
        self, dtype: np.dtype[Any], source: np.dtype[Any], operands: int, lanes: int
    ) -> None:
        self.dtype = dtype
        self.source = source
        self.type = llvm_type(source, lanes)
        self.operands = operands
        self.lanes = lanes
        self.lines: list[str] = []

    def add(self, line: str) -> str:
        """Adds an instruction; the hole of its result."""
        self.lines.append(line)
        return f"{{{self.operands + len(self.lines) - 1}}}"

    def of(self, element: str) -> str:
        """The type of as many ``element``."""
        return _vector(element, self.lanes)

    def call(self, name: str, *args: str, type: str = "", extra: str = "") -> str:
        """Calls an intrinsic overloaded on one type."""
        type = type or self.type
        operands = ", ".join(f"{type} {a}" for a in args)
        return self.add(f"call {type} @llvm.{name}.{self.suffix(type)}({operands}{extra})")

    def suffix(self, type: str) -> str:
        """What stands for a type in the name of an intrinsic."""
        element = type.rpartition(" ")[2].rstrip(">")
        short = _SUFFIXES.get(element, element)
        return short if self.lanes == 1 else f"v{self.lanes}{short}"

    def cast(self, how: str, x: str, source: str, target: str) -> str:
        """Converts between types named by their elements."""
        return self.add(f"{how} {self.of(source)} {x} to {self.of(target)}")

    def splat(self, number: float, element: str) -> str:
        """A number in every lane."""
        # Registers of integers hold unsigned ones and halves too; one text in every process.
        others = dtypes.HALF | dtypes.UNSIGNED | dtypes.STORED
        fit = (d for d, name in _REGISTERS.items() if name == element and d not in others)
        dtype = next(fit)
        return constant(number, dtype, self.lanes)


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
    return t.add(f"sub {t.type} {t.splat(0, _REGISTERS[t.source])}, {x}")


def _absolute(t: Template, x: str) -> str:
    return t.call("fabs", x) if _is_float(t) else t.call("abs", x, extra=", i1 false")


def _not(t: Template, x: str) -> str:
    ones = "true" if t.source.kind == "b" else "-1"
    if t.lanes > 1:
        ones = f"splat ({_REGISTERS[t.source]} {ones})"
    return t.add(f"xor {t.type} {x}, {ones}")


def _select(t: Template, which: str, x: str, y: str) -> str:
    return t.add(f"select {t.of('i1')} {which}, {t.type} {x}, {t.type} {y}")


def _quotient(t: Template, x: str, y: str) -> str:
    """Integers of vectors rounded towards 0.

    There is no such instruction; a float with more than twice as many bits as the integers divides
    them exactly enough that cutting off its fraction gives the quotient.
    """
    element = _REGISTERS[t.source]
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
    zero = t.add(f"icmp eq {t.type} {y}, {t.splat(0, _REGISTERS[t.source])}")
    one = t.add(f"zext {t.of('i1')} {zero} to {t.type}")
    divisor = t.add(f"or {t.type} {y}, {one}")
    if t.source.kind != "i":
        return t.add(f"u{op} {t.type} {x}, {divisor}")
    minus = t.add(f"icmp eq {t.type} {y}, {t.splat(-1, _REGISTERS[t.source])}")
    bit = t.add(f"zext {t.of('i1')} {minus} to {t.type}")
    two = t.add(f"shl {t.type} {bit}, {t.splat(1, _REGISTERS[t.source])}")
    value = t.add(f"s{op} {t.type} {x}, {t.add(f'add {t.type} {divisor}, {two}')}")
    return value if op == "rem" else _select(t, minus, _negative(t, x), value)


def _div(t: Template, x: str, y: str) -> str:
    if _is_float(t):
        return t.add(f"fdiv {t.type} {x}, {y}")
    if t.lanes == 1 or t.source.itemsize == 8:
        return _one_by_one("div", t, x, y)
    return _quotient(t, x, y)


def _rem(t: Template, x: str, y: str) -> str:
    if _is_float(t):
        name = f"{REMAINDER}.{t.source.name}.{t.lanes}"
        return t.add(f"call {t.type} @{name}({t.type} {x}, {t.type} {y})")
    if t.lanes == 1 or t.source.itemsize == 8:
        return _one_by_one("rem", t, x, y)
    product = t.add(f"mul {t.type} {_quotient(t, x, y)}, {y}")
    return t.add(f"sub {t.type} {x}, {product}")


def _bitcast(t: Template, x: str) -> str:
    source, target = _REGISTERS[t.source], _REGISTERS[t.dtype]
    return x if source == target else t.cast("bitcast", x, source, target)


def _convert(t: Template, x: str) -> str:
    source, target = t.source, t.dtype
    if source in dtypes.HALF:  # by way of float32
        x, source = _widened(t, x), dtypes.float32
    if target not in dtypes.HALF:
        return _to(t, x, source, target)
    if target == dtypes.float16 and source == dtypes.float64:
        return _rounded_to_half(t, _rounded_to_odd(t, x))
    x = _to(t, x, source, dtypes.float32)
    return _rounded_to_half(t, x) if target == dtypes.float16 else _rounded_to_bfloat(t, x)


def _to(t: Template, x: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """From bools, integers, float32 and float64 to the latter three."""
    if source == target:
        return x
    have, want = _REGISTERS[source], _REGISTERS[target]
    if source.kind == "b":
        if target.kind != "f":
            return t.cast("zext", x, have, want)
        type = t.of(want)
        one, zero = t.splat(1, want), t.splat(0, want)
        return t.add(f"select {t.of('i1')} {x}, {type} {one}, {type} {zero}")
    if source.kind == "f" and target.kind == "f":
        if have == "float":
            return t.cast("fpext", x, have, want)
        # Without a fence LLVM rounds once where a float16 follows, by a function of a library.
        return t.call("arithmetic.fence", t.cast("fptrunc", x, have, want), type=t.of(want))
    if target.kind == "f":
        return t.cast("sitofp" if source.kind == "i" else "uitofp", x, have, want)
    if source.kind == "f":
        return _saturated(t, x, source, target)
    if source.itemsize == target.itemsize:
        return x
    if source.itemsize > target.itemsize:
        return t.cast("trunc", x, have, want)
    return t.cast("sext" if source.kind == "i" else "zext", x, have, want)


def _saturated(t: Template, x: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """The integer of a float32 or float64 rounded towards 0; the nearest there is, and 0 of NaN.

    Out of range the conversion has no value, but then it is not chosen.  (LLVM's own saturating
    conversion takes vectors apart.)
    """
    info, have, want = np.iinfo(target), _REGISTERS[source], _REGISTERS[target]
    floats, ints, bools, zero = t.of(have), t.of(want), t.of("i1"), t.splat(0, want)
    sign = "u" if target.kind == "u" and target.itemsize >= 4 else "s"
    work = want if target.itemsize >= 4 else "i32"
    value = t.cast(f"fpto{sign}i", x, have, work)
    if work != want:
        value = t.cast("trunc", value, work, want)
    above = t.add(f"fcmp oge {floats} {x}, {t.splat(float(info.max + 1), have)}")
    largest = constant(info.max, target, t.lanes)
    value = t.add(f"select {bools} {above}, {ints} {largest}, {ints} {value}")
    if target.kind == "u":
        inside = t.add(f"fcmp ogt {floats} {x}, {t.splat(0, have)}")
        return t.add(f"select {bools} {inside}, {ints} {value}, {ints} {zero}")
    below = t.add(f"fcmp olt {floats} {x}, {t.splat(float(info.min), have)}")
    least = constant(info.min, target, t.lanes)
    value = t.add(f"select {bools} {below}, {ints} {least}, {ints} {value}")
    missing = t.add(f"fcmp uno {floats} {x}, {x}")
    return t.add(f"select {bools} {missing}, {ints} {zero}, {ints} {value}")


def _widened(t: Template, x: str) -> str:
    """The float32 of the bits of a float16 or bfloat16."""
    if t.source == dtypes.float16:
        return t.cast("fpext", t.cast("bitcast", x, "i16", "half"), "half", "float")
    wide = t.cast("zext", x, "i16", "i32")
    high = t.add(f"shl {t.of('i32')} {wide}, {t.splat(16, 'i32')}")
    return t.cast("bitcast", high, "i32", "float")


def _rounded_to_half(t: Template, x: str) -> str:
    return t.cast("bitcast", t.cast("fptrunc", x, "float", "half"), "half", "i16")


def _rounded_to_bfloat(t: Template, x: str) -> str:
    """The upper bits of a float32, rounded to the nearest, ties to even; NaN stays NaN."""
    ints, half = t.of("i32"), t.splat(16, "i32")
    bits = t.cast("bitcast", x, "float", "i32")
    upper = t.add(f"lshr {ints} {bits}, {half}")
    odd = t.add(f"and {ints} {upper}, {t.splat(1, 'i32')}")
    carry = t.add(f"add {ints} {odd}, {t.splat(0x7FFF, 'i32')}")
    total = t.add(f"add {ints} {bits}, {carry}")
    rounded = t.add(f"lshr {ints} {total}, {half}")
    quiet = t.add(f"or {ints} {upper}, {t.splat(0x40, 'i32')}")
    missing = t.add(f"fcmp uno {t.of('float')} {x}, {x}")
    value = t.add(f"select {t.of('i1')} {missing}, {ints} {quiet}, {ints} {rounded}")
    return t.cast("trunc", value, "i32", "i16")


def _rounded_to_odd(t: Template, x: str) -> str:
    """The float32 nearest to a float64 towards 0, its last bit set unless that is exact.

    Rounding it once more, to fewer bits, is then the same as rounding once.
    """
    doubles, ints = t.of("double"), t.of("i32")
    near = t.cast("fptrunc", x, "double", "float")
    back = t.cast("fpext", near, "float", "double")
    larger = t.add(
        f"fcmp ogt {doubles} {t.call('fabs', back, type=doubles)}, "
        f"{t.call('fabs', x, type=doubles)}"
    )
    inexact = t.add(f"fcmp une {doubles} {back}, {x}")
    bits = t.cast("bitcast", near, "float", "i32")
    below = t.add(f"add {ints} {bits}, {t.cast('sext', larger, 'i1', 'i32')}")
    odd = t.add(f"or {ints} {below}, {t.cast('zext', inexact, 'i1', 'i32')}")
    return t.cast("bitcast", odd, "i32", "float")


def _times_power_of_two(t: Template, x: str, n: str) -> str:
    """``x 2^n``: an instruction, or two products by halves of the power, of which one is exact.

    What is zero in the end (``|x| < 2``) is zero before: a processor takes a hundred cycles
    and more for a result that underflows, and masks of ``-inf`` make many of them.
    """
    floats, ints = llvm_type(t.dtype, t.lanes), t.type
    integer = _REGISTERS[t.source]
    least = 151 if t.source.itemsize == 4 else 1076
    # From -_MOST_POWER to -least; what comes of NaN is far below, and NaN stays.
    above = t.add(f"add {ints} {n}, {t.splat(_MOST_POWER, integer)}")
    vanishes = t.add(f"icmp ule {ints} {above}, {t.splat(_MOST_POWER - least, integer)}")
    zero = t.splat(0, _REGISTERS[t.dtype])
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


def _part(first: int) -> Rule:
    """The real or the imaginary parts of complex numbers."""

    def rule(t: Template, x: str) -> str:
        if t.lanes == 1:
            return t.add(f"extractelement {t.type} {x}, i64 {first}")
        places = ", ".join(f"i32 {k}" for k in range(first, 2 * t.lanes, 2))
        return t.add(f"shufflevector {t.type} {x}, {t.type} poison, <{t.lanes} x i32> <{places}>")

    return rule


def _pairs(t: Template, x: str, y: str) -> str:
    """Complex numbers of their parts."""
    if t.lanes == 1:
        type_ = llvm_type(t.dtype, 1)
        half = t.add(f"insertelement {type_} poison, {t.type} {x}, i64 0")
        return t.add(f"insertelement {type_} {half}, {t.type} {y}, i64 1")
    places = ", ".join(f"i32 {k}, i32 {k + t.lanes}" for k in range(t.lanes))
    return t.add(f"shufflevector {t.type} {x}, {t.type} {y}, <{2 * t.lanes} x i32> <{places}>")


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
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round_even": _intrinsic("roundeven"),
    "abs": _absolute,
    "copysign": _intrinsic("copysign"),
    **{name: _binary("", name) for name in ("and", "or", "xor", "shl")},
    "not": _not,
    "shr": _binary("", "ashr", "lshr"),
    **{name: _compare(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "select": _select,
    "unlikely": _select,
    "convert": _convert,
    "bitcast": _bitcast,
    "ldexp": _times_power_of_two,
    "real": _part(0),
    "imag": _part(1),
    "complex": _pairs,
    "popcount": _intrinsic("ctpop"),
    "clz": _intrinsic("ctlz", ", i1 false"),
}

#: The operations which :func:`emit` writes.
OPERATIONS: Final = frozenset(_RULES)

_Filled = tuple[tuple[str, ...], int]  # the lines, and which hole is the result
_TEMPLATES: Final[dict[Any, _Filled]] = {}


def _template(node: Scalar, lanes: int) -> _Filled:
    operands = len(node.args)
    source = node.args[-1].dtype
    t = Template(node.dtype, source, operands, lanes)
    result = _RULES[node.op](t, *(f"{{{k}}}" for k in range(operands)))
    return tuple(t.lines), int(result[1:-1])


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
    key = (node.op, node.dtype.num, node.args[-1].dtype.num, lanes)
    template = _TEMPLATES.get(key)
    if template is None:
        template = _TEMPLATES[key] = _template(node, lanes)
    names = list(operands)
    for line in template[0]:
        name = fresh()
        lines.append(f"  {name} = {line.format(*names)}")
        names.append(name)
    return names[template[1]]


def definitions(text: str) -> str:
    """The functions of ours which a module's text calls, directly or by others of them."""
    found = []
    if REMAINDER in text:
        used = _called(REMAINDER, text)
        if any(name == "float32" for name, _ in used):  # which calls that of float64
            used = sorted({*used, *(("float64", lanes) for _, lanes in used)})
        fused = target().has_fma
        found += [remainder_function(name, int(lanes), fused) for name, lanes in used]
    if FMA in text or (found and not target().has_fma):
        used = _called(FMA, "\n".join([text, *found]))
        found += [fma_function(name, int(lanes)) for name, lanes in used]
        if any(name == "float64" for name, _ in used):
            found.append(BY_INTEGERS)
    return "\n".join(found)


def _called(prefix: str, text: str) -> list[tuple[str, str]]:
    """Dtypes and numbers of lanes of the functions that are called."""
    return sorted(set(re.findall(rf"call [^@]*@{prefix}\.(\w+)\.(\d+)\(", text)))
