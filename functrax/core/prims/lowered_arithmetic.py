"""Arithmetic in scalar operations, where it takes more than one: the twin of the references.

A :class:`~functrax.core.scalars.scalar.Builder` and scalars enter, a scalar leaves.  Each function
has the name and the values of its reference in ``special_arithmetic.py``, for every real dtype:
half precision is widened once, computed in float32, and rounded once.

Start reading at :func:`div`, where the rules for integers are.
"""

from __future__ import annotations

import math

from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes


def _safe_divisor(b: Builder, y: Scalar) -> Scalar:
    """``y``, but 1 for the divisors 0 and -1, by which machines trap."""
    one, is_zero = b.like(y, 1), b.compare("eq", y, b.like(y, 0))
    safe = b.select(is_zero, one, y)
    if y.dtype.kind == "u":
        return safe
    return b.select(b.compare("eq", y, b.like(y, -1)), one, safe)


def _is_safe(y: Scalar) -> bool:
    return y.is_constant and y.attr != 0 and (y.dtype.kind == "u" or y.attr != -1)


def div(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """The quotient; integers by 0 give all bits set, the least one by -1 gives itself."""
    if dtypes.is_inexact(x.dtype) or _is_safe(y):
        return b.div(x, y)
    quotient = b.div(x, _safe_divisor(b, y))
    if y.dtype.kind == "i":
        quotient = b.select(b.compare("eq", y, b.like(y, -1)), b.neg(x), quotient)
    return b.select(b.compare("eq", y, b.like(y, 0)), b.like(x, -1), quotient)


def rem(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """The remainder with the sign of ``x``; of integers by 0 it is ``x``."""
    if dtypes.is_float(x.dtype) or _is_safe(y):
        return b.rem(x, y)
    # The remainder by 1 is that by -1.
    return b.select(b.compare("eq", y, b.like(y, 0)), x, b.rem(x, _safe_divisor(b, y)))


def larger(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """The larger one; of truth values the disjunction."""
    return b.logic("or", x, y) if x.dtype == dtypes.bool_ else b.max(x, y)


def smaller(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """The smaller one; of truth values the conjunction."""
    return b.logic("and", x, y) if x.dtype == dtypes.bool_ else b.min(x, y)


def clamp(b: Builder, low: Scalar, x: Scalar, high: Scalar) -> Scalar:
    """``min(max(x, low), high)``."""
    above = larger(b, b.widen(x), b.widen(low))
    return b.convert(smaller(b, above, b.widen(high)), x.dtype)


def sign(b: Builder, x: Scalar) -> Scalar:
    """-1, 0 or 1; zeros keep their sign, NaN stays NaN.  ``x / |x|`` of complex numbers."""
    if dtypes.is_complex(x.dtype):
        from functrax.core.scalars.complex_functions import (
            sign as of_complex,  # which few programs need
        )

        return of_complex(b, x)
    if not dtypes.is_float(x.dtype):
        zero = b.like(x, 0)
        above, below = b.compare("gt", x, zero), b.compare("lt", x, zero)
        return b.sub(b.convert(above, x.dtype), b.convert(below, x.dtype))
    wide = b.widen(x)
    kept = b.logic("or", b.compare("eq", wide, b.like(wide, 0)), b.is_nan(wide))
    unit = b.copysign(b.like(wide, 1), wide)
    return b.convert(b.select(kept, wide, unit), x.dtype)


def integer_pow(b: Builder, x: Scalar, n: int) -> Scalar:
    """``x**n`` by repeated squaring; for negative n the reciprocal of ``x**-n``."""
    square = b.widen(x)
    power = None
    left = abs(n)
    while left:
        if left & 1:
            power = square if power is None else b.mul(power, square)
        left >>= 1
        square = b.mul(square, square) if left else square
    if power is None:
        return b.like(x, 1)
    return b.convert(b.div(b.like(power, 1), power) if n < 0 else power, x.dtype)


def round_half_away(b: Builder, x: Scalar) -> Scalar:
    """The nearest integral value, ties away from zero; keeps the sign of zero."""
    wide = b.widen(x)
    size = b.abs(wide)
    whole = b.trunc(size)
    up = b.compare("ge", b.sub(size, whole), b.like(size, 0.5))
    rounded = b.select(up, b.add(whole, b.like(whole, 1)), whole)
    return b.convert(b.copysign(rounded, wide), x.dtype)


def is_finite(b: Builder, x: Scalar) -> Scalar:
    """Neither infinite nor NaN."""
    size = b.abs(b.widen(x))
    return b.compare("lt", size, b.like(size, math.inf))


def select_n(b: Builder, which: Scalar, *cases: Scalar) -> Scalar:
    """``cases[which]``; the first one where there is no such case."""
    if len(cases) == 1:
        return cases[0]
    if len(cases) == 2:
        return b.select(truth(b, which), cases[1], cases[0])
    out = cases[0]
    for i, case in enumerate(cases[1:], 1):
        out = b.select(b.compare("eq", which, b.like(which, i)), case, out)
    return out


def truth(b: Builder, x: Scalar) -> Scalar:
    """Whether a number is not 0; NaN is not."""
    if x.dtype == dtypes.bool_:
        return x
    wide = b.widen(x)
    return b.compare("ne", wide, b.like(wide, 0))
