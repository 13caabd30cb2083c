"""Elements chosen by index arrays and by conditions: take, take_along_axis, choose, select.

Reading by positions is one ``reindex``.  Out of range, ``take`` gives NaN
(for integers the lowest value) unless a mode says otherwise, as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.core.arrays.array import from_numpy, known_index
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import (
    ArgumentError,
    ConcretizationError,
    DTypeError,
    IndexingError,
    ShapeError,
)
from functrax.core.index.expr import Dim, Load, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import modulo, select_n, stop_gradient
from functrax.core.prims.comparisons import ne
from functrax.core.prims.convert import as_positions
from functrax.core.prims.mapped import reindex
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.at import At
from functrax.numpy.axes import Shape, many_axes, one_axis
from functrax.numpy.broadcasting import broadcast_arrays
from functrax.numpy.index_plan import Bounds, operand_in_range, read_index
from functrax.numpy.indexing import fill_literal, gather, mode_name
from functrax.numpy.logic import no_out
from functrax.numpy.promote import (
    broadcast_shape,
    broadcast_value,
    promote_dtypes,
    result,
    to_array,
)
from functrax.numpy.rearranging import is_known
from functrax.numpy.searching import nonzero
from functrax.numpy.shaping import join, reshape_to, slice_axis
from functrax.typing import ArrayLike, Axes

if TYPE_CHECKING:
    from functrax.lax.gather_maps import GatherScatterMode

__all__ = [
    "choose", "compress", "extract", "select", "take", "take_along_axis", "trim_zeros",
]  # fmt: skip


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The elements, or slices along an axis, at positions.

    Args:
      a: an array.
      indices: an integer array of any shape.
      axis: None takes from the elements in row-major order.
      out: must be None.
      mode: out of range, ``"fill"`` (the default) gives ``fill_value``, ``"clip"`` the nearest
        element, and ``"wrap"`` counts around.
      unique_indices: accepted, and not needed.
      indices_are_sorted: accepted, and not needed.
      fill_value: NaN if None, and for integers the lowest (unsigned: the highest).

    Returns:
      An array of shape ``(*a.shape[:axis], *indices.shape, *a.shape[axis + 1:])``.

    Raises:
      DTypeError: if the indices are no integers.
      IndexingError: for elements of an axis that has none.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.take(jnp.array([5.0, 6.0]), jnp.array([1, -1, 7]))
      Array([ 6.,  6., nan], dtype=float32)
    """
    no_out("take", out)
    x, index = to_array("take", a), integers("take", indices)
    if axis is None:
        x, axis = reshape_to(x, (x.aval.size,)), 0
    k = one_axis("take", axis, x.aval.ndim)
    if index.aval.size and not x.aval.shape[k]:
        raise IndexingError(
            "take: Cannot do a non-empty take from an empty axis",
            got=f"axis {k} of {x.aval.str_short()}",
            fix="an axis with elements, or no indices",
        )
    if mode == "wrap":
        index, mode = wrapped_around(index, x.aval.shape[k]), "clip"
        bounds = Bounds(clip=True)
    else:
        fills = mode_name("take", mode, "fill") == "fill"
        bounds = Bounds(clip=not fills, wrap=mode != "clip")
    entries, operands = read_index(x.aval, (*[slice(None)] * k, index), bounds)
    fill = None if bounds.clip else fill_literal("take", x.aval.dtype, fill_value)
    return gather(x, entries, operands, fill)


def integers(name: str, indices: Any) -> Value:
    """An integer array.

    Raises:
      DTypeError: for another dtype.
    """
    index = to_array(name, known_index(indices), 1)
    if dtypes.is_integer(index.aval.dtype):
        return index
    raise DTypeError(
        f"{name} indices must be of integer type, got {index.aval.dtype}",
        got=index.aval.str_short(),
        fix="indices.astype('int32')",
    )


