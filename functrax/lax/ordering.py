"""Running totals along an axis, sorting, and the largest elements."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast, overload

from functrax.backends.eager.cached_traces import with_recipe
from functrax.core.arrays.operators import Array
from functrax.core.prims import arithmetic, cumulative, ordering
from functrax.core.tracing.primitive import Primitive
from functrax.lax.operands import as_array, axis_of, value_of
from functrax.typing import ArrayLike

F = TypeVar("F", bound="Callable[..., Array]")

_CUMULATIVE_DOC = """{summary}

    Args:
      operand: an array {takes}.
      axis: along which to go; negative axes count from the end.
      reverse: whether to go from the last element to the first.

    Returns:
      An array of the operand's shape and dtype.

    Raises:
      AxisError: if the axis is out of range.
      DTypeError: if the array has another dtype.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.{name}(np.array({row}))
    {shown}
    """


def _cumulative(primitive: Primitive, takes: str, row: str, shown: str) -> Callable[[F], F]:
    """What gives a function its body, and its documentation the sections after the summary."""
    name = primitive.name

    def cumulative_function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        x = value_of(name, operand)
        place = axis_of(name, x.aval.ndim, axis)
        return as_array(primitive.bind(x, axis=place, reverse=bool(reverse)))

    def decorate(template: F) -> F:
        cumulative_function.__name__ = cumulative_function.__qualname__ = name
        cumulative_function.__doc__ = _CUMULATIVE_DOC.format(
            name=name, summary=template.__doc__, takes=takes, row=row, shown=shown
        )
        return cast(F, cumulative_function)

    return decorate


_ORDERED = "that is not complex"


@_cumulative(cumulative.cumsum, "of numbers", "[1, 2, 3]", "Array([1, 3, 6], dtype=int32)")
def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The sum of the elements so far."""


@_cumulative(cumulative.cumprod, "of numbers", "[2, 3, 4]", "Array([ 2,  6, 24], dtype=int32)")
def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The product of the elements so far."""


@_cumulative(cumulative.cummax, _ORDERED, "[1.0, 3.0, 2.0]", "Array([1., 3., 3.], dtype=float32)")
def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The largest element so far; NaN wins."""


@_cumulative(
    cumulative.cummin, _ORDERED, "[1.0, 3.0, np.nan]", "Array([ 1.,  1., nan], dtype=float32)"
)
def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The smallest element so far; NaN wins."""


@_cumulative(
    cumulative.cumlogsumexp,
    "of floats",
    "[1000.0, 1000.0]",
    "Array([1000.    , 1000.6932], dtype=float32)",
)
def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Log of the sum of exp of the elements so far."""


@overload
def sort(
    operand: ArrayLike, dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> Array: ...
@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> tuple[Array, ...]: ...
def sort(
    operand: ArrayLike | Sequence[ArrayLike],
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Any:
    """Sort along an axis, upwards, with NaN last.

    Args:
      operand: an array; or a sequence of arrays of one shape, sorted together by the first ones.
      dimension: the axis.
      is_stable: whether equal elements keep their order; they do in any case.
      num_keys: by how many of several arrays to sort, the first one first.

    Returns:
      An array, or a tuple of arrays.

    Raises:
      ShapeError, AxisError, ArgumentError: if the arguments do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.sort(np.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    several = isinstance(operand, (list, tuple))
    values = [value_of("sort", x) for x in (operand if several else [operand])]  # type: ignore[union-attr]
    ndim = values[0].aval.ndim if values else 0
    outs = ordering.sort.bind(
        *values,
        dimension=axis_of("sort", ndim, dimension),
        is_stable=bool(is_stable),
        num_keys=python_operator.index(num_keys),
    )
    return tuple(map(as_array, outs)) if several else as_array(outs[0])


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort ``keys`` along an axis, and move ``values`` along with them.

    Args:
      keys: an array.
      values: an array of the same shape, of any dtype.
      dimension: the axis.
      is_stable: whether equal keys keep their order; they do in any case.

    Returns:
      ``(keys, values)``, sorted.

    Raises:
      ShapeError, AxisError: if the shapes differ, or the axis is out of range.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.sort_key_val(np.array([3, 1, 2]), np.arange(3))[1]
    Array([1, 2, 0], dtype=int32)
    """
    first, second = sort((keys, values), dimension, is_stable, 1)
    return first, second


@with_recipe
def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> list[Array]:
    """The ``k`` largest elements along an axis, the largest first, and their indices.

    Args:
      operand: an array that is not complex.
      k: how many; at most the size of the axis.
      axis: the axis.

    Returns:
      ``[values, indices]``, both of size ``k`` along the axis; the indices are int32, and of equal
      elements the first ones are chosen.  Floats are in total order: 0 is larger than -0, NaN
      larger than all numbers, and NaN of negative sign smaller.

    Raises:
      DTypeError: for complex numbers.
      ShapeError, AxisError: if the axis is out of range, or has fewer than ``k`` elements.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.top_k(np.array([5, 9, 7]), 2)
    [Array([9, 7], dtype=int32), Array([1, 2], dtype=int32)]
    """
    x = value_of("top_k", operand)
    place = axis_of("top_k", x.aval.ndim, axis)
    return [as_array(v) for v in ordering.top_k.bind(x, k=python_operator.index(k), axis=place)]


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The ``k`` largest elements along an axis, exactly: what :func:`top_k` gives.

    Args:
      operand: an array of floats.
      k: how many.
      reduction_dimension: the axis.
      recall_target: accepted for compatibility; all of them are found.
      reduction_input_size_override: accepted for compatibility.
      aggregate_to_topk: accepted for compatibility.

    Returns:
      ``[values, indices]``.

    Raises:
      DTypeError, ShapeError, AxisError: as for :func:`top_k`.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.approx_max_k(np.array([5.0, 9.0, 7.0]), 1)
    [Array([9.], dtype=float32), Array([1], dtype=int32)]
    """
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """The ``k`` smallest elements along an axis, the smallest first; see :func:`approx_max_k`.

    Args:
      operand: an array of floats.
      k: how many.
      reduction_dimension: the axis.
      recall_target: accepted for compatibility; all of them are found.
      reduction_input_size_override: accepted for compatibility.
      aggregate_to_topk: accepted for compatibility.

    Returns:
      ``[values, indices]``.

    Raises:
      DTypeError, ShapeError, AxisError: as for :func:`top_k`.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.approx_min_k(np.array([5.0, 9.0, 7.0]), 1)
    [Array([5.], dtype=float32), Array([0], dtype=int32)]
    """
    values, indices = top_k(
        as_array(arithmetic.neg(value_of("approx_min_k", operand))), k, axis=reduction_dimension
    )
    return [as_array(arithmetic.neg(value_of("approx_min_k", values))), indices]
