"""PTX ISA 9.7.6 and 9.7.7, Comparison and Selection, and 9.7.8, Logic and Shift Instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder, opcode
from functrax.backends.cuda.simulator.instructions.floats import element
from functrax.backends.cuda.simulator.instructions.rounding import F16, F32, flush, widen_bf16
from functrax.backends.cuda.simulator.syntax import BOOL, TYPES, Array, Instruction, Type

PtxFunction: TypeAlias = Callable[..., Any]

_PRED, _B32, _U32 = TYPES["pred"], TYPES["b32"], TYPES["u32"]
#: Ordered comparisons, false for NaN but for ``ne``, which PTX has as false too.
_COMPARISONS: Final[dict[str, PtxFunction]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    # of unsigned integers
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    # true for NaN
    "equ": lambda x, y: ~((x < y) | (x > y)),
    "neu": np.not_equal,
    "ltu": lambda x, y: ~(x >= y),
    "leu": lambda x, y: ~(x > y),
    "gtu": lambda x, y: ~(x <= y),
    "geu": lambda x, y: ~(x < y),
    "num": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    "nan": lambda x, y: np.isnan(x) | np.isnan(y),
}
_COMBINED: Final[dict[str, PtxFunction]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def _comparison(d: Decoder, kind: Type) -> tuple[PtxFunction, str]:
    """A comparison of a type's values, and the boolean operation that follows or ''."""
    modifiers = d.instruction.parts[1:]
    names = [x for x in modifiers if x in _COMPARISONS]
    combine = next((x for x in modifiers if x in _COMBINED), "")
    if len(names) != 1:
        raise d.error("no comparison")
    name = names[0]
    floating = kind.kind not in ("u", "s", "b")
    if name in ("lo", "ls", "hi", "hs") and kind.kind not in ("u", "b"):
        raise d.error(f"comparison .{name} of .{kind.name}")
    fn = _COMPARISONS[name]
    if name == "ne" and floating:
        fn = _ordered_ne
    if "ftz" in modifiers and kind.name == "f32":
        fn = _after(flush, fn)
    if element(kind) == "bf16":
        fn = _after(widen_bf16, fn)
    return fn, combine


def _after(first: PtxFunction, compare: PtxFunction) -> PtxFunction:
    return lambda x, y: compare(first(x), first(y))


def _ordered_ne(x: Array, y: Array) -> Array:
    return (x < y) | (x > y)


@opcode("setp")
def _setp(d: Decoder, i: Instruction) -> None:
    """setp: p = (a op b) bool c, q = !(a op b) bool c."""
    known = (*_COMPARISONS, *_COMBINED, "ftz")
    d.only(*known)
    kind = d.type()
    operands = d.operands(3, 4)
    fn, combine = _comparison(d, kind)
    first, second = d.pair(operands[0])
    read = [(d.source(x, kind), kind.dtype) for x in operands[1:3]]
    if kind.kind in ("f16x2", "bf16x2"):
        _setp_packed(d, kind, fn, first, second, read, combine)
        return
    if len(operands) == 3:
        if combine:
            raise d.error("a boolean operation without a predicate")
        target = d.target(first, _PRED)
        d.pure(fn, (target,), read)
        if second is not None:
            d.pure(np.logical_not, (d.target(second, _PRED),), [(target, BOOL)], later=True)
        return
    join = _COMBINED[combine]
    read.append((d.source(operands[3], _PRED), BOOL))

    def both(x: Array, y: Array, c: Array) -> tuple[Array, Array]:
        result = fn(x, y)
        return join(result, c), join(~result, c)

    other = d.temporary() if second is None else d.target(second, _PRED)
    d.pure(both, (d.target(first, _PRED), other), read)


def _setp_packed(
    d: Decoder, kind: Type, fn: PtxFunction, low: Any, high: Any, read: Any, combine: str
) -> None:
    """Setp of packed halves: p of the lower ones, q of the upper ones."""
    if combine or high is None:
        raise d.error("setp of packed halves takes two predicates and no third operand")
    dtype = F16 if kind.name == "f16x2" else np.dtype("u2")

    def both(x: Array, y: Array) -> tuple[Array, Array]:
        a, b = (np.ascontiguousarray(v).view(dtype).reshape(-1, 2) for v in (x, y))
        result = fn(a, b)
        return result[:, 0].copy(), result[:, 1].copy()

    d.pure(both, (d.target(low, _PRED), d.target(high, _PRED)), read)


@opcode("set")
def _set(d: Decoder, i: Instruction) -> None:
    """set: all ones, or 1.0 for floating-point results, where setp is true; else 0."""
    d.only(*_COMPARISONS, *_COMBINED, "ftz", types=2)
    to, kind = d.type(-2), d.type(-1)
    operands = d.operands(3, 4)
    fn, combine = _comparison(d, kind)
    packed = kind.kind in ("f16x2", "bf16x2")
    if packed or to.kind == "bf":
        raise d.error("set of halves is not supported")
    ones = to.dtype.type(1) if to.kind == "f" else ~to.dtype.type(0)
    read = [(d.source(x, kind), kind.dtype) for x in operands[1:3]]
    zero = to.dtype.type(0)
    if len(operands) == 4:
        join = _COMBINED[combine]
        read.append((d.source(operands[3], _PRED), BOOL))
        d.pure(
            lambda x, y, c: np.where(join(fn(x, y), c), ones, zero),
            (d.target(operands[0], to),),
            read,
        )
    else:
        d.pure(lambda x, y: np.where(fn(x, y), ones, zero), (d.target(operands[0], to),), read)


