"""Rounding: bf16, subnormal numbers, NaN, fused multiply-add, and exact results for all modes.

Rounding to the nearest is done on whole arrays, other modes by exact fractions, a number at a time:
kernels hardly use them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np

from functrax.backends.cuda.simulator.syntax import Array, DType

F16: Final[DType] = np.dtype("f2")
F32: Final[DType] = np.dtype("f4")
F64: Final[DType] = np.dtype("f8")
U16: Final[DType] = np.dtype("u2")
U32: Final[DType] = np.dtype("u4")
U64: Final[DType] = np.dtype("u8")


class RoundedFormat(NamedTuple):
    """A binary format: bits of the significand with its leading one, and the exponents' range."""

    precision: int
    least: int
    greatest: int


FORMATS: Final = {
    "f16": RoundedFormat(11, -14, 15),
    "bf16": RoundedFormat(8, -126, 127),
    "f32": RoundedFormat(24, -126, 127),
    "f64": RoundedFormat(53, -1022, 1023),
    "tf32": RoundedFormat(11, -126, 127),
}
#: The NaN that arithmetic gives (PTX ISA 9.7.3).
_NAN: Final = {
    F16: np.uint16(0x7FFF).view(np.float16),
    F32: np.uint32(0x7FFFFFFF).view(np.float32),
    F64: np.uint64(0x7FF8000000000000).view(np.float64),
}
_LEAST_NORMAL: Final = np.float32(2.0**-126)
BF16_NAN: Final = np.uint16(0x7FFF)


def canonical(x: Array) -> Array:
    """The result of an operation, in place, with the NaN that GPUs give."""
    wrong = np.isnan(x)
    if wrong.any():
        x[wrong] = _NAN[x.dtype]
    return x


def flush(x: Array) -> Array:
    """Subnormal numbers of f32 become zeros of their sign (.ftz)."""
    bits = x.view(U32)
    small = (bits & np.uint32(0x7F800000)) == 0
    return np.where(small, bits & np.uint32(0x80000000), bits).view(F32)


def widen_bf16(x: Array) -> Array:
    """From the bits of bf16 to f32."""
    return (x.astype(U32) << np.uint32(16)).view(F32)


