"""New arrays: full of one value, or counting along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims import reindex as prims
from functrax.core.prims.convert import convert_element_type
from functrax.core.tracing.primitive import literal
from functrax.core.types import dtypes
from functrax.core.types.promotion import check_positions
from functrax.lax.operands import as_array, as_ints, axis_of, dtype_of, value_of
from functrax.typing import ArrayLike, DTypeLike


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """An array full of one value.

    Args:
      shape: its shape.
      fill_value: a scalar.
      dtype: its dtype; that of the value if omitted.

    Returns:
      An array of that shape; of weak type if the value is a Python number and ``dtype`` is omitted.

    Raises:
      ShapeError: if the value is not a scalar, or a size is negative.

    >>> from functrax import lax
    >>> lax.full((2,), 1.5)
    Array([1.5, 1.5], dtype=float32, weak_type=True)
    """
    value = value_of("full", fill_value)
    if value.aval.shape:
        raise ShapeError(
            "full: the fill value is not a scalar",
            got=value.aval.str_short(),
            fix="broadcast_in_dim for an array",
        )
    if dtype is not None:
        value = convert_element_type.bind(value, dtype=dtype_of(dtype), weak_type=False)
    given = as_ints("full", shape)
    if isinstance(fill_value, (bool, int, float, complex, np.generic)):
        value = Literal(np.asarray(value), value.aval)
    return as_array(prims.broadcast_in_dim.bind(value, shape=given, dims=()) if given else value)


def full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Sequence[int] | None = None,
) -> Array:
    """An array full of one value, of the shape and dtype of ``x`` unless they are given.

    Args:
      x: an array, or anything with ``shape`` and ``dtype``.
      fill_value: a scalar.
      dtype: the dtype, if it is to be another one.
      shape: the shape, if it is to be another one.

    Returns:
      An array; of weak type if ``x`` is, and ``dtype`` is omitted.

    Raises:
      ShapeError: if the value is not a scalar, or a size is negative.
      DTypeError: if ``x`` is no array.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.full_like(np.zeros((2, 2), "int32"), 7)
    Array([[7, 7],
           [7, 7]], dtype=int32)
    """
    like: Any = x if hasattr(x, "shape") and hasattr(x, "dtype") else value_of("full_like", x)
    wanted = like.dtype if dtype is None else dtype
    out = full(like.shape if shape is None else shape, fill_value, wanted)
    if dtype is not None or not getattr(like, "weak_type", False):
        return out
    return as_array(convert_element_type.bind(out, dtype=out.dtype, weak_type=True))


def empty(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """An array of zeros: there is no memory without a value here.

    Args:
      shape: its shape.
      dtype: its dtype.

    Returns:
      An array of zeros.

    Raises:
      ShapeError: if a size is negative, or not a known integer.

    >>> from functrax import lax
    >>> lax.empty((2,), "float32")
    Array([0., 0.], dtype=float32)
    """
    return as_array(prims.full(as_ints("empty", shape), literal(0, dtype_of(dtype))))


def iota(dtype: DTypeLike, size: int) -> Array:
    """``0, 1, ..., size - 1``.

    Args:
      dtype: a dtype of numbers.
      size: how many.

    Returns:
      An array of rank 1.

    Raises:
      ShapeError: if the size is negative, or not a known integer.

    >>> from functrax import lax
    >>> lax.iota("float32", 3)
    Array([0., 1., 2.], dtype=float32)
    """
    return broadcasted_iota(dtype, (size,), 0)


@with_out_sharding
def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int) -> Array:
    """The index along one axis, in every element.

    Args:
      dtype: a dtype of numbers.
      shape: the shape of the result.
      dimension: the axis.

    Returns:
      An array of that shape.

    Raises:
      ShapeError: if a size is negative, or not a known integer.
      AxisError: if the axis is out of range.

    >>> from functrax import lax
    >>> lax.broadcasted_iota(int, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    given = as_ints("iota", shape)
    if any(n < 0 for n in given):
        raise ShapeError("iota: a size is negative", got=f"shape {given}", fix="sizes of 0 or more")
    axis, exact = axis_of("broadcasted_iota", len(given), dimension), dtype_of(dtype)
    if exact.itemsize >= 4:  # narrower ones wrap, as XLA's do
        check_positions("iota", given[axis], exact)
    return as_array(prims.iota.bind(shape=given, dtype=exact, axis=axis))


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """An array repeated to the shape of another one, as NumPy broadcasts.

    Args:
      arr: an array.
      like_arr: an array of the shape that is wanted.

    Returns:
      An array of the shape of ``like_arr`` and the dtype of ``arr``.

    Raises:
      ShapeError: if the shape does not broadcast to the other one.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.broadcast_like(np.array([1.0, 2.0]), np.zeros((2, 2)))
    Array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    x, shape = value_of("broadcast_like", arr), value_of("broadcast_like", like_arr).aval.shape
    sizes, ndim = x.aval.shape, len(shape)
    first = ndim - len(sizes)
    if first < 0 or any(n not in (1, m) for n, m in zip(sizes, shape[first:], strict=True)):
        raise ShapeError(
            "broadcast_like: the array's shape does not broadcast to the other one's",
            got=f"{sizes} and {shape}",
            fix="sizes that are equal, or 1, counted from the last axis",
        )
    return as_array(prims.broadcast_in_dim.bind(x, shape=shape, dims=tuple(range(first, ndim))))


def shape_as_value(shape: Sequence[int]) -> Array:
    """A shape as an integer array of rank 1.

    Args:
      shape: known integers.

    Returns:
      An array of the default integer dtype.

    Raises:
      ShapeError: if a size is not a known integer.

    >>> from functrax import lax
    >>> lax.shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    sizes = as_ints("shape_as_value", shape)
    return as_array(from_numpy(np.asarray(sizes, dtypes.default_int())))
