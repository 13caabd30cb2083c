"""The elementwise functions of jax.lax, one for each elementwise primitive.

Operands have one dtype and one shape; a scalar, and an axis of size 1, is repeated, and a number
takes the dtype of the array that it meets.  Most functions have a signature and a summary, and no
body: one of four decorators gives them it, and the rest of their documentation.  Functions with
arguments of their own are in ``functrax.lax.choice`` and ``functrax.lax.conversion``.  Some names
here are those of Python's built-in functions, as in jax.lax.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from functrax.core.arrays.operators import Array
from functrax.core.prims import (
    analytic,
    arithmetic,
    bitwise,
    comparisons as compare,
    powers,
    rounding,
    special,
)
from functrax.core.prims.convert import convert_element_type
from functrax.core.tracing.primitive import Primitive
from functrax.lax.operands import as_array, check_same_dtype, dtype_of, operands, pair, value_of
from functrax.lax.precision import check_accuracy
from functrax.typing import ArrayLike, DTypeLike

F = TypeVar("F", bound="Callable[..., Array]")

_FLOAT = "floating point"
_INEXACT = "floating point or complex"
_NUMBER = "integer, floating point or complex"
_ORDERED = "integer, floating point or bool"
_BITS = "integer or bool"
_INTEGER = "integer"
_ANY = "any"


def _described(made: Any, template: F, takes: str, args: str, example: str, more: str = "") -> F:
    """Give a function the name of what was decorated, and its documentation with more sections."""
    name = template.__name__
    given, shown = example.split(" -> ")
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"""{template.__doc__}

    Args:
      {args}, of {takes} dtype.{more}

    Returns:
      An array of the operands' shape.

    Raises:
      DTypeError: for operands of other dtypes, or of different ones.
      ShapeError: for different shapes; a size of 1, or rank 0, is repeated.

    Elementwise; the primitive is ``{name}``.

    >>> from functrax import lax
    >>> print(lax.{name}({given}))
    {shown}
    """
    return cast(F, made)


def _unary(primitive: Primitive, takes: str, example: str) -> Callable[[F], F]:
    bind = primitive.bind

    def decorate(template: F) -> F:
        name = template.__name__

        def function(x: ArrayLike) -> Array:
            return as_array(bind(value_of(name, x)))

        return _described(function, template, takes, "x: an array or a number", example)

    return decorate


def _analytic(primitive: Primitive, example: str, takes: str = _INEXACT) -> Callable[[F], F]:
    """A unary function that takes jax.lax's ``accuracy``; it has one accuracy here."""
    bind = primitive.bind
    more = "\n      accuracy: a ``lax.AccuracyMode`` or a ``lax.Tolerance`` of at least 2 ulps."

    def decorate(template: F) -> F:
        name = template.__name__

        def function(x: ArrayLike, *, accuracy: object = None) -> Array:
            value = value_of(name, x)
            if accuracy is not None:
                check_accuracy(name, accuracy, value.aval.dtype)
            return as_array(bind(value))

        return _described(function, template, takes, "x: an array or a number", example, more)

    return decorate


def _binary(primitive: Primitive, takes: str, example: str) -> Callable[[F], F]:
    bind = primitive.bind

    def decorate(template: F) -> F:
        name = template.__name__

        def function(x: ArrayLike, y: ArrayLike) -> Array:
            a, b = pair(name, x, y)
            return as_array(bind(a, b))

        return _described(function, template, takes, "x, y: arrays or numbers", example)

    return decorate


