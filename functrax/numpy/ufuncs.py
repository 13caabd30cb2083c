"""Elementwise arithmetic: sums, products, quotients, remainders, absolute values.

Operands are promoted and broadcast (``promote.py``) and given to primitives; functions that are
one primitive are made by ``elementwise.py``.  Extrema are in ``extrema.py``, powers in
``powers.py``, analytic functions in ``analytic.py``, comparisons and logic in ``logic.py``,
rounding in ``rounding.py``.

Start at :func:`add`.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.powers import sqrt
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.elementwise import binary, unary
from functrax.numpy.promote import (
    as_weak_as,
    inexact,
    numeric,
    promote_args,
    promote_dtypes,
    promote_pair,
    result,
    same,
)
from functrax.typing import ArrayLike


def add(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 + x2``; of booleans, whether either holds.

    Args:
      x1: an array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    >>> import functrax.numpy as jnp
    >>> jnp.add(jnp.arange(3.0), 1.5)
    Array([1.5, 2.5, 3.5], dtype=float32)
    """
    x, y = promote_pair("add", x1, x2)
    if x.aval.dtype is dtypes.bool_:
        return result(compare.or_.bind(x, y))
    return result(prims.add.bind(x, y))


@binary(prims.sub)
def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 - x2``; not of booleans.

    >>> import functrax.numpy as jnp
    >>> jnp.subtract(jnp.array([5, 7]), 2)
    Array([3, 5], dtype=int32)
    """


@binary(prims.mul)
def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 * x2``; of booleans, whether both hold.

    >>> import functrax.numpy as jnp
    >>> jnp.multiply(jnp.arange(3), 2.5)
    Array([0. , 2.5, 5. ], dtype=float32, weak_type=True)
    """


