"""log, log2, log1p and what is made of them: asinh, acosh, atanh.

``x = 2^k (1 + f)`` with ``1 + f`` between sqrt(1/2) and sqrt(2), taken from the bits of ``x``.
float32: ``log(1 + f)`` is a polynomial; float64: with ``s = f / (2 + f)`` it is ``2 atanh(s)``,
whose polynomial is half as long, arranged as in fdlibm (Sun Microsystems, 1993).
"""

from __future__ import annotations

import math
from typing import Final

from functrax.backends.kernels.math.exponential import mantissa_bits
from functrax.backends.kernels.math.expression import (
    Expr,
    at_least,
    constant,
    constant_of_counts,
    expr_of,
    fma,
    muladd,
    root,
    where,
    with_sign,
)

_ROOT_HALF: Final = {True: 0x3F3504F3, False: 0x3FE6A09E667F3BCD}
_LEAST_NORMAL: Final = {True: 2.0**-126, False: 2.0**-1022}


def split(x: Expr) -> tuple[Expr, Expr]:
    """``k``, an integer, and ``1 + f``, for a positive normal ``x``."""
    m = mantissa_bits(x)
    k = (x.bits - _ROOT_HALF[x.is_single]) >> m
    return k, (x.bits - (k << m)).seen_as(x.dtype)


def split_any(x: Expr) -> tuple[Expr, Expr]:
    """``k``, as a float, and ``1 + f``, for any positive ``x``."""
    tiny = x < _LEAST_NORMAL[x.is_single]
    lift = 25 if x.is_single else 54
    k, m = split(where(tiny, x * 2.0**lift, x))
    return k.to(x.dtype) + where(tiny, x.like(-lift), 0.0), m


def _bend(f: Expr) -> Expr:
    """``log(1 + f) - f``."""
    if f.is_single:
        return f * f * muladd(f, expr_of("log", f), f.like(-0.5))
    s = f / (f + 2)
    z = s * s
    half_square = f * f * 0.5
    return muladd(s, muladd(z, expr_of("log_ratio", z), half_square), -half_square)


def logarithm_in_two(k: Expr, f: Expr) -> tuple[Expr, Expr]:
    """``k ln 2 + log(1 + f)``, and what the last sum lost in rounding."""
    high, low = constant_of_counts("ln_2", f)
    rest = f + muladd(k, low, _bend(f))
    main = muladd(k, high, rest)
    return main, muladd(k, high, -main) + rest


def logarithm_of(k: Expr, f: Expr) -> Expr:
    """``k ln 2 + log(1 + f)``."""
    return logarithm_in_two(k, f)[0]


def edges(result: Expr, x: Expr, zero: float = 0.0) -> Expr:
    """What a logarithm is at infinity, at its pole ``zero`` and below that."""
    result = where(x < math.inf, result, x)
    outside = where(x.equals(zero), x.like(-math.inf), math.nan)
    return where(x > zero, result, outside)


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    k, m = split_any(x)
    return edges(logarithm_of(k, m - 1), x)


def log2(x: Expr) -> Expr:
    """The logarithm to base 2; ``f / ln 2`` is kept to more bits than the dtype has."""
    high, low = constant("log2_e", x)
    k, m = split_any(x)
    f = m - 1
    main = f * high
    rest = muladd(_bend(f), high, muladd(f, low, fma(f, high, -main)))
    total = k + main
    return edges(total + (main - (total - k) + rest), x)


def log1p(x: Expr, more: Expr | None = None) -> Expr:
    """``log(1 + x + more)``: what is lost in ``u = 1 + x`` goes to ``f``."""
    u = x + 1
    part = u - 1
    lost = (1 - (u - part)) + (x - part)
    if more is not None:
        lost = lost + more
    k, m = split(u)
    scale_exponent = Expr(x.b, x.b.min(k.s, k.node(60)))
    one = x.like(1).bits
    scale = (one - (scale_exponent << mantissa_bits(x))).seen_as(x.dtype)
    f = muladd(lost, scale, m - 1)
    return with_sign(edges(logarithm_of(k.to(x.dtype), f), x, -1.0), x)


def _log1p_or_log(x: Expr, y: Expr, more: Expr, large: Expr) -> Expr:
    """``log1p(y + more)``, or ``log(2 x)`` where ``x`` is large."""
    result = log1p(where(large, x - 1, y), where(large, x.like(0), more))
    return result + where(large, x.like(math.log(2)), 0.0)


def _limit(x: Expr) -> float:
    """Above this ``sqrt(x^2 + 1)`` is as good as ``x``."""
    return 2.0**13 if x.is_single else 2.0**28


def asinh(x: Expr) -> Expr:
    """``log1p(a + a^2 / (1 + sqrt(1 + a^2)))`` for ``a = |x|``."""
    a = abs(x)
    square = a * a
    q = square / (root(square + 1) + 1)
    y = a + q
    return with_sign(_log1p_or_log(a, y, q - (y - a), a > _limit(x)), x)


def acosh(x: Expr) -> Expr:
    """``log1p(t + sqrt(2 t + t^2))`` for ``t = x - 1``."""
    t = x - 1
    twice = t + t
    square = muladd(t, t, twice)
    g = root(square)
    left = fma(-g, g, square) + fma(t, t, twice - square)
    y = t + g
    more = muladd(left, 0.5 / at_least(g, 2.0**-60), t - (y - g))
    result = _log1p_or_log(x, y, more, x > _limit(x))
    return where(x >= 1, result, math.nan)


def atanh(x: Expr) -> Expr:
    """``log1p(2 a / (1 - a)) / 2`` for ``a = |x|``, the quotient to more bits."""
    a = abs(x)
    d = 1 - a
    twice = a + a
    y = twice / d
    lost = 1 - d - a
    more = (fma(-y, d, twice) - y * lost) / d
    return with_sign(log1p(y, more) * 0.5, x)
