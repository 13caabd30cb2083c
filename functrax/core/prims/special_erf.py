"""Reference values of the error function, its complement and its inverse.

Float arrays enter, arrays of the same shape and dtype leave.  Near zero ``erf`` is its Taylor
series; elsewhere all three rest on :func:`_erfcx`, the complement without its factor
``exp(-x²)``, which one Chebyshev series covers on the whole half line.

Start reading at :func:`_erfcx`.
"""

from __future__ import annotations

import math

import numpy as np

from functrax.core.prims.special_rounding import Double, in_double, piecewise, polynomial

_SQRT_PI = math.sqrt(math.pi)

# erf(x) / x in powers of x²; DLMF 7.6.1.
_TAYLOR = tuple(2 / _SQRT_PI * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(18))

# (1 + 2x) exp(x²) erfc(x) as a Chebyshev series in (x - 3.75) / (x + 3.75), from 50 digits.
_POLE = 3.75
_ERFCX = (
    1.1775789345674017,
    -0.004590054580646478,
    -0.08424913336651792,
    0.05920993999819189,
    -0.026658668435305753,
    0.009074997670705265,
    -0.002413163540417608,
    0.0004907758365258086,
    -6.916973302501207e-05,
    4.13902798607301e-06,
    7.74038306619849e-07,
    -2.1886401049234397e-07,
    1.076499946567091e-08,
    4.521959811218287e-09,
    -7.754400208831351e-10,
    -6.318088340886684e-11,
    2.86879501093067e-11,
    1.9455868545777347e-13,
    -9.65469674843344e-13,
    3.25254814814874e-14,
    3.3478119482868056e-14,
    -1.864562880419313e-15,
    -1.2507950530688648e-15,
    7.418235256624044e-17,
    5.068148904796111e-17,
    -2.2370566594359995e-18,
    -2.187342944303018e-18,
)

# First guesses of erf_inv, as polynomials in w - 2.5 for w < 5 and in sqrt(w) - 3 for w < 16.
_GUESS_CENTRE = (
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
)
_GUESS_TAIL = (
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
)


def _erfcx(x: Double) -> Double:
    """``exp(x²) erfc(x)`` for x >= 0."""
    from numpy.polynomial.chebyshev import chebval

    series = chebval((x - _POLE) / (x + _POLE), _ERFCX)
    return np.asarray(series / (1 + 2 * x))


def exp_minus_square(x: Double) -> Double:
    """``exp(-x²)`` to about an ulp: x² is split into an exact square and a small rest."""
    head = np.asarray(x, np.float32).astype(np.float64)
    return np.asarray(np.exp(-head * head) * np.exp((head - x) * (head + x)))


def _erf_small(x: Double) -> Double:
    return x * polynomial(x * x, _TAYLOR)


def _erfc_tail(x: Double) -> Double:
    # beyond 28 the result is zero; the cut also keeps infinity away from the series
    near = np.minimum(x, 28.0)
    return exp_minus_square(near) * _erfcx(near)


def erf_double(x: Double) -> Double:
    """:func:`erf` of doubles."""
    size = np.abs(x)
    pieces = [
        (size < 0.65, _erf_small),
        (size >= 0.65, lambda t: np.copysign(1 - _erfc_tail(np.abs(t)), t)),
    ]
    return piecewise([x], pieces, math.nan)


def erfc_double(x: Double) -> Double:
    """:func:`erfc` of doubles."""
    pieces = [
        (np.abs(x) < 0.5, lambda t: 1 - _erf_small(t)),
        (x > 0, _erfc_tail),
        (x < 0, lambda t: 2 - _erfc_tail(-t)),
    ]
    return piecewise([x], pieces, math.nan)


def _erf_inv_guess(x: Double) -> Double:
    w = -np.log((1 - x) * (1 + x))
    centre = polynomial(w - 2.5, _GUESS_CENTRE)
    tail = polynomial(np.sqrt(w) - 3, _GUESS_TAIL)
    level = -np.log((1 - x) * _SQRT_PI)  # erfc(t) is about exp(-t²) / (t sqrt(pi)); DLMF 7.12.1
    far = np.sqrt(level - 0.5 * np.log(level))
    return np.asarray(np.where(w < 16, np.where(w < 5, centre, tail) * x, far))


def _erf_inv_positive(x: Double) -> Double:
    """``erf⁻¹`` on [0, 1) by Halley's steps; the tail solves for ``erfc``, whose 1 - x is exact."""
    root = _erf_inv_guess(x)
    for _ in range(3):
        miss = np.where(x < 0.5, erf_double(root) - x, (1 - x) - erfc_double(root))
        newton = miss * (_SQRT_PI / 2) / exp_minus_square(root)
        root = root - newton / (1 + root * newton)
    return root


@in_double
def erf(x: Double) -> Double:
    """Error function ``2/sqrt(pi) * integral of exp(-t²) from 0 to x``.

    Any shape; f16, bf16, f32, f64.  Error below 3 ulp in f64.  Source: DLMF 7.6.1 near zero,
    elsewhere Shepherd and Laframboise, Math. Comp. 36 (1981), with coefficients of our own.

    >>> float(erf(np.float64(1.0)))
    0.8427007929497149
    """
    return erf_double(x)


@in_double
def erfc(x: Double) -> Double:
    """Complementary error function ``1 - erf(x)``, accurate in the tail.

    Any shape; f16, bf16, f32, f64.  Error below 5 ulp in f64 where the result is a normal number.
    Source: as :func:`erf`.

    >>> float(erfc(np.float64(0.0)))
    1.0
    """
    return erfc_double(x)


@in_double
def erf_inv(x: Double) -> Double:
    """The inverse of :func:`erf`: infinite at -1 and 1, NaN outside [-1, 1].

    Any shape; f16, bf16, f32, f64.  Relative error below 2e-15 in f64.  Source: first guess
    by Giles, "Approximating the erfinv function", GPU Computing Gems Jade (2011), then Halley's
    method.

    >>> float(erf_inv(np.float64(1.0)))
    inf
    """
    size = np.abs(x)
    pieces = [
        (size < 1, lambda t: np.copysign(_erf_inv_positive(np.abs(t)), t)),
        (size == 1, lambda t: t * math.inf),
    ]
    return piecewise([x], pieces, math.nan)
