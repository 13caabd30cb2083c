"""Reference values around the gamma function: lgamma, digamma, polygamma, Hurwitz zeta.

Float arrays enter, arrays of the same shape and dtype leave.  Each function has one region where
a series of its own is exact to rounding (Taylor around 1 and 2 for lgamma, Chebyshev on [1, 2] for
digamma, Stirling's series from 10 on for both), and a recurrence or a reflection that moves every
other argument there.  The functions named ``*_double`` are the same formulas over doubles, for the
files next to this one.

Start reading at :func:`lgamma_double`.
"""

from __future__ import annotations

import math

import numpy as np

from functrax.core.prims.special_rounding import Double, in_double, piecewise, polynomial

_LARGE = 10.0
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)

# (-1)^n (zeta(n) - 1) / n for n = 1 (where it means 1 - gamma), 2, 3, ...; A&S 6.1.33.
LGAMMA_TAYLOR = (
    0.42278433509846713,
    0.3224670334241132,
    -0.0673523010531981,
    0.020580808427784546,
    -0.007385551028673986,
    0.0028905103307415234,
    -0.001192753911703261,
    0.0005096695247430425,
    -0.00022315475845357939,
    9.945751278180853e-05,
    -4.492623673813314e-05,
    2.050721277567069e-05,
    -9.439488275268397e-06,
    4.374866789907488e-06,
    -2.039215753801366e-06,
    9.55141213040742e-07,
    -4.492469198764566e-07,
    2.1207184805554665e-07,
    -1.0043224823968099e-07,
    4.7698101693639804e-08,
    -2.2711094608943164e-08,
    1.0838659214896955e-08,
    -5.183475041970047e-09,
    2.4836745438024785e-09,
    -1.1921401405860912e-09,
    5.731367241678862e-10,
    -2.7595228851242334e-10,
    1.330476437424449e-10,
    -6.4229645638381e-11,
)

# The positive zero of digamma, in two parts, and digamma(x) / (x - zero) as a Chebyshev series in
# 2x - 3 on [1, 2], computed with 60 digits.
_ROOT, _ROOT_REST = 1.4616321449683622, 9.549995429965697e-17
_DIGAMMA = (
    0.983570260441567,
    -0.2270640863346444,
    0.03336889902393011,
    -0.005320077271596548,
    0.0008788656937820505,
    -0.00014773492650606044,
    2.5060543468359146e-05,
    -4.2721034029993324e-06,
    7.302769272465923e-07,
    -1.2502886813559594e-07,
    2.1425009322359472e-08,
    -3.673295918565179e-09,
    6.299717236108931e-10,
    -1.080593028883266e-10,
    1.853735192053638e-11,
    -3.18023536582553e-12,
    5.456147570322795e-13,
    -9.360993131036438e-14,
    1.606064636295075e-14,
    -2.7555431377438815e-15,
    4.727736178601912e-16,
    -8.11148420346509e-17,
    1.391707769474154e-17,
)

# Bernoulli numbers B2, B4, ...; DLMF 24.2.
BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
    854513 / 138,
    -236364091 / 2730,
)
STIRLING = tuple(b / ((2 * j + 2) * (2 * j + 1)) for j, b in enumerate(BERNOULLI[:9]))
DIGAMMA_TAIL = tuple(b / (2 * j + 2) for j, b in enumerate(BERNOULLI[:9]))
_FACTORIALS = np.array([float(math.factorial(m)) for m in range(171)])


def fraction_of_pi(x: Double) -> Double:
    """``pi * (x - round(x))``, all that sine and tangent of pi x need; the difference is exact."""
    return np.asarray(math.pi * (x - np.rint(x)))


def lgamma1p(z: Double) -> Double:
    """``log Γ(1 + z)`` for |z| <= 1/2, relatively accurate at its zero."""
    return np.asarray(z * polynomial(z, LGAMMA_TAYLOR) - np.log1p(z))


def lgamma_of_next(a: Double) -> Double:
    """``log Γ(a + 1)`` for a > 0, relatively accurate for small a."""
    return np.where(a < 0.5, lgamma1p(np.minimum(a, 0.5)), lgamma_double(a + 1))


def stirling_rest(a: Double) -> Double:
    """``log Γ(a) - ((a - 1/2) log a - a + log(2π)/2)`` for a > 0; DLMF 5.11.1."""
    pieces = [
        (a >= _LARGE, lambda t: polynomial(1 / (t * t), STIRLING) / t),
        (
            a > 0,
            lambda t: lgamma_double(t) - ((t - 0.5) * np.log(t) - t + HALF_LOG_TWO_PI),
        ),
    ]
    return piecewise([a], pieces, math.nan)


