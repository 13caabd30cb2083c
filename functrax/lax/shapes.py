"""Arrays in other shapes: broadcasting, reshaping, permuting, reversing, padding.

All are reindexes: no element is computed, only found elsewhere.  Names, signatures and
strictness are jax.lax's; :func:`broadcast` also takes the new dimensions by number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError
from functrax.core.prims import reindex as prims, slicing
from functrax.core.prims.arithmetic import select_n
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.tracing.trace import Tracer
from functrax.core.types import dtypes
from functrax.lax.operands import Shape, as_array, as_ints, axes_of, repeat, scalar, value_of
from functrax.typing import ArrayLike


@with_out_sharding
def broadcast(
    operand: ArrayLike, sizes: Sequence[int], *, dims: Sequence[int] | None = None
) -> Array:
    """Repeat an array along new axes.

    Args:
      operand: an array.
      sizes: without ``dims``, the sizes of the new axes, which come first; with ``dims``, the
        shape of the result.
      dims: which axes of the result are new; the operand's axes are the others, in order.

    Returns:
      An array of shape ``(*sizes, *operand.shape)``, or of shape ``sizes``.

    Raises:
      ShapeError: if the axes that are not new do not have the operand's sizes.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.broadcast(np.arange(3), (2,)).shape
    (2, 3)
    >>> lax.broadcast(np.ones((3, 4)), (2, 3, 5, 4), dims=(0, 2)).shape
    (2, 3, 5, 4)
    """
    x = value_of("broadcast", operand)
    shape = as_ints("broadcast", sizes)
    if dims is None:
        kept = tuple(range(len(shape), len(shape) + x.aval.ndim))
        return as_array(prims.broadcast_in_dim.bind(x, shape=(*shape, *x.aval.shape), dims=kept))
    new = axes_of("broadcast", len(shape), dims)
    kept = tuple(i for i in range(len(shape)) if i not in new)
    if tuple(shape[i] for i in kept) != x.aval.shape:
        raise ShapeError(
            "broadcast: the axes that are not new differ from the operand's",
            got=f"{x.aval.str_short()} to shape {shape} with new axes {new}",
            fix="name in dims exactly the axes that the operand lacks",
        )
    return as_array(prims.broadcast_in_dim.bind(x, shape=shape, dims=kept))


@with_out_sharding
def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Array:
    """Axis ``i`` of the operand becomes axis ``broadcast_dimensions[i]`` of the result.

    Args:
      operand: an array; an axis of size 1 is repeated along its new axis.
      shape: the shape of the result.
      broadcast_dimensions: a different axis of the result for each axis of the operand.

    Returns:
      An array of that shape and the operand's dtype.

    Raises:
      AxisError, ShapeError: if the axes do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.broadcast_in_dim(np.arange(2), (2, 3), (0,))
    Array([[0, 0, 0],
           [1, 1, 1]], dtype=int32)
    """
    x = value_of("broadcast_in_dim", operand)
    dims = as_ints("broadcast_in_dim", broadcast_dimensions, "broadcast_dimensions")
    shape = as_ints("broadcast_in_dim", shape)
    return as_array(prims.broadcast_in_dim.bind(x, shape=shape, dims=dims))


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape to which NumPy's rules broadcast arrays of the shapes.

    Args:
      shapes: any number of shapes.

    Returns:
      A tuple of sizes.

    Raises:
      ShapeError: if there is none.

    >>> from functrax import lax
    >>> lax.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = [as_ints("broadcast_shapes", shape) for shape in shapes]
    try:
        return np.broadcast_shapes(*given)
    except ValueError as error:
        raise ShapeError(
            "broadcast_shapes: Incompatible shapes for broadcasting",
            got=f"shapes={given}",
            fix="counted from the last axis, sizes must be equal or 1",
        ) from error


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Put axes of size 1 in front until the array has ``rank`` axes.

    Args:
      x: an array.
      rank: the number of axes of the result.

    Returns:
      An array of shape ``(1, ..., 1, *x.shape)``.

    Raises:
      ShapeError: if the array has more axes.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.broadcast_to_rank(np.ones((2, 3)), 4).shape
    (1, 1, 2, 3)
    """
    value = value_of("broadcast_to_rank", x)
    missing = rank - value.aval.ndim
    if missing < 0:
        raise ShapeError(
            "broadcast_to_rank: the array has more axes than that",
            got=f"rank {rank} for {value.aval.str_short()}",
            fix="a rank of at least the array's, or squeeze",
        )
    return as_array(prims.reshape.bind(value, shape=(1,) * missing + value.aval.shape))


