"""Sums of products in tiles: a group of threads does a tile of the result, and each thread a part.

    for tiles of rows, for tiles of columns:
        for threads:
            for slices of the steps:
                shared = both sides of the slice, which the threads read together
                barrier
                for steps of the slice:
                    the thread's sums += its rows of the left side x its columns of the right side
                barrier
            shared = the thread's sums
            barrier
            at each of the tile's points, neighbours as the results are in memory:
                what follows the sums

*Rows* are the dims that the left side alone depends on, as if they were one; *columns* those of the
right side; *steps* are summed along.  Others are loops around.  What is beyond the ends of rows,
columns and steps is 0.  So each sum is added up in the order of the steps, whatever the tiles are.

Start at :class:`ProductTiles`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

import numpy as np

from functrax.backends.kernels.accesses import coefficient, dims_of
from functrax.backends.kernels.ir import Reduce, Store, ordered
from functrax.backends.loops.rewrites.grid import parallel_loops
from functrax.backends.loops.rewrites.members import WORD, GroupMembers
from functrax.backends.loops.rewrites.rewrite import Rewrite, nest
from functrax.backends.loops.rewrites.vectorize import grain_of
from functrax.backends.loops.tree import (
    INDEX,
    Barrier,
    Body,
    Carried,
    Function,
    If,
    Let,
    Loop,
    Statement,
    number,
    plus,
)
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar

_BOOL: Final = np.dtype(np.bool_)


@record
class ProductTiles(Rewrite):
    """The loops of a sum of products in tiles, of which a group of threads does one.

    Args:
      warp: how many neighbouring threads have neighbouring columns; a slice has as many steps.
      warps: how many times as many threads a group has, each in another row.
      rows: how many rows a thread has.
      columns: how many columns a thread has.
    """

    kind: ClassVar[str] = "product"
    warp: int
    warps: int
    rows: int
    columns: int

    @property
    def height(self) -> int:
        """Rows of a tile."""
        return self.warps * self.rows

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.warp * self.columns

    @property
    def is_required(self) -> bool:
        """Always: the loops are those of a group of threads."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree of loops over tiles."""
        return _Tiled(tree, self).tree()


