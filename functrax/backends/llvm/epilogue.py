"""What follows the sums of a tile of a contraction: the row stores, which read them.

They are loops over the part of the tile that is its own, vectorised along the dim in which the
results are contiguous, and code like any other.

Start at :meth:`Epilogue.stores`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel, ordered
from functrax.backends.llvm.memory import Memory
from functrax.backends.llvm.short_strides import STRIDES
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.writer import Writer
from functrax.core.index_expr import IndexExpr

#: Where something begins and ends.
Range: TypeAlias = "tuple[str, str]"


class Epilogue:
    """Writes the loops of the row stores of a contraction."""

    def __init__(self, writer: Writer, kernel: Kernel, memory: Memory, stores: Stores) -> None:
        self.writer = writer
        self.kernel = kernel
        self.memory = memory
        self.writes = stores
        tiling = kernel.tiling
        assert tiling is not None
        self.tiling = tiling
        #: The rows and the columns of a tile.
        self.height = writer.number(tiling.height, ("height",))
        self.columns = writer.number(tiling.width * tiling.lanes, ("width",))

    def _own(self, tile: tuple[Range, Range]) -> list[tuple[int, Range]]:
        """The dims of a tile and the part of it that is its own, the vector dim last."""
        w, t = self.writer, self.tiling
        loops = []
        sizes = (self.height, self.columns)
        for d, (low, high), size in zip((t.rows, t.columns), tile, sizes, strict=True):
            end = w.line(f"add i64 {low}, {size}")
            loops.append((d, (low, w.smaller(end, high))))
        if self.kernel.vector == t.rows:
            loops.reverse()
        return loops

    def prefetch(self, tile: tuple[Range, Range]) -> None:
        """Ask for the rows of arrays that the epilogue of a tile reads and writes.

        They are few lines each of many rows, which no processor foresees.  The sums take longer
        than they take to come.
        """
        w, t = self.writer, self.tiling
        if self.kernel.vector is None or "prefetch" in self.kernel.off:
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
            step = coefficient(address, inner)
            size = (length - 1) * step + 1
            size *= self.kernel.operands[buffer].dtype.itemsize
            self.memory.prefetch_lines(pointer, size, len(w.levels) - 1, write)
        w.close_loop("1", last, [])

    def _rows_of_epilogue(self, outer: int, inner: int) -> Iterator[tuple[int, IndexExpr, bool]]:
        """Arrays and addresses of which the epilogue of a tile touches some rows, each once."""
        t = self.tiling
        places: dict[tuple[int, IndexExpr], bool] = {}
        values = [
            x for store in self.kernel.rows for x in (store.value, store.guard) if x is not None
        ]
        for node in ordered(values):
            if node.op == "load" and not node.attr[2] and node.attr[0] != t.scratch:
                places.setdefault((node.attr[0], node.attr[1]), False)
        for store in self.kernel.rows:
            if store.offset is None:
                places[store.buffer, store.address] = True
        for (buffer, address), write in places.items():
            near = 1 <= coefficient(address, inner) <= max(STRIDES)
            if near and coefficient(address, outer):
                yield buffer, address, write

    def stores(self, tile: tuple[Range, Range]) -> None:
        """Loops over the part of the tile that is its own, the one of the vector dim inside."""
        w = self.writer
        (outer, (first, last)), (inner, (low, high)) = self._own(tile)
        w.open_loop(first, [])
        w.define_dim(outer, w.loop_index())
        w.open_loop(low, [])
        w.define_dim(inner, w.loop_index())
        w.vector_level = len(w.levels) - 1
        w.masked = True
        w.define_tail(w.loop_index(), high)
        for store in self.kernel.rows:
            self.writes.store(store)
        w.vector_level = -1
        w.close_loop(str(w.lanes), high, [])
        w.close_loop("1", last, [])
