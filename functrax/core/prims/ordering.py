"""Sorting, and the largest elements: opaque operations whose derivatives are gathers.

The order is that of ``lax.sort``: NaN after all numbers, the two zeros equal, complex numbers by
real part first, ties in their given order.  That of ``lax.top_k`` is IEEE's total order: 0 is
larger than -0, a NaN larger or smaller than all numbers by its sign.  A tangent goes where its
value goes: the positions are sorted along with the values, and a ``reindex`` reads the tangents by
them.

Start at :class:`Sort`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import iota
from functrax.core.prims.shape_checks import check_axes
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Opaque,
    Ops,
    Sample,
    Tangents,
    Value,
    like,
    spread,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import check_positions

_F32 = dtypes.float32


def _keys(x: Any) -> list[Any]:
    """An array as arrays that NumPy orders as ``lax.sort`` does, the most important first."""
    if x.dtype == dtypes.bfloat16:
        return [x.astype(np.float32)]
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def _order(operands: Sequence[Any], axis: int) -> Any:
    """The stable permutation along an axis that sorts by the operands, the first one first."""
    keys = [key for x in operands for key in _keys(x)]
    if len(keys) > 1:
        return np.lexsort(keys[::-1], axis=axis)
    (key,) = keys
    if key.dtype.itemsize > 4 or key.size < _SMALL or key.shape[axis] >= 2**32:
        return np.argsort(key, axis=axis, kind="stable")
    # One number of 64 bits for each element: its rank, then its position.  NumPy sorts numbers
    # several times faster than it sorts positions, and no two are equal.
    line = np.arange(key.shape[axis], dtype=np.uint64)
    positions = line.reshape([-1 if d == axis % key.ndim else 1 for d in range(key.ndim)])
    packed = _rank(key).astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= positions
    packed.sort(axis=axis)
    packed &= np.uint64(0xFFFFFFFF)
    return packed.view(np.int64)


def _descending(x: Any, axis: int) -> Any:
    """The stable permutation along an axis that puts the largest element first."""
    # Sorted backwards and read from the end, so that the first of equal elements is first.
    last = x.shape[axis] - 1
    return last - np.flip(_order([np.flip(x, axis)], axis), axis)


def _largest(x: Any, k: int, axis: int) -> Any:
    """The positions of the ``k`` largest elements along an axis, the largest first.

    The largest elements of some blocks bound the ``k``-th largest from below, so all but a few
    elements are put aside by one comparison.
    """
    x = _total(x)
    size = x.shape[axis]
    blocks = min(8 * k, size)
    width = size // blocks if blocks else 0
    if width < _FEW or x.dtype.itemsize > 4:
        return np.take(_descending(x, axis), np.arange(k), axis)
    keys = np.ascontiguousarray(np.moveaxis(_rank(x), axis, -1))
    lines = keys.reshape(-1, size)
    largest = lines[:, : blocks * width].reshape(-1, blocks, width).max(2)
    bound = np.partition(largest, blocks - k)[:, blocks - k, None]
    found = np.flatnonzero(lines >= bound)
    line = found // size
    counts = np.bincount(line, minlength=len(lines))
    most = counts.max(initial=k)
    if most > size // 4:
        return np.take(_descending(x, axis), np.arange(k), axis)
    places = np.arange(len(found)) - np.repeat(np.cumsum(counts) - counts, counts)
    candidates = np.zeros((len(lines), most), np.uint32)  # what fills them up is last in order
    positions = np.zeros((len(lines), most), np.int64)
    candidates[line, places] = lines.ravel()[found]
    positions[line, places] = found % size
    order = _descending(candidates, 1)[:, :k]
    ordered = np.take_along_axis(positions, order, 1).reshape(*keys.shape[:-1], k)
    return np.moveaxis(ordered, -1, axis)


def _total(x: Any) -> Any:
    """Integers in the total order of floats: -NaN, -inf, -0, 0, inf, NaN; others as they are."""
    if x.dtype in dtypes.STORED:
        x = x.astype(np.float32)
    if not dtypes.is_float(x.dtype):
        return x
    bits = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}")
    signs = bits >> (8 * x.dtype.itemsize - 1)
    return bits ^ (signs & np.iinfo(bits.dtype).max)


def _rank(key: Any) -> Any:
    """Unsigned 32-bit integers in the order of ``lax.sort``, for a dtype of at most 32 bits."""
    if key.dtype.kind in "bu":
        return key.astype(np.uint32)
    if key.dtype.kind == "i":
        return key.astype(np.int32).view(np.uint32) ^ np.uint32(0x80000000)
    with np.errstate(invalid="ignore"):  # of the zeros the positive one; NaN may be signalling
        single = np.ascontiguousarray(key, np.float32) + np.float32(0)
    unordered = np.isnan(single)
    if unordered.any():
        single[unordered] = np.nan
    words = single.view(np.uint32)
    signs = single.view(np.int32) >> 31  # of negative numbers all bits are turned, else one
    words ^= signs.view(np.uint32) | np.uint32(0x80000000)
    return words


def _sorted(x: Any, key: Any, axis: int) -> Any:
    """The elements of one array in order; only equal zeros could show how they were moved."""
    ordered = np.sort(key, axis=axis, kind=_kind(key, axis))
    _order_zeros(ordered, key, axis)
    return ordered.astype(x.dtype, copy=False)


def _order_zeros(ordered: Any, key: Any, axis: int) -> None:
    """Put the zeros of a sorted array, which are equal, in the order that they had."""
    if _has_negative_zero(key):
        lines, before = np.moveaxis(ordered, axis, -1), np.moveaxis(key, axis, -1)
        lines[lines == 0] = before[before == 0]


def _kind(key: Any, axis: int) -> Literal["stable"] | None:
    """NumPy's kind of sort; all give the same, but for the order of zeros among many floats.

    The stable one sorts integers of 16 bits by digits, and is fast where it finds what is sorted.
    """
    if key.size < _SMALL or key.dtype.itemsize <= (2 if key.dtype.kind != "f" else 1):
        return "stable"
    if key.dtype.kind == "f":
        return None
    line = key[tuple([slice(_PIECE) if d == axis % key.ndim else 0 for d in range(key.ndim)])]
    return "stable" if bool(np.all(line[:-1] <= line[1:])) else None


def _has_negative_zero(key: Any) -> bool:
    """Whether there is a -0, looked for a piece after the other."""
    if key.dtype.kind != "f":
        return False
    flat = key.reshape(-1)
    parts = (flat[k : k + _PIECE] for k in range(0, flat.size, _PIECE))
    return any(bool(np.any((part == 0) & np.signbit(part))) for part in parts)


#: So many elements are looked at at once: what is made of them stays in a cache.
_PIECE = 1 << 16
#: Arrays of fewer elements are sorted in the simplest way.
_SMALL = 256
#: Blocks of fewer elements leave too many that may be among the largest.
_FEW = 8


def _taken(t: Value, positions: Value, axis: int) -> Value:
    """The elements of ``t`` at ``positions`` along an axis; linear in ``t``."""
    shape = positions.aval.shape
    dims = [Dim(i) for i in range(len(shape))]
    read = tuple(Load(0, dims) if i == axis else d for i, d in enumerate(dims))
    index_map = IndexMap(shape, t.aval.shape, read)
    return reindex.bind(t, positions, map=index_map, fill=like(t, 0))


class Ordering(Opaque):
    """Base: puts the elements along an axis in order."""


class Sort(Ordering):
    """Sorts arrays together along ``dimension``, by the first ``num_keys`` of them.

    The sort is stable, whether ``is_stable`` asks for it or not.
    """

    name = "sort"
    multiple_results = True
    exact = True

    def shape_rule(
        self, *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
    ) -> Avals:
        if not avals or not 1 <= num_keys <= len(avals):
            raise ArgumentError(
                "sort: needs from 1 key to as many as there are operands",
                got=f"{len(avals)} operands, num_keys={num_keys}",
                fix="num_keys=1 to sort by the first operand",
            )
        check_axes("sort", avals[0], (dimension,))
        if any(a.shape != avals[0].shape for a in avals):
            raise ShapeError(
                "sort: operands have different shapes",
                got=", ".join(a.str_short() for a in avals),
                fix="broadcast them to one shape",
            )
        return avals

    def reference(self, *operands: Any, dimension: int, is_stable: bool, num_keys: int) -> Any:
        if len(operands) == 1 and len(_keys(operands[0])) == 1:
            (x,), (key,) = operands, _keys(operands[0])
            return [_sorted(x, key, dimension)]
        order = _order(operands[:num_keys], dimension)
        return [np.take_along_axis(x, order, dimension) for x in operands]

    def reference_into(self, outs: Sequence[Any], *operands: Any, **params: Any) -> None:
        (x, *others), (out, *_) = operands, outs
        keys, axis = _keys(x), params["dimension"]
        if others or len(keys) > 1 or keys[0].dtype != out.dtype:
            for out, found in zip(outs, self.reference(*operands, **params), strict=True):
                out[...] = found
            return
        out[...] = x
        out.sort(axis=axis, kind=_kind(x, axis))
        _order_zeros(out, x, axis)

    def jvp(
        self,
        primals: Ops,
        tangents: Tangents,
        *,
        dimension: int,
        is_stable: bool,
        num_keys: int,
    ) -> tuple[Any, Any]:
        shape = primals[0].aval.shape
        wide = dtypes.position_dtype(shape[dimension])
        line = iota.bind(shape=shape, dtype=wide, axis=dimension)
        *outs, positions = self.bind(
            *primals, line, dimension=dimension, is_stable=is_stable, num_keys=num_keys
        )
        moved = [None if t is None else _taken(t, positions, dimension) for t in tangents]
        return outs, moved

    def batch(
        self,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        dimension: int,
        is_stable: bool,
        num_keys: int,
    ) -> tuple[Any, Any]:
        outs = self.bind(
            *spread(size, args, batched),
            dimension=dimension + 1,
            is_stable=is_stable,
            num_keys=num_keys,
        )
        return outs, [True] * len(args)

    def samples(self) -> Iterable[Sample]:
        def params(dimension: int, num_keys: int) -> dict[str, Any]:
            return {"dimension": dimension, "is_stable": True, "num_keys": num_keys}

        yield Sample(((3, 4),), params(1, 1), distinct=True)
        yield Sample(((4, 3), (4, 3)), params(0, 1), distinct=True)
        ties = (dtypes.int32, None, None)
        yield Sample(((6,),) * 3, params(0, 2), ((0, 2), (-2, 2), (-2, 2)), dtypes=ties)
        yield Sample(((0, 2),), params(0, 1))

    def bad_samples(self) -> Iterable[BadSample]:
        x, y = ShapedArray((3,), _F32), ShapedArray((4,), _F32)
        params = {"dimension": 0, "is_stable": True, "num_keys": 1}
        yield BadSample((x, y), ShapeError, "different shapes", params)
        yield BadSample((x,), AxisError, "sort", {**params, "dimension": 1})
        yield BadSample((x,), ArgumentError, "key", {**params, "num_keys": 2})


class TopK(Ordering):
    """The ``k`` largest along an axis, the largest first, and their positions (int32).

    Floats are in total order: 0 is larger than -0, NaN larger than all numbers, and NaN of negative
    sign smaller.  Of equal elements the first comes first.
    """

    name = "top_k"
    reference_calls = 8
    multiple_results = True
    exact = True
    accepts = dtypes.BOOL | dtypes.INTEGER | dtypes.FLOATING

    def shape_rule(self, x: ShapedArray, *, k: int, axis: int) -> Avals:
        if x.dtype not in self.accepts:
            raise DTypeError(
                "top_k: complex numbers have no order",
                got=x.str_short(),
                fix="top_k of the real part or the absolute value",
            )
        check_axes("top_k", x, (axis,))
        if not 0 <= k <= x.shape[axis]:
            raise ShapeError(
                "top_k: k is not between 0 and the size of the axis",
                got=f"k={k}, axis {axis} of {x.str_short()}",
                fix="a smaller k, or another axis",
            )
        rows = "rows of fewer elements, and top_k of what each of them gives"
        check_positions("top_k", x.shape[axis], dtypes.int32, rows)
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, dtypes.int32)

    def reference(self, x: Any, *, k: int, axis: int) -> Any:
        order = _largest(np.asarray(x), k, axis)
        return [np.take_along_axis(x, order, axis), order.astype(np.int32)]

    def jvp(self, primals: Ops, tangents: Tangents, *, k: int, axis: int) -> tuple[Any, Any]:
        outs = self.bind(*primals, k=k, axis=axis)
        t = tangents[0]
        return outs, [None if t is None else _taken(t, outs[1], axis), None]

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, k: int, axis: int
    ) -> tuple[Any, Any]:
        return self.bind(args[0], k=k, axis=axis + 1), [True, True]

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 5),), {"k": 2, "axis": 1}, distinct=True)
        yield Sample(((4, 3),), {"k": 4, "axis": 0}, distinct=True)
        yield Sample(((4,),), {"k": 0, "axis": 0})

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3,), _F32)
        yield BadSample((x,), ShapeError, "between", {"k": 4, "axis": 0})
        yield BadSample((x,), AxisError, "top_k", {"k": 1, "axis": 1})
        complex_ = ShapedArray((3,), dtypes.complex64)
        yield BadSample((complex_,), DTypeError, "order", {"k": 1, "axis": 0})


sort, top_k = Sort(), TopK()
