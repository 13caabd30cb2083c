"""The meta-operators in their general form: ``reindex`` and ``reindex_reduce`` by any index map.

Integer operands after the first are read by ``Load`` expressions of the map; so gathers and
scatters are the same two operations.  Backward closure stands here in two lines: the transpose of
``reindex[f]`` is ``reindex_reduce[add, f]``, and the transpose of that is ``reindex[f]``.

``scatter`` is ``reindex_reduce`` that starts from an array instead of from the identity.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.typed import ArgumentError, DifferentiationError, DTypeError, ShapeError
from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Literal
from functrax.core.prims.arithmetic import add, div, max_, mul, select_n
from functrax.core.prims.comparisons import eq
from functrax.core.prims.lowered_reductions import Fold
from functrax.core.prims.map_checks import check_index_operands, check_op
from functrax.core.prims.reduce import ReindexReduce, op_identity, product_along
from functrax.core.prims.reindex import Reindex, full, iota, reshape, zeros
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Linear,
    Ops,
    Sample,
    Tangents,
    Value,
    like,
    literal,
    spread,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

REDUCE_OPS = ("add", "mul", "max", "min", "and", "or", "xor")
SCATTER_OPS = ("set", "add", "mul", "max", "min")
_F32 = dtypes.float32


def _carried(dtype: np.dtype[Any], op: str) -> np.dtype[Any]:
    """The dtype in which elements are added up where they are, in memory."""
    return _F32 if dtype in dtypes.HALF and op != "set" else dtype


@functools.lru_cache(maxsize=4096)
def _inverse(index_map: IndexMap) -> IndexMap | None:
    """The inverse map, if it exists and reads no index arrays."""
    return None if index_map.num_loads else index_map.invert()


@functools.lru_cache(maxsize=4096)
def _hits_once(index_map: IndexMap) -> bool:
    """Whether no element is proven to be meant by two points."""
    return index_map.injective()


class ReindexMap(Reindex):
    """``O[o] = I[f(o)]``, or ``fill`` where the point ``o`` is not valid."""

    name = "reindex"
    has_fill = True
    reference_calls = 8

    def shape_rule(self, x: ShapedArray, *indices: Any, map: IndexMap, fill: Literal) -> Avals:
        check_index_operands("reindex", indices)
        if x.shape != map.codomain:
            raise ShapeError(
                "reindex: the array has another shape than the map's codomain",
                got=f"{x.str_short()} for {map}",
                fix="build the map for the array's shape",
            )
        if fill.aval.dtype != x.dtype:
            raise DTypeError(
                "reindex: the fill value has another dtype",
                got=f"{fill!r}, {x}",
                fix="a literal of the array's dtype",
            )
        return ShapedArray(map.domain, x.dtype, x.weak_type)

    def reference(self, x: Any, *indices: Any, map: IndexMap, fill: Literal) -> Any:
        return map.gather(x, indices, fill.val)

    def index_map(self, x: ShapedArray, *indices: Any, map: IndexMap, fill: Literal) -> IndexMap:
        return map

    def simplify(self, x: Value, *indices: Value, map: IndexMap, fill: Literal) -> Value | None:
        return x if map.is_identity else None

    def jvp(
        self, primals: Ops, tangents: Tangents, *, map: IndexMap, fill: Literal
    ) -> tuple[Any, Any]:
        out = self.bind(*primals, map=map, fill=fill)
        t = tangents[0]
        if t is None:
            return out, None
        return out, self.bind(t, *primals[1:], map=map, fill=like(t, 0))

    def transpose(
        self, ct: Value, x: Linear, *indices: Value, map: IndexMap, fill: Literal
    ) -> list[Value | None]:
        inverse = _inverse(map)
        if inverse is not None:
            return [self.bind(ct, map=inverse, fill=like(ct, 0)), *(None for _ in indices)]
        back = reindex_reduce.bind(ct, *indices, map=map, op="add")
        return [back, *(None for _ in indices)]

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, map: IndexMap, fill: Literal
    ) -> tuple[Any, Any]:
        wider = map.batched(size, tuple(batched[1:]), batched[0])
        return self.bind(*args, map=wider, fill=fill), True

    def samples(self) -> Iterable[Sample]:
        i, j = Dim(0), Dim(1)
        window = IndexMap((4, 3), (5,), (i + j - 1,))
        holes = IndexMap((6,), (3,), (i // 2,), ((i % 2).eq(0),))
        rows = IndexMap((4, 3), (5, 3), (Load(0, [i]), j))
        yield Sample(((5,),), {"map": window, "fill": 0})
        yield Sample(((3,),), {"map": holes, "fill": 0})
        yield Sample(
            ((5, 3), (4,)),
            {"map": rows, "fill": 0},
            ranges=((-2, 2), (-1, 6)),
            dtypes=(None, dtypes.int32),
        )

    def bad_samples(self) -> Iterable[BadSample]:
        index_map = IndexMap((4,), (5,), (Load(0, [Dim(0)]),))
        x, zero = ShapedArray((5,), _F32), literal(0, _F32)
        params = {"map": index_map, "fill": zero}
        yield BadSample((ShapedArray((4,), _F32), x), DTypeError, "integer", params)
        short = ShapedArray((3,), _F32)
        indices = ShapedArray((4,), dtypes.int32)
        yield BadSample((short, indices), ShapeError, "codomain", params)


class Update(ReindexReduce):
    """A reduction whose map is a parameter: it may send any element anywhere.

    One operand holds the elements; index arrays that the map reads follow it.
    """

    #: The number of the operand that holds the elements.
    elements: ClassVar[int] = 0


class ReindexReduceMap(Update):
    """``O[f(i)] op= I[i]`` over the valid points ``i``, from the operation's identity."""

    name = "reindex_reduce"

    def shape_rule(self, x: ShapedArray, *indices: Any, map: IndexMap, op: str) -> Avals:
        check_index_operands("reindex_reduce", indices)
        check_op("reindex_reduce", op, REDUCE_OPS, x.dtype)
        if x.shape != map.domain:
            raise ShapeError(
                "reindex_reduce: the array has another shape than the map's domain",
                got=f"{x.str_short()} for {map}",
                fix="build the map over the array's shape",
            )
        return ShapedArray(map.codomain, x.dtype, x.weak_type)

    def reference(self, x: Any, *indices: Any, map: IndexMap, op: Any) -> Any:
        identity = op_identity(op, np.asarray(x).dtype)
        return map.scatter(x, map.codomain, op, identity, indices)

    def reduction(self, x: ShapedArray, *, map: IndexMap, op: str) -> Fold:
        return Fold(op, x.dtype, _carried(x.dtype, op), op_identity(op, x.dtype))

    def index_map(self, x: ShapedArray, *indices: Any, map: IndexMap, op: str) -> IndexMap:
        """The map from operand points to elements of the result."""
        return map

    def jvp(self, primals: Ops, tangents: Tangents, *, map: IndexMap, op: str) -> tuple[Any, Any]:
        out = self.bind(*primals, map=map, op=op)
        t = tangents[0]
        if t is None or not dtypes.is_inexact(out.aval.dtype):
            return out, None
        x, *indices = primals
        if op == "add":
            return out, self.bind(t, *indices, map=map, op="add")
        if op == "mul":
            return out, _product_tangent(x, t, indices, map)
        here = reindex.bind(out, *indices, map=map, fill=like(out, 0))
        weight = select_n.bind(eq.bind(x, here), like(x, 0), like(x, 1))
        total = self.bind(mul.bind(t, weight), *indices, map=map, op="add")
        count = self.bind(weight, *indices, map=map, op="add")
        return out, div.bind(total, max_.bind(count, like(count, 1)))

    def transpose(
        self, ct: Value, x: Linear, *indices: Value, map: IndexMap, op: str
    ) -> list[Value | None]:
        back = reindex.bind(ct, *indices, map=map, fill=like(ct, 0))
        return [back, *(None for _ in indices)]

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, map: IndexMap, op: str
    ) -> tuple[Any, Any]:
        (x,) = spread(size, args[:1], batched[:1], literals=True)
        wider = map.batched(size, tuple(batched[1:]))
        return self.bind(x, *args[1:], map=wider, op=op), True

    def samples(self) -> Iterable[Sample]:
        i, j = Dim(0), Dim(1)
        pool = IndexMap((7,), (3,), (i // 2,))
        window = IndexMap((4, 3), (5,), (i + j - 1,))
        segments = IndexMap((6,), (4,), (Load(0, [i]),))
        yield Sample(((4, 3),), {"map": window, "op": "add"})
        for op in ("mul", "max", "min"):
            yield Sample(((7,),), {"map": pool, "op": op}, distinct=True)
        yield Sample(
            ((6,), (6,)),
            {"map": segments, "op": "add"},
            ranges=((-2, 2), (-1, 5)),
            dtypes=(None, dtypes.int32),
        )

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((5,), _F32)
        fold = IndexMap((4,), (2,), (Dim(0) // 2,))
        yield BadSample((x,), ShapeError, "domain", {"map": fold, "op": "add"})
        four = ShapedArray((4,), _F32)
        yield BadSample((four,), ArgumentError, "unknown", {"map": fold, "op": "mean"})
        yield BadSample((four,), DTypeError, "integers", {"map": fold, "op": "and"})


def _product_tangent(x: Value, t: Value, indices: Ops, index_map: IndexMap) -> Value:
    """The tangent of a product by a map, right to any order with zeros among the factors.

    The factors of each element are gathered into a row (which factors belong to which element is
    known, for the map reads no index array), and rows are multiplied up as a tree.
    """
    if indices:
        raise DifferentiationError(
            "reindex_reduce: the derivative of a product over data-dependent indices",
            got=f"op='mul' with {index_map}",
            fix="take the logarithm and use op='add', for positive factors",
        )
    table = _factor_table(index_map)
    flat = IndexMap(table.shape, (x.aval.size,), (Load(0, [Dim(0), Dim(1)]),))
    rows, row_tangents = (
        reindex.bind(
            reshape.bind(v, shape=(x.aval.size,)),
            from_numpy(table),
            map=flat,
            fill=like(x, missing),
        )
        for v, missing in ((x, 1), (t, 0))
    )
    _, tangent = product_along(rows, row_tangents, 1)
    return reshape.bind(tangent, shape=index_map.codomain)


@functools.lru_cache(maxsize=256)
def _factor_table(index_map: IndexMap) -> np.ndarray[Any, np.dtype[Any]]:
    """Row ``m``: the positions of the points that mean element ``m``, then -1."""
    indices, valid = index_map.evaluate()
    shape = index_map.domain
    codomain = index_map.codomain
    target = np.zeros(shape, np.int64)
    for index, size in zip(indices, codomain, strict=True):
        target = target * size + index
    inside = np.broadcast_to(np.asarray(valid), shape).reshape(-1)
    positions = np.flatnonzero(inside)
    targets = target.reshape(-1)[positions]
    order = np.argsort(targets, kind="stable")
    targets, positions = targets[order], positions[order]
    count = int(np.prod(codomain, dtype=np.int64))
    wide = dtypes.position_dtype(inside.size)
    per_element = np.bincount(targets, minlength=count)
    rank = np.arange(len(targets)) - np.repeat(np.cumsum(per_element) - per_element, per_element)
    table = np.full((count, max(int(per_element.max(initial=0)), 1)), -1, wide)
    table[targets, rank] = positions
    return table


class Scatter(Update):
    """``O = operand; O[f(i)] op= updates[i]``; ``set`` keeps the last in row-major order.

    ``unique`` is a promise that no element is updated twice; it saves work in derivatives.
    """

    name = "scatter"
    elements = 1

    def moved_operands(self, params: dict[str, Any]) -> slice:
        return slice(0, 2 if params["op"] == "set" else 0)

    def shape_rule(
        self,
        x: ShapedArray,
        updates: ShapedArray,
        *indices: Any,
        map: IndexMap,
        op: str,
        unique: bool = False,
    ) -> Avals:
        check_index_operands("scatter", indices)
        check_op("scatter", op, SCATTER_OPS, x.dtype)
        if x.shape != map.codomain or updates.shape != map.domain:
            raise ShapeError(
                "scatter: the arrays have other shapes than the map",
                got=f"operand {x.str_short()}, updates {updates.str_short()} for {map}",
                fix="the operand has the codomain's shape, the updates have the domain's",
            )
        if x.dtype != updates.dtype:
            raise DTypeError(
                "scatter takes operand and updates of one dtype",
                got=f"{x.str_short()}, {updates.str_short()}",
                fix="updates.astype(operand.dtype)",
            )
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    def reference(
        self, x: Any, updates: Any, *indices: Any, map: IndexMap, op: Any, unique: bool = False
    ) -> Any:
        return map.scatter(updates, map.codomain, op, x, indices)

    def reduction(
        self, updates: ShapedArray, *, map: IndexMap, op: str, unique: bool = False
    ) -> Fold:
        dtype = updates.dtype
        identity = None if op == "set" else op_identity(op, dtype)
        return Fold(op, dtype, _carried(dtype, op), identity)

    def jvp(
        self,
        primals: Ops,
        tangents: Tangents,
        *,
        map: IndexMap,
        op: str,
        unique: bool = False,
    ) -> tuple[Any, Any]:
        out = self.bind(*primals, map=map, op=op, unique=unique)
        x, updates, *indices = primals
        tx, tu = tangents[:2]
        if (tx is None and tu is None) or not dtypes.is_inexact(out.aval.dtype):
            return out, None
        if op in ("max", "min"):
            return out, _scatter_extremum_tangent(primals, tx, tu, out, map)
        if op == "mul":
            return out, self._product_tangent(primals, tx, tu, map, unique)
        if tu is None and op == "add":
            return out, tx
        if tx is None and op == "add":
            return out, reindex_reduce.bind(tu, *indices, map=map, op="add")
        tx = zeros(x.aval) if tx is None else tx
        tu = zeros(updates.aval) if tu is None else tu
        return out, self.bind(tx, tu, *indices, map=map, op=op, unique=unique)

    def _product_tangent(
        self,
        primals: Ops,
        tx: Value | None,
        tu: Value | None,
        index_map: IndexMap,
        unique: bool,
    ) -> Value:
        x, updates, *indices = primals
        total = None
        if tx is not None:
            total = self.bind(tx, updates, *indices, map=index_map, op="mul", unique=unique)
        if tu is None:
            return total
        if not unique and not _hits_once(index_map):
            raise DifferentiationError(
                "scatter: the derivative of repeated multiplications of one element",
                got=f"op='mul' with {index_map}",
                fix="unique_indices=True if no index occurs twice",
            )
        factor = reindex.bind(x, *indices, map=index_map, fill=like(x, 0))
        by_update = reindex_reduce.bind(mul.bind(tu, factor), *indices, map=index_map, op="add")
        return by_update if total is None else add.bind(total, by_update)

    def transpose(
        self,
        ct: Value,
        x: Any,
        updates: Any,
        *indices: Value,
        map: IndexMap,
        op: str,
        unique: bool = False,
    ) -> list[Value | None]:
        ct_x = ct_updates = None
        if isinstance(x, Linear):
            ct_x = ct
            if op == "set":
                nothing = zeros(updates.aval)
                ct_x = self.bind(ct, nothing, *indices, map=map, op="set", unique=unique)
            elif op == "mul":
                ct_x = self.bind(ct, updates, *indices, map=map, op="mul", unique=unique)
        if isinstance(updates, Linear):
            ct_updates = reindex.bind(ct, *indices, map=map, fill=like(ct, 0))
            if op == "set" and not unique and not _hits_once(map):
                ct_updates = select_n.bind(_last_writers(map, indices), like(ct, 0), ct_updates)
        return [ct_x, ct_updates, *(None for _ in indices)]

    def batch(
        self,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        map: IndexMap,
        op: str,
        unique: bool = False,
    ) -> tuple[Any, Any]:
        x, updates = spread(size, args[:2], batched[:2], literals=True)
        wider = map.batched(size, tuple(batched[2:]))
        return self.bind(x, updates, *args[2:], map=wider, op=op, unique=unique), True

    def samples(self) -> Iterable[Sample]:
        i, j = Dim(0), Dim(1)
        rows = IndexMap((3, 2), (5, 2), (Load(0, [i]), j))
        part = IndexMap((3,), (7,), (2 * i + 1,))
        for op in ("set", "add"):
            yield Sample(
                ((5, 2), (3, 2), (3,)),
                {"map": rows, "op": op},
                ranges=((-2, 2), (-2, 2), (-1, 6)),
                dtypes=(None, None, dtypes.int32),
            )
        for op in ("mul", "max", "min"):
            yield Sample(((7,), (3,)), {"map": part, "op": op}, distinct=True)

    def bad_samples(self) -> Iterable[BadSample]:
        part = IndexMap((3,), (7,), (2 * Dim(0) + 1,))
        x, updates = ShapedArray((7,), _F32), ShapedArray((3,), _F32)
        whole = ShapedArray((3,), dtypes.int32)
        yield BadSample((updates, x), ShapeError, "scatter", {"map": part, "op": "set"})
        yield BadSample((x, whole), DTypeError, "one dtype", {"map": part, "op": "set"})
        yield BadSample((x, updates), ArgumentError, "unknown", {"map": part, "op": "and"})


def _last_writers(index_map: IndexMap, indices: Ops) -> Value:
    """Where an update is the one that ``set`` keeps."""
    size = int(np.prod(index_map.domain, dtype=np.int64))
    wide = dtypes.position_dtype(size)
    line = iota.bind(shape=(size,), dtype=wide, axis=0)
    number = reshape.bind(line, shape=index_map.domain)
    nobody = full(index_map.codomain, literal(-1, wide))
    last = scatter.bind(nobody, number, *indices, map=index_map, op="set", unique=False)
    kept = reindex.bind(last, *indices, map=index_map, fill=literal(-1, wide))
    return eq.bind(kept, number)


def _scatter_extremum_tangent(
    primals: Ops, tx: Value | None, tu: Value | None, out: Value, index_map: IndexMap
) -> Value:
    """The mean of the tangents of the operand and of the updates that equal the result."""
    x, updates, *indices = primals
    zero, one = like(out, 0), like(out, 1)
    mine = select_n.bind(eq.bind(x, out), zero, one)
    here = reindex.bind(out, *indices, map=index_map, fill=zero)
    theirs = select_n.bind(eq.bind(updates, here), zero, one)

    def summed(values: Value) -> Value:
        return reindex_reduce.bind(values, *indices, map=index_map, op="add")

    count = add.bind(mine, summed(theirs))
    total = None if tx is None else mul.bind(tx, mine)
    if tu is not None:
        by_updates = summed(mul.bind(tu, theirs))
        total = by_updates if total is None else add.bind(total, by_updates)
    return div.bind(total, max_.bind(count, one))


reindex, reindex_reduce, scatter = ReindexMap(), ReindexReduceMap(), Scatter()
