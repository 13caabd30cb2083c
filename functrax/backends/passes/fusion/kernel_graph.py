"""The graph of kernels: which depend on which, as groups of equations are merged.

Nodes are numbers.  Every edge leads to a node of a larger *level*, which makes the search for a
path short: only nodes of levels in between can lie on one.  Start at :class:`KernelGraph`.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator


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
        waiting = {n: len(p) for n, p in self.predecessors.items()}
        ready = [n for n, count in waiting.items() if count == 0]
        self.level = dict.fromkeys(ready, 0)
        while ready:
            n = ready.pop()
            for s in self.successors[n]:
                self.level[s] = max(self.level.get(s, 0), self.level[n] + 1)
                waiting[s] -= 1
                if waiting[s] == 0:
                    ready.append(s)

    def has_detour(self, a: int, b: int, most: int = sys.maxsize) -> bool:
        """Whether a path leads from ``a`` to ``b`` through another node.

        The search begins at the end that has fewer edges.  After looking at ``most`` nodes the
        answer is that one might.
        """
        level = self.level
        if len(self.predecessors[b]) < len(self.successors[a]):
            ahead, a, b = self.predecessors, b, a
            low, high = level[b], level[a]
        else:
            ahead, low, high = self.successors, level[a], level[b]
        stack = [s for s in ahead[a] if s != b and low < level[s] < high]
        seen = set(stack)
        while stack:
            if len(seen) > most:
                return True
            n = stack.pop()
            for s in ahead[n]:
                if s == b:
                    return True
                if s not in seen and low < level[s] < high:
                    seen.add(s)
                    stack.append(s)
        return False

    def merge(self, a: int, b: int) -> None:
        """Put node ``a`` into ``b``; no path may lead from one to the other but an edge."""
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
        level = max(self.level.pop(a), self.level[b])
        self.level[b] = -1
        self.raise_level(b, level)

    def raise_level(self, n: int, level: int) -> None:
        """Give a node at least this level, and those that follow it larger ones."""
        stack = [(n, level)]
        while stack:
            n, level = stack.pop()
            if self.level[n] >= level:
                continue
            self.level[n] = level
            stack.extend((s, level + 1) for s in self.successors[n] if self.level[s] <= level)

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
