"""Arrays put together and taken apart: concatenate, stack, block, split.

Joining is one ``concatenate`` (after reshapes), splitting is a ``slice`` for each part.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.axes import integer, one_axis
from functrax.numpy.logic import no_out
from functrax.numpy.promote import convert, promote_dtypes, result, to_array
from functrax.numpy.shaping import (
    atleast_3d,
    join,
    reshape_to,
    slice_axis,
)
from functrax.typing import ArrayLike, DTypeLike

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack",
    "hsplit", "hstack", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip


def concatenate(
    arrays: ArrayLike | Sequence[ArrayLike], axis: int | None = 0, dtype: DTypeLike | None = None
) -> Array:
    """Arrays joined along an axis.

    Args:
      arrays: a sequence of arrays, of equal sizes along all other axes; or one array, whose rows
        are joined.
      axis: the axis along which they are joined; None joins all their elements.
      dtype: of the result; the dtype in which the arrays meet if None.

    Returns:
      An array whose size along ``axis`` is the sum of theirs.

    Raises:
      ArgumentError: if there is no array.
      ShapeError: if ranks or sizes differ.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.concatenate([jnp.arange(2), jnp.array([5.0])])
      Array([0., 1., 5.], dtype=float32)
    """
    values = _operands("concatenate", arrays, dtype)
    if axis is None:
        values = [reshape_to(x, (x.aval.size,)) for x in values]
        axis = 0
    return _join("concatenate", values, axis)


def _operands(name: str, arrays: Any, dtype: Any = None) -> list[Value]:
    """The arrays in one dtype."""
    if isinstance(arrays, (Array, np.ndarray)):
        arrays = unstack(arrays)
    elif not isinstance(arrays, (list, tuple)):
        raise ArgumentError(
            f"{name}: takes a sequence of arrays",
            got=f"{type(arrays).__name__}",
            fix=f"{name}([a, b])",
        )
    if not arrays:
        raise ArgumentError(
            f"{name}: needs at least one array", got="none", fix="one array or more"
        )
    values = promote_dtypes(name, *arrays)
    if dtype is None:
        return values
    wanted = dtypes.canonicalize_dtype(dtypes.as_dtype(dtype))
    return [convert(x, wanted) for x in values]


def _join(name: str, values: Sequence[Value], axis: int) -> Value:
    first = values[0].aval
    k = one_axis(name, axis, first.ndim)
    rest = first.shape[:k] + first.shape[k + 1 :]
    for x in values:
        shape = x.aval.shape
        if len(shape) != first.ndim or shape[:k] + shape[k + 1 :] != rest:
            raise ShapeError(
                f"{name}: arrays differ in rank, or in size along another axis than {k}",
                got=", ".join(v.aval.str_short() for v in values),
                fix="arrays that differ only along the axis that is joined",
            )
    return result(join(values, k))


def concat(arrays: ArrayLike | Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """:func:`concatenate` under the array API's name.

    Args:
      arrays: a sequence of arrays, of equal sizes along all other axes.
      axis: the axis along which they are joined; None joins all their elements.

    Returns:
      An array whose size along ``axis`` is the sum of theirs.

    Raises:
      ArgumentError: if there is no array.
      ShapeError: if ranks or sizes differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.concat([jnp.zeros((2, 3)), jnp.ones((2, 1))], axis=1).shape
      (2, 4)
    """
    return concatenate(arrays, axis)


def stack(
    arrays: ArrayLike | Sequence[ArrayLike],
    axis: int = 0,
    out: None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Arrays of one shape joined along a new axis.

    Args:
      arrays: a sequence of arrays of one shape; or one array, whose rows are stacked.
      axis: where the new axis stands in the result.
      out: must be None.
      dtype: of the result; the dtype in which the arrays meet if None.

    Returns:
      An array with one more axis, whose size is the number of arrays.

    Raises:
      ShapeError: if the shapes differ.
      ArgumentError: if there is no array.
      AxisError: for an axis out of range.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.stack([jnp.zeros(3), jnp.ones(3)], axis=1).shape
      (3, 2)
    """
    no_out("stack", out)
    values = _operands("stack", arrays, dtype)
    shape = values[0].aval.shape
    if any(x.aval.shape != shape for x in values):
        raise ShapeError(
            "stack: the arrays have different shapes",
            got=", ".join(x.aval.str_short() for x in values),
            fix="arrays of one shape; concatenate joins along an axis that they have",
        )
    k = one_axis("stack", axis, len(shape) + 1)
    wide = (*shape[:k], 1, *shape[k:])
    return join([reshape_to(x, wide) for x in values], k)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, which they do not have.

    Args:
      x: an array of at least one axis.
      axis: the axis that is taken apart.

    Returns:
      A tuple of arrays, one for each element of the axis.

    Raises:
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.unstack(jnp.array([[1, 2], [3, 4]]), axis=1)
      (Array([1, 3], dtype=int32), Array([2, 4], dtype=int32))
    """
    value = to_array("unstack", x)
    k = one_axis("unstack", axis, value.aval.ndim)
    shape = value.aval.shape
    rest = shape[:k] + shape[k + 1 :]
    parts = (slice_axis(value, k, i, i + 1) for i in range(shape[k]))
    return tuple(result(reshape_to(part, rest)) for part in parts)


def vstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Joined along axis 0; vectors are rows.

    Args:
      tup: a sequence of arrays.
      dtype: of the result; the dtype in which the arrays meet if None.

    Returns:
      An array of at least two axes.

    Raises:
      ArgumentError: if there is no array.
      ShapeError: if sizes along other axes differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.vstack([jnp.array([1, 2]), jnp.array([3, 4])])
      Array([[1, 2],
             [3, 4]], dtype=int32)
    """
    values = _operands("vstack", tup, dtype)
    return _join("vstack", [_at_least_2d(x) for x in values], 0)


