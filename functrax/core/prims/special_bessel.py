"""Reference values of the modified Bessel functions I0 and I1, scaled by ``exp(-|x|)``.

Float arrays enter, arrays of the same shape and dtype leave.  Up to 20 the power series, all of
whose terms are positive; beyond, the asymptotic one, whose smallest term lies below ``exp(-40)``.
Start reading at :func:`_scaled`.
"""

from __future__ import annotations

import math

import numpy as np

from functrax.core.prims.special_rounding import Double, in_double, piecewise, polynomial

_SWITCH = 20.0
_TERMS = 50


def _power_coefficients(order: int) -> tuple[float, ...]:
    """``1 / (k! (k + order)!)``; DLMF 10.25.2."""
    return tuple(1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_TERMS))


def _tail_coefficients(order: int) -> tuple[float, ...]:
    """``(-1)^k a_k(order)``; DLMF 10.17.1 and 10.40.1."""
    coefficients = [1.0]
    for k in range(1, 31):
        coefficients.append(-coefficients[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return tuple(coefficients)


_POWER = (_power_coefficients(0), _power_coefficients(1))
_TAIL = (_tail_coefficients(0), _tail_coefficients(1))


def _scaled(order: int, x: Double) -> Double:
    """``exp(-x) I_order(x)`` for x >= 0."""

    def near(t: Double) -> Double:
        return np.asarray(np.exp(-t) * (t / 2) ** order * polynomial(t * t / 4, _POWER[order]))

    def far(t: Double) -> Double:
        return np.asarray(polynomial(1 / t, _TAIL[order]) / (math.sqrt(2 * math.pi) * np.sqrt(t)))

    return piecewise([x], [(x <= _SWITCH, near), (x > _SWITCH, far)], math.nan)


@in_double
def bessel_i0e(x: Double) -> Double:
    """``exp(-|x|) I0(x)``.

    Any shape; f16, bf16, f32, f64.  Relative error below 2e-15.  Source: DLMF 10.25.2 (power
    series) and 10.40.1 (asymptotic series).

    >>> float(bessel_i0e(np.float64(0.0)))
    1.0
    """
    return _scaled(0, np.abs(x))


@in_double
def bessel_i1e(x: Double) -> Double:
    """``exp(-|x|) I1(x)``, an odd function.

    Any shape; f16, bf16, f32, f64.  Relative error below 2e-15.  Source: as :func:`bessel_i0e`.

    >>> float(bessel_i1e(np.float64(0.0)))
    0.0
    """
    return np.copysign(_scaled(1, np.abs(x)), x)
