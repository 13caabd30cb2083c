"""What an index means: from ``x[...]``'s brackets to an index map or a few slices.

What enters is anything that may stand in the brackets.  :func:`read_index` makes it exact: one
hashable :data:`Entry` for each item, in order, and the integer arrays that the index reads.
Entries are all that the shape of the result depends on, so what follows from them is remembered:

- :func:`basic_plan`: only integers and slices; a slice, a reversal and a reshape;
- :func:`gather_map`: the :class:`IndexMap` from points of the result to elements of the array,
  which ``reindex`` reads by and ``scatter`` writes by.

Rules are NumPy's for shapes and JAX's for indices out of range: a negative index wraps once, then
reads are clamped (or filled) and writes are dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from operator import gt, le
from typing import Any, TypeAlias

import numpy as np

from functrax.core.arrays.array import ConcreteArray, from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import (
    ConcretizationError,
    IndexingError,
    NonConcreteBooleanIndexError,
    ShapeError,
)
from functrax.core.index.expr import Dim, IndexExpr, Load, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import add, clamp, select_n
from functrax.core.prims.comparisons import lt
from functrax.core.prims.convert import as_positions
from functrax.core.records import record
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.size_bounds import clipped, surely
from functrax.core.types.symbolic_sizes import applied, integer as as_size, is_symbolic_dim
from functrax.numpy.creation import array
from functrax.numpy.promote import broadcast_shape

Shape: TypeAlias = "tuple[int, ...]"
#: ("new",) a new axis; ("gap",) an ellipsis; ("int", i); ("slice", start, step, count);
#: ("array", number of the operand, its shape); ("truth", shape) a scalar boolean.
Entry: TypeAlias = "tuple[Any, ...]"

_NEW: Entry = ("new",)
_GAP: Entry = ("gap",)


@record
class Bounds:
    """What becomes of an index out of range.

    Args:
      clip: the nearest index inside is meant; else the point is not valid.
      wrap: a negative index counts from the end.
    """

    clip: bool
    wrap: bool = True


CLIP, CHECK = Bounds(clip=True), Bounds(clip=False)


def read_index(aval: ShapedArray, index: Any, bounds: Bounds) -> tuple[list[Entry], list[Value]]:
    """The entries of an index of an array, and the index arrays, in range as ``bounds`` says.

    Raises:
      IndexingError: for what is not an index, or too many of them.
      NonConcreteBooleanIndexError: for a traced boolean array.
    """
    known = _known_key(aval, index, bounds)
    if known is None:
        return _read(aval, index, bounds)
    found = _plans.get(known)
    if found is None:
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        found = _plans[known] = tuple(_read(aval, index, bounds)[0])
    return list(found), []


_plans: dict[Any, tuple[Entry, ...]] = {}
_MAX_PLANS = 4096


def _known_key(aval: ShapedArray, index: Any, bounds: Bounds) -> Any:
    """What the entries of an index of integers, slices, None and ellipses depend on; else None."""
    key: list[Any] = [aval.shape, bounds.clip, bounds.wrap]
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is slice:
            for x in (item.start, item.stop, item.step):
                if x is not None and type(x) is not int:
                    return None
            key.append((item.start, item.stop, item.step))
        elif kind is int or item is None or item is Ellipsis:
            key.append(item)
        else:
            return None
    return tuple(key)


def _read(aval: ShapedArray, index: Any, bounds: Bounds) -> tuple[list[Entry], list[Value]]:
    items = _expand(aval, index if type(index) is tuple else (_refuse_list(index),))
    entries: list[Entry] = []
    operands: list[Value] = []
    axis = 0
    empty: tuple[int, Any] | None = None
    for item in items:
        if item is None or item is Ellipsis:
            entries.append(_NEW if item is None else _GAP)
            continue
        if isinstance(item, bool):
            entries.append(("truth", (int(item),)))
            continue
        size = aval.shape[axis]
        if type(item) is slice:
            entries.append(_slice_entry(item, size))
        elif type(item) is int:
            entries.append(("int", _static(item, size, bounds)))
        else:
            entries.append(("array", len(operands), item.shape))
            operands.append(operand_in_range(item, size, bounds))
        if size == 0 and entries[-1][0] != "slice":
            empty = (axis, item)
        axis += 1
    if empty is not None and bounds.clip and not any(map(_names_none, entries)):
        raise IndexingError(
            f"indexing: index {_text(empty[1])} is out of bounds for axis {empty[0]} with size 0",
            got=f"{aval.str_short()} with the index {_text(empty[1])}",
            fix="a slice, which may be empty",
        )
    return entries, operands


def _names_none(entry: Entry) -> bool:
    """Whether an index array has no elements, so that all of them together name none."""
    return entry[0] in ("array", "truth") and 0 in entry[-1]


def _expand(aval: ShapedArray, index: tuple[Any, ...]) -> list[Any]:
    """One item per axis: masks become integers, and the ellipsis slices (and stays as a mark)."""
    plain = [plain_item(item) for item in index]
    if sum(item is Ellipsis for item in plain) > 1:
        raise IndexingError(
            "indexing: more than one ellipsis", got=f"x[{_text(index)}]", fix="a single `...`"
        )
    used = sum(map(axes_used, plain))
    if used > aval.ndim:
        raise IndexingError(
            f"indexing: Too many indices: array is {aval.ndim}-dimensional, "
            f"but {used} were indexed",
            got=f"{used} for {aval.str_short()}",
            fix=f"at most {aval.ndim}; None adds an axis",
        )
    whole = [slice(None)] * (aval.ndim - used)
    items: list[Any] = []
    axis = 0
    for item in plain:
        if isinstance(item, np.ndarray) and item.dtype == bool:
            _check_mask(aval, item.shape, axis)
            items.extend(np.nonzero(item))
        else:
            items.append(item)
        axis += axes_used(item)
        if item is Ellipsis:
            items.extend(whole)
            axis += len(whole)
            whole = []
    return items + whole


def axes_used(item: Any) -> int:
    """How many axes of the array an item that :func:`plain_item` gave stands for."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1


