"""Reductions along axes: the readable specialisations of reindex_reduce.

``reduce_sum`` is linear, and its transpose is a broadcast.  A maximum shares its cotangent evenly
among ties.  A product is differentiated as a tree of multiplications, so that it is right, to
any order, with zeros among the factors.  ``argmax`` and ``argmin`` reduce pairs of value and
index; the first of several equal values wins, and NaN wins over numbers.

The general form with any map is in ``core/prims/mapped.py``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import AxisError, DTypeError, ShapeError
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import add, div, mul, select_n
from functrax.core.prims.comparisons import eq
from functrax.core.prims.lowered_reductions import ArgExtremum, Fold, Reduction
from functrax.core.prims.reindex import broadcast_in_dim, ones
from functrax.core.prims.shape_checks import check_axes
from functrax.core.prims.slicing import pad, slice_
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Linear,
    Ops,
    Primitive,
    Sample,
    Tangents,
    Value,
    check_dtype,
    like,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import check_positions


def kept_axes(ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that a reduction leaves."""
    return tuple(i for i in range(ndim) if i not in axes)


class ReindexReduce(Primitive):
    """Base of the family: ``O[f(i)] op= I[i]``."""

    family = "reindex_reduce"

    @abstractmethod
    def reduction(self, *args: Any, **params: Any) -> Reduction:
        """``(aval, **params)`` -> what happens to the elements that become one.

        ``aval`` is the type of the array of elements: of a scatter's updates.  Where each element
        goes is the index map's matter.
        """

    def lowers(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        return self.is_numeric(avals, params)


class AxisReduce(ReindexReduce):
    """A reduction along ``axes``, which disappear."""

    exact_on_integers = True
    #: The operation, as named by :class:`functrax.core.index.map.IndexMap`.
    op: str
    #: Of equal elements it gives one of them.
    idempotent: bool = False

    def shape_rule(self, x: ShapedArray, *, axes: tuple[int, ...]) -> Avals:
        check_dtype(self.name, x, self.accepts)
        check_axes(self.name, x, axes)
        return ShapedArray(tuple(x.shape[i] for i in kept_axes(x.ndim, axes)), x.dtype, x.weak_type)

    def index_map(self, x: ShapedArray, *, axes: tuple[int, ...]) -> IndexMap:
        """The map from operand points to elements of the result."""
        kept = kept_axes(x.ndim, axes)
        sizes = tuple(x.shape[i] for i in kept)
        return IndexMap.from_function(x.shape, sizes, lambda *i: tuple(i[k] for k in kept))

    def reduction(self, x: ShapedArray, *, axes: tuple[int, ...]) -> Fold:
        dtype = x.dtype
        carried = wider(dtype) if self.op in ("add", "mul") or dtype in dtypes.HALF else dtype
        return Fold(self.op, dtype, carried, op_identity(self.op, dtype))

    def simplify(self, x: Value, *, axes: tuple[int, ...]) -> Value | None:
        return None if axes else x

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, axes: tuple[int, ...]
    ) -> tuple[Any, Any]:
        return self.bind(args[0], axes=tuple(a + 1 for a in axes)), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"axes": (0,)}, distinct=True)
        yield Sample(((2, 3, 2),), {"axes": (0, 2)}, distinct=True)
        yield Sample(((3,),), {"axes": ()}, distinct=True)
        yield Sample(((0, 2),), {"axes": (0,)})

    def bad_samples(self) -> Iterable[BadSample]:
        dtype = min(self.accepts, key=str)
        yield BadSample((ShapedArray((3,), dtype),), AxisError, self.name, {"axes": (1,)})
        yield BadSample((ShapedArray((3, 2), dtype),), AxisError, self.name, {"axes": (1, 1)})
        for refused in sorted(dtypes.ALL - self.accepts, key=str)[:1]:
            aval = ShapedArray((3,), refused)
            yield BadSample((aval,), DTypeError, self.name, {"axes": (0,)})


def respread(out: Value, x: Value, axes: Sequence[int]) -> Value:
    """A reduction's result, repeated along the reduced axes to the operand's shape."""
    return broadcast_in_dim.bind(out, shape=x.aval.shape, dims=kept_axes(x.aval.ndim, axes))


