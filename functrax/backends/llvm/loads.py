"""Reads of arrays: an element, a row of elements, a gather, or a row of a tile.

A read is a vector if its address, its offset or its guard differs between lanes; it is a row where
lanes are neighbours, else a gather.  Where a guard is false nothing outside of the array is
touched, and the value read is of no importance.

Start at :meth:`Loads.read`.
"""

from __future__ import annotations

from typing import Any, Final

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.llvm import short_strides
from functrax.backends.llvm.addresses import Memory, alignment, memory_type, words_of
from functrax.backends.llvm.tile_rows import Tiles
from functrax.backends.llvm.writer import Writer
from functrax.core.index.expr import IndexExpr
from functrax.core.scalars.scalar import Scalar

#: How many bytes before it is read a row is asked for.
FETCHED_BEFORE: Final = 1024


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
        lowest = len(self.writer.levels) - 1 if buffer in self.writer.updated else 0
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
        w = self.writer
        dtype = w.kernel.operands[buffer].dtype
        if self.tiles.is_tiled(address, offset, guard):
            stride = coefficient(address, w.kernel.vector)
            name = self.tiles.rows(buffer, address, stride, guard)[self.tiles.lane]
            level = len(w.levels) - 1
            w.know(key, self.memory.from_memory(name, dtype, True, level), True, level)
            return
        pointer, level, stride = self.memory.pointer(buffer, address)
        parts = [w.operand(x) for x in (offset, guard) if x is not None]
        level = max([level, lowest, *(p.level for p in parts)])
        scattered = offset is not None and w.operand(offset).vector
        vector = stride != 0 or scattered
        if guard is not None and w.operand(guard).vector:
            vector = True  # a mask of lanes, so an access of lanes
        if not vector:
            name = self._scalar(buffer, pointer, offset, guard, level)
        elif stride == 1 and not scattered:
            name = self._row(buffer, pointer, offset, guard, level)
        else:
            name = self._gather(buffer, pointer, stride, offset, guard, level)
        w.know(key, self.memory.from_memory(name, dtype, vector, level), vector, level)

    def _scalar(
        self, buffer: int, pointer: str, offset: Scalar | None, guard: Scalar | None, level: int
    ) -> str:
        w = self.writer
        dtype = w.kernel.operands[buffer].dtype
        pointer = self.memory.offset_pointer(dtype, pointer, offset, level)
        if guard is not None:  # outside, any element will do
            inside = w.operand(guard).name
            pointer = w.line(f"select i1 {inside}, ptr {pointer}, ptr %b{buffer}", level)
        return w.line(f"load {memory_type(dtype)}, ptr {pointer}{alignment(dtype)}", level)

    def _row(
        self,
        buffer: int,
        pointer: str,
        offset: Scalar | None,
        guard: Scalar | None,
        level: int,
    ) -> str:
        w = self.writer
        dtype = w.kernel.operands[buffer].dtype
        type_ = memory_type(dtype, w.lanes)
        pointer = self.memory.offset_pointer(dtype, pointer, offset, level)
        if guard is not None and not w.operand(guard).vector:
            # Nothing is read where it is false, but the address must be one that could be.
            inside = w.operand(guard).name
            pointer = w.line(f"select i1 {inside}, ptr {pointer}, ptr %b{buffer}", level)
        if w.kernel.tile is not None and level == len(w.levels) - 1:
            self.memory.prefetch(dtype, pointer, level)
        elif w.kernel.fetches and w.kernel.tile is None:
            self.memory.prefetch_bytes(pointer, FETCHED_BEFORE, level, write=False)
        return self.memory.load_lanes(type_, dtype, pointer, self.memory.mask(guard, level), level)

    def _gather(
        self,
        buffer: int,
        pointer: str,
        stride: int,
        offset: Scalar | None,
        guard: Scalar | None,
        level: int,
    ) -> str:
        w = self.writer
        dtype = w.kernel.operands[buffer].dtype
        type_ = memory_type(dtype, w.lanes)
        mask = self.memory.mask(guard, level)
        alike = offset is None or not w.operand(offset).vector
        if alike and short_strides.is_short(stride, dtype, w.lanes):
            pointer = self.memory.offset_pointer(dtype, pointer, offset, level)
            return short_strides.read(self.memory, dtype, pointer, stride, mask, level)
        pointers = self.memory.lane_pointers(buffer, pointer, stride, offset, level)
        mask = self.memory.lanes_of(dtype, mask, level)
        name = f"llvm.masked.gather.{self.memory.suffix(dtype)}.v{w.lanes * words_of(dtype)}p0"
        places = self.memory.places_of(dtype, pointers, level)
        return w.line(
            f"call {type_} @{name}({places}, i32 {min(dtype.itemsize, 8)}, {mask}, "
            f"{type_} zeroinitializer)",
            level,
        )