@with_out_sharding
def reshape(
    operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None
) -> Array:
    """The same elements in row-major order, in another shape.

    Args:
      operand: an array.
      new_sizes: the shape of the result.
      dimensions: if given, the order in which to take the operand's axes first.

    Returns:
      An array of that shape and the operand's dtype.

    Raises:
      ShapeError: if the number of elements differs.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.reshape(np.arange(6).reshape(2, 3), (6,), dimensions=(1, 0))
    Array([0, 3, 1, 4, 2, 5], dtype=int32)
    """
    x = value_of("reshape", operand)
    if dimensions is not None:
        x = prims.transpose.bind(x, perm=as_ints("reshape", dimensions, "dimensions"))
    return as_array(prims.reshape.bind(x, shape=as_ints("reshape", new_sizes)))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Remove axes of size 1; negative axes count from the end.

    Args:
      array: an array.
      dimensions: the axes to remove.

    Returns:
      An array without these axes.

    Raises:
      ShapeError: if an axis has another size.
      AxisError: if an axis is out of range or named twice.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.squeeze(np.ones((1, 3, 1)), (0, -1)).shape
    (3,)
    """
    x = value_of("squeeze", array)
    axes = axes_of("squeeze", x.aval.ndim, dimensions)
    if any(x.aval.shape[a] != 1 for a in axes):
        raise ShapeError(
            "squeeze: cannot select an axis to squeeze out which has size not equal to one",
            got=f"axes {axes} of {x.aval.str_short()}",
            fix="lax.index_in_dim or a reduction for axes of other sizes",
        )
    shape = tuple(n for i, n in enumerate(x.aval.shape) if i not in axes)
    return as_array(prims.reshape.bind(x, shape=shape))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert axes of size 1, at these places of the result.

    Args:
      array: an array.
      dimensions: where the new axes stand in the result; negative ones count from its end.

    Returns:
      An array with these axes.

    Raises:
      AxisError: if a place is out of range or named twice.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.expand_dims(np.ones(3), (0, -1)).shape
    (1, 3, 1)
    """
    x = value_of("expand_dims", array)
    ndim = x.aval.ndim + len(tuple(dimensions))
    new = axes_of("expand_dims", ndim, dimensions)
    rest = iter(x.aval.shape)
    shape = tuple(1 if i in new else next(rest) for i in range(ndim))
    return as_array(prims.reshape.bind(x, shape=shape))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Make one axis of the axes ``start_dimension`` to ``stop_dimension`` (not included).

    Args:
      operand: an array.
      start_dimension: the first axis; negative ones count from the end.
      stop_dimension: the axis to stop before; the end if omitted.

    Returns:
      An array with the elements in the same order.

    Raises:
      AxisError: if there are no axes between them.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.collapse(np.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    x = value_of("collapse", operand)
    shape = x.aval.shape
    begin, end, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if begin >= end:
        raise AxisError(
            "collapse: there are no axes between start_dimension and stop_dimension",
            got=f"{start_dimension} to {stop_dimension} of {x.aval.str_short()}",
            fix="start_dimension below stop_dimension, which is not included",
        )
    merged = math.prod(shape[begin:end])
    return as_array(prims.reshape.bind(x, shape=(*shape[:begin], merged, *shape[end:])))


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Axis ``i`` of the result is axis ``permutation[i]`` of the operand.

    Args:
      operand: an array.
      permutation: each axis of the operand once, counted from 0.

    Returns:
      An array with the axes in that order.

    Raises:
      AxisError: if it is not a permutation of the axes.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.transpose(np.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = value_of("transpose", operand)
    perm = as_ints("transpose", permutation, "permutation")
    return as_array(prims.transpose.bind(x, perm=perm))


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of the elements along some axes.

    Args:
      operand: an array.
      dimensions: the axes, counted from 0.

    Returns:
      An array of the operand's shape and dtype.

    Raises:
      AxisError: if an axis is out of range or named twice.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.rev(np.arange(4).reshape(2, 2), (1,))
    Array([[1, 0],
           [3, 2]], dtype=int32)
    """
    x = value_of("rev", operand)
    return as_array(prims.rev.bind(x, axes=as_ints("rev", dimensions, "dimensions")))


def pad(
    operand: ArrayLike,
    padding_value: ArrayLike,
    padding_config: Sequence[tuple[int, int, int]],
) -> Array:
    """Put a value before, after and between the elements.

    Args:
      operand: an array.
      padding_value: a scalar of the same dtype; it may be traced, and has a derivative.
      padding_config: for each axis ``(low, high, interior)``: how many to put in front, behind
        and between neighbours; negative low and high cut off.

    Returns:
      An array of the operand's dtype; an axis of ``n`` elements has
        ``low + high + n + interior * (n - 1)``.

    Raises:
      DTypeError: if the value has another dtype.
      ShapeError, AxisError: if the padding does not fit the array.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.pad(np.arange(1, 4), 0, [(1, 2, 1)])
    Array([0, 1, 0, 2, 0, 3, 0, 0], dtype=int32)
    """
    x = value_of("pad", operand)
    config = [as_ints("pad", triple, "padding_config") for triple in padding_config]
    if any(len(triple) != 3 for triple in config):
        raise ArgumentError(
            "pad: padding_config has a triple (low, high, interior) for each axis",
            got=str(config),
            fix="[(low, high, interior), ...], one for each axis",
        )
    low, high, interior = (tuple(t[i] for t in config) for i in range(3))
    if type(padding_value) in (bool, int, float, complex) or isinstance(padding_value, np.generic):
        fill = scalar("pad", padding_value, x.aval)
        return as_array(slicing.pad.bind(x, low=low, high=high, interior=interior, fill=fill))
    value = value_of("pad", padding_value)
    if value.aval.shape != ():
        raise ShapeError(
            "pad: padding_value must be a scalar",
            got=value.aval.str_short(),
            fix="a scalar of the array's dtype",
        )
    if value.aval.dtype != x.aval.dtype:
        raise DTypeError(
            "pad: the padding value has another dtype",
            got=f"{value.aval.str_short()} for {x.aval.str_short()}",
            fix="lax.convert_element_type(padding_value, operand.dtype)",
        )
    if type(value) is ConcreteArray and not isinstance(value, Tracer):
        fill = literal(value.value, x.aval.dtype)
        return as_array(slicing.pad.bind(x, low=low, high=high, interior=interior, fill=fill))
    return _pad_traced(x, value, low, high, interior)


def _pad_traced(x: Value, value: Value, low: Shape, high: Shape, interior: Shape) -> Array:
    """A padding with a value that is not known: a choice between it and the padded array."""
    padded = slicing.pad.bind(x, low=low, high=high, interior=interior, fill=like(x, 0))
    no = literal(False, dtypes.bool_)
    here = prims.full(x.aval.shape, literal(True, dtypes.bool_))
    inside = slicing.pad.bind(here, low=low, high=high, interior=interior, fill=no)
    return as_array(select_n.bind(inside, repeat(value, padded.aval.shape), padded))