def plain_item(item: Any) -> Any:
    """An item as None, Ellipsis, slice, int, bool, NumPy array, or traced integer array."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is Ellipsis or kind is bool:
        return item
    if is_symbolic_dim(item):
        return as_value(item)
    if isinstance(item, (list, tuple)):
        item = _nested(item)
    elif hasattr(item, "__jax_array__"):
        item = item.__jax_array__()
    if type(item) is ConcreteArray:
        item = item.value
    if isinstance(item, (np.ndarray, np.generic)):
        if item.dtype == bool:
            return bool(item) if item.ndim == 0 else np.asarray(item)
        if item.dtype.kind not in "iu":
            raise _not_an_index(item, f"an array of {item.dtype}")
        return int(item) if item.ndim == 0 else item
    if isinstance(item, Array):
        if item.dtype == dtypes.bool_:
            raise _traced_mask(item)
        if not dtypes.is_integer(item.dtype):
            raise _not_an_index(item, f"an array of {item.dtype}")
        return item
    try:
        return as_size(item)
    except TypeError:
        raise _not_an_index(item, f"{_text(item)} of type {kind.__name__}") from None


def _nested(item: Sequence[Any]) -> Any:
    try:
        found = np.asarray(item)
    except ConcretizationError:  # traced numbers are among them
        return array(item)
    except ValueError:
        raise _not_an_index(item, f"the sequence {_text(item)}") from None
    return found.astype(np.int32) if found.size == 0 else found


def _refuse_list(index: Any) -> Any:
    if isinstance(index, list):
        nested = any(isinstance(item, (list, tuple, slice)) for item in index)
        marks = any(item is None or item is Ellipsis for item in index)
        made = "tuple" if nested or marks else "array"
        raise IndexingError(
            "indexing: Using a non-tuple sequence for multidimensional indexing is not allowed; "
            f"use `arr[{made}(seq)]` instead of `arr[seq]`",
            got=f"x[{_text(index)}]",
            fix="x[functrax.numpy.array(index)] for the elements named, x[tuple(index)] for one "
            "index per axis",
        )
    return index


def _not_an_index(item: Any, got: str) -> IndexingError:
    return IndexingError(
        "indexing: JAX does not support string indexing"
        if isinstance(item, str)
        else "indexing: Indexer must have integer or boolean type, got indexer with type "
        f"{getattr(item, 'dtype', type(item).__name__)}"
        if isinstance(item, (float, complex)) or hasattr(item, "dtype")
        else "indexing: takes integers, slices, `...`, None, and integer or boolean arrays",
        got=got,
        fix="index.astype('int32')" if hasattr(item, "dtype") else "an integer or an array",
    )


def _traced_mask(mask: Array) -> NonConcreteBooleanIndexError:
    return NonConcreteBooleanIndexError(
        "indexing: a traced boolean mask would make a shape that depends on values",
        got=repr(mask),
        fix="jnp.where(mask, x, other) keeps the shape; x.at[mask].set(scalar) works too",
    )


def _check_mask(aval: ShapedArray, shape: Shape, used: int) -> None:
    expected = aval.shape[used : used + len(shape)]
    if not all(own in (0, size) for own, size in zip(shape, expected, strict=True)):
        raise IndexingError(
            "indexing: boolean index did not match shape of the axes that it indexes",
            got=f"mask bool{list(shape)} at axis {used} of {aval.str_short()}",
            fix=f"a mask of shape {expected}",
        )


def _slice_entry(item: slice, size: int) -> Entry:
    if any(map(is_symbolic_dim, (size, item.start, item.stop))):
        return _symbolic_slice(item, size)
    try:
        start, stop, step = item.indices(size)
    except ConcretizationError as error:
        raise IndexingError(
            "indexing: a slice's bounds are traced, so its length is not known",
            got=_text(item),
            fix="functrax.lax.dynamic_slice(x, (start,), (length,)), or a known length",
        ) from error
    except (TypeError, ValueError) as error:
        raise IndexingError(
            f"indexing: not a slice: {error}", got=_text(item), fix="integers, and no step of 0"
        ) from None
    return ("slice", start, step, len(range(start, stop, step)))


def _symbolic_slice(item: slice, size: int) -> Entry:
    """As :func:`_slice_entry`, where a size or a bound has no value."""
    step = 1 if item.step is None else as_size(item.step)
    if step == 0:
        raise IndexingError(
            "indexing: not a slice: slice step cannot be zero", got=_text(item), fix="another step"
        )
    first, last = (0, size) if step > 0 else (-1, size - 1)

    def place(bound: Any, default: int) -> int:
        if bound is None:
            return default
        bound = as_size(bound)
        return clipped(bound + size if bound < 0 else bound, first, last)

    start, stop = (
        place(item.start, first if step > 0 else last),
        place(item.stop, last if step > 0 else first),
    )
    return (
        "slice",
        start,
        step,
        applied(max, (stop - start + step - (1 if step > 0 else -1)) // step, 0),
    )


def _static(index: int, size: int, bounds: Bounds) -> int:
    if index < 0 and bounds.wrap:
        index += size
    if not bounds.clip:
        return index
    return clipped(index, 0, clipped(size - 1, 0, size))


def operand_in_range(index: Any, size: int, bounds: Bounds) -> Value:
    """An index array in range: a constant, or equations on a traced one."""
    if type(index) is ConcreteArray:
        return _known_in_range(index.value, size, bounds, copied=False)
    if isinstance(index, np.ndarray):
        return _known_in_range(index, size, bounds, copied=True)
    return in_range(index, size, bounds)


def _known_in_range(index: Any, size: int, bounds: Bounds, copied: bool) -> Value:
    if is_symbolic_dim(size):
        return in_range(from_numpy(index), size, bounds)
    kind = dtypes.position_dtype(size)
    low, high = (int(index.min()), int(index.max())) if index.size else (0, -1)
    if low >= 0 and high < size:
        return from_numpy(index.astype(kind, copy=copied))
    # Out of range stays out of range, but must fit the dtype of positions.
    own = dtypes.iinfo(index.dtype)
    wide = np.clip(index, max(own.min, -size - 1), min(own.max, size)).astype(kind)
    if bounds.wrap:
        np.add(wide, size, out=wide, where=wide < 0)
    ends = (0, max(size - 1, 0)) if bounds.clip else (-1, size)
    return from_numpy(np.clip(wide, *ends, out=wide))


def in_range(index: Value, size: int, bounds: Bounds) -> Value:
    """A traced index array, wrapped and clamped as ``bounds`` says."""
    index = as_positions(index, size)
    if bounds.wrap and index.aval.dtype in dtypes.SIGNED:
        negative = lt.bind(index, like(index, 0))
        index = select_n.bind(negative, index, add.bind(index, like(index, size)))
    if bounds.clip:
        index = clamp.bind(like(index, 0), index, like(index, applied(max, size - 1, 0)))
    return index


@record
class BasicPlan:
    """A slice, a reversal of some axes and a reshape, in this order; what is None is left out."""

    window: tuple[Shape, Shape, Shape] | None
    turned: Shape
    shape: Shape


@functools.lru_cache(maxsize=4096)
def basic_plan(codomain: Shape, entries: tuple[Entry, ...]) -> BasicPlan:
    """How to read an index of integers and slices only."""
    start, limit, strides, turned, shape = [], [], [], [], []
    for entry in entries:
        if entry[0] == "new":
            shape.append(1)
        elif entry[0] == "int":
            start.append(entry[1])
            limit.append(entry[1] + 1)
            strides.append(1)
        elif entry[0] == "slice":
            _, first, step, count = entry
            last = first + (count - 1) * step
            lowest, highest = (first, last) if step > 0 else (last, first)
            several = not surely(le, count, 1)
            if step < 0 and several:
                turned.append(len(start))
            if not surely(gt, count, 0):  # there may be none
                highest = applied(max, highest, lowest - 1)
            start.append(lowest if count else 0)
            limit.append(highest + 1 if count else 0)
            strides.append(abs(step) if several else 1)
            shape.append(count)
    whole = tuple(limit) == codomain and not any(start) and set(strides) <= {1}
    window = None if whole else (tuple(start), tuple(limit), tuple(strides))
    return BasicPlan(window, tuple(turned), tuple(shape))


@functools.lru_cache(maxsize=4096)
def gather_map(codomain: Shape, entries: tuple[Entry, ...]) -> IndexMap:
    """The map from points of the indexed result to elements of the array.

    Raises:
      IndexingError: if the index arrays do not broadcast to one shape.
    """
    advanced = [k for k, entry in enumerate(entries) if entry[0] in ("array", "truth", "int")]
    shapes = [_entry_shape(entries[k]) for k in advanced]
    try:
        together = broadcast_shape("indexing", shapes) if shapes else ()
    except ShapeError:
        raise IndexingError(
            "indexing: the index arrays do not broadcast to one shape",
            got=f"shapes {', '.join(map(str, shapes))}",
            fix="sizes must be equal or 1; functrax.numpy.ix_ makes an open grid",
        ) from None
    adjacent = bool(advanced) and advanced[-1] - advanced[0] == len(advanced) - 1
    first = advanced[0] if adjacent else 0
    domain: list[int] = []
    block: list[IndexExpr] = []
    exprs: list[IndexExpr] = []
    placed = False
    for k, entry in enumerate(entries):
        if k == first and not placed:
            block = [Dim(len(domain) + n) for n in range(len(together))]
            domain.extend(together)
            placed = True
        kind = entry[0]
        if kind == "new":
            domain.append(1)
        elif kind == "int":
            exprs.append(as_expr(entry[1]))
        elif kind == "slice":
            exprs.append(entry[1] + entry[2] * Dim(len(domain)))
            domain.append(entry[3])
        elif kind == "array":
            exprs.append(Load(entry[1], _read_at(entry[2], block)))
    return IndexMap(tuple(domain), codomain, tuple(exprs))


def _entry_shape(entry: Entry) -> Shape:
    if entry[0] == "array":
        return entry[2]
    return entry[1] if entry[0] == "truth" else ()


def _read_at(shape: Shape, block: Sequence[IndexExpr]) -> list[IndexExpr]:
    """Where an index array is read: its axes are the last of the block, and repeat if of size 1."""
    own = block[len(block) - len(shape) :]
    return [as_expr(0) if size == 1 else dim for size, dim in zip(shape, own, strict=True)]


def _text(item: Any) -> str:
    if isinstance(item, tuple):
        return ", ".join(map(_text, item))
    if isinstance(item, Array):
        return item.aval.str_short()
    shown = repr(item)
    return shown if len(shown) <= 60 else shown[:57] + "..."
