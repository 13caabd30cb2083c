"""The larger and the smaller of two operands, and limits, elementwise.

Complex numbers are compared by real part, then by imaginary part.  Start at :func:`maximum`.
"""

from __future__ import annotations

from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.convert import imag, real
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.promote import promote_args, promote_pair, result, to_array
from functrax.numpy.ufuncs import refuse_complex
from functrax.typing import ArrayLike


def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger of each pair; NaN wins, and ties share the derivative.

    Complex numbers are compared by real part, then by imaginary part.

    Args:
      x1: an array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.maximum(jnp.array([1.0, 5.0, jnp.nan]), 3)
      Array([ 3.,  5., nan], dtype=float32)
    """
    x, y = promote_pair("maximum", x1, x2)
    if x.aval.dtype in dtypes.COMPLEX:
        return result(prims.select_n.bind(complex_before(compare.lt, y, x), y, x))
    return result(prims.max_.bind(x, y))


def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of each pair; NaN wins, and ties share the derivative.

    Complex numbers are compared by real part, then by imaginary part.

    Args:
      x1: an array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.minimum(jnp.array([1.0, 5.0]), 3)
      Array([1., 3.], dtype=float32)
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


def fmax(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The larger of each pair; a number wins over NaN.

    Args:
      x1: an array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype; NaN where both are.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 0.5)
      Array([1. , 0.5], dtype=float32)
    """
    x, y = promote_args("fmax", x1, x2)
    first = compare.or_.bind(_greater(x, y), compare.ne.bind(y, y))
    return result(prims.select_n.bind(first, y, x))


def fmin(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The smaller of each pair; a number wins over NaN.

    Args:
      x1: an array or a scalar.
      x2: another, of a shape that broadcasts with it.

    Returns:
      An array of the operands' broadcast shape and promoted dtype; NaN where both are.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 0.5)
      Array([0.5, 0.5], dtype=float32)
    """
    x, y = promote_args("fmin", x1, x2)
    first = compare.or_.bind(_greater(y, x), compare.ne.bind(y, y))
    return result(prims.select_n.bind(first, y, x))


def _greater(x: Value, y: Value) -> Value:
    if x.aval.dtype in dtypes.COMPLEX:
        return complex_before(compare.gt, x, y)
    return compare.gt.bind(x, y)


def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    *,
    a: ArrayLike | None = None,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """``x`` limited to the interval from ``min`` to ``max``.

    Args:
      arr: a real array or a scalar.
      min: the lower end, an array or a scalar, or None for no end.
      max: the upper end; all broadcast.
      a: an older name of ``arr``.
      a_min: an older name of ``min``.
      a_max: an older name of ``max``.

    Returns:
      An array of the broadcast shape; the derivative is 0 for the elements that are limited.

    Raises:
      DTypeError: for complex numbers and lists.
      ArgumentError: if there is no array.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.clip(jnp.arange(5), 1, 3)
      Array([1, 1, 2, 3, 3], dtype=int32)
    """
    given = a if arr is None else arr
    if given is None:
        raise ArgumentError("clip: no array was given", got="no arr", fix="clip(x, min, max)")
    low, high = a_min if min is None else min, a_max if max is None else max
    x = to_array("clip", given)
    refuse_complex("clip", x)
    if low is not None:
        x = maximum(low, x)
    if high is not None:
        x = minimum(high, x)
    return refuse_complex("clip", x)
