"""Collectives over a named axis of ``vmap``: sums, extrema, gathers, permutations.

Each is a primitive that names its axis.  Interpreters pass it on until it reaches the
:class:`BatchTrace` of that name, where it becomes ordinary operations on axis 0.

The functions that users call are in ``collective_functions``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.typed import AxisNameError
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import div, mul, select_n
from functrax.core.prims.comparisons import eq
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import reduce_max, reduce_min, reduce_sum
from functrax.core.prims.reindex import iota, transpose_
from functrax.core.tracing.primitive import Avals, Opaque, Ops, Tangents, Value, like
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import check_positions
from functrax.transforms.interpreters.batching import add_batch_axis, row_of

AxisName: TypeAlias = Hashable


class Collective(Opaque):
    """An operation over the named axis ``axis_name``."""

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        return frozenset({("axis", params["axis_name"])})

    def reference(self, *values: Any, axis_name: AxisName, **params: Any) -> Any:
        raise AxisNameError(
            f"{self.name}: axis name {axis_name!r} is not bound where the program runs",
            got=f"{self.name} over {axis_name!r} outside of any vmap",
            fix=f"functrax.vmap(f, axis_name={axis_name!r})",
        )

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], **params: Any
    ) -> tuple[Any, Any]:
        return self.batch_over_axis(None, size, args, batched, **params)

    def batch_over_axis(
        self,
        mapped: AxisName,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        /,
        **params: Any,
    ) -> tuple[Any, Any]:
        """Carry out the operation if it is over this axis; else pass it on."""
        if mapped != params["axis_name"]:
            return self.pass_on(args, batched, params)
        return self.along_axis(size, args, batched, params)

    def pass_on(
        self, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        """The operation on a batch along another axis."""
        return self.bind(*args, **params), any(batched)

    @abstractmethod
    def along_axis(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        """The operation along axis 0; the result, and whether it differs by element."""


class PSum(Collective):
    """The sum over the axis, the same for every element."""

    name = "psum"

    def shape_rule(self, x: ShapedArray, *, axis_name: AxisName) -> Avals:
        return x

    def along_axis(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        (x,) = args
        if batched[0]:
            return reduce_sum.bind(x, axes=(0,)), False
        return mul.bind(x, like(x, size)), False

    def jvp(self, primals: Ops, tangents: Tangents, *, axis_name: AxisName) -> tuple[Any, Any]:
        t = tangents[0]
        tangent = None if t is None else self.bind(t, axis_name=axis_name)
        return self.bind(primals[0], axis_name=axis_name), tangent

    def transpose(self, ct: Value, x: Any, *, axis_name: AxisName) -> list[Value | None]:
        return [self.bind(ct, axis_name=axis_name)]


class PExtremum(Collective):
    """The largest or smallest element; ties share the cotangent evenly."""

    def __init__(self, name: str, reduction: Any) -> None:
        self.name = name
        self.reduction = reduction
        super().__init__()

    def shape_rule(self, x: ShapedArray, *, axis_name: AxisName) -> Avals:
        return x

    def along_axis(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        return (self.reduction.bind(args[0], axes=(0,)) if batched[0] else args[0]), False

    def jvp(self, primals: Ops, tangents: Tangents, *, axis_name: AxisName) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out = self.bind(x, axis_name=axis_name)
        if t is None or not dtypes.is_inexact(out.aval.dtype):
            return out, None
        weight = select_n.bind(eq.bind(x, out), like(x, 0), like(x, 1))
        count = psum_p.bind(weight, axis_name=axis_name)
        return out, div.bind(psum_p.bind(mul.bind(t, weight), axis_name=axis_name), count)


class AxisIndex(Collective):
    """The element's own number along the axis."""

    name = "axis_index"

    def shape_rule(self, *, axis_name: AxisName) -> Avals:
        return ShapedArray((), dtypes.int32)

    def along_axis(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        check_positions("axis_index", size, dtypes.int32, "vmap over two axes of fewer elements")
        return iota.bind(shape=(size,), dtype=dtypes.int32, axis=0), True

    def jvp(self, primals: Ops, tangents: Tangents, *, axis_name: AxisName) -> tuple[Any, Any]:
        return self.bind(axis_name=axis_name), None


class AllGather(Collective):
    """All elements' values along a new axis 0, the same for every element."""

    name = "all_gather"
    takes_stored = True

    def shape_rule(self, x: ShapedArray, *, axis_name: AxisName, size: int) -> Avals:
        return ShapedArray((size, *x.shape), x.dtype, x.weak_type)

    def pass_on(
        self, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        out = self.bind(*args, **params)
        if not batched[0]:
            return out, False
        return transpose_(out, (1, 0, *range(2, out.aval.ndim))), True

    def along_axis(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        return (args[0] if batched[0] else add_batch_axis(args[0], size)), False

    def jvp(
        self, primals: Ops, tangents: Tangents, *, axis_name: AxisName, size: int
    ) -> tuple[Any, Any]:
        out = self.bind(primals[0], axis_name=axis_name, size=size)
        t = tangents[0]
        return out, None if t is None else self.bind(t, axis_name=axis_name, size=size)

    def transpose(self, ct: Value, x: Any, *, axis_name: AxisName, size: int) -> list[Value | None]:
        total = psum_p.bind(ct, axis_name=axis_name)
        own = axis_index_p.bind(axis_name=axis_name)
        return [row_of(total, own)]


class PPermute(Collective):
    """Each element's value sent to another element; those that get none have zeros."""

    name = "ppermute"
    takes_stored = True

    def shape_rule(
        self, x: ShapedArray, *, axis_name: AxisName, perm: tuple[tuple[int, int], ...]
    ) -> Avals:
        return x

    def along_axis(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        x = args[0] if batched[0] else add_batch_axis(args[0], size)
        source = np.full(size, -1, np.int32)
        for src, dst in params["perm"]:
            source[dst] = src
        shape = x.aval.shape
        rest = tuple(Dim(i) for i in range(1, len(shape)))
        send = IndexMap(shape, shape, (Load(0, [Dim(0)]), *rest))
        return reindex.bind(x, from_numpy(source), map=send, fill=like(x, 0)), True

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        t = tangents[0]
        return self.bind(primals[0], **params), None if t is None else self.bind(t, **params)

    def transpose(
        self, ct: Value, x: Any, *, axis_name: AxisName, perm: tuple[tuple[int, int], ...]
    ) -> list[Value | None]:
        back = tuple((dst, src) for src, dst in perm)
        return [self.bind(ct, axis_name=axis_name, perm=back)]


class PVary(Collective):
    """The same value, which from here on may differ by element."""

    name = "pvary"
    takes_stored = True

    def shape_rule(self, x: ShapedArray, *, axis_name: AxisName) -> Avals:
        return x

    def along_axis(
        self, size: int, args: Ops, batched: Sequence[bool], params: dict[str, Any]
    ) -> tuple[Any, Any]:
        return (args[0] if batched[0] else add_batch_axis(args[0], size)), True

    def jvp(self, primals: Ops, tangents: Tangents, *, axis_name: AxisName) -> tuple[Any, Any]:
        t = tangents[0]
        tangent = None if t is None else self.bind(t, axis_name=axis_name)
        return self.bind(primals[0], axis_name=axis_name), tangent

    def transpose(self, ct: Value, x: Any, *, axis_name: AxisName) -> list[Value | None]:
        return [psum_p.bind(ct, axis_name=axis_name)]


psum_p, axis_index_p, pvary_p = PSum(), AxisIndex(), PVary()
pmax_p, pmin_p = PExtremum("pmax", reduce_max), PExtremum("pmin", reduce_min)
all_gather_p, ppermute_p = AllGather(), PPermute()
