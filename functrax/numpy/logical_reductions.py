"""Whether some or all elements are true, and whether arrays are equal or close.

Start at :func:`any`.
"""

from __future__ import annotations

from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import arithmetic, comparisons as compare, reduce as prims
from functrax.core.tracing.primitive import Primitive, Value, literal
from functrax.core.types import dtypes
from functrax.numpy import logic
from functrax.numpy.creation import asarray
from functrax.numpy.logic import isnan, no_out, truth
from functrax.numpy.promote import (
    broadcast_shape,
    broadcast_values,
    inexact,
    promote_dtypes,
    promote_pair,
    result,
    to_array,
)
from functrax.numpy.reductions import checked_axes, keep, masked
from functrax.typing import ArrayLike, Axes


def any(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether some element along axes is not 0.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.

    Returns:
      Booleans without the reduced axes; False of no elements.

    Raises:
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.any(jnp.array([[0, 2], [0, 0]]), axis=1)
      Array([ True, False], dtype=bool)
    """
    return _logical("any", prims.reduce_or, False, a, (axis, out, keepdims, where))


def all(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether every element along axes is not 0.

    Args:
      a: an array or a scalar.
      axis: an axis, a tuple of axes, or None for all.
      out: must be None.
      keepdims: leave the reduced axes with size 1.
      where: which elements count; broadcasts with ``a``.

    Returns:
      Booleans without the reduced axes; True of no elements.

    Raises:
      AxisError: for an axis out of range or named twice.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.all(jnp.array([[0, 2], [3, 1]]), axis=1)
      Array([False,  True], dtype=bool)
    """
    return _logical("all", prims.reduce_and, True, a, (axis, out, keepdims, where))


def _logical(name: str, primitive: Primitive, identity: bool, a: Any, options: Any) -> Value:
    axis, out, keepdims, where = options
    no_out(name, out)
    x = masked(name, truth(to_array(name, a)), where, identity)
    axes = checked_axes(name, axis, x.aval.ndim)
    return result(keep(primitive.bind(x, axes=axes), x.aval.shape, axes, keepdims))


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements are close, as :func:`isclose` says.

    Args:
      a: an array or a scalar.
      b: another, of a shape that broadcasts with it.
      rtol: relative tolerance.
      atol: absolute tolerance.
      equal_nan: whether NaN is close to NaN.

    Returns:
      One boolean.

    Raises:
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.allclose(jnp.array([1.0, 2.0]), jnp.array([1.0, 2.001]), atol=0.01)
      Array(True, dtype=bool)
    """
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays (or lists) have one shape and equal elements.

    Args:
      a1: an array, a scalar or a list.
      a2: another.
      equal_nan: whether NaN equals NaN.

    Returns:
      One boolean; False for different shapes.

    Raises:
      DTypeError: for what is no array, such as None.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.array_equal(jnp.arange(3), jnp.array([0, 1, 2])), jnp.array_equal(jnp.zeros(2), 0)
      (Array(True, dtype=bool), Array(False, dtype=bool))
    """
    x, y = asarray(a1), asarray(a2)
    if x.aval.shape != y.aval.shape:
        return _known(False)
    same = logic.equal(x, y)
    if equal_nan:
        same = logic.logical_or(same, logic.logical_and(isnan(x), isnan(y)))
    return all(same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays (or lists) broadcast together and have equal elements.

    Args:
      a1: an array, a scalar or a list.
      a2: another.

    Returns:
      One boolean; False for shapes that do not broadcast.

    Raises:
      DTypeError: for what is no array, such as None.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.array_equiv(jnp.zeros(2), 0)
      Array(True, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    try:
        broadcast_shape("array_equiv", [x.aval.shape, y.aval.shape])
    except ShapeError:
        return _known(False)
    return all(logic.equal(x, y))


def _known(value: bool) -> Value:
    return result(literal(value, dtypes.bool_))


def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether ``|a - b| <= atol + rtol * |b|``; infinities are close if equal.

    Args:
      a: an array or a scalar.
      b: another, of a shape that broadcasts with it.
      rtol: relative tolerance.
      atol: absolute tolerance.
      equal_nan: whether NaN is close to NaN.

    Returns:
      Booleans of the operands' broadcast shape.

    Raises:
      DTypeError: for lists.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isclose(jnp.array([1.0, 2.0, jnp.nan]), jnp.array([1.0 + 1e-7, 2.1, jnp.nan]))
      Array([ True, False, False], dtype=bool)
    """
    x, y = promote_pair("isclose", a, b, inexact)
    if type(x) is Literal and type(y) is Literal:
        x = to_array("isclose", result(x))
    size = arithmetic.abs_.bind(y)
    relative, absolute = (promote_dtypes("isclose", t, size)[0] for t in (rtol, atol))
    relative, absolute, size = broadcast_values("isclose", relative, absolute, size)
    bound = arithmetic.add.bind(absolute, arithmetic.mul.bind(relative, size))
    distance = arithmetic.abs_.bind(arithmetic.sub.bind(x, y))
    near = logic.logical_and(logic.less_equal(distance, bound), logic.isfinite(y))
    close = logic.logical_or(compare.eq.bind(x, y), near)
    if not equal_nan:
        return close
    return logic.logical_or(close, logic.logical_and(isnan(x), isnan(y)))
