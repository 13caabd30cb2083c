"""Graphs of work: nodes with dependencies, which are asked for together.

A launch of a graph lets each node come after those that it depends on, after all that its stream
was asked for before, and after the graph's earlier launch; nothing else is in order.  For that each
chain of nodes has a stream of its own (a *lane*), and events say what comes before what.

Nodes may work in one allocation at once, in different parts of it, as temporaries of a program lie
in one block.  So their accesses are compared byte by byte: where two nodes meet, one of them
writing, and neither comes before the other, a dependency is missing, whichever ran first.

Start at :meth:`SimulatedGraph.launch`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.queues import Queues, StreamEvent, StreamRace
from functrax.backends.cuda.simulator.races import Ranges

_NUMBERS: Final = itertools.count(1)


class NodeAccess(NamedTuple):
    """By the starts of allocations, which bytes a node read and wrote, from these."""

    ranges: dict[int, tuple[Ranges, Ranges]]

    def starts(self) -> tuple[set[int], set[int]]:
        """The allocations that were only read, and those that were written."""
        written = {start for start, (_, writes) in self.ranges.items() if len(writes[0])}
        return set(self.ranges) - written, written

    def meets(self, other: NodeAccess) -> int | None:
        """The start of an allocation in which they meet, one of them writing; or None."""
        for start in self.ranges.keys() & other.ranges.keys():
            (r, w), (r2, w2) = self.ranges[start], other.ranges[start]
            if _meet(w, r2) or _meet(w, w2) or _meet(r, w2):
                return start
        return None


def _meet(x: Ranges, y: Ranges) -> bool:
    if not len(y[0]):
        return False
    after = np.searchsorted(y[1], x[0], side="right")
    inside = after < len(y[0])
    return bool((y[0][after[inside]] < x[1][inside]).any())


#: Does what a node does.
NodeWork: TypeAlias = Callable[[], NodeAccess]


@dataclass
class GraphNode:
    """Something that a graph does.

    Args:
      name: for messages.
      work: does it.
      uses: allocations that it may touch, by their starts.
      after: numbers of the nodes that it depends on, all of them earlier ones.
    """

    name: str
    work: NodeWork
    uses: frozenset[int]
    after: tuple[int, ...]


@dataclass
class Graph:
    """Nodes, in the order in which they were added."""

    nodes: list[GraphNode] = field(default_factory=list)


class SimulatedGraph:
    """A graph as it was when this was made; its nodes may be changed.

    Args:
      queues: of the device.
      graph: what it is made of.
    """

    def __init__(self, queues: Queues, graph: Graph) -> None:
        self._queues = queues
        self.nodes = list(graph.nodes)
        ends: dict[int, int] = {}  # the lane that ends with a node
        self._lanes: list[int] = []
        self._before: list[int] = []  # sets of nodes are the bits of an integer
        for n, node in enumerate(self.nodes):
            lane = next((ends.pop(m) for m in node.after if m in ends), None)
            ends[n] = queues.stream() if lane is None else lane
            self._lanes.append(ends[n])
            before = 0
            for m in node.after:
                before |= self._before[m] | 1 << m
            self._before.append(before)

    def launch(self, stream: int) -> None:
        """Ask for all of it, after what a stream was asked for and before what comes next there."""
        queues, group = self._queues, next(_NUMBERS)
        before = StreamEvent()
        queues.record(before, stream)
        events = [StreamEvent() for _ in self.nodes]
        done: dict[int, NodeAccess] = {}
        names = [node.name for node in self.nodes]
        for n, (node, lane) in enumerate(zip(self.nodes, self._lanes, strict=True)):

            def work(n: int = n, node: GraphNode = node) -> tuple[set[int], set[int]]:
                access = node.work()
                self._check(n, access, done, names)
                done[n] = access
                return access.starts()

            self._wait(lane, [before, *[events[m] for m in node.after]])
            queues.ask(lane, node.name, work, node.uses, group)
            queues.record(events[n], lane)
        self._wait(stream, events)

    def _check(
        self, n: int, access: NodeAccess, done: dict[int, NodeAccess], names: Sequence[str]
    ) -> None:
        for m, other in done.items():
            if self._before[n] >> m & 1 or self._before[m] >> n & 1:
                continue
            start = access.meets(other)
            if start is not None:
                raise StreamRace(
                    f"{names[n]} and {names[m]}, nodes {n} and {m} of a graph, use the same bytes "
                    f"of the allocation at {start:#x}, in no order"
                )

    def _wait(self, stream: int, events: Sequence[StreamEvent]) -> None:
        for event in events:
            self._queues.wait(stream, event)
