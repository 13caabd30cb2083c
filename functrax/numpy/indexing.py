"""``x[...]``: reading by an index, and the general gather that ``take`` and ``.at`` share.

What the brackets mean is worked out in :mod:`functrax.numpy.index_plan`.  An index of integers
and slices becomes a slice, a reversal and a reshape, each only where needed; any other becomes
one ``reindex`` by a map that reads the index arrays.

Start at :func:`getitem`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import ArgumentError, IndexingError
from functrax.core.ir.jaxpr import Literal
from functrax.core.options.config import Override, state as options
from functrax.core.prims import reindex as prims, slicing
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import highest, lowest
from functrax.core.tracing.primitive import Value, literal
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.dtypes import DType
from functrax.core.types.size_bounds import clipped
from functrax.numpy.index_plan import (
    CLIP,
    Entry,
    axes_used,
    basic_plan,
    gather_map,
    plain_item,
    read_index,
)
from functrax.numpy.promote import result, to_array

__all__ = ["getitem"]


def getitem(x: Any, index: Any) -> Value:
    """``x[index]`` with NumPy's basic and advanced indexing.

    Args:
      x: an array.
      index: integers, slices, ``...``, None, integer and boolean arrays, or a tuple of them.
        Boolean arrays must be known while tracing.

    Returns:
      An array of NumPy's shape for that index.  A negative index counts from the end; an index
      that is then out of range means the nearest element, as in JAX.

    Raises:
      IndexingError: for what is not an index (lists and floats among them), and too many indices.
      NonConcreteBooleanIndexError: for a traced boolean mask.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.arange(12).reshape(3, 4)
      >>> x[1:, ::-2]
      Array([[ 7,  5],
             [11,  9]], dtype=int32)
      >>> x[jnp.array([0, 2]), jnp.array([1, 1])]
      Array([1, 9], dtype=int32)
    """
    value = to_array("indexing", x)
    if options.check_static_indices:
        check_static(value.aval, index)
    if type(index) is int and value.aval.shape:
        return _row(value, index)
    entries, operands = read_index(value.aval, index, CLIP)
    return gather(value, entries, operands)


class _Known(threading.local):
    seen: Callable[[tuple[int, ...], int, int], None] | None = None


_known = _Known()


@contextmanager
def known_indices(seen: Callable[[tuple[int, ...], int, int], None]) -> Iterator[None]:
    """Within the block, give known indices that are out of bounds to ``seen``.

    Args:
      seen: takes the array's shape, the index and its axis.
    """
    before, _known.seen = _known.seen, seen
    try:
        with Override("check_static_indices", True):
            yield
    finally:
        _known.seen = before


def check_static(aval: ShapedArray, index: Any, wrap: bool = True) -> None:
    """Refuse integers among the items of an index that are out of range.

    Raises:
      IndexingError: for one that is, and for what :func:`read_index` refuses.
    """
    read_index(aval, index, CLIP)
    given = index if type(index) is tuple else (index,)
    used = [axes_used(plain_item(item)) for item in given]
    axis = 0
    for item, count in zip(given, used, strict=True):
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            size = aval.shape[axis]
            if not (-size if wrap else 0) <= item < size:
                if _known.seen is not None:
                    _known.seen(aval.shape, int(item), axis)
                    axis += count
                    continue
                raise IndexingError(
                    f"indexing: index {item} out of bounds for axis {axis} with size {size}",
                    got=f"{aval.str_short()}, and check_static_indices is on",
                    fix="an index in range, or .at[index].get(mode='clip')",
                )
        axis += aval.ndim - sum(used) if item is Ellipsis else count


def _row(x: Value, index: int) -> Value:
    """``x[index]`` for a Python integer."""
    shape = x.aval.shape
    size, rest = shape[0], shape[1:]
    if not size:
        raise IndexingError(
            f"indexing: index {index} is out of bounds for axis 0 with size 0",
            got=f"{x.aval.str_short()} with the index {index}",
            fix="a slice, which may be empty",
        )
    place = clipped(index + size if index < 0 else index, 0, size - 1)
    zeros = (0,) * len(rest)
    row = x
    if size != 1:
        row = slicing.slice_.bind(
            x, start=(place, *zeros), limit=(place + 1, *rest), strides=(1,) * len(shape)
        )
    return result(prims.reshape.bind(row, shape=rest))


def gather(
    x: Value, entries: Sequence[Entry], operands: Sequence[Value], fill: Literal | None = None
) -> Value:
    """Read ``x`` by an index that :func:`read_index` made exact.

    Args:
      x: the array.
      entries: one for each item of the index.
      operands: the integer arrays that it reads.
      fill: what an index out of range gives; needed where the index was not clamped.
    """
    key = tuple(entries)
    shape = x.aval.shape
    if fill is None and all(entry[0] not in ("array", "truth") for entry in key):
        return result(_basic(x, key))
    fill = literal(0, x.aval.dtype) if fill is None else fill
    return result(reindex.bind(x, *operands, map=gather_map(shape, key), fill=fill))


def _basic(x: Value, entries: tuple[Entry, ...]) -> Value:
    plan = basic_plan(x.aval.shape, entries)
    if plan.window is not None:
        start, limit, strides = plan.window
        x = slicing.slice_.bind(x, start=start, limit=limit, strides=strides)
    if plan.turned:
        x = prims.rev.bind(x, axes=plan.turned)
    return x if x.aval.shape == plan.shape else prims.reshape.bind(x, shape=plan.shape)


def mode_name(name: str, mode: Any, default: str) -> str:
    """``"fill"``, ``"clip"`` or ``"promise"``: what an index out of range does.

    Args:
      name: the function, for errors.
      mode: ``"fill"`` or ``"drop"``, ``"clip"``, ``"promise_in_bounds"``, None for the default,
        or a member of an enumeration of these names.
      default: the result for None.

    Raises:
      ArgumentError: for another mode.
    """
    if mode is None:
        return default
    found = _MODES.get(str(getattr(mode, "name", mode)).lower())
    if found is None:
        raise ArgumentError(
            f"{name}: unknown mode",
            got=repr(mode),
            fix="'fill' or 'drop', 'clip', 'promise_in_bounds'",
        )
    return found


_MODES: Final = {
    "fill": "fill",
    "drop": "fill",
    "fill_or_drop": "fill",
    "clip": "clip",
    "promise_in_bounds": "promise",
}


def fill_literal(name: str, dtype: DType, fill_value: Any = None) -> Literal:
    """What an index out of range reads: NaN, or for integers the lowest (unsigned: the highest).

    Raises:
      ArgumentError: if ``fill_value`` is not a scalar known while tracing.
    """
    if fill_value is None:
        return literal(_missing(dtype), dtype)
    try:
        return literal(np.asarray(fill_value).astype(dtype).reshape(()), dtype)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name}: fill_value is a scalar known while tracing",
            got=repr(fill_value),
            fix="a Python number",
        ) from error


def _missing(dtype: DType) -> Any:
    if dtype == dtypes.bool_:
        return True
    if dtypes.is_inexact(dtype):
        return np.nan
    return highest(dtype) if dtype in dtypes.UNSIGNED else lowest(dtype)
