"""erf, erfc and erf_inv.

``erfc(t) = exp(-t^2) (1 + g) / (1 + 2 t)`` for ``t >= 0``, where ``g`` is a polynomial in
``(t - c) / (t + c)`` (Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2)
erfc x", Mathematics of Computation 36, 1981).  erf is a polynomial near 0; elsewhere, in float32,
``1 - 2^q`` for a polynomial ``q``.  ``erf_inv(x) / x`` is a polynomial in ``-log(1 - x^2)``, or
in its square root in the tails (Giles, "Approximating the erfinv function", GPU Computing Gems 2,
2011).
"""

from __future__ import annotations

import math
from typing import Final

from functrax.backends.kernels.math.exponential import (
    power_of_two,
    quotient,
    reduced,
    rounded,
    scaled,
)
from functrax.backends.kernels.math.expression import (
    Expr,
    at_most,
    careful,
    constant,
    expr_of,
    fma,
    muladd,
    root,
    where,
    with_sign,
    without_first,
)
from functrax.backends.kernels.math.logarithm import logarithm_in_two, split

_CENTRE: Final = {True: 2.0, False: 4.0}
_END: Final = {True: 10.15, False: 27.3}


def _complement(t: Expr) -> Expr:
    """``erfc(t)`` for ``t >= 0``; each factor but the polynomials with what it lost in rounding."""
    centre = _CENTRE[t.is_single]
    t = at_most(t, _END[t.is_single])
    g = expr_of("erfc", (t - centre) / (t + centre))
    square = t * t
    e, bits = reduced(-square, fma(-t, t, square))
    p, h = e + 1, g + 1
    p_lost, h_lost = e - (p - 1), g - (h - 1)
    upper = p * h
    upper_lost = fma(p, h, -upper) + muladd(p_lost, h, p * h_lost)
    twice = t + t
    lower = twice + 1
    part = lower - twice
    lower_lost = (twice - (lower - part)) + (1 - part)
    return scaled(quotient(upper, upper_lost, lower, lower_lost), bits)


def erfc(x: Expr) -> Expr:
    """The complementary error function."""
    value = _complement(abs(x))
    near = 1 - muladd(x, expr_of("erf", x * x), x)
    return where(abs(x) < 0.5, near, where(x < 0, 2 - value, value))


def erf(x: Expr) -> Expr:
    """The error function."""
    a = abs(x)
    near = muladd(x, expr_of("erf", x * x), x)
    if x.is_single:
        t = at_most(a, 4)
        exponent = t * expr_of("erf_tail", t)
        n, bits = rounded(exponent, 1.0)
        r = exponent - n
        power = power_of_two(bits, x)
        far = 1 - muladd(r * expr_of("erf_exp2", r), power, power)
    else:
        far = 1 - _complement(a)
    return where(a < (0.85 if x.is_single else 1.0), near, with_sign(far, x))


def tail(name: str, x: Expr, u: Expr) -> Expr:
    """``x`` times a polynomial in ``u``, whose first coefficient has more bits than the dtype."""
    high, low = constant(f"{name}_0", x)
    return fma(x, high, x * fma(without_first(name, u), u, x.like(low)))


def erf_inv(x: Expr) -> Expr:
    """The inverse of the error function, on (-1, 1)."""
    a = abs(x)
    k, m = split(fma(-x, x, x.like(1)))
    main, lost = logarithm_in_two(k.to(x.dtype), m - 1)
    w = -main
    high, low = constant("half_root_pi", x)
    near = fma(x, high, x * fma(w, careful("erf_inv", w), w.like(low)))
    g = root(w)
    more = (fma(-g, g, w) - lost) * (0.5 / g)
    far = tail("erf_inv_tail", x, g - 2.875 + more)
    if not x.is_single:
        far = where(w < 16, far, tail("erf_inv_far", x, g - 5 + more))
    value = where(w < 4, near, far)
    end = where(a.equals(1), x.like(math.inf), math.nan)
    return with_sign(where(a < 1, value, end), x)
