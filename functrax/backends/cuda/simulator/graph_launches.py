"""Graphs of work: nodes with dependencies, which are asked for together.

A launch of a graph lets each node come after those that it depends on, after all that its stream
was asked for before, and after the graph's earlier launch; nothing else is in order.  For that each
chain of nodes has a stream of its own (a *lane*), and events say what comes before what.

Nodes may work in one allocation at once, in different parts of it, as temporaries of a program lie
in one block.  So their accesses are compared byte by byte: where two nodes meet, one of them
writing, and neither comes before the other, a dependency is missing, whichever ran first.

A conditional node runs its bodies by a condition, which kernels set by its handle.  To set one is
to write to it, and to decide is to read it, so that what sets a condition too late is a race.  A
condition that is read is gone: it has to be set again before it is read again.  The node's accesses
are those of all the nodes of its bodies that ran.

Start at :meth:`SimulatedGraph.launch`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.errors import ConditionFault, EndlessLoop
from functrax.backends.cuda.simulator.queues import Queues, StreamEvent, StreamRace
from functrax.backends.cuda.simulator.races import Ranges

_NUMBERS: Final = itertools.count(1)
#: How often a loop of a graph goes on at most.
_MOST_STEPS: Final = 100_000
#: The bytes of a condition, and none, as accesses of it.
_CONDITION: Final = np.array([0]), np.array([4])
_NOTHING: Final = np.zeros(0, np.int64), np.zeros(0, np.int64)


class NodeAccess(NamedTuple):
    """What a node accessed.

    Args:
      ranges: by the starts of allocations, which bytes it read and wrote, from these; a condition
        counts as an allocation that starts at its handle.
      conditions: what it gave to handles.
    """

    ranges: dict[int, tuple[Ranges, Ranges]]
    conditions: Mapping[int, int] = MappingProxyType({})

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


def _together(first: NodeAccess, second: NodeAccess) -> NodeAccess:
    """What both accessed."""
    ranges = dict(first.ranges)
    for start, (reads, writes) in second.ranges.items():
        r, w = ranges.get(start, (_NOTHING, _NOTHING))
        ranges[start] = _union(r, reads), _union(w, writes)
    return NodeAccess(ranges)


def _union(x: Ranges, y: Ranges) -> Ranges:
    begins, ends = np.append(x[0], y[0]), np.append(x[1], y[1])
    if not len(begins):
        return x
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    apart = begins[1:] > ends[:-1]
    return begins[np.append(True, apart)], ends[np.append(apart, True)]


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
      work: does it; a conditional node does what it decides.
      uses: allocations that it may touch, by their starts.
      after: numbers of the nodes that it depends on, all of them earlier ones.
      decides: what a conditional node does.
    """

    name: str
    work: NodeWork
    uses: frozenset[int]
    after: tuple[int, ...]
    decides: Decision | None = None


@dataclass
class Decision:
    """What a conditional node does.

    Args:
      handle: of its condition.
      loops: whether it runs its body as long as the condition is not zero.
      bodies: of which it runs the one that the condition is the number of.
    """

    handle: int
    loops: bool
    bodies: tuple[Graph, ...]


@dataclass(eq=False)
class Graph:
    """Nodes, in the order in which they were added.

    Args:
      nodes: the nodes.
      outer: the graph that it is a body in, at any depth; None if it is no body.
      handles: of conditions, and whether a node decides by them; a body's are the outer graph's.
      kept: what the driver owns as long as the graph.
      executables: how many were made of it.
    """

    nodes: list[GraphNode] = field(default_factory=list)
    outer: Graph | None = None
    handles: dict[int, bool] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    executables: int = 0


class _Nodes:
    """The nodes of a graph or of a body, and which of them come before which."""

    def __init__(self, graph: Graph) -> None:
        self.nodes = list(graph.nodes)
        self.before: list[int] = []  # sets of nodes are the bits of an integer
        for node in self.nodes:
            before = 0
            for m in node.after:
                before |= self.before[m] | 1 << m
            self.before.append(before)

    def check(self, n: int, access: NodeAccess, done: dict[int, NodeAccess]) -> None:
        """Compare what a node accessed with what others did."""
        for m, other in done.items():
            if self.before[n] >> m & 1 or self.before[m] >> n & 1:
                continue
            start = access.meets(other)
            if start is not None:
                raise StreamRace(
                    f"{self.nodes[n].name} and {self.nodes[m].name}, nodes {n} and {m} of a graph, "
                    f"use the same bytes of the allocation at {start:#x}, in no order"
                )


