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
from functrax.lax.operands import as_array, check_same_dtype, dtype_of, operands, pair, value_of
from functrax.lax.precision import check_accuracy
from functrax.typing import ArrayLike, DTypeLike

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


def _named(
    function: Any, name: str, summary: str, takes: str, args: str, example: str, more: str = ""
) -> None:
    given, shown = example.split(" -> ")
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

    >>> from functrax import lax
    >>> print(lax.{name}({given}))
    {shown}
    """


def _unary(name: str, primitive: Primitive, summary: str, takes: str, example: str) -> Unary:
    bind = primitive.bind

    def function(x: ArrayLike) -> Array:
        return as_array(bind(value_of(name, x)))

    _named(function, name, summary, takes, "x: an array or a number", example)
    return function


def _analytic(
    name: str, primitive: Primitive, summary: str, example: str, takes: str = _INEXACT
) -> Callable[..., Array]:
    """A unary function that takes jax.lax's ``accuracy``; it has one accuracy here."""
    bind = primitive.bind

    def function(x: ArrayLike, *, accuracy: object = None) -> Array:
        value = value_of(name, x)
        if accuracy is not None:
            check_accuracy(name, accuracy, value.aval.dtype)
        return as_array(bind(value))

    more = "\n      accuracy: a ``lax.AccuracyMode`` or a ``lax.Tolerance`` of at least 2 ulps."
    _named(function, name, summary, takes, "x: an array or a number", example, more)
    return function


def _binary(name: str, primitive: Primitive, summary: str, takes: str, example: str) -> Binary:
    bind = primitive.bind

    def function(x: ArrayLike, y: ArrayLike) -> Array:
        a, b = pair(name, x, y)
        return as_array(bind(a, b))

    _named(function, name, summary, takes, "x, y: arrays or numbers", example)
    return function


def _ternary(name: str, primitive: Primitive, summary: str, takes: str, example: str) -> Ternary:
    bind = primitive.bind

    def function(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
        return as_array(bind(*operands(name, a, b, x)))

    _named(function, name, summary, takes, "a, b, x: arrays or numbers", example)
    return function


# ---- arithmetic ----------------------------------------------------------------------------------

neg = _unary("neg", arithmetic.neg, "``-x``.", _NUMBER, "2.0 -> -2.0")
sign = _unary(
    "sign", arithmetic.sign, "-1, 0 or 1; ``x / |x|`` for complex numbers.", _NUMBER, "-3.0 -> -1.0"
)
abs = _unary(
    "abs", arithmetic.abs_, "The absolute value; real, for complex numbers.", _NUMBER, "-3.0 -> 3.0"
)
floor = _unary(
    "floor", arithmetic.floor, "The largest integral value not above ``x``.", _FLOAT, "-1.5 -> -2.0"
)
ceil = _unary(
    "ceil", rounding.ceil, "The smallest integral value not below ``x``.", _FLOAT, "-1.5 -> -1.0"
)
is_finite = _unary(
    "is_finite", rounding.is_finite, "Neither infinite nor NaN.", _FLOAT, 'float("inf") -> False'
)
add = _binary("add", arithmetic.add, "``x + y``.", _NUMBER, "2, 3 -> 5")
sub = _binary("sub", arithmetic.sub, "``x - y``.", _NUMBER, "2, 3 -> -1")


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


mulhi = _binary(
    "mulhi", bitwise.mulhi, "The upper half of the bits of ``x * y``.", _INTEGER, "2**30, 8 -> 2"
)
div = _binary(
    "div", arithmetic.div, "``x / y``; of integers, rounded toward zero.", _NUMBER, "-7, 2 -> -3"
)
rem = _binary(
    "rem", arithmetic.rem, "The remainder, with the sign of ``x``.", _ORDERED, "-7, 2 -> -1"
)
max = _binary(
    "max", arithmetic.max_, "The larger one; NaN wins.", _ORDERED, '1.0, float("nan") -> nan'
)
min = _binary(
    "min", arithmetic.min_, "The smaller one; NaN wins.", _ORDERED, '1.0, float("nan") -> nan'
)
nextafter = _binary(
    "nextafter",
    rounding.nextafter,
    "The next float after ``x`` toward ``y``.",
    _FLOAT,
    "1.0, 2.0 -> 1.0000001",
)

# ---- comparison, logic, bits ---------------------------------------------------------------------

eq = _binary("eq", compare.eq, "``x == y``.", _ANY, 'float("nan"), float("nan") -> False')
ne = _binary("ne", compare.ne, "``x != y``.", _ANY, "2.0, 2.0 -> False")
lt = _binary("lt", compare.lt, "``x < y``.", _ORDERED, "2.0, 2.0 -> False")
le = _binary("le", compare.le, "``x <= y``.", _ORDERED, "2.0, 2.0 -> True")
gt = _binary("gt", compare.gt, "``x > y``.", _ORDERED, "2.0, 2.0 -> False")
ge = _binary("ge", compare.ge, "``x >= y``.", _ORDERED, "2.0, 2.0 -> True")
bitwise_not = _unary("bitwise_not", compare.not_, "Not ``x``, bit by bit.", _BITS, "5 -> -6")
bitwise_and = _binary(
    "bitwise_and", compare.and_, "``x`` and ``y``, bit by bit.", _BITS, "6, 3 -> 2"
)
bitwise_or = _binary("bitwise_or", compare.or_, "``x`` or ``y``, bit by bit.", _BITS, "6, 3 -> 7")
bitwise_xor = _binary(
    "bitwise_xor", compare.xor, "One of ``x`` and ``y``, by bits.", _BITS, "6, 3 -> 5"
)
shift_left = _binary("shift_left", bitwise.shift_left, "``x << y``.", _INTEGER, "1, 4 -> 16")
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    bitwise.shift_right_arithmetic,
    "``x >> y``, filled with the sign bit.",
    _INTEGER,
    "-8, 1 -> -4",
)
shift_right_logical = _binary(
    "shift_right_logical",
    bitwise.shift_right_logical,
    "``x >> y``, filled with zeros.",
    _INTEGER,
    "-8, 1 -> 2147483644",
)
population_count = _unary(
    "population_count",
    bitwise.population_count,
    "The number of bits that are 1.",
    _INTEGER,
    "7 -> 3",
)
clz = _unary("clz", bitwise.clz, "The number of leading bits that are 0.", _INTEGER, "1 -> 31")

