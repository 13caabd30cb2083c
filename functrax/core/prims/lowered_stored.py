"""Conversions from and to stored dtypes in scalar operations: the twin of ml_dtypes' own.

A :class:`~functrax.core.scalars.scalar.Builder` and scalars enter, scalars leave.  What a dtype
does at the ends of its range (infinities or not, one NaN or two, a zero with a sign or without) is
read from ml_dtypes once (:func:`_format_of`), so nothing here names a dtype.

Start at :func:`decode` and :func:`encode`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from functrax.core.records import record
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

_UINT8: Final = np.dtype(np.uint8)


@record
class _Format:
    """How a float of at most 8 bits is written.

    Args:
      mantissa: bits of the mantissa.
      bits: all bits, the sign's among them.
      bias: of the exponent.
      largest: the code of the largest number.
      infinity: the code of infinity; that of the largest number or of NaN if there is none.
      above: the code of numbers that are too large.
      nan: the codes of NaN, of either sign.
      zero: the code of minus zero.
    """

    mantissa: int
    bits: int
    bias: int
    largest: int
    infinity: int
    above: int
    nan: tuple[int, int]
    zero: int


@cache
def _format_of(dtype: np.dtype[Any]) -> _Format:
    info = dtypes.finfo(dtype)

    def code(value: float) -> int:
        with np.errstate(all="ignore"):
            return int(np.array(value, np.float64).astype(dtype).view(np.uint8))

    least = float(info.smallest_normal)
    return _Format(
        mantissa=int(info.nmant),
        bits=int(info.bits),
        bias=1 - int(np.log2(least)),
        largest=code(float(info.max)),
        infinity=code(np.inf),
        above=code(float(info.max) * 4),
        nan=(code(np.nan), code(-np.nan)),
        zero=code(-0.0),
    )


def decode(b: Builder, x: Scalar) -> Scalar:
    """A stored number in the dtype to compute in."""
    code = b.bitcast(x, _UINT8)
    if x.dtype in dtypes.STORED_FLOATS:
        return _decoded_float(b, code, x.dtype)
    unused = 8 - dtypes.itemsize_bits(x.dtype)
    wide = dtypes.compute_dtype(x.dtype)
    shift = b.const(unused, wide)
    moved = b.logic("shl", b.bitcast(code, wide), shift)
    return b.logic("shr", moved, shift)  # which repeats the sign of signed numbers


def _decoded_float(b: Builder, code: Scalar, dtype: np.dtype[Any]) -> Scalar:
    form, single = _format_of(dtype), dtypes.float32
    wide = b.convert(code, dtypes.uint32)
    if form.mantissa == 0:
        return _decoded_power(b, wide)
    magnitude = b.logic("and", wide, b.like(wide, (1 << (form.bits - 1)) - 1))
    moved = b.logic("shl", magnitude, b.like(wide, 23 - form.mantissa))
    normal = b.add(moved, b.like(wide, (127 - form.bias) << 23))
    units = b.convert(b.bitcast(magnitude, dtypes.int32), single)
    subnormal = b.mul(units, b.const(2.0 ** (1 - form.bias - form.mantissa), single))
    small = b.compare("lt", magnitude, b.like(wide, 1 << form.mantissa))
    size = b.select(small, b.bitcast(subnormal, dtypes.uint32), normal)
    if form.infinity > form.largest and form.infinity not in form.nan:
        infinite = b.compare("eq", magnitude, b.like(wide, form.infinity))
        size = b.select(infinite, b.like(wide, 0x7F800000), size)
        missing = b.compare("gt", magnitude, b.like(wide, form.infinity))
        size = b.select(missing, b.like(wide, 0x7FC00000), size)
    elif form.nan[0] > form.largest:  # else there is none
        of_either_sign = form.nan[0] != form.nan[1]
        compared = magnitude if of_either_sign else wide
        missing = b.compare(
            "eq", compared, b.like(wide, form.nan[0] & (127 if of_either_sign else 255))
        )
        size = b.select(missing, b.like(wide, 0x7FC00000), size)
    sign = b.logic("shr", wide, b.like(wide, form.bits - 1))
    signed = b.logic("or", size, b.logic("shl", sign, b.like(wide, 31)))
    return b.bitcast(signed, single)


def _decoded_power(b: Builder, code: Scalar) -> Scalar:
    """A power of two, which has nothing but an exponent, and no sign."""
    moved = b.logic("shl", code, b.like(code, 23))
    least = b.select(b.compare("eq", code, b.like(code, 0)), b.like(code, 1 << 22), moved)
    missing = b.compare("eq", code, b.like(code, 0xFF))
    return b.bitcast(b.select(missing, b.like(code, 0x7FC00000), least), dtypes.float32)


def encode(b: Builder, x: Scalar, dtype: np.dtype[Any]) -> Scalar:
    """A real number, or a truth value, as the nearest one of a stored dtype.

    Integers wrap around in fewer bits; floats become integers by truncation and saturate.  Floats
    are made from float32, by way of which other dtypes go, as in ml_dtypes.
    """
    if dtype not in dtypes.STORED_FLOATS:
        return b.bitcast(_integer_code(b, x, dtype), dtype)
    return b.bitcast(_float_code(b, b.convert(x, dtypes.float32), _format_of(dtype)), dtype)


def _integer_code(b: Builder, x: Scalar, dtype: np.dtype[Any]) -> Scalar:
    wide, bits = dtypes.compute_dtype(dtype), dtypes.itemsize_bits(dtype)
    number = b.convert(x, wide)
    if dtypes.is_float(x.dtype):
        info = dtypes.iinfo(dtype)
        number = b.max(b.min(number, b.const(info.max, wide)), b.const(info.min, wide))
    code = b.bitcast(number, _UINT8)
    return b.logic("and", code, b.like(code, (1 << bits) - 1))


def _float_code(b: Builder, x: Scalar, form: _Format) -> Scalar:
    """The code of a float32, rounded to the nearest, ties to even."""
    bits, spare = b.bitcast(x, dtypes.uint32), 23 - form.mantissa

    def number(value: int) -> Scalar:
        return b.like(bits, value)

    if form.mantissa == 0:
        return b.convert(_power_code(b, bits), _UINT8)
    magnitude = b.logic("and", bits, number(0x7FFFFFFF))
    odd = b.logic("and", b.logic("shr", magnitude, number(spare)), number(1))
    rounded = b.add(magnitude, b.add(odd, number((1 << (spare - 1)) - 1)))
    normal = b.sub(
        b.logic("shr", rounded, number(spare)), number((127 - form.bias) << form.mantissa)
    )
    # Below the least normal number, adding a power of two rounds to the subnormals' unit.
    power = b.const(2.0 ** (24 - form.bias - form.mantissa), x.dtype)
    lifted = b.add(b.bitcast(magnitude, x.dtype), power)
    subnormal = b.sub(b.bitcast(lifted, bits.dtype), b.bitcast(power, bits.dtype))
    small = b.compare("lt", magnitude, number((128 - form.bias) << 23))
    code = b.select(small, subnormal, normal)
    infinity = number(0x7F800000)
    large = b.compare("gt", code, number(form.largest))
    beyond = b.logic("or", large, b.compare("ge", magnitude, infinity))
    code = b.select(beyond, number(form.above), code)
    sign_bit = number(1 << (form.bits - 1))
    negative = b.compare("ne", b.logic("shr", bits, number(31)), number(0))
    signed = b.select(negative, b.logic("or", code, sign_bit), code)
    if form.zero == 0:  # the code of minus zero is another one's
        signed = b.select(b.compare("eq", code, number(0)), code, signed)
    missing = b.compare("gt", magnitude, infinity)
    nan = b.select(negative, number(form.nan[1]), number(form.nan[0]))
    return b.convert(b.select(missing, nan, signed), _UINT8)


def _power_code(b: Builder, bits: Scalar) -> Scalar:
    """The power of two nearest to a float32 by its bits, the larger of two; NaN if it has none."""
    rounded = b.logic("shr", b.add(bits, b.like(bits, 1 << 22)), b.like(bits, 23))
    is_least = b.compare("eq", bits, b.like(bits, 1 << 22))
    code = b.select(is_least, b.like(bits, 0), rounded)
    finite = b.compare("lt", b.sub(bits, b.like(bits, 1)), b.like(bits, 0x7F7FFFFF))
    return b.select(finite, code, b.like(bits, 0xFF))
