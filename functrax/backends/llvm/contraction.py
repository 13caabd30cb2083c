"""The kernel of a contraction as LLVM IR: tiles of accumulators, then the stores of each tile.

What enters is a kernel with a :class:`~functrax.backends.kernels.tiling.Tiling`, whose file shows
the loops.  The products of a tile are added up by a function that contractions share
(``llvm/tile_sums.py``), which writes the sums to scratch memory.  Loops over these do the row
stores, which read the sum there as they read arrays: an epilogue is code like any other, and
vectorised along the dim in which the results are contiguous.

Start at :meth:`Contraction.units`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import ordered
from functrax.backends.kernels.tiling import Reading
from functrax.backends.llvm.instructions import llvm_type
from functrax.backends.llvm.loops import Loops
from functrax.backends.llvm.memory import Memory
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.tile_sums import BAKED, Sums, sums_text
from functrax.backends.llvm.writer import NAME, Names, Writer
from functrax.core.index_expr import Dim, IndexExpr, add_terms

#: Where something begins and ends.
Range: TypeAlias = "tuple[str, str]"


class Contraction:
    """Writes the loops of a contraction."""

    def __init__(self, writer: Writer, memory: Memory, loops: Loops, stores: Stores) -> None:
        self.writer = writer
        self.memory = memory
        self.loops = loops
        self.stores = stores
        tiling = writer.kernel.tiling
        assert tiling is not None
        self.tiling = tiling
        (reduction,) = writer.kernel.stages[0].reductions
        self.dtype: np.dtype[np.generic] = reduction.how.carries[0]
        self.element = llvm_type(self.dtype, 1)
        #: The rows and the columns of a tile.
        self.height = writer.number(tiling.height, ("height",))
        self.columns = writer.number(tiling.width * tiling.lanes, ("width",))

    # ---- loops --------------------------------------------------------------------------------

    def units(self) -> None:
        """The loop over units, and all that is in it."""
        w, t = self.writer, self.tiling
        extents = w.kernel.extents
        w.open_loop("%begin", [])
        unit = w.loop_index()
        parts: list[tuple[int, int, tuple[str, object]]]
        parts = [(d, extents[d], ("extent", d)) for d in t.others]
        parts.append((-1, t.blocks_of_rows(extents), ("blocks", "rows")))
        parts.append((-2, t.blocks_of_columns(extents), ("blocks", "columns")))
        found = self._decoded(unit, [w.number(size, key) for _, size, key in parts])
        places = dict(zip((d for d, _, _ in parts), found, strict=True))
        for d in t.others:
            w.define_dim(d, places[d])
        height, width = t.height, t.width * t.lanes
        rows = self._range(places[-1], height * t.row_tiles, t.rows, "rows")
        columns = self._range(places[-2], width * t.column_tiles, t.columns, "columns")
        if t.block is None:
            with self._in_tiles(rows, columns) as tile:
                inner = w.kernel.inner
                self._prefetch(tile)
                self._sums(inner, w.extent(inner[0]), "0", "0", rows[0])
                self._epilogue(tile)
        else:
            self._blocks(rows, columns)
        w.close_loop("1", "%end", [])

    def _decoded(self, unit: str, sizes: Names) -> Names:
        """The index along each part of the number of a unit, the last part counting fastest."""
        w = self.writer
        out = []
        for size in reversed(sizes[1:]):
            # Units are few, and a division of short integers is short.
            short = [w.line(f"trunc i64 {x} to i32") for x in (unit, size)]
            found = w.line(f"udiv i32 {', '.join(short)}")
            found = w.line(f"zext i32 {found} to i64")
            whole = w.line(f"mul i64 {found}, {size}")
            out.append(w.line(f"sub i64 {unit}, {whole}"))
            unit = found
        out.append(unit)
        return out[::-1]

    def _range(self, block: str, size: int, d: int, what: str) -> Range:
        """Where the block of a unit begins along a dim, and where it ends."""
        w = self.writer
        grain = w.number(size, ("block", what))
        low = w.line(f"mul i64 {block}, {grain}")
        high = w.line(f"add i64 {low}, {grain}")
        return low, self._smaller(high, w.extent(d))

    def _smaller(self, x: str, y: str) -> str:
        w = self.writer
        below = w.line(f"icmp slt i64 {x}, {y}")
        return w.line(f"select i1 {below}, i64 {x}, i64 {y}")

    @contextmanager
    def _in_tiles(self, rows: Range, columns: Range) -> Iterator[tuple[Range, Range]]:
        """The loops over tiles of a unit; gives where the tile begins, and where its block ends."""
        w, t = self.writer, self.tiling
        height, width = t.height, t.width * t.lanes
        self._open_tiles(columns, width, t.columns, t.first_column, t.right)
        column = w.loop_index()
        self._open_tiles(rows, height, t.rows, t.first_row, t.left)
        if t.block is not None:
            w.define_dim(t.first_column + 1, self._slot(rows[0], columns[0], column))
        yield (w.loop_index(), rows[1]), (column, columns[1])
        w.close_loop(self.height, rows[1], [])
        w.close_loop(self.columns, columns[1], [])

    def _open_tiles(self, block: Range, size: int, d: int, first: int, side: Reading) -> None:
        """Begin the loop over tiles of a block, which defines the dim where they begin."""
        w = self.writer
        extent = w.kernel.extents[d]
        w.open_loop(block[0], [])
        begin = w.loop_index()
        moves = not side.packed and extent >= size
        last = w.number(extent - size if moves else extent, ("last tile", d))
        w.define_dim(first, self._smaller(begin, last))  # moved back, so that it is inside

    def _slot(self, first_row: str, first_column: str, column: str) -> str:
        """Where the sums of a tile are in scratch memory: block of columns by block of columns."""
        w, t = self.writer, self.tiling
        across = w.line(f"sub i64 {column}, {first_column}")
        rows = w.number(t.row_tiles * t.height, ("rows of a unit",))
        across = w.line(f"mul i64 {across}, {rows}")
        down = w.line(f"sub i64 {w.loop_index()}, {first_row}")
        down = w.line(f"mul i64 {down}, {self.columns}")
        return w.line(f"add i64 {across}, {down}")

    # ---- sums ---------------------------------------------------------------------------------

    def _blocks(self, rows: Range, columns: Range) -> None:
        """The sums of all tiles of a unit, some steps at a time, then the stores."""
        w, t = self.writer, self.tiling
        assert t.block is not None
        dim, size = t.block
        inner = w.kernel.inner
        outside = inner[: inner.index(dim)]
        high = w.extent(dim)
        done = []
        for d in outside:
            w.open_loop("0", [])
            w.define_dim(d, w.loop_index())
            done.append(w.loop_index())
        step = w.number(size, ("block", dim))
        w.open_loop("0", [])
        begin = w.loop_index()
        w.define_dim(dim, begin)
        end = self._smaller(w.line(f"add i64 {begin}, {step}"), high)
        length = w.line(f"sub i64 {end}, {begin}")
        more = begin
        for other in done:
            more = w.line(f"or i64 {more}, {other}")
        with self._in_tiles(rows, columns):
            slot = w.known["dim", t.first_column + 1].name
            self._sums(inner[len(outside) :], length, slot, more, rows[0], dim)
        w.close_loop(step, high, [])
        for d in reversed(outside):
            w.close_loop("1", w.extent(d), [])
        with self._in_tiles(rows, columns) as tile:
            self._epilogue(tile)

    def _sums(
        self,
        dims: Sequence[int],
        length: str,
        slot: str,
        more: str,
        first_row: str,
        begun: int | None = None,
    ) -> None:
        """Add up the products of a tile: along dims, of the first of which ``length`` points.

        Args:
          dims: the inner dims that are in the tile's loops.
          length: how many points of the first one.
          slot: where the sums are in scratch memory.
          more: whether they are added to; 0 if they begin here.
          first_row: where the rows of the unit begin.
          begun: the dim of which a block has its begin defined; all others in the loops begin at 0.
        """
        w, t = self.writer, self.tiling
        inside = {d for d in dims if d != begun}
        bases = []
        for side in (t.left, t.right):
            terms = [(a, c) for a, c in side.address.terms if not _is_one(a, inside)]
            bases.append(
                self.memory.pointer(side.buffer, add_terms(side.address.const, terms), True)[0]
            )
        right = [coefficient(t.right.address, d) for d in dims]
        form = self._form(len(dims))
        panel = "null"
        if t.panel is None:
            place = w.table(self._numbers(dims, right))
            function = w.function(sums_text(form, NAME))
        else:
            # The first tile of rows copies what it reads of the right side, others read the copy.
            start = w.number(t.panel, ("panel",))
            panel = w.line(f"getelementptr {self.element}, ptr %b{t.scratch}, i64 {start}")
            steps = [t.width * t.lanes]
            for d in reversed(dims[1:]):
                steps.insert(0, steps[0] * w.kernel.extents[d])
            first = (
                bases[1],
                w.table(self._numbers(dims, right, steps)),
                w.function(sums_text(replace(form, copies=True), NAME)),
            )
            others = (
                panel,
                w.table(self._numbers(dims, steps)),
                w.function(sums_text(replace(form, masked=False), NAME)),
            )
            copies = w.line(f"icmp eq i64 {w.loop_index()}, {first_row}")
            bases[1], place, function = (
                w.line(f"select i1 {copies}, ptr {x}, ptr {y}")
                for x, y in zip(first, others, strict=True)
            )
        tile = w.line(f"getelementptr {self.element}, ptr %b{t.scratch}, i64 {slot}")
        w.levels[-1].lines.append(
            f"  call void {function}(ptr {bases[0]}, ptr {bases[1]}, ptr {tile}, ptr {place}, "
            f"i64 {length}, i64 {more}, ptr {panel})"
        )

    def _numbers(self, dims: Sequence[int], *right: Sequence[int]) -> list[int]:
        """The numbers that a function of sums reads; these are the steps of what is not left."""
        w, t = self.writer, self.tiling
        numbers = [t.left.step, w.kernel.extents[t.columns]]
        for d, *steps in zip(dims, *right, strict=True):
            numbers += [coefficient(t.left.address, d), *steps]
        return numbers + [w.kernel.extents[d] for d in dims[1:]]

    def _form(self, loops: int) -> Sums:
        """What function adds up the products of a tile."""
        t = self.tiling
        step = t.left.step if 0 <= t.left.step <= BAKED or t.height == 1 else None
        narrow = self.writer.kernel.extents[t.columns] < t.width * t.lanes
        masked = narrow and not t.right.packed
        return Sums(
            self.dtype, t.height, t.width, t.lanes, loops, 0 if t.height == 1 else step, masked
        )

    # ---- stores -------------------------------------------------------------------------------

    def _own(self, tile: tuple[Range, Range]) -> list[tuple[int, Range]]:
        """The dims of a tile and the part of it that is its own, the vector dim last."""
        w, t = self.writer, self.tiling
        loops = []
        sizes = (self.height, self.columns)
        for d, (low, high), size in zip((t.rows, t.columns), tile, sizes, strict=True):
            end = w.line(f"add i64 {low}, {size}")
            loops.append((d, (low, self._smaller(end, high))))
        if w.kernel.vector == t.rows:
            loops.reverse()
        return loops

    def _prefetch(self, tile: tuple[Range, Range]) -> None:
        """Ask for the rows of arrays that the epilogue of a tile reads and writes.

        They are few lines each of many rows, which no processor foresees.  The sums take longer
        than they take to come.
        """
        w, t = self.writer, self.tiling
        if w.kernel.vector is None or "ahead" in w.kernel.off:
            return
        (outer, (first, last)), (inner, (low, _)) = self._own(tile)
        rows = list(self._rows_of_epilogue(outer, inner))
        if not rows:
            return
        w.open_loop(first, [])
        w.define_dim(outer, w.loop_index())
        w.define_dim(inner, low)
        length = t.width * t.lanes if inner == t.columns else t.height
        for buffer, address, write in rows:
            pointer, _, _ = self.memory.pointer(buffer, address)
            size = length * w.kernel.operands[buffer].dtype.itemsize
            self.memory.prefetch_lines(pointer, size, len(w.levels) - 1, write)
        w.close_loop("1", last, [])

    def _rows_of_epilogue(self, outer: int, inner: int) -> Iterator[tuple[int, IndexExpr, bool]]:
        """Arrays and addresses of which the epilogue of a tile touches some rows, each once."""
        w, t = self.writer, self.tiling
        places: dict[tuple[int, IndexExpr], bool] = {}
        values = [x for store in w.kernel.rows for x in (store.value, store.guard) if x is not None]
        for node in ordered(iter(values)):
            if node.op == "load" and not node.attr[2] and node.attr[0] != t.scratch:
                places.setdefault((node.attr[0], node.attr[1]), False)
        for store in w.kernel.rows:
            if store.offset is None:
                places[store.buffer, store.address] = True
        for (buffer, address), write in places.items():
            if coefficient(address, inner) == 1 and coefficient(address, outer):
                yield buffer, address, write

    def _epilogue(self, tile: tuple[Range, Range]) -> None:
        """Loops over the part of the tile that is its own, the one of the vector dim inside."""
        w, t = self.writer, self.tiling
        (outer, (first, last)), (inner, (low, high)) = self._own(tile)
        w.open_loop(first, [])
        w.define_dim(outer, w.loop_index())
        w.open_loop(low, [])
        w.define_dim(inner, w.loop_index())
        w.vector_level = len(w.levels) - 1
        w.masked = True
        self.loops.define_tail(w.loop_index(), high)
        for store in w.kernel.rows:
            self.stores.store(store)
        w.vector_level = -1
        w.close_loop(str(t.lanes), high, [])
        w.close_loop("1", last, [])


def _is_one(atom: object, dims: set[int]) -> bool:
    return isinstance(atom, Dim) and atom.number in dims
