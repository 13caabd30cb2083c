"""Functions of complex numbers in scalar operations, written with those of real ones.

A Builder and complex scalars enter, a complex scalar leaves.  Values at infinities, NaN and zeros
of either sign are those of C99, Annex G, which NumPy gives.  Nothing overflows that has a result:
where a modulus does before it is multiplied by a small sine, it is multiplied by its two roots.
What cancels (the logarithm near the unit circle) is computed in double precision from single, and
with what each sum loses from double.

Start at :data:`FUNCTIONS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from functrax.core.scalars.complex_arithmetic import either, is_infinite, scaled, sum_of_squares
from functrax.core.types import dtypes

if TYPE_CHECKING:
    from functrax.core.scalars.scalar import Builder, Scalar

#: From this modulus of the real part on ``tanh`` is 1 to the last bit.
_FLAT: Final = {dtypes.float32: 12.0, dtypes.float64: 22.0}
#: The most that is a whole power.
_MOST: Final = 99
#: Below, ``sinh x`` is ``x`` to the last bit.
_TINY: Final = 2.0**-60


def _times(b: Builder, *factors: Scalar) -> Scalar:
    product = factors[0]
    for x in factors[1:]:
        product = b.mul(product, x)
    return product


def _in_double(function: Callable[[Builder, Scalar], Scalar]) -> Callable[..., Scalar]:
    """A function that computes with complex128, whatever it is given."""

    def wide(b: Builder, z: Scalar) -> Scalar:
        return b.convert(function(b, b.convert(z, dtypes.complex128)), z.dtype)

    return wide


def _exp(b: Builder, z: Scalar) -> Scalar:
    x, y = b.real(z), b.imag(z)
    root = b.math("exp", b.mul(x, b.like(x, 0.5)))
    re, im = (_times(b, b.math(name, y), root, root) for name in ("cos", "sin"))
    zero = b.like(x, 0)
    # At an infinity the angle may be unknown.
    lost = b.both(is_infinite(b, x), b.is_nan(b.sub(y, y)))
    nothing = b.both(lost, b.compare("lt", x, zero))
    re = b.select(lost, root, re)
    im = b.select(nothing, b.copysign(zero, y), im)
    return b.complex(re, b.select(b.compare("eq", y, zero), y, im))


def _exp2(b: Builder, z: Scalar) -> Scalar:
    x, y = b.real(z), b.imag(z)
    factor = b.like(x, math.log(2))
    return _exp(b, b.complex(b.mul(x, factor), b.mul(y, factor)))


@_in_double
def _expm1(b: Builder, z: Scalar) -> Scalar:
    """``expm1(x) cos(y) - 2 sin(y/2)^2``, and ``exp(x) sin(y)``."""
    x, y = b.real(z), b.imag(z)
    less = b.math("expm1", x)
    half = b.math("sin", b.mul(y, b.like(y, 0.5)))
    re = b.sub(b.mul(less, b.math("cos", y)), _times(b, b.like(y, 2), half, half))
    im = b.mul(b.math("exp", x), b.math("sin", y))
    real = b.compare("eq", y, b.like(y, 0))
    return b.complex(b.select(real, less, re), b.select(real, y, im))


def _logistic(b: Builder, z: Scalar) -> Scalar:
    x = b.real(z)
    negative, one = b.compare("lt", x, b.like(x, 0)), b.like(z, 1)
    small = _exp(b, b.select(negative, z, b.neg(z)))
    return b.div(b.select(negative, small, one), b.add(one, small))


def _rsqrt(b: Builder, z: Scalar) -> Scalar:
    return b.div(b.like(z, 1), b.sqrt(z))


# ---- logarithms ---------------------------------------------------------------------------------


def _square_in_two(b: Builder, x: Scalar) -> tuple[Scalar, Scalar]:
    """``x^2``, and what it lost in rounding."""
    square = b.abs(b.mul(x, x))  # which keeps the product from becoming part of a sum
    return square, b.fma(x, x, b.neg(square))


def _exact_sum(b: Builder, terms: Sequence[Scalar], lost: Sequence[Scalar]) -> Scalar:
    """The sum of terms and of what they lost; what the sum loses is added in the end."""
    total, missing = terms[0], lost[0]
    for x in lost[1:]:
        missing = b.add(missing, x)
    for x in terms[1:]:
        following = b.add(total, x)
        part = b.sub(following, total)
        gone = b.add(b.sub(total, b.sub(following, part)), b.sub(x, part))
        total, missing = following, b.add(missing, gone)
    return b.add(total, missing)


def _log_near(b: Builder, d: Scalar, y: Scalar, far: Scalar) -> Scalar:
    """``log |1 + d + iy|^2``; where that is far from 1 it is ``log far``.

    Near 1 it is ``log(1 + t)`` for ``t = 2d + d^2 + y^2``: ``log u + (t - (u - 1)) / u`` for the
    rounded ``u = 1 + t``.  Where that overflows it is not near.
    """
    one = b.like(d, 1)
    squares = [_square_in_two(b, x) for x in (y, d)]
    t = _exact_sum(b, [b.add(d, d), *(s for s, _ in squares)], [lost for _, lost in squares])
    near = b.both(b.compare("gt", t, b.like(d, -0.5)), b.compare("lt", t, b.like(d, 2)))
    u = b.select(near, b.add(one, t), far)
    lost = b.select(near, b.sub(t, b.sub(u, one)), b.like(d, 0))
    return b.add(b.math("log", u), b.div(lost, b.select(near, u, one)))


def _log_modulus(b: Builder, x: Scalar, y: Scalar, d: Scalar, n: Scalar) -> Scalar:
    """``log |x + iy|``, which is ``log |1 + d + in|``."""
    part = scaled(b, b.complex(x, y))
    far = sum_of_squares(b, part.re, part.im)
    twice = _log_near(b, d, n, far)
    shift = b.select(part.small, b.like(x, -part.range.up * math.log(2)), b.like(x, 0))
    shift = b.select(part.large, b.like(x, -part.range.down * math.log(2)), shift)
    size = b.add(b.mul(twice, b.like(x, 0.5)), shift)
    infinite = either(b, is_infinite(b, x), is_infinite(b, y))
    return b.select(infinite, b.like(x, math.inf), size)


@_in_double
def _log(b: Builder, z: Scalar) -> Scalar:
    x, y = b.real(z), b.imag(z)
    p, q = b.abs(x), b.abs(y)
    first = b.compare("gt", p, q)
    larger, other = b.select(first, p, q), b.select(first, q, p)
    size = _log_modulus(b, x, y, b.sub(larger, b.like(x, 1)), other)
    return b.complex(size, b.math("atan2", y, x))


@_in_double
def _log1p(b: Builder, z: Scalar) -> Scalar:
    d, y = b.real(z), b.imag(z)
    x = b.add(d, b.like(d, 1))
    return b.complex(_log_modulus(b, x, y, d, y), b.math("atan2", y, x))


def _whole_power(b: Builder, z: Scalar, n: Scalar) -> Scalar:
    """``z`` to the power of an int32 of at most ``_MOST``; by products, and a last quotient."""
    count, zero, one = b.abs(n), b.like(n, 0), b.like(z, 1)
    power, square = one, z
    first = [z]
    for k in range(_MOST.bit_length()):
        bit = b.logic("and", count, b.like(n, 1 << k))
        power = b.select(b.compare("ne", bit, zero), b.mul(power, square), power)
        square = b.mul(square, square)
        first += [square, b.mul(z, square)] if k == 0 else []
    for k, value in enumerate(first, 1):
        power = b.select(b.compare("eq", n, b.like(n, k)), value, power)
    return b.select(b.compare("lt", n, zero), b.div(one, power), power)


def _product(b: Builder, z: Scalar, w: Scalar) -> Scalar:
    """``z w`` as C99, Annex G has it: infinite where a factor is, though a part of it be NaN."""
    plain = b.mul(z, w)
    lost = b.both(*(b.is_nan(p) for p in b.parts(plain)))
    endless = either(b, *(either(b, *(is_infinite(b, p) for p in b.parts(v))) for v in (z, w)))

    def corner(v: Scalar) -> Scalar:
        """1 for infinities and 0 for all else where there is one, with their signs."""
        p, q = b.parts(v)
        infinite = either(b, is_infinite(b, p), is_infinite(b, q))

        def part(x: Scalar) -> Scalar:
            size = b.select(is_infinite(b, x), b.like(x, 1), b.like(x, 0))
            kept = b.select(b.is_nan(x), b.copysign(b.like(x, 0), x), x)
            return b.select(infinite, b.copysign(size, x), kept)

        return b.complex(part(p), part(q))

    turned = b.mul(corner(z), corner(w))
    parts = [b.mul(p, b.like(p, math.inf)) for p in b.parts(turned)]
    return b.select(b.both(lost, endless), b.complex(*parts), plain)


def _pow(b: Builder, z: Scalar, w: Scalar) -> Scalar:
    """``exp(w log z)``, whole powers by products; 0 of 0 for a positive real part of ``w``."""
    x, y = b.real(w), b.imag(w)
    wide, power = (b.convert(v, dtypes.complex128) for v in (z, w))
    value = b.convert(_exp(b, _product(b, power, _log(b, wide))), z.dtype)
    zero = b.like(x, 0)
    of_zero = b.select(
        b.compare("gt", x, zero), b.like(z, 0), b.like(z, complex(math.nan, math.nan))
    )
    value = b.select(b.compare("eq", z, b.like(z, 0)), of_zero, value)
    few = b.compare("le", b.abs(x), b.like(x, _MOST))
    whole = b.both(b.both(few, b.compare("eq", y, zero)), b.compare("eq", b.trunc(x), x))
    n = b.convert(b.select(whole, x, zero), dtypes.int32)
    powers = _whole_power(b, z, n)
    kept = b.both(whole, either(b, b.compare("ne", z, b.like(z, 0)), b.compare("eq", x, zero)))
    return b.select(kept, powers, value)


# ---- trigonometric and hyperbolic functions -----------------------------------------------------


def _hyperbolic(b: Builder, x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """``h``, and what makes ``cosh x`` and ``sinh x`` of it by a product: ``h = exp(|x| / 2)``."""
    half, one, two = (b.like(x, n) for n in (0.5, 1, 2))
    less = b.math("expm1", b.mul(b.abs(x), half))
    root = b.add(less, one)
    inverse = b.div(one, root)
    square = b.mul(inverse, inverse)
    cosh = b.mul(half, b.add(root, b.mul(inverse, square)))
    # (h - h^-3) / 2 for h = 1 + less
    sinh = _times(b, b.mul(less, inverse), b.add(less, two), b.add(one, square), half)
    sinh = b.select(b.compare("eq", inverse, b.like(x, 0)), root, sinh)
    sinh = b.select(b.compare("lt", b.abs(x), b.like(x, _TINY)), b.abs(x), sinh)
    return root, cosh, b.copysign(sinh, x)


def _sinh_of(b: Builder, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The parts of ``sinh(x + iy)``."""
    root, cosh, sinh = _hyperbolic(b, x)
    cos, sin, zero = b.math("cos", y), b.math("sin", y), b.like(x, 0)
    re, im = _times(b, cos, sinh, root), _times(b, sin, cosh, root)
    lost = b.is_nan(b.sub(y, y))
    endless = is_infinite(b, x)
    kept = b.both(lost, either(b, endless, b.compare("eq", x, zero)))
    re = b.select(kept, b.select(endless, b.like(x, math.inf), x), re)
    return re, b.select(b.compare("eq", y, zero), y, im)