def _at_least_2d(x: Value) -> Value:
    shape = x.aval.shape
    return x if len(shape) > 1 else reshape_to(x, (1,) * (2 - len(shape)) + shape)


def hstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Joined along axis 1; vectors along their only one.

    Args:
      tup: a sequence of arrays; scalars are vectors of one element.
      dtype: of the result; the dtype in which the arrays meet if None.

    Returns:
      An array of at least one axis.

    Raises:
      ArgumentError: if there is no array.
      ShapeError: if sizes along other axes differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.hstack([jnp.array([1, 2]), 3])
      Array([1, 2, 3], dtype=int32)
    """
    values = [reshape_to(x, x.aval.shape or (1,)) for x in _operands("hstack", tup, dtype)]
    return _join("hstack", values, 0 if values[0].aval.ndim == 1 else 1)


def dstack(tup: ArrayLike | Sequence[ArrayLike], dtype: DTypeLike | None = None) -> Array:
    """Joined along axis 2; ``(n,)`` becomes ``(1, n, 1)``, ``(m, n)`` ``(m, n, 1)``.

    Args:
      tup: a sequence of arrays.
      dtype: of the result; the dtype in which the arrays meet if None.

    Returns:
      An array of at least three axes.

    Raises:
      ArgumentError: if there is no array.
      ShapeError: if sizes along other axes differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.dstack([jnp.zeros((2, 3)), jnp.ones((2, 3))]).shape
      (2, 3, 2)
    """
    values = [atleast_3d(result(x)) for x in _operands("dstack", tup, dtype)]
    return _join("dstack", values, 2)


def column_stack(tup: ArrayLike | Sequence[ArrayLike]) -> Array:
    """Joined along axis 1; vectors are columns.

    Args:
      tup: a sequence of arrays.

    Returns:
      An array of at least two axes.

    Raises:
      ArgumentError: if there is no array.
      ShapeError: if sizes along other axes differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.column_stack([jnp.array([1, 2]), jnp.array([3, 4])])
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    values = _operands("column_stack", tup)
    columns = [x if x.aval.ndim > 1 else reshape_to(x, (x.aval.size, 1)) for x in values]
    return _join("column_stack", columns, 1)


def block(arrays: Any) -> Array:
    """Arrays joined as nested lists lay them out: the innermost lists along the last axis.

    Args:
      arrays: an array, or nested lists of arrays and scalars, each in as many lists.

    Returns:
      One array.

    Raises:
      ArgumentError: if the lists are empty, or not equally deep.
      ShapeError: if sizes do not fit.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.block([[jnp.ones((1, 1)), jnp.zeros((1, 2))], [jnp.zeros((1, 3))]])
      Array([[1., 0., 0.],
             [0., 0., 0.]], dtype=float32)
    """
    depth = _depth(arrays)
    ndim = max(depth, _most_axes(arrays))
    return _block(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(x) for x in arrays}
    if len(depths) != 1:
        raise ArgumentError(
            "block: lists are empty, or not equally deep",
            got=f"depths {sorted(depths)}",
            fix="each array in as many lists",
        )
    return depths.pop() + 1


def _most_axes(arrays: Any) -> int:
    if isinstance(arrays, list):
        return max(map(_most_axes, arrays))
    return len(np.shape(arrays)) if not isinstance(arrays, Array) else arrays.ndim


