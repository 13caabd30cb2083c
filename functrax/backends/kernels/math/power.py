"""pow, cbrt and rsqrt.

``x^y = 2^(y log2 |x|)``: the logarithm and the product are sums of two floats, for an error in the
exponent is an error of the result that is up to 1024 times as large.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.math.exponential import rounded, scaled
from functrax.backends.kernels.math.expression import (
    Expr,
    at_least,
    at_most,
    expr_of,
    fma,
    root,
    where,
    with_sign,
)
from functrax.backends.kernels.math.logarithm import LOG2_E, split_any


def _third(x: Expr) -> tuple[float, float]:
    """1 / 3 as a number of the dtype, and the rest."""
    high = float(x.dtype.type(1 / 3))
    return high, (1 - 3 * high) / 3


def _log2(a: Expr) -> tuple[Expr, Expr]:
    """log2 of a positive number, and what it lost in rounding."""
    k, m = split_any(a)
    f = m - 1
    d = f + 2
    inverse = 1 / d
    s = f * inverse
    s_lost = fma(-s, f - (d - 2), fma(-s, d, f)) * inverse
    z = s * s
    z_lost = fma(s, s, -z) + 2 * s * s_lost
    high, low = _third(a)
    t = z * high
    rest = fma(z, low, fma(z_lost, high, z * z * expr_of("pow_log", z)))
    t_lost = fma(z, high, -t) + rest
    p = t + 1
    p_lost = t - (p - 1) + t_lost
    twice = s + s
    main = twice * p
    lost = fma(twice, p, -main) + fma(twice, p_lost, 2 * s_lost * p)
    high, low = LOG2_E[a.is_single]
    product = main * high
    product_lost = fma(main, high, -product) + fma(main, low, lost * high)
    total = k + product
    total_lost = product - (total - k) + product_lost
    result = total + total_lost
    return result, total_lost - (result - total)


def pow(x: Expr, y: Expr) -> Expr:
    """``x^y``, with the special values of C."""
    a = abs(x)
    main, lost = _log2(a)
    main = where(a < math.inf, main, a)
    main = where(a.equals(0), x.like(-math.inf), main)
    limit = 200 if x.is_single else 1200
    e = y * main
    e_lost = where(abs(e) < limit, fma(y, main, -e) + y * lost, 0.0)
    e = at_least(at_most(e, limit), -limit)
    n, bits = rounded(e, 1.0)
    r = (e - n) + e_lost
    value = scaled(fma(r, expr_of("exp2", r), r.like(1)), bits)
    return _of_negative(value, x, y, a)


def _of_negative(value: Expr, x: Expr, y: Expr, a: Expr) -> Expr:
    """The power of ``x`` from that of ``|x|``, and the exact ones of and to 1 and 0."""
    whole = _whole(y)
    odd = whole & _whole(y * 0.5).equals(False)
    signed = where((x.bits < 0) & odd, -value, value)
    nowhere = (x < 0) & (a < math.inf) & whole.equals(False)
    result = where(nowhere, x.like(math.nan), signed)
    one = y.equals(0) | x.equals(1) | (x.equals(-1) & abs(y).equals(math.inf))
    return where(one, x.like(1), result)


def _whole(y: Expr) -> Expr:
    return Expr(y.b, y.b.round_even(y.s)).equals(y)


def cbrt(x: Expr) -> Expr:
    """The cube root: a third of the exponent, Halley's iteration, and a step of Newton's."""
    a = abs(x)
    small = a < 1
    v = a * where(small, x.like(2.0**60), 2.0**-60)
    half = 16 if x.is_single else 32
    bits = (v.bits >> half) * 0x5555
    if not x.is_single:
        bits = bits << 16
    guess = 0x2A5119F2 if x.is_single else 0x2A9F7893782DA1CE
    y = (bits + guess).seen_as(x.dtype)
    for _ in range(1 if x.is_single else 2):
        cube = y * y * y
        y = fma(y, (v - cube) / (cube + cube + v), y)
    square = y * y
    y = fma(fma(-square, y, v), 1 / (3 * square), y)
    value = with_sign(y * where(small, x.like(2.0**-20), 2.0**20), x)
    return where(a.equals(0), x, where(a < math.inf, value, x))


def rsqrt(x: Expr) -> Expr:
    """``1 / sqrt(x)``."""
    return 1 / root(x)
