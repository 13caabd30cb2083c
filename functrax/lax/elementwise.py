"""The elementwise functions of jax.lax, one for each elementwise primitive.

Operands have one dtype and one shape; a scalar, and an axis of size 1, is repeated, and a number
takes the dtype of the array that it meets.  Most functions are made by one of three small
factories, which also write their docstrings; those with arguments of their own are in
``functrax.lax.choice`` and ``functrax.lax.conversion``.

Some names here are those of Python's built-in functions, as in jax.lax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

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
from functrax.lax.operands import (
    ArrayLike,
    DTypeLike,
    as_array,
    check_same_dtype,
    dtype_of,
    operands,
    pair,
    value_of,
)
from functrax.lax.precision import check_accuracy

Unary: TypeAlias = "Callable[[ArrayLike], Array]"
Binary: TypeAlias = "Callable[[ArrayLike, ArrayLike], Array]"
Ternary: TypeAlias = "Callable[[ArrayLike, ArrayLike, ArrayLike], Array]"

_FLOAT = "floating point"
_INEXACT = "floating point or complex"
_NUMBER = "integer, floating point or complex"
_ORDERED = "integer, floating point or bool"
_BITS = "integer or bool"
_INTEGER = "integer"
_ANY = "any"


def _named(function: Any, name: str, summary: str, takes: str, args: str, more: str = "") -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    Args:
      {args}, of {takes} dtype.{more}

    Returns:
      An array of the operands' shape.

    Raises:
      DTypeError: for operands of other dtypes, or of different ones.
      ShapeError: for different shapes; a size of 1, or rank 0, is repeated.

    Elementwise; the primitive is ``{name}``.
    """


def _unary(name: str, primitive: Primitive, summary: str, takes: str) -> Unary:
    bind = primitive.bind

    def function(x: ArrayLike) -> Array:
        return as_array(bind(value_of(name, x)))

    _named(function, name, summary, takes, "x: an array or a number")
    return function


def _analytic(
    name: str, primitive: Primitive, summary: str, takes: str = _INEXACT
) -> Callable[..., Array]:
    """A unary function that takes jax.lax's ``accuracy``; it has one accuracy here."""
    bind = primitive.bind

    def function(x: ArrayLike, *, accuracy: object = None) -> Array:
        value = value_of(name, x)
        if accuracy is not None:
            check_accuracy(name, accuracy, value.aval.dtype)
        return as_array(bind(value))

    more = "\n      accuracy: a ``lax.AccuracyMode`` or a ``lax.Tolerance`` of at least 2 ulps."
    _named(function, name, summary, takes, "x: an array or a number", more)
    return function


def _binary(name: str, primitive: Primitive, summary: str, takes: str) -> Binary:
    bind = primitive.bind

    def function(x: ArrayLike, y: ArrayLike) -> Array:
        a, b = pair(name, x, y)
        return as_array(bind(a, b))

    _named(function, name, summary, takes, "x, y: arrays or numbers")
    return function


def _ternary(name: str, primitive: Primitive, summary: str, takes: str) -> Ternary:
    bind = primitive.bind

    def function(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
        return as_array(bind(*operands(name, a, b, x)))

    _named(function, name, summary, takes, "a, b, x: arrays or numbers")
    return function


# ---- arithmetic ----------------------------------------------------------------------------------

neg = _unary("neg", arithmetic.neg, "``-x``.", _NUMBER)
sign = _unary("sign", arithmetic.sign, "-1, 0 or 1; ``x / |x|`` for complex numbers.", _NUMBER)
abs = _unary("abs", arithmetic.abs_, "The absolute value; real, for complex numbers.", _NUMBER)
floor = _unary("floor", arithmetic.floor, "The largest integral value not above ``x``.", _FLOAT)
ceil = _unary("ceil", rounding.ceil, "The smallest integral value not below ``x``.", _FLOAT)
is_finite = _unary("is_finite", rounding.is_finite, "Neither infinite nor NaN.", _FLOAT)
add = _binary("add", arithmetic.add, "``x + y``.", _NUMBER)
sub = _binary("sub", arithmetic.sub, "``x - y``.", _NUMBER)


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


mulhi = _binary("mulhi", bitwise.mulhi, "The upper half of the bits of ``x * y``.", _INTEGER)
div = _binary("div", arithmetic.div, "``x / y``; of integers, rounded toward zero.", _NUMBER)
rem = _binary("rem", arithmetic.rem, "The remainder, with the sign of ``x``.", _ORDERED)
max = _binary("max", arithmetic.max_, "The larger one; NaN wins.", _ORDERED)
min = _binary("min", arithmetic.min_, "The smaller one; NaN wins.", _ORDERED)
nextafter = _binary(
    "nextafter", rounding.nextafter, "The next float after ``x`` toward ``y``.", _FLOAT
)

# ---- comparison, logic, bits ---------------------------------------------------------------------

eq = _binary("eq", compare.eq, "``x == y``.", _ANY)
ne = _binary("ne", compare.ne, "``x != y``.", _ANY)
lt = _binary("lt", compare.lt, "``x < y``.", _ORDERED)
le = _binary("le", compare.le, "``x <= y``.", _ORDERED)
gt = _binary("gt", compare.gt, "``x > y``.", _ORDERED)
ge = _binary("ge", compare.ge, "``x >= y``.", _ORDERED)
bitwise_not = _unary("bitwise_not", compare.not_, "Not ``x``, bit by bit.", _BITS)
bitwise_and = _binary("bitwise_and", compare.and_, "``x`` and ``y``, bit by bit.", _BITS)
bitwise_or = _binary("bitwise_or", compare.or_, "``x`` or ``y``, bit by bit.", _BITS)
bitwise_xor = _binary("bitwise_xor", compare.xor, "One of ``x`` and ``y``, by bits.", _BITS)
shift_left = _binary("shift_left", bitwise.shift_left, "``x << y``.", _INTEGER)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    bitwise.shift_right_arithmetic,
    "``x >> y``, filled with the sign bit.",
    _INTEGER,
)
shift_right_logical = _binary(
    "shift_right_logical", bitwise.shift_right_logical, "``x >> y``, filled with zeros.", _INTEGER
)
population_count = _unary(
    "population_count", bitwise.population_count, "The number of bits that are 1.", _INTEGER
)
clz = _unary("clz", bitwise.clz, "The number of leading bits that are 0.", _INTEGER)

