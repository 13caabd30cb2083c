"""The incomplete gamma functions and their derivatives by the first parameter.

The names are those of ``core/prims/special_igamma.py``.  Start at :func:`_over_factor`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from functrax.core.prims.special_gamma import (
    DIGAMMA_TAIL,
    HALF_LOG_TWO_PI,
    LGAMMA_TAYLOR,
    STIRLING,
)
from functrax.core.prims.special_igamma import ATANH, FLOOR, QUADRATURE_FROM
from functrax.core.tracing.primitive import Value
from functrax.lax.elementwise import (
    abs as absolute,
    digamma,
    exp,
    expm1,
    floor,
    is_finite,
    lgamma,
    log,
    log1p,
    max as larger,
    min as smaller,
    sqrt,
)
from functrax.numpy.logic import where
from functrax.transforms.control.user_loops import while_loop

#: Nodes of the rule for half a line: the first, how many, and the step.
FIRST_NODE, NODES, STEP = -44, 90, 1 / 12
_MOST_TERMS: Final = 3000


class GammaTail(NamedTuple):
    """P or Q, and its derivative by ``a``, over ``x^a exp(-x) / gamma(a + 1)``; whether it is Q."""

    value: Any
    derivative: Any
    upper: Any


def polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """By Horner's scheme; the lowest power first."""
    total = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def log1p_minus(u: Any) -> Any:
    """``log1p(u) - u`` without cancellation, for u > -1."""
    t = u / (2 + u)
    square = t * t
    near = 2 * t * square * polynomial(square, ATANH) - u * t
    return where((u > -0.5) & (u < 1), near, log1p(u) - u)


def deviance(u: Any, ratio: Any) -> Any:
    """``log(ratio) - u`` where ``ratio`` is ``1 + u``, given both."""
    near = (u > -0.5) & (u < 1)
    return where(near, log1p_minus(where(near, u, 0.0)), log(ratio) - u)


def stirling_rest(a: Any) -> Any:
    """``lgamma(a) - ((a - 1/2) log a - a + log(2 pi) / 2)`` for a > 0."""
    large = polynomial(1 / (a * a), STIRLING) / a
    small = lgamma(a) - ((a - 0.5) * log(a) - a + HALF_LOG_TWO_PI)
    return where(a >= 10, large, small)


def node(k: Any) -> tuple[Any, Any]:
    """Number ``k`` of the nodes and weights of the rule for half a line."""
    t = (k + FIRST_NODE) * STEP
    turned = exp(-t)
    place = exp(t - turned)
    return place, place * (1 + turned) * STEP


def rarely(here: Any, value: Callable[[], Any], otherwise: Any) -> Any:
    """A value where few elements need it: vectors of elements that do not are passed over."""
    state = (here, otherwise)
    return while_loop(
        lambda state: state[0],
        lambda state: (state[0] & False, where(here, value(), state[1])),
        state,
    )[1]


def _factor(a: Any, x: Any, exact: bool) -> Any:
    """``x^a exp(-x) / gamma(a + 1)``."""
    limit = 10.0 if exact else 1e4
    if exact:
        small = x**a * exp(-x) * exp(-lgamma(a + 1))
    else:  # gamma of a + 9, by Stirling's series, over what lies between
        w = a + 9
        inverse = 1 / w
        rest = inverse * polynomial(inverse * inverse, STIRLING[:4])
        exponent = a * log(x) - x - ((w - 0.5) * log(w) - w) - (rest + HALF_LOG_TWO_PI)
        product = ((a + 1) * (a + 8)) * ((a + 2) * (a + 7)) * ((a + 3) * (a + 6))
        small = exp(exponent) * (product * ((a + 4) * (a + 5)))
    small = where((x > 1000) & (a < 10), 0.0, small)

    def large() -> Any:
        exponent = a * deviance((x - a) / a, x / a)
        rest = polynomial(1 / (a * a), STIRLING) / a
        return exp(exponent - rest) / (math.sqrt(2 * math.pi) * sqrt(a))

    return rarely(a >= limit, large, small)


