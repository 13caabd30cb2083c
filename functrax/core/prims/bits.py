"""Reference values of functions on bit patterns.

Counting and shifting bits of integers of every width, reading an array's bits as another dtype,
the neighbour of a float, and rounding a float to fewer exponent and mantissa bits.  Arrays enter
and leave; what XLA defines where C does not (shifts by the width or more) is defined the same here.

Start reading at :func:`bitcast_convert`; the float functions work on the unsigned integers of
their own width, and :class:`FloatFormat` says where the fields lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.prims.special_rounding import BFLOAT16, is_float

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = "NDArray[Any]"


class FloatFormat(NamedTuple):
    """Sizes of the fields of a binary float, whose sign is the highest bit."""

    width: int
    exponent: int
    mantissa: int


FORMATS = {
    np.dtype(np.float16): FloatFormat(width=16, exponent=5, mantissa=10),
    BFLOAT16: FloatFormat(width=16, exponent=8, mantissa=7),
    np.dtype(np.float32): FloatFormat(width=32, exponent=8, mantissa=23),
    np.dtype(np.float64): FloatFormat(width=64, exponent=11, mantissa=52),
}


def _float_format(name: str, dtype: np.dtype[Any]) -> FloatFormat:
    if not is_float(dtype):
        raise DTypeError(
            f"{name}: needs a real float dtype",
            got=str(dtype),
            fix="convert it with .astype('float32')",
        )
    return FORMATS[dtype]


def _width(name: str, dtype: np.dtype[Any]) -> int:
    if dtype.kind not in "iu":
        raise DTypeError(
            f"{name}: needs an integer dtype", got=str(dtype), fix="use bitcast_convert first"
        )
    return dtype.itemsize * 8


def _unsigned(width: int) -> np.dtype[Any]:
    return np.dtype(f"u{width // 8}")


def _signed(width: int) -> np.dtype[Any]:
    return np.dtype(f"i{width // 8}")


def _bits_high_first(name: str, x: Array) -> NDArray[np.uint8]:
    """The bits of integers along a new last axis, the highest first."""
    width = _width(name, x.dtype)
    big_endian = x.view(_unsigned(width)).astype(_unsigned(width).newbyteorder(">"))
    octets = np.frombuffer(big_endian.tobytes(), np.uint8).reshape(x.size, width // 8)
    return np.unpackbits(octets, axis=1).reshape((*x.shape, width))


def population_count(x: Array) -> Array:
    """The number of bits set, of integers of any width (two's complement for signed ones).

    >>> population_count(np.int8([-1, 3])).tolist()
    [8, 2]
    """
    x = np.asarray(x)
    bits = _bits_high_first("population_count", x)
    return np.asarray(bits.sum(axis=-1, dtype=np.int64).astype(x.dtype))


def clz(x: Array) -> Array:
    """The number of zero bits above the highest one set; the width for zero.

    >>> clz(np.int8([-1, 3, 0])).tolist()
    [0, 6, 8]
    """
    x = np.asarray(x)
    bits = _bits_high_first("clz", x)
    count = np.where(bits.any(axis=-1), bits.argmax(axis=-1), bits.shape[-1])
    return np.asarray(count.astype(x.dtype))


def _amount(name: str, x: Array, amount: Array) -> tuple[int, Array]:
    width = _width(name, x.dtype)
    if amount.dtype != x.dtype:
        raise DTypeError(
            f"{name}: operands must share one dtype",
            got=f"{x.dtype}, {amount.dtype}",
            fix="convert the operands with astype first",
        )
    return width, amount.view(_unsigned(width))


def shift_left(x: Array, amount: Array) -> Array:
    """``x << amount``; zero where the amount, read as unsigned, is the width or more.

    Integers of one dtype; shapes broadcast.

    >>> shift_left(np.int32([1, 1]), np.int32([4, 32])).tolist()
    [16, 0]
    """
    x, amount = np.asarray(x), np.asarray(amount)
    width, steps = _amount("shift_left", x, amount)
    shifted = np.left_shift(x.view(_unsigned(width)), steps % width)
    return np.asarray(np.where(steps < width, shifted, 0)).astype(_unsigned(width)).view(x.dtype)


def shift_right_logical(x: Array, amount: Array) -> Array:
    """``x >> amount`` filling with zeros; zero where the amount is the width or more.

    Integers of one dtype; shapes broadcast.

    >>> shift_right_logical(np.int32([-1, -1]), np.int32([28, 32])).tolist()
    [15, 0]
    """
    x, amount = np.asarray(x), np.asarray(amount)
    width, steps = _amount("shift_right_logical", x, amount)
    shifted = np.right_shift(x.view(_unsigned(width)), steps % width)
    return np.asarray(np.where(steps < width, shifted, 0)).astype(_unsigned(width)).view(x.dtype)


def shift_right_arithmetic(x: Array, amount: Array) -> Array:
    """``x >> amount`` filling with the highest bit, also for unsigned dtypes, as XLA does.

    Amounts of the width or more give all sign bits.  Integers of one dtype; shapes broadcast.

    >>> shift_right_arithmetic(np.int32([-3, -3]), np.int32([1, 32])).tolist()
    [-2, -1]
    """
    x, amount = np.asarray(x), np.asarray(amount)
    width, steps = _amount("shift_right_arithmetic", x, amount)
    clipped = np.minimum(steps, np.asarray(width - 1, steps.dtype)).view(_signed(width))
    return np.asarray(np.right_shift(x.view(_signed(width)), clipped)).view(x.dtype)


def _high_word(x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Upper half of the product of two 64-bit words, from the products of their halves."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    rest = x0 * y1 + (middle & low)
    return np.asarray(x1 * y1 + (middle >> half) + (rest >> half))


def mulhi(x: Array, y: Array) -> Array:
    """The upper half of the product of integers of one dtype; shapes broadcast.

    >>> mulhi(np.int32([2**30, -1]), np.int32([8, 1])).tolist()
    [2, -1]
    """
    x, y = np.asarray(x), np.asarray(y)
    width, _ = _amount("mulhi", x, y)
    if width < 64:
        wide = np.dtype(f"{x.dtype.kind}8")
        return np.asarray(x.astype(wide) * y.astype(wide) >> wide.type(width)).astype(x.dtype)
    with np.errstate(over="ignore"):
        high = _high_word(x.view(np.uint64), y.view(np.uint64)).view(x.dtype)
        if x.dtype.kind == "u":
            return high
        # Read as unsigned, a negative factor is 2**64 too large.
        return np.asarray(high - np.where(x < 0, y, 0) - np.where(y < 0, x, 0))


def bitcast_convert(x: Array, dtype: DTypeLike) -> Array:
    """The bits of x read as ``dtype``.

    Where the new dtype is k times narrower the result has a new last axis of size k, the lowest
    bits first; where it is k times wider the last axis must have size k and disappears.  Bool and
    complex arrays convert only to their own dtype.  Raises
    :class:`~functrax.core.errors.typed.DTypeError` or
    :class:`~functrax.core.errors.typed.ShapeError`.

    >>> bitcast_convert(np.float32([1.0]), np.uint16).tolist()
    [[0, 16256]]
    """
    x, new = np.asarray(x), np.dtype(dtype)
    if new == x.dtype:
        return x.copy()
    if any(not is_float(d) and d.kind not in "iu" for d in (x.dtype, new)):
        raise DTypeError(
            "bitcast_convert: only integers and real floats have bits to share",
            got=f"{x.dtype} to {new}",
            fix="take the real and imaginary parts, or convert bool with astype",
        )
    contiguous = x.copy(order="C")
    if new.itemsize == x.dtype.itemsize:
        return contiguous.view(new)
    if new.itemsize < x.dtype.itemsize:
        return contiguous[..., np.newaxis].view(new)
    ratio = new.itemsize // x.dtype.itemsize
    if x.ndim == 0 or x.shape[-1] != ratio:
        raise ShapeError(
            f"bitcast_convert: the last axis must have size {ratio}",
            got=f"{x.dtype}{list(x.shape)} to {new}",
            fix="reshape the operand so that its last axis holds the parts of one element",
        )
    return contiguous.view(new).reshape(x.shape[:-1])


def _ordered(bits: Array) -> Array:
    """Signed integers by the order of the floats with these bits; 0 of both zeros."""
    signed = bits.view(f"i{bits.itemsize}")
    return np.where(signed < 0, np.iinfo(signed.dtype).min - signed, signed)


def nextafter(x: Array, y: Array) -> Array:
    """The float next to x in the direction of y; y itself where they are equal.

    f16, bf16, f32, f64 of one dtype; shapes broadcast.  NaN where either is NaN.

    >>> float(nextafter(np.float32(1.0), np.float32(2.0)))
    1.0000001192092896
    """
    x, y = np.broadcast_arrays(np.asarray(x), np.asarray(y))
    form = _float_format("nextafter", x.dtype)
    if x.dtype != y.dtype:
        raise DTypeError(
            "nextafter: operands must share one dtype",
            got=f"{x.dtype}, {y.dtype}",
            fix="convert one with .astype",
        )
    unsigned, one = _unsigned(form.width), np.ones((), _unsigned(form.width))
    bits, target = bitcast_convert(x, unsigned), bitcast_convert(y, unsigned)
    sign_bit = unsigned.type(1 << (form.width - 1))
    with np.errstate(all="ignore"):
        place, goal = _ordered(bits), _ordered(target)  # floats might count as zeros
        from_zero = (place < goal) == (place > 0)  # x grows in size; meaningless where it is zero
        moved = np.where(from_zero, bits + one, bits - one)
        moved = np.where(place == 0, (target & sign_bit) | one, moved)
        moved = np.where(place == goal, target, moved)
    out = moved.astype(unsigned).view(x.dtype)
    return np.asarray(np.where(np.isnan(x) | np.isnan(y), np.asarray(np.nan, x.dtype), out))


def _round_mantissa(bits: Array, form: FloatFormat, mantissa_bits: int) -> Array:
    """To nearest even; a carry runs into the exponent, as it should."""
    drop = form.mantissa - mantissa_bits
    if drop <= 0:
        return bits
    kind = bits.dtype.type
    last = (bits >> kind(drop)) & kind(1)
    half = kind((1 << (drop - 1)) - 1)
    mask = kind(((1 << form.width) - 1) ^ ((1 << drop) - 1))
    return np.asarray((bits + half + last) & mask)


def _limit_exponent(bits: Array, form: FloatFormat, exponent_bits: int) -> Array:
    """Infinity above the range of the narrower exponent, signed zero below it."""
    if exponent_bits >= form.exponent:
        return bits
    kind = bits.dtype.type
    bias = (1 << (form.exponent - 1)) - 1
    narrow = (1 << (exponent_bits - 1)) - 1
    sign_bit = kind(1 << (form.width - 1))
    infinity = kind(((1 << form.exponent) - 1) << form.mantissa)
    exponent = (bits & infinity) >> kind(form.mantissa)
    limited = np.where(exponent > kind(bias + narrow), (bits & sign_bit) | infinity, bits)
    return np.asarray(np.where(exponent <= kind(bias - narrow), bits & sign_bit, limited))


def reduce_precision(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds to a float format with fewer bits, and keeps the dtype.

    Mantissas round to nearest even.  With fewer exponent bits than the dtype has, values too large
    become infinite and values too small for a normal number become zero.  NaN stays NaN.  Any
    shape; f16, bf16, f32, f64.  Raises :class:`~functrax.core.errors.typed.ArgumentError` for
    exponent_bits < 1 or mantissa_bits < 0.  Source: XLA's operation semantics, ReducePrecision.

    >>> reduce_precision(np.float32([1.2, 70000.0, 1e-7]), 5, 10).tolist()
    [1.2001953125, inf, 0.0]
    """
    x = np.asarray(x)
    form = _float_format("reduce_precision", x.dtype)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ArgumentError(
            "reduce_precision: needs exponent_bits >= 1 and mantissa_bits >= 0",
            got=f"exponent_bits={exponent_bits}, mantissa_bits={mantissa_bits}",
            fix="exponent_bits=5, mantissa_bits=10 for the precision of float16",
        )
    bits = bitcast_convert(x, _unsigned(form.width))
    with np.errstate(all="ignore"):
        rounded = _limit_exponent(_round_mantissa(bits, form, mantissa_bits), form, exponent_bits)
    out = rounded.astype(bits.dtype).view(x.dtype)
    return np.asarray(np.where(np.isnan(x), x, out))
