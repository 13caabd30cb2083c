"""sin, cos and tan of any angle, in radians.

``|x| = M 2^e`` is multiplied by 2/pi exactly enough for every float (Payne and Hanek, "Radian
reduction for trigonometric functions", SIGNUM Newsletter 18, 1983): multiples of 4 do not matter,
so of the bits of 2/pi only a window is needed, which begins where ``e`` says.  The two bits before
the binary point are the quadrant; the fraction, times pi/2, is the angle for the polynomials.
One float32 needs two products of 64 bits; a float64, whose window is of 192 bits and slides over
1216, about ninety operations.

From float32 angles up to ``NEAR`` multiples of pi/2 are subtracted instead (Cody and Waite,
"Software Manual for the Elementary Functions", 1980), in three parts, of which the first two leave
nothing to round where digits cancel.  An angle goes the way that its own size says, so a result
does not depend on its neighbours, but the long way is run only where a vector has such an angle.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from functrax.backends.kernels.math.expression import (
    Expr,
    constant,
    expr_of,
    fma,
    muladd,
    parts_of_counts,
    unlikely,
    where,
)
from functrax.core.types import dtypes

_WORD: Final = 64
_MASK32: Final = 2**32 - 1


def _two_over_pi(bits: int) -> int:
    """``floor(2^bits 2 / pi)``; pi by Machin's formula, in integers."""
    guard = bits + 64

    def arctangent_of_inverse(n: int) -> int:
        total, term, k, sign = 0, (1 << guard) // n, 1, 1
        while term:
            total += sign * (term // k)
            term //= n * n
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))
    return (1 << (bits + guard + 1)) // pi


def _words(zeros: int, count: int) -> tuple[int, ...]:
    """The bits of 2/pi after the point, behind so many zeros, in words."""
    size = count * _WORD
    whole = _two_over_pi(size - zeros)
    return tuple((whole >> (size - _WORD * (k + 1))) & (2**_WORD - 1) for k in range(count))


#: For a float32 the window begins with the bit of weight 2 of 2^-24 2/pi, or later.
_WORDS_SINGLE: Final = _words(26, 4)
_WORDS_DOUBLE: Final = _words(55, 19)
#: Angles below are reduced by subtraction: their quadrant has 12 bits.
NEAR: Final = 6000.0
#: A float32 that has no fraction, nor has what is little larger: the last bits are an integer.
_INTEGER: Final = 1.5 * 2**23


def _half_pi_in_three() -> tuple[float, float, float]:
    """pi/2 as a float32, 11 bits of the rest, and a float32 of what is left."""
    bits = 120
    rest = 2 ** (2 * bits) // _two_over_pi(bits)  # pi/2, scaled by 2^bits
    parts = []
    for kept in (24, 11, 24):
        drop = abs(rest).bit_length() - kept
        part = ((rest >> (drop - 1)) + 1) >> 1 << drop
        parts.append(float(np.ldexp(float(part >> drop), drop - bits)))
        rest -= part
    return parts[0], parts[1], parts[2]


_HALF_PI: Final = _half_pi_in_three()


class _Angle(NamedTuple):
    """``|x| = quadrant pi/2 + r + more`` up to multiples of 2 pi; the quadrant an integer."""

    quadrant: Expr
    r: Expr
    more: Expr


def _window(words: tuple[Expr, ...], shift: Expr) -> list[Expr]:
    """The words of a long number shifted left by less than a word."""
    back = shift ^ (_WORD - 1)
    return [(high << shift) | ((low >> 1) >> back) for high, low in pairwise(words)]


def _significand(a: Expr) -> tuple[Expr, Expr]:
    """``M`` and where the window begins, both uint64, for ``a`` from 1/2 on.

    The largest exponent counts as the one before, and ``M`` is doubled, which saves a word.
    """
    m, least, most = (23, 126, 253) if a.is_single else (52, 1022, 2045)
    words = dtypes.uint32 if a.is_single else dtypes.uint64
    exponent = a.bits >> m
    kept = Expr(a.b, a.b.min(exponent.s, exponent.node(most)))
    fraction = (a.bits & (2**m - 1)) | 2**m
    doubled = fraction << (exponent - kept)
    # From unsigned numbers, of whose upper half LLVM then knows that it is zero.
    wide = [x.seen_as(words).to(dtypes.uint64) for x in (doubled, kept - least)]
    return wide[0], wide[1]


def _reduced_single(a: Expr) -> _Angle:
    m, start = _significand(a)
    far = (start & _WORD).differs(0)
    numbers = [m.like(w) for w in _WORDS_SINGLE]
    words = tuple(where(far, y, x) for x, y in pairwise(numbers))
    high, low = _window(words, start & (_WORD - 1))
    turns = m * high + ((m * (low >> 32)) >> 32)  # quarters, 62 bits after the point
    quadrant = ((turns + 2**61) >> 62).to(dtypes.int32)
    fraction = (turns << 2).seen_as(dtypes.int64).to(a.dtype)
    top, rest = (c * 2.0**-64 for c in constant("half_pi", a))
    r = fraction * top
    return _Angle(quadrant, r, muladd(fraction, rest, fma(fraction, top, -r)))


def _slid(start: Expr) -> tuple[Expr, ...]:
    """The four words of 2/pi from bit ``start`` on, up to a shift by less than a word."""
    words = [start.like(w) for w in _WORDS_DOUBLE]
    for step in (8, 4, 2, 1):
        far = (start & (step * _WORD)).differs(0)
        words = [where(far, y, x) for x, y in zip(words, words[step:])]
    return tuple(words[:4])


