"""PTX ISA 9.7.9, cvt: conversions of pairs of floating-point numbers of 8 bits, e4m3 and e5m2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder
from functrax.backends.cuda.simulator.instructions.rounding import F16, U16, U32
from functrax.backends.cuda.simulator.syntax import TYPES, Array, Type

_NAN: Final = 0x7F


def _values(exponent_bits: int, finite_only: bool) -> Array:
    """The numbers of the codes from 0 on, up to the largest finite one (PTX ISA 5.2.3)."""
    mantissa_bits = 7 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - 1
    last = 0x7F if finite_only else 0x7C
    codes = np.arange(last)
    exponent, fraction = codes >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    significand = np.where(exponent > 0, (1 << mantissa_bits) + fraction, fraction)
    numbers: Array = np.ldexp(significand, np.maximum(exponent, 1) - bias - mantissa_bits)
    return numbers


#: The positive finite numbers of each format, by their codes.
OCTETS: Final = {"e4m3x2": _values(4, True), "e5m2x2": _values(5, False)}


def _encode(x: Array, form: str) -> Array:
    """To the nearest, ties to even; what is too large becomes the largest number."""
    numbers = OCTETS[form]
    size = np.abs(x.astype(np.float64))
    middles = (numbers[1:] + numbers[:-1]) / 2
    code = np.searchsorted(middles, size, side="left")
    tie = (code < len(middles)) & (size == middles[np.minimum(code, len(middles) - 1)])
    code = code + (tie & (code & 1 == 1))
    code = np.where(np.signbit(x), code | 0x80, code)
    return np.where(np.isnan(x), _NAN, code).astype(U16)


def _decode(octet: Array, form: str) -> Array:
    numbers = OCTETS[form]
    size = octet & np.uint16(0x7F)
    table = np.full(128, np.nan)
    table[: len(numbers)] = numbers
    if len(numbers) < _NAN:
        table[len(numbers)] = np.inf
    value = table[size]
    halves: Array = np.where(octet & np.uint16(0x80), -value, value).astype(F16)
    return halves


def convert_octets(d: Decoder, to: Type, of: Type, *, relu: bool) -> None:
    """Two numbers of f32, or of f16x2, as two octets; or two octets as f16x2."""
    target, *sources = d.operands(2, 3)
    of_octets = to.name == "f16x2" and of.name in OCTETS
    of_singles = to.name in OCTETS and of.name == "f32"
    if not (of_octets or of_singles or (to.name in OCTETS and of.name == "f16x2")):
        raise d.error(f"cvt from .{of.name} to .{to.name}")
    if len(sources) != 1 + of_singles:
        raise d.error("a wrong number of operands")

    def positive(x: Array) -> Array:
        return np.where(x < 0, x.dtype.type(0), x) if relu else x

    def pack(high: Array, low: Array) -> Array:
        octets: Array = _encode(positive(high), to.name) << np.uint16(8)
        return octets | _encode(positive(low), to.name)

    def pack_halves(x: Array) -> Array:
        low, high = x.astype(U16), (x >> np.uint32(16)).astype(U16)
        return pack(high.view(F16), low.view(F16))

    def unpack(x: Array) -> Array:
        low, high = _decode(x & np.uint16(0xFF), of.name), _decode(x >> np.uint16(8), of.name)
        words = [positive(v).view(U16).astype(U32) for v in (high, low)]
        both: Array = words[0] << np.uint32(16) | words[1]
        return both

    fn: Callable[..., Any] = unpack if of_octets else pack if of_singles else pack_halves
    kind = TYPES["b16" if of_octets else "f32" if of_singles else "b32"]
    held = TYPES["b32" if of_octets else "b16"]
    read = [(d.source(x, kind), kind.dtype) for x in sources]
    d.pure(fn, (d.target(target, held),), read)