def wrapped_around(index: Value, size: int) -> Value:
    if not is_known(index):
        return modulo(as_positions(index, size), size)
    around = np.mod(np.asarray(index).astype(np.int64), max(size, 1))
    return from_numpy(around.astype(dtypes.position_dtype(size)))


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """``result[i, j] = arr[i, indices[i, j]]``, for the axis named.

    Args:
      arr: an array.
      indices: integers, of the rank of ``arr``; other axes broadcast against those of ``arr``.
      axis: None takes from the elements in row-major order, by a vector.
      mode: as for :func:`take`, but for ``"wrap"``; ``"one_hot"`` gives 0 out of range.
      fill_value: as for :func:`take`.
      wrap_negative_indices: whether negative indices count from the end; if None, they do but
        for the mode ``"promise_in_bounds"``.

    Returns:
      An array of the shape of ``indices``, the other axes broadcast.

    Raises:
      ShapeError: if ranks differ or other axes do not broadcast.
      DTypeError: if the indices are no integers.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.array([[3, 1], [5, 9]])
      >>> jnp.take_along_axis(x, jnp.argmax(x, axis=1, keepdims=True), axis=1)
      Array([[3],
             [9]], dtype=int32)
    """
    x, index = to_array("take_along_axis", arr), integers("take_along_axis", indices)
    if axis is None:
        x, axis = reshape_to(x, (x.aval.size,)), 0
    if mode == "one_hot":
        mode, fill_value = "fill", 0
    kind = mode_name("take_along_axis", mode, "fill")
    fills = kind == "fill"
    wraps = kind != "promise" if wrap_negative_indices is None else wrap_negative_indices
    k = one_axis("take_along_axis", axis, x.aval.ndim)
    index = operand_in_range(index, x.aval.shape[k], Bounds(clip=not fills, wrap=wraps))
    index_map = map_along_axis("take_along_axis", x.aval.shape, index.aval.shape, k)
    fill = fill_literal("take_along_axis", x.aval.dtype, fill_value) if fills else like(x, 0)
    return result(reindex.bind(x, index, map=index_map, fill=fill))


def _axis_to_add(shape: Shape, index: Shape, axis: int) -> str:
    """What gives indices the rank of an array, where one axis is missing in them."""
    axis %= len(shape)
    others = (*shape[:axis], *shape[axis + 1 :])
    if index != others:
        return "indices of as many axes as the array has; indices[None] adds one in front"
    added = "..., None" if axis == len(shape) - 1 else ", ".join([":"] * axis + ["None"])
    return f"indices[{added}], an index of axis {axis} for each place of the other axes"


def map_along_axis(name: str, shape: Shape, index: Shape, axis: int) -> IndexMap:
    if len(shape) != len(index):
        raise ShapeError(
            f"{name}: the array and the indices have different ranks",
            got=f"shapes {shape} and {index}",
            fix=_axis_to_add(shape, index, axis),
        )
    others = [(*s[:axis], 1, *s[axis + 1 :]) for s in (shape, index)]
    whole = list(broadcast_shape(name, others))
    whole[axis] = index[axis]
    dims = [Dim(k) for k in range(len(whole))]
    load = Load(0, [as_expr(0) if n == 1 else d for n, d in zip(index, dims, strict=True)])
    exprs = [as_expr(0) if n == 1 else d for n, d in zip(shape, dims, strict=True)]
    exprs[axis] = load
    return IndexMap(tuple(whole), shape, tuple(exprs))


def choose(
    a: ArrayLike, choices: ArrayLike | Sequence[ArrayLike], out: None = None, mode: str = "raise"
) -> Array:
    """``result[i] = choices[a[i]][i]``, of arrays that broadcast.

    Args:
      a: which choice, an integer array.
      choices: a sequence of arrays, or an array whose rows are the choices.
      out: must be None.
      mode: out of range, ``"raise"`` an error (``a`` must be known), ``"clip"``, ``"wrap"``.

    Returns:
      An array of the shape to which ``a`` and the choices broadcast.

    Raises:
      ArgumentError: for a choice that does not exist, and another mode.
      ConcretizationError: for a traced ``a`` with ``"raise"``.
      DTypeError: if ``a`` holds no integers.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), 10])
      Array([ 1, 10,  3], dtype=int32)
    """
    no_out("choose", out)
    which = integers("choose", a)
    listed = list(choices) if isinstance(choices, (list, tuple)) else _rows(choices)
    values = [result(x) for x in promote_dtypes("choose", *listed)]
    count = len(values)
    if mode == "raise":
        _check_choices(which, count)
    elif mode == "wrap":
        which = wrapped_around(which, count)
    elif mode != "clip":
        raise ArgumentError("choose: unknown mode", got=repr(mode), fix="'clip', 'wrap', 'raise'")
    which = operand_in_range(which, count, Bounds(clip=True, wrap=False))
    which, *values = broadcast_arrays(which, *values)
    shape = which.aval.shape
    table = join([reshape_to(x, (1, *shape)) for x in values], 0)
    dims = tuple(Dim(k) for k in range(len(shape)))
    index_map = IndexMap(shape, (count, *shape), (Load(0, dims), *dims))
    return result(reindex.bind(table, which, map=index_map, fill=like(table, 0)))


def _rows(choices: Any) -> list[Value]:
    x = to_array("choose", choices, 1)
    return [At(x)[k].get() for k in range(x.aval.shape[0])]


