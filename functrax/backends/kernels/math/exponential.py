"""exp, exp2, expm1 and what is made of them: logistic, tanh, sinh, cosh.

``x = n ln 2 + r`` with ``|r| <= ln(2) / 2`` (Cody and Waite, "Software Manual for the Elementary
Functions", 1980); a polynomial gives ``exp(r)``, and ``2^n`` is put together from its bits.
Adding 1.5 * 2^23 (2^52) to a number rounds it to an integer, which then stands in the low bits.
"""

from __future__ import annotations

from functrax.backends.kernels.math.expression import (
    Expr,
    at_least,
    at_most,
    constant,
    constant_of_counts,
    expr_of,
    fma,
    muladd,
    times_power_of_two,
    where,
    with_sign,
)


def mantissa_bits(x: Expr) -> int:
    """Of the dtype, without the hidden one."""
    return 23 if x.is_single else 52


def rounded(x: Expr, factor: float) -> tuple[Expr, Expr]:
    """The integer nearest to ``factor x``, as a float, and as the low bits of an integer."""
    shifter = _shifter(x)
    shifted = muladd(x, factor, shifter)
    return shifted - shifter, shifted.bits


def _shifter(x: Expr) -> Expr:
    """The number of which the low bits are those of an integer that is added to it."""
    return x.like(1.5 * 2.0 ** mantissa_bits(x))


def reduced_in_two(x: Expr, more: Expr | None = None) -> tuple[Expr, Expr, Expr]:
    """``exp(r) - 1``, what it lost in rounding, and the bits that end in ``n``.

    For ``x + more = n ln 2 + r``.
    """
    high, low = constant_of_counts("ln_2", x)
    n, bits = rounded(x, constant("log2_e", x)[0])
    r = muladd(n, -low, muladd(n, -high, x))
    if more is not None:
        r = r + more
    square, bend = r * r, expr_of("exp", r)
    e = muladd(square, bend, r)
    return e, muladd(square, bend, r - e), bits


def reduced(x: Expr, more: Expr | None = None) -> tuple[Expr, Expr]:
    """``exp(r) - 1`` and the bits that end in ``n``, for ``x + more = n ln 2 + r``."""
    e, _, bits = reduced_in_two(x, more)
    return e, bits


def power_of_two(bits: Expr, like: Expr) -> Expr:
    """``2^n`` for bits that end in ``n``, if that is a normal number."""
    m = mantissa_bits(like)
    one = (2**7 - 1) << m if like.is_single else (2**10 - 1) << m
    return ((bits << m) + one).seen_as(like.dtype)


def scaled(p: Expr, bits: Expr, more: int = 0) -> Expr:
    """``p 2^(n + more)`` for the bits that :func:`rounded` gives; rounded once."""
    return times_power_of_two(p, bits - (_shifter(p).bits - more))


def _clamped(x: Expr) -> Expr:
    low, high = (-110, 92) if x.is_single else (-760, 714)
    return at_least(at_most(x, high), low)


def exp(x: Expr) -> Expr:
    """``e^x``."""
    e, bits = reduced(_clamped(x))
    return scaled(e + 1, bits)


def exp2(x: Expr) -> Expr:
    """``2^x``."""
    low, high = (-160, 140) if x.is_single else (-1100, 1040)
    x = at_least(at_most(x, high), low)
    n, bits = rounded(x, 1.0)
    r = x - n
    return scaled(muladd(r, expr_of("exp2", r), r.like(1)), bits)


def expm1(x: Expr) -> Expr:
    """``e^x - 1``; by half of it, lest ``2^n`` overflow."""
    low, high = (-20, 89) if x.is_single else (-40, 709.9)
    e, lost, bits = reduced_in_two(at_least(at_most(x, high), low))
    half = power_of_two(bits - 1, x)
    base = half - 0.5
    total = muladd(e, half, base)
    total = total + muladd(lost, half, muladd(e, half, base - total))
    return where(abs(x) < 2.0**-60, x, total * 2)


def logistic(x: Expr) -> Expr:
    """``1 / (1 + e^-x)``; by ``e^-|x|``, which does not overflow."""
    e, bits = reduced(_clamped(-abs(x)))
    p = e + 1
    power, lost = scaled(p, bits), scaled(e - (p - 1), bits)
    negative = x < 0
    d = power + 1
    d_lost = power - (d - 1) + lost
    upper = where(negative, power, 1.0)
    return quotient(upper, where(negative, lost, 0.0), d, d_lost)


def quotient(x: Expr, x_more: Expr, y: Expr, y_more: Expr) -> Expr:
    """``(x + x_more) / (y + y_more)``, with an error hardly above half a unit."""
    inverse = 1 / y
    q = x * inverse
    left = muladd(-q, y_more, fma(-q, y, x) + x_more)
    return muladd(left, inverse, q)


def tanh(x: Expr) -> Expr:
    """``t / (t + 2)`` for ``t = e^(2 |x|) - 1``."""
    a = at_most(abs(x), 10 if x.is_single else 20)
    e, bits = reduced(a + a)
    power = power_of_two(bits, x)
    less = power - 1
    t = muladd(e, power, less)
    lost = muladd(e, power, less - t)
    d = t + 2
    return with_sign(quotient(t, lost, d, t - (d - 2) + lost), x)


def _half_exp(x: Expr) -> Expr:
    """``e^|x| / 2``."""
    e, bits = reduced(at_most(abs(x), 92 if x.is_single else 714))
    return scaled(e + 1, bits, -1)


def sinh(x: Expr) -> Expr:
    """``(e^x - e^-x) / 2``; below 1 a polynomial."""
    z = x * x
    near = muladd(x * z, expr_of("sinh", z), x)
    h = _half_exp(x)
    return where(abs(x) < 1, near, with_sign(h - 0.25 / h, x))


def cosh(x: Expr) -> Expr:
    """``(e^x + e^-x) / 2``."""
    h = _half_exp(x)
    return h + 0.25 / h
