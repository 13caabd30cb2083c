"""Arrays joined along an axis, cut apart, and repeated.

As in ``functrax.lax.shapes`` no element is computed, only found elsewhere; names, signatures and
strictness are jax.lax's.

Start at :func:`concatenate` and :func:`split`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims import reindex as prims, slicing
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.lax.operands import as_array, as_ints, axes_of, check_same_dtype, value_of
from functrax.typing import ArrayLike


def concatenate(operands: Sequence[ArrayLike] | Array, dimension: int) -> Array:
    """Arrays one after the other along an axis.

    Args:
      operands: at least one array; all of one dtype, and of one shape but for ``dimension``.
      dimension: the axis, counted from 0.

    Returns:
      An array of the operands' dtype.

    Raises:
      DTypeError, ShapeError, AxisError: if the arrays do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.concatenate([np.array([1, 2]), np.array([3])], 0)
    Array([1, 2, 3], dtype=int32)
    """
    if isinstance(operands, Array):
        operands = unstack(operands)
    if not isinstance(operands, (list, tuple)):
        raise ArgumentError(
            "concatenate takes a sequence of arrays", got=type(operands).__name__, fix="[x, y]"
        )
    return as_array(
        slicing.concatenate.bind(*(value_of("concatenate", x) for x in operands), axis=dimension)
    )


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Arrays of one shape as the slices along a new axis.

    Args:
      operands: at least one array; all of one dtype and shape.
      axis: where the new axis stands in the result.

    Returns:
      An array with one axis more than the operands.

    Raises:
      ArgumentError: if there is no array.
      DTypeError, ShapeError: if the arrays differ in dtype or shape.
      AxisError: if there is no such place.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    values = [value_of("stack", x) for x in operands]
    if not values:
        raise ArgumentError("stack takes at least one array", got="none", fix="one array or more")
    check_same_dtype("stack", values, "functrax.numpy.stack, which promotes")
    ndim = values[0].aval.ndim + 1
    (place,) = axes_of("stack", ndim, (axis,))
    if any(x.aval.shape != values[0].aval.shape for x in values):
        shown = ", ".join(x.aval.str_short() for x in values[:8])
        raise ShapeError(
            "stack: the arrays' shapes differ",
            got=shown,
            fix="arrays of one shape, or concatenate along an axis that they have",
        )
    shape = values[0].aval.shape
    slices = (*shape[:place], 1, *shape[place:])
    return as_array(
        slicing.concatenate.bind(*(prims.reshape.bind(x, shape=slices) for x in values), axis=place)
    )


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, which disappears.

    Args:
      x: an array.
      axis: the axis.

    Returns:
      As many arrays as the axis has elements.

    Raises:
      AxisError: if the axis is out of range.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.unstack(np.array([[1, 2], [3, 4]]))
    (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    value = value_of("unstack", x)
    (place,) = axes_of("unstack", value.aval.ndim, (axis,))
    shape = value.aval.shape
    rest = (*shape[:place], *shape[place + 1 :])
    return tuple(
        as_array(prims.reshape.bind(part_of(value, place, i, i + 1), shape=rest))
        for i in range(shape[place])
    )


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Cut an array into pieces of these sizes along an axis.

    Args:
      operand: an array.
      sizes: the size of each piece; together that of the axis.
      axis: the axis.

    Returns:
      An array for each size.

    Raises:
      ShapeError: if the sizes do not add up to the axis's.
      AxisError: if the axis is out of range.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.split(np.arange(3), (1, 2))
    [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    x = value_of("split", operand)
    pieces = as_ints("split", sizes, "sizes")
    (place,) = axes_of("split", x.aval.ndim, (axis,))
    size = x.aval.shape[place]
    negative = any(n < 0 for n in pieces)
    if negative or sum(pieces) != size:
        raise ShapeError(
            "split: Sizes passed to split must be nonnegative"
            if negative
            else f"split: Sum of sizes {sum(pieces)} must be equal to size {size} of axis {place}",
            got=f"sizes {pieces} for axis {place} of {x.aval.str_short()}",
            fix="sizes of 0 or more, whose sum is the axis' size",
        )
    ends = np.cumsum(pieces).tolist()
    return [as_array(part_of(x, place, end - n, end)) for n, end in zip(pieces, ends, strict=True)]


def part_of(x: Value, axis: int, begin: int, end: int, stride: int = 1) -> Value:
    """The elements from ``begin`` to ``end`` along an axis, every ``stride``-th of them."""
    shape = x.aval.shape
    start = tuple(begin if i == axis else 0 for i in range(len(shape)))
    limit = tuple(end if i == axis else n for i, n in enumerate(shape))
    strides = tuple(stride if i == axis else 1 for i in range(len(shape)))
    return slicing.slice_.bind(x, start=start, limit=limit, strides=strides)


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array ``reps[i]`` times along axis ``i``, as numpy.tile.

    Args:
      operand: an array; if it has fewer axes than ``reps``, axes of size 1 are put in front.
      reps: how often, for each axis; if there are fewer than axes, they are for the last ones.

    Returns:
      An array of shape ``(reps[0] * operand.shape[0], ...)``.

    Raises:
      ShapeError: if a count is negative, or not a known integer.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.tile(np.array([[1, 2]]), (2, 2))
    Array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """
    x = as_value(operand)
    counts = as_ints("tile", reps, "reps")
    shape = (1,) * (len(counts) - x.aval.ndim) + x.aval.shape
    counts = (1,) * (len(shape) - len(counts)) + counts
    pairs = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    dims = tuple(2 * i + 1 for i in range(len(shape)))
    spread = prims.broadcast_in_dim.bind(prims.reshape.bind(x, shape=shape), shape=pairs, dims=dims)
    total = tuple(c * n for c, n in zip(counts, shape, strict=True))
    return as_array(prims.reshape.bind(spread, shape=total))
