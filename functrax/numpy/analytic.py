"""Elementwise analytic functions: exponentials, logarithms, roots, trigonometry, Bessel's i0.

Integers are computed in float32.  Where a formula has a removable singularity (``sinc`` at 0) or
could overflow (``logaddexp``), it is written so that derivatives of any order are right there too.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.prims import (
    analytic as waves,
    arithmetic as prims,
    comparisons as compare,
    powers as roots,
)
from functrax.core.prims.convert import complex_, imag, real
from functrax.core.prims.special import bessel_i0e
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.elementwise import binary, unary
from functrax.numpy.promote import as_weak_as, inexact, promote_args, promote_dtypes, result
from functrax.numpy.ufuncs import like_weak, refuse_complex
from functrax.typing import ArrayLike


@unary(waves.exp)
def exp(x: ArrayLike, /) -> Array:
    """``e**x``.

    >>> import functrax.numpy as jnp
    >>> jnp.exp(jnp.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """


@unary(waves.exp2)
def exp2(x: ArrayLike, /) -> Array:
    """``2**x``.

    >>> import functrax.numpy as jnp
    >>> jnp.exp2(jnp.array([-1, 3]))
    Array([0.5, 8. ], dtype=float32)
    """


@unary(waves.expm1)
def expm1(x: ArrayLike, /) -> Array:
    """``e**x - 1``, precise for small ``x``.

    >>> import functrax.numpy as jnp
    >>> jnp.expm1(jnp.array(1e-10)), jnp.exp(jnp.array(1e-10)) - 1
    (Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))
    """


@unary(waves.log)
def log(x: ArrayLike, /) -> Array:
    """The natural logarithm.

    >>> import functrax.numpy as jnp
    >>> jnp.log(jnp.array([1.0, 10.0, 0.0]))
    Array([0.       , 2.3025851,      -inf], dtype=float32)
    """


@unary(waves.log1p)
def log1p(x: ArrayLike, /) -> Array:
    """``log(1 + x)``, precise for small ``x``.

    >>> import functrax.numpy as jnp
    >>> jnp.log1p(jnp.array(1e-10)), jnp.log(1 + jnp.array(1e-10))
    (Array(1.e-10, dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))
    """


@unary(roots.sqrt)
def sqrt(x: ArrayLike, /) -> Array:
    """The square root.

    >>> import functrax.numpy as jnp
    >>> jnp.sqrt(jnp.array([4, 2, -1]))
    Array([2.       , 1.4142135,       nan], dtype=float32)
    """


@unary(roots.cbrt)
def cbrt(x: ArrayLike, /) -> Array:
    """The cube root, real.

    >>> import functrax.numpy as jnp
    >>> jnp.cbrt(jnp.array([27.0, -8.0]))
    Array([ 3., -2.], dtype=float32)
    """


@unary(waves.sin)
def sin(x: ArrayLike, /) -> Array:
    """The sine.

    >>> import functrax.numpy as jnp
    >>> jnp.sin(jnp.array([0.0, jnp.pi / 2]))
    Array([0., 1.], dtype=float32)
    """


@unary(waves.cos)
def cos(x: ArrayLike, /) -> Array:
    """The cosine.

    >>> import functrax.numpy as jnp
    >>> jnp.cos(jnp.array([0.0, jnp.pi]))
    Array([ 1., -1.], dtype=float32)
    """


@unary(waves.tan)
def tan(x: ArrayLike, /) -> Array:
    """The tangent.

    >>> import functrax.numpy as jnp
    >>> jnp.tan(jnp.array([0.0, 1.0]))
    Array([0.       , 1.5574077], dtype=float32)
    """


@unary(waves.asin)
def arcsin(x: ArrayLike, /) -> Array:
    """The angle in [-π/2, π/2] whose sine is ``x``.

    >>> import functrax.numpy as jnp
    >>> jnp.arcsin(jnp.array([0.0, 1.0, 2.0]))
    Array([0.       , 1.5707964,       nan], dtype=float32)
    """


@unary(waves.acos)
def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, π] whose cosine is ``x``.

    >>> import functrax.numpy as jnp
    >>> jnp.arccos(jnp.array([1.0, -1.0]))
    Array([0.       , 3.1415927], dtype=float32)
    """


