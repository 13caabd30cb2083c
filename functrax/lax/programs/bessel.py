"""The modified Bessel functions ``I0`` and ``I1``, scaled by ``exp(-|x|)``.

Two polynomials, one up to a limit and one in ``1 / x`` beyond it, fitted by
``scripts/fit_bessel.py``.

Start at :func:`_scaled`.
"""

from __future__ import annotations

import math
from typing import Any

from functrax.core.prims.convert import convert_element_type
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.elementwise import abs as absolute, max as larger, min as smaller, rsqrt
from functrax.lax.programs.bessel_fits import COEFFICIENTS, LIMITS
from functrax.lax.programs.gamma import polynomial
from functrax.numpy.logic import where


def _scaled(order: int, x: Any, exact: bool) -> Any:
    """``exp(-x) I(x)`` for x >= 0."""
    limit = LIMITS[exact]
    close, away = smaller(x, limit), larger(x, limit)
    near = polynomial(close * (2 / limit) - 1, COEFFICIENTS[order, exact, "near"])
    near = near * close if order else near
    root = rsqrt(away) if exact else _reciprocal_root(away)
    inverse = 1 / away if exact else root * root
    far = polynomial(inverse * (2 * limit) - 1, COEFFICIENTS[order, exact, "far"]) * root
    return where(x < math.inf, where(x <= limit, near, far), where(x == math.inf, 0.0, math.nan))


def _reciprocal_root(x: Any) -> Any:
    """``1 / sqrt(x)`` to 45 bits, of numbers that are float32: a step of Newton's from those."""
    narrow = convert_element_type.bind(x, dtype=dtypes.float32)
    root = convert_element_type.bind(rsqrt(narrow), dtype=dtypes.float64)
    return root + root * (0.5 - 0.5 * x * root * root)


def bessel_i0e(x: Value, exact: bool) -> Any:
    """``exp(-|x|) I0(x)``."""
    return _scaled(0, absolute(x), exact)


def bessel_i1e(x: Value, exact: bool) -> Any:
    """``exp(-|x|) I1(x)``, an odd function."""
    value = _scaled(1, absolute(x), exact)
    return where(x < 0, -value, where(x == 0, x, value))