class ReduceSum(AxisReduce):
    """Sum; narrow floats are added up in a wider type."""

    name = "reduce_sum"
    op = "add"
    accepts = dtypes.NUMERIC

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        return np.sum(x, axis=axes, dtype=wider(x.dtype)).astype(x.dtype)

    def jvp(self, primals: Ops, tangents: Tangents, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
        t = tangents[0]
        return self.bind(primals[0], axes=axes), None if t is None else self.bind(t, axes=axes)

    def transpose(self, ct: Value, x: Linear, *, axes: tuple[int, ...]) -> list[Value | None]:
        return [broadcast_in_dim.bind(ct, shape=x.aval.shape, dims=kept_axes(x.aval.ndim, axes))]


def wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which a dtype is added up."""
    if dtype in dtypes.HALF:
        return dtypes.float32
    if dtype == dtypes.float32:
        return dtypes.float64
    return dtypes.complex128 if dtype == dtypes.complex64 else dtype


class ReduceProd(AxisReduce):
    """Product; right to any order with zeros among the factors."""

    name = "reduce_prod"
    op = "mul"
    accepts = dtypes.NUMERIC

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        return np.prod(x, axis=axes, dtype=wider(x.dtype)).astype(x.dtype)

    def jvp(self, primals: Ops, tangents: Tangents, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x, axes=axes)
        if t is None or not dtypes.is_inexact(x.aval.dtype):
            return out, None
        for axis in sorted(axes, reverse=True):
            x, t = product_along(x, t, axis)
        return out, t


def product_along(x: Value, t: Value, axis: int) -> tuple[Value, Value]:
    """The product along an axis and its tangent, by halving: log2(size) multiplications."""
    size = x.aval.shape[axis]
    if size == 0:
        shape = tuple(n for i, n in enumerate(x.aval.shape) if i != axis)
        out = ones(ShapedArray(shape, x.aval.dtype))
        return out, reduce_sum.bind(t, axes=(axis,))
    while size > 1:
        half = (size + 1) // 2
        missing = 2 * half - size
        x0, x1 = _halves(x, axis, half, missing, 1)
        t0, t1 = _halves(t, axis, half, missing, 0)
        x, t = mul.bind(x0, x1), add.bind(mul.bind(t0, x1), mul.bind(x0, t1))
        size = half
    return reduce_sum.bind(x, axes=(axis,)), reduce_sum.bind(t, axes=(axis,))


def _halves(x: Value, axis: int, half: int, missing: int, fill: int) -> tuple[Value, Value]:
    ndim = x.aval.ndim
    nothing = (0,) * ndim
    if missing:
        high = tuple(missing if i == axis else 0 for i in range(ndim))
        x = pad.bind(x, low=nothing, high=high, interior=nothing, fill=like(x, fill))
    strides = (1,) * ndim
    middle = tuple(half if i == axis else 0 for i in range(ndim))
    limit = tuple(half if i == axis else n for i, n in enumerate(x.aval.shape))
    return (
        slice_.bind(x, start=nothing, limit=limit, strides=strides),
        slice_.bind(x, start=middle, limit=x.aval.shape, strides=strides),
    )


class _ReduceExtremum(AxisReduce):
    """Largest or smallest; NaN wins, and ties share the cotangent evenly.

    Where the result is NaN, no element equals it, and the derivative is 0/0: NaN as well.
    """

    idempotent = True
    accepts = dtypes.BOOL | dtypes.INTEGER | dtypes.FLOATING

    def jvp(self, primals: Ops, tangents: Tangents, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x, axes=axes)
        if t is None or not dtypes.is_inexact(x.aval.dtype) or not x.aval.size:
            return out, None
        here = eq.bind(x, respread(out, x, axes))
        weight = select_n.bind(here, like(x, 0), like(x, 1))
        count = reduce_sum.bind(weight, axes=axes)
        total = reduce_sum.bind(mul.bind(t, weight), axes=axes)
        return out, div.bind(total, count)


class ReduceMax(_ReduceExtremum):
    """Largest element."""

    name = "reduce_max"
    op = "max"

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        return np.max(x, axis=axes, initial=lowest(x.dtype)).astype(x.dtype)


class ReduceMin(_ReduceExtremum):
    """Smallest element."""

    name = "reduce_min"
    op = "min"

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        return np.min(x, axis=axes, initial=highest(x.dtype)).astype(x.dtype)


def lowest(dtype: np.dtype[Any]) -> Any:
    """The identity of max."""
    if dtype == dtypes.bool_:
        return False
    return _limit(dtype, -1)


def _limit(dtype: np.dtype[Any], sign: int) -> Any:
    """Infinity or the largest number, of a sign; of complex numbers, in both parts."""
    if dtypes.is_complex(dtype):
        part = float(_limit(dtypes.real_dtype(dtype), sign))
        return complex(part, part)
    info = dtypes.finfo(dtype) if dtypes.is_float(dtype) else dtypes.iinfo(dtype)
    if dtypes.is_float(dtype):
        infinite = dtype.type(sign * np.inf)
        if np.isinf(np.float32(infinite)):
            return infinite
    return info.min if sign < 0 else info.max


def highest(dtype: np.dtype[Any]) -> Any:
    """The identity of min."""
    if dtype == dtypes.bool_:
        return True
    return _limit(dtype, 1)


def op_identity(op: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction gives for no elements at all."""
    if op in ("add", "or", "xor"):
        return 0
    if op == "mul":
        return 1
    if op == "and":
        return -1 if dtype in dtypes.SIGNED else highest(dtype)
    return lowest(dtype) if op in ("max", "logaddexp") else highest(dtype)


class ReduceLogic(AxisReduce):
    """``and``, ``or``, ``xor`` of truth values, or of the bits of integers."""

    accepts = dtypes.BOOL | dtypes.INTEGER

    def __init__(self, op: str, function: np.ufunc) -> None:
        self.name = f"reduce_{op}"
        self.op = op
        self.idempotent = op != "xor"
        self.function = function
        super().__init__()

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return self.function.reduce(np.asarray(x), axis=axes)

    def jvp(self, primals: Ops, tangents: Tangents, *, axes: tuple[int, ...]) -> tuple[Any, Any]:
        return self.bind(primals[0], axes=axes), None


class ArgReduce(ReindexReduce):
    """The index of the largest or smallest element along an axis, a reduction of pairs."""

    exact = True
    accepts = dtypes.BOOL | dtypes.INTEGER | dtypes.FLOATING

    def __init__(self, name: str, function: Any, wins: str) -> None:
        self.name = name
        self.function = function
        self.wins = wins
        super().__init__()

    def shape_rule(self, x: ShapedArray, *, axis: int, index_dtype: Any) -> Avals:
        check_dtype(self.name, x, self.accepts)
        check_axes(self.name, x, (axis,))
        if x.shape[axis] == 0:
            raise ShapeError(
                f"attempt to get {self.name} of an empty sequence: argmin and argmax require "
                "non-empty reduced dimension",
                got=f"axis {axis} of {x.str_short()}",
                fix="an axis of at least one element",
            )
        if not dtypes.is_integer(index_dtype):
            raise DTypeError(
                f"{self.name}: index_dtype must be an integer type",
                got=str(index_dtype),
                fix="index_dtype='int32'",
            )
        check_positions(self.name, x.shape[axis], index_dtype)
        return ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], index_dtype)

    def reference(self, x: Any, *, axis: int, index_dtype: Any) -> Any:
        x = np.asarray(x)
        if x.dtype == dtypes.bfloat16:
            x = x.astype(np.float32)
        return np.asarray(self.function(x, axis=axis)).astype(index_dtype)

    def reduction(self, x: ShapedArray, *, axis: int, index_dtype: np.dtype[Any]) -> ArgExtremum:
        worst = lowest(x.dtype) if self.wins == "gt" else highest(x.dtype)
        return ArgExtremum(self.wins, x.dtype, worst, x.shape[axis], index_dtype)

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        return self.bind(primals[0], **params), None

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, axis: int, index_dtype: Any
    ) -> tuple[Any, Any]:
        return self.bind(args[0], axis=axis + 1, index_dtype=index_dtype), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"axis": 1, "index_dtype": dtypes.int32}, distinct=True)
        yield Sample(((3, 4),), {"axis": 0, "index_dtype": dtypes.int64})

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3, 0), dtypes.float32)
        yield BadSample((x,), AxisError, self.name, {"axis": 2, "index_dtype": dtypes.int32})
        yield BadSample((x,), ShapeError, "non-empty", {"axis": 1, "index_dtype": dtypes.int32})
        yield BadSample((x,), DTypeError, "integer", {"axis": 0, "index_dtype": dtypes.float32})


reduce_sum, reduce_prod = ReduceSum(), ReduceProd()
reduce_max, reduce_min = ReduceMax(), ReduceMin()
reduce_and = ReduceLogic("and", np.bitwise_and)
reduce_or = ReduceLogic("or", np.bitwise_or)
reduce_xor = ReduceLogic("xor", np.bitwise_xor)
argmax = ArgReduce("argmax", np.argmax, wins="gt")
argmin = ArgReduce("argmin", np.argmin, wins="lt")
