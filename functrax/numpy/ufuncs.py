"""Elementwise arithmetic: sums, products, quotients, remainders, absolute values, powers, extrema.

Operands are promoted and broadcast (``promote.py``) and given to primitives; functions that are
one primitive are made by ``elementwise.py``.  Analytic functions are in ``analytic.py``,
comparisons and logic in ``logic.py``, rounding in ``rounding.py``.

Start at :func:`add`.
"""

from __future__ import annotations

import operator
from typing import Any

from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import DTypeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.bitwise import shift_right_logical
from functrax.core.prims.convert import imag, real
from functrax.core.prims.powers import integer_pow, pow_, sqrt, square as square_p
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.elementwise import binary, unary
from functrax.numpy.promote import (
    as_weak_as,
    broadcast_values,
    inexact,
    numeric,
    operand,
    promote_args,
    promote_dtypes,
    promote_pair,
    result,
    same,
)


def add(x1: Any, x2: Any, /) -> Value:
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


subtract = binary("subtract", prims.sub, "``x1 - x2``; not of booleans.")
multiply = binary("multiply", prims.mul, "``x1 * x2``; of booleans, whether both hold.")
divide = binary("divide", prims.div, "``x1 / x2``, always in floating point.", inexact)
true_divide = divide
negative = unary("negative", prims.neg, "``-x``; not of booleans.", same)
sign = unary(
    "sign", prims.sign, "-1, 0 or 1, the sign of ``x``; ``x / |x|`` of complex numbers.", same
)


def positive(x: Any, /) -> Value:
    """``+x``: the array itself."""
    return result(promote_dtypes("positive", x)[0])


def absolute(x: Any, /) -> Value:
    """``|x|``; of complex numbers the modulus, which is real.

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


def fabs(x: Any, /) -> Value:
    """``|x|`` of real numbers, in floating point."""
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


def floor_divide(x1: Any, x2: Any, /) -> Value:
    """``x1 // x2``, rounded towards minus infinity.

    Args:
      x1: a real array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Raises:
      DTypeError: for complex numbers and lists.
      ShapeError: for shapes that do not broadcast.

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


