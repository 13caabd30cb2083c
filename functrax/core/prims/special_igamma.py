"""Reference values of the incomplete gamma functions and their derivatives.

Float arrays enter, arrays of the same shape and dtype leave.  Every function here is the factor
``x^a exp(-x) / Γ(a + 1)`` times one of three sums, chosen by region:

- a >= 200: quadrature of the density, from x into the tail on the side away from the mean;
- otherwise x <= 1.1 or x <= a: the power series of P;
- otherwise: the continued fraction of Q.

:class:`Tail` holds P (or Q, told by ``upper``) and its derivative by a, both over that factor, so
that ratios of derivatives stay exact where the factor itself underflows.

Start reading at :func:`_over_factor`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from functrax.core.prims.special_gamma import (
    digamma_double,
    lgamma_of_next,
    log_minus_digamma,
    stirling_rest,
)
from functrax.core.prims.special_rounding import (
    Double,
    Mask,
    Piece,
    in_double,
    piecewise,
    polynomial,
)

QUADRATURE_FROM = 200.0
_SERIES_TERMS = 160
_FRACTION_TERMS = 160
FLOOR = -1 + 1e-12  # t cannot be negative; the density there is zero to rounding
ATANH = tuple(1 / (2 * k + 3) for k in range(18))


class Tail(NamedTuple):
    """A tail and its derivative by a, both divided by ``x^a exp(-x) / Γ(a + 1)``.

    ``upper`` tells where the tail is Q (from x to infinity) and where P (from 0 to x).
    """

    value: Double
    derivative: Double
    upper: Mask


@cache
def half_line_rule() -> tuple[Double, Double]:
    """Nodes and weights for a smooth, quickly decaying function of scale one on [0, inf).

    The trapezoidal rule after ``w = exp(t - exp(-t))``: Takahasi and Mori, "Double exponential
    formulas for numerical integration" (1974).  Exact to rounding for ``exp(-w)`` and Gaussians.
    """
    step = 1 / 12
    t = np.arange(-44, 46) * step
    nodes = np.exp(t - np.exp(-t))
    return nodes, nodes * (1 + np.exp(-t)) * step


def log1p_minus(u: Double) -> Double:
    """``log1p(u) - u`` without cancellation, for u > -1."""
    t = u / (2 + u)
    square = t * t
    near = 2 * t * square * polynomial(square, ATANH) - u * t
    return np.asarray(np.where((u > -0.5) & (u < 1), near, np.log1p(u) - u))


def deviance(u: Double, ratio: Double) -> Double:
    """``log(ratio) - u`` where ratio = 1 + u, given both because 1 + u rounds when u is near -1."""
    near = (u > -0.5) & (u < 1)
    return np.asarray(np.where(near, log1p_minus(np.where(near, u, 0)), np.log(ratio) - u))


def _factor(a: Double, x: Double) -> Double:
    """``x^a exp(-x) / Γ(a + 1)``; for large a in Loader's saddle point form (2000)."""

    def small(a: Double, x: Double) -> Double:
        return np.asarray(np.power(x, a) * np.exp(-x) * np.exp(-lgamma_of_next(a)))

    def large(a: Double, x: Double) -> Double:
        exponent = a * deviance((x - a) / a, x / a) - stirling_rest(a)
        return np.asarray(np.exp(exponent) / (math.sqrt(2 * math.pi) * np.sqrt(a)))

    vanished = (x > 1000) & (a < 10)
    pieces = [(vanished, lambda a, x: np.zeros_like(x)), (a < 10, small), (a >= 10, large)]
    return piecewise([a, x], pieces, math.nan)


def _series(a: Double, x: Double) -> Tail:
    """``P = factor * (1 + x/(a+1) + x²/((a+1)(a+2)) + ...)``; DLMF 8.11.4."""
    term, total = np.ones_like(x), np.ones_like(x)
    harmonic, slope = np.zeros_like(x), np.zeros_like(x)
    for n in range(1, _SERIES_TERMS):
        term = term * (x / (a + n))
        harmonic = harmonic + 1 / (a + n)
        total = total + term
        slope = slope - term * harmonic
    derivative = total * (np.log(x) - digamma_double(a + 1)) + slope
    return Tail(total, derivative, np.zeros(x.shape, np.bool_))