# ---- exponentials, logarithms, powers ------------------------------------------------------------

exp = _analytic("exp", analytic.exp, "``e ** x``.", 'float("-inf") -> 0.0')
exp2 = _analytic("exp2", analytic.exp2, "``2 ** x``.", "0.5 -> 1.4142135")
expm1 = _analytic("expm1", analytic.expm1, "``e ** x - 1``, exact near 0.", "1e-6 -> 1.0000005e-06")
log = _analytic("log", analytic.log, "The natural logarithm.", "0.0 -> -inf")
log1p = _analytic("log1p", analytic.log1p, "``log(1 + x)``, exact near 0.", "1e-6 -> 9.999995e-07")
logistic = _analytic("logistic", analytic.logistic, "``1 / (1 + exp(-x))``.", "-1.0 -> 0.26894143")
sqrt = _analytic("sqrt", powers.sqrt, "The square root.", "-1.0 -> nan")
rsqrt = _analytic("rsqrt", powers.rsqrt, "``1 / sqrt(x)``.", "4.0 -> 0.5")
cbrt = _analytic("cbrt", powers.cbrt, "The cube root.", "-8.0 -> -2.0", _FLOAT)
square = _unary("square", powers.square, "``x * x``.", _NUMBER, "-3.0 -> 9.0")

# ---- trigonometry --------------------------------------------------------------------------------

