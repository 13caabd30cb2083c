"""Elementwise functions of the bits of integers, and of booleans as bits.

Start at :func:`bitwise_and`.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.bitwise import (
    population_count,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
from functrax.core.types import dtypes
from functrax.numpy.elementwise import binary, unary
from functrax.numpy.promote import convert, numeric, promote_dtypes, promote_pair, result, same
from functrax.typing import ArrayLike


@binary(compare.and_)
def bitwise_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits that both have.

    >>> import functrax.numpy as jnp
    >>> jnp.bitwise_and(jnp.array([5, 6]), 3)
    Array([1, 2], dtype=int32)
    """


@binary(compare.or_)
def bitwise_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits that one of them has.

    >>> import functrax.numpy as jnp
    >>> jnp.bitwise_or(jnp.array([5, 6]), 3)
    Array([7, 7], dtype=int32)
    """


@binary(compare.xor)
def bitwise_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits in which they differ.

    >>> import functrax.numpy as jnp
    >>> jnp.bitwise_xor(jnp.array([5, 6]), 3)
    Array([6, 5], dtype=int32)
    """


@unary(compare.not_, same)
def bitwise_not(x: ArrayLike, /) -> Array:
    """All bits reversed; of booleans, not.

    >>> import functrax.numpy as jnp
    >>> jnp.bitwise_not(jnp.array([0, 5])), jnp.bitwise_not(jnp.array([True]))
    (Array([-1, -6], dtype=int32), Array([False], dtype=bool))
    """


bitwise_invert = invert = bitwise_not


@binary(shift_left, numeric)
def left_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1`` shifted left by ``x2`` bits.

    >>> import functrax.numpy as jnp
    >>> jnp.left_shift(jnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """


bitwise_left_shift = left_shift


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """``x1`` shifted right by ``x2`` bits, keeping the sign.

    Args:
      x1: an array or a scalar of integers; the bits of unsigned ones are filled up with zeros.
      x2: how many bits, an integer or an array of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: for dtypes other than integers, and for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.right_shift(jnp.array([12, -8]), 2)
      Array([ 3, -2], dtype=int32)
    """
    x, y = promote_pair("right_shift", x1, x2, numeric)
    signed = x.aval.dtype in dtypes.SIGNED
    return result((shift_right_arithmetic if signed else shift_right_logical).bind(x, y))


bitwise_right_shift = right_shift


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of bits that are 1 in ``|x|``, as uint8.

    Args:
      x: an array or a scalar of integers.

    Returns:
      An array of uint8 of the same shape.

    Raises:
      DTypeError: for dtypes other than integers, and for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.bitwise_count(jnp.array([7, -8]))
      Array([3, 1], dtype=uint8)
    """
    (v,) = promote_dtypes("bitwise_count", x, kind=numeric)
    magnitude = v if v.aval.dtype in dtypes.UNSIGNED else prims.abs_.bind(v)
    return result(convert(population_count.bind(magnitude), dtypes.uint8))
