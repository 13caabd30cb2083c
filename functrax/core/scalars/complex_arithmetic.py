"""Complex numbers in scalar operations: pairs of real ones.

A kernel computes with real numbers.  A complex :class:`~functrax.core.scalars.scalar.Scalar` is
either ``complex(x, y)``, a pair of real ones, or what a kernel reads, of which ``real`` and
``imag`` are the parts; both are made by a Builder, which calls the functions here for what it does
with complex operands.  Each does what NumPy does: products as they are written, quotients scaled by
the larger part of the divisor (Smith, "Algorithm 116", CACM 5, 1962), moduli without overflow.

Functions such as ``exp`` are in ``complex_functions.py``.  Start at :data:`ARITHMETIC`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from functrax.core.types import dtypes

if TYPE_CHECKING:
    from functrax.core.scalars.scalar import Builder, Scalar


class SquareRange(NamedTuple):
    """Where squares of a float dtype neither overflow nor underflow, and how to get there.

    Attributes:
      large: from here on numbers are multiplied by ``2**down``.
      small: below they are multiplied by ``2**up``.
    """

    large: float
    down: int
    small: float
    up: int


_RANGES: Final = {
    dtypes.float32: SquareRange(2.0**60, -68, 2.0**-50, 100),
    dtypes.float64: SquareRange(2.0**500, -516, 2.0**-460, 600),
}


class Scaled(NamedTuple):
    """The parts of a complex number times a power of 4.

    Attributes:
      re: the real part.
      im: the imaginary one.
      large: whether it was made smaller.
      small: whether it was made larger.
      range: by how much.
    """

    re: Scalar
    im: Scalar
    large: Scalar
    small: Scalar
    range: SquareRange

    def back(self, b: Builder, x: Scalar, part: int = 1) -> Scalar:
        """``x`` over the power of 4, or over its square root for ``part`` 2."""
        down, up = (2.0 ** (-n // part) for n in (self.range.down, self.range.up))
        factor = b.select(self.small, b.like(x, up), b.like(x, 1))
        return b.mul(x, b.select(self.large, b.like(x, down), factor))


def scaled(b: Builder, z: Scalar) -> Scaled:
    """A complex number, scaled so that its squares are normal; inf, NaN and 0 stay."""
    x, y = b.real(z), b.imag(z)
    found = _RANGES[x.dtype]
    p, q = b.abs(x), b.abs(y)
    larger = b.select(b.compare("gt", p, q), p, q)
    large = b.compare("ge", larger, b.like(x, found.large))
    small = b.compare("lt", larger, b.like(x, found.small))
    factor = b.select(small, b.like(x, 2.0**found.up), b.like(x, 1))
    factor = b.select(large, b.like(x, 2.0**found.down), factor)
    return Scaled(b.mul(x, factor), b.mul(y, factor), large, small, found)


def sum_of_squares(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """``x^2 + y^2``."""
    return b.add(b.mul(x, x), b.mul(y, y))


def either(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """Whether one of two bools is true."""
    return b.logic("or", x, y)


def is_infinite(b: Builder, x: Scalar) -> Scalar:
    """Whether a float is an infinity."""
    return b.compare("eq", b.abs(x), b.like(x, math.inf))


def _by_parts(op: str) -> Callable[..., Scalar]:
    def function(b: Builder, *operands: Scalar) -> Scalar:
        apply = getattr(b, op)
        return b.complex(
            apply(*(b.real(z) for z in operands)), apply(*(b.imag(z) for z in operands))
        )

    return function


def _mul(b: Builder, z: Scalar, w: Scalar) -> Scalar:
    x, y, u, v = b.real(z), b.imag(z), b.real(w), b.imag(w)
    return b.complex(
        b.sub(b.mul(x, u), b.mul(y, v)),
        b.add(b.mul(x, v), b.mul(y, u)),
    )


def _div(b: Builder, z: Scalar, w: Scalar) -> Scalar:
    """The quotient; by 0 that of each part by 0."""
    x, y, u, v = b.real(z), b.imag(z), b.real(w), b.imag(w)
    first = b.compare("ge", b.abs(u), b.abs(v))
    p, q = b.select(first, u, v), b.select(first, v, u)
    zero, one = b.like(p, 0), b.like(p, 1)
    none = b.both(first, b.compare("eq", p, zero))
    ratio = b.select(none, zero, b.div(q, p))
    # So that the reciprocal of a large divisor is not subnormal, and flushed to zero.
    large = b.compare("ge", b.abs(p), b.like(p, 2.0 ** (dtypes.finfo(p.dtype).maxexp - 8)))
    scale = b.select(large, b.like(p, 2.0**-4), one)
    divisor = b.mul(b.add(p, b.mul(q, ratio)), scale)
    factor = b.div(one, b.select(none, zero, divisor))
    re = b.add(b.select(first, x, y), b.mul(b.select(first, y, x), ratio))
    im = b.sub(b.select(first, y, b.neg(x)), b.mul(b.select(first, x, b.neg(y)), ratio))
    re, im = b.mul(b.select(none, x, re), factor), b.mul(b.select(none, y, im), factor)
    return b.complex(b.mul(re, scale), b.mul(im, scale))


def _abs(b: Builder, z: Scalar) -> Scalar:
    """The modulus, a real number; infinite if a part is."""
    small = scaled(b, z)
    size = small.back(b, b.sqrt(sum_of_squares(b, small.re, small.im)))
    infinite = either(b, is_infinite(b, b.real(z)), is_infinite(b, b.imag(z)))
    return b.select(infinite, b.like(size, math.inf), size)


def _sqrt(b: Builder, z: Scalar) -> Scalar:
    """The root whose real part is not negative; of what is below 0 with the sign of ``im``."""
    x, y = b.real(z), b.imag(z)
    near = scaled(b, z)
    size = b.sqrt(sum_of_squares(b, near.re, near.im))
    half = b.like(x, 0.5)
    root = b.sqrt(b.mul(b.add(b.abs(near.re), size), half))
    zero, infinity = b.like(x, 0), b.like(x, math.inf)
    other = b.div(b.mul(b.abs(near.im), half), root)
    other = b.select(b.compare("eq", root, zero), zero, other)
    root = b.select(is_infinite(b, x), infinity, near.back(b, root, 2))
    other = near.back(b, other, 2)
    negative, endless = b.compare("lt", x, zero), is_infinite(b, y)
    re = b.select(endless, infinity, b.select(negative, other, root))
    im = b.select(endless, infinity, b.select(negative, root, other))
    return b.complex(re, b.copysign(im, y))


def _extremum(order: str) -> Callable[..., Scalar]:
    def function(b: Builder, z: Scalar, w: Scalar) -> Scalar:
        """By real parts, then by imaginary ones; the first one that has a NaN if one has."""
        x, y, u, v = b.real(z), b.imag(z), b.real(w), b.imag(w)
        tie = b.both(b.compare("eq", x, u), b.compare(f"{order[0]}e", y, v))
        missing = b.logic("or", b.is_nan(x), b.is_nan(y))
        other = b.logic("or", b.is_nan(u), b.is_nan(v))
        better = b.both(either(b, b.compare(order, x, u), tie), b.logic("not", other))
        return b.select(either(b, missing, better), z, w)

    return function


#: What a Builder does with complex operands, by the name of its method.
ARITHMETIC: Final[dict[str, Callable[..., Scalar]]] = {
    "add": _by_parts("add"),
    "sub": _by_parts("sub"),
    "neg": _by_parts("neg"),
    "mul": _mul,
    "div": _div,
    "abs": _abs,
    "sqrt": _sqrt,
    "max": _extremum("gt"),
    "min": _extremum("lt"),
}