def remainder(x1: Any, x2: Any, /) -> Value:
    """``x1 % x2``, with the sign of ``x2`` as in Python; 0 for integers modulo 0.

    Args:
      x1: a real array or a scalar.
      x2: another, of a shape that broadcasts with it.

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


def fmod(x1: Any, x2: Any, /) -> Value:
    """The remainder with the sign of ``x1``, as in C; 0 for integers modulo 0."""
    x, y = promote_pair("fmod", x1, x2, numeric)
    refuse_complex("fmod", x, y)
    return result(prims.rem.bind(x, _no_zero_integers(y)))


def divmod(x1: Any, x2: Any, /) -> tuple[Value, Value]:
    """``(x1 // x2, x1 % x2)``.

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


def power(x1: Any, x2: Any, /) -> Value:
    """``x1 ** x2``.

    A known integer exponent is computed by multiplications, and is differentiable at 0.

    Args:
      x1: an array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Raises:
      DTypeError: for an integer to a known negative power, and for lists.

    >>> import functrax.numpy as jnp
    >>> jnp.power(jnp.array([1.0, 2.0, 3.0]), 2)
    Array([1., 4., 9.], dtype=float32)
    """
    exponent = _known_integer(x1, x2)
    if exponent is not None:
        (x,) = promote_dtypes("power", x1, kind=numeric)
        return result(_integer_power(x, exponent))
    base, raised = operand("power", 0, x1), operand("power", 1, x2)
    x, y = promote_pair("power", base, raised, numeric)
    if x.aval.dtype in dtypes.INTEGER:
        return result(_integers_to_integers(x, y))
    if _is_integer_array(raised) and _is_inexact_array(base):
        x, y = broadcast_values("power", base, raised)
    return result(pow_.bind(x, y))


pow = power


def _known_integer(base: Any, x: Any) -> int | None:
    """The exponent ``x``, if it is a known integer.

    An array is one for integer bases alone, where a negative exponent is an error.  For others it
    is not looked at: a number that changes from call to call, as a step's does, would make each
    call another program.
    """
    kind = type(x)
    if kind is int or kind is bool:
        return int(x)
    if kind is float or (kind is ConcreteArray and (x.aval.shape or x.aval.dtype.kind not in "iu")):
        return None
    if kind is ConcreteArray and (type(base) is float or _is_inexact_array(base)):
        return None
    if isinstance(x, (ConcreteArray, int)) or (hasattr(x, "dtype") and not hasattr(x, "aval")):
        try:
            return operator.index(x)
        except TypeError:
            return None
    return None


def _is_integer_array(x: Any) -> bool:
    return hasattr(x, "aval") and x.aval.dtype in dtypes.INTEGER


def _is_inexact_array(x: Any) -> bool:
    return hasattr(x, "aval") and x.aval.dtype in dtypes.INEXACT


def _integer_power(x: Value, exponent: int) -> Value:
    if exponent < 0 and x.aval.dtype in dtypes.INTEGER:
        raise DTypeError(
            "power: integers cannot be raised to negative powers",
            got=f"{x.aval.str_short()} to the power {exponent}",
            fix="functrax.numpy.float_power, or x.astype(float) first",
        )
    return integer_pow.bind(x, y=exponent)


def _integers_to_integers(x: Value, y: Value) -> Value:
    """Binary exponentiation; six bits, for beyond 2**63 any base but 0 and ±1 overflows."""
    zero, one = like_weak(y, 0), like_weak(y, 1)
    starts_at_zero = compare.and_.bind(compare.eq.bind(x, zero), compare.ne.bind(y, zero))
    power_ = prims.select_n.bind(starts_at_zero, one, zero)
    for _ in range(6):
        odd = compare.ne.bind(compare.and_.bind(y, one), zero)
        power_ = prims.select_n.bind(odd, power_, prims.mul.bind(power_, x))
        x = prims.mul.bind(x, x)
        y = shift_right_logical.bind(y, one)
    return power_


def float_power(x1: Any, x2: Any, /) -> Value:
    """``x1 ** x2`` in floating point, whatever the operands' dtypes."""
    x, y = promote_pair("float_power", x1, x2, inexact)
    return result(pow_.bind(x, y))


square = unary("square", square_p, "``x * x``.", numeric)


def reciprocal(x: Any, /) -> Value:
    """``1 / x``, in floating point."""
    (v,) = promote_dtypes("reciprocal", x, kind=inexact)
    return result(integer_pow.bind(v, y=-1))


def maximum(x1: Any, x2: Any, /) -> Value:
    """The larger of each pair; NaN wins, and ties share the derivative.

    Complex numbers are compared by real part, then by imaginary part.

    >>> import functrax.numpy as jnp
    >>> jnp.maximum(jnp.array([1.0, 5.0]), 3)
    Array([3., 5.], dtype=float32)
    """
    x, y = promote_pair("maximum", x1, x2)
    if x.aval.dtype in dtypes.COMPLEX:
        return result(prims.select_n.bind(complex_before(compare.lt, y, x), y, x))
    return result(prims.max_.bind(x, y))


def minimum(x1: Any, x2: Any, /) -> Value:
    """The smaller of each pair; NaN wins, and ties share the derivative.

    Complex numbers are compared by real part, then by imaginary part.
    """
    x, y = promote_pair("minimum", x1, x2)
    if x.aval.dtype in dtypes.COMPLEX:
        return result(prims.select_n.bind(complex_before(compare.lt, x, y), y, x))
    return result(prims.min_.bind(x, y))


def complex_before(order: Any, x: Value, y: Value) -> Value:
    """Compare complex numbers by real part, then by imaginary part."""
    a, b = real.bind(x), real.bind(y)
    by_imag = order.bind(imag.bind(x), imag.bind(y))
    return prims.select_n.bind(compare.eq.bind(a, b), order.bind(a, b), by_imag)


def fmax(x1: Any, x2: Any, /) -> Value:
    """The larger of each pair; a number wins over NaN."""
    x, y = promote_args("fmax", x1, x2)
    first = compare.or_.bind(_greater(x, y), compare.ne.bind(y, y))
    return result(prims.select_n.bind(first, y, x))


def fmin(x1: Any, x2: Any, /) -> Value:
    """The smaller of each pair; a number wins over NaN."""
    x, y = promote_args("fmin", x1, x2)
    first = compare.or_.bind(_greater(y, x), compare.ne.bind(y, y))
    return result(prims.select_n.bind(first, y, x))


def _greater(x: Value, y: Value) -> Value:
    if x.aval.dtype in dtypes.COMPLEX:
        return complex_before(compare.gt, x, y)
    return compare.gt.bind(x, y)


def heaviside(x1: Any, x2: Any, /) -> Value:
    """0 where ``x1 < 0``, 1 where ``x1 > 0``, ``x2`` where it is 0, NaN where it is NaN."""
    x, y = promote_args("heaviside", x1, x2, kind=inexact)
    refuse_complex("heaviside", x, y)
    zero, one = like_weak(x, 0), like_weak(x, 1)
    at_zero = prims.select_n.bind(compare.ne.bind(x, x), y, x)
    above = prims.select_n.bind(compare.gt.bind(x, zero), at_zero, one)
    return result(prims.select_n.bind(compare.lt.bind(x, zero), above, zero))


def hypot(x1: Any, x2: Any, /) -> Value:
    """``sqrt(x1**2 + x2**2)`` without overflow; the derivative at (0, 0) is 0.

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


def gcd(x1: Any, x2: Any) -> Value:
    """The greatest common divisor of integers, never negative; ``gcd(0, 0)`` is 0.

    Raises:
      DTypeError: if an operand is not an integer.
    """
    x, y = promote_args("gcd", x1, x2)
    return result(_gcd("gcd", x, y))


def _gcd(name: str, x: Value, y: Value) -> Value:
    dtype = x.aval.dtype
    if dtype not in dtypes.INTEGER:
        raise DTypeError(f"{name}: takes integers", got=x.aval.str_short(), fix="x.astype(int)")
    a, b = absolute(x), absolute(y)
    # Euclid's algorithm needs the most steps for Fibonacci numbers: 1.44 for each bit.
    for _ in range(-(-144 * dtypes.itemsize_bits(dtype) // 100)):
        zero, one = like_weak(b, 0), like_weak(b, 1)
        done = compare.eq.bind(b, zero)
        rest = prims.rem.bind(a, prims.select_n.bind(done, b, one))
        a, b = prims.select_n.bind(done, b, a), prims.select_n.bind(done, rest, zero)
    return absolute(a)  # the absolute value of the least integer was negative


def lcm(x1: Any, x2: Any) -> Value:
    """The least common multiple of integers, never negative; 0 if one of them is 0.

    Raises:
      DTypeError: if an operand is not an integer.
    """
    x, y = promote_args("lcm", x1, x2)
    divisor = _gcd("lcm", x, y)
    zero, one = like_weak(divisor, 0), like_weak(divisor, 1)
    none = compare.eq.bind(divisor, zero)
    parts = prims.div.bind(absolute(y), prims.select_n.bind(none, divisor, one))
    return result(prims.select_n.bind(none, prims.mul.bind(absolute(x), parts), zero))
