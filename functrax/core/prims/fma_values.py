"""``x * y + z`` rounded once, of NumPy arrays: what a machine has as an instruction.

Float arrays of one dtype and shape enter and leave.  float32 is computed in float64, where the
product is exact and the sum is rounded to odd, so that rounding it again does no harm.  float64 is
computed as unevaluated sums of two numbers, and by rational numbers where those could over- or
underflow.  Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
algorithms using rounding to odd", IEEE Transactions on Computers 57 (2008).

Start at :func:`fma`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]

_SPLIT = 134217729.0  # 2**27 + 1, Veltkamp's constant
#: Factors between these neither over- nor underflow in exact products.
_SMALL, _LARGE = 2.0**-400, 2.0**400
_LARGE_TERM = 2.0**1000


def fma(x: Any, y: Any, z: Any) -> NDArray[Any]:
    """``x * y + z``, rounded once; float32 or float64 arrays whose shapes broadcast.

    >>> below_one = np.float64(1 - 2.0**-53)
    >>> float(fma(below_one, below_one, np.float64(-1 + 2.0**-52))) == 2.0**-106
    True
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    with np.errstate(all="ignore"):
        if x.dtype == np.float32:
            wide = [a.astype(np.float64) for a in (x, y, z)]
            return np.asarray(_sum_to_odd(wide[0] * wide[1], wide[2]).astype(np.float32))
        return _fma_double(x, y, z)


def _two_sum(x: Double, y: Double) -> tuple[Double, Double]:
    """The rounded sum and what rounding took away; Knuth."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _split(x: Double) -> tuple[Double, Double]:
    scaled = x * _SPLIT
    head = scaled - (scaled - x)
    return head, x - head


def _two_product(x: Double, y: Double) -> tuple[Double, Double]:
    """The rounded product and what rounding took away; Dekker."""
    product = x * y
    (x0, x1), (y0, y1) = _split(x), _split(y)
    return product, x1 * y1 - (((product - x0 * y0) - x1 * y0) - x0 * y1)


def _sum_to_odd(x: Double, y: Double) -> Double:
    """``x + y``; of the two neighbours of an inexact sum the one whose last bit is set."""
    total, lost = _two_sum(x, y)
    total = np.asarray(total)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    away = (lost > 0) == (total > 0)
    moved = np.where(even & (lost != 0), np.where(away, bits + 1, bits - 1), bits)
    return np.where(np.isfinite(total), moved.view(np.float64), total)


def _fma_double(x: Double, y: Double, z: Double) -> Double:
    safe = np.abs(z) < _LARGE_TERM
    for factor in (x, y):
        safe &= (np.abs(factor) > _SMALL) & (np.abs(factor) < _LARGE)
    high, low = _two_product(x, y)
    middle, rest = _two_sum(z, low)
    head, tail = _two_sum(high, middle)
    out = np.where(safe, head + _sum_to_odd(tail, rest), _fma_of_specials(x, y, z))
    rational = ~safe & (x != 0) & (y != 0) & np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    for place in zip(*np.nonzero(np.atleast_1d(rational)), strict=True):
        index = place if out.ndim else ()
        out[index] = _fma_of_numbers(float(x[index]), float(y[index]), float(z[index]))
    return np.asarray(out)


def _fma_of_specials(x: Double, y: Double, z: Double) -> Double:
    """Where a factor is 0, or an operand is not finite."""
    finite_factors = np.isfinite(x) & np.isfinite(y)
    return np.where(finite_factors & ~np.isfinite(z), z, x * y + z)


def _fma_of_numbers(x: float, y: float, z: float) -> float:
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