def _series(a: Any, x: Any, here: Any, exact: bool, slopes: bool) -> tuple[Any, Any]:
    least = 2.0**-56 if exact else 2.0**-34
    one = where(here, 1.0, 0.0)

    def goes_on(state: Any) -> Any:
        n, term, total = state[:3]
        return (term > least * total) & (n < _MOST_TERMS)

    def add(state: Any) -> Any:
        n, term, total, *more = state
        n = n + 1
        inverse = 1 / (a + n)
        term = term * (x * inverse)
        if not more:
            return n, term, total + term
        harmonic, slope = more
        harmonic = harmonic + inverse
        return n, term, total + term, harmonic, slope - term * harmonic

    zero = 0.0 * a
    state = (zero, one, zero + 1.0, *([zero, zero] if slopes else []))
    _, _, total, *more = while_loop(goes_on, add, state)
    derivative = total * (log(x) - digamma(a + 1)) + more[1] if slopes else None
    return total, derivative


def _fraction(a: Any, x: Any, here: Any, exact: bool, slopes: bool) -> tuple[Any, Any]:
    scale, offset, spread = (85.0, 15.0, 2.1) if exact else (27.0, 13.0, 1.2)
    terms = floor(scale / x + offset + spread * sqrt(a))
    terms = where(here, terms, 0.0)
    bottom = x + (2 * terms + 1) - a

    def take(state: Any) -> Any:
        k, bottom, *more = state
        step = k * (k - a) / bottom
        if more:
            more = [-1 + (k + step * more[0]) / bottom]
        return (k - 1, (x + (2 * k - 1) - a) - step, *more)

    state = (terms, bottom, *([0.0 * a - 1.0] if slopes else []))
    _, bottom, *more = while_loop(lambda state: state[0] > 0, take, state)
    value = 1 / bottom
    derivative = None
    if slopes:
        by_a = -more[0] * value * value
        derivative = value + a * (value * (log(x) - digamma(a + 1)) + by_a)
    return a * value, derivative


def _quadrature(a: Any, x: Any, here: Any, slopes: bool) -> tuple[Any, Any]:
    u = (x - a) / a
    length = smaller(1 / (a * absolute(u)), sqrt(a) / x)
    turned = where(u >= 0, length, -length)
    shift = 0.0 * a
    if slopes:
        ratio = where(absolute(u) < 0.5, log1p(u), log(x / a))
        square = 1 / (a * a)
        shift = ratio + (0.5 / a + square * polynomial(square, DIGAMMA_TAIL))  # log - digamma

    def add(state: Any) -> Any:
        k, value, *more = state
        place, weight = node(k)
        w = larger(place * turned, FLOOR)
        height = weight * exp(a * (log1p_minus(w) - w * u)) / (1 + w)
        if more:
            more = [more[0] + height * (shift + log1p(w))]
        return (k + 1, value + height, *more)

    zero = 0.0 * a
    state = (where(here, zero, float(NODES)), zero, *([zero] if slopes else []))
    _, value, *more = while_loop(lambda state: state[0] < NODES, add, state)
    scale = a * length
    return scale * value, scale * more[0] if slopes else None


def _over_factor(a: Any, x: Any, here: Any, exact: bool, slopes: bool) -> GammaTail:
    """The tail that is cheap and exact at ``(a, x)``, both finite and positive, over the factor."""
    by_quadrature = a >= QUADRATURE_FROM
    by_series = ~by_quadrature & ((x <= 1.1) | (x <= a))
    by_fraction = ~by_quadrature & ~by_series
    summed = _series(a, x, here & by_series, exact, slopes)
    taken = _fraction(a, x, here & by_fraction, exact, slopes)
    measured = _quadrature(a, x, here & by_quadrature, slopes)

    def chosen(first: Any, second: Any, third: Any) -> Any:
        return where(by_series, first, where(by_fraction, second, third))

    slope = chosen(summed[1], taken[1], measured[1]) if slopes else None
    upper = by_fraction | (by_quadrature & (x >= a))
    return GammaTail(chosen(summed[0], taken[0], measured[0]), slope, upper)