@unary(waves.atan)
def arctan(x: ArrayLike, /) -> Array:
    """The angle in [-π/2, π/2] whose tangent is ``x``.

    >>> import functrax.numpy as jnp
    >>> jnp.arctan(jnp.array([0.0, 1.0, jnp.inf]))
    Array([0.       , 0.7853982, 1.5707964], dtype=float32)
    """


@unary(waves.sinh)
def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine.

    >>> import functrax.numpy as jnp
    >>> jnp.sinh(jnp.array([0.0, 1.0]))
    Array([0.       , 1.1752012], dtype=float32)
    """


@unary(waves.cosh)
def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine.

    >>> import functrax.numpy as jnp
    >>> jnp.cosh(jnp.array([0.0, 1.0]))
    Array([1.       , 1.5430806], dtype=float32)
    """


@unary(waves.tanh)
def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent.

    >>> import functrax.numpy as jnp
    >>> jnp.tanh(jnp.array([0.0, 1.0, 50.0]))
    Array([0.       , 0.7615942, 1.       ], dtype=float32)
    """


@unary(waves.asinh)
def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse of the hyperbolic sine.

    >>> import functrax.numpy as jnp
    >>> jnp.arcsinh(jnp.array([0.0, 1.0]))
    Array([0.       , 0.8813736], dtype=float32)
    """


@unary(waves.acosh)
def arccosh(x: ArrayLike, /) -> Array:
    """The inverse of the hyperbolic cosine, at least 0.

    >>> import functrax.numpy as jnp
    >>> jnp.arccosh(jnp.array([1.0, 2.0, 0.5]))
    Array([0.      , 1.316958,      nan], dtype=float32)
    """


@unary(waves.atanh)
def arctanh(x: ArrayLike, /) -> Array:
    """The inverse of the hyperbolic tangent.

    >>> import functrax.numpy as jnp
    >>> jnp.arctanh(jnp.array([0.0, 0.5, 1.0]))
    Array([0.        , 0.54930615,        inf], dtype=float32)
    """


@binary(waves.atan2, inexact)
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The angle in [-π, π] of the point ``(x2, x1)``.

    >>> import functrax.numpy as jnp
    >>> jnp.arctan2(jnp.array([1.0, -1.0]), jnp.array([0.0, -1.0]))
    Array([ 1.5707964, -2.3561945], dtype=float32)
    """


acos, acosh, asin, asinh = arccos, arccosh, arcsin, arcsinh
atan, atanh, atan2 = arctan, arctanh, arctan2


def _scaled(name: str, x: Any, factor: float) -> Value:
    (v,) = promote_dtypes(name, x, kind=inexact)
    return result(prims.mul.bind(v, like_weak(v, factor)))


def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees to radians: ``x * π / 180``.

    Args:
      x: angles in degrees, an array or a scalar.

    Returns:
      Angles in radians, a floating point array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.deg2rad(jnp.array([0, 180]))
      Array([0.       , 3.1415927], dtype=float32)
    """
    return _scaled("deg2rad", x, math.pi / 180)


def rad2deg(x: ArrayLike, /) -> Array:
    """Radians to degrees: ``x * 180 / π``.

    Args:
      x: angles in radians, an array or a scalar.

    Returns:
      Angles in degrees, a floating point array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.rad2deg(jnp.array([0.0, jnp.pi]))
      Array([  0., 180.], dtype=float32)
    """
    return _scaled("rad2deg", x, 180 / math.pi)


radians, degrees = deg2rad, rad2deg


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``log(exp(x1) + exp(x2))`` without overflow.

    Derivatives of every order are right at ``x1 == x2``, for the formula that is used there has
    no kink: ``m + log1p(exp(-d))`` with m the larger operand and d ≥ 0 the distance.

    Args:
      x1: an array or a scalar; integers become floats.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape; of complex operands, the imaginary part
      is in [-π, π].

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.logaddexp(jnp.array([0.0, 1000.0]), jnp.array([0.0, 1000.0]))
      Array([6.9314718e-01, 1.0006932e+03], dtype=float32)
    """
    x, y = promote_args("logaddexp", x1, x2, kind=inexact)
    larger, exponent = _larger_and_distance(x, y)
    tail = waves.log1p.bind(waves.exp.bind(exponent))
    return result(_wrapped(prims.add.bind(larger, tail), math.pi))


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``log2(2**x1 + 2**x2)`` without overflow.

    Args:
      x1: an array or a scalar; integers become floats.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.logaddexp2(jnp.array([0.0, 1000.0]), jnp.array([0.0, 1000.0]))
      Array([1.000e+00, 1.001e+03], dtype=float32)
    """
    x, y = promote_args("logaddexp2", x1, x2, kind=inexact)
    larger, exponent = _larger_and_distance(x, y)
    tail = waves.log1p.bind(waves.exp2.bind(exponent))
    scaled = prims.div.bind(tail, like_weak(tail, math.log(2)))
    return result(_wrapped(prims.add.bind(larger, scaled), math.pi / math.log(2)))


