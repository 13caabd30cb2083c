"""Elementwise powers, squares and reciprocals, and logarithms to a base.

Start at :func:`power`.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import math
import operator
from typing import Any

from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError
from functrax.core.prims import (
    analytic as waves,
    arithmetic as prims,
    comparisons as compare,
)
from functrax.core.prims.bitwise import shift_right_logical
from functrax.core.prims.powers import integer_pow, pow_, square as square_p
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.elementwise import unary
from functrax.numpy.promote import (
    broadcast_values,
    inexact,
    numeric,
    operand,
    promote_dtypes,
    promote_pair,
    result,
)
from functrax.numpy.ufuncs import like_weak
from functrax.typing import ArrayLike


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 ** x2``.

    A known integer exponent is computed by multiplications, and is differentiable at 0.

    Args:
      x1: an array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: for an integer to a known negative power, and for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
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


def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1 ** x2`` in floating point, whatever the operands' dtypes.

    Args:
      x1: an array or a scalar; integers become floats.
      x2: another, of a shape that broadcasts with it.

    Returns:
      A floating point or complex array of the operands' broadcast shape.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.float_power(jnp.array([2, 4]), -1)
      Array([0.5 , 0.25], dtype=float32)
    """
    x, y = promote_pair("float_power", x1, x2, inexact)
    return result(pow_.bind(x, y))


@unary(square_p, numeric)
def square(x: ArrayLike, /) -> Array:
    """``x * x``.

    >>> import functrax.numpy as jnp
    >>> jnp.square(jnp.array([-3, 4]))
    Array([ 9, 16], dtype=int32)
    """


def reciprocal(x: ArrayLike, /) -> Array:
    """``1 / x``, in floating point.

    Args:
      x: an array or a scalar; integers become floats, where NumPy divides integers.

    Returns:
      A floating point or complex array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.reciprocal(jnp.array([2, 4]))
      Array([0.5 , 0.25], dtype=float32)
    """
    (v,) = promote_dtypes("reciprocal", x, kind=inexact)
    return result(integer_pow.bind(v, y=-1))


def _log_to_base(name: str, x: Any, base: float) -> Value:
    (v,) = promote_dtypes(name, x, kind=inexact)
    return result(prims.div.bind(waves.log.bind(v), like_weak(v, math.log(base))))


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2.

    Args:
      x: an array or a scalar; integers and booleans are computed in float32.

    Returns:
      An array of the same shape: NaN for negative real numbers, -inf for 0.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.log2(jnp.array([8, 1]))
      Array([3., 0.], dtype=float32)
    """
    return _log_to_base("log2", x, 2)


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10.

    Args:
      x: an array or a scalar; integers and booleans are computed in float32.

    Returns:
      An array of the same shape: NaN for negative real numbers, -inf for 0.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.log10(jnp.array([100.0, 0.0]))
      Array([  2., -inf], dtype=float32)
    """
    return _log_to_base("log10", x, 10)
