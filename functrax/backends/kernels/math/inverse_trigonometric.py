"""asin, acos, atan and atan2.

atan has a polynomial on [0, 1]; a larger number goes by its inverse.  asin has one on [0, 1/2]; a
larger number goes by ``asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2))``.  A sum with a multiple of
pi/2 takes what pi/2 has beyond the dtype along in the small term, and so rounds once.
"""

from __future__ import annotations

from typing import NamedTuple

from functrax.backends.kernels.math.expression import (
    Expr,
    at_least,
    careful,
    constant,
    expr_of,
    fma,
    muladd,
    root,
    where,
    with_sign,
)


def atan(x: Expr) -> Expr:
    """The arc tangent."""
    high, low = constant("half_pi", x)
    a = abs(x)
    large = a > 1
    t = where(large, 1 / a, a)
    z = t * t
    bend = muladd(t * z, careful("atan", z), where(large, x.like(-low), 0.0))
    return with_sign(where(large, high - t - bend, t + bend), x)


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point ``(x, y)``."""
    high, low = constant("half_pi", x)
    a, b = abs(x), abs(y)
    steep = b > a
    most, least = where(steep, b, a), where(steep, a, b)
    same = where(most.equals(0), most, 1.0)
    t = where(most.equals(least), same, least / most)
    back = x.bits < 0
    t = where(steep ^ back, -t, t)
    quarters = [where(back, x.like(2 * c), 0.0) for c in (high, low)]
    base, rest = (where(steep, x.like(c), q) for c, q in zip((high, low), quarters))
    z = t * t
    return with_sign(base + t + muladd(t * z, careful("atan", z), rest), y)


class _Arc(NamedTuple):
    """``asin(s) = s + more``, where ``s`` is ``|x|``, or ``sqrt((1 - |x|) / 2)`` if ``far``."""

    far: Expr
    s: Expr
    more: Expr


def _arc(x: Expr) -> _Arc:
    a = abs(x)
    far = a > 0.5
    z = where(far, 0.5 - 0.5 * a, a * a)
    g = root(z)
    s = where(far, g, a)
    lost = fma(-g, g, z) * (0.5 / at_least(g, 2.0**-60))
    return _Arc(far, s, muladd(s * z, expr_of("asin", z), where(far, lost, 0.0)))


def asin(x: Expr) -> Expr:
    """The arc sine."""
    high, low = constant("half_pi", x)
    far, s, more = _arc(x)
    from_top = high - ((s + s) + muladd(more, 2.0, more.like(-low)))
    return with_sign(where(far, from_top, s + more), x)


def acos(x: Expr) -> Expr:
    """The arc cosine."""
    high, low = constant("half_pi", x)
    far, s, more = _arc(x)
    negative = x < 0
    factor = where(far, x.like(2), 1.0)
    s, more = s * factor, more * factor
    main, rest = where(negative, -s, s), where(negative, -more, more)
    near = high - (main + (rest - low))
    end = where(negative, x.like(2 * high), 0.0)
    beyond = where(negative, x.like(2 * low), 0.0)
    return where(far, end + (main + (rest + beyond)), near)