def _fraction(a: Double, x: Double) -> Tail:
    """``Q = factor * a / (x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...)))``; DLMF 8.9.2."""
    bottom = x + (2 * _FRACTION_TERMS + 1) - a
    slope = np.full_like(x, -1.0)
    for k in range(_FRACTION_TERMS, 0, -1):
        step = k * (k - a) / bottom
        slope = -1 + (k + step * slope) / bottom
        bottom = (x + (2 * k - 1) - a) - step
    value = 1 / bottom
    by_a = -slope * value * value
    derivative = value + a * (value * (np.log(x) - digamma_double(a + 1)) + by_a)
    return Tail(a * value, derivative, np.ones(x.shape, np.bool_))


def _quadrature(a: Double, x: Double) -> Tail:
    """The density from x to where it vanishes, on the side away from the mean.

    With t = x (1 + w) and x = a (1 + u) the density over its value at x is
    ``exp(a (log1p(w) - w - w u)) / (1 + w)``, whose exponent is a sum of two terms of one sign.
    """
    u = (x - a) / a
    upper = u >= 0
    length = np.minimum(1 / (a * np.abs(u)), np.sqrt(a) / x)
    log_ratio = np.where(np.abs(u) < 0.5, np.log1p(u), np.log(x / a))
    value, derivative = np.zeros_like(x), np.zeros_like(x)
    for node, weight in zip(*half_line_rule(), strict=True):
        w = np.maximum(np.where(upper, node, -node) * length, FLOOR)
        height = weight * np.exp(a * (log1p_minus(w) - w * u)) / (1 + w)
        value = value + height
        derivative = derivative + height * (log_ratio + np.log1p(w) + log_minus_digamma(a))
    scale = a * length
    return Tail(scale * value, scale * derivative, upper)


def _over_factor(a: Double, x: Double) -> Tail:
    """The tail that is cheap and exact at (a, x), for finite a > 0 and x > 0, over the factor."""
    by_quadrature = a >= QUADRATURE_FROM
    by_series = ~by_quadrature & ((x <= 1.1) | (x <= a))
    out = Tail(np.empty_like(x), np.empty_like(x), np.zeros(x.shape, np.bool_))
    regions = (
        (by_quadrature, _quadrature),
        (by_series, _series),
        (~by_quadrature & ~by_series, _fraction),
    )
    for mask, formula in regions:
        if mask.any():
            for whole, part in zip(out, formula(a[mask], x[mask]), strict=True):
                whole[mask] = part
    return out


def _lower(a: Double, x: Double) -> Double:
    tail = _over_factor(a, x)
    part = tail.value * _factor(a, x)
    return np.where(tail.upper, 1 - part, part)


def _upper(a: Double, x: Double) -> Double:
    tail = _over_factor(a, x)
    part = tail.value * _factor(a, x)
    return np.where(tail.upper, part, 1 - part)


def _upper_near_one(a: Double, x: Double) -> Double:
    """Q for small a and x, where 1 - P would cancel; DLMF 8.7.1 (Gautschi, ACM TOMS 5, 1979)."""
    term, total = np.ones_like(x), np.zeros_like(x)
    for n in range(1, 24):
        term = term * (-x / n)
        total = total + term / (a + n)
    exponent = a * np.log(x) - lgamma_of_next(a)
    return np.asarray(-np.expm1(exponent) - a * np.exp(exponent) * total)


def _derivative(a: Double, x: Double) -> Double:
    tail = _over_factor(a, x)
    return _factor(a, x) * np.where(tail.upper, -tail.derivative, tail.derivative)


