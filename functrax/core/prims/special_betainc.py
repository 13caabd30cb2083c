"""Reference values of the regularised incomplete beta function.

Float arrays a, b, x enter, an array of the same shape and dtype leaves.  The value is the factor
``x^a (1-x)^b / B(a, b)`` times a continued fraction, or, when a and b are both large and that
converges slowly, times a quadrature of the density.  Both work on the side of the mean where x
lies in the lower tail; :func:`_tail` swaps the roles of x and 1 - x to get there.

Start reading at :func:`_value`.
"""

from __future__ import annotations

import math

import numpy as np

from functrax.core.prims.special_gamma import lgamma_of_next, stirling_rest
from functrax.core.prims.special_igamma import deviance, half_line_rule, log1p_minus
from functrax.core.prims.special_rounding import Double, Mask, in_double, piecewise

QUADRATURE_FROM = 1000.0
_FRACTION_TERMS = 160
_FLOOR = -1 + 1e-12


def _factor(a: Double, b: Double, x: Double, y: Double) -> Double:
    """``x^a y^b / B(a, b)`` with y = 1 - x, in Loader's saddle point form (2000) unless small."""

    def small(a: Double, b: Double, x: Double, y: Double) -> Double:
        gammas = lgamma_of_next(a + b) - lgamma_of_next(a) - lgamma_of_next(b)
        powers = np.power(x, a) * np.power(y, b)
        return np.asarray(powers * np.exp(gammas) * (a * (b / (a + b))))

    def large(a: Double, b: Double, x: Double, y: Double) -> Double:
        excess = x * b - y * a
        ratio_x, ratio_y = x + x * (b / a), y + y * (a / b)
        exponent = a * deviance(excess / a, ratio_x) + b * deviance(-excess / b, ratio_y)
        rests = stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)
        root = np.sqrt(a) * np.sqrt(b / (a + b)) / math.sqrt(2 * math.pi)
        return np.asarray(root * np.exp(exponent + rests))

    pieces = [((a < 10) & (b < 10), small), ((a > 0) & (b > 0), large)]
    return piecewise([a, b, x, y], pieces, math.nan)


def _fraction(a: Double, b: Double, x: Double, y: Double) -> Double:
    """``1 / (b0 + a1 / (b1 + a2 / (b2 + ...)))``, the even part of DLMF 8.17.22.

    Contracted so that nothing cancels when x is near one: DiDonato and Morris, ACM TOMS 18 (1992).
    """
    lead = a * y - b * x + 1
    rest = np.zeros_like(x)
    for m in range(_FRACTION_TERMS, 0, -1):
        head = a + (2 * m - 1)
        step = m * (b - m) * x / head
        diagonal = m + step + (a + m) / (a + (2 * m + 1)) * (lead + m * (1 + y))
        rest = (a + (m - 1)) * ((a + b + (m - 1)) / head) * step * x / (diagonal + rest)
    return 1 / (a / (a + 1) * lead + rest)


def _quadrature(a: Double, b: Double, x: Double, y: Double) -> Double:
    """The density left of x, over the factor; its exponent is a sum of terms of one sign."""
    slope = np.maximum(a * y - b * x, 0.0) / y
    length = np.minimum(1 / slope, 1 / np.sqrt(a + b * (x / y) ** 2))
    total = np.zeros_like(x)
    for node, weight in zip(*half_line_rule(), strict=True):
        w = np.maximum(-node * length, _FLOOR)
        v = -w * (x / y)
        exponent = a * log1p_minus(w) + b * log1p_minus(v) + slope * w
        total = total + weight * np.exp(exponent) / ((1 + w) * (y * (1 + v)))
    return np.asarray(total * length)


def _tail(a: Double, b: Double, x: Double, y: Double) -> Double:
    """The value where x is not right of the mean by more than the fraction stands."""
    both_large = (a >= QUADRATURE_FROM) & (b >= QUADRATURE_FROM)
    sums = piecewise([a, b, x, y], [(both_large, _quadrature), (~both_large, _fraction)], math.nan)
    return sums * _factor(a, b, x, y)


def _value(a: Double, b: Double, x: Double) -> Double:
    y = 1 - x
    swap = np.where(
        (a >= QUADRATURE_FROM) & (b >= QUADRATURE_FROM),
        x * b > y * a,
        x * (a + b + 2) > a + 1,
    )
    first, second = np.where(swap, b, a), np.where(swap, a, b)
    tail = _tail(first, second, np.where(swap, y, x), np.where(swap, x, y))
    return np.where(swap, 1 - tail, tail)


def _outside(a: Double, b: Double, x: Double) -> Mask:
    domain = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)
    undecided = ((a == 0) & (b == 0)) | (np.isinf(a) & np.isinf(b))
    return np.asarray(~domain | undecided)


@in_double
def betainc(a: Double, b: Double, x: Double) -> Double:
    """Regularised incomplete beta function ``I_x(a, b)``.

    Args:
      a: the first parameter, >= 0.
      b: the second one, >= 0; not both zero, not both infinite.
      x: the upper end of the integral, in [0, 1].

    NaN outside.  A parameter that is 0 or infinite puts all the mass at one end.  Any shape; f16,
    bf16, f32, f64.  In f64, where the value is above 1e-30 and a, b <= 1e5, the error is at most
    1e-13 relative or 1e-14 absolute, the larger of the two; beyond, it grows with the square
    root of the smaller parameter, to 1e-10 at 1e11.
    Source: DLMF 8.17.22, and quadrature of the density when a and b are both >= 1000.

    >>> float(betainc(np.float64(2.0), np.float64(2.0), np.float64(0.5)))
    0.5
    """
    pieces = [
        (_outside(a, b, x), lambda a, b, x: np.full_like(x, math.nan)),
        (x == 0, lambda a, b, x: np.zeros_like(x)),
        (x == 1, lambda a, b, x: np.ones_like(x)),
        ((a == 0) | np.isinf(b), lambda a, b, x: np.ones_like(x)),
        ((b == 0) | np.isinf(a), lambda a, b, x: np.zeros_like(x)),
        (~np.isnan(x), _value),
    ]
    return piecewise([a, b, x], pieces, math.nan)