@opcode("selp")
def _selp(d: Decoder, i: Instruction) -> None:
    """selp: d = c ? a : b."""
    d.only()
    kind = d.type()
    target, a, b, c = d.operands(4)
    read = [(d.source(c, _PRED), BOOL)]
    read += [(d.source(a, kind), kind.dtype), (d.source(b, kind), kind.dtype)]
    d.pure(np.where, (d.target(target, kind),), read)


@opcode("slct")
def _slct(d: Decoder, i: Instruction) -> None:
    """slct: d = c >= 0 ? a : b; b for NaN."""
    ftz = "ftz" in d.only("ftz", types=2)
    kind, by = d.type(-2), d.type(-1)
    d.simple(
        lambda x, y, z: np.where((flush(z) if ftz and z.dtype == F32 else z) >= 0, x, y),
        kind,
        kind,
        kind,
        by,
    )


_LOGIC: Final = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@opcode("and", "or", "xor", "not", "cnot")
def _logic(d: Decoder, i: Instruction) -> None:
    """and, or, xor, not: bit by bit, of predicates too; cnot: 1 for 0 and else 0."""
    d.only()
    kind, name = d.type(), i.parts[0]
    if name == "not":
        d.simple(np.invert, kind, kind)
    elif name == "cnot":
        d.simple(lambda x: (x == 0).astype(kind.dtype), kind, kind)
    else:
        d.simple(_LOGIC[name], kind, kind, kind)


def _table(value: int) -> PtxFunction:
    """lop3: bit k of the table is the result for a's, b's and c's bits as k = 4a + 2b + c."""

    def look_up(a: Array, b: Array, c: Array) -> Array:
        result = np.zeros(1, np.uint32)
        for k in range(8):
            if value >> k & 1:
                term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
                result = result | term
        return result

    return look_up


@opcode("lop3")
def _lop3(d: Decoder, i: Instruction) -> None:
    """lop3: any function of the bits of three operands."""
    if d.only():
        raise d.error("lop3 with a predicate is not supported")
    target, a, b, c, table = d.operands(5)
    read = [(d.source(x, _B32), _B32.dtype) for x in (a, b, c)]
    d.pure(_table(int(table.value) & 0xFF), (d.target(target, _B32),), read)


@opcode("shl", "shr")
def _shift(d: Decoder, i: Instruction) -> None:
    """shl, shr: shifts past the width give 0, or the sign for shr of signed types."""
    d.only()
    kind = d.type()
    left = i.parts[0] == "shl"
    bits, dtype = kind.bits, kind.dtype
    target, a, b = d.operands(3)
    ufunc = np.left_shift if left else np.right_shift

    def shift(x: Array, by: Array) -> Array:
        if kind.kind == "s" and not left:
            by = np.minimum(by, bits - 1)
        result: Array = ufunc(x, by.astype(dtype))
        if int(by.max()) < bits:
            return result
        return np.where(by >= bits, dtype.type(0), result)

    read = [(d.source(a, kind), dtype), (d.source(b, _U32), _U32.dtype)]
    d.pure(shift, (d.target(target, kind),), read)


@opcode("shf")
def _shf(d: Decoder, i: Instruction) -> None:
    """shf: shifts the 64 bits b:a; .l gives the upper half, .r the lower one."""
    modifiers = d.only("l", "r", "clamp", "wrap")
    wide, half = np.dtype("u8"), np.uint64(32)

    def shift(a: Array, b: Array, c: Array) -> Array:
        by = np.minimum(c, 32) if "clamp" in modifiers else c & np.uint32(31)
        both = (b.astype(wide) << half) | a
        if "l" in modifiers:
            return ((both << by.astype(wide)) >> half).astype(np.uint32)
        return (both >> by.astype(wide)).astype(np.uint32)

    d.simple(shift, _B32, _B32, _B32, _U32)


_PRMT_MODES: Final = {
    "f4e": lambda k: [k, k + 1, k + 2, k + 3],
    "b4e": lambda k: [k, (k + 7) % 8, (k + 6) % 8, (k + 5) % 8],
    "rc8": lambda k: [k] * 4,
    "ecl": lambda k: [max(k, j) for j in range(4)],
    "ecr": lambda k: [min(k, j) for j in range(4)],
    "rc16": lambda k: [2 * (k & 1), 2 * (k & 1) + 1] * 2,
}


@opcode("prmt")
def _prmt(d: Decoder, i: Instruction) -> None:
    """PTX ISA 9.7.9: prmt: picks four bytes of b:a; bit 3 of a selector gives the byte's sign."""
    modes = d.only("b32", *_PRMT_MODES, types=0) - {"b32"}

    def octet(both: Array, place: Array) -> Array:
        result: Array = (both >> (place.astype(np.uint64) * np.uint64(8))) & np.uint64(0xFF)
        return result

    def permute(a: Array, b: Array, c: Array) -> Array:
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros(1, np.uint64)
        for j in range(4):
            if modes:
                (mode,) = modes
                table = np.array([_PRMT_MODES[mode](k)[j] % 8 for k in range(4)], np.uint64)
                value = octet(both, table[(c & np.uint32(3)).astype(np.intp)])
            else:
                selector = (c >> np.uint32(4 * j)) & np.uint32(0xF)
                value = octet(both, selector & np.uint32(7))
                sign = np.where(value & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
                value = np.where(selector & np.uint32(8), sign, value)
            result = result | (value << np.uint64(8 * j))
        return result.astype(np.uint32)

    d.simple(permute, _B32, _B32, _B32, _B32)
