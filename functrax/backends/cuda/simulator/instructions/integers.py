"""PTX ISA 9.7.1, Integer Arithmetic Instructions, and 9.7.2, Extended-Precision Integer Arithmetic.

Sums and products wrap.  A quotient by zero is all ones and its remainder the dividend, as GPUs
give it; the manual leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder, opcode
from functrax.backends.cuda.simulator.instructions.floats import float_operation, on_elements
from functrax.backends.cuda.simulator.syntax import (
    BOOL,
    TYPES,
    Array,
    Instruction,
    Type,
)

_U32, _B32 = TYPES["u32"], TYPES["b32"]


def _doubled(kind: Type) -> Type:
    name = f"{kind.kind}{2 * kind.bits}"
    return TYPES[name]


@opcode("add", "sub")
def _add(d: Decoder, i: Instruction) -> None:
    """add: d = a + b; sub: d = a - b; .sat clamps to the range of s32; .cc sets the carry."""
    kind = d.type()
    if float_operation(d, i, kind):
        return
    modifiers = d.only("cc", "sat")
    if "cc" in modifiers:
        _carried(d, i, kind, carry_in=False, carry_out=True)
    elif "sat" in modifiers:
        wide = np.dtype("i8")
        ufunc = np.add if i.parts[0] == "add" else np.subtract

        def saturated(x: Array, y: Array) -> Array:
            return np.clip(ufunc(x.astype(wide), y.astype(wide)), -(1 << 31), (1 << 31) - 1).astype(
                np.int32
            )

        d.simple(saturated, kind, kind, kind)
    else:
        fn = on_elements(kind, np.add if i.parts[0] == "add" else np.subtract)
        d.simple(fn, kind, kind, kind)


@opcode("addc", "subc")
def _add_carry(d: Decoder, i: Instruction) -> None:
    """addc: d = a + b + CC.CF; subc: d = a - (b + CC.CF); .cc sets the carry."""
    _carried(d, i, d.type(), carry_in=True, carry_out="cc" in d.only("cc"))


def _carried(d: Decoder, i: Instruction, kind: Type, *, carry_in: bool, carry_out: bool) -> None:
    target, a, b = d.operands(3)
    bits = np.dtype(f"u{kind.bytes}")
    minus = i.parts[0].startswith("sub")

    def run(x: Array, y: Array, carry: Array) -> tuple[Array, Array]:
        carry = carry.astype(bits)
        if minus:
            first = x - y
            second = first - carry
            return second, (x < y) | (first < carry)
        first = x + y
        second = first + carry
        return second, (first < x) | (second < first)

    if carry_in:
        d.reads.add(d.carry)
        carry = d.carry
    else:
        carry = d.constant(np.array([False]))
    out = d.temporary()
    if carry_out:
        d.writes.add(d.carry)
        out = d.carry
    sources = [(d.source(a, kind), bits), (d.source(b, kind), bits), (carry, BOOL)]
    d.pure(run, (d.target(target, kind), out), sources)


def _high(x: Array, y: Array) -> Array:
    """The upper half of the product of two integers of 64 bits."""
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a, b = x.view(np.uint64), y.view(np.uint64)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> half) + (other >> half)
    if x.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(x < 0, b, zero) - np.where(y < 0, a, zero)
    result: Array = high.view(x.dtype)
    return result


def _product(d: Decoder, kind: Type, part: str) -> tuple[Callable[..., Any], Type]:
    """The function of mul.lo, mul.hi or mul.wide, and the type of its result."""
    if part == "lo":
        return np.multiply, kind
    if kind.bits == 64:
        if part == "wide":
            raise d.error("mul.wide of 64 bits")
        return _high, kind
    double = _doubled(kind)
    wide = double.dtype

    def widened(x: Array, y: Array) -> Array:
        result: Array = x.astype(wide) * y.astype(wide)
        return result

    if part == "wide":
        return widened, double

    def upper(x: Array, y: Array) -> Array:
        return (widened(x, y) >> kind.bits).astype(kind.dtype)

    return upper, kind


@opcode("mul")
def _mul(d: Decoder, i: Instruction) -> None:
    """mul: the lower (.lo) or upper (.hi) half of a product, or all of it (.wide)."""
    kind = d.type()
    if float_operation(d, i, kind):
        return
    fn, result = _product(d, kind, _half(d))
    d.simple(fn, result, kind, kind)


def _half(d: Decoder, *others: str) -> str:
    modifiers = d.only("lo", "hi", "wide", *others)
    for half in ("lo", "hi", "wide"):
        if half in modifiers:
            return half
    raise d.error("neither .lo, .hi nor .wide")


@opcode("mad")
def _mad(d: Decoder, i: Instruction) -> None:
    """mad: the lower or upper half of a product, or all of it, plus c."""
    kind = d.type()
    if float_operation(d, i, kind):
        return
    half = _half(d, "cc", "sat")
    if i.has("cc") or i.has("sat"):
        if i.has("sat"):
            raise d.error("mad.sat is not supported")
        _mad_carried(d, i, kind, half, carry_in=False, carry_out=True)
        return
    product, result = _product(d, kind, half)
    d.simple(lambda x, y, z: product(x, y) + z, result, kind, kind, result)


@opcode("madc")
def _mad_carry(d: Decoder, i: Instruction) -> None:
    """madc: a half of a product, plus c and CC.CF; .cc sets the carry."""
    half = _half(d, "cc")
    _mad_carried(d, i, d.type(), half, carry_in=True, carry_out=i.has("cc"))


def _mad_carried(
    d: Decoder, i: Instruction, kind: Type, half: str, *, carry_in: bool, carry_out: bool
) -> None:
    target, a, b, c = d.operands(4)
    fn, result = _product(d, kind, half)
    product = d.temporary()
    sources = [(d.source(a, kind), kind.dtype), (d.source(b, kind), kind.dtype)]
    d.pure(fn, (product,), sources)
    bits = np.dtype(f"u{result.bytes}")

    def run(x: Array, y: Array, carry: Array) -> tuple[Array, Array]:
        first = x + y
        second = first + carry.astype(bits)
        return second, (first < x) | (second < first)

    carry = d.constant(np.array([False]))
    if carry_in:
        d.reads.add(d.carry)
        carry = d.carry
    out = d.temporary()
    if carry_out:
        d.writes.add(d.carry)
        out = d.carry
    summands = [(product, bits), (d.source(c, result), bits), (carry, BOOL)]
    d.pure(run, (d.target(target, result), out), summands)


def _low24(x: Array) -> Array:
    if x.dtype.kind == "i":
        return ((x << 8) >> 8).astype(np.int64)
    return (x & np.uint32(0xFFFFFF)).astype(np.uint64)


def _mul24_of(d: Decoder, kind: Type) -> Callable[..., Any]:
    shift = 16 if "hi" in d.only("lo", "hi") else 0
    return lambda x, y: (_low24(x) * _low24(y) >> shift).astype(kind.dtype)


@opcode("mul24")
def _mul24(d: Decoder, i: Instruction) -> None:
    """mul24: bits 0 to 31 (.lo) or 16 to 47 (.hi) of the product of integers of 24 bits."""
    kind = d.type()
    d.simple(_mul24_of(d, kind), kind, kind, kind)


@opcode("mad24")
def _mad24(d: Decoder, i: Instruction) -> None:
    """mad24: mul24, plus c."""
    kind = d.type()
    product = _mul24_of(d, kind)
    d.simple(lambda x, y, z: product(x, y) + z, kind, kind, kind, kind)


@opcode("sad")
def _sad(d: Decoder, i: Instruction) -> None:
    """sad: d = c + |a - b|."""
    d.only()
    kind = d.type()
    result = TYPES[f"u{kind.bits}"] if kind.kind == "u" else kind
    d.simple(lambda x, y, z: z + np.where(x < y, y - x, x - y), result, kind, kind, kind)


def _remainder(x: Array, y: Array) -> Array:
    by = np.where(y == 0, y.dtype.type(1), y)
    result = np.fmod(x, by)
    if x.dtype.kind == "i":  # the least integer by -1 overflows in C
        result = np.where(by == -1, x.dtype.type(0), result)
    return np.where(y == 0, x, result)


def _quotient(x: Array, y: Array) -> Array:
    """Towards zero."""
    ones = np.array(-1, np.int64).astype(x.dtype)
    by = np.where(y == 0, y.dtype.type(1), y)
    if x.dtype.kind == "u":
        return np.where(y == 0, ones, x // by)
    minus = by == -1
    by = np.where(minus, y.dtype.type(1), by)
    whole = (x - np.fmod(x, by)) // by
    return np.where(y == 0, ones, np.where(minus, -x, whole))


@opcode("div")
def _div(d: Decoder, i: Instruction) -> None:
    """div: d = a / b, towards zero."""
    kind = d.type()
    if float_operation(d, i, kind):
        return
    d.only()
    d.simple(_quotient, kind, kind, kind)


@opcode("rem")
def _rem(d: Decoder, i: Instruction) -> None:
    """rem: the remainder of a / b, with the sign of a."""
    d.only()
    kind = d.type()
    d.simple(_remainder, kind, kind, kind)


@opcode("abs", "neg")
def _abs(d: Decoder, i: Instruction) -> None:
    """abs: d = |a|; neg: d = -a."""
    kind = d.type()
    if float_operation(d, i, kind):
        return
    d.only()
    d.simple(np.abs if i.parts[0] == "abs" else np.negative, kind, kind)


@opcode("min", "max")
def _min(d: Decoder, i: Instruction) -> None:
    """min, max: the lesser or the greater of a and b; .relu makes it at least 0."""
    kind = d.type()
    if float_operation(d, i, kind):
        return
    relu = "relu" in d.only("relu")
    ufunc = np.minimum if i.parts[0] == "min" else np.maximum
    fn: Callable[..., Any] = (lambda x, y: np.maximum(ufunc(x, y), 0)) if relu else ufunc
    d.simple(on_elements(kind, fn), kind, kind, kind)


def leading_zeros(x: Array) -> Array:
    """Zeros above the highest one of unsigned integers."""
    bits = x.dtype.itemsize * 8
    if bits == 64:
        high = (x >> np.uint64(32)).astype(np.uint32)
        low = x.astype(np.uint32)
        return np.where(high != 0, leading_zeros(high), 32 + leading_zeros(low)).astype(np.uint32)
    _, exponent = np.frexp(x.astype(np.float64))
    result: Array = (bits - exponent).astype(np.uint32)
    return result


def reversed_bits(x: Array) -> Array:
    """Bits in reverse order."""
    width = x.dtype.itemsize
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(-1, width)
    return (
        np.packbits(np.unpackbits(octets, axis=1, bitorder="little"), axis=1)
        .view(f">u{width}")
        .astype(x.dtype)[:, 0]
    )


@opcode("popc", "clz", "brev")
def _count(d: Decoder, i: Instruction) -> None:
    """popc: how many bits are one; clz: leading zeros; brev: bits in reverse order."""
    d.only()
    kind = d.type()
    if i.parts[0] == "brev":
        d.simple(reversed_bits, kind, kind)
    elif i.parts[0] == "clz":
        d.simple(leading_zeros, _U32, kind)
    else:
        d.simple(lambda x: np.bitwise_count(x).astype(np.uint32), _U32, kind)


@opcode("bfind")
def _bfind(d: Decoder, i: Instruction) -> None:
    """bfind: the highest one of an unsigned or the highest bit unlike the sign; -1 if none."""
    shift = "shiftamt" in d.only("shiftamt")
    kind = d.type()
    bits = np.dtype(f"u{kind.bytes}")

    def find(x: Array) -> Array:
        if kind.kind == "s":
            x = np.where(x < 0, ~x, x)
        zeros = leading_zeros(x.view(bits))
        none = zeros == kind.bits
        place = zeros if shift else np.uint32(kind.bits - 1) - zeros
        return np.where(none, np.uint32(0xFFFFFFFF), place).astype(np.uint32)

    d.simple(find, _U32, kind)


@opcode("fns")
def _fns(d: Decoder, i: Instruction) -> None:
    """fns: the n-th one of a mask from a base, upwards or downwards; -1 if there is none."""
    d.only()

    def find(mask: Array, base: Array, offset: Array) -> Array:
        found = []
        for m, b, n in zip(*(x.tolist() for x in np.broadcast_arrays(mask, base, offset))):
            places = range(b, b + 1) if n == 0 else range(b, 32) if n > 0 else range(b, -1, -1)
            ones = [k for k in places if m >> k & 1]
            rank = max(abs(n) - 1, 0)
            found.append(ones[rank] if rank < len(ones) else 0xFFFFFFFF)
        return np.array(found, np.uint32)

    d.simple(find, _U32, _B32, _U32, TYPES["s32"])


def _field(position: Array, length: Array) -> tuple[Array, Array]:
    return position & np.uint32(0xFF), length & np.uint32(0xFF)


def _low_mask(length: Array, dtype: Any) -> Array:
    """As many ones from bit 0; all ones from the width of the type on."""
    bits = np.dtype(dtype).itemsize * 8
    one = np.ones(1, dtype)
    shift = np.minimum(length, bits - 1).astype(dtype)
    return np.where(length >= bits, ~np.zeros(1, dtype), (one << shift) - one)


@opcode("bfe")
def _bfe(d: Decoder, i: Instruction) -> None:
    """bfe: a field of bits from position b, c bits long, with its sign if the type has one."""
    d.only()
    kind = d.type()
    bits = np.dtype(f"u{kind.bytes}")
    last = kind.bits - 1

    def extract(x: Array, position: Array, length: Array) -> Array:
        position, length = _field(position, length)
        raw = x.view(bits)
        shifted = raw >> np.minimum(position, last).astype(bits)
        field: Array = np.where(position > last, bits.type(0), shifted) & _low_mask(length, bits)
        if kind.kind == "u":
            return field
        end = np.minimum(position.astype(np.int64) + length - 1, last)
        sign = (raw >> np.maximum(end, 0).astype(bits)) & bits.type(1)
        # Bits of the field above the operand are its sign too.
        taken = np.minimum(length, np.maximum(kind.bits - position.astype(np.int64), 0))
        filled = field | np.where(sign == 1, ~_low_mask(taken, bits), bits.type(0))
        result: Array = np.where(length == 0, bits.type(0), filled).view(kind.dtype)
        return result

    d.simple(extract, kind, kind, _U32, _U32)


@opcode("bfi")
def _bfi(d: Decoder, i: Instruction) -> None:
    """bfi: b with the field at position c, d bits long, replaced by the low bits of a."""
    d.only()
    kind = d.type()
    bits = kind.dtype

    def insert(x: Array, y: Array, position: Array, length: Array) -> Array:
        position, length = _field(position, length)
        shift = np.minimum(position, kind.bits - 1).astype(bits)
        mask = np.where(position >= kind.bits, bits.type(0), _low_mask(length, bits) << shift)
        result: Array = (y & ~mask) | ((x << shift) & mask)
        return result

    d.simple(insert, kind, kind, kind, _U32, _U32)


@opcode("szext")
def _szext(d: Decoder, i: Instruction) -> None:
    """szext: a extended from its low b bits, with its sign or with zeros."""
    clamp = "clamp" in d.only("wrap", "clamp")
    kind = d.type()

    def extend(x: Array, length: Array) -> Array:
        length = np.minimum(length, 32) if clamp else length & np.uint32(31)
        shift = (np.uint32(32) - length).astype(np.uint64)
        if kind.kind == "u":
            wide = (x.astype(np.uint64) << shift) & np.uint64(0xFFFFFFFF)
            return (wide >> shift).astype(np.uint32)
        wide32 = (x.astype(np.int64) << shift.view(np.int64)).astype(np.int32)
        return (wide32.astype(np.int64) >> shift.view(np.int64)).astype(np.int32)

    d.simple(extend, kind, kind, _U32)


@opcode("bmsk")
def _bmsk(d: Decoder, i: Instruction) -> None:
    """bmsk: b ones from bit a on."""
    clamp = "clamp" in d.only("wrap", "clamp")

    def mask(position: Array, length: Array) -> Array:
        if not clamp:
            position, length = position & np.uint32(31), length & np.uint32(31)
        shift = np.minimum(position, 31).astype(np.uint32)
        ones = _low_mask(np.minimum(length, 32), np.dtype("u4")) << shift
        return np.where(position > 31, np.uint32(0), ones).astype(np.uint32)

    d.simple(mask, _B32, _U32, _U32)


def _octets(x: Array, signed: bool, size: int) -> Array:
    dtype = np.dtype(f"{'i' if signed else 'u'}{size}")
    return np.ascontiguousarray(x).view(dtype).reshape(-1, 4 // size).astype(np.int64)


@opcode("dp4a")
def _dp4a(d: Decoder, i: Instruction) -> None:
    """dp4a: c plus the sum of the products of four bytes of a and b."""
    d.only(types=2)
    a, b = d.type(-2), d.type(-1)
    signed = (a.kind == "s", b.kind == "s")
    result = TYPES["s32"] if any(signed) else _U32

    def dot(x: Array, y: Array, z: Array) -> Array:
        total = (_octets(x, signed[0], 1) * _octets(y, signed[1], 1)).sum(axis=1)
        wrapped: Array = (total + z).astype(np.int64).astype(result.dtype)
        return wrapped

    d.simple(dot, result, _B32, _B32, result)


@opcode("dp2a")
def _dp2a(d: Decoder, i: Instruction) -> None:
    """dp2a: c plus the sum of the products of two halves of a and two bytes of b."""
    high = "hi" in d.only("lo", "hi", types=2)
    a, b = d.type(-2), d.type(-1)
    signed = (a.kind == "s", b.kind == "s")
    result = TYPES["s32"] if any(signed) else _U32
    part = slice(2, 4) if high else slice(0, 2)

    def dot(x: Array, y: Array, z: Array) -> Array:
        total = (_octets(x, signed[0], 2) * _octets(y, signed[1], 1)[:, part]).sum(axis=1)
        wrapped: Array = (total + z).astype(np.int64).astype(result.dtype)
        return wrapped

    d.simple(dot, result, _B32, _B32, result)