def _block(arrays: Any, depth: int, ndim: int) -> Value:
    if not depth:
        x = to_array("block", arrays)
        return reshape_to(x, (1,) * (ndim - x.aval.ndim) + x.aval.shape)
    parts = promote_dtypes("block", *[_block(x, depth - 1, ndim) for x in arrays])
    return _join("block", parts, ndim - depth)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """``values`` after ``arr``; both in row-major order if ``axis`` is None.

    Args:
      arr: an array.
      values: another; of equal sizes along all other axes, if ``axis`` is given.
      axis: the axis along which they are joined; None joins all their elements.

    Returns:
      A new array, in the dtype in which the two meet.

    Raises:
      ShapeError: if ranks or sizes differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.append(jnp.array([1, 2]), jnp.array([3]))
      Array([1, 2, 3], dtype=int32)
    """
    return concatenate([arr, values], axis)


def array_split(
    ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int], axis: int = 0
) -> list[Array]:
    """Parts along an axis; a number of sections need not divide the size.

    Args:
      ary: an array of at least one axis.
      indices_or_sections: the number of parts, the first of which are longer by one if it does not
        divide the size; or the positions at which parts begin.
      axis: the axis that is split.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: for a number of parts below 1.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> [x.shape for x in jnp.array_split(jnp.zeros(7), 3)]
      [(3,), (2,), (2,)]
    """
    return _split("array_split", ary, indices_or_sections, axis)


def split(
    ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int], axis: int = 0
) -> list[Array]:
    """Parts along an axis.

    Args:
      ary: an array.
      indices_or_sections: the number of equal parts, or the positions at which parts begin.
      axis: the axis that is split.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: if the number of parts does not divide the size.
      AxisError: for an axis out of range.

    Example:
      >>> import functrax.numpy as jnp
      >>> [x.shape for x in jnp.split(jnp.zeros(7), [2, 3])]
      [(2,), (1,), (4,)]
    """
    return _split("split", ary, indices_or_sections, axis, even=True)


def _split(name: str, ary: Any, where: Any, axis: int, even: bool = False) -> list[Value]:
    x = to_array(name, ary)
    k = one_axis(name, axis, x.aval.ndim)
    size = x.aval.shape[k]
    if isinstance(where, (tuple, list)) or np.ndim(where):
        bounds = [0, *(integer(name, "a position", p) for p in where), size]
        starts = [min(max(p + size if p < 0 else p, 0), size) for p in bounds[:-1]]
        ends = [*starts[1:], size]
    else:
        count = integer(name, "the number of sections", where)
        if count < 1 or (even and size % count):
            raise ShapeError(
                f"{name}: the sections cannot be equal",
                got=f"{count} sections of {size} elements along axis {k}",
                fix="a number that divides the size, or array_split",
            )
        small, more = divmod(size, count)
        sizes = [small + 1] * more + [small] * (count - more)
        ends = list(itertools.accumulate(sizes))
        starts = [0, *ends[:-1]]
    return [slice_axis(x, k, a, max(a, b)) for a, b in zip(starts, ends, strict=True)]


def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """:func:`split` along axis 1, or along the only axis.

    Args:
      ary: an array of at least one axis.
      indices_or_sections: the number of equal parts, or the positions at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: if the number of parts does not divide the size.

    Example:
      >>> import functrax.numpy as jnp
      >>> [x.shape for x in jnp.hsplit(jnp.zeros((2, 6)), 3)]
      [(2, 2), (2, 2), (2, 2)]
    """
    x = to_array("hsplit", ary)
    return _split("hsplit", x, indices_or_sections, min(1, x.aval.ndim - 1), even=True)


def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """:func:`split` along axis 0.

    Args:
      ary: an array of at least one axis.
      indices_or_sections: the number of equal parts, or the positions at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: if the number of parts does not divide the size.

    Example:
      >>> import functrax.numpy as jnp
      >>> [x.shape for x in jnp.vsplit(jnp.zeros((4, 2)), 2)]
      [(2, 2), (2, 2)]
    """
    return _split("vsplit", ary, indices_or_sections, 0, even=True)


def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike | Sequence[int]) -> list[Array]:
    """:func:`split` along axis 2.

    Args:
      ary: an array of at least three axes.
      indices_or_sections: the number of equal parts, or the positions at which parts begin.

    Returns:
      A list of arrays.

    Raises:
      ShapeError: if the number of parts does not divide the size.
      AxisError: if there is no third axis.

    Example:
      >>> import functrax.numpy as jnp
      >>> [x.shape for x in jnp.dsplit(jnp.zeros((1, 2, 4)), [1])]
      [(1, 2, 1), (1, 2, 3)]
    """
    return _split("dsplit", ary, indices_or_sections, 2, even=True)