def round_bf16(x: Array) -> Array:
    """From f32 to the bits of bf16, to the nearest, ties to even."""
    bits = x.view(U32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(U16)
    return np.where(np.isnan(x), BF16_NAN, rounded)


def odd_sum(x: Array, y: Array) -> Array:
    """X + y in f64, rounded to odd: to round it again to fewer bits gives the exact result."""
    total = x + y
    z = total - x
    error = (x - (total - z)) + (y - z)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
    if not inexact.any():
        return total
    away = (error > 0) == (total > 0)
    return np.where(inexact, bits + np.where(away, 1, -1), bits).view(F64)


def fma_f32(x: Array, y: Array, z: Array) -> Array:
    """x·y + z, rounded once.

    The product is exact in f64.  The sum, rounded to f64 and again to f32, is wrong only if it is
    in the middle between two numbers of f32, or subnormal, so only those are done again.
    """
    product = x.astype(F64)
    product = product * y
    addend = z.astype(F64)
    total = product + addend
    result: Array = total.astype(F32)
    doubtful = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    size = np.abs(result)
    if np.fmin.reduce(size) < _LEAST_NORMAL:
        doubtful |= size < _LEAST_NORMAL
    if doubtful.any():
        where = np.flatnonzero(doubtful)
        product, addend = np.broadcast_arrays(product, addend)
        result[where] = odd_sum(product[where], addend[where]).astype(F32)
    return result


def fma_small(x: Array, y: Array, z: Array) -> Array:
    """x·y + z of numbers of at most 11 bits, as f64 rounded to odd."""
    return odd_sum(x.astype(F64) * y.astype(F64), z.astype(F64))


def round_odd_f32(x: Array) -> Array:
    """From f64 to f32, rounded to odd."""
    result = x.astype(F32)
    error = x - result.astype(F64)
    bits = result.view(np.int32)
    inexact = (error != 0) & np.isfinite(result) & ((bits & 1) == 0)
    # A result of zero becomes the least number of the sign that x has.
    away = np.where(result == 0, True, (error > 0) == (result > 0))
    sign = np.where((result == 0) & (x < 0), np.int32(-(1 << 31)), bits)
    stepped = sign + np.where(away, np.int32(1), np.int32(-1))
    return np.where(inexact, stepped, bits).view(F32)


def fma_f64(x: Array, y: Array, z: Array) -> Array:
    """x·y + z, rounded once (Boldo and Melquiond, Emulation of FMA, IEEE ToC 2008)."""
    x, y, z = np.broadcast_arrays(x, y, z)
    high, low = _two_product(x, y)
    t, u = _two_sum(z, low)
    v, w = _two_sum(high, t)
    nothing = (x == 0) | (y == 0)  # the product is exact, and its sign counts
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    result = np.where(nothing | ~finite, x * y + z, v + odd_sum(u, w))
    size = np.abs(np.stack([x, y, z, high]))
    unsafe = ((size < 1e-270) & (size != 0)) | ~(size < 1e270)
    vanishes = (high == 0) & (x != 0) & (y != 0)
    for k in np.flatnonzero(finite & (unsafe.any(axis=0) | vanishes)).tolist():
        a, b, c = float(x[k]), float(y[k]), float(z[k])
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        product_sign = math.copysign(1, a) * math.copysign(1, b)
        zero = -0.0 if product_sign < 0 and math.copysign(1, c) < 0 else 0.0
        result[k] = _rounded(exact, "f64", "rn", zero)
    return result


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    z = total - x
    return total, (x - (total - z)) + (y - z)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    product = x * y
    x1, x2 = _halves(x)
    y1, y2 = _halves(y)
    return product, ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


# Exactly, a number at a time


def exact_operation(name: str, form: str, mode: str, *operands: Array) -> Array:
    """add, sub, mul, fma, div, sqrt of f64 arrays that hold numbers of a format; as f64.

    Args:
      form: a key of ``FORMATS``.
      mode: ``rn``, ``rz``, ``rm`` or ``rp``.
    """
    arrays = np.broadcast_arrays(*operands)
    rows = zip(*(x.tolist() for x in arrays))
    return np.array([_one(name, form, mode, *row) for row in rows], F64)


def _one(name: str, form: str, mode: str, *x: float) -> float:
    plain = np.array(x)
    with np.errstate(all="ignore"):
        usual = float(_usual(name, plain))
    if not all(map(math.isfinite, x)) or math.isnan(usual):
        return usual
    if name == "div" and x[1] == 0:
        return usual
    if name == "sqrt":
        return _square_root(x[0], form, mode)
    a = [Fraction(v) for v in x]
    if name == "div":
        exact = a[0] / a[1]
    elif name == "fma":
        exact = a[0] * a[1] + a[2]
    else:
        exact = {"add": a[0] + a[-1], "sub": a[0] - a[-1], "mul": a[0] * a[-1]}[name]
    zero = usual
    if (
        exact == 0
        and name in ("add", "sub", "fma")
        and mode == "rm"
        and not math.copysign(1, usual) < 0
    ):
        # A sum of opposite numbers is -0 if rounding goes down, unless both were +0.
        parts = (x[0] * x[1], x[2]) if name == "fma" else (x[0], x[-1] if name == "add" else -x[-1])
        opposite = any(parts) or math.copysign(1, parts[0]) != math.copysign(1, parts[1])
        zero = -0.0 if opposite else 0.0
    return _rounded(exact, form, mode, zero)


def _usual(name: str, x: Array) -> Any:
    if name == "fma":
        return x[0] * x[1] + x[2]
    if name == "sqrt":
        return np.sqrt(x[0])
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    return ufunc(x[0], x[1])


def _square_root(x: float, form: str, mode: str) -> float:
    if x == 0:
        return x
    # The root to 128 bits, its last one set if there are more.
    exact = Fraction(x)
    scale = 256 + 2 * max(0, -math.frexp(x)[1])
    number = (exact.numerator << (2 * scale)) // exact.denominator
    root = math.isqrt(number)
    sticky = Fraction(root) + (Fraction(1, 2) if root * root != number else 0)
    return _rounded(sticky / (1 << scale), form, mode, 0.0)


def _rounded(exact: Fraction, form: str, mode: str, zero: float) -> float:
    """A fraction rounded to a format.

    Args:
      zero: what 0 is, with its sign.
    """
    if exact == 0:
        return zero
    precision, least, greatest = FORMATS[form]
    negative, size = exact < 0, abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, least) - precision + 1)
    whole, rest = divmod(size / step, 1)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rna": rest >= Fraction(1, 2),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    value = (whole + up) * step
    most = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** greatest
    if value > most:
        outward = mode in ("rn", "rna") or mode == ("rm" if negative else "rp")
        result = math.inf if outward else float(most)
    else:
        result = float(value)
    return -result if negative else result


def exact_round(x: Array, form: str, mode: str) -> Array:
    """Numbers of f64 rounded to a format; as f64."""
    return np.array(
        [
            _rounded(Fraction(v), form, mode, v) if math.isfinite(v) else v
            for v in x.astype(F64).tolist()
        ],
        F64,
    )


def held(x: Array, form: str) -> Array:
    """Numbers of f64 that are numbers of a format, as registers hold them."""
    if form == "bf16":
        return round_bf16(x.astype(F32))
    if form == "tf32":
        return x.astype(F32).view(U32)
    return canonical(x.astype(dtype_of(form)))


def dtype_of(form: str) -> DType:
    """How NumPy holds a format."""
    return {"f16": F16, "f32": F32, "f64": F64}[form]


def values(x: Array, form: str) -> Array:
    """What registers hold, as f64."""
    return (widen_bf16(x) if form == "bf16" else x).astype(F64)
