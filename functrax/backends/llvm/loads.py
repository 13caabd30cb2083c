"""Reads of arrays: an element, a row of elements, a gather, or a row of a tile.

A read is a vector if its address, its offset or its guard differs between lanes; it is a row where
lanes are neighbours, else a gather.  Where a guard is false nothing outside of the array is
touched, and the value read is of no importance.

Start at :meth:`Loads.read`.
"""

from __future__ import annotations

from typing import Any

from functrax.backends.llvm import short_strides
from functrax.backends.llvm.addresses import Memory, MemoryAccess, alignment, memory_type
from functrax.backends.llvm.tile_rows import Tiles
from functrax.backends.llvm.writer import Writer
from functrax.backends.targets import target
from functrax.core.index.expr import IndexExpr
from functrax.core.scalars.scalar import Scalar


class Loads:
    """Writes the reads of a kernel."""

    def __init__(self, writer: Writer, memory: Memory, tiles: Tiles) -> None:
        self.writer = writer
        self.memory = memory
        self.tiles = tiles

    def load(self, node: Scalar) -> None:
        """Write the read that a node stands for."""
        buffer, address, has_offset, has_guard = node.attr
        offset = node.args[0] if has_offset else None
        guard = node.args[-1] if has_guard else None
        # What a loop updates is another thing in each step.
        lowest = len(self.writer.levels) - 1 if buffer in self.writer.kernel.updated else 0
        self.read(id(node), buffer, address, offset, guard, lowest)

    def read(
        self,
        key: Any,
        buffer: int,
        address: IndexExpr,
        offset: Scalar | None,
        guard: Scalar | None,
        lowest: int = 0,
    ) -> None:
        """Read an element, or a vector of them, at a level not below ``lowest``."""
        w, memory = self.writer, self.memory
        if self.tiles.is_tiled(address, offset, guard):
            dtype = w.kernel.operands[buffer].dtype
            name = self.tiles.rows(buffer, address, guard)[self.tiles.lane]
            level = len(w.levels) - 1
            w.know(key, memory.from_memory(name, dtype, True, level), True, level)
            return
        a = memory.access(buffer, address, offset, guard, lowest)
        masked = guard is not None and w.operand(guard).vector
        if masked and a.stride == 0 and not a.scattered:
            name = self._shared(a)
            w.know(key, memory.from_memory(name, a.dtype, False, a.level), False, a.level)
            return
        vector = a.stride != 0 or a.scattered or masked
        if vector and not a.is_row:
            name = self._gather(a)
        else:
            pointer = memory.first(a)
            if guard is not None and not masked:
                # Nothing is read where it is false, but the address must be one that could be.
                inside = w.operand(guard).name
                pointer = w.line(f"select i1 {inside}, ptr {pointer}, ptr %b{buffer}", a.level)
            element = f"load {memory_type(a.dtype)}, ptr {pointer}{alignment(a.dtype)}"
            name = self._row(a, pointer) if vector else w.line(element, a.level)
        w.know(key, memory.from_memory(name, a.dtype, vector, a.level), vector, a.level)

    def _shared(self, a: MemoryAccess) -> str:
        """One element for all lanes, which is read if any of them needs it."""
        w, mask = self.writer, self.memory.mask(a)
        any_lane = w.line(
            f"call i1 @llvm.vector.reduce.or.v{w.lanes}i1(<{w.lanes} x i1> {mask})", a.level
        )
        pointer = self.memory.first(a)
        pointer = w.line(f"select i1 {any_lane}, ptr {pointer}, ptr %b{a.buffer}", a.level)
        return w.line(f"load {memory_type(a.dtype)}, ptr {pointer}{alignment(a.dtype)}", a.level)

    def _row(self, a: MemoryAccess, pointer: str) -> str:
        w, memory = self.writer, self.memory
        if w.kernel.tile is not None and a.level == len(w.levels) - 1:
            memory.prefetch_bytes(pointer, w.lanes * a.dtype.itemsize, a.level, write=False)
        elif w.kernel.fetches and w.kernel.tile is None:
            memory.prefetch_bytes(pointer, target().fetched_ahead, a.level, write=False)
        return memory.load_lanes(a.dtype, pointer, memory.mask(a), a.level)

    def _gather(self, a: MemoryAccess) -> str:
        mask = self.memory.mask(a)
        if short_strides.is_short(a, self.writer.lanes):
            return short_strides.read(self.memory, a, mask)
        type_ = memory_type(a.dtype, self.writer.lanes)
        name, places, inside = self.memory.scattered(a, mask)
        size = min(a.dtype.itemsize, 8)
        operands = f"{places}, i32 {size}, {inside}, {type_} zeroinitializer"
        return self.writer.line(f"call {type_} @llvm.masked.gather.{name}({operands})", a.level)