def _cosh_of(b: Builder, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The parts of ``cosh(x + iy)``."""
    root, cosh, sinh = _hyperbolic(b, x)
    cos, sin, zero = b.math("cos", y), b.math("sin", y), b.like(x, 0)
    re, im = _times(b, cos, cosh, root), _times(b, sin, sinh, root)
    lost = b.is_nan(b.sub(y, y))
    re = b.select(b.both(lost, is_infinite(b, x)), b.abs(x), re)
    im = b.select(b.both(lost, b.compare("eq", x, zero)), zero, im)
    nothing = b.mul(b.copysign(zero, x), b.copysign(b.like(x, 1), y))
    nothing = b.select(b.is_nan(x), y, nothing)
    return re, b.select(b.compare("eq", y, zero), nothing, im)


def _tanh_of(b: Builder, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The parts of ``tanh(x + iy)``.

    Source: W. Kahan, "Branch cuts for complex elementary functions" (1987).
    """
    one, zero = b.like(x, 1), b.like(x, 0)
    tan, sinh = b.math("tan", y), b.math("sinh", x)
    slope = b.add(one, b.mul(tan, tan))
    square = b.mul(sinh, sinh)
    divisor = b.add(one, b.mul(slope, square))
    re = b.div(_times(b, slope, b.sqrt(b.add(one, square)), sinh), divisor)
    im = b.div(tan, divisor)
    far = b.compare("gt", b.abs(x), b.like(x, _FLAT[x.dtype]))
    angle = b.div(tan, slope)  # sin y cos y
    endless = is_infinite(b, x)
    rest = b.div(b.div(angle, sinh), sinh)
    lost = b.is_nan(b.sub(y, y))
    rest = b.select(endless, b.copysign(zero, b.select(lost, y, angle)), rest)
    re = b.select(b.both(far, either(b, endless, b.logic("not", lost))), b.copysign(one, x), re)
    im = b.select(far, rest, im)
    re = b.select(b.both(lost, b.compare("eq", x, zero)), x, re)
    return re, b.select(b.compare("eq", y, zero), y, im)


_Parts: TypeAlias = "Callable[[Builder, Scalar, Scalar], tuple[Scalar, Scalar]]"


def _hyperbolic_function(parts: _Parts) -> Callable[..., Scalar]:
    def function(b: Builder, z: Scalar) -> Scalar:
        return b.complex(*parts(b, b.real(z), b.imag(z)))

    return function


def _turned(parts: _Parts) -> Callable[..., Scalar]:
    """``-i f(iz)`` for an odd ``f`` that is real on the real axis, by its parts."""

    def function(b: Builder, z: Scalar) -> Scalar:
        im, re = parts(b, b.imag(z), b.real(z))
        return b.complex(re, im)

    return function


def _cos(b: Builder, z: Scalar) -> Scalar:
    return b.complex(*_cosh_of(b, b.neg(b.imag(z)), b.real(z)))


def sign(b: Builder, z: Scalar) -> Scalar:
    """``z / |z|``; 0 of 0, and NaN of an infinity."""
    part = scaled(b, z)
    size = b.sqrt(sum_of_squares(b, part.re, part.im))
    size = b.select(is_infinite(b, size), b.like(size, math.nan), size)
    unit = b.complex(b.div(part.re, size), b.div(part.im, size))
    return b.select(b.compare("eq", z, b.like(z, 0)), z, unit)


#: ``(builder, *operands)`` -> the value, by the name of the function.
FUNCTIONS: Final[dict[str, Callable[..., Scalar]]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "logistic": _logistic,
    "pow": _pow,
    "rsqrt": _rsqrt,
    "sin": _turned(_sinh_of),
    "cos": _cos,
    "tan": _turned(_tanh_of),
    "sinh": _hyperbolic_function(_sinh_of),
    "cosh": _hyperbolic_function(_cosh_of),
    "tanh": _hyperbolic_function(_tanh_of),
}
