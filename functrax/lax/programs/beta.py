"""The regularized incomplete beta function.

The names are those of ``core/prims/special_betainc.py``; the continued fraction is evaluated
forwards (Lentz, "Generating Bessel functions in Mie scattering calculations using continued
fractions", Applied Optics 15, 1976), so that it ends where the dtype shows no more of it.

Start at :func:`regularized_incomplete_beta`.
"""

from __future__ import annotations

import math
from typing import Any, Final

from functrax.core.prims.special_betainc import QUADRATURE_FROM
from functrax.core.prims.special_igamma import FLOOR
from functrax.core.tracing.primitive import Value
from functrax.lax.elementwise import (
    abs as absolute,
    exp,
    lgamma,
    max as larger,
    min as smaller,
    sqrt,
)
from functrax.lax.programs.gamma import (
    NODES,
    deviance,
    log1p_minus,
    node,
    rarely,
    stirling_rest,
)
from functrax.numpy.logic import where
from functrax.transforms.control.user_loops import while_loop

_MOST_TERMS: Final = 1000
_TINY: Final = 1e-300


def _factor(a: Any, b: Any, x: Any, y: Any) -> Any:
    """``x^a y^b / B(a, b)`` with ``y = 1 - x``."""
    gammas = lgamma(a + b + 1) - lgamma(a + 1) - lgamma(b + 1)
    small = x**a * y**b * exp(gammas) * (a * (b / (a + b)))

    def large() -> Any:
        excess = x * b - y * a
        exponent = a * deviance(excess / a, x + x * (b / a))
        exponent = exponent + b * deviance(-excess / b, y + y * (a / b))
        rests = stirling_rest(a + b) - stirling_rest(a) - stirling_rest(b)
        root = sqrt(a) * sqrt(b / (a + b)) / math.sqrt(2 * math.pi)
        return root * exp(exponent + rests)

    return rarely((a >= 10) | (b >= 10), large, small)


def _fraction(a: Any, b: Any, x: Any, y: Any, here: Any, exact: bool) -> Any:
    lead = a * y - b * x + 1
    least = 2.0**-53 if exact else 2.0**-34

    def goes_on(state: Any) -> Any:
        m, _, _, _, change = state
        return (absolute(change - 1) > least) & (m < _MOST_TERMS)

    def take(state: Any) -> Any:
        m, value, upper, lower, _ = state
        m = m + 1
        head = a + (2 * m - 1)
        step = m * (b - m) * x / head
        diagonal = m + step + (a + m) / (a + (2 * m + 1)) * (lead + m * (1 + y))
        factor = (a + (m - 1)) * ((a + b + (m - 1)) / head) * step * x
        lower = diagonal + factor * lower
        lower = 1 / where(lower == 0, _TINY, lower)
        upper = diagonal + factor / upper
        upper = where(upper == 0, _TINY, upper)
        change = upper * lower
        return m, value * change, upper, lower, change

    zero = 0.0 * a
    first = a / (a + 1) * lead
    first = where(first == 0, _TINY, first)
    state = (zero, first, first, zero, where(here, 2.0, 1.0))
    _, value, _, _, _ = while_loop(goes_on, take, state)
    return 1 / value


def _quadrature(a: Any, b: Any, x: Any, y: Any, here: Any) -> Any:
    slope = larger(a * y - b * x, 0.0) / y
    ratio = x / y
    length = smaller(1 / slope, 1 / sqrt(a + b * (ratio * ratio)))

    def add(state: Any) -> Any:
        k, total = state
        place, weight = node(k)
        w = larger(-place * length, FLOOR)
        v = -w * ratio
        exponent = a * log1p_minus(w) + b * log1p_minus(v) + slope * w
        return k + 1, total + weight * exp(exponent) / ((1 + w) * (y * (1 + v)))

    zero = 0.0 * a
    state = (where(here, zero, float(NODES)), zero)
    _, total = while_loop(lambda state: state[0] < NODES, add, state)
    return total * length


def regularized_incomplete_beta(a: Value, b: Value, x: Value, exact: bool) -> Any:
    """``I_x(a, b)``."""
    inside = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf) & (x > 0) & (x < 1)
    a1, b1, x1 = where(inside, a, 1.0), where(inside, b, 1.0), where(inside, x, 0.5)
    y1 = 1 - x1
    both = (a1 >= QUADRATURE_FROM) & (b1 >= QUADRATURE_FROM)
    swap = where(both, x1 * b1 > y1 * a1, x1 * (a1 + b1 + 2) > a1 + 1)
    first, second = where(swap, b1, a1), where(swap, a1, b1)
    left, right = where(swap, y1, x1), where(swap, x1, y1)
    sums = where(
        both,
        _quadrature(first, second, left, right, both),
        _fraction(first, second, left, right, inside & ~both, exact),
    )
    tail = smaller(sums * _factor(first, second, left, right), 1.0)
    value = where(swap, 1 - tail, tail)
    fits = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)
    undecided = ((a == 0) & (b == 0)) | ((a == math.inf) & (b == math.inf))
    none = (x == 0) | ((x < 1) & ((b == 0) | (a == math.inf)) & ~((a == 0) | (b == math.inf)))
    edge = where(fits & ~undecided, where(none, 0.0, 1.0), math.nan)
    return where(inside, value, edge)
