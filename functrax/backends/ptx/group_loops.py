"""Loops that the threads of a group share.

A thread takes the steps that are as many apart as its group has threads, so neighbouring threads
are at neighbouring indices.  There are three ways:

- each thread for itself, as many steps as it has;
- *in step*: all threads take as many steps, and a thread that is past the end repeats the last
  index, so that addresses are good and nothing that is done there is written;
- *kept*: the same, written out.  What was read or computed at an index is known in later loops over
  the same indices, so that a row that is gone through several times stays in registers.

A step may be several neighbouring points, whose memory is accessed at once (``wide_loops``).

Start at :class:`GroupStatements`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from functrax.backends.llvm.addresses import Memory
from functrax.backends.llvm.statements import Statements
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.tile_rows import Tiles
from functrax.backends.llvm.writer import Level
from functrax.backends.loops import tree
from functrax.backends.ptx.wide_loops import KnownPoint, WideLoops

if TYPE_CHECKING:
    from functrax.backends.ptx.threads import ThreadNodes, ThreadWriter

_BOOL = np.dtype(np.bool_)


class GroupStatements(Statements):
    """Statements of which some are loops that a group shares."""

    writer: ThreadWriter
    nodes: ThreadNodes

    def __init__(
        self,
        writer: ThreadWriter,
        memory: Memory,
        tiles: Tiles,
        nodes: ThreadNodes,
        stores: Stores,
    ) -> None:
        super().__init__(writer, memory, tiles, nodes, stores)
        #: The level of the loop that is taken in step while that is open, else -1.
        self.in_step = -1
        #: Whether each thread does something of its own.
        self.of_members = False
        #: What is known of the points of a kept step, by the level around the loop, the dim and the
        #: number of the step.
        self._kept: dict[tuple[Level, int, int], list[KnownPoint]] = {}
        self.wide = WideLoops(self)

    def _group_loop(self, loop: tree.Loop) -> None:
        """A thread's steps of a loop that its group shares, beside those of its neighbours."""
        if loop.kept:
            self._written_out(loop)
            return
        w = self.writer
        low, high = self._name(loop.begin), self._name(loop.end)
        first = self._first(loop.carries)
        member = self._member(loop)
        if loop.step > 1:
            names = w.open_loop(w.line(f"add nsw i64 {low}, {member}"), first)
            if self.wide.aligned:
                new, _ = self.wide.points(loop, w.loop_index(), loop.step, names, [])
            else:
                new = self._one_by_one(loop, [(t, x) for (t, _), x in zip(first, names)])
            names = w.close_loop(str(w.kernel.group * loop.step), high, new, maybe_empty=True)
            self._know([c.result for c in loop.carries], loop.carries, names)
            return
        if loop.masked:
            names = w.open_loop(low, first)
            self._define(loop, w.line(f"add nsw i64 {w.loop_index()}, {member}"), high)
        else:
            low = w.line(f"add nsw i64 {low}, {member}")
            names = w.open_loop(low, first)
            w.define_dim(loop.dim, w.loop_index())
        new = self.step(loop, names)
        names = w.close_loop(str(w.kernel.group), high, new, maybe_empty=True)
        self._know([c.result for c in loop.carries], loop.carries, names)

    def _in_turn(self, s: tree.If) -> None:
        """What is done once for each thread for which a bool holds, by all threads."""
        w, nodes = self.writer, self.nodes
        holds, mates = nodes.value(s.condition).name, f"i32 {w.of_thread('mates')}"
        waiting = w.line(f"call i32 @llvm.nvvm.vote.ballot.sync({mates}, i1 {holds})")
        (waiting,) = w.open_loop("0", [("i32", waiting)])
        w.leave_unless(w.line(f"icmp ne i32 {waiting}, 0"))
        before, nodes.turn = (
            nodes.turn,
            w.line(f"call i32 @llvm.cttz.i32(i32 {waiting}, i1 true)"),
        )
        self.write(s.body)
        nodes.turn = before
        w.do(f"call void @llvm.nvvm.bar.warp.sync({mates})")
        others = w.line(f"sub i32 {waiting}, 1")
        w.close_loop("1", None, [w.line(f"and i32 {waiting}, {others}")])

    def _member(self, loop: tree.Loop) -> str:
        """The first index of a thread in a loop that begins at 0."""
        w = self.writer
        member = w.line(f"zext i32 {w.of_thread('member')} to i64")
        return w.line(f"mul nuw nsw i64 {member}, {loop.step}") if loop.step > 1 else member

    def _one_by_one(self, loop: tree.Loop, first: list[tuple[str, str]]) -> list[str]:
        """The points of a step, each with accesses of its own; what is carried after them."""
        w = self.writer
        end = w.line(f"add nsw i64 {w.loop_index()}, {loop.step}")
        names = w.open_loop(w.loop_index(), first)
        w.define_dim(loop.dim, w.loop_index())
        return w.close_loop("1", end, self.step(loop, names))

    def step(self, loop: tree.Loop, names: list[str]) -> list[str]:
        """What is done in a step, in a level of its own; what is carried after it."""
        before = self.in_step
        self.in_step = len(self.writer.levels) - 1 if loop.masked else -1
        self._know([c.acc for c in loop.carries], loop.carries, names)
        self.write(loop.body)
        self.in_step = before
        return self._new(loop.carries)

    def _define(self, loop: tree.Loop, place: str, high: str) -> None:
        """Give the dim its index, which is the last one past the end, and say where that is."""
        w = self.writer
        index, inside = self._within(loop, place, high)
        w.define_dim(loop.dim, index)
        w.know(id(w.builder.node("tail", _BOOL)), inside, False, len(w.levels) - 1)

    def _within(self, loop: tree.Loop, place: str, high: str) -> tuple[str, str]:
        """The index at a place, which is that of the last step past the end, and whether the place
        is before that.
        """
        w = self.writer
        inside = w.line(f"icmp slt i64 {place}, {high}")
        last = w.line(f"sub nsw i64 {high}, {loop.step}")
        return w.line(f"select i1 {inside}, i64 {place}, i64 {last}"), inside

    def _written_out(self, loop: tree.Loop) -> None:
        w = self.writer
        low, high = self._name(loop.begin), self._name(loop.end)
        names = [name for _, name in self._first(loop.carries)]
        around, reach = w.levels[-1], w.kernel.group * loop.step
        low = w.line(f"add nsw i64 {low}, {self._member(loop)}")
        for step in range(-(-w.kernel.extents[loop.dim] // reach)):
            w.open_level(around.block)
            place, inside = w.line(f"add nsw i64 {low}, {step * reach}"), ""
            if loop.masked:
                place, inside = self._within(loop, place, high)
            key = around, loop.dim, step
            known = self._kept.get(key, ())
            names, self._kept[key] = self.wide.points(loop, place, loop.step, names, known, inside)
            w.join_level()
        self._know([c.result for c in loop.carries], loop.carries, names)