def _inside(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Where both are finite and positive, and numbers that are so everywhere."""
    inside = (a > 0) & (x > 0) & is_finite(a) & is_finite(x)
    return inside, where(inside, a, 1.0), where(inside, x, 1.0)


def _with_edges(a: Any, x: Any, inside: Any, value: Any, at_end: float) -> Any:
    """The value, and ``at_end`` or the rest where ``a`` or ``x`` is zero or infinite."""
    fits = (a >= 0) & (x >= 0)
    last = ((a == 0) & (x > 0)) | (is_finite(a) & (x == math.inf))
    first = ((a > 0) & (x == 0)) | ((a == math.inf) & is_finite(x))
    edge = where(fits & last, at_end, where(fits & first, 1.0 - at_end, math.nan))
    return where(inside, value, edge)


def igamma(a: Value, x: Value, exact: bool) -> Any:
    """The lower incomplete gamma function ``P(a, x)``."""
    inside, a1, x1 = _inside(a, x)
    tail = _over_factor(a1, x1, inside, exact, slopes=False)
    part = smaller(tail.value * _factor(a1, x1, exact), 1.0)
    return _with_edges(a, x, inside, where(tail.upper, 1 - part, part), 1.0)


def igammac(a: Value, x: Value, exact: bool) -> Any:
    """The upper incomplete gamma function ``Q(a, x)``."""
    inside, a1, x1 = _inside(a, x)
    small = (x1 <= 0.5) & (a1 * log(x1) > -0.4)
    near_one = small | ((x1 > 0.5) & (x1 <= 1.1) & (a1 < 1.1 * x1))
    tail = _over_factor(a1, x1, inside & ~near_one, exact, slopes=False)
    part = smaller(tail.value * _factor(a1, x1, exact), 1.0)
    value = where(tail.upper, part, 1 - part)
    value = where(near_one, _upper_near_one(a1, x1, near_one, exact), value)
    return _with_edges(a, x, inside, value, 0.0)


def _upper_near_one(a: Any, x: Any, here: Any, exact: bool) -> Any:
    """Q where both are small, and ``1 - P`` would cancel."""
    terms = 24.0 if exact else 14.0

    def add(state: Any) -> Any:
        n, term, total = state
        term = term * (-x / n)
        return n + 1, term, total + term / (a + n)

    zero = 0.0 * a
    state = (where(here, zero + 1.0, terms), zero + 1.0, zero)
    _, _, total = while_loop(lambda state: state[0] < terms, add, state)
    z = smaller(a, 0.5)
    next_one = where(a < 0.5, z * polynomial(z, LGAMMA_TAYLOR) - log1p(z), lgamma(a + 1))
    exponent = a * log(x) - next_one
    return -expm1(exponent) - a * exp(exponent) * total


def igamma_grad_a(a: Value, x: Value, exact: bool) -> Any:
    """The derivative of ``P(a, x)`` by ``a``."""
    inside, a1, x1 = _inside(a, x)
    tail = _over_factor(a1, x1, inside, exact, slopes=True)
    value = _factor(a1, x1, exact) * where(tail.upper, -tail.derivative, tail.derivative)
    ends = (a > 0) & is_finite(a) & ((x == 0) | (x == math.inf))
    return where(inside, value, where(ends, 0.0, math.nan))


def random_gamma_grad(a: Value, x: Value, exact: bool) -> Any:
    """The derivative by ``a`` of a sample ``x`` of the gamma distribution."""
    inside, a1, x1 = _inside(a, x)
    tail = _over_factor(a1, x1, inside, exact, slopes=True)
    value = x1 / a1 * where(tail.upper, tail.derivative, -tail.derivative)
    return where(inside, value, where((a > 0) & is_finite(a) & (x == 0), 0.0, math.nan))