def _check_choices(which: Value, count: int) -> None:
    if not is_known(which):
        raise ConcretizationError(
            "choose: mode 'raise' needs to know the values of a, which is traced",
            got=which.aval.str_short(),
            fix="mode='clip' or mode='wrap'",
        )
    values = np.asarray(which)
    if values.size and not 0 <= values.min() <= values.max() < count:
        raise ArgumentError(
            "invalid entry in choice array: choose has no such choice",
            got=f"values from {values.min()} to {values.max()}, for {count} choices",
            fix="mode='clip' or mode='wrap'",
        )


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: ArrayLike = 0) -> Array:
    """The element of the first choice whose condition holds, else the default.

    Args:
      condlist: conditions; they broadcast with the choices.
      choicelist: one choice for each condition, an array or a scalar.
      default: where no condition holds.

    Returns:
      An array of the broadcast shape, in the dtype in which the choices and the default meet.

    Raises:
      ArgumentError: if there are no conditions, or not one for each choice.
      ShapeError: for shapes that do not broadcast.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.arange(5)
      >>> jnp.select([x < 1, x > 3], [x - 10, x * 10], default=x)
      Array([-10,   1,   2,   3,  40], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            "select: needs one condition for each choice, and at least one",
            got=f"{len(condlist)} conditions, {len(choicelist)} choices",
            fix="two lists of one length",
        )
    values = [result(x) for x in promote_dtypes("select", default, *choicelist)]
    conditions = [_truth(to_array("select", c, k)) for k, c in enumerate(condlist)]
    shape = broadcast_shape("select", [x.aval.shape for x in (*values, *conditions)])
    out, *choices = (broadcast_value(x, shape) for x in values)
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        out = select_n.bind(broadcast_value(condition, shape), out, choice)
    return result(out)


def _truth(x: Value) -> Value:
    return x if x.aval.dtype == dtypes.bool_ else ne.bind(x, like(x, 0))


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: ArrayLike = 0,
    out: None = None,
) -> Array:
    """The slices along an axis for which the condition holds.

    Args:
      condition: a vector; elements of the axis past its end are left out.
      a: an array.
      axis: None takes from the elements in row-major order.
      size: the number of slices in the result, needed if the condition is traced.
      fill_value: what the result is filled up with.
      out: must be None.

    Returns:
      An array whose size along ``axis`` is the number of slices, or ``size``.

    Raises:
      ConcretizationError: if the condition is traced and there is no size.
      ShapeError: if the condition is not a vector.
      UnavailableError: for ``out``.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.compress(jnp.array([True, False, True]), jnp.array([5, 6, 7]))
      Array([5, 7], dtype=int32)
    """
    no_out("compress", out)
    mask, x = to_array("compress", condition), to_array("compress", a, 1)
    if mask.aval.ndim != 1:
        raise ShapeError(
            "compress: the condition is a vector",
            got=mask.aval.str_short(),
            fix="a condition of rank 1; x[mask] takes masks of any rank",
        )
    if axis is None:
        x, axis = reshape_to(x, (x.aval.size,)), 0
    k = one_axis("compress", axis, x.aval.ndim)
    (where,) = nonzero(mask, size=size, fill_value=x.aval.shape[k])
    return take(x, where, k, fill_value=fill_value)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: ArrayLike = 0
) -> Array:
    """The elements for which the condition holds, in row-major order; as :func:`compress`.

    Args:
      condition: an array of as many elements as ``arr``.
      arr: an array.
      size: the number of elements in the result, needed if the condition is traced.
      fill_value: what the result is filled up with.

    Returns:
      A vector.

    Raises:
      ConcretizationError: if the condition is traced and there is no size.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.array([[5, 6], [7, 8]])
      >>> jnp.extract(x > 5, x)
      Array([6, 7, 8], dtype=int32)
    """
    mask, x = to_array("extract", condition), to_array("extract", arr, 1)
    return compress(reshape_to(mask, (mask.aval.size,)), x, size=size, fill_value=fill_value)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes = None) -> Array:
    """Without the zeros at the ends of axes.

    Args:
      filt: an array whose values are known while tracing.
      trim: contains ``"f"`` for the front, ``"b"`` for the back.
      axis: an axis, or several; None means all.

    Returns:
      A part of the array.

    Raises:
      ArgumentError: for another ``trim``.
      ConcretizationError: if the array is traced.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.trim_zeros(jnp.array([0, 3, 0, 4, 0]))
      Array([3, 0, 4], dtype=int32)
    """
    if not trim or set(trim.lower()) - set("fb"):
        raise ArgumentError("trim_zeros: unknown ends", got=repr(trim), fix="'f', 'b' or 'fb'")
    x = to_array("trim_zeros", filt)
    axes = many_axes("trim_zeros", axis, x.aval.ndim)
    known = stop_gradient.bind(x)
    if not is_known(known):
        raise ConcretizationError(
            "trim_zeros: the shape of the result depends on the values of a traced array",
            got=x.aval.str_short(),
            fix="a slice of known size",
        )
    places = np.argwhere(np.asarray(known) != 0)
    for k in axes:
        size = x.aval.shape[k]
        start = (places[:, k].min() if len(places) else size) if "f" in trim.lower() else 0
        end = (places[:, k].max() + 1 if len(places) else start) if "b" in trim.lower() else size
        x = slice_axis(x, k, int(start), int(end))
    return result(x)
