"""lgamma and digamma.

On [1, 3] the zeros of the functions are taken out of a polynomial, so that its error is relative;
below, one step of the recurrence; above, Stirling's series with fitted coefficients.  Negative
numbers go by reflection, ``gamma(x) gamma(1 - x) = pi / sin(pi x)``: near the zeros that lgamma and
digamma have there, the error is small beside the terms, not beside their difference.
"""

from __future__ import annotations

import math
from typing import Final

from functrax.backends.kernels.math.expression import (
    Expr,
    constant,
    expr_of,
    fma,
    muladd,
    where,
    with_sign,
    without_first,
)
from functrax.backends.kernels.math.power import log_in_two
from functrax.backends.kernels.math.trigonometric import cosine_of, sine_of, tangent_in_two

#: What Stirling's series has besides powers of 1 / x.
_HALF_LOG_TAU: Final = (math.log(2 * math.pi) - 1) / 2


def _lgamma_of_positive(a: Expr) -> Expr:
    below = a < 1
    log, lost = log_in_two(a)
    first, u = where(below, a, a - 1), where(below, a - 1, a - 2)
    product = first * u
    high, low = constant("lgamma_0", a)
    bend = fma(without_first("lgamma", u), u, a.like(low))
    product_lost = fma(first, u, -product)
    near = fma(product, high, fma(product, bend, product_lost * (bend + high)))
    near = where(below, near - lost - log, near)
    less = log - 1
    lost = log - (less + 1) + lost
    inverse = 1 / a
    rest = muladd(inverse, expr_of("lgamma_far", inverse * inverse), a.like(_HALF_LOG_TAU))
    half = a - 0.5
    far = fma(half, less, muladd(half, lost, rest))
    return where(a < 3, near, where(a < math.inf, far, a))


def _distance(a: Expr) -> Expr:
    """From ``a`` to the nearest integer, with a sign."""
    return a - Expr(a.b, a.b.round_even(a.s))


def lgamma(x: Expr) -> Expr:
    """``log |gamma(x)|``."""
    a = abs(x)
    value = _lgamma_of_positive(a)
    d = abs(_distance(a))
    sine = _sine_of_turn(d)
    log, lost = log_in_two(a * sine)
    high, low = constant("log_pi", x)
    reflected = high - value - log + (low - lost)
    # Nearer to 0 the product is too small, and the logarithm of |x| is all there is.
    value = where(x < -(2.0**-60), reflected, value)
    pole = (x <= 0) & d.equals(0)
    return where(pole | a.equals(math.inf), x.like(math.inf), where(a < math.inf, value, x))


def _sine_of_turn(d: Expr) -> Expr:
    """``sin(pi d)`` for ``d`` in [0, 1/2]."""
    r, more = _times_pi(where(d < 0.25, d, 0.5 - d))
    return where(d < 0.25, sine_of(r, more), cosine_of(r, more))


def _times_pi(x: Expr) -> tuple[Expr, Expr]:
    """``pi x``, and what it lost in rounding."""
    high, low = constant("pi", x)
    r = x * high
    return r, muladd(x, low, fma(x, high, -r))


def _digamma_of_positive(a: Expr, lost: Expr) -> Expr:
    """Digamma of ``a + lost``."""
    below = a < 1
    inverse = 1 / a
    u = where(below, a - 1, a - 2)
    high, low = constant("digamma_zero", a)
    rounding = low - lost
    distance = where(below, a - (high - 1), a - high)
    gap = distance - rounding
    first, rest = constant("digamma_0", a)
    bend = fma(without_first("digamma", u), u, a.like(rest))
    near = fma(gap, first, fma(gap, bend, (distance - gap - rounding) * (bend + first)))
    left = where(a > 0.25, inverse * fma(-inverse, a, a.like(1)), 0.0)
    near = where(below, near - left - inverse, near)
    log, log_lost = log_in_two(a)
    z = inverse * inverse
    far = log + (muladd(inverse, -0.5, log_lost) - z * expr_of("digamma_far", z))
    return where(a < 3, near, where(a < math.inf, far, a))


def digamma(x: Expr) -> Expr:
    """The derivative of lgamma."""
    a = abs(x)
    negative = x < 0
    y = where(negative, a + 1, a)
    value = _digamma_of_positive(y, where(negative, a - (y - 1), 0.0))
    reflected = value + _cotangent_of_turn(_distance(a))
    value = where(negative, reflected, value)
    whole = Expr(x.b, x.b.trunc(x.s)).equals(x)
    nowhere = (x <= 0) & whole
    return where(nowhere, x.like(math.nan), value)


def _cotangent_of_turn(d: Expr) -> Expr:
    """``pi cot(pi d)`` for ``d`` in [-1/2, 1/2]; nearly 0, ``1 / d``."""
    a = abs(d)
    near = a < 0.25
    t, lost = tangent_in_two(*_times_pi(where(near, a, 0.5 - a)))
    high, low = constant("pi", d)
    inverse = 1 / t
    q = inverse * high
    refined = muladd(fma(-q, t, t.like(high)) + muladd(-q, lost, t.like(low)), inverse, q)
    refined = where(a < 2.0**-40, 1 / a, refined)
    direct = fma(t, high, muladd(lost, high, t * low))
    return with_sign(where(near, refined, direct), d)