def _larger_and_distance(x: Value, y: Value) -> tuple[Value, Value]:
    """The larger operand, and the other less it: at most 0, and 0 for equal infinities."""
    distance = prims.sub.bind(x, y)
    unknown = compare.ne.bind(distance, distance)  # NaN, or infinities of one sign
    zero = like_weak(distance, 0)
    size = real.bind(distance) if distance.aval.dtype in dtypes.COMPLEX else distance
    first = compare.gt.bind(size, like_weak(size, 0))
    larger = prims.select_n.bind(first, y, x)
    larger = prims.select_n.bind(unknown, larger, prims.add.bind(x, y))
    exponent = prims.select_n.bind(first, distance, prims.neg.bind(distance))
    return larger, prims.select_n.bind(unknown, exponent, zero)


def _wrapped(x: Value, half_turn: float) -> Value:
    """A complex number with its imaginary part brought into one turn."""
    if x.aval.dtype not in dtypes.COMPLEX:
        return x
    angle_ = imag.bind(x)
    turns = prims.add.bind(
        prims.div.bind(angle_, like_weak(angle_, 2 * half_turn)), like_weak(angle_, 0.5)
    )
    whole = prims.mul.bind(prims.floor.bind(turns), like_weak(angle_, 2 * half_turn))
    return as_weak_as(x, complex_.bind(real.bind(x), prims.sub.bind(angle_, whole)))


def sinc(x: ArrayLike, /) -> Array:
    """``sin(πx) / (πx)``, 1 at 0.

    Near 0 it is its power series in (πx)², so that derivatives of any order are right at 0.

    Args:
      x: an array or a scalar; integers become floats.

    Returns:
      An array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.sinc(jnp.array([0.0, 0.5]))
      Array([1.        , 0.63661975], dtype=float32)
    """
    (v,) = promote_dtypes("sinc", x, kind=inexact)
    angle_ = prims.mul.bind(v, like_weak(v, math.pi))
    size = prims.abs_.bind(angle_)
    near = compare.lt.bind(size, like_weak(size, 1))
    one = like_weak(angle_, 1)
    far = prims.select_n.bind(near, angle_, one)
    quotient = prims.div.bind(waves.sin.bind(far), far)
    close = prims.select_n.bind(near, like_weak(angle_, 0), angle_)
    return result(prims.select_n.bind(near, quotient, _sinc_series(close)))


_SINC_TERMS = 12  # with |πx| < 1 the first one left out is 1/25! = 6e-26


def _sinc_series(angle_: Value) -> Value:
    """``1 - a²/3! + a⁴/5! - ...`` by Horner's rule."""
    squared = prims.mul.bind(angle_, angle_)
    total: Value = like_weak(angle_, (-1) ** _SINC_TERMS / math.factorial(2 * _SINC_TERMS + 1))
    for k in reversed(range(_SINC_TERMS)):
        coefficient = like_weak(angle_, (-1) ** k / math.factorial(2 * k + 1))
        total = prims.add.bind(prims.mul.bind(squared, total), coefficient)
    return total


def i0(x: ArrayLike, /) -> Array:
    """The modified Bessel function of the first kind, of order 0.

    Args:
      x: a real array or a scalar; integers become floats.

    Returns:
      A floating point array of the same shape.

    Raises:
      DTypeError: for complex numbers and lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.i0(jnp.array([0.0, 1.0]))
      Array([1.       , 1.2660658], dtype=float32)
    """
    (v,) = promote_dtypes("i0", x, kind=inexact)
    refuse_complex("i0", v)
    size = prims.mul.bind(v, prims.sign.bind(v))  # whose derivative at 0 is 0, not that of abs
    return result(prims.mul.bind(waves.exp.bind(size), bessel_i0e.bind(v)))
