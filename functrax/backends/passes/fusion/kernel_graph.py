"""The graph of kernels: which depend on which, as groups of equations are merged.

Nodes are numbers.  Every edge leads to a node of a larger *level*, so that only nodes of levels in
between can lie on a path.  A search for one goes on from both ends in turn: where there is none, it
takes time in proportion to the smaller of two sets, the nodes after the one end and those before
the other.  That set is also all that gets other levels when the two ends are merged.  So programs
are partitioned in time about linear in their length, although what depends on a value may be far
from it, as in the gradient of a long chain.

Start at :class:`KernelGraph`.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator
from typing import Final

#: How far apart levels are at first, which leaves room for others in between.
_APART: Final = 1 << 128


class KernelGraph:
    """A graph without cycles.

    Attributes:
      successors: for each node those that depend on it.
      predecessors: for each node those that it depends on.
      level: for each node a number smaller than those of its successors.
    """

    def __init__(self) -> None:
        self.successors: dict[int, set[int]] = {}
        self.predecessors: dict[int, set[int]] = {}
        self.level: dict[int, int] = {}

    def add_node(self, n: int) -> None:
        """Make a node, if there is none."""
        self.predecessors.setdefault(n, set())
        self.successors.setdefault(n, set())

    def add_edge(self, a: int, b: int) -> None:
        """Let ``b`` depend on ``a``."""
        if a != b:
            self.successors[a].add(b)
            self.predecessors[b].add(a)

    def find_levels(self) -> None:
        """Number all nodes so that every edge leads to a larger number."""
        self.level = {}
        for n in self.in_order():
            before = [self.level[p] for p in self.predecessors[n]]
            self.level[n] = max(before) + _APART if before else 0

    def has_detour(self, a: int, b: int, most: int = sys.maxsize) -> bool:
        """Whether a path leads from ``a`` to ``b`` through another node.

        After going on from ``most`` nodes of each side the answer is that one might.
        """
        return self.level[a] < self.level[b] and self._between(a, b, most) is None

    def _between(self, a: int, b: int, most: int) -> tuple[set[int], bool] | None:
        """What lies after ``a`` or before ``b``, of the levels between them: the set found first.

        Returns:
          The nodes, and whether they lie after ``a``; None if a path leads from ``a`` to ``b``
          through another node, or after going on from ``most`` of each side.
        """
        level = self.level
        low, high = level[a], level[b]
        after, before = {b}, {a}  # neither search goes through the other end
        ahead, behind = [a], [b]
        for done in range(most + 2):
            if done == len(ahead):
                return after - {b}, True
            if done == len(behind):
                return before - {a}, False
            for s in self.successors[ahead[done]]:
                if s not in after and level[s] <= high:
                    if s in before:
                        return None
                    after.add(s)
                    ahead.append(s)
            for p in self.predecessors[behind[done]]:
                if p not in before and level[p] >= low:
                    if p in after:
                        return None
                    before.add(p)
                    behind.append(p)
        return None

    def merge(self, a: int, b: int) -> None:
        """Put node ``a`` into ``b``; no path may lead from one to the other but an edge."""
        first, last = sorted((a, b), key=self.level.__getitem__)
        found = self._between(first, last, sys.maxsize)
        assert found is not None, "a path leads from one node to the other"
        for p in self.predecessors.pop(a):
            self.successors[p].discard(a)
            if p != b:
                self.successors[p].add(b)
                self.predecessors[b].add(p)
        for s in self.successors.pop(a):
            self.predecessors[s].discard(a)
            if s != b:
                self.predecessors[s].add(b)
                self.successors[b].add(s)
        self.predecessors[b].discard(a)
        self.successors[b].discard(a)
        nodes, after = found
        level = self.level[last if after else first]
        del self.level[a]
        self.level[b] = level
        if nodes:
            self._move(nodes, b, after)

    def _move(self, nodes: set[int], b: int, after: bool) -> None:
        """Give nodes levels between that of ``b`` and those of what lies on their other side."""
        level = self.level
        edges = self.successors if after else self.predecessors
        beyond = {m for n in (*nodes, b) for m in edges[n]} - nodes
        old = sorted({level[n] for n in nodes}, reverse=not after)
        start, room = level[b], _APART * (len(old) + 1)
        room = min([room, *(abs(level[m] - start) for m in beyond)])
        step = room // (len(old) + 1)
        if step == 0:
            self.find_levels()
            return
        place = {x: start + k * (step if after else -step) for k, x in enumerate(old, 1)}
        for n in nodes:
            level[n] = place[level[n]]

    def in_order(self) -> Iterator[int]:
        """Groups and other equations, each after those that it depends on."""
        waiting = {n: len(p) for n, p in self.predecessors.items()}
        ready = [n for n, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        while ready:
            n = heapq.heappop(ready)
            yield n
            for s in self.successors[n]:
                waiting[s] -= 1
                if waiting[s] == 0:
                    heapq.heappush(ready, s)
