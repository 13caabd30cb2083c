"""Calls of the functions that contractions share: the sums of a tile, and a tile that is turned.

Their addresses are run-time arguments of the kernel.  See ``llvm/functions/tile_sums.py`` for what
they take.

Start at :class:`TileCalls`.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.tiling import BAKED
from functrax.backends.llvm.addresses import Memory, memory_type
from functrax.backends.llvm.functions.tile_sums import sums_text
from functrax.backends.llvm.functions.transposed_tiles import turn_text
from functrax.backends.llvm.nodes import Nodes
from functrax.backends.llvm.templates import llvm_type
from functrax.backends.llvm.writer import NAME, Writer
from functrax.backends.loops.tree import Place, TileSum, TurnTile
from functrax.backends.targets.sums import Sums
from functrax.core.index.expr import Dim, add_terms
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar


class TileCalls:
    """Writes the calls."""

    def __init__(self, writer: Writer, memory: Memory, nodes: Nodes) -> None:
        self.writer = writer
        self.memory = memory
        self.nodes = nodes

    def _name(self, x: Scalar) -> str:
        return self.nodes.value(x).name

    def _place(self, place: Place) -> tuple[str, str]:
        """A pointer, and how many bytes there are from row to row."""
        w = self.writer
        pointer = self.memory.pointer(place.buffer, place.address, True).name
        if place.offset is not None:
            element = memory_type(w.kernel.operands[place.buffer].dtype)
            offset = self._name(place.offset)
            pointer = w.line(f"getelementptr {element}, ptr {pointer}, i64 {offset}")
        return pointer, self._name(place.pitch)

    def _one_of(self, to: Place, whole: Scalar | None, instead: Place | None) -> tuple[str, str]:
        """A place, or another one."""
        first = self._place(to)
        if whole is None or instead is None:
            return first
        w, holds, second = self.writer, self._name(whole), self._place(instead)
        pointer, pitch = (
            w.line(f"select i1 {holds}, {type_} {x}, {type_} {y}")
            for type_, x, y in zip(("ptr", "i64"), first, second, strict=True)
        )
        return pointer, pitch

    # ---- sums -----------------------------------------------------------------------------------

    def sums(self, s: TileSum) -> None:
        """Add up the products of a tile."""
        w = self.writer
        inside = {Dim(d) for d in s.loops if d != s.begun}
        bases = []
        for side in (s.left, s.right):
            terms = [(a, c) for a, c in side.address.terms if a not in inside]
            address = add_terms(side.address.const, terms)
            bases.append(self.memory.pointer(side.buffer, address, True).name)
        length, more = self._name(s.length), self._name(s.more)
        tile, pitch = self._one_of(s.to, s.whole, s.instead)
        right = [coefficient(s.right.address, d) for d in s.loops]
        form = self._form(s)
        panel = later = "null"
        fetched: list[int] = []
        if s.later is not None:
            fetched = [s.parts - 1, right[0]]
            element = llvm_type(s.dtype, 1)
            place = self._name(s.later)
            later = w.line(f"getelementptr {element}, ptr {bases[1]}, i64 {place}")
        if s.panel is None or s.copies is None:
            numbers = w.table(self._numbers(s, right) + fetched)
            function = w.function(sums_text(form, NAME))
        else:
            # The first tile of rows copies what it reads of the right side, others read the copy.
            panel, _ = self._place(s.panel)
            steps = [s.width * s.lanes]
            for d in reversed(s.loops[1:]):
                steps.insert(0, steps[0] * w.kernel.extents[d])
            first = (
                bases[1],
                w.table(self._numbers(s, right, steps) + fetched),
                w.function(sums_text(replace(form, copies=True), NAME)),
            )
            others = (
                panel,
                w.table(self._numbers(s, steps) + fetched),
                w.function(sums_text(replace(form, masked=False), NAME)),
            )
            copies = self._name(s.copies)
            bases[1], numbers, function = (
                w.line(f"select i1 {copies}, ptr {x}, ptr {y}")
                for x, y in zip(first, others, strict=True)
            )
        w.levels[-1].lines.append(
            f"  call void {function}(ptr {bases[0]}, ptr {bases[1]}, ptr {tile}, ptr {numbers}, "
            f"i64 {length}, i64 {more}, ptr {panel}, ptr {later}, i64 {pitch})"
        )

    def _numbers(self, s: TileSum, *right: Sequence[int]) -> list[int]:
        """The numbers that a function of sums reads; these are the steps of what is not left."""
        extents = self.writer.kernel.extents
        numbers = [s.left.step, extents[s.columns]]
        for d, *steps in zip(s.loops, *right, strict=True):
            numbers += [coefficient(s.left.address, d), *steps]
        return numbers + [extents[d] for d in s.loops[1:]]

    def _form(self, s: TileSum) -> Sums:
        """What function adds up the products of a tile."""
        step = 0 if s.height == 1 else s.left.step
        narrow = self.writer.kernel.extents[s.columns] < s.width * s.lanes
        return Sums(
            s.dtype,
            s.height,
            s.width,
            s.lanes,
            len(s.loops),
            step=None if s.on_unit or not 0 <= step <= BAKED else step,
            masked=narrow and not s.right.packed and not s.on_unit,
            dot=s.dot,
            fetches=s.later is not None,
        )

    # ---- turning --------------------------------------------------------------------------------

    def turn(self, s: TurnTile) -> None:
        """Write the columns of a tile side by side."""
        w = self.writer
        to, to_pitch = self._one_of(s.to, s.whole, s.instead)
        function = w.function(turn_text(s.dtype, w.lanes, s.masked, NAME))
        tile, pitch = self._place(s.tile)
        height, width = self._name(s.height), self._name(s.width)
        w.levels[-1].lines.append(
            f"  call void {function}(ptr {tile}, ptr {to}, i64 {height}, "
            f"i64 {width}, i64 {pitch}, i64 {to_pitch})"
        )
