"""Hurwitz' zeta function and polygamma.

The names are those of ``core/prims/special_gamma.py``.  Start at :func:`_scaled_zeta`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from functrax.core.prims.special_gamma import BERNOULLI
from functrax.core.tracing.primitive import Value
from functrax.lax.elementwise import (
    digamma,
    exp,
    floor,
    is_finite,
    lgamma,
    log,
    log1p,
    min as smaller,
)
from functrax.numpy.logic import where
from functrax.transforms.control.user_loops import while_loop

_LOG_LARGEST: Final = 709.78


def _scaled_zeta(s: Any, q: Any, exact: bool) -> Any:
    """``q^s zeta(s, q)`` for s > 1 and q > 0, by Euler's and Maclaurin's formula."""
    terms, corrections = (12, 12) if exact else (4, 5)
    total = 0.0 * s + 1.0
    inverse = 1 / q
    for k in range(1, terms):
        total = total + exp(-s * log1p(k * inverse))
    w = q + terms
    power = exp(-s * log1p(terms * inverse))
    term = power * s / w
    tail = power * (w / (s - 1) + 0.5)
    scale = 1 / (w * w)
    factorial = 1.0
    for j, bernoulli in enumerate(BERNOULLI[:corrections]):
        factorial *= (2 * j + 1) * (2 * j + 2)
        tail = tail + term * (bernoulli / factorial)
        term = term * ((s + (2 * j + 1)) * (s + (2 * j + 2)) * scale)
    return where(power > 0, total + tail, total)


def _zeta_positive(s: Any, q: Any, exact: bool) -> Any:
    """``zeta(s, q)`` for finite s > 1 and q > 0."""
    scaled = _scaled_zeta(s, q, exact)
    return where(q >= 1, q ** (1 - s) * (scaled / q), q**-s * scaled)


def _reflected(s: Any, q: Any, term: Callable[[Any], Any]) -> Any:
    """A term at ``q``; for q < 0 those at ``1 - frac(q)`` and ``frac(q)`` less that at ``1 - q``.

    The first and the last change signs where s is odd.
    """
    fraction = q - floor(q)
    negative = q < 0
    even = s - 2 * floor(s / 2) == 0

    def add(state: Any) -> Any:
        k, total = state
        place = where(k == 0, 1 - fraction, where(k == 1, 1 - q, where(negative, fraction, q)))
        value = term(place)
        signed = where((k == 0) == even, value, -value)
        return k + 1, total + where(k == 2, value, signed)

    start = where(negative, 0.0, 2.0)
    return while_loop(lambda state: state[0] < 3, add, (start, 0.0 * q))[1]


def zeta(s: Value, q: Value, exact: bool) -> Any:
    """Hurwitz' zeta function ``zeta(s, q)``."""
    whole_q, whole_s = q == floor(q), s == floor(s)
    pole = (q <= 0) & whole_q & is_finite(q)
    inside = (s > 1) & is_finite(s) & is_finite(q) & ~pole & ((q > 0) | whole_s)
    s1, q1 = where(inside, s, 2.0), where(inside, q, 1.0)
    value = _reflected(s1, q1, lambda place: _zeta_positive(s1, place, exact))
    infinite = where(q > 1, 0.0, where(q == 1, 1.0, math.inf))
    edge = where((q > 0) & (s == math.inf), infinite, math.nan)
    edge = where((q == math.inf) & (s > 1), 0.0, edge)
    edge = where((pole & (s > 1)) | ((s == 1) & (q == q)), math.inf, edge)
    return where(inside, value, edge)


def polygamma(m: Value, x: Value, exact: bool) -> Any:
    """Derivative number ``m`` of digamma."""
    order = (m >= 0) & (m == floor(m)) & is_finite(m)
    odd = m - 2 * floor(m / 2) == 1
    pole = (x <= 0) & (x == floor(x)) & is_finite(x)
    inside = order & (m > 0) & is_finite(x) & ~pole
    m1, x1 = where(inside, m, 1.0), where(inside, x, 1.0)
    positive = where(x1 > 0, x1, 1.0)
    joined = exp(lgamma(m1 + 1) - (m1 + 1) * log(positive))
    sums = _polygamma_sums(m1, x1, exact)
    factorial = exp(smaller(lgamma(m1 + 1), _LOG_LARGEST))
    value = where(x1 > 0, joined, factorial) * sums
    value = where(odd, value, -value)
    edge = where(order & pole & odd, math.inf, math.nan)
    edge = where(order & (x == math.inf), where(odd, 0.0, -0.0), edge)
    return where(order & (m == 0), digamma(x), where(inside, value, edge))


def _polygamma_sums(m: Any, x: Any, exact: bool) -> Any:
    """Zeta of ``m + 1``, times ``x^(m + 1)`` where x is positive."""
    s = m + 1

    def term(place: Any) -> Any:
        scaled = _scaled_zeta(s, place, exact)
        return where(x < 0, place**-s * scaled, scaled)

    return _reflected(s, x, term)