@record
class Roles:
    """The dims of a sum of products.

    Args:
      rows: the outer ones that the left side alone depends on.
      columns: those that the right side alone depends on.
      around: all other outer ones.
      steps: the inner ones, those last along which neighbours in memory are nearest.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    around: tuple[int, ...]
    steps: tuple[int, ...]


def roles(product: Scalar, outer: Sequence[int], inner: Sequence[int]) -> Roles:
    """The dims of a product of two sides, which loops go along."""
    left, right = map(dims_of, product.args)
    rows = tuple([d for d in outer if d in left - right])
    columns = tuple([d for d in outer if d in right - left])
    around = tuple([d for d in outer if d not in (*rows, *columns)])
    steps = sorted(inner, key=lambda d: -min(distance(x, d) for x in product.args))
    return Roles(rows, columns, around, tuple(steps))


def distance(value: Scalar, d: int) -> float:
    """How far apart in memory is what an expression reads at neighbours along a dim."""
    loads = [node for node in ordered((value,)) if node.op == "load"]
    steps = [abs(coefficient(node.attr[1], d)) for node in loads]
    return max(steps, default=0) or math.inf


@record
class _Points:
    """Dims as one, of which a tile or a slice has some indices.

    Args:
      dims: outermost first.
      sizes: how many indices of each.
      firsts: where these begin.
      ends: where these end, where that may be before ``first + size``.
      tile: the loop over parts.
      inside: the dim of the index in a part.
      size: of a part.
    """

    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    firsts: tuple[Scalar, ...]
    ends: tuple[Scalar | None, ...]
    tile: Loop
    inside: int
    size: int

    @property
    def last(self) -> int:
        """The innermost dim."""
        return self.dims[-1]


class _Tiled:
    """Makes the loops of one sum of products."""

    def __init__(self, tree: Function, rewrite: ProductTiles) -> None:
        self.of, self.rewrite, self.b = tree, rewrite, tree.builder
        self.m = GroupMembers(tree, rewrite.warp * rewrite.warps)
        self.loops, (first, *rest) = parallel_loops(tree.body)
        assert type(first) is Loop
        self.nest = nest(first)
        (reduction,) = self.nest[-1].body
        assert type(reduction) is Reduce
        self.reduce: Reduce = reduction
        self.stores = tuple(rest)
        (self.product,) = self.reduce.values
        outer, inner = [x.dim for x in self.loops], [x.dim for x in self.nest]
        self.roles = roles(self.product, outer, inner)
        self.rows = self._points(self.roles.rows, rewrite.height, self.loops)
        self.columns = self._points(self.roles.columns, rewrite.width, self.loops)
        self.steps = self._points(self.roles.steps, rewrite.warp, self.nest)
        #: Whether neighbouring threads read neighbouring steps of each side; whether they write
        #: neighbouring rows.
        self.along_steps = [self._is_along_steps(*x) for x in self._sides()]
        self.along_rows = any(
            abs(coefficient(s.address, self.rows.last)) == 1
            for s in self.stores
            if type(s) is Store
        )
        #: Where the sides of a slice begin in shared memory, and how long their lines are: so that
        #: the threads of a warp meet no bank there.
        self.pitches = [x.size + y for (_, x), y in zip(self._sides(), self.along_steps)]
        self.begins = 0, self.steps.size * self.pitches[0]
        slices = self.begins[1] + self.steps.size * self.pitches[1]
        #: How long the lines of sums are there.
        self.pitch = self.columns.size + self.along_rows * -(-rewrite.warp // self.rows.size)
        size = max(slices, self.rows.size * self.pitch)
        self.shared = self.m.share(self.product.dtype, size)
        self.row, self.column = tree.new_dim(), tree.new_dim()

    def _sides(self) -> tuple[tuple[Scalar, _Points], tuple[Scalar, _Points]]:
        left, right = self.product.args
        return (left, self.rows), (right, self.columns)

    def _is_along_steps(self, side: Scalar, own: _Points) -> bool:
        return distance(side, self.steps.last) < distance(side, own.last)

    def _points(self, dims: tuple[int, ...], size: int, loops: Sequence[Loop]) -> _Points:
        """Dims as one, in parts of a size."""
        of = {x.dim: x for x in loops}
        sizes, firsts, ends = [], [], []
        for d in dims:
            begin, block = of[d].begin, grain_of(of[d].begin)
            sizes.append(block or self.of.extents[d])
            firsts.append(begin)
            ends.append(of[d].end if block else None)
        tile = self.m.tiles(-(-math.prod(sizes) // size))
        inside = self.of.new_dim()
        return _Points(dims, tuple(sizes), tuple(firsts), tuple(ends), tile, inside, size)

    def tree(self) -> Function:
        """The tree of loops over tiles."""
        m, r = self.m, self.rewrite
        around = [x for x in self.loops if x.dim in self.roles.around]
        row, column = m.divided(m.thread, r.warp)
        places = self._sums()
        kept = [
            Store(self.shared, self._in_tile(i, j), c.result)
            for (i, j), c in zip(self._parts(), places.carries, strict=True)
        ]
        both = r.rows * r.columns * m.group
        body = (places, *kept, Barrier(), m.each(both, self._point))
        body = m.bound([(self.row, row), (self.column, column)], body)
        return m.rewritten([*around, self.rows.tile, self.columns.tile], body)

    def _parts(self) -> list[tuple[int, int]]:
        """The thread's rows and columns."""
        r = self.rewrite
        return [(i, j) for i in range(r.rows) for j in range(r.columns)]

    # ---- sums -----------------------------------------------------------------------------------

    def _sums(self) -> Loop:
        """The loop over slices of the steps."""
        b, tile = self.b, self.steps.tile
        (empty,) = self.reduce.how.empty(b)
        dtype = empty.dtype
        accs = [[self.of.leaf("acc", dtype) for _ in self._parts()] for _ in range(2)]
        results = [[self.of.leaf("result", dtype) for _ in self._parts()] for _ in range(2)]
        inner = self._slice(accs[1])
        carries = [
            Carried(first, acc, new, result)
            for first, acc, new, result in zip(accs[0], accs[1], inner[1], results[0], strict=True)
        ]
        zero, size = b.const(0, INDEX), b.const(self.steps.size, INDEX)
        steps = Loop("serial", self.steps.inside, zero, size, 1, inner[0], tuple(carries))
        body = (self._kept(0), self._kept(1), Barrier(), steps, Barrier())
        carries = [
            Carried(empty, acc, new, result)
            for acc, new, result in zip(accs[0], results[0], results[1], strict=True)
        ]
        return Loop("serial", tile.dim, zero, tile.end, 1, body, tuple(carries))

    def _kept(self, n: int) -> Statement:
        """What threads read together of a side, neighbours as they are in memory."""
        m, steps, (side, own) = self.m, self.steps, self._sides()[n]
        place = Dim(steps.inside) * self.pitches[n] + Dim(own.inside) + self.begins[n]
        (inside, known) = self._indices((own, steps))
        if not inside.is_constant:  # no branch: threads have many reads under way at once
            side = self.b.select(inside, m.read(side, inside), self.b.const(0, side.dtype))
        body = m.bound(known, (Store(self.shared, place, side),))
        outer, inner = (own, steps) if self.along_steps[n] else (steps, own)

        def point(x: Scalar) -> Body:
            far, near = m.divided(x, inner.size)
            return m.bound([(outer.inside, far), (inner.inside, near)], body)

        return m.each(own.size * steps.size, point)

    def _indices(self, of: Iterable[_Points]) -> tuple[Scalar, list[tuple[int, Scalar]]]:
        """Whether a point is one, and what its indices are."""
        b, found = self.b, []
        inside = b.const(True, _BOOL)
        for x in of:
            rest = self.m.numbered(x.tile, x.size, x.inside)
            points = math.prod(x.sizes)
            if points % x.size:
                count = number(b, f"points_d{x.inside}", points)
                inside = b.both(inside, b.compare("lt", rest, b.convert(count, WORD)))
            indices = []
            for n in range(len(x.dims) - 1, -1, -1):
                here = rest
                if n:
                    rest, here = self.m.divided(rest, x.sizes[n])
                here = plus(b, x.firsts[n], b.convert(here, INDEX))
                end = x.ends[n]
                if end is not None:
                    inside = b.both(inside, b.compare("lt", here, end))
                indices.append((x.dims[n], here))
            found += indices[::-1]
        return inside, found

    def _slice(self, accs: Sequence[Scalar]) -> tuple[Body, list[Scalar]]:
        """What a step adds to a thread's sums, and the new ones."""
        m, b, r = self.m, self.b, self.rewrite
        step = Dim(self.steps.inside)
        places = [
            [step * pitch + Dim(mine) + begin + n * apart for n in range(count)]
            for pitch, begin, mine, apart, count in (
                (self.pitches[0], self.begins[0], self.row, r.warps, r.rows),
                (self.pitches[1], self.begins[1], self.column, r.warp, r.columns),
            )
        ]
        left, right = [[m.get(self.shared, x) for x in side] for side in places]
        body: list[Statement] = []
        for (i, j), acc in zip(self._parts(), accs, strict=True):
            new = self.of.leaf("result", acc.dtype)
            product = b.mul(left[i], right[j])
            body.append(Reduce(self.reduce.how, (product,), (acc,), (new,)))
        return tuple(body), [s.results[0] for s in body if type(s) is Reduce]

    # ---- what follows ---------------------------------------------------------------------------

    def _in_tile(self, i: int, j: int) -> IndexExpr:
        """Where a thread's sum is in the tile that threads share."""
        r, pitch = self.rewrite, self.pitch
        return Dim(self.row) * pitch + Dim(self.column) + (i * r.warps * pitch + j * r.warp)

    def _point(self, x: Scalar) -> Body:
        """What follows the sums, at a point of the tile."""
        m, rows, columns = self.m, self.rows, self.columns
        place = Dim(rows.inside) * self.pitch + Dim(columns.inside)
        inside, known = self._indices((rows, columns))
        total = self.nest[0].carries[0].result
        body = m.bound(known, (Let((total,), (m.get(self.shared, place),)), *self.stores))
        outer, inner = (columns, rows) if self.along_rows else (rows, columns)
        far, near = m.divided(x, inner.size)
        body = body if inside.is_constant else (If(inside, body),)
        return m.bound([(outer.inside, far), (inner.inside, near)], body)