def _ternary(primitive: Primitive, takes: str, example: str) -> Callable[[F], F]:
    bind = primitive.bind

    def decorate(template: F) -> F:
        name = template.__name__

        def function(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
            return as_array(bind(*operands(name, a, b, x)))

        return _described(function, template, takes, "a, b, x: arrays or numbers", example)

    return decorate


# ---- arithmetic ----------------------------------------------------------------------------------


@_unary(arithmetic.neg, _NUMBER, "2.0 -> -2.0")
def neg(x: ArrayLike) -> Array:
    """``-x``."""


@_unary(arithmetic.sign, _NUMBER, "-3.0 -> -1.0")
def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1; ``x / |x|`` for complex numbers."""


@_unary(arithmetic.abs_, _NUMBER, "-3.0 -> 3.0")
def abs(x: ArrayLike) -> Array:
    """The absolute value; real, for complex numbers."""


@_unary(arithmetic.floor, _FLOAT, "-1.5 -> -2.0")
def floor(x: ArrayLike) -> Array:
    """The largest integral value not above ``x``."""


@_unary(rounding.ceil, _FLOAT, "-1.5 -> -1.0")
def ceil(x: ArrayLike) -> Array:
    """The smallest integral value not below ``x``."""


@_unary(rounding.is_finite, _FLOAT, 'float("inf") -> False')
def is_finite(x: ArrayLike) -> Array:
    """Neither infinite nor NaN."""


@_binary(arithmetic.add, _NUMBER, "2, 3 -> 5")
def add(x: ArrayLike, y: ArrayLike) -> Array:
    """``x + y``."""


@_binary(arithmetic.sub, _NUMBER, "2, 3 -> -1")
def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """``x - y``."""


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """``x * y``; of truth values, both.

    Args:
      x, y: arrays or numbers, of any dtype.
      out_dtype: the dtype to multiply in, and of the result; that of the operands if omitted.

    Returns:
      An array of the operands' shape.

    Raises:
      DTypeError: for operands of different dtypes.
      ShapeError: for different shapes; a size of 1, or rank 0, is repeated.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.mul(np.array([1, 2], "int8"), np.array([100, 100], "int8"), out_dtype="int32")
    Array([100, 200], dtype=int32)
    """
    a, b = pair("mul", x, y)
    if out_dtype is not None:
        check_same_dtype("mul", (a, b), "convert one with lax.convert_element_type")
        dtype = dtype_of(out_dtype)
        a, b = (convert_element_type.bind(v, dtype=dtype, weak_type=False) for v in (a, b))
    return as_array(arithmetic.mul.bind(a, b))


@_binary(bitwise.mulhi, _INTEGER, "2**30, 8 -> 2")
def mulhi(x: ArrayLike, y: ArrayLike) -> Array:
    """The upper half of the bits of ``x * y``."""


@_binary(arithmetic.div, _NUMBER, "-7, 2 -> -3")
def div(x: ArrayLike, y: ArrayLike) -> Array:
    """``x / y``; of integers, rounded toward zero."""


@_binary(arithmetic.rem, _ORDERED, "-7, 2 -> -1")
def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder, with the sign of ``x``."""


@_binary(arithmetic.max_, _ORDERED, '1.0, float("nan") -> nan')
def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger one; NaN wins."""


@_binary(arithmetic.min_, _ORDERED, '1.0, float("nan") -> nan')
def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller one; NaN wins."""


@_binary(rounding.nextafter, _FLOAT, "1.0, 2.0 -> 1.0000001")
def nextafter(x: ArrayLike, y: ArrayLike) -> Array:
    """The next float after ``x`` toward ``y``."""


# ---- comparison, logic, bits ---------------------------------------------------------------------


@_binary(compare.eq, _ANY, 'float("nan"), float("nan") -> False')
def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """``x == y``."""


@_binary(compare.ne, _ANY, "2.0, 2.0 -> False")
def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """``x != y``."""


@_binary(compare.lt, _ORDERED, "2.0, 2.0 -> False")
def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """``x < y``."""


@_binary(compare.le, _ORDERED, "2.0, 2.0 -> True")
def le(x: ArrayLike, y: ArrayLike) -> Array:
    """``x <= y``."""


@_binary(compare.gt, _ORDERED, "2.0, 2.0 -> False")
def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """``x > y``."""


@_binary(compare.ge, _ORDERED, "2.0, 2.0 -> True")
def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """``x >= y``."""


@_unary(compare.not_, _BITS, "5 -> -6")
def bitwise_not(x: ArrayLike) -> Array:
    """Not ``x``, bit by bit."""


@_binary(compare.and_, _BITS, "6, 3 -> 2")
def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """``x`` and ``y``, bit by bit."""


@_binary(compare.or_, _BITS, "6, 3 -> 7")
def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """``x`` or ``y``, bit by bit."""


@_binary(compare.xor, _BITS, "6, 3 -> 5")
def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """One of ``x`` and ``y``, by bits."""


@_binary(bitwise.shift_left, _INTEGER, "1, 4 -> 16")
def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """``x << y``."""


@_binary(bitwise.shift_right_arithmetic, _INTEGER, "-8, 1 -> -4")
def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """``x >> y``, filled with the sign bit."""


@_binary(bitwise.shift_right_logical, _INTEGER, "-8, 1 -> 2147483644")
def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """``x >> y``, filled with zeros."""


@_unary(bitwise.population_count, _INTEGER, "7 -> 3")
def population_count(x: ArrayLike) -> Array:
    """The number of bits that are 1."""


@_unary(bitwise.clz, _INTEGER, "1 -> 31")
def clz(x: ArrayLike) -> Array:
    """The number of leading bits that are 0."""


# ---- exponentials, logarithms, powers ------------------------------------------------------------


@_analytic(analytic.exp, 'float("-inf") -> 0.0')
def exp(x: ArrayLike, *, accuracy: object = None) -> Array:
    """``e ** x``."""


@_analytic(analytic.exp2, "0.5 -> 1.4142135")
def exp2(x: ArrayLike, *, accuracy: object = None) -> Array:
    """``2 ** x``."""


@_analytic(analytic.expm1, "1e-6 -> 1.0000005e-06")
def expm1(x: ArrayLike, *, accuracy: object = None) -> Array:
    """``e ** x - 1``, exact near 0."""


@_analytic(analytic.log, "0.0 -> -inf")
def log(x: ArrayLike, *, accuracy: object = None) -> Array:
    """The natural logarithm."""


@_analytic(analytic.log1p, "1e-6 -> 9.999995e-07")
def log1p(x: ArrayLike, *, accuracy: object = None) -> Array:
    """``log(1 + x)``, exact near 0."""


@_analytic(analytic.logistic, "-1.0 -> 0.26894143")
def logistic(x: ArrayLike, *, accuracy: object = None) -> Array:
    """``1 / (1 + exp(-x))``."""


@_analytic(powers.sqrt, "-1.0 -> nan")
def sqrt(x: ArrayLike, *, accuracy: object = None) -> Array:
    """The square root."""


@_analytic(powers.rsqrt, "4.0 -> 0.5")
def rsqrt(x: ArrayLike, *, accuracy: object = None) -> Array:
    """``1 / sqrt(x)``."""


@_analytic(powers.cbrt, "-8.0 -> -2.0", _FLOAT)
def cbrt(x: ArrayLike, *, accuracy: object = None) -> Array:
    """The cube root."""


@_unary(powers.square, _NUMBER, "-3.0 -> 9.0")
def square(x: ArrayLike) -> Array:
    """``x * x``."""


# ---- trigonometry --------------------------------------------------------------------------------


@_analytic(analytic.sin, "30.0 -> -0.9880316")
def sin(x: ArrayLike, *, accuracy: object = None) -> Array:
    """The sine of an angle in radians."""


@_analytic(analytic.cos, "180.0 -> -0.5984601")
def cos(x: ArrayLike, *, accuracy: object = None) -> Array:
    """The cosine of an angle in radians."""


@_analytic(analytic.tan, "45.0 -> 1.6197752")
def tan(x: ArrayLike, *, accuracy: object = None) -> Array:
    """The tangent of an angle in radians."""


@_analytic(analytic.tanh, "20.0 -> 1.0")
def tanh(x: ArrayLike, *, accuracy: object = None) -> Array:
    """The hyperbolic tangent."""


@_unary(analytic.asin, _INEXACT, "1.0 -> 1.5707964")
def asin(x: ArrayLike) -> Array:
    """The angle whose sine is ``x``."""


@_unary(analytic.acos, _INEXACT, "2.0 -> nan")
def acos(x: ArrayLike) -> Array:
    """The angle whose cosine is ``x``."""


@_unary(analytic.atan, _INEXACT, "1.0 -> 0.7853982")
def atan(x: ArrayLike) -> Array:
    """The angle whose tangent is ``x``."""


@_unary(analytic.sinh, _INEXACT, "1.0 -> 1.1752012")
def sinh(x: ArrayLike) -> Array:
    """The hyperbolic sine."""


@_unary(analytic.cosh, _INEXACT, "0.0 -> 1.0")
def cosh(x: ArrayLike) -> Array:
    """The hyperbolic cosine."""


@_unary(analytic.asinh, _INEXACT, "1.0 -> 0.8813736")
def asinh(x: ArrayLike) -> Array:
    """The inverse of the hyperbolic sine."""


@_unary(analytic.acosh, _INEXACT, "0.5 -> nan")
def acosh(x: ArrayLike) -> Array:
    """The inverse of the hyperbolic cosine."""


@_unary(analytic.atanh, _INEXACT, "1.0 -> inf")
def atanh(x: ArrayLike) -> Array:
    """The inverse of the hyperbolic tangent."""


@_binary(analytic.atan2, _FLOAT, "1.0, -1.0 -> 2.3561945")
def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """The angle of the point ``(y, x)``: atan(x / y)."""


# ---- special functions ---------------------------------------------------------------------------


@_unary(special.erf, _FLOAT, "0.5 -> 0.5204999")
def erf(x: ArrayLike) -> Array:
    """The error function (DLMF 7.2.1)."""


@_unary(special.erfc, _FLOAT, "0.5 -> 0.47950011")
def erfc(x: ArrayLike) -> Array:
    """``1 - erf(x)`` (DLMF 7.2.2)."""


@_unary(special.erf_inv, _FLOAT, "0.5 -> 0.47693628")
def erf_inv(x: ArrayLike) -> Array:
    """The inverse of the error function."""


@_unary(special.lgamma, _FLOAT, "-0.5 -> 1.2655121")
def lgamma(x: ArrayLike) -> Array:
    """``log |gamma(x)|`` (DLMF 5.2.1)."""


@_unary(special.digamma, _FLOAT, "1.0 -> -0.5772157")
def digamma(x: ArrayLike) -> Array:
    """The derivative of lgamma (DLMF 5.2.2)."""


@_unary(special.bessel_i0e, _FLOAT, "1000.0 -> 0.012617241")
def bessel_i0e(x: ArrayLike) -> Array:
    """``exp(-|x|)`` times the Bessel function I0."""


@_unary(special.bessel_i1e, _FLOAT, "1.0 -> 0.20791042")
def bessel_i1e(x: ArrayLike) -> Array:
    """``exp(-|x|)`` times the Bessel function I1."""


@_binary(special.polygamma, _FLOAT, "1.0, 1.0 -> 1.644934")
def polygamma(x: ArrayLike, y: ArrayLike) -> Array:
    """Derivative number ``x`` of digamma at ``y``."""


@_binary(special.zeta, _FLOAT, "2.0, 1.0 -> 1.644934")
def zeta(x: ArrayLike, y: ArrayLike) -> Array:
    """The Hurwitz zeta function of ``x`` from ``y`` on."""


@_binary(special.igamma, _FLOAT, "1.0, 1.0 -> 0.63212055")
def igamma(x: ArrayLike, y: ArrayLike) -> Array:
    """The lower incomplete gamma function P(x, y) (DLMF 8.2.4)."""


@_binary(special.igammac, _FLOAT, "1.0, 1.0 -> 0.36787945")
def igammac(x: ArrayLike, y: ArrayLike) -> Array:
    """The upper incomplete gamma function Q(x, y) (DLMF 8.2.4)."""


@_binary(special.igamma_grad_a, _FLOAT, "1.0, 1.0 -> -0.4317297")
def igamma_grad_a(x: ArrayLike, y: ArrayLike) -> Array:
    """The derivative of igamma by its first operand."""


@_binary(special.random_gamma_grad, _FLOAT, "1.0, 1.0 -> 1.173563")
def random_gamma_grad(x: ArrayLike, y: ArrayLike) -> Array:
    """The derivative of a gamma sample ``y`` by its shape ``x``."""


@_ternary(special.regularized_incomplete_beta, _FLOAT, "1.0, 1.0, 0.25 -> 0.25")
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function of ``x`` with ``a``, ``b`` (DLMF 8.17.2)."""
