"""Running results along the threads of a group.

The order in which values are put together depends on the group's size alone: a thread is combined
with the one before it, then with the one two before, four before, and so on, as lanes of a vector
are on other targets; the last threads of the warps of a block in the same way.

Start at :meth:`GroupScans.running`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Reduce, Store
from functrax.backends.targets.nvptx import WARP
from functrax.core.prims.lowered_reductions import Reduction
from functrax.core.scalars.scalar import Scalar

if TYPE_CHECKING:
    from functrax.backends.ptx.threads import ThreadNodes

_BOOL = np.dtype(np.bool_)
Values: TypeAlias = list[Scalar]


class GroupScans:
    """Writes running results of what all threads of a group have at once."""

    def __init__(self, nodes: ThreadNodes) -> None:
        self.nodes = nodes
        self.writer = nodes.writer

    def running(self, scan: Reduce, last: Sequence[Scalar], whole: bool) -> None:
        """Know the running results at the thread's point and, in all threads, those of the last
        thread; where it is stored, what the thread before has, too.

        Args:
          scan: how values are put together.
          last: leaves for what the last thread has.
          whole: whether all threads have a point; else those of a step that reach past the end have
            none.
        """
        w, nodes, how = self.writer, self.nodes, scan.how
        b, group, before = w.builder, w.kernel.group, list(scan.accs)
        values = list(scan.values)
        if not whole:
            tail, empty = b.node("tail", _BOOL), how.empty(b)
            values = [
                b.select(tail, x, b.convert(e, x.dtype)) for x, e in zip(values, empty, strict=True)
            ]
        for x in (*values, *before):
            nodes.value(x)
        size = min(group, WARP)
        lane = "lane" if group >= WARP else "member"
        values = self._along(how, values, size, lane)
        if group > WARP:
            start, total = self._across_warps(how, before, values)
            results = nodes.combined(how, start, values)
            ends = nodes.combined(how, before, total)
        else:
            start = before
            results = nodes.combined(how, start, values)
            ends = self._shuffled(results, "idx", str(size - 1))
        known = [*zip(scan.results, results, strict=True), *zip(last, ends, strict=True)]
        if self._is_stored(scan.accs):
            earlier = nodes.combined(how, start, self._shuffled(values, "up", "1"))
            known += zip(scan.accs, self._chosen(lane, 1, earlier, start), strict=True)
        for leaf, x in known:
            w.same(leaf, w.operand(x), len(w.levels) - 1)

    def _is_stored(self, values: Sequence[Scalar]) -> bool:
        """Whether values are stored as they are; numbers are what they are in all threads."""
        leaves = [x for x in values if not x.is_constant]
        return any(type(s) is Store and s.value in leaves for s in self.writer.kernel.statements())

    def _along(self, how: Reduction, values: Values, size: int, lane: str) -> Values:
        """The running results of some threads of a warp, which a number of the thread counts."""
        distance = 1
        while distance < size:
            joined = self.nodes.combined(how, self._shuffled(values, "up", str(distance)), values)
            values = self._chosen(lane, distance, joined, values)
            distance *= 2
        return values

    def _across_warps(
        self, how: Reduction, before: Values, values: Values
    ) -> tuple[Values, Values]:
        """What the points before those of the thread's warp give, and what those of all warps do,
        of what each warp has.
        """
        w, nodes, warps = self.writer, self.nodes, self.writer.kernel.group // WARP
        totals = self._along(how, nodes.of_warps(values, WARP - 1), warps, "lane")
        warp = w.line(f"sub i32 {w.of_thread('warp')}, 1")
        warp = w.line(f"and i32 {warp}, {WARP - 1}")
        start = nodes.combined(how, before, self._shuffled(totals, "idx", warp))
        start = self._chosen("warp", 1, start, before)
        return start, self._shuffled(totals, "idx", str(warps - 1))

    def _shuffled(self, values: Values, kind: str, by: str) -> Values:
        return [self.nodes.shuffled(x, kind, by) for x in values]

    def _chosen(self, name: str, least: int, values: Values, others: Values) -> Values:
        """Values where a number of the thread is large enough, else others."""
        w = self.writer
        holds = w.line(f"icmp uge i32 {w.of_thread(name)}, {least}")
        leaf = self.nodes.leaf(_BOOL, holds)
        found = [w.builder.select(leaf, x, y) for x, y in zip(values, others, strict=True)]
        for x in found:
            self.nodes.value(x)
        return found
