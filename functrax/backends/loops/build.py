"""From a kernel with its schedule to the tree of its loops.

What enters is a :class:`~functrax.backends.kernels.ir.Kernel` without a ``tiling``; what leaves is
a :class:`~functrax.backends.loops.tree.Function` that says all that the emitter has to know.

Start at :func:`build`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.cpu_info import cpu_info
from functrax.backends.kernels.accesses import coefficient, first_rows, is_streamed
from functrax.backends.kernels.ir import Kernel, Reduce, Stage, Store
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Body,
    Carried,
    Function,
    Let,
    Loop,
    Poll,
    Prefetch,
    Running,
    Statement,
    Tile,
    While,
)
from functrax.core import dtypes
from functrax.core.lowering import Scalar
from functrax.core.prims.fused import fma
from functrax.core.records import replace

#: The last vector of a row is computed apart from the others if it is one of this many, or if it is
#: reduced along so many points of other dims; and if a point has no more operations than this.
LEAST_VECTORS: Final = 4
LONG_COLUMN: Final = 256
WORK_TWICE: Final = 32
#: Sums of fewer float32 are rounded once, in the end.
LONG_ROW: Final = 256
#: Operations from which on a loop of steps that depend on one another can be interrupted.
LONG: Final = 1 << 26
_BOOL: Final = np.dtype(np.bool_)

#: The types and numbers of lanes that loops carry, with the leaves in the innermost one.
Accumulators: TypeAlias = "Sequence[tuple[Scalar, int]]"
#: What is done at each point, and what is carried from it: written anew for each loop around it.
Point: TypeAlias = "Callable[[], tuple[list[Statement], list[Scalar]]]"


def build(kernel: Kernel, contract: bool = True) -> Function:
    """The tree of a kernel.

    Args:
      kernel: with a schedule, and without a ``tiling``.
      contract: whether reductions may round a product once with its sum.
    """
    return _Build(kernel, contract).function()


class _Build:
    def __init__(self, kernel: Kernel, contract: bool) -> None:
        self.kernel, self.contract = kernel, contract
        self.b = kernel.builder
        self.extents = kernel.extents
        self.ranges: dict[int, tuple[Scalar, Scalar]] = {}
        self.in_lanes = kernel.vector is not None and kernel.lanes > 1
        #: Whether the vector loop that is written may reach past its end.
        self.masked = self._needs_mask()
        self.zero = self.b.const(0, INDEX)
        self._dims = len(kernel.extents)
        self._names = 0
        #: The dim of the loop over tiles.
        self.corner = self._dim()

    def function(self) -> Function:
        """The whole tree."""
        k = self.kernel
        if k.shared is None:
            body = self._nest(k.outer)
        else:
            unit = self._dim() if k.unit is None else k.unit
            grain = self._number("grain", k.grain)
            low = self.b.mul(self._index(unit), grain)
            high = self._smaller(self.b.add(low, grain), self._extent(k.shared))
            self.ranges[k.shared] = low, high
            begin, end = [self.b.node("units", INDEX, (), x) for x in ("begin", "end")]
            body = (Loop("units", unit, begin, end, 1, self._nest(k.outer)),)
        lanes = k.lanes if k.vector is not None else 1
        return Function(
            k.name, self.b, k.operands, k.extents, body, k.units, k.vector, lanes, k.tile,
            k.fetches, k.updated, k.points, k.work, k.nodes(),
        )  # fmt: skip

    def _needs_mask(self) -> bool:
        k = self.kernel
        if k.vector is None or k.lanes == 1:
            return False
        if k.extents[k.vector] % k.lanes or k.aligned is not None:
            return True
        return k.vector == k.shared and k.grain % k.lanes != 0

    # ---- values ---------------------------------------------------------------------------------

    def _dim(self) -> int:
        """A dim that no other loop has."""
        self._dims += 1
        return self._dims - 1

    def _leaf(self, op: str, dtype: np.dtype[Any]) -> Scalar:
        """A leaf that no other value is."""
        self._names += 1
        return self.b.node(op, dtype, (), ("loop", self._names))

    def _index(self, dim: int) -> Scalar:
        return self.b.node("dim", INDEX, (), dim)

    def _number(self, key: object, value: int) -> Scalar:
        return self.b.node("number", INDEX, (), (key, value))

    def _extent(self, dim: int) -> Scalar:
        return self._number(("extent", dim), self.extents[dim])

    def _smaller(self, x: Scalar, y: Scalar) -> Scalar:
        return self.b.select(self.b.compare("lt", x, y), x, y)

    def _plus(self, x: Scalar, y: Scalar) -> Scalar:
        return y if x is self.zero else x if y is self.zero else self.b.add(x, y)

    def _length(self, low: Scalar, high: Scalar) -> Scalar:
        return high if low is self.zero else self.b.sub(high, low)

    def _times(self, x: Scalar, count: int) -> Scalar:
        if count <= 1:
            return x if count else self.zero
        return self.b.mul(x, self.b.const(count, INDEX))

    # ---- outer loops ----------------------------------------------------------------------------

    def _nest(self, dims: Sequence[int]) -> Body:
        body, _ = self._loops(dims, [], [], self._row)
        return tuple(body)

    def _row(self) -> tuple[list[Statement], list[Scalar]]:
        """Everything inside the outer loops."""
        k = self.kernel
        found: list[Statement] = []
        for stage in k.stages:
            found += self._stage(stage)
        if k.tile is not None:
            found.append(self._tile())
        else:
            found += map(self._store, k.rows)
        return found, []

    def _store(self, store: Store) -> Store:
        return replace(store, streams=True) if is_streamed(self.kernel, store) else store

    def _tile(self) -> Tile:
        """The stores for each of ``lanes`` points of the tile dim."""
        k, tile = self.kernel, self.kernel.tile
        assert tile is not None
        whole = k.extents[tile] % k.lanes == 0
        stores = tuple(map(self._store, k.rows))
        points = []
        index = self._index(self.corner)
        for n in range(k.lanes):
            here = self._plus(index, self.b.const(n, INDEX))
            inside = None
            if n and not whole:
                inside = self.b.compare("lt", here, self._extent(tile))
            points.append(Bind(tile, here, stores, inside=inside))
        return Tile(self.corner, tuple(points))

    # ---- nests ----------------------------------------------------------------------------------

    def _loops(
        self, dims: Sequence[int], first: Sequence[Scalar], accs: Accumulators, point: Point
    ) -> tuple[list[Statement], list[Scalar]]:
        """Loops over dims that carry values, and what these are in the end.

        Args:
          dims: outermost first.
          first: the values before the first step.
          accs: what stands for them where ``point`` uses them, and how many lanes they have.
          point: what is done inside.
        """
        if not dims:
            return point()
        k, d = self.kernel, dims[0]
        low, high = self.ranges.get(d) or (self.zero, self._extent(d))
        found: list[Statement] = []
        if d == k.vector and k.aligned is not None:
            line = self.b.node("line", INDEX, (low,), (k.aligned.buffer, k.aligned.address, d))
            line = self._smaller(line, high)
            loop, first = self._loop(dims, low, line, first, accs, point, maybe_empty=True)
            found.append(loop)
            low = line
        if d == k.vector and k.beside > 1 and len(dims) > 1:
            return [*found, self._tiles_beside(dims, low, high, point)], []
        if d == k.vector and k.pieces > 1:
            more, first = self._side_by_side(d, low, high, first, accs, point)
            return [*found, *more], first
        if d != k.vector or not self._has_own_tail():
            loop, first = self._loop(dims, low, high, first, accs, point)
            return [*found, loop], first
        length = self._length(low, high)
        whole = self.b.logic("and", length, self.b.const(-k.lanes, INDEX))
        middle = self._plus(low, whole)
        # A unit may have whole vectors only, or none.
        maybe = d == k.shared or k.aligned is not None
        self.masked = False
        loop, first = self._loop(dims, low, middle, first, accs, point, maybe)
        self.masked = True
        tail, first = self._loop(dims, middle, high, first, accs, point, maybe)
        return [*found, loop, tail], first

    def _loop(
        self,
        dims: Sequence[int],
        low: Scalar,
        high: Scalar,
        first: Sequence[Scalar],
        accs: Accumulators,
        point: Point,
        maybe_empty: bool = False,
    ) -> tuple[Loop, list[Scalar]]:
        """The loop over the first of the dims."""
        k, d = self.kernel, dims[0]
        is_vector = d == k.vector and k.lanes > 1
        inner = accs
        if len(dims) > 1:
            inner = [(self._leaf("acc", acc.dtype), lanes) for acc, lanes in accs]
        body, new = self._loops(dims[1:], [acc for acc, _ in inner], accs, point)
        carries, results = self._carried(first, inner, new)
        loop = Loop(
            "vector" if is_vector else "serial", self.corner if d == k.tile else d, low, high,
            k.lanes if is_vector or d == k.tile else 1,
            tuple(body), carries, is_vector and self.masked, maybe_empty,
        )  # fmt: skip
        return loop, results

    def _carried(
        self, first: Sequence[Scalar], accs: Accumulators, new: Sequence[Scalar]
    ) -> tuple[tuple[Carried, ...], list[Scalar]]:
        """What a loop carries, and the leaves of its results."""
        results = [self._leaf("result", acc.dtype) for acc, _ in accs]
        found = zip(first, accs, new, results, strict=True)
        return tuple([Carried(f, a, n, r, lanes) for f, (a, lanes), n, r in found]), results

    def _side_by_side(
        self,
        d: int,
        low: Scalar,
        high: Scalar,
        first: Sequence[Scalar],
        accs: Accumulators,
        point: Point,
    ) -> tuple[list[Statement], list[Scalar]]:
        """The loop over the vector dim in pieces: a vector of each, then the next vectors.

        What is left, less than a vector of each piece, has a loop of its own.
        """
        k, b = self.kernel, self.b
        pieces = k.pieces
        steps = b.div(self._length(low, high), b.const(pieces * k.lanes, INDEX))
        size = self._times(steps, k.lanes)
        masked, self.masked = self.masked, False
        j = self._dim()
        outer = [(self._leaf("acc", acc.dtype), lanes) for acc, lanes in accs]
        values = [acc for acc, _ in outer]
        body: list[Statement] = []
        for n in range(pieces):
            index = self._plus(self._index(j), self._times(size, n))
            inside, new = point()
            carries, values = self._carried(values, accs, new)
            body.append(Bind(d, index, tuple(inside), carries, vector=True))
        carries, results = self._carried(first, outer, values)
        end = self._plus(low, size)
        loop = Loop("serial", j, low, end, k.lanes, tuple(body), carries, maybe_empty=True)
        self.masked = masked
        middle = self._plus(low, self._times(size, pieces))
        rest, results = self._loop([d], middle, high, results, accs, point, maybe_empty=True)
        return [loop, rest], results

    def _tiles_beside(
        self, dims: Sequence[int], low: Scalar, high: Scalar, point: Point
    ) -> Statement:
        """The loop over the vector dim in blocks of a few tiles, each of which is innermost."""
        k, d = self.kernel, dims[0]
        size, j = k.beside * k.lanes, self._dim()
        begin = self._index(j)
        end = self._smaller(self.b.add(begin, self.b.const(size, INDEX)), high)
        before = self.ranges.get(d)
        self.ranges[d] = begin, end
        body, _ = self._loops([*dims[1:], d], [], [], point)
        if before is None:
            del self.ranges[d]
        else:
            self.ranges[d] = before
        return Loop("serial", j, low, high, size, tuple(body))

    def _has_own_tail(self) -> bool:
        """Whether the last vector of a row has a loop of its own, so that others need no mask."""
        k = self.kernel
        if not self.masked or k.tile is not None or k.vector is None or "tails" in k.off:
            return False
        if k.work > WORK_TWICE:
            return False
        if k.extents[k.vector] >= LEAST_VECTORS * k.lanes:
            return True
        columns = k.inner and k.vector in k.outer and k.extents[k.vector] > k.lanes
        return bool(columns) and math.prod(k.extents[d] for d in k.inner) >= LONG_COLUMN

    # ---- stages ---------------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> list[Statement]:
        """A nest over the inner dims, or a loop that goes on as long as a condition holds."""
        k, b = self.kernel, self.b
        accs = [(acc, self._lanes_of(r)) for r in stage.reductions for acc in r.accs]
        accs += [(c.acc, k.lanes if self.in_lanes and c.acc.attr[2] else 1) for c in stage.carries]
        first = [x for r in stage.reductions for x in r.how.empty(b)]
        first += [c.initial for c in stage.carries]

        def point() -> tuple[list[Statement], list[Scalar]]:
            return self._point(stage)

        if stage.condition is None:
            found, final = self._loops(k.inner, first, accs, point)
        else:
            body, new = point()
            carries, final = self._carried(first, accs, new)
            found = [While(self._dim(), stage.condition, tuple(body), carries)]
        return [*found, *self._results(stage, final)]

    def _results(self, stage: Stage, final: Sequence[Scalar]) -> list[Statement]:
        """The names of results, of reductions along the lanes as one value."""
        k = self.kernel
        names: list[Scalar] = []
        values: list[Scalar] = []
        for reduction in stage.reductions:
            names += reduction.results
            now = tuple(final[len(values) : len(values) + len(reduction.results)])
            if self.in_lanes and k.vector in k.inner:
                now = self._across(reduction, now, 1)
            values += now
        names += [c.result for c in stage.carries]
        values += final[len(values) :]
        return [Let(tuple(names), tuple(values))] if names else []

    def _across(
        self, reduction: Reduce, values: tuple[Scalar, ...], lanes: int
    ) -> tuple[Scalar, ...]:
        """Values whose lanes are combined to fewer."""
        return tuple(
            self.b.node("across", x.dtype, values, (reduction.how, n, lanes))
            for n, x in enumerate(values)
        )

    def _point(self, stage: Stage) -> tuple[list[Statement], list[Scalar]]:
        """What a step of a stage does, and what it makes of what is carried."""
        k = self.kernel
        found: list[Statement] = []
        if self._is_long(stage):
            found.append(Poll())
        if k.ahead is not None and stage is k.stages[min(1, len(k.stages) - 1)]:
            found += [
                Prefetch(buffer, address, k.ahead)
                for buffer, address in first_rows(k)
                if coefficient(address, k.ahead)
            ]
        stores = tuple(map(self._store, stage.stores))
        if stage.scan is not None and k.vector in k.inner and k.lanes > 1:
            last = tuple([self._leaf("result", v.dtype) for v in stage.scan.values])
            return [*found, Running(stage.scan, last), *stores], list(last)
        new = [x for reduction in stage.reductions for x in self._accumulated(reduction)]
        carried = [c.new for c in stage.carries]
        if new:
            found.append(Let((), tuple(new)))
        if k.updated:  # all is read before anything is written
            roots = [x for s in stores for x in (s.value, s.offset, s.guard) if x is not None]
            found.append(Let((), (*roots, *carried)))
        return [*found, *stores], [*new, *carried]

    def _is_long(self, stage: Stage) -> bool:
        """Whether a stage may take so long that somebody wants to interrupt it."""
        k = self.kernel
        if stage.condition is not None:
            return True
        steps = k.extents[k.inner[-1]] if stage.carries and stage.scan is None else 0
        return steps * k.work >= LONG

    def _lanes_of(self, reduction: Reduce) -> int:
        """The lanes that a reduction accumulates in.

        Of long rows, float32 that are carried in float64 are added up first until they fill one
        vector, which saves most of the conversions.
        """
        k = self.kernel
        if not self.in_lanes:
            return 1
        (value, *others) = reduction.values
        wide = value.op == "convert" and value.dtype == dtypes.float64
        if others or not wide or reduction.how.name != "add" or not self.contract:
            return k.lanes
        if k.vector not in k.inner or value.args[0].dtype != dtypes.float32:
            return k.lanes
        if math.prod(k.extents[d] for d in k.inner) < LONG_ROW:
            return k.lanes
        return min(k.lanes, cpu_info().vector_bytes // dtypes.float32.itemsize)

    def _accumulated(self, reduction: Reduce) -> list[Scalar]:
        """One point (or one vector of points) more."""
        k, b = self.kernel, self.b
        values, lanes = reduction.values, self._lanes_of(reduction)
        is_narrow = self.in_lanes and lanes < k.lanes
        if is_narrow:
            values = values[0].args
        if self.masked and k.vector in k.inner:
            starts = reduction.how.empty(b)
            tail = b.node("tail", _BOOL)
            values = tuple(
                b.select(tail, v, b.convert(start, v.dtype))
                for v, start in zip(values, starts, strict=True)
            )
        if is_narrow:
            (part,) = self._across(reduction, values, lanes)
            values = (b.convert(part, reduction.values[0].dtype),)
            return list(reduction.how.combine(b, reduction.accs, values))
        return [self._fused(x) for x in reduction.how.combine(b, reduction.accs, values)]

    def _fused(self, node: Scalar) -> Scalar:
        """What a reduction carries after one more value: a product is rounded once with the sum."""
        if not self.contract or node.op != "add" or node.dtype not in fma.accepts:
            return node
        total, value = node.args
        if value.op != "mul" or not cpu_info().has_fma:
            return node
        x, y = value.args
        return self.b.fma(x, y, total)
