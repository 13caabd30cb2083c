"""Elementwise rounding, limiting, and taking floating point numbers apart.

Rounding functions leave integers as they are.  Start at :func:`clip` and :func:`round`.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import (
    ArgumentError,
    ConcretizationError,
    DTypeError,
    UnavailableError,
)
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.bitwise import shift_left, shift_right_logical
from functrax.core.prims.convert import bitcast_convert_type, complex_, imag, real
from functrax.core.prims.rounding import (
    RoundingMethod,
    ceil as ceil_p,
    nextafter as nextafter_p,
    round_,
)
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.numpy.elementwise import F, binary, described
from functrax.numpy.extrema import maximum, minimum
from functrax.numpy.logic import choose, isinf, no_out, sign_bit
from functrax.numpy.promote import (
    as_weak_as,
    broadcast_values,
    convert,
    inexact,
    promote_args,
    promote_dtypes,
    result,
    to_array,
)
from functrax.numpy.ufuncs import like_weak, refuse_complex
from functrax.typing import ArrayLike

_TO_EVEN = int(RoundingMethod.TO_NEAREST_EVEN)


def _rounding(to_whole: Callable[[Value], Value]) -> Callable[[F], F]:
    def decorate(template: F) -> F:
        name = template.__name__

        def function(x: ArrayLike, /) -> Array:
            (v,) = promote_dtypes(name, x)
            refuse_complex(name, v)
            if v.aval.dtype not in dtypes.FLOATING:
                return result(v)
            return result(to_whole(v))

        return described(function, template, 1)

    return decorate


def _truncate(x: Value) -> Value:
    return prims.select_n.bind(
        compare.lt.bind(x, like_weak(x, 0)), prims.floor.bind(x), ceil_p.bind(x)
    )


def _nearest_even(x: Value) -> Value:
    return round_.bind(x, rounding_method=_TO_EVEN)


@_rounding(prims.floor.bind)
def floor(x: ArrayLike, /) -> Array:
    """The largest whole number that is not above ``x``.

    >>> import functrax.numpy as jnp
    >>> jnp.floor(jnp.array([1.7, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """


@_rounding(ceil_p.bind)
def ceil(x: ArrayLike, /) -> Array:
    """The smallest whole number that is not below ``x``.

    >>> import functrax.numpy as jnp
    >>> jnp.ceil(jnp.array([1.2, -1.7]))
    Array([ 2., -1.], dtype=float32)
    """


@_rounding(_truncate)
def trunc(x: ArrayLike, /) -> Array:
    """``x`` without its fraction.

    >>> import functrax.numpy as jnp
    >>> jnp.trunc(jnp.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """


@_rounding(_truncate)
def fix(x: ArrayLike, /) -> Array:
    """``x`` without its fraction.

    >>> import functrax.numpy as jnp
    >>> jnp.fix(jnp.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """


def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, of two the even one; integers become floats.

    Args:
      x: an array or a scalar; of complex numbers each part is rounded.

    Returns:
      A floating point or complex array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.rint(jnp.array([0.5, 1.5, 2.6]))
      Array([0., 2., 3.], dtype=float32)
    """
    (v,) = promote_dtypes("rint", x, kind=inexact)
    return result(_by_parts(v, _nearest_even))


def _by_parts(x: Value, function: Any) -> Value:
    if x.aval.dtype in dtypes.COMPLEX:
        made = complex_.bind(function(real.bind(x)), function(imag.bind(x)))
        return as_weak_as(x, made)
    return function(x)


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """The nearest number with so many decimals, of two the even one.

    Args:
      a: an array or a scalar.
      decimals: how many digits after the point; negative ones count before it, for floats.
      out: must be None.

    Returns:
      An array of the same shape and dtype.

    Raises:
      UnavailableError: for negative ``decimals`` of integers, and for ``out``.
      DTypeError: for booleans and lists.
      ArgumentError: if ``decimals`` is not an integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.round(jnp.array([0.5, 1.5, 2.25])), jnp.round(jnp.array([2.346]), 2)
      (Array([0., 2., 2.], dtype=float32), Array([2.35], dtype=float32))
    """
    no_out("round", out)
    digits = _known_digits(decimals)
    x = to_array("round", a)
    dtype = x.aval.dtype
    if dtype in dtypes.INTEGER:
        if digits < 0:
            raise UnavailableError(
                "round: integers have no negative decimals",
                got=f"decimals={digits} of {x.aval.str_short()}",
                fix="x.astype(float), or (x + 5) // 10 * 10",
            )
        return result(x)
    if dtype == dtypes.bool_:
        raise DTypeError("round: booleans are not taken", got=x.aval.str_short(), fix="astype(int)")
    if digits > np.log10(float(dtypes.finfo(dtype).max)):
        return result(x)
    return result(_by_parts(x, lambda part: _round_to(part, digits)))


def _known_digits(decimals: Any) -> int:
    try:
        return operator.index(decimals)
    except ConcretizationError:
        raise
    except TypeError:
        raise ArgumentError(
            "round: decimals is an integer", got=f"decimals={decimals!r}", fix="decimals=2"
        ) from None


def _round_to(x: Value, digits: int) -> Value:
    if digits == 0:
        return _nearest_even(x)
    dtype = x.aval.dtype
    wide = convert(x, dtypes.float32, x.aval.weak_type) if dtype == dtypes.float16 else x
    factor = like_weak(wide, 10.0**digits)
    scaled = prims.div.bind(_nearest_even(prims.mul.bind(wide, factor)), factor)
    return convert(scaled, dtype, x.aval.weak_type)


around = round


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """NaN replaced by ``nan``, infinities by ``posinf`` and ``neginf``.

    Args:
      x: an array or a scalar; of complex numbers each part is looked at.
      copy: accepted for NumPy's sake.
      nan: what NaN becomes.
      posinf: what plus infinity becomes; the largest number of the dtype by default.
      neginf: what minus infinity becomes; the smallest number of the dtype by default.

    Returns:
      An array of the same shape and dtype.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.nan_to_num(jnp.array([1.0, jnp.nan, jnp.inf]), posinf=9.0)
      Array([1., 0., 9.], dtype=float32)
    """
    v = to_array("nan_to_num", x)
    if v.aval.dtype not in dtypes.INEXACT:
        return result(v)
    limits = dtypes.finfo(v.aval.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf

    def replaced(part: Value) -> Value:
        is_nan = compare.ne.bind(part, part)
        part = _replace(part, is_nan, nan)
        part = _replace(part, compare.eq.bind(part, like_weak(part, np.inf)), high)
        return _replace(part, compare.eq.bind(part, like_weak(part, -np.inf)), low)

    return result(_by_parts(v, replaced))


def _replace(x: Value, which: Value, value: Any) -> Value:
    dtype = x.aval.dtype
    (new,) = promote_dtypes("nan_to_num", value)
    return choose(which, convert(new, dtype), x)


@binary(nextafter_p, inexact)
def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The next number after ``x1`` towards ``x2``.

    >>> import functrax.numpy as jnp
    >>> jnp.nextafter(jnp.array([1.0], dtype="float16"), 2)
    Array([1.001], dtype=float16)
    """


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``|x1|`` with the sign of ``x2``, that of -0.0 included.

    Args:
      x1: a real array or a scalar, whose size is taken; integers become floats.
      x2: another, whose sign is taken, of a shape that broadcasts with it.

    Returns:
      A floating point array of the operands' broadcast shape.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.copysign(jnp.array([1.0, -2.0]), -0.0)
      Array([-1., -2.], dtype=float32)
    """
    x, y = promote_args("copysign", x1, x2, kind=inexact)
    refuse_complex("copysign", x, y)
    size = prims.abs_.bind(x)
    return result(prims.select_n.bind(sign_bit(y), size, prims.neg.bind(size)))


def spacing(x: ArrayLike, /) -> Array:
    """The distance from ``x`` to the next number away from 0, with the sign of ``x``.

    Args:
      x: a real array or a scalar; integers become floats.

    Returns:
      A floating point array of the same shape.

    Raises:
      DTypeError: for complex numbers and lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.spacing(jnp.array([1.0, 1024.0]))
      Array([1.1920929e-07, 1.2207031e-04], dtype=float32)
    """
    (v,) = promote_dtypes("spacing", x, kind=inexact)
    refuse_complex("spacing", v)
    infinity = like_weak(v, np.inf)
    if v.aval.dtype == dtypes.float16:
        return result(prims.sub.bind(nextafter_p.bind(v, infinity), v))
    away = prims.select_n.bind(sign_bit(v), infinity, like_weak(v, -np.inf))
    return result(prims.sub.bind(nextafter_p.bind(v, away), v))


def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """``(fraction, whole)``, both with the sign of ``x``.

    Args:
      x: a real array or a scalar; integers become floats.
      out: must be None.

    Returns:
      Two floating point arrays of the shape of ``x``; the fraction of an infinity is 0.

    Raises:
      DTypeError: for complex numbers and lists.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.modf(jnp.array([3.5, -2.5]))
      (Array([ 0.5, -0.5], dtype=float32), Array([ 3., -2.], dtype=float32))
    """
    no_out("modf", out)
    (v,) = promote_dtypes("modf", x, kind=inexact)
    refuse_complex("modf", v)
    whole = _truncate(v)
    fraction = prims.sub.bind(v, whole)
    fraction = choose(isinf(v), like_weak(v, 0), fraction)
    return result(fraction), result(whole)


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """``(mantissa, exponent)`` with ``x == mantissa * 2**exponent`` and ``0.5 <= |mantissa| < 1``.

    The exponent is int32; 0, infinities and NaN are their own mantissas, with exponent 0.

    Args:
      x: a real array or a scalar; integers become floats.

    Returns:
      The mantissas, in the dtype of ``x``, and the exponents.

    Raises:
      DTypeError: for complex numbers and lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.frexp(jnp.array([3.0, 0.0]))
      (Array([0.75, 0.  ], dtype=float32), Array([2, 0], dtype=int32))
    """
    (v,) = promote_dtypes("frexp", x, kind=inexact)
    refuse_complex("frexp", v)
    dtype = v.aval.dtype
    v = convert(v, dtypes.compute_dtype(dtype), v.aval.weak_type)
    exponent = _exponent(v)
    mantissa = scale_by_power(v, prims.neg.bind(exponent))
    return result(convert(mantissa, dtype, mantissa.aval.weak_type)), result(exponent)


def _exponent(x: Value) -> Value:
    """The exponent of frexp, as int32, read from the bits."""
    dtype = x.aval.dtype
    info = dtypes.finfo(dtype)
    subnormal = compare.lt.bind(prims.abs_.bind(x), like_weak(x, float(info.tiny)))
    lifted = prims.mul.bind(x, like_weak(x, 2.0**info.nmant))
    normal = prims.select_n.bind(subnormal, x, lifted)
    bits = bitcast_convert_type.bind(normal, dtype=np.dtype(f"uint{dtypes.itemsize_bits(dtype)}"))
    shifted = shift_right_logical.bind(bits, like_weak(bits, info.nmant))
    field = convert(compare.and_.bind(shifted, like_weak(bits, (1 << info.nexp) - 1)), dtypes.int32)
    exponent = prims.sub.bind(field, like_weak(field, 1 - int(info.minexp) - 1))
    moved = prims.sub.bind(exponent, like_weak(exponent, info.nmant))
    exponent = prims.select_n.bind(subnormal, exponent, moved)
    special = compare.or_.bind(
        compare.eq.bind(x, like_weak(x, 0)),
        compare.eq.bind(field, like_weak(field, 2**info.nexp - 1)),
    )
    return prims.select_n.bind(special, exponent, like_weak(exponent, 0))


def scale_by_power(x: Value, exponent: Value) -> Value:
    """``x * 2**exponent`` for int32 exponents, in steps that neither overflow nor lose bits."""
    dtype = x.aval.dtype
    largest = int(dtypes.finfo(dtype).maxexp) - 1
    smallest = int(dtypes.finfo(dtype).minexp)
    left = exponent
    for _ in range(4):
        step = prims.clamp.bind(like_weak(left, smallest), left, like_weak(left, largest))
        x = prims.mul.bind(x, _power_of_two(step, dtype))
        left = prims.sub.bind(left, step)
    return x


def _power_of_two(exponent: Value, dtype: DType) -> Value:
    """``2**exponent`` exactly, for exponents of normal numbers, made from bits."""
    info = dtypes.finfo(dtype)
    integer = np.dtype(f"int{dtypes.itemsize_bits(dtype)}")
    field = prims.add.bind(exponent, like_weak(exponent, 1 - int(info.minexp)))
    bits = convert(field, integer)
    shifted = shift_left.bind(bits, like_weak(bits, info.nmant))
    return bitcast_convert_type.bind(shifted, dtype=dtype)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 * 2**x2`` for integers ``x2``.

    Args:
      x1: a real array or a scalar; integers become floats.
      x2: integers, of a shape that broadcasts with it.

    Returns:
      A floating point array of the operands' broadcast shape.

    Raises:
      DTypeError: for complex ``x1``, for ``x2`` that are not integers, and for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.ldexp(jnp.array([0.5, 3.0]), 2)
      Array([ 2., 12.], dtype=float32)
    """
    x = to_array("ldexp", x1)
    e = to_array("ldexp", x2, 1)
    if e.aval.dtype in dtypes.INEXACT:
        raise DTypeError(
            "ldexp: the exponent is not an integer", got=e.aval.str_short(), fix="x2.astype(int)"
        )
    (x,) = promote_dtypes("ldexp", x, kind=inexact)
    refuse_complex("ldexp", x)
    if dtypes.itemsize_bits(e.aval.dtype) > 16:  # beyond these it is all the same, 0 or infinity
        e = maximum(minimum(e, 1 << 14), 0 if e.aval.dtype in dtypes.UNSIGNED else -(1 << 14))
    dtype = x.aval.dtype
    x = convert(x, dtypes.compute_dtype(dtype))
    x, e = broadcast_values("ldexp", x, convert(e, dtypes.int32))
    return result(convert(scale_by_power(x, e), dtype))