# ---- exponentials, logarithms, powers ------------------------------------------------------------

exp = _analytic("exp", analytic.exp, "``e ** x``.")
exp2 = _analytic("exp2", analytic.exp2, "``2 ** x``.")
expm1 = _analytic("expm1", analytic.expm1, "``e ** x - 1``, exact near 0.")
log = _analytic("log", analytic.log, "The natural logarithm.")
log1p = _analytic("log1p", analytic.log1p, "``log(1 + x)``, exact near 0.")
logistic = _analytic("logistic", analytic.logistic, "``1 / (1 + exp(-x))``.")
sqrt = _analytic("sqrt", powers.sqrt, "The square root.")
rsqrt = _analytic("rsqrt", powers.rsqrt, "``1 / sqrt(x)``.")
cbrt = _analytic("cbrt", powers.cbrt, "The cube root.", _FLOAT)
square = _unary("square", powers.square, "``x * x``.", _NUMBER)

# ---- trigonometry --------------------------------------------------------------------------------

sin = _analytic("sin", analytic.sin, "The sine of an angle in radians.")
cos = _analytic("cos", analytic.cos, "The cosine of an angle in radians.")
tan = _analytic("tan", analytic.tan, "The tangent of an angle in radians.")
tanh = _analytic("tanh", analytic.tanh, "The hyperbolic tangent.")
asin = _unary("asin", analytic.asin, "The angle whose sine is ``x``.", _INEXACT)
acos = _unary("acos", analytic.acos, "The angle whose cosine is ``x``.", _INEXACT)
atan = _unary("atan", analytic.atan, "The angle whose tangent is ``x``.", _INEXACT)
sinh = _unary("sinh", analytic.sinh, "The hyperbolic sine.", _INEXACT)
cosh = _unary("cosh", analytic.cosh, "The hyperbolic cosine.", _INEXACT)
asinh = _unary("asinh", analytic.asinh, "The inverse of the hyperbolic sine.", _INEXACT)
acosh = _unary("acosh", analytic.acosh, "The inverse of the hyperbolic cosine.", _INEXACT)
atanh = _unary("atanh", analytic.atanh, "The inverse of the hyperbolic tangent.", _INEXACT)
atan2 = _binary("atan2", analytic.atan2, "The angle of the point ``(y, x)``: atan(x / y).", _FLOAT)

# ---- special functions ---------------------------------------------------------------------------

erf = _unary("erf", special.erf, "The error function (DLMF 7.2.1).", _FLOAT)
erfc = _unary("erfc", special.erfc, "``1 - erf(x)`` (DLMF 7.2.2).", _FLOAT)
erf_inv = _unary("erf_inv", special.erf_inv, "The inverse of the error function.", _FLOAT)
lgamma = _unary("lgamma", special.lgamma, "``log |gamma(x)|`` (DLMF 5.2.1).", _FLOAT)
digamma = _unary("digamma", special.digamma, "The derivative of lgamma (DLMF 5.2.2).", _FLOAT)
bessel_i0e = _unary(
    "bessel_i0e", special.bessel_i0e, "``exp(-|x|)`` times the Bessel function I0.", _FLOAT
)
bessel_i1e = _unary(
    "bessel_i1e", special.bessel_i1e, "``exp(-|x|)`` times the Bessel function I1.", _FLOAT
)
polygamma = _binary(
    "polygamma", special.polygamma, "Derivative number ``x`` of digamma at ``y``.", _FLOAT
)
zeta = _binary("zeta", special.zeta, "The Hurwitz zeta function of ``x`` from ``y`` on.", _FLOAT)
igamma = _binary(
    "igamma", special.igamma, "The lower incomplete gamma function P(x, y) (DLMF 8.2.4).", _FLOAT
)
igammac = _binary(
    "igammac", special.igammac, "The upper incomplete gamma function Q(x, y) (DLMF 8.2.4).", _FLOAT
)
igamma_grad_a = _binary(
    "igamma_grad_a", special.igamma_grad_a, "The derivative of igamma by its first operand.", _FLOAT
)
random_gamma_grad = _binary(
    "random_gamma_grad",
    special.random_gamma_grad,
    "The derivative of a gamma sample ``y`` by its shape ``x``.",
    _FLOAT,
)
betainc = _ternary(
    "betainc",
    special.regularized_incomplete_beta,
    "The regularized incomplete beta function of ``x`` with ``a``, ``b`` (DLMF 8.17.2).",
    _FLOAT,
)