def _reduced_double(a: Expr) -> _Angle:
    m, start = _significand(a)
    first, second, third = _window(_slid(start), start & (_WORD - 1))
    low, high = _product(m, second)
    tail = low + _upper_product(m, third)
    turns = m * first + high + where(tail < low, m.like(1), 0)
    quadrant = ((turns + 2**61) >> 62).seen_as(dtypes.int64)
    # The fraction in three pieces of which each is exactly a float64.
    fraction = (turns << 2) | (tail >> 62)
    tail = tail << 2
    pieces = [
        (fraction.seen_as(dtypes.int64) >> 32, 2.0**-32),
        ((((fraction & _MASK32) << 21) | (tail >> 43)).seen_as(dtypes.int64), 2.0**-85),
        ((tail & (2**43 - 1)).seen_as(dtypes.int64), 2.0**-128),
    ]
    x, y, z = (piece.to(a.dtype) * weight for piece, weight in pieces)
    total = x + y
    rest = y - (total - x) + z
    top, less = constant("half_pi", a)
    r = total * top
    return _Angle(quadrant, r, muladd(total, less, muladd(rest, top, fma(total, top, -r))))


def _product(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """The lower and the upper word of a product."""
    x0, x1, y0, y1 = x & _MASK32, x >> 32, y & _MASK32, y >> 32
    low = x0 * y0
    left = x1 * y0 + (low >> 32)
    right = x0 * y1 + (left & _MASK32)
    return (right << 32) | (low & _MASK32), x1 * y1 + (left >> 32) + (right >> 32)


def _upper_product(x: Expr, y: Expr) -> Expr:
    """The upper word of a product, up to a few units."""
    x0, x1, y0, y1 = x & _MASK32, x >> 32, y & _MASK32, y >> 32
    return x1 * y1 + ((x0 * y1) >> 32) + ((x1 * y0) >> 32)


def _reduced_near(a: Expr) -> _Angle:
    """For float32 below ``NEAR``."""
    shifted = muladd(a, 2 / math.pi, _INTEGER)
    turns = _INTEGER - shifted
    first, second, third = _HALF_PI
    high = a
    for part in parts_of_counts(first, a):
        high = muladd(turns, part, high)
    r = muladd(turns, second, high)
    return _Angle(shifted.bits, r, muladd(turns, third, muladd(turns, second, high - r)))


def _reduced(x: Expr) -> _Angle:
    a = abs(x)
    if x.is_single:
        near, large = _reduced_near(a), _reduced_single(a)
        r = where(a < math.inf, large.r, math.nan)
        pairs = zip((large.quadrant, r, large.more), near, strict=True)
        return _Angle(*(unlikely(a >= NEAR, y, x) for y, x in pairs))
    large = _reduced_double(a)
    small = a < math.pi / 4
    zero = large.quadrant.like(0)
    r = where(small, a, where(a < math.inf, large.r, math.nan))
    more = where(small, a.like(0), large.more)
    return _Angle(where(small, zero, large.quadrant), r, more)


def sine_of(r: Expr, more: Expr) -> Expr:
    """``sin(r + more)`` for ``|r| <= pi / 4``."""
    z = r * r
    return r + muladd(r * z, expr_of("sin", z), more)


def cosine_of(r: Expr, more: Expr) -> Expr:
    """``cos(r + more)`` there."""
    z = r * r
    return muladd(z, muladd(z, expr_of("cos", z), z.like(-0.5)), -r * more) + 1


def _with_sign_of_bit(x: Expr, bit: Expr) -> Expr:
    """Negated where bit 1 of an integer is set."""
    return (x.bits ^ ((bit & 2) << (30 if x.is_single else 62))).seen_as(x.dtype)


def _odd_signed(result: Expr, x: Expr) -> Expr:
    """Negated where ``x`` is negative."""
    sign = x.bits & (-(2**31) if x.is_single else -(2**63))
    return (result.bits ^ sign).seen_as(x.dtype)


def sin(x: Expr) -> Expr:
    """The sine."""
    quadrant, r, more = _reduced(x)
    value = where((quadrant & 1).differs(0), cosine_of(r, more), sine_of(r, more))
    return _odd_signed(_with_sign_of_bit(value, quadrant), x)


def cos(x: Expr) -> Expr:
    """The cosine."""
    quadrant, r, more = _reduced(x)
    value = where((quadrant & 1).differs(0), sine_of(r, more), cosine_of(r, more))
    return _with_sign_of_bit(value, quadrant + 1)


def tangent_in_two(r: Expr, more: Expr) -> tuple[Expr, Expr]:
    """``tan(r + more)`` for ``|r| <= pi / 4``, and what the last sum lost in rounding.

    The slope, ``1 + tan(r)^2``, is near ``1 + r^2 + r^4``.
    """
    z = r * r
    bend = fma(r * z, expr_of("tan", z), muladd(more * z, z + 1, more))
    t = r + bend
    return t, bend - (t - r)


def tan(x: Expr) -> Expr:
    """The tangent ``t`` of the reduced angle, or ``-1 / t``, with what ``t`` lost in rounding."""
    angle = _reduced(x)
    t, lost = tangent_in_two(angle.r, angle.more)
    inverse = 1 / t
    refined = muladd(inverse, muladd(-inverse, lost, fma(-inverse, t, t.like(1))), inverse)
    value = where((angle.quadrant & 1).differs(0), refined, t)
    return _odd_signed(_with_sign_of_bit(value, angle.quadrant << 1), x)
