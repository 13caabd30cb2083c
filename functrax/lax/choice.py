"""Elementwise functions with arguments of their own: choices, bounds, powers, rounding."""

from __future__ import annotations

import operator
from typing import Any, TypeVar

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims import arithmetic, powers, rounding
from functrax.core.prims.rounding import RoundingMethod
from functrax.core.pytree.operations import tree_map
from functrax.core.tracing.primitive import literal
from functrax.core.types import dtypes
from functrax.lax.operands import as_array, operands, pair, repeat, value_of
from functrax.typing import ArrayLike

T = TypeVar("T")


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """``on_true`` where ``pred`` holds, else ``on_false``.

    Args:
      pred: a scalar or an array of bool.
      on_true: an array, or a number if the other case is an array.
      on_false: an array of the same dtype and shape.

    Returns:
      An array of the shape and dtype of the cases.

    Raises:
      ShapeError, DTypeError: if the operands do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> x = np.array([1.0, -2.0])
    >>> lax.select(x > 0, x, -x)
    Array([1., 2.], dtype=float32)
    """
    return select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """``cases[which]``, element by element.

    Args:
      which: bool for at most two cases, or int32 from 0 on; a scalar, or of the cases' shape.
      cases: arrays of one dtype and shape; numbers among them are repeated.

    Returns:
      An array of the shape and dtype of the cases.

    Raises:
      ArgumentError: if there is no case.
      ShapeError, DTypeError: if the operands do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.select_n(np.array([0, 2, 1]), np.zeros(3), np.ones(3), np.full(3, 7.0))
    Array([0., 7., 1.], dtype=float32)
    """
    if not cases:
        raise ArgumentError("select_n takes at least one case", got="none", fix="add a case")
    given = [
        None if isinstance(c, (bool, int, float, complex)) else value_of("select_n", c)
        for c in cases
    ]
    shapes = {x.aval.shape for x in given if x is not None}
    if len(shapes) > 1:
        raise ShapeError(
            "select_n: the cases have different shapes",
            got=", ".join(map(str, shapes)),
            fix="broadcast them to one shape, or use functrax.numpy.where",
        )
    values = operands("select_n", *cases)
    if isinstance(which, (bool, np.bool_)):
        return as_array(arithmetic.select_n.bind(literal(which, dtypes.bool_), *values))
    index = value_of("select_n", which)
    shape = shapes.pop() if shapes else ()
    if index.aval.shape not in ((), shape):
        raise ShapeError(
            "select_n: the choice is neither a scalar nor of the cases' shape",
            got=f"{index.aval.str_short()} for cases of shape {shape}",
            fix="broadcast the cases, or use functrax.numpy.where",
        )
    return as_array(arithmetic.select_n.bind(repeat(index, shape), *values))


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """``x``, but not below ``min`` and not above ``max``.

    Args:
      min: a scalar, or an array of the shape of ``x``.
      x: an array that is not complex.
      max: a scalar, or an array of the shape of ``x``.

    Returns:
      An array of the shape and dtype of ``x``.

    Raises:
      DTypeError: if the dtypes differ, or are complex.
      ShapeError: if a bound has another shape.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.clamp(0.0, np.array([-1.0, 0.5, 3.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return as_array(arithmetic.clamp.bind(*operands("clamp", min, x, max)))


def integer_pow(x: ArrayLike, y: int) -> Array:
    """``x ** y`` for a Python integer ``y``.

    Args:
      x: an array of numbers.
      y: the exponent; not negative for integers.

    Returns:
      An array of the shape and dtype of ``x``.

    Raises:
      ArgumentError: for a negative power of integers.
      DTypeError: if ``x`` is of truth values, or no array.

    >>> from functrax import lax
    >>> lax.integer_pow(2.0, -2)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return as_array(powers.integer_pow.bind(value_of("integer_pow", x), y=operator.index(y)))


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """``x ** y``.

    Args:
      x: an array, floating point or complex.
      y: an exponent of the same dtype, or of an integer dtype.

    Returns:
      An array of the shape and dtype of ``x``.

    Raises:
      DTypeError: if ``x`` is neither floating point nor complex, or the exponent has another dtype.
      ShapeError: if the shapes differ.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.pow(np.array([1.0, 2.0]), 3)
    Array([1., 8.], dtype=float32)
    """
    if type(y) is int:
        base = value_of("pow", x)
        if dtypes.is_inexact(base.aval.dtype):
            return as_array(powers.integer_pow.bind(base, y=y))
    exponent_is_integer = isinstance(y, Array) and dtypes.is_integer(y.aval.dtype)
    if exponent_is_integer and not isinstance(x, Array):
        x = value_of("pow", x)
    a, b = pair("pow", x, y)
    return as_array(powers.pow_.bind(a, b))


def reciprocal(x: ArrayLike) -> Array:
    """``1 / x``, of floating point or complex numbers.

    Args:
      x: an array, floating point or complex.

    Returns:
      An array of the shape and dtype of ``x``.

    Raises:
      ArgumentError: for integers.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.reciprocal(np.array([4.0, 0.0]))
    Array([0.25,  inf], dtype=float32)
    """
    return integer_pow(x, -1)


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest integral value, of a floating point number.

    Args:
      x: an array, floating point.
      rounding_method: where values halfway between two integers go.

    Returns:
      An array of the shape and dtype of ``x``.

    Raises:
      DTypeError: if ``x`` is not floating point.
      ArgumentError: for an unknown method.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.round(np.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
    Array([0., 2.], dtype=float32)
    """
    method = int(rounding_method)
    return as_array(rounding.round_.bind(value_of("round", x), rounding_method=method))


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """The nearest value with so many bits, in the same dtype.

    Args:
      operand: an array, floating point.
      exponent_bits: at least 1; what is too large becomes infinite.
      mantissa_bits: at least 0.

    Returns:
      An array of the shape and dtype of ``operand``.

    Raises:
      DTypeError: if ``operand`` is not floating point.
      ArgumentError: for fewer bits.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.reduce_precision(np.array([3.14159, 1e6]), exponent_bits=5, mantissa_bits=10)  # float16
    Array([3.140625,      inf], dtype=float32)
    """
    return as_array(
        rounding.reduce_precision.bind(
            value_of("reduce_precision", operand),
            exponent_bits=operator.index(exponent_bits),
            mantissa_bits=operator.index(mantissa_bits),
        )
    )


def stop_gradient(x: T) -> T:
    """The same values, of which no derivative is taken.

    Args:
      x: a pytree of arrays; integers, which have no derivative, stay as they are.

    Returns:
      A pytree of the same structure, shapes and dtypes.

    Raises:
      DTypeError: if a leaf is not an array or a number.

    >>> import functrax
    >>> from functrax import lax
    >>> functrax.grad(lambda x: lax.mul(x, lax.stop_gradient(x)))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return tree_map(_stop_gradient, x)


def _stop_gradient(leaf: Any) -> Any:
    value = value_of("stop_gradient", leaf)
    if not dtypes.is_inexact(value.aval.dtype):
        return leaf
    return as_array(arithmetic.stop_gradient.bind(value))
