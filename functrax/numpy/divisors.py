"""Common divisors and multiples of integers, elementwise.

Start at :func:`gcd`.
"""

from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import DTypeError
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.promote import promote_args, result
from functrax.numpy.ufuncs import absolute, like_weak
from functrax.typing import ArrayLike


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of integers, never negative; ``gcd(0, 0)`` is 0.

    Args:
      x1: an array or a scalar of integers.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: if an operand is not an integer.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.gcd(jnp.array([12, -8, 0]), 18)
      Array([ 6,  2, 18], dtype=int32)
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


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of integers, never negative; 0 if one of them is 0.

    Args:
      x1: an array or a scalar of integers.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: if an operand is not an integer.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.lcm(jnp.array([4, 0]), 6)
      Array([12,  0], dtype=int32)
    """
    x, y = promote_args("lcm", x1, x2)
    divisor = _gcd("lcm", x, y)
    zero, one = like_weak(divisor, 0), like_weak(divisor, 1)
    none = compare.eq.bind(divisor, zero)
    parts = prims.div.bind(absolute(y), prims.select_n.bind(none, divisor, one))
    return result(prims.select_n.bind(none, prims.mul.bind(absolute(x), parts), zero))
