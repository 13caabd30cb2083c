"""Functions on bit patterns in scalar operations: the twin of the references.

A :class:`~functrax.core.scalars.scalar.Builder` and scalars enter, scalars leave.  Each function
has the name and the values of its reference in ``bits.py`` or ``threefry_values.py``.  A shift of
the scalar operations takes counts below the width only; other counts are caught by selects here.

Start reading at :func:`shift_left`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.core.prims.bits import FORMATS, FloatFormat
from functrax.core.prims.threefry_values import INJECTIONS, PARITY, ROTATIONS, ROUNDS_PER_KEY
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes


def _width(x: Scalar) -> int:
    return x.dtype.itemsize * 8


def _unsigned(x: Scalar) -> np.dtype[Any]:
    return np.dtype(f"u{x.dtype.itemsize}")


def _shift_with_zeros(b: Builder, op: str, x: Scalar, amount: Scalar) -> Scalar:
    bits, steps = b.bitcast(x, _unsigned(x)), b.bitcast(amount, _unsigned(x))
    zero = b.like(bits, 0)
    inside = b.compare("lt", steps, b.like(steps, _width(x)))
    shifted = b.logic(op, bits, b.select(inside, steps, zero))
    return b.bitcast(b.select(inside, shifted, zero), x.dtype)


def shift_left(b: Builder, x: Scalar, amount: Scalar) -> Scalar:
    """``x << amount``; zero where the amount, read as unsigned, is the width or more."""
    return _shift_with_zeros(b, "shl", x, amount)


def shift_right_logical(b: Builder, x: Scalar, amount: Scalar) -> Scalar:
    """``x >> amount`` filling with zeros; zero where the amount is the width or more."""
    return _shift_with_zeros(b, "shr", x, amount)


def shift_right_arithmetic(b: Builder, x: Scalar, amount: Scalar) -> Scalar:
    """``x >> amount`` filling with the highest bit, also for unsigned dtypes."""
    steps = b.bitcast(amount, _unsigned(x))
    clipped = b.min(steps, b.like(steps, _width(x) - 1))
    signed = np.dtype(f"i{x.dtype.itemsize}")
    shifted = b.logic("shr", b.bitcast(x, signed), b.bitcast(clipped, signed))
    return b.bitcast(shifted, x.dtype)


def _high_word(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """Upper half of the product of two 64-bit words, from the products of their halves."""
    mask, half = b.like(x, 0xFFFFFFFF), b.like(x, 32)

    def parts(word: Scalar) -> tuple[Scalar, Scalar]:
        return b.logic("and", word, mask), b.logic("shr", word, half)

    (x0, x1), (y0, y1) = parts(x), parts(y)
    middle = b.add(b.mul(x1, y0), b.logic("shr", b.mul(x0, y0), half))
    low, high = parts(middle)
    rest = b.add(b.mul(x0, y1), low)
    return b.add(b.add(b.mul(x1, y1), high), b.logic("shr", rest, half))


def mulhi(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """The upper half of the product of two integers."""
    if _width(x) < 64:
        wide = np.dtype(f"{x.dtype.kind}8")
        product = b.mul(b.convert(x, wide), b.convert(y, wide))
        return b.convert(b.logic("shr", product, b.like(product, _width(x))), x.dtype)
    words = b.bitcast(x, dtypes.uint64), b.bitcast(y, dtypes.uint64)
    high = b.bitcast(_high_word(b, *words), x.dtype)
    if x.dtype.kind == "u":
        return high
    # Read as unsigned, a negative factor is 2**64 too large.
    zero = b.like(x, 0)
    high = b.sub(high, b.select(b.compare("lt", x, zero), y, zero))
    return b.sub(high, b.select(b.compare("lt", y, zero), x, zero))


def _ordered(b: Builder, x: Scalar) -> Scalar:
    """A signed integer by the order of floats; 0 of both zeros."""
    bits = b.bitcast(x, np.dtype(f"i{x.dtype.itemsize}"))
    negative = b.sub(b.like(bits, -1 << (_width(x) - 1)), bits)
    return b.select(b.compare("lt", bits, b.like(bits, 0)), negative, bits)


def nextafter(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """The float next to ``x`` in the direction of ``y``; ``y`` where they are equal."""
    bits, target = b.bitcast(x, _unsigned(x)), b.bitcast(y, _unsigned(x))
    one = b.like(bits, 1)
    place, goal = _ordered(b, x), _ordered(b, y)  # subnormal floats might be compared as zeros
    zero = b.like(place, 0)
    rises, positive = b.compare("lt", place, goal), b.compare("gt", place, zero)
    to_zero = b.logic("xor", rises, positive)
    moved = b.select(to_zero, b.sub(bits, one), b.add(bits, one))
    sign = b.logic("and", target, b.like(bits, 1 << (_width(x) - 1)))
    moved = b.select(b.compare("eq", place, zero), b.logic("or", sign, one), moved)
    moved = b.select(b.compare("eq", place, goal), target, moved)
    unordered = b.logic("or", b.is_nan(b.widen(x)), b.is_nan(b.widen(y)))
    return b.select(unordered, b.like(x, math.nan), b.bitcast(moved, x.dtype))


def _round_mantissa(b: Builder, bits: Scalar, form: FloatFormat, mantissa_bits: int) -> Scalar:
    """To nearest even; a carry runs into the exponent, as it should."""
    drop = form.mantissa - mantissa_bits
    if drop <= 0:
        return bits
    last = b.logic("and", b.logic("shr", bits, b.like(bits, drop)), b.like(bits, 1))
    mask = ((1 << form.width) - 1) ^ ((1 << drop) - 1)
    up = b.add(b.add(bits, b.like(bits, (1 << (drop - 1)) - 1)), last)
    return b.logic("and", up, b.like(bits, mask))


def _limit_exponent(b: Builder, bits: Scalar, form: FloatFormat, exponent_bits: int) -> Scalar:
    """Infinity above the range of the narrower exponent, signed zero below it."""
    if exponent_bits >= form.exponent:
        return bits
    bias = (1 << (form.exponent - 1)) - 1
    narrow = (1 << (exponent_bits - 1)) - 1
    infinity = b.like(bits, ((1 << form.exponent) - 1) << form.mantissa)
    sign = b.logic("and", bits, b.like(bits, 1 << (form.width - 1)))
    field = b.logic("and", bits, infinity)
    above = b.compare("gt", field, b.like(bits, (bias + narrow) << form.mantissa))
    below = b.compare("le", field, b.like(bits, (bias - narrow) << form.mantissa))
    limited = b.select(above, b.logic("or", sign, infinity), bits)
    return b.select(below, sign, limited)


def reduce_precision(b: Builder, x: Scalar, exponent_bits: int, mantissa_bits: int) -> Scalar:
    """Rounds to a float format with fewer bits, and keeps the dtype; NaN stays NaN."""
    form = FORMATS[x.dtype]
    bits = _round_mantissa(b, b.bitcast(x, _unsigned(x)), form, mantissa_bits)
    rounded = b.bitcast(_limit_exponent(b, bits, form, exponent_bits), x.dtype)
    return b.select(b.is_nan(x), x, rounded)


def threefry2x32(
    b: Builder, k0: Scalar, k1: Scalar, x0: Scalar, x1: Scalar
) -> tuple[Scalar, Scalar]:
    """Two words of random bits from the key ``(k0, k1)`` and the counter ``(x0, x1)``."""

    def rotate_left(x: Scalar, count: int) -> Scalar:
        left = b.logic("shl", x, b.like(x, count))
        return b.logic("or", left, b.logic("shr", x, b.like(x, 32 - count)))

    keys = (k0, k1, b.logic("xor", b.logic("xor", k0, k1), b.like(k0, int(PARITY))))
    y0, y1 = b.add(x0, k0), b.add(x1, k1)
    for block in range(INJECTIONS):
        half = block % 2 * ROUNDS_PER_KEY
        for rotation in ROTATIONS[half : half + ROUNDS_PER_KEY]:
            y0 = b.add(y0, y1)
            y1 = b.logic("xor", rotate_left(y1, rotation), y0)
        y0 = b.add(y0, keys[(block + 1) % 3])
        y1 = b.add(b.add(y1, keys[(block + 2) % 3]), b.like(y1, block + 1))
    return y0, y1