def _sample_slope(a: Double, x: Double) -> Double:
    tail = _over_factor(a, x)
    return x / a * np.where(tail.upper, tail.derivative, -tail.derivative)


def _constant(value: float) -> Callable[[Double, Double], Double]:
    return lambda a, x: np.full_like(x, value)


def _edges(a: Double, x: Double, lower: float) -> list[Piece]:
    """P (for ``lower`` = 1) or Q (for 0) where a or x is zero or infinite."""
    inside = (a >= 0) & (x >= 0)
    return [
        (inside & (a == 0) & (x > 0), _constant(lower)),
        (inside & (a > 0) & (x == 0), _constant(1 - lower)),
        (inside & np.isfinite(a) & np.isinf(x), _constant(lower)),
        (inside & np.isinf(a) & np.isfinite(x), _constant(1 - lower)),
    ]


def _inside(a: Double, x: Double) -> Mask:
    return np.asarray((a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x))


@in_double
def igamma(a: Double, x: Double) -> Double:
    """Regularised lower incomplete gamma function ``P(a, x)``, for a >= 0 and x >= 0, else NaN.

    Any shape; f16, bf16, f32, f64.  In f64 the relative error is below 3e-14 where P > 1e-30;
    below that it is 1e-15 times ``10 + |log P|``.  P(0, 0) and P(inf, inf) are NaN.
    Source: DLMF 8.11.4, 8.9.2, and quadrature of the density for a >= 200.

    >>> round(float(igamma(np.float64(1.0), np.float64(1.0))), 12)
    0.632120558829
    """
    return piecewise([a, x], [*_edges(a, x, 1.0), (_inside(a, x), _lower)], math.nan)


@in_double
def igammac(a: Double, x: Double) -> Double:
    """Regularised upper incomplete gamma function ``Q(a, x) = 1 - P(a, x)``, exact in its tail.

    Any shape; f16, bf16, f32, f64.  Errors and sources as :func:`igamma`; where a and x are small
    DLMF 8.7.1.

    >>> round(float(igammac(np.float64(1.0), np.float64(1.0))), 12)
    0.367879441171
    """
    inside = _inside(a, x)
    near_one = ((x <= 0.5) & (a * np.log(x) > -0.4)) | ((x > 0.5) & (x <= 1.1) & (a < 1.1 * x))
    pieces = [*_edges(a, x, 0.0), (inside & near_one, _upper_near_one), (inside, _upper)]
    return piecewise([a, x], pieces, math.nan)


@in_double
def igamma_grad_a(a: Double, x: Double) -> Double:
    """``dP(a, x)/da``; zero at x = 0 and at x = inf, NaN where a <= 0.

    Any shape; f16, bf16, f32, f64.  In f64 the relative error is below 1e-13 where
    ``|dP/da| > 1e-30``.  Source: the derivatives, term by term, of the formulas of :func:`igamma`.

    >>> round(float(igamma_grad_a(np.float64(1.0), np.float64(1.0))), 12)
    -0.431729710635
    """
    ends = (a > 0) & np.isfinite(a) & ((x == 0) | (x == math.inf))
    return piecewise([a, x], [(ends, _constant(0.0)), (_inside(a, x), _derivative)], math.nan)


@in_double
def random_gamma_grad(a: Double, sample: Double) -> Double:
    """``d sample / da`` of a gamma(a, 1) sample at a fixed uniform: ``-(dP/da) / (dP/dx)``.

    Any shape; f16, bf16, f32, f64.  Zero at sample = 0, NaN where a <= 0.  In f64 the relative
    error is below 1e-13: the factor common to both derivatives, which may underflow, is left out.
    Source: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", NeurIPS 2018.

    >>> round(float(random_gamma_grad(np.float64(1.0), np.float64(1.0))), 12)
    1.173563027225
    """
    origin = (a > 0) & np.isfinite(a) & (sample == 0)
    pieces = [(origin, _constant(0.0)), (_inside(a, sample), _sample_slope)]
    return piecewise([a, sample], pieces, math.nan)