def _lgamma_shifted(x: Double) -> Double:
    """[3/2, 10): divides by x - 1, x - 2, ... until the argument is near 2."""
    product = np.ones_like(x)
    rest = x.copy()
    while (above := rest >= 2.5).any():
        rest = np.where(above, rest - 1, rest)
        product = np.where(above, product * rest, product)
    near_two = rest - 2
    return np.asarray(np.log(product) + near_two * polynomial(near_two, LGAMMA_TAYLOR))


def _lgamma_large(x: Double) -> Double:
    leading = (x - 0.5) * (np.log(x) - 1) + (HALF_LOG_TWO_PI - 0.5)
    return np.asarray(leading + polynomial(1 / (x * x), STIRLING) / x)


def _lgamma_reflected(x: Double) -> Double:
    sine = np.abs(np.sin(fraction_of_pi(x)))
    return np.asarray(np.log(math.pi / (np.abs(x) * sine)) - lgamma_double(-x))


def lgamma_double(x: Double) -> Double:
    """:func:`lgamma` of doubles."""
    pole = (np.isfinite(x) & (x <= 0) & (x == np.floor(x))) | np.isinf(x)
    pieces = [
        (pole, lambda t: np.full_like(t, math.inf)),
        (np.abs(x) < 0.5, lambda t: lgamma1p(t) - np.log(np.abs(t))),
        (x < 0, _lgamma_reflected),
        (x < 1.5, lambda t: lgamma1p(t - 1)),
        (x < _LARGE, _lgamma_shifted),
        (x >= _LARGE, _lgamma_large),
    ]
    return piecewise([x], pieces, math.nan)


def _digamma_shifted(x: Double) -> Double:
    """[1, 10): takes off 1/(x-1), 1/(x-2), ... until the argument is in [1, 2)."""
    total = np.zeros_like(x)
    rest = x.copy()
    while (above := rest >= 2).any():
        rest = np.where(above, rest - 1, rest)
        total = np.where(above, total + 1 / rest, total)
    from_root = (rest - _ROOT) - _ROOT_REST
    from numpy.polynomial.chebyshev import chebval

    return np.asarray(total + from_root * chebval(2 * rest - 3, _DIGAMMA))


def _digamma_large(x: Double) -> Double:
    square = 1 / (x * x)
    return np.asarray(np.log(x) - 0.5 / x - square * polynomial(square, DIGAMMA_TAIL))


def log_minus_digamma(a: Double) -> Double:
    """``log(a) - ψ(a)`` for a >= 10, without cancellation; DLMF 5.11.2."""
    square = 1 / (a * a)
    return np.asarray(0.5 / a + square * polynomial(square, DIGAMMA_TAIL))


def digamma_double(x: Double) -> Double:
    """:func:`digamma` of doubles."""
    pole = (x <= 0) & (x == np.floor(x))
    pieces = [
        (pole, lambda t: np.full_like(t, math.nan)),
        (x < 0, lambda t: digamma_double(1 - t) - math.pi / np.tan(fraction_of_pi(t))),
        (x < 1, lambda t: _digamma_shifted(t + 1) - 1 / t),
        (x < _LARGE, _digamma_shifted),
        (x >= _LARGE, _digamma_large),
    ]
    return piecewise([x], pieces, math.nan)


def _scaled_zeta(s: Double, q: Double) -> Double:
    """``q^s ζ(s, q)`` for s > 1, q > 0 by Euler and Maclaurin's formula; DLMF 25.11.28."""
    total = np.ones_like(s)
    for k in range(1, 12):
        total = total + np.exp(-s * np.log1p(k / q))
    w = q + 12
    power = np.exp(-s * np.log1p(12 / q))
    term = power * s / w
    tail = power * (w / (s - 1) + 0.5)
    factorial = 1.0
    for j, bernoulli in enumerate(BERNOULLI):
        factorial *= (2 * j + 1) * (2 * j + 2)
        tail = tail + term * (bernoulli / factorial)
        term = term * ((s + (2 * j + 1)) / w) * ((s + (2 * j + 2)) / w)
    return np.asarray(np.where(power > 0, total + tail, total))


def _zeta_positive(s: Double, q: Double) -> Double:
    pieces = [
        (np.isinf(q) | (np.isinf(s) & (q > 1)), lambda s, q: np.zeros_like(s)),
        (np.isinf(s) & (q == 1), lambda s, q: np.ones_like(s)),
        (np.isinf(s), lambda s, q: np.full_like(s, math.inf)),
        # in halves that neither overflow nor underflow before the result does
        (q >= 1, lambda s, q: np.power(q, 1 - s) * (_scaled_zeta(s, q) / q)),
        (q > 0, lambda s, q: np.power(q, -s) * _scaled_zeta(s, q)),
    ]
    return piecewise([s, q], pieces, math.nan)


