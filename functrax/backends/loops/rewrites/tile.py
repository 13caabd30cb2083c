"""Tiles of a contraction: sums that stay in registers, and what follows those of each tile.

What enters is the plain tree of a contraction: loops over its points, in each of which a product is
summed, the sum stored to scratch memory, and what follows computed from there.  The loops become
those of :class:`~functrax.backends.kernels.tiling.Tiling`, whose file shows them.  Where there is
nothing to do but to store them, the sums of a whole tile are written to their places at once.

Start at :class:`TileSums`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Reduce, Store, ordered
from functrax.backends.kernels.tiling import Reading, Tiling, pitch_of_columns
from functrax.backends.loops.rewrites.rewrite import Rewrite, nest
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Body,
    Function,
    If,
    Loop,
    Place,
    Prefetch,
    Statement,
    TileSum,
    TurnTile,
    extent,
    index,
    number,
    smaller,
)
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types.size_bounds import roughly

_WORD: Final = np.dtype(np.uint32)
#: The largest step between neighbours of which whole lines are asked for.
NEAR: Final = 4
#: Where something begins and ends.
Range: TypeAlias = "tuple[Scalar, Scalar]"
#: What is done with a tile: from where it begins and its block ends, along rows and columns.
Inside: TypeAlias = "Callable[[Range, Range], list[Statement]]"


@record
class TileSums(Rewrite):
    """The loops of a contraction in tiles.

    Args:
      tiling: the tiles.
      vector: the dim along which what follows the sums has lanes.
      lanes: how many.
      ahead: whether rows that follow the sums are asked for before these.
      result: the array that the sums are stored to as they are, if that is all that follows; -1 if
        there is none.
      adds: whether they are added to what is there.
    """

    kind: ClassVar[str] = "tile"
    tiling: Tiling
    vector: int
    lanes: int
    ahead: bool
    result: int = -1
    adds: bool = False

    @property
    def is_required(self) -> bool:
        """Always: packed sides are read by tiles."""
        return True

    def __str__(self) -> str:
        return f"tile {self.tiling}"

    def apply(self, tree: Function) -> Function:
        """The tree of loops over tiles."""
        tree = replace(tree, vector=self.vector, lanes=self.lanes)
        body = _Tiled(tree, self).units()
        return replace(tree, body=body, units=self.tiling.units(tree.extents))


@record(eq=False)
class _Steps:
    """What a tile sums.

    Args:
      dims: the inner dims that are in the tile's loops.
      length: how many points of the first one.
      begun: the dim of which a block has its begin; all others in the loops begin at 0.
      more: whether the sums are added to; 0 if they begin here.
    """

    dims: tuple[int, ...]
    length: Scalar
    begun: int | None
    more: Scalar


class _Tiled:
    """Makes the loops of one contraction."""

    def __init__(self, tree: Function, rewrite: TileSums) -> None:
        self.tree, self.rewrite, self.tiling = tree, rewrite, rewrite.tiling
        self.b, self.extents = tree.builder, tree.extents
        self.inner, self.dtype, self.stores = _parts(tree)
        t = self.tiling
        #: The rows and the columns of a tile.
        self.height = number(self.b, "height", t.height)
        self.columns = number(self.b, "width", t.width * t.lanes)
        found = [s for s in self.stores if s.buffer == rewrite.result]
        self.result = found[0] if found else None
        self.zero = self._const(0)
        #: Where the right side of the next unit begins, for tiles that fetch.
        self.next_unit = self.zero

    # ---- loops ----------------------------------------------------------------------------------

    def units(self) -> Body:
        """The loop over units, and all that is in it."""
        b, t, extents = self.b, self.tiling, self.extents
        unit = self.tree.new_dim()
        parts: list[tuple[int, Scalar]]
        parts = [(d, extent(b, d, extents[d])) for d in t.others]
        parts.append((-1, number(b, "blocks_of_rows", t.blocks_of_rows(extents))))
        parts.append((-2, number(b, "blocks_of_columns", t.blocks_of_columns(extents))))
        names, sizes = [d for d, _ in parts], [x for _, x in parts]
        places = dict(zip(names, self._decoded(index(b, unit), sizes), strict=True))
        if self._fetches():
            following = self._decoded(b.add(index(b, unit), self._const(1)), sizes)
            self.next_unit = self._begin_of(places, dict(zip(names, following, strict=True)))
        height, width = t.height, t.width * t.lanes
        rows = self._range(places[-1], height * t.row_tiles, t.rows, "rows_of_a_block")
        columns = self._range(places[-2], width * t.column_tiles, t.columns, "columns_of_a_block")
        body: Body
        if t.block is None:
            body = (self._in_tiles(rows, columns, self._whole_tile(rows[0])),)
        else:
            body = self._blocks(rows, columns)
        for d in reversed(t.others):
            body = (Bind(d, places[d], body),)
        begin, end = (b.node("units", INDEX, (), x) for x in ("begin", "end"))
        return (Loop("threads", unit, begin, end, 1, body),)

    def _const(self, value: int) -> Scalar:
        return self.b.const(value, INDEX)

    def _number(self, key: str, value: int) -> Scalar:
        return number(self.b, key, value)

    def _decoded(self, unit: Scalar, sizes: Sequence[Scalar]) -> list[Scalar]:
        """The index along each part of the number of a unit, the last part counting fastest."""
        b = self.b
        out = []
        for size in reversed(sizes[1:]):
            found = _quotient(b, unit, size)
            out.append(b.sub(unit, b.mul(found, size)))
            unit = found
        out.append(unit)
        return out[::-1]

    def _begin_of(self, here: dict[int, Scalar], there: dict[int, Scalar]) -> Scalar:
        """How far another unit's first columns are from the first of all, at this one's others."""
        b, t = self.b, self.tiling
        step = coefficient(t.right.address, t.first_column) * t.width * t.lanes * t.column_tiles
        total = b.mul(there[-2], self._number("next_unit", step))
        for d in t.others:
            step = coefficient(t.right.address, d)
            if step:
                way = b.mul(b.sub(there[d], here[d]), self._number(f"next_d{d}", step))
                total = b.add(total, way)
        return total

    def _range(self, block: Scalar, size: int, d: int, what: str) -> Range:
        """Where the block of a unit begins along a dim, and where it ends."""
        b = self.b
        grain = self._number(what, size)
        low = b.mul(block, grain)
        return low, smaller(b, b.add(low, grain), extent(b, d, self.extents[d]))

    def _in_tiles(self, rows: Range, columns: Range, inside: Inside) -> Statement:
        """The loops over tiles of a unit."""
        b, t, tree = self.b, self.tiling, self.tree
        c, r = tree.new_dim(), tree.new_dim()
        column, row = index(b, c), index(b, r)
        body = tuple(inside((row, rows[1]), (column, columns[1])))
        if t.block is not None:
            slot = self._slot(rows[0], columns[0], row, column)
            body = (Bind(t.first_column + 1, slot, body),)
        begin = self._begin(row, t.height, t.rows, t.left)
        body = (Bind(t.first_row, begin, body, tile=(t.rows, t.height)),)
        body = (Loop("serial", r, rows[0], rows[1], t.height, body, by=self.height),)
        width = t.width * t.lanes
        begin = self._begin(column, width, t.columns, t.right)
        body = (Bind(t.first_column, begin, body, tile=(t.columns, width)),)
        return Loop("serial", c, columns[0], columns[1], width, body, by=self.columns)

    def _begin(self, here: Scalar, size: int, d: int, side: Reading) -> Scalar:
        """Where a tile begins: moved back, so that it is inside, but where a side was packed."""
        n = self.extents[d]
        last = n - size if not side.packed and n >= size else n
        return smaller(self.b, here, self._number(f"last_tile_d{d}", last))

    def _slot(self, first_row: Scalar, first_column: Scalar, row: Scalar, column: Scalar) -> Scalar:
        """Where the sums of a tile are in scratch memory: block of columns by block of columns."""
        b, t = self.b, self.tiling
        rows = self._number("rows_of_a_unit", t.row_tiles * t.height)
        across = b.mul(b.sub(column, first_column), rows)
        return b.add(across, b.mul(b.sub(row, first_row), self.columns))

    # ---- where sums go --------------------------------------------------------------------------

    def _waiting(self, slot: Scalar | None = None) -> Place:
        """A place in scratch memory."""
        t = self.tiling
        pitch = self._const(t.width * t.lanes * self.dtype.itemsize)
        return Place(t.scratch, add_terms(0, ()), slot, pitch)

    def _turned(self) -> Place:
        """The place in scratch memory of the columns of a tile."""
        t = self.tiling
        pitch = pitch_of_columns(t.height, self.tree.lanes) * self.dtype.itemsize
        return Place(t.scratch, add_terms(t.turned or 0, ()), None, self._number("pitch", pitch))

    def _as_results(self, rows: Range, columns: Range) -> tuple[Place, Scalar | None]:
        """Where the results of a tile are, and whether it is whole; None if all are.

        The sums of one that is not wait in scratch memory, and the row stores follow.
        """
        b, t, store = self.b, self.tiling, self.result
        assert store is not None
        starts = {t.rows: Dim(t.first_row), t.columns: Dim(t.first_column)}
        address = store.address.substitute(starts)
        across = t.first_row if t.turned is None else t.first_column
        pitch = coefficient(address, across) * self.dtype.itemsize
        there = Place(store.buffer, address, None, self._number("pitch_of_results", pitch))
        whole = None
        sides = (t.left, self.height, rows), (t.right, self.columns, columns)
        for side, size, (begin, end) in sides:
            if side.packed:
                inside = b.compare("le", b.add(begin, size), end)
                whole = inside if whole is None else b.logic("and", whole, inside)
        return there, whole

    def _whole_tile(self, first_row: Scalar) -> Inside:
        """What is done with each tile whose steps are all done at once."""

        def inside(rows: Range, columns: Range) -> list[Statement]:
            length = extent(self.b, self.inner[0], self.extents[self.inner[0]])
            steps = _Steps(self.inner, length, None, self.zero)
            ahead = list(self._touched(rows, columns)) if self.rewrite.ahead else []
            if self.result is None or self.tiling.turned is not None:
                sums = self._sums(steps, rows, columns, first_row, self._waiting())
                return [*ahead, sums, *self._finish(rows, columns, self._waiting())]
            place, whole = self._as_results(rows, columns)
            if self.rewrite.adds:
                one = self._const(1)
                more = one if whole is None else self.b.select(whole, one, self.zero)
                steps = replace(steps, more=more)
            waiting = self._waiting()
            sums = self._sums(steps, rows, columns, first_row, place, whole, waiting)
            if whole is None:
                return [*ahead, sums]
            return [*ahead, sums, If(whole, (), (self._epilogue(rows, columns),))]

        return inside

    def _finish(self, rows: Range, columns: Range, tile: Place) -> list[Statement]:
        """What follows sums that wait in scratch memory."""
        t = self.tiling
        if t.turned is None:
            return [self._epilogue(rows, columns)]
        masked = self.result is not None and bool(t.height % self.tree.lanes)
        size = self.height, self.columns
        if self.result is None:
            turn = TurnTile(self.dtype, tile, self._turned(), None, None, *size, masked)
            return [turn, self._epilogue(rows, columns)]
        place, whole = self._as_results(rows, columns)
        turn = TurnTile(self.dtype, tile, place, whole, self._turned(), *size, masked)
        if whole is None:
            return [turn]
        return [turn, If(whole, (), (self._epilogue(rows, columns),))]

    # ---- what follows sums ----------------------------------------------------------------------

    def _own(self, rows: Range, columns: Range) -> list[tuple[int, Range]]:
        """The dims of a tile and the part of it that is its own, the vector dim last."""
        b, t = self.b, self.tiling
        loops = []
        parts = (t.rows, rows, self.height), (t.columns, columns, self.columns)
        for d, (low, high), size in parts:
            loops.append((d, (low, smaller(b, b.add(low, size), high))))
        if self.tree.vector == t.rows:
            loops.reverse()
        return loops

    def _epilogue(self, rows: Range, columns: Range) -> Statement:
        """Loops over the part of a tile that is its own, the one of the vector dim inside."""
        (outer, (first, last)), (inner, (low, high)) = self._own(rows, columns)
        lanes = self.tree.lanes
        vector = Loop("vector", inner, low, high, lanes, self.stores, masked=True)
        return Loop("serial", outer, first, last, 1, (vector,))

    def _touched(self, rows: Range, columns: Range) -> Iterator[Statement]:
        """Ask for the rows of arrays that what follows the sums reads and writes.

        They are few lines each of many rows, which no processor foresees.  The sums take longer
        than they take to come.
        """
        t = self.tiling
        (outer, (first, last)), (inner, (low, _)) = self._own(rows, columns)
        length = t.width * t.lanes if inner == t.columns else t.height
        touched = [
            Prefetch(buffer, address, None, (length - 1) * coefficient(address, inner) + 1, write)
            for buffer, address, write in self._rows_of_epilogue(outer, inner)
        ]
        if touched:
            yield Loop("serial", outer, first, last, 1, (Bind(inner, low, tuple(touched)),))

    def _rows_of_epilogue(self, outer: int, inner: int) -> Iterator[tuple[int, IndexExpr, bool]]:
        """Arrays and addresses of which what follows the sums touches some rows, each once."""
        places: dict[tuple[int, IndexExpr], bool] = {}
        values = [x for store in self.stores for x in (store.value, store.guard) if x is not None]
        for node in ordered(values):
            if node.op == "load" and not node.attr[2] and node.attr[0] != self.tiling.scratch:
                places.setdefault((node.attr[0], node.attr[1]), False)
        for store in self.stores:
            if store.offset is None:
                places[store.buffer, store.address] = True
        for (buffer, address), write in places.items():
            near = 1 <= coefficient(address, inner) <= NEAR
            if near and coefficient(address, outer):
                yield buffer, address, write

    # ---- sums -----------------------------------------------------------------------------------

    def _blocks(self, rows: Range, columns: Range) -> Body:
        """The sums of all tiles of a unit, some steps at a time, then what follows them."""
        b, t = self.b, self.tiling
        assert t.block is not None
        dim, size = t.block
        outside = self.inner[: self.inner.index(dim)]
        dims = self.inner[len(outside) :]
        step = self._number(f"block_of_d{dim}", size)
        begin, high = index(b, dim), extent(b, dim, self.extents[dim])
        length = b.sub(smaller(b, b.add(begin, step), high), begin)
        more = begin
        for d in outside:
            more = b.logic("or", more, index(b, d))
        slot = index(b, t.first_column + 1)

        def sums(tile_rows: Range, tile_columns: Range) -> list[Statement]:
            steps = _Steps(dims, length, dim, more)
            waiting = self._waiting(slot)
            return [self._sums(steps, tile_rows, tile_columns, rows[0], waiting)]

        def finish(tile_rows: Range, tile_columns: Range) -> list[Statement]:
            return self._finish(tile_rows, tile_columns, self._waiting(slot))

        tiles = self._in_tiles(rows, columns, sums)
        loop: Statement = Loop("serial", dim, self.zero, high, size, (tiles,), by=step)
        for d in reversed(outside):
            loop = Loop("serial", d, self.zero, extent(b, d, self.extents[d]), 1, (loop,))
        return loop, self._in_tiles(rows, columns, finish)

    def _sums(
        self,
        steps: _Steps,
        rows: Range,
        columns: Range,
        first_row: Scalar,
        to: Place,
        whole: Scalar | None = None,
        instead: Place | None = None,
    ) -> TileSum:
        """The sums of the products of a tile.

        Args:
          steps: what is summed.
          rows: where the rows of the tile begin, and their block ends.
          columns: the same of columns.
          first_row: where the rows of the unit begin.
          to: where the sums go.
          whole: whether they go there; else to another place.
          instead: that place.
        """
        b, t = self.b, self.tiling
        later, parts = None, 1
        if self._fetches():
            parts = 1 << (t.row_tiles.bit_length() - 1)
            later = self._later(steps, rows, columns, first_row, parts)
        panel = copies = None
        if t.panel is not None:
            panel = replace(self._waiting(), address=add_terms(t.panel, ()))
            copies = b.compare("eq", rows[0], first_row)
        return TileSum(
            self.dtype, t.height, t.width, t.lanes, t.left, t.right, t.columns, steps.dims,
            steps.length, steps.begun, to, whole, None if whole is None else instead, steps.more,
            t.dot, panel, copies, later, parts,
        )  # fmt: skip

    def _later(
        self, steps: _Steps, rows: Range, columns: Range, first_row: Scalar, parts: int
    ) -> Scalar:
        """Where the part begins of what is read next of the right side that this tile asks for.

        That is the next block of steps where a unit is one tile of columns, else the next tile,
        which may be the next unit's first.
        """
        b, t, length, begun = self.b, self.tiling, steps.length, steps.begun
        place = _quotient(b, b.sub(rows[0], first_row), self.height)
        place = smaller(b, place, self._number("last_part", parts - 1))
        row = b.mul(place, _quotient(b, length, self._number("parts", parts)))
        across = coefficient(t.right.address, t.first_column)
        begin = b.mul(index(b, t.first_column), self._number("next_column", across))
        far = b.sub(self.next_unit, begin)
        if t.column_tiles > 1:
            last = b.compare("ge", b.add(columns[0], self.columns), columns[1])
            far = b.select(last, far, self._number("next_tile", across * t.width * t.lanes))
        elif begun is not None:
            done, high = index(b, begun), extent(b, begun, self.extents[begun])
            goes_on = b.compare("lt", b.add(done, length), high)
            row = b.add(row, b.select(goes_on, length, b.sub(self.zero, done)))
            far = b.select(goes_on, self.zero, far)
        pitch = self._number("next_row", coefficient(t.right.address, steps.dims[0]))
        return b.add(b.mul(row, pitch), far)

    def _fetches(self) -> bool:
        """Whether tiles ask for what later ones read of the right side."""
        t = self.tiling
        inside = len(self.inner) - (0 if t.block is None else self.inner.index(t.block[0]))
        narrow = roughly(self.extents[t.columns]) < t.width * t.lanes
        return inside == 1 and t.fetches and not narrow and not t.on_unit


def _parts(tree: Function) -> tuple[tuple[int, ...], np.dtype[Any], tuple[Store, ...]]:
    """Of the plain tree of a contraction the dims that are summed along, the dtype of the sums, and
    what follows them.
    """
    body = tree.body
    while True:
        first = body[0]
        if (type(first) is Loop and not first.carries) or type(first) is Bind:
            body = first.body
            continue
        assert type(first) is Loop
        loops = nest(first)
        (reduction,) = (s for s in loops[-1].body if type(s) is Reduce)
        dims = tuple([loop.dim for loop in loops])
        stores = tuple([s for s in body[2:] if type(s) is Store])
        assert len(stores) == len(body) - 2
        return dims, reduction.how.carries[0], stores


def _quotient(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """How often a small integer that is not negative contains another one."""
    return b.convert(b.div(b.convert(x, _WORD), b.convert(y, _WORD)), INDEX)