class SimulatedGraph:
    """A graph as it was when this was made; its nodes may be changed.

    Args:
      queues: of the device.
      graph: what it is made of.
    """

    def __init__(self, queues: Queues, graph: Graph) -> None:
        self._queues = queues
        self.graph = graph
        self._of: dict[Graph, _Nodes] = {}
        self._enter(graph)
        ends: dict[int, int] = {}  # the lane that ends with a node
        self._lanes: list[int] = []
        for n, node in enumerate(graph.nodes):
            lane = next((ends.pop(m) for m in node.after if m in ends), None)
            ends[n] = queues.stream() if lane is None else lane
            self._lanes.append(ends[n])

    def _enter(self, graph: Graph) -> None:
        self._of[graph] = _Nodes(graph)
        for node in graph.nodes:
            for body in node.decides.bodies if node.decides else ():
                self._enter(body)

    def nodes(self, graph: Graph) -> list[GraphNode] | None:
        """The nodes of the graph or of one of its bodies; None of another graph."""
        found = self._of.get(graph)
        return None if found is None else found.nodes

    def launch(self, stream: int) -> None:
        """Ask for all of it, after what a stream was asked for and before what comes next there."""
        queues, group, mine = self._queues, next(_NUMBERS), self._of[self.graph]
        before = StreamEvent()
        queues.record(before, stream)
        events = [StreamEvent() for _ in mine.nodes]
        done: dict[int, NodeAccess] = {}
        conditions: dict[int, int] = {}
        for n, (node, lane) in enumerate(zip(mine.nodes, self._lanes, strict=True)):

            def work(n: int = n, node: GraphNode = node) -> tuple[set[int], set[int]]:
                access = self._done(node, conditions)
                mine.check(n, access, done)
                done[n] = access
                return access.starts()

            self._wait(lane, [before, *[events[m] for m in node.after]])
            queues.ask(lane, node.name, work, self._uses(node), group)
            queues.record(events[n], lane)
        self._wait(stream, events)

    def _uses(self, node: GraphNode) -> frozenset[int]:
        if node.decides is None:
            return node.uses
        inside = [self._uses(x) for body in node.decides.bodies for x in self._of[body].nodes]
        return node.uses.union(*inside)

    def _done(self, node: GraphNode, conditions: dict[int, int]) -> NodeAccess:
        """What a node accessed, once it is done."""
        if node.decides is not None:
            return self._decided(node.decides, conditions)
        access = node.work()
        for handle, value in access.conditions.items():
            if handle not in self.graph.handles:
                raise ConditionFault(f"{node.name} sets {handle:#x}, no condition of its graph")
            conditions[handle] = value
            access.ranges[handle] = _NOTHING, _CONDITION
        return access

    def _decided(self, x: Decision, conditions: dict[int, int]) -> NodeAccess:
        def condition() -> int:
            if x.handle not in conditions:
                raise ConditionFault(f"a node decides by {x.handle:#x}, which nobody has set")
            return conditions.pop(x.handle)

        access = NodeAccess({x.handle: (_CONDITION, _NOTHING)})
        if not x.loops:
            number = condition()
            if number < len(x.bodies):
                access = _together(access, self._body(x.bodies[number], conditions))
            return access
        for _ in range(_MOST_STEPS):
            if not condition():
                return access
            access = _together(access, self._body(x.bodies[0], conditions))
        raise EndlessLoop(f"a loop of a graph went on for {_MOST_STEPS:,} steps")

    def _body(self, graph: Graph, conditions: dict[int, int]) -> NodeAccess:
        """Run the nodes of a body, in any order that they allow."""
        mine = self._of[graph]
        whole = NodeAccess({})
        done: dict[int, NodeAccess] = {}
        left = set(range(len(mine.nodes)))
        while left:
            ready = [n for n in sorted(left) if done.keys() >= set(mine.nodes[n].after)]
            n = self._queues.drawn(ready)
            left.remove(n)
            access = self._done(mine.nodes[n], conditions)
            mine.check(n, access, done)
            done[n] = access
            whole = _together(whole, access)
        return whole

    def _wait(self, stream: int, events: Sequence[StreamEvent]) -> None:
        for event in events:
            self._queues.wait(stream, event)
