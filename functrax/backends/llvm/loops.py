"""Loops over the dims of a kernel, the vector dim in steps of a vector.

Where memory is read best from several places at once, the vector dim is done in pieces side by side
(``kernels/schedule.py`` decides it).  If its extent is no multiple of the lanes, the last vector is
masked.  Where that pays, it has a loop of its own, so that all others need no mask.

Start at :meth:`Loops.nest`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from functrax.backends.kernels.accesses import CACHE_LINE
from functrax.backends.kernels.ir import Store
from functrax.backends.llvm.memory import Memory, memory_type
from functrax.backends.llvm.writer import Carried, Names, Writer
from functrax.core.index_expr import Dim, add_terms

#: The last vector of a row is computed apart from the others if it is one of this many, or if it is
#: reduced along so many points of other dims; and if a point has no more operations than this.
LEAST_VECTORS: Final = 4
LONG_COLUMN: Final = 256
WORK_TWICE: Final = 32
_BOOL = np.dtype(np.bool_)
_INT32 = np.dtype(np.int32)


class Loops:
    """Opens and closes the loops of a kernel."""

    def __init__(self, writer: Writer, memory: Memory) -> None:
        self.writer = writer
        self.memory = memory
        #: Where dims begin and end, those of which only a part is done.
        self.ranges: dict[int, tuple[str, str]] = {}

    def nest(
        self,
        dims: Sequence[int],
        carried: Carried,
        body: Callable[[Names], Names],
    ) -> Names:
        """Loops over dims, which carry values of ``(type, name)``; returns their last names."""
        w = self.writer
        if not dims:
            return body([name for _, name in carried])
        d = dims[0]
        low, high = self.ranges.get(d) or ("0", w.extent(d))
        if d == w.kernel.vector and w.kernel.aligned is not None:
            first = self._first_line(w.kernel.aligned, low, high)
            names = self._loop(dims, low, first, carried, body, perhaps=True)
            carried = [(type_, name) for (type_, _), name in zip(carried, names, strict=True)]
            low = first
        if d == w.kernel.vector and w.kernel.beside > 1 and len(dims) > 1:
            self._tiles_beside(dims, low, high, body)
            return []
        if d == w.kernel.vector and w.kernel.pieces > 1:
            return self._side_by_side(d, low, high, carried, body)
        if d != w.kernel.vector or not self._has_own_tail():
            return self._loop(dims, low, high, carried, body)
        length = w.line(f"sub i64 {high}, {low}")
        whole = w.line(f"and i64 {length}, {-w.lanes}")
        middle = w.line(f"add i64 {low}, {whole}")
        perhaps = (
            d == w.kernel.shared or w.kernel.aligned is not None
        )  # a unit may have whole vectors only, or none
        w.masked = False
        names = self._loop(dims, low, middle, carried, body, perhaps)
        w.masked = True
        types = [type_ for type_, _ in carried]
        rest = list(zip(types, names, strict=True))
        return self._loop(dims, middle, high, rest, body, perhaps)

    def _first_line(self, store: Store, low: str, high: str) -> str:
        """Where in a row the first cache line begins that a store writes whole."""
        w = self.writer
        dtype = w.kernel.operands[store.buffer].dtype
        others = [(a, c) for a, c in store.address.terms if a != Dim(w.kernel.vector or 0)]
        row, _, _ = self.memory.pointer(store.buffer, add_terms(store.address.const, others))
        start = w.line(f"getelementptr {memory_type(dtype)}, ptr {row}, i64 {low}")
        place = w.line(f"ptrtoint ptr {start} to i64")
        missing = w.line(f"sub i64 0, {place}")
        missing = w.line(f"and i64 {missing}, {CACHE_LINE - 1}")
        missing = w.line(f"lshr i64 {missing}, {dtype.itemsize.bit_length() - 1}")
        first = w.line(f"add i64 {low}, {missing}")
        below = w.line(f"icmp slt i64 {first}, {high}")
        return w.line(f"select i1 {below}, i64 {first}, i64 {high}")

    def _side_by_side(
        self, d: int, low: str, high: str, carried: Carried, body: Callable[[Names], Names]
    ) -> Names:
        """The loop over the vector dim in pieces: a vector of each, then the next vectors.

        What is left, less than a vector of each piece, has a loop of its own.
        """
        w = self.writer
        pieces = w.kernel.pieces
        length = w.line(f"sub i64 {high}, {low}")
        steps = w.line(f"sdiv i64 {length}, {pieces * w.lanes}")
        size = w.line(f"mul i64 {steps}, {w.lanes}")
        starts = [w.line(f"mul i64 {size}, {k}") for k in range(pieces)]
        end = w.line(f"add i64 {low}, {size}")
        all_ = w.line(f"mul i64 {size}, {pieces}")
        middle = w.line(f"add i64 {low}, {all_}")
        masked, w.masked = w.masked, False
        skipped = (w.levels[-1].block, low, carried)
        names = w.open_loop(low, carried)
        index = w.loop_index()
        for start in starts:
            w.open_level(w.levels[-1].block)
            w.define_dim(d, w.line(f"add i64 {index}, {start}"))
            w.vector_level = len(w.levels) - 1
            names = body(names)
            block = w.levels[-1].block
            lines = w.close_level()
            w.levels[-1].lines.extend(lines)
            w.levels[-1].block = block
        w.vector_level = -1
        names = w.close_loop(str(w.lanes), end, names, skipped)
        w.masked = masked
        rest = [(type_, name) for (type_, _), name in zip(carried, names, strict=True)]
        return self._loop([d], middle, high, rest, body, perhaps=True)

    def _tiles_beside(
        self, dims: Sequence[int], low: str, high: str, body: Callable[[Names], Names]
    ) -> None:
        """The loop over the vector dim in blocks of a few tiles, each of which is innermost."""
        w = self.writer
        d, size = dims[0], w.kernel.beside * w.lanes
        w.open_loop(low, [])
        begin = w.loop_index()
        end = w.line(f"add i64 {begin}, {size}")
        below = w.line(f"icmp slt i64 {end}, {high}")
        before = self.ranges.get(d)
        self.ranges[d] = (begin, w.line(f"select i1 {below}, i64 {end}, i64 {high}"))
        self.nest([*dims[1:], d], [], body)
        if before is None:
            del self.ranges[d]
        else:
            self.ranges[d] = before
        w.close_loop(str(size), high, [])

    def _has_own_tail(self) -> bool:
        """Whether the last vector of a row has a loop of its own, so that others need no mask."""
        w = self.writer
        k = w.kernel
        if not w.masked or k.tile is not None or k.vector is None or "tails" in k.off:
            return False
        if k.work > WORK_TWICE:
            return False
        if k.extents[k.vector] >= LEAST_VECTORS * w.lanes:
            return True
        columns = k.inner and k.vector in k.outer and k.extents[k.vector] > w.lanes
        return bool(columns) and math.prod(k.extents[d] for d in k.inner) >= LONG_COLUMN

    def _loop(
        self,
        dims: Sequence[int],
        low: str,
        high: str,
        carried: Carried,
        body: Callable[[Names], Names],
        perhaps: bool = False,
    ) -> Names:
        """The loop over the first of the dims; ``perhaps`` it has no steps."""
        w = self.writer
        d = dims[0]
        types = [type_ for type_, _ in carried]
        skipped = (w.levels[-1].block, low, carried) if perhaps else None
        names = w.open_loop(low, carried)
        index = w.loop_index()
        w.define_dim(d, index)
        step = "1"
        if d == w.kernel.tile:
            step = str(w.lanes)
        elif d == w.kernel.vector and w.lanes > 1:
            step = str(w.lanes)
            w.vector_level = len(w.levels) - 1
            if w.masked:
                self.define_tail(index, high)
        new = self.nest(dims[1:], list(zip(types, names, strict=True)), body)
        if d == w.kernel.vector:
            w.vector_level = -1
        return w.close_loop(step, high, new, skipped)

    def define_tail(self, index: str, high: str) -> None:
        """A mask of the lanes that are inside the extent."""
        w = self.writer
        left = w.line(f"sub i64 {high}, {index}")
        w.know("inside", left, False, len(w.levels) - 1)
        narrow = w.line(f"trunc i64 {left} to i32")
        count = w.splat(narrow, _INT32, w.levels[-1].lines)
        name = w.line(f"icmp slt <{w.lanes} x i32> {w.iota(_INT32)}, {count}")
        w.tail = w.builder.node("tail", _BOOL)
        w.know(id(w.tail), name, True, len(w.levels) - 1)
