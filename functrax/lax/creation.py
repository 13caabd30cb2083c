"""New arrays: full of one value, or counting along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.errors import ShapeError
from functrax.core.jaxpr import Literal
from functrax.core.operators import Array
from functrax.core.primitive import literal
from functrax.core.prims import reindex as prims
from functrax.core.prims.convert import convert_element_type
from functrax.lax.operands import (
    ArrayLike,
    DTypeLike,
    as_array,
    as_ints,
    axis_of,
    dtype_of,
    value_of,
)


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """An array full of one value.

    Args:
      shape: its shape.
      fill_value: a scalar.
      dtype: its dtype; that of the value if omitted.

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
    x: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None
) -> Array:
    """An array full of one value, of the shape and dtype of ``x`` unless they are given.

    Args:
      x: an array, or anything with ``shape`` and ``dtype``.
      fill_value: a scalar.
      dtype: the dtype, if it is to be another one.
      shape: the shape, if it is to be another one.
    """
    like = x if hasattr(x, "shape") and hasattr(x, "dtype") else value_of("full_like", x)
    wanted = like.dtype if dtype is None else dtype
    out = full(like.shape if shape is None else shape, fill_value, wanted)
    if dtype is not None or not getattr(like, "weak_type", False):
        return out
    return as_array(convert_element_type.bind(out, dtype=out.dtype, weak_type=True))


def empty(shape: Sequence[int], dtype: DTypeLike) -> Array:
    """An array of zeros: there is no memory without a value here."""
    return as_array(prims.full(as_ints("empty", shape), literal(0, dtype_of(dtype))))


def iota(dtype: DTypeLike, size: int) -> Array:
    """``0, 1, ..., size - 1``.

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

    >>> from functrax import lax
    >>> lax.broadcasted_iota(int, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int32)
    """
    given = as_ints("iota", shape)
    if any(n < 0 for n in given):
        raise ShapeError("iota: a size is negative", got=f"shape {given}", fix="sizes of 0 or more")
    axis = axis_of("broadcasted_iota", len(given), dimension)
    return as_array(prims.iota.bind(shape=given, dtype=dtype_of(dtype), axis=axis))
