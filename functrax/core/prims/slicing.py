"""Parts of arrays, and arrays put together: ``slice``, ``pad``, ``concatenate``.

They belong to the reindex family (``core/prims/reindex.py``) and are each other's transposes: that
of a slice is a pad with zeros, that of a pad or of a concatenation is made of slices.

Start at :class:`Slice`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functrax.core.errors.typed import AxisError, DTypeError, ShapeError
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims.reindex import Reindex, Reindexing, zeros
from functrax.core.prims.shape_checks import check_axes
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Linear,
    Ops,
    Sample,
    Tangents,
    Value,
    like,
    spread,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_F32 = dtypes.float32


class Slice(Reindex):
    """``x[start:limit:strides]`` along each axis; strides are positive."""

    name = "slice"

    def shape_rule(
        self,
        x: ShapedArray,
        *,
        start: tuple[int, ...],
        limit: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Avals:
        if not len(start) == len(limit) == len(strides) == x.ndim:
            raise AxisError(
                "slice: needs a start, a limit and a stride for each axis",
                got=f"start {start}, limit {limit}, strides {strides} for {x.str_short()}",
                fix="tuples of as many numbers as the array has axes",
            )
        for a, b, s, n in zip(start, limit, strides, x.shape, strict=True):
            if not (0 <= a <= b <= n and s > 0):
                raise ShapeError(
                    "slice: needs 0 <= start <= limit <= size, and strides above 0",
                    got=f"start {start}, limit {limit}, strides {strides} for {x.str_short()}",
                    fix="limits up to the axes' sizes; dynamic_slice moves its start to fit",
                )
        sizes = (-(-(b - a) // s) for a, b, s in zip(start, limit, strides, strict=True))
        return ShapedArray(tuple(sizes), x.dtype, x.weak_type)

    def reference(
        self,
        x: Any,
        *,
        start: tuple[int, ...],
        limit: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Any:
        return np.asarray(x)[tuple(map(slice, start, limit, strides))]

    def index_map(
        self,
        x: ShapedArray,
        *,
        start: tuple[int, ...],
        limit: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> IndexMap:
        return IndexMap.slice_(x.shape, start, limit, strides)

    def simplify(
        self,
        x: Value,
        *,
        start: tuple[int, ...],
        limit: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> Value | None:
        whole = limit == x.aval.shape and not any(start) and set(strides) <= {1}
        return x if whole else None

    def transpose(
        self,
        ct: Value,
        x: Linear,
        *,
        start: tuple[int, ...],
        limit: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> list[Value | None]:
        reached = (
            a + (n - 1) * s + 1 if n else a
            for a, n, s in zip(start, ct.aval.shape, strides, strict=True)
        )
        high = tuple(n - r for n, r in zip(x.aval.shape, reached, strict=True))
        interior = tuple(s - 1 for s in strides)
        return [pad.bind(ct, low=start, high=high, interior=interior, fill=like(ct, 0))]

    def batch(
        self,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        start: tuple[int, ...],
        limit: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> tuple[Any, Any]:
        out = self.bind(args[0], start=(0, *start), limit=(size, *limit), strides=(1, *strides))
        return out, True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((5, 4),), {"start": (1, 0), "limit": (5, 3), "strides": (2, 1)})
        yield Sample(((5,),), {"start": (2,), "limit": (2,), "strides": (1,)})
        yield Sample(((),), {"start": (), "limit": (), "strides": ()})

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3,), _F32)
        yield BadSample((x,), ShapeError, "slice", {"start": (1,), "limit": (4,), "strides": (1,)})
        yield BadSample(
            (x,), AxisError, "slice", {"start": (1, 1), "limit": (3, 3), "strides": (1, 1)}
        )


class Pad(Reindex):
    """``fill`` before, after and between the elements; negative low and high cut off."""

    name = "pad"
    has_fill = True
    reference_calls = 2

    def shape_rule(
        self,
        x: ShapedArray,
        *,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        fill: Literal,
    ) -> Avals:
        if not len(low) == len(high) == len(interior) == x.ndim:
            raise AxisError(
                "pad: needs low, high and interior padding for each axis",
                got=f"low {low}, high {high}, interior {interior} for {x.str_short()}",
                fix="tuples of as many numbers as the array has axes",
            )
        if any(i < 0 for i in interior):
            raise ShapeError(
                "pad: interior padding is negative",
                got=f"interior {interior}",
                fix="0 or more; a slice with strides takes elements out",
            )
        if fill.aval.dtype != x.dtype:
            raise DTypeError(
                "pad: the fill value has another dtype",
                got=f"{fill!r}, {x}",
                fix="a literal of the array's dtype",
            )
        shape = tuple(
            n + lo + hi + max(n - 1, 0) * i
            for n, lo, hi, i in zip(x.shape, low, high, interior, strict=True)
        )
        if any(n < 0 for n in shape):
            raise ShapeError(
                "pad: negative padding cuts off more than there is",
                got=f"low {low}, high {high}, interior {interior} for {x.str_short()}",
                fix="less negative padding on that axis",
            )
        return ShapedArray(shape, x.dtype, x.weak_type)

    def reference(
        self,
        x: Any,
        *,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        fill: Literal,
    ) -> Any:
        x = np.asarray(x)
        wide = [max(n - 1, 0) * i + n for n, i in zip(x.shape, interior, strict=True)]
        sizes = [n + max(lo, 0) + max(hi, 0) for n, lo, hi in zip(wide, low, high, strict=True)]
        out = np.full(sizes, fill.val, x.dtype)
        inner = (
            slice(max(lo, 0), max(lo, 0) + n, i + 1)
            for lo, n, i in zip(low, wide, interior, strict=True)
        )
        out[tuple(inner)] = x
        cut = (
            slice(max(-lo, 0), n - max(-hi, 0)) for lo, hi, n in zip(low, high, sizes, strict=True)
        )
        return out[tuple(cut)]

    def index_map(
        self,
        x: ShapedArray,
        *,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        fill: Literal,
    ) -> IndexMap:
        return IndexMap.pad(x.shape, low, high, interior)

    def simplify(self, x: Value, **params: Any) -> Value | None:
        nothing = (0,) * x.aval.ndim
        amounts = (params["low"], params["high"], params["interior"])
        return x if all(given == nothing for given in amounts) else None

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        t = tangents[0]
        if t is None:
            return out, None
        return out, self.bind(t, **{**params, "fill": like(t, 0)})

    def transpose(
        self,
        ct: Value,
        x: Linear,
        *,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        fill: Literal,
    ) -> list[Value | None]:
        zero = (0,) * len(low)
        cut_low, cut_high = tuple(-n for n in low), tuple(-n for n in high)
        whole = pad.bind(ct, low=cut_low, high=cut_high, interior=zero, fill=like(ct, 0))
        strides = tuple(i + 1 for i in interior)
        return [slice_.bind(whole, start=zero, limit=whole.aval.shape, strides=strides)]

    def batch(
        self,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        fill: Literal,
    ) -> tuple[Any, Any]:
        out = self.bind(args[0], low=(0, *low), high=(0, *high), interior=(0, *interior), fill=fill)
        return out, True

    def samples(self) -> Iterable[Sample]:
        def sample(shape: tuple[int, ...], *padding: tuple[int, ...]) -> Sample:
            low, high, interior = padding
            return Sample((shape,), {"low": low, "high": high, "interior": interior, "fill": 0})

        yield sample((2, 3), (1, 0), (2, 1), (0, 2))
        yield sample((4,), (-1,), (-1,), (0,))
        yield sample((4,), (-2,), (3,), (1,))
        yield sample((0,), (1,), (1,), (1,))
        yield sample((), (), (), ())

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3,), _F32)
        fill = like(Linear(x), 0)
        yield BadSample(
            (x,), ShapeError, "pad", {"low": (-2,), "high": (-2,), "interior": (0,), "fill": fill}
        )
        yield BadSample(
            (x,), ShapeError, "pad", {"low": (0,), "high": (0,), "interior": (-1,), "fill": fill}
        )


class Concatenate(Reindexing):
    """Arrays one after the other along an axis: a reindex of several operands."""

    name = "concatenate"
    takes_stored = True

    def moved_operands(self, params: dict[str, Any]) -> slice:
        return slice(None)

    def shape_rule(self, *avals: ShapedArray, axis: int) -> Avals:
        if not avals:
            raise ShapeError(
                "concatenate: needs at least one array", got="none", fix="one array or more"
            )
        first = avals[0]
        check_axes("concatenate", first, (axis,))
        for a in avals[1:]:
            same = a.ndim == first.ndim and all(
                i == axis or n == m
                for i, (n, m) in enumerate(zip(a.shape, first.shape, strict=True))
            )
            if not same:
                raise ShapeError(
                    f"concatenate: shapes differ in an axis other than {axis}",
                    got=", ".join(a.str_short() for a in avals[:8]),
                    fix="all sizes but that of the concatenated axis must agree",
                )
            if a.dtype != first.dtype:
                raise DTypeError(
                    "concatenate takes operands of one dtype",
                    got=", ".join(a.str_short() for a in avals[:8]),
                    fix="functrax.numpy.concatenate, which promotes",
                )
        total = sum(a.shape[axis] for a in avals)
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        return ShapedArray(shape, first.dtype, all(a.weak_type for a in avals))

    def reference(self, *operands: Any, axis: int) -> Any:
        return np.concatenate(operands, axis)

    def simplify(self, *operands: Value, axis: int) -> Value | None:
        return operands[0] if len(operands) == 1 and axis < operands[0].aval.ndim else None

    def jvp(self, primals: Ops, tangents: Tangents, *, axis: int) -> tuple[Any, Any]:
        out = self.bind(*primals, axis=axis)
        if all(t is None for t in tangents):
            return out, None
        parts = [zeros(p.aval) if t is None else t for p, t in zip(primals, tangents, strict=True)]
        return out, self.bind(*parts, axis=axis)

    def transpose(self, ct: Value, *operands: Any, axis: int) -> list[Value | None]:
        cts: list[Value | None] = []
        end = 0
        ones = (1,) * ct.aval.ndim
        for x in operands:
            begin, end = end, end + x.aval.shape[axis]
            if not isinstance(x, Linear):
                cts.append(None)
                continue
            start = tuple(begin if i == axis else 0 for i in range(ct.aval.ndim))
            limit = tuple(end if i == axis else n for i, n in enumerate(ct.aval.shape))
            cts.append(slice_.bind(ct, start=start, limit=limit, strides=ones))
        return cts

    def batch(self, size: int, args: Ops, batched: Sequence[bool], *, axis: int) -> tuple[Any, Any]:
        return self.bind(*spread(size, args, batched), axis=axis + 1), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((2, 3), (2, 1), (2, 2)), {"axis": 1})
        yield Sample(((0, 2), (3, 2)), {"axis": 0})

    def bad_samples(self) -> Iterable[BadSample]:
        x, y = ShapedArray((3, 2), _F32), ShapedArray((3, 3), _F32)
        yield BadSample((x, y), ShapeError, "concatenate", {"axis": 0})
        yield BadSample((x, x), AxisError, "concatenate", {"axis": 2})
        yield BadSample((x, ShapedArray((3, 2), dtypes.int32)), DTypeError, "dtype", {"axis": 0})


slice_, pad, concatenate = Slice(), Pad(), Concatenate()
