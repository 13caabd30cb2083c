"""The kernel of a contraction as LLVM IR: tiles of accumulators, then the stores of each tile.

What enters is a kernel with a :class:`~functrax.backends.kernels.tiling.Tiling`, whose file shows
the loops.  The accumulators are carried by the inner loops, in registers.  After these they are
written to a tile of scratch memory, and loops over it do the row stores, which read the sum there
as they read arrays: an epilogue is code like any other, and vectorised along the dim in which the
results are contiguous.

Start at :meth:`Contraction.units`.
"""

from __future__ import annotations

import numpy as np

from functrax.backends.kernels.tiling import Reading
from functrax.backends.llvm.instructions import constant, llvm_type
from functrax.backends.llvm.loops import Loops
from functrax.backends.llvm.memory import Memory, memory_type
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.writer import Names, Writer
from functrax.core import dtypes

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
        self._tiles(columns, width, t.columns, t.first_column, t.right)
        inner = w.loop_index()
        self._tiles(rows, height, t.rows, t.first_row, t.left)
        self._tile((w.loop_index(), rows[1]), (inner, columns[1]))
        w.close_loop(str(height), rows[1], [])
        w.close_loop(str(width), columns[1], [])
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

    def _range(self, block: str, size: int, d: int, what: str) -> tuple[str, str]:
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

    def _tiles(self, block: tuple[str, str], size: int, d: int, first: int, side: Reading) -> None:
        """Begin the loop over tiles of a block, which defines the dim where they begin."""
        w = self.writer
        extent = w.kernel.extents[d]
        w.open_loop(block[0], [])
        begin = w.loop_index()
        if not side.packed and extent % size and extent > size:
            last = w.number(extent - size, ("last tile", d))
            begin = self._smaller(begin, last)  # moved back, so that it is inside
        w.define_dim(first, begin)

    # ---- a tile -------------------------------------------------------------------------------

    def _tile(self, rows: tuple[str, str], columns: tuple[str, str]) -> None:
        """Compute a tile, then do the stores for what it covers beyond the tiles before."""
        w, t = self.writer, self.tiling
        self._define_masks()
        zero = constant(0, self.dtype, t.lanes)
        count = t.height * t.width
        sums = self.loops.nest(w.kernel.inner, [(self.vector, zero)] * count, self._step)
        lines = w.levels[-1].lines
        for k, name in enumerate(sums):
            place = w.line(f"getelementptr {self.element}, ptr %b{t.scratch}, i64 {k * t.lanes}")
            lines.append(f"  store {self.vector} {name}, ptr {place}, align {self.dtype.itemsize}")
        self._epilogue(rows, columns)

    def _define_masks(self) -> None:
        """Which lanes of each vector are inside, where one tile has all columns and more."""
        w, t = self.writer, self.tiling
        extent = w.kernel.extents[t.columns]
        if t.right.packed or extent >= t.width * t.lanes:
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

    def _epilogue(self, rows: tuple[str, str], columns: tuple[str, str]) -> None:
        """Loops over the part of the tile that is its own, the one of the vector dim inside."""
        w, t = self.writer, self.tiling
        ranges = []
        for (low, high), size in ((rows, t.height), (columns, t.width * t.lanes)):
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
