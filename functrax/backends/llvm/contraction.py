"""The kernel of a contraction as LLVM IR: tiles of accumulators, then the stores of each tile.

What enters is a kernel with a :class:`~functrax.backends.kernels.tiling.Tiling`, whose file shows
the loops.  The accumulators are carried by the inner loops, in registers.  After these they are
written to a tile of scratch memory, and loops over it do the row stores, which read the sum there
as they read arrays: an epilogue is code like any other, and vectorised along the dim in which the
results are contiguous.

Start at :meth:`Contraction.units`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from functrax.backends.kernels.tiling import Reading
from functrax.backends.llvm.instructions import constant, llvm_type
from functrax.backends.llvm.loops import Loops
from functrax.backends.llvm.memory import Memory, memory_type
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.writer import Names, Writer
from functrax.core import dtypes

#: Where something begins and ends.
Range: TypeAlias = "tuple[str, str]"
#: Steps between rows up to this are part of the addresses in the code.
BAKED = 4


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
        self.vector = llvm_type(self.dtype, tiling.lanes)
        self.element = llvm_type(self.dtype, 1)
        self.mask: Names | None = None

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
                zeros = [constant(0, self.dtype, t.lanes)] * (t.height * t.width)
                self._store_sums(self._sums(w.kernel.inner, zeros), "0")
                self._epilogue(tile)
        else:
            self._blocks(rows, columns)
        w.close_loop("1", "%end", [])

    def _decoded(self, unit: str, sizes: Names) -> Names:
        """The index along each part of the number of a unit, the last part counting fastest."""
        w = self.writer
        out = []
        for size in reversed(sizes[1:]):
            out.append(w.line(f"urem i64 {unit}, {size}"))
            unit = w.line(f"udiv i64 {unit}, {size}")
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
        w.close_loop(str(height), rows[1], [])
        w.close_loop(str(width), columns[1], [])

    def _open_tiles(self, block: Range, size: int, d: int, first: int, side: Reading) -> None:
        """Begin the loop over tiles of a block, which defines the dim where they begin."""
        w = self.writer
        extent = w.kernel.extents[d]
        w.open_loop(block[0], [])
        begin = w.loop_index()
        if not side.packed and extent >= size:
            last = w.number(extent - size, ("last tile", d))
            begin = self._smaller(begin, last)  # moved back, so that it is inside
        w.define_dim(first, begin)

    def _slot(self, first_row: str, first_column: str, column: str) -> str:
        """Where the sums of a tile are in scratch memory: block of columns by block of columns."""
        w, t = self.writer, self.tiling
        across = w.line(f"sub i64 {column}, {first_column}")
        rows = w.number(t.row_tiles * t.height, ("rows of a unit",))
        across = w.line(f"mul i64 {across}, {rows}")
        down = w.line(f"sub i64 {w.loop_index()}, {first_row}")
        down = w.line(f"mul i64 {down}, {t.width * t.lanes}")
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
        starts = []
        for d in outside:
            w.open_loop("0", [])
            w.define_dim(d, w.loop_index())
            starts.append(w.loop_index())
        step = w.number(size, ("block", dim))
        w.open_loop("0", [])
        begin = w.loop_index()
        end = self._smaller(w.line(f"add i64 {begin}, {step}"), high)
        first = w.line(f"icmp eq i64 {begin}, 0")
        for start in starts:
            zero = w.line(f"icmp eq i64 {start}, 0")
            first = w.line(f"and i1 {first}, {zero}")
        self.loops.ranges[dim] = (begin, end)
        with self._in_tiles(rows, columns):
            slot = w.known["dim", t.first_column + 1].name
            sums = self._sums(inner[len(outside) :], self._sums_so_far(slot, first))
            self._store_sums(sums, slot)
        del self.loops.ranges[dim]
        w.close_loop(step, high, [])
        for d in reversed(outside):
            w.close_loop("1", w.extent(d), [])
        with self._in_tiles(rows, columns) as tile:
            self._epilogue(tile)

    def _sums_so_far(self, slot: str, first: str) -> Names:
        w, zero = self.writer, constant(0, self.dtype, self.tiling.lanes)
        out = []
        for k in range(self.tiling.height * self.tiling.width):
            place = self._sum_pointer(slot, k)
            size = self.dtype.itemsize
            before = w.line(f"load {self.vector}, ptr {place}, align {size}")
            out.append(w.line(f"select i1 {first}, {self.vector} {zero}, {self.vector} {before}"))
        return out

    def _sum_pointer(self, slot: str, k: int) -> str:
        w, t = self.writer, self.tiling
        base = w.line(f"getelementptr {self.element}, ptr %b{t.scratch}, i64 {slot}")
        return w.line(f"getelementptr {self.element}, ptr {base}, i64 {k * t.lanes}")

    def _store_sums(self, sums: Names, slot: str) -> None:
        lines = self.writer.levels[-1].lines
        for k, name in enumerate(sums):
            place = self._sum_pointer(slot, k)
            lines.append(f"  store {self.vector} {name}, ptr {place}, align {self.dtype.itemsize}")

    def _sums(self, dims: Sequence[int], starts: Names) -> Names:
        """The accumulators of a tile after the loops over inner dims."""
        self._define_masks()
        carried = [(self.vector, name) for name in starts]
        return self.loops.nest(dims, carried, self._step)

    def _define_masks(self) -> None:
        """Which lanes of each vector are inside, where one tile has all columns and more."""
        w, t = self.writer, self.tiling
        extent = w.kernel.extents[t.columns]
        if t.right.packed or extent >= t.width * t.lanes or self.mask is not None:
            return
        self.mask = []
        iota = ", ".join(f"i32 {k}" for k in range(t.lanes))
        for k in range(t.width):
            left = w.line(f"sub i64 {w.extent(t.columns)}, {k * t.lanes}", 0)
            narrow = w.line(f"trunc i64 {left} to i32", 0)
            kind = f"<{t.lanes} x i32>"
            one = w.line(f"insertelement {kind} poison, i32 {narrow}, i64 0", 0)
            zeros = f"<{t.lanes} x i32> zeroinitializer"
            many = w.line(f"shufflevector {kind} {one}, {kind} poison, {zeros}", 0)
            self.mask.append(w.line(f"icmp slt {kind} <{iota}>, {many}", 0))

    def _step(self, sums: Names) -> Names:
        """One step of K: every element of the left side times every vector of the right one."""
        t = self.tiling
        vectors = self._vectors()
        out = []
        for k, element in enumerate(self._elements()):
            for j, vector in enumerate(vectors):
                out.append(self._multiplied(element, vector, sums[k * t.width + j]))
        return out

    def _vectors(self) -> Names:
        """The vectors of the right side at this step."""
        w, t = self.writer, self.tiling
        base, level, _ = self.memory.pointer(t.right.buffer, t.right.address)
        size, out = self.dtype.itemsize, []
        for j in range(t.width):
            place = w.line(f"getelementptr {self.element}, ptr {base}, i64 {j * t.lanes}", level)
            if self.mask is None:
                out.append(w.line(f"load {self.vector}, ptr {place}, align {size}", level))
                continue
            suffix = self._suffix()
            out.append(
                w.line(
                    f"call {self.vector} @llvm.masked.load.{suffix}.p0(ptr {place}, i32 {size}, "
                    f"<{t.lanes} x i1> {self.mask[j]}, {self.vector} zeroinitializer)",
                    level,
                )
            )
        return out

    def _elements(self) -> Names:
        """The elements of the left side at this step, each in all lanes."""
        w, t = self.writer, self.tiling
        base, level, _ = self.memory.pointer(t.left.buffer, t.left.address)
        out = []
        for k in range(t.height):
            place = w.line(f"getelementptr {self.element}, ptr {base}, i64 {self._row(k)}", level)
            value = w.line(f"load {self.element}, ptr {place}", level)
            out.append(self._in_all_lanes(value, level))
        return out

    def _row(self, k: int) -> str:
        """How far a row of a tile is from the first one."""
        w, step = self.writer, self.tiling.left.step
        if k == 0 or 0 <= step <= BAKED:
            return str(k * step)
        number = w.number(step, ("step", "left"))
        key = ("row", k)
        found = w.known.get(key)
        if found is None:
            found = w.know(key, w.line(f"mul i64 {number}, {k}", 0), False, 0)
        return found.name

    def _in_all_lanes(self, value: str, level: int) -> str:
        w, lanes = self.writer, self.tiling.lanes
        one = w.line(f"insertelement {self.vector} poison, {self.element} {value}, i64 0", level)
        zeros = f"<{lanes} x i32> zeroinitializer"
        return w.line(f"shufflevector {self.vector} {one}, {self.vector} poison, {zeros}", level)

    def _multiplied(self, x: str, y: str, total: str) -> str:
        w, vector = self.writer, self.vector
        if dtypes.is_float(self.dtype):
            operands = ", ".join(f"{vector} {name}" for name in (x, y, total))
            return w.line(f"call {vector} @llvm.fma.{self._suffix()}({operands})")
        product = w.line(f"mul {vector} {x}, {y}")
        return w.line(f"add {vector} {total}, {product}")

    def _suffix(self) -> str:
        element = memory_type(self.dtype)
        return f"v{self.tiling.lanes}" + {"float": "f32", "double": "f64"}.get(element, element)

    # ---- stores -------------------------------------------------------------------------------

    def _epilogue(self, tile: tuple[Range, Range]) -> None:
        """Loops over the part of the tile that is its own, the one of the vector dim inside."""
        w, t = self.writer, self.tiling
        ranges = []
        for (low, high), size in zip(tile, (t.height, t.width * t.lanes), strict=True):
            end = w.line(f"add i64 {low}, {size}")
            ranges.append((low, self._smaller(end, high)))
        loops = list(zip((t.rows, t.columns), ranges, strict=True))
        if w.kernel.vector == t.rows:
            loops.reverse()
        (outer, (first, last)), (inner, (low, high)) = loops
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