@binary(prims.div, inexact)
def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 / x2``, always in floating point.

    >>> import functrax.numpy as jnp
    >>> jnp.divide(jnp.array([1, 2]), 4)
    Array([0.25, 0.5 ], dtype=float32)
    """


true_divide = divide


@unary(prims.neg, same)
def negative(x: ArrayLike, /) -> Array:
    """``-x``; not of booleans.

    >>> import functrax.numpy as jnp
    >>> jnp.negative(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """


@unary(prims.sign, same)
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1, the sign of ``x``; ``x / |x|`` of complex numbers.

    >>> import functrax.numpy as jnp
    >>> jnp.sign(jnp.array([-3.0, 0.0, 5.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """


def positive(x: ArrayLike, /) -> Array:
    """``+x``: the array itself.

    Args:
      x: an array or a scalar of any dtype.

    Returns:
      The array itself; of a scalar, an array.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.positive(2.5)
      Array(2.5, dtype=float32, weak_type=True)
    """
    return result(promote_dtypes("positive", x)[0])


def absolute(x: ArrayLike, /) -> Array:
    """``|x|``; of complex numbers the modulus, which is real.

    Args:
      x: an array or a scalar.

    Returns:
      An array of the same shape and dtype; of complex numbers, of their parts' dtype.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.abs(jnp.array([-2, 3])), jnp.abs(3 + 4j)
      (Array([2, 3], dtype=int32), Array(5., dtype=float32, weak_type=True))
    """
    (v,) = promote_dtypes("abs", x)
    if v.aval.dtype in _NEVER_NEGATIVE:
        return result(v)
    return result(as_weak_as(v, prims.abs_.bind(v)))


_NEVER_NEGATIVE = dtypes.BOOL | dtypes.UNSIGNED
abs = absolute


def fabs(x: ArrayLike, /) -> Array:
    """``|x|`` of real numbers, in floating point.

    Args:
      x: a real array or a scalar; integers and booleans become floats.

    Returns:
      A floating point array of the same shape.

    Raises:
      DTypeError: for complex numbers and lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fabs(jnp.array([-2, 3]))
      Array([2., 3.], dtype=float32)
    """
    (v,) = promote_dtypes("fabs", x, kind=inexact)
    return result(prims.abs_.bind(refuse_complex("fabs", v)))


def refuse_complex(name: str, *values: Value) -> Value:
    """The first of the values, if none is complex.

    Raises:
      DTypeError: if one is.
    """
    for x in values:
        if x.aval.dtype in dtypes.COMPLEX:
            raise DTypeError(
                f"{name} is not defined for complex values, which have no order",
                got=x.aval.str_short(),
                fix=f"{name}(x.real), or {name}(abs(x))",
            )
    return values[0]


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 // x2``, rounded towards minus infinity.

    Args:
      x1: a real array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype; floats stay floats.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.floor_divide(jnp.array([7, -7]), 2)
      Array([ 3, -4], dtype=int32)
    """
    x, y = promote_pair("floor_divide", x1, x2, numeric)
    refuse_complex("floor_divide", x, y)
    dtype = x.aval.dtype
    if dtype in dtypes.UNSIGNED:
        return result(prims.div.bind(x, y))
    if dtype in dtypes.SIGNED:
        quotient = prims.div.bind(x, y)
        below = _other_sign(prims.rem.bind(x, y), y)
        lower = prims.sub.bind(quotient, like_weak(quotient, 1))
        return result(prims.select_n.bind(below, quotient, lower))
    return result(_float_divmod(x, y)[0])


def like_weak(x: Value, value: complex) -> Literal:
    """A scalar constant of the dtype and the weak type of ``x``."""
    return Literal(value, x.aval.update(shape=()))


def _float_divmod(x: Value, y: Value) -> tuple[Value, Value]:
    """Quotient and remainder with the sign of ``y``; the quotient is a whole number."""
    remainder_ = prims.rem.bind(x, y)
    zero, one = like_weak(remainder_, 0), like_weak(remainder_, 1)
    by_zero = compare.eq.bind(y, zero)
    whole = prims.select_n.bind(by_zero, prims.sub.bind(x, remainder_), x)
    quotient = prims.div.bind(whole, y)
    other_sign = compare.ne.bind(prims.sign.bind(y), prims.sign.bind(remainder_))
    moved = compare.and_.bind(compare.ne.bind(remainder_, zero), other_sign)
    quotient = prims.select_n.bind(moved, quotient, prims.sub.bind(quotient, one))
    remainder_ = prims.select_n.bind(moved, remainder_, prims.add.bind(remainder_, y))
    # The quotient is whole but for rounding: take the nearest whole number.
    low = prims.floor.bind(quotient)
    above = compare.gt.bind(prims.sub.bind(quotient, low), like_weak(quotient, 0.5))
    return prims.select_n.bind(above, low, prims.add.bind(low, one)), remainder_


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 % x2``, with the sign of ``x2`` as in Python; 0 for integers modulo 0.

    Args:
      x1: a real array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.remainder(jnp.array([7, -7]), 3)
      Array([1, 2], dtype=int32)
    """
    x, y = promote_pair("remainder", x1, x2, numeric)
    refuse_complex("remainder", x, y)
    y = _no_zero_integers(y)
    rest = prims.rem.bind(x, y)
    if x.aval.dtype in dtypes.UNSIGNED:
        return result(rest)
    return result(prims.select_n.bind(_other_sign(rest, y), rest, prims.add.bind(rest, y)))


mod = remainder


def _other_sign(rest: Value, y: Value) -> Value:
    """Whether a remainder is not 0 and has not the sign of the divisor."""
    zero = like(rest, 0)
    below = compare.lt.bind(rest, zero)
    if type(y) is Literal and y.val > 0:
        return below
    differ = compare.ne.bind(below, compare.lt.bind(y, zero))
    return compare.and_.bind(differ, compare.ne.bind(rest, zero))


def _no_zero_integers(y: Value) -> Value:
    if y.aval.dtype not in dtypes.INTEGER:
        return y
    if type(y) is Literal:
        return like_weak(y, 1) if y.val == 0 else y
    return prims.select_n.bind(compare.eq.bind(y, like(y, 0)), y, like_weak(y, 1))


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder with the sign of ``x1``, as in C; 0 for integers modulo 0.

    Args:
      x1: a real array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fmod(jnp.array([7, -7]), 3)
      Array([ 1, -1], dtype=int32)
    """
    x, y = promote_pair("fmod", x1, x2, numeric)
    refuse_complex("fmod", x, y)
    return result(prims.rem.bind(x, _no_zero_integers(y)))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """``(x1 // x2, x1 % x2)``.

    Args:
      x1: a real array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      The quotients of :func:`floor_divide` and the remainders of :func:`remainder`.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.divmod(jnp.array([7.5]), 2)
      (Array([3.], dtype=float32), Array([1.5], dtype=float32))
    """
    x, y = promote_pair("divmod", x1, x2, numeric)
    if x.aval.dtype in dtypes.INTEGER:
        return floor_divide(x, y), remainder(x, y)
    refuse_complex("divmod", x, y)
    quotient, rest = _float_divmod(x, y)
    return result(quotient), result(rest)


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """0 where ``x1 < 0``, 1 where ``x1 > 0``, ``x2`` where it is 0, NaN where it is NaN.

    Args:
      x1: a real array or a scalar.
      x2: the value at 0; it broadcasts with ``x1``.

    Returns:
      A floating point array of the operands' broadcast shape.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.heaviside(jnp.array([-2.0, 0.0, 3.0]), 0.5)
      Array([0. , 0.5, 1. ], dtype=float32)
    """
    x, y = promote_args("heaviside", x1, x2, kind=inexact)
    refuse_complex("heaviside", x, y)
    zero, one = like_weak(x, 0), like_weak(x, 1)
    at_zero = prims.select_n.bind(compare.ne.bind(x, x), y, x)
    above = prims.select_n.bind(compare.gt.bind(x, zero), at_zero, one)
    return result(prims.select_n.bind(compare.lt.bind(x, zero), above, zero))


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``sqrt(x1**2 + x2**2)`` without overflow; the derivative at (0, 0) is 0.

    Args:
      x1: a real array or a scalar; integers become floats.
      x2: another, of a shape that broadcasts with it.

    Returns:
      A floating point array of the operands' broadcast shape.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.hypot(jnp.array([3e30]), jnp.array([4e30]))
      Array([5.e+30], dtype=float32)
    """
    x, y = promote_args("hypot", x1, x2, kind=inexact)
    refuse_complex("hypot", x, y)
    a, b = prims.abs_.bind(x), prims.abs_.bind(y)
    infinity = like_weak(a, float("inf"))
    infinite = compare.or_.bind(compare.eq.bind(a, infinity), compare.eq.bind(b, infinity))
    large, small = prims.max_.bind(a, b), prims.min_.bind(a, b)
    zero, one = like_weak(large, 0), like_weak(large, 1)
    at_zero = compare.eq.bind(large, zero)
    safe = prims.select_n.bind(at_zero, large, one)
    ratio = prims.div.bind(small, safe)
    root = sqrt.bind(prims.add.bind(one, prims.mul.bind(ratio, ratio)))
    length = prims.select_n.bind(at_zero, prims.mul.bind(large, root), zero)
    return result(prims.select_n.bind(infinite, length, infinity))
