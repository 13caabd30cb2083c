"""Reductions along axes by a named operation, and the arguments of extrema.

Reductions by any associative function are in ``functrax.lax.monoids``.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from functrax.core.arrays.operators import Array
from functrax.core.prims import reduce as prims
from functrax.core.prims.extrema import reduced
from functrax.core.tracing.primitive import Primitive
from functrax.lax.operands import as_array, as_ints, axis_of, dtype_of, value_of
from functrax.typing import ArrayLike, DTypeLike

F = TypeVar("F", bound="Callable[..., Array]")

_AXES_DOC = """{summary}

    Args:
      operand: an array{of}.
      axes: the axes to reduce, counted from 0; they disappear.

    Returns:
      An array of the remaining axes and the operand's dtype.

    Raises:
      AxisError: if an axis is out of range or named twice.
      DTypeError: if the array has another dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.{name}(np.array({rows}), (0,))
    {shown}
    """


def _reduction(primitive: Primitive, of: str, rows: str, shown: str) -> Callable[[F], F]:
    """What gives a function its body, and its documentation the sections after the summary."""
    name = primitive.name

    def reduction(operand: ArrayLike, axes: Sequence[int]) -> Array:
        return as_array(reduced(primitive, value_of(name, operand), as_ints(name, axes, "axes")))

    def decorate(template: F) -> F:
        reduction.__name__ = reduction.__qualname__ = name
        summary = template.__doc__
        reduction.__doc__ = _AXES_DOC.format(
            name=name, summary=summary, of=of, rows=rows, shown=shown
        )
        return cast(F, reduction)

    return decorate


_BITS = " of truth values, or of integers, whose bits are combined"


@_reduction(prims.reduce_sum, " of numbers", "[[1, 2], [3, 4]]", "Array([4, 6], dtype=int32)")
def reduce_sum(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The sum along axes."""


@_reduction(prims.reduce_prod, " of numbers", "[[1, 2], [3, 4]]", "Array([3, 8], dtype=int32)")
def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The product along axes."""


@_reduction(
    prims.reduce_max,
    "; complex numbers by real part",
    "[[1.0, 5.0], [3.0, np.nan]]",
    "Array([ 3., nan], dtype=float32)",
)
def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The largest element along axes; NaN wins."""


@_reduction(
    prims.reduce_min,
    "; complex numbers by real part",
    "[[1.0, 5.0], [3.0, np.nan]]",
    "Array([ 1., nan], dtype=float32)",
)
def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The smallest element along axes; NaN wins."""


@_reduction(
    prims.reduce_and, _BITS, "[[True, True], [False, True]]", "Array([False,  True], dtype=bool)"
)
def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Whether all hold along axes."""


@_reduction(prims.reduce_or, _BITS, "[[6, 0], [3, 0]]", "Array([7, 0], dtype=int32)")
def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Whether any holds along axes."""


@_reduction(prims.reduce_xor, _BITS, "[[6, 7], [3, 7]]", "Array([5, 0], dtype=int32)")
def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Whether an odd number hold along axes."""


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index of the largest element along an axis; the first of several, and NaN wins.

    Args:
      operand: an array that is not complex.
      axis: the axis, which disappears.
      index_dtype: the integer dtype of the result.

    Returns:
      An array without the axis.

    Raises:
      ShapeError: if the axis has no elements.
      AxisError: if the axis is out of range.
      DTypeError: for complex numbers, or if ``index_dtype`` is no integer dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.argmax(np.array([3.0, 9.0, 4.0]), 0, "int32")
    Array(1, dtype=int32)
    """
    x = value_of("argmax", operand)
    place = axis_of("argmax", x.aval.ndim, axis)
    return as_array(prims.argmax.bind(x, axis=place, index_dtype=dtype_of(index_dtype)))


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index of the smallest element along an axis; see :func:`argmax`.

    Args:
      operand: an array that is not complex.
      axis: the axis, which disappears.
      index_dtype: the integer dtype of the result.

    Returns:
      An array without the axis.

    Raises:
      ShapeError, AxisError, DTypeError: as :func:`argmax`.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.argmin(np.array([3.0, 9.0, 3.0]), 0, "int32")
    Array(0, dtype=int32)
    """
    x = value_of("argmin", operand)
    place = axis_of("argmin", x.aval.ndim, axis)
    return as_array(prims.argmin.bind(x, axis=place, index_dtype=dtype_of(index_dtype)))
