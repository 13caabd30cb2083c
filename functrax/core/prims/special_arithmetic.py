"""Reference values of arithmetic that NumPy lacks, or defines otherwise than XLA.

Division and remainder with C's signs and defined results for zero divisors, powers with a constant
exponent, rounding half away from zero, sign, and the functions around exp and square root that
must neither overflow nor cancel.  Half precision is computed in a wider dtype and rounded once.

Start reading at :func:`div` for the integer rules and :func:`log1p` for the complex ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.prims.special_rounding import (
    BFLOAT16,
    Double,
    in_double,
    is_complex,
    is_float,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


def _widened(x: Array) -> Array:
    """Half precision as float32, everything else as it is."""
    return x.astype(np.float32) if x.dtype in (np.dtype(np.float16), BFLOAT16) else x


def _same_dtype(name: str, x: Array, y: Array) -> None:
    if x.dtype == y.dtype:
        return
    raise DTypeError(
        f"{name}: operands must share one dtype",
        got=f"{x.dtype}, {y.dtype}",
        fix="convert the operands with astype first",
    )


def _is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu"


def div(x: Array, y: Array) -> Array:
    """Quotient: truncated toward zero for integers, IEEE for floats.

    Operands of one dtype and of shapes that broadcast.  Integers divided by zero give -1 (all bits
    set), and the least integer divided by -1 gives itself, as XLA defines both.

    >>> div(np.int32([-7, 5]), np.int32([2, 0])).tolist()
    [-3, -1]
    """
    x, y = np.asarray(x), np.asarray(y)
    _same_dtype("div", x, y)
    with np.errstate(all="ignore"):
        if not _is_integer(x.dtype):
            return np.asarray(np.divide(_widened(x), _widened(y)).astype(x.dtype, copy=False))
        safe = np.where(y == 0, np.ones_like(y), y)
        floor = np.floor_divide(x, safe)
        inexact = (floor * safe != x) & ((x < 0) != (y < 0))
        truncated = floor + inexact.astype(x.dtype)
        all_bits = np.invert(np.zeros((), x.dtype))
        return np.asarray(np.where(y == 0, all_bits, truncated))


def rem(x: Array, y: Array) -> Array:
    """Remainder with the sign of x: ``x - y * trunc(x / y)``, as C's ``%`` and ``fmod``.

    Operands of one real dtype and of shapes that broadcast.  An integer remainder by zero is x, as
    XLA defines it; a float one is NaN.

    >>> rem(np.int32([-7, 5]), np.int32([2, 0])).tolist()
    [-1, 5]
    """
    x, y = np.asarray(x), np.asarray(y)
    _same_dtype("rem", x, y)
    if not (_is_integer(x.dtype) or is_float(x.dtype)):
        raise DTypeError(
            "rem: needs integers or real floats",
            got=str(x.dtype),
            fix="the real part or the absolute value",
        )
    with np.errstate(all="ignore"):
        if not _is_integer(x.dtype):
            return np.asarray(np.fmod(_widened(x), _widened(y)).astype(x.dtype, copy=False))
        safe = np.where(y == 0, np.ones_like(y), y)
        return np.asarray(np.where(y == 0, x, x - div(x, safe) * safe))


def integer_pow(x: Array, n: int) -> Array:
    """``x**n`` by repeated squaring; for negative n the reciprocal of ``x**-n``.

    Any shape and numeric dtype; integers wrap around, half precision is computed in float32 and
    rounded once.  ``x**0`` is 1 also where x is 0 or NaN.  Raises
    :class:`~functrax.core.errors.typed.ArgumentError` for a negative n and integer x.

    >>> integer_pow(np.float64([2.0, 0.0]), -3).tolist()
    [0.125, inf]
    """
    x = np.asarray(x)
    if n < 0 and _is_integer(x.dtype):
        raise ArgumentError(
            "integer_pow: integers have no negative powers",
            got=f"exponent {n}, operand dtype {x.dtype}",
            fix="convert the operand to a float dtype first",
        )
    with np.errstate(all="ignore"):
        square = _widened(x)
        power = None
        left = abs(n)
        while left:
            if left & 1:
                power = square if power is None else power * square
            left >>= 1
            square = square * square if left else square
        if power is None:
            return np.ones_like(x)
        result = np.divide(power.dtype.type(1), power) if n < 0 else power
        return np.asarray(result).astype(x.dtype, copy=False)


def round_half_even(x: Array) -> Array:
    """Rounds to integral values, ties to the even one; keeps the sign of zero.

    Any shape; f16, bf16, f32, f64.

    >>> round_half_even(np.float64([0.5, 1.5, -0.2])).tolist()
    [0.0, 2.0, -0.0]
    """
    x = np.asarray(x)
    return np.asarray(np.rint(_widened(x))).astype(x.dtype)


def round_half_away(x: Array) -> Array:
    """Rounds to integral values, ties away from zero; keeps the sign of zero.

    Any shape; f16, bf16, f32, f64.

    >>> round_half_away(np.float64([0.5, 2.5, -2.5, 0.49999999999999994])).tolist()
    [1.0, 3.0, -3.0, 0.0]
    """
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        size = np.abs(_widened(x))
        whole = np.trunc(size)
        up = (size - whole) >= 0.5
        return np.asarray(np.copysign(whole + up, _widened(x))).astype(x.dtype)


def _complex_sign(x: Array) -> Array:
    with np.errstate(all="ignore"):
        largest = np.maximum(np.abs(x.real), np.abs(x.imag))
        _, exponent = np.frexp(largest)
        exponent = np.where(np.isfinite(largest), exponent, 0)
        half = -(exponent // 2)  # in two steps, each of which is a normal number
        re, im = (np.ldexp(np.ldexp(p, half), -exponent - half) for p in (x.real, x.imag))
        size = np.hypot(re, im)
        size = np.where(np.isinf(size), np.nan, size).astype(re.dtype)
        unit = np.empty_like(x)
        unit.real, unit.imag = re / size, im / size
        return np.asarray(np.where(x == 0, x, unit))


def sign(x: Array) -> Array:
    """-1, 0 or 1; ``x / |x|`` for complex numbers.  Zeros keep their sign, NaN stays NaN.

    Any shape and numeric dtype.

    >>> sign(np.float64([-3.0, -0.0])).tolist()
    [-1.0, -0.0]
    """
    x = np.asarray(x)
    if is_complex(x.dtype):
        return _complex_sign(x)
    if _is_integer(x.dtype):
        return np.asarray((x > 0).astype(x.dtype) - (x < 0).astype(x.dtype))
    wide = _widened(x)
    unit = np.where((wide == 0) | np.isnan(wide), wide, np.copysign(np.ones_like(wide), wide))
    return np.asarray(unit).astype(x.dtype)


@in_double
def _logistic(x: Double) -> Double:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1.0) / (1 + small))


def logistic(x: Array) -> Array:
    """``1 / (1 + exp(-x))`` without overflow, relatively accurate in both tails.

    Any shape; f16, bf16, f32, f64, complex.  Error below 3 ulp in f64.

    >>> logistic(np.float64([0.0, -1000.0])).tolist()
    [0.5, 0.0]
    """
    x = np.asarray(x)
    if not is_complex(x.dtype):
        return _logistic(x)
    with np.errstate(all="ignore"):
        negative = x.real < 0
        small = np.exp(np.where(negative, x, -x))
        return np.asarray(np.where(negative, small, np.ones_like(x)) / (1 + small))


@in_double
def _rsqrt(x: Double) -> Double:
    return 1 / np.sqrt(x)


def rsqrt(x: Array) -> Array:
    """``1 / sqrt(x)``: infinite at zero with zero's sign, NaN below.

    Any shape; f16, bf16, f32, f64, complex.  Error below 1 ulp in f64.

    >>> rsqrt(np.float64([4.0, 0.0])).tolist()
    [0.5, inf]
    """
    x = np.asarray(x)
    if not is_complex(x.dtype):
        return _rsqrt(x)
    with np.errstate(all="ignore"):
        return np.asarray(np.ones((), x.dtype) / np.sqrt(x))


@in_double
def cbrt(x: Double) -> Double:
    """Real cube root, an odd function.

    Any shape; f16, bf16, f32, f64.  Error below 1 ulp in f64 (NumPy's).

    >>> float(cbrt(np.float64(-27.0)))
    -3.0
    """
    return np.asarray(np.cbrt(x))


@in_double
def _log1p(x: Double) -> Double:
    return np.log1p(x)


@in_double
def _expm1(x: Double) -> Double:
    return np.expm1(x)


def _square_parts(x: Double) -> tuple[Double, Double]:
    """x² as a sum of two doubles; Veltkamp's split and Dekker's product."""
    scaled = x * 134217729.0
    head = scaled - (scaled - x)
    rest = x - head
    square = x * x
    return square, ((head * head - square) + 2 * head * rest) + rest * rest


def _log_size_near_one(re: Double, im: Double) -> Double:
    """``log |1 + z|`` for moderate z, with |1 + z|² - 1 = 2 re + re² + im² summed exactly."""
    re_square, re_rest = _square_parts(re)
    im_square, im_rest = _square_parts(im)
    terms = np.stack([2 * re, re_square, im_square, re_rest, im_rest])
    total, lost = terms[0], np.zeros_like(re)
    for term in terms[1:]:
        summed = total + term
        part = summed - total
        lost = lost + ((total - (summed - part)) + (term - part))
        total = summed
    return np.asarray(0.5 * np.log1p(total + lost))


def log1p(x: Array) -> Array:
    """``log(1 + x)``, accurate for small x: real and imaginary part each, for complex x.

    Any shape; f16, bf16, f32, f64, complex.  Error below 2 ulp in f64 (NumPy's); for complex128
    each part has a relative error below 1e-14.  Source: Dekker, Numer. Math. 18 (1971), for the
    sum that cancels.

    >>> float(log1p(np.complex128(1e-10 + 1e-10j)).real)
    1e-10
    """
    x = np.asarray(x)
    if not is_complex(x.dtype):
        return _log1p(x)
    with np.errstate(all="ignore"):
        re, im = x.real.astype(np.float64), x.imag.astype(np.float64)
        near = np.maximum(np.abs(re), np.abs(im)) < 3
        parts = _log_size_near_one(np.where(near, re, 0), np.where(near, im, 0))
        out = np.empty(x.shape, np.complex128)
        out.real = np.where(near, parts, np.log(np.hypot(1 + re, im)))
        out.imag = np.arctan2(im, 1 + re)
        return np.asarray(out.astype(x.dtype))


def expm1(x: Array) -> Array:
    """``exp(x) - 1``, accurate for small x.

    Any shape; f16, bf16, f32, f64, complex.  Error below 2 ulp in f64 (NumPy's); for complex128
    the real part ``expm1(re) cos(im) - 2 sin²(im/2)`` is accurate relative to its larger term.

    >>> float(expm1(np.float64(1e-20)))
    1e-20
    """
    x = np.asarray(x)
    if not is_complex(x.dtype):
        return _expm1(x)
    with np.errstate(all="ignore"):
        re, im = x.real.astype(np.float64), x.imag.astype(np.float64)
        out = np.empty(x.shape, np.complex128)
        real = np.expm1(re) * np.cos(im) - 2 * np.sin(im / 2) ** 2
        out.real = np.where(im == 0, np.expm1(re), real)
        out.imag = np.where(im == 0, im, np.exp(re) * np.sin(im))
        return np.asarray(out.astype(x.dtype))