sin = _analytic("sin", analytic.sin, "The sine of an angle in radians.", "30.0 -> -0.9880316")
cos = _analytic("cos", analytic.cos, "The cosine of an angle in radians.", "180.0 -> -0.5984601")
tan = _analytic("tan", analytic.tan, "The tangent of an angle in radians.", "45.0 -> 1.6197752")
tanh = _analytic("tanh", analytic.tanh, "The hyperbolic tangent.", "20.0 -> 1.0")
asin = _unary("asin", analytic.asin, "The angle whose sine is ``x``.", _INEXACT, "1.0 -> 1.5707964")
acos = _unary("acos", analytic.acos, "The angle whose cosine is ``x``.", _INEXACT, "2.0 -> nan")
atan = _unary(
    "atan", analytic.atan, "The angle whose tangent is ``x``.", _INEXACT, "1.0 -> 0.7853982"
)
sinh = _unary("sinh", analytic.sinh, "The hyperbolic sine.", _INEXACT, "1.0 -> 1.1752012")
cosh = _unary("cosh", analytic.cosh, "The hyperbolic cosine.", _INEXACT, "0.0 -> 1.0")
asinh = _unary(
    "asinh", analytic.asinh, "The inverse of the hyperbolic sine.", _INEXACT, "1.0 -> 0.8813736"
)
acosh = _unary(
    "acosh", analytic.acosh, "The inverse of the hyperbolic cosine.", _INEXACT, "0.5 -> nan"
)
atanh = _unary(
    "atanh", analytic.atanh, "The inverse of the hyperbolic tangent.", _INEXACT, "1.0 -> inf"
)
atan2 = _binary(
    "atan2",
    analytic.atan2,
    "The angle of the point ``(y, x)``: atan(x / y).",
    _FLOAT,
    "1.0, -1.0 -> 2.3561945",
)

# ---- special functions ---------------------------------------------------------------------------

erf = _unary("erf", special.erf, "The error function (DLMF 7.2.1).", _FLOAT, "0.5 -> 0.5204999")
erfc = _unary("erfc", special.erfc, "``1 - erf(x)`` (DLMF 7.2.2).", _FLOAT, "0.5 -> 0.47950011")
erf_inv = _unary(
    "erf_inv", special.erf_inv, "The inverse of the error function.", _FLOAT, "0.5 -> 0.47693628"
)
lgamma = _unary(
    "lgamma", special.lgamma, "``log |gamma(x)|`` (DLMF 5.2.1).", _FLOAT, "-0.5 -> 1.2655121"
)
digamma = _unary(
    "digamma",
    special.digamma,
    "The derivative of lgamma (DLMF 5.2.2).",
    _FLOAT,
    "1.0 -> -0.5772157",
)
bessel_i0e = _unary(
    "bessel_i0e",
    special.bessel_i0e,
    "``exp(-|x|)`` times the Bessel function I0.",
    _FLOAT,
    "1000.0 -> 0.012617241",
)
bessel_i1e = _unary(
    "bessel_i1e",
    special.bessel_i1e,
    "``exp(-|x|)`` times the Bessel function I1.",
    _FLOAT,
    "1.0 -> 0.20791042",
)
polygamma = _binary(
    "polygamma",
    special.polygamma,
    "Derivative number ``x`` of digamma at ``y``.",
    _FLOAT,
    "1.0, 1.0 -> 1.644934",
)
zeta = _binary(
    "zeta",
    special.zeta,
    "The Hurwitz zeta function of ``x`` from ``y`` on.",
    _FLOAT,
    "2.0, 1.0 -> 1.644934",
)
igamma = _binary(
    "igamma",
    special.igamma,
    "The lower incomplete gamma function P(x, y) (DLMF 8.2.4).",
    _FLOAT,
    "1.0, 1.0 -> 0.63212055",
)
igammac = _binary(
    "igammac",
    special.igammac,
    "The upper incomplete gamma function Q(x, y) (DLMF 8.2.4).",
    _FLOAT,
    "1.0, 1.0 -> 0.36787945",
)
igamma_grad_a = _binary(
    "igamma_grad_a",
    special.igamma_grad_a,
    "The derivative of igamma by its first operand.",
    _FLOAT,
    "1.0, 1.0 -> -0.4317297",
)
random_gamma_grad = _binary(
    "random_gamma_grad",
    special.random_gamma_grad,
    "The derivative of a gamma sample ``y`` by its shape ``x``.",
    _FLOAT,
    "1.0, 1.0 -> 1.173563",
)
betainc = _ternary(
    "betainc",
    special.regularized_incomplete_beta,
    "The regularized incomplete beta function of ``x`` with ``a``, ``b`` (DLMF 8.17.2).",
    _FLOAT,
    "1.0, 1.0, 0.25 -> 0.25",
)
