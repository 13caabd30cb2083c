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
    constant,
    constant_of_counts,
    expr_of,
    fma,
    muladd,
    root,
    where,
    with_sign,
)
from functrax.backends.kernels.math.logarithm import split_any


def _log_of_significand(f: Expr) -> tuple[Expr, Expr]:
    """``log(1 + f) = 2 s (1 + z / 3 + z^2 Q(z))``, and what it lost in rounding."""
    d = f + 2
    inverse = 1 / d
    s = f * inverse
    s_lost = muladd(-s, f - (d - 2), fma(-s, d, f)) * inverse
    z = s * s
    z_lost = fma(s, s, -z) + 2 * s * s_lost
    high, low = constant("third", f)
    t = z * high
    rest = muladd(z, low, muladd(z_lost, high, z * z * expr_of("pow_log", z)))
    t_lost = fma(z, high, -t) + rest
    p = t + 1
    p_lost = t - (p - 1) + t_lost
    twice = s + s
    main = twice * p
    return main, fma(twice, p, -main) + muladd(twice, p_lost, 2 * s_lost * p)


def _sum(x: Expr, y: Expr, lost: Expr) -> tuple[Expr, Expr]:
    """``x + y + lost`` for ``x`` that is not smaller than ``y``, or 0; and what is lost then."""
    total = x + y
    lost = y - (total - x) + lost
    result = total + lost
    return result, lost - (result - total)


def _log2(a: Expr) -> tuple[Expr, Expr]:
    """log2 of a positive number, and what it lost in rounding."""
    k, m = split_any(a)
    main, lost = _log_of_significand(m - 1)
    high, low = constant("log2_e", a)
    product = main * high
    return _sum(k, product, fma(main, high, -product) + muladd(main, low, lost * high))


def log_in_two(a: Expr) -> tuple[Expr, Expr]:
    """The natural logarithm of a positive number, and what it lost in rounding."""
    k, m = split_any(a)
    main, lost = _log_of_significand(m - 1)
    high, low = constant_of_counts("ln_2", a)
    product = k * high
    return _sum(product, main, muladd(k, high, -product) + muladd(k, low, lost))


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
    value = scaled(muladd(r, expr_of("exp2", r), r.like(1)), bits)
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
        y = muladd(y, (v - cube) / (cube + cube + v), y)
    square = y * y
    y = muladd(fma(-square, y, v), 1 / (3 * square), y)
    value = with_sign(y * where(small, x.like(2.0**-20), 2.0**20), x)
    return where(a.equals(0), x, where(a < math.inf, value, x))


def rsqrt(x: Expr) -> Expr:
    """``1 / sqrt(x)``."""
    return 1 / root(x)