def _zeta_negative(s: Double, q: Double) -> Double:
    """Negative q, integer s: the terms left of zero are a difference of two zetas on the right."""
    fraction = q - np.floor(q)
    left = _zeta_positive(s, 1 - fraction) - _zeta_positive(s, 1 - q)
    return np.asarray(_zeta_positive(s, fraction) + np.where(s % 2 == 0, left, -left))


def zeta_double(s: Double, q: Double) -> Double:
    """:func:`zeta` of doubles."""
    known = ~np.isnan(q)
    integer_q = (q <= 0) & (q == np.floor(q)) & np.isfinite(q)
    integer_s = np.isfinite(s) & (s == np.floor(s))
    pieces = [
        (known & (s == 1), lambda s, q: np.full_like(s, math.inf)),
        ((s > 1) & integer_q, lambda s, q: np.full_like(s, math.inf)),
        ((s > 1) & (q > 0), _zeta_positive),
        ((s > 1) & (q < 0) & np.isfinite(q) & integer_s, _zeta_negative),
    ]
    return piecewise([s, q], pieces, math.nan)


def _polygamma_positive(m: Double, x: Double) -> Double:
    """Orders m >= 1 with the sign left out, for any x that is not a pole."""
    order = np.minimum(m, len(_FACTORIALS) - 1).astype(np.int64)
    zeta_value = zeta_double(m + 1, x)
    plain = _FACTORIALS[order] * zeta_value
    # where the factorial overflows or zeta underflows the two are joined as logarithms
    joined = np.exp(lgamma_double(m + 1) - (m + 1) * np.log(x)) * _scaled_zeta(m + 1, x)
    apart = (m < len(_FACTORIALS)) & ~(np.abs(zeta_value) < 1e-290)
    return np.asarray(np.where(apart | (x < 0) | np.isinf(x), plain, joined))


@in_double
def lgamma(x: Double) -> Double:
    """``log |Γ(x)|``: infinite at 0, -1, -2, ... and at both infinities.

    Any shape; f16, bf16, f32, f64.  Relative error below 2e-15 for x > 0; for x < 0 the error is
    below 2e-15 times max(1, |log|x||, result), which near the zeros of lgamma is an absolute one.
    Source: A&S 6.1.33, DLMF 5.11.1 (Stirling), DLMF 5.5.3 (reflection).

    >>> float(lgamma(np.float64(1.0)))
    0.0
    """
    return lgamma_double(x)


@in_double
def digamma(x: Double) -> Double:
    """``ψ(x)``, the derivative of ``log Γ``: NaN at the poles 0, -1, -2, ..., as in JAX.

    Any shape; f16, bf16, f32, f64.  Relative error below 2e-15 for x > 0; for x < 0 it is below
    2e-15 times the larger of the two terms of the reflection formula.  Source: DLMF 5.11.2,
    5.5.2, 5.5.4, and a Chebyshev series of our own around the positive zero.

    >>> float(digamma(np.float64(1.0)))
    -0.5772156649015329
    """
    return digamma_double(x)


@in_double
def zeta(x: Double, q: Double) -> Double:
    """Hurwitz zeta ``sum over k >= 0 of (k + q)^-x``.

    Args:
      x: the exponent; the value is infinite at 1 and NaN below.
      q: the shift; infinite at 0, -1, -2, ..., and at other negative q defined for integer x only.

    Any shape; f16, bf16, f32, f64.  Relative error below 1e-14 for q > 0.  Source: Euler and
    Maclaurin's formula, DLMF 25.11.28.

    >>> round(float(zeta(np.float64(2.0), np.float64(1.0))), 12)
    1.644934066848
    """
    return zeta_double(x, q)


@in_double
def polygamma(m: Double, x: Double) -> Double:
    """The m-th derivative of digamma; NaN where m is not one of 0, 1, 2, ...

    At the poles 0, -1, -2, ... the value is infinite for odd m, and NaN for even m, where the two
    sides differ in sign.  Any shape; f16, bf16, f32, f64.  Relative error below 1e-14 for x > 0
    and m <= 170.  Source: DLMF 5.15.1 in terms of Hurwitz zeta.

    >>> round(float(polygamma(np.float64(1.0), np.float64(1.0))), 12)
    1.644934066848
    """
    order = (m >= 0) & (m == np.floor(m)) & np.isfinite(m)
    pole = (x <= 0) & (x == np.floor(x)) & np.isfinite(x)
    pieces = [
        (m == 0, lambda m, x: digamma_double(x)),
        (order & pole & (m % 2 == 0), lambda m, x: np.full_like(x, math.nan)),
        (order, lambda m, x: np.where(m % 2 == 0, -1.0, 1.0) * _polygamma_positive(m, x)),
    ]
    return piecewise([m, x], pieces, math.nan)
