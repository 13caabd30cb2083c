"""Elementwise comparisons, truth values and choices.

Comparisons give booleans.  The ``logical_`` functions look at truth values (anything but 0 is
true), the ``bitwise_`` functions of ``bits.py`` at bits.  Start at :func:`where`.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.prims import arithmetic as prims, comparisons as compare
from functrax.core.prims.convert import (
    bitcast_convert_type,
    imag as imag_p,
    real as real_p,
)
from functrax.core.prims.reindex import full
from functrax.core.prims.rounding import is_finite
from functrax.core.tracing.primitive import Primitive, Value, like, literal
from functrax.core.types import dtypes
from functrax.numpy.elementwise import F, binary, described
from functrax.numpy.extrema import complex_before
from functrax.numpy.promote import (
    broadcast_values,
    convert,
    promote_dtypes,
    promote_pair,
    result,
)
from functrax.numpy.ufuncs import refuse_complex
from functrax.typing import ArrayLike


@binary(compare.eq)
def equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether ``x1 == x2``; NaN equals nothing.

    >>> import functrax.numpy as jnp
    >>> jnp.equal(jnp.array([1.0, jnp.nan]), jnp.array([1.0, jnp.nan]))
    Array([ True, False], dtype=bool)
    """


@binary(compare.ne)
def not_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether ``x1 != x2``; NaN differs from everything.

    >>> import functrax.numpy as jnp
    >>> jnp.not_equal(jnp.array([1.0, jnp.nan]), jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """


_ORDER = "Complex numbers are ordered by real part, then by imaginary part."


def _ordered(compare: Primitive) -> Callable[[F], F]:
    def decorate(template: F) -> F:
        name = template.__name__

        def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
            x, y = promote_pair(name, x1, x2)
            if x.aval.dtype in dtypes.COMPLEX:
                return result(complex_before(compare, x, y))
            return result(compare.bind(x, y))

        return described(function, template, 2, note=_ORDER)

    return decorate


@_ordered(compare.lt)
def less(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether ``x1 < x2``.

    >>> import functrax.numpy as jnp
    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """


@_ordered(compare.le)
def less_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether ``x1 <= x2``.

    >>> import functrax.numpy as jnp
    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """


@_ordered(compare.gt)
def greater(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether ``x1 > x2``.

    >>> import functrax.numpy as jnp
    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """


@_ordered(compare.ge)
def greater_equal(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether ``x1 >= x2``.

    >>> import functrax.numpy as jnp
    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """


def truth(x: Value) -> Value:
    """Whether each element is not 0."""
    return x if x.aval.dtype == dtypes.bool_ else compare.ne.bind(x, like(x, 0))


def _logical(combine: Primitive) -> Callable[[F], F]:
    def decorate(template: F) -> F:
        name = template.__name__

        def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
            values = [truth(promote_dtypes(name, x)[0]) for x in (x1, x2)]
            return result(combine.bind(*broadcast_values(name, *values)))

        return described(function, template, 2)

    return decorate


@_logical(compare.and_)
def logical_and(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether both are not 0.

    >>> import functrax.numpy as jnp
    >>> jnp.logical_and(jnp.array([0, 1, 2]), True)
    Array([False,  True,  True], dtype=bool)
    """


@_logical(compare.or_)
def logical_or(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether one of them is not 0.

    >>> import functrax.numpy as jnp
    >>> jnp.logical_or(jnp.array([0, 1, 2]), False)
    Array([False,  True,  True], dtype=bool)
    """


@_logical(compare.xor)
def logical_xor(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Whether exactly one of them is not 0.

    >>> import functrax.numpy as jnp
    >>> jnp.logical_xor(jnp.array([0, 1, 2]), True)
    Array([ True, False, False], dtype=bool)
    """


def logical_not(x: ArrayLike, /) -> Array:
    """Whether ``x`` is 0.

    Args:
      x: an array or a scalar of any dtype.

    Returns:
      Booleans of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.logical_not(jnp.array([0, 1, 2]))
      Array([ True, False, False], dtype=bool)
    """
    (v,) = promote_dtypes("logical_not", x)
    if v.aval.dtype == dtypes.bool_:
        return result(compare.not_.bind(v))
    return result(compare.eq.bind(v, like(v, 0)))


def isnan(x: ArrayLike, /) -> Array:
    """Whether each element is NaN; a complex number is if one of its parts is.

    Args:
      x: an array or a scalar of any dtype.

    Returns:
      Booleans of the same shape; all False for integers.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
      Array([False,  True], dtype=bool)
    """
    (v,) = promote_dtypes("isnan", x)
    return result(compare.ne.bind(v, v))


def isfinite(x: ArrayLike, /) -> Array:
    """Whether each element is neither infinite nor NaN.

    Args:
      x: an array or a scalar; a complex number is finite if both parts are.

    Returns:
      Booleans of the same shape; all True for integers.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isfinite(jnp.array([1.0, jnp.inf, jnp.nan]))
      Array([ True, False, False], dtype=bool)
    """
    (v,) = promote_dtypes("isfinite", x)
    if v.aval.dtype in dtypes.FLOATING:
        return result(is_finite.bind(v))
    if v.aval.dtype in dtypes.COMPLEX:
        both = compare.and_.bind(is_finite.bind(real_p.bind(v)), is_finite.bind(imag_p.bind(v)))
        return result(both)
    return _constant(v, True)


def isinf(x: ArrayLike, /) -> Array:
    """Whether each element is infinite; a complex number is if one of its parts is.

    Args:
      x: an array or a scalar of any dtype.

    Returns:
      Booleans of the same shape; all False for integers.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isinf(jnp.array([1.0, -jnp.inf, jnp.nan]))
      Array([False,  True, False], dtype=bool)
    """
    (v,) = promote_dtypes("isinf", x)
    if v.aval.dtype in dtypes.COMPLEX:
        return result(compare.or_.bind(_is_inf(real_p.bind(v)), _is_inf(imag_p.bind(v))))
    return result(_is_inf(v)) if v.aval.dtype in dtypes.FLOATING else _constant(v, False)


def _is_inf(x: Value) -> Value:
    return compare.eq.bind(prims.abs_.bind(x), like(x, np.inf))


def _constant(x: Value, value: bool) -> Value:
    return result(full(x.aval.shape, literal(value, dtypes.bool_)))


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether each element is plus infinity.

    Args:
      x: a real array or a scalar.
      out: must be None.

    Returns:
      Booleans of the same shape.

    Raises:
      DTypeError: for complex numbers and lists.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isposinf(jnp.array([jnp.inf, -jnp.inf]))
      Array([ True, False], dtype=bool)
    """
    return _is_value("isposinf", x, np.inf, out)


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether each element is minus infinity.

    Args:
      x: a real array or a scalar.
      out: must be None.

    Returns:
      Booleans of the same shape.

    Raises:
      DTypeError: for complex numbers and lists.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isneginf(jnp.array([jnp.inf, -jnp.inf]))
      Array([False,  True], dtype=bool)
    """
    return _is_value("isneginf", x, -np.inf, out)


def _is_value(name: str, x: Any, value: float, out: Any) -> Value:
    no_out(name, out)
    (v,) = promote_dtypes(name, x)
    refuse_complex(name, v)
    if v.aval.dtype not in dtypes.FLOATING:
        return _constant(v, False)
    return result(compare.eq.bind(v, like(v, value)))


def no_out(name: str, out: Any) -> None:
    """Refuse NumPy's ``out=``.

    Raises:
      UnavailableError: if it is given.
    """
    if out is not None:
        raise UnavailableError(
            f"{name}: out= is not supported, for arrays are immutable",
            got=f"out of type {type(out).__name__}",
            fix=f"x = {name}(...), or x = x.at[...].set({name}(...))",
        )


def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign bit is set: true for -0.0 and for negative numbers.

    Args:
      x: a real array or a scalar.

    Returns:
      Booleans of the same shape.

    Raises:
      DTypeError: for complex numbers and lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.signbit(jnp.array([0.0, -0.0, -3.0]))
      Array([False,  True,  True], dtype=bool)
    """
    (v,) = promote_dtypes("signbit", x)
    refuse_complex("signbit", v)
    dtype = v.aval.dtype
    if dtype in dtypes.INTEGER:
        return result(compare.lt.bind(v, like(v, 0)))
    if dtype == dtypes.bool_:
        return _constant(v, False)
    return result(sign_bit(v))


def sign_bit(x: Value) -> Value:
    """The sign bit of a floating point value."""
    x = convert(x, dtypes.compute_dtype(x.aval.dtype))
    integer = np.dtype(f"int{dtypes.itemsize_bits(x.aval.dtype)}")
    bits = bitcast_convert_type.bind(x, dtype=integer)
    return compare.lt.bind(bits, like(bits, 0))


@overload
def where(
    condition: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    /,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> Array: ...
@overload
def where(
    condition: ArrayLike,
    x: None = ...,
    y: None = ...,
    /,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | None = ...,
) -> tuple[Array, ...]: ...
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Elements of ``x`` where ``condition`` holds, of ``y`` elsewhere.

    Args:
      condition: an array of booleans (of other dtypes: whether they are not 0).
      x: an array or a scalar.
      y: another; all three broadcast.  Without both the result is ``nonzero(condition)``.
      size: the number of positions, for ``nonzero``.
      fill_value: the position in place of missing ones, for ``nonzero``.

    Returns:
      An array of the broadcast shape, in the dtype in which ``x`` and ``y`` meet; the derivative
      flows only to the chosen elements.  Without ``x`` and ``y`` a tuple of positions.

    Raises:
      ArgumentError: if only one of ``x`` and ``y`` is given, or ``size`` with them.
      ShapeError: for shapes that do not broadcast.
      ConcretizationError: without ``x`` and ``y``, for a traced condition and no ``size``.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.array([-1.0, 2.0])
      >>> jnp.where(x > 0, x, 0)
      Array([0., 2.], dtype=float32)
    """
    if x is None and y is None:
        from functrax import numpy as functions

        return functions.nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise ArgumentError(
            "where: size and fill_value belong to where(condition)",
            got="size or fill_value with x and y",
            fix="where(condition, x, y)",
        )
    (which,) = promote_dtypes("where", condition)
    if x is None or y is None:
        raise ArgumentError(
            "where: one of x and y is missing",
            got="where(condition, x)" if y is None else "where(condition, y=...)",
            fix="where(condition, x, y) to choose, where(condition) for the indices",
        )
    cases = promote_pair("where", x, y)
    return result(choose(which, *cases))


def choose(which: Value, x: Value, y: Value) -> Array:
    """``where`` of values of one dtype: broadcasts, and chooses."""
    which, x, y = broadcast_values("where", truth(which), x, y)
    return prims.select_n.bind(which, y, x)
