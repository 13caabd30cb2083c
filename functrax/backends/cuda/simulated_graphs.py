"""The functions of graphs of the simulated driver: a part of :class:`SimulatedDriver`.

Start at :class:`SimulatedGraphs`.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from functrax.backends.cuda import driver as api
from functrax.backends.cuda.simulator.graph_launches import (
    Decision,
    Graph,
    GraphNode,
    NodeAccess,
    SimulatedGraph,
)
from functrax.backends.cuda.simulator.launch import Statistics
from functrax.backends.cuda.simulator.memory import DeviceMemory
from functrax.backends.cuda.simulator.queues import Queues
from functrax.backends.cuda.simulator.races import Ranges

Sizes: TypeAlias = tuple[int, int, int]
_NOTHING: Final = np.zeros(0, np.int64), np.zeros(0, np.int64)


class _NodeHandle(NamedTuple):
    graph: int
    number: int


class SimulatedGraphs(ABC):
    """Graphs of kernels and copies, made node by node.

    Attributes:
      memory: of the device.
      queues: its streams.
    """

    memory: DeviceMemory
    queues: Queues

    @abstractmethod
    def handle(self, thing: Any) -> int:
        """A new handle of something."""

    @abstractmethod
    def of_handle(self, handle: int) -> Any:
        """What a handle is of."""

    @abstractmethod
    def forget(self, handle: int) -> None:
        """Let a handle be of nothing."""

    @abstractmethod
    def start(self, address: int) -> int:
        """Where the allocation begins that an address is in."""

    @abstractmethod
    def launching(
        self,
        function: int,
        grid: Sizes,
        block: Sizes,
        shared: int,
        parameters: int,
        *,
        exact: bool,
    ) -> tuple[str, Callable[[], Statistics], list[int]]:
        """A launch with the parameters that it has now.

        Args:
          function: the kernel's handle.
          grid: how many blocks.
          block: how many threads each has.
          shared: bytes of dynamic shared memory.
          parameters: where the addresses of parameters are.
          exact: whether to tell which bytes are accessed.

        Returns:
          Its name, what runs it, and the starts of allocations that it may touch.
        """

    def _cuGraphCreate(self, out: int, flags: int) -> None:
        put(out, ctypes.c_void_p, self.handle(Graph()))

    def _cuGraphDestroy(self, graph: int) -> int:
        if self.of_handle(graph).outer is not None:
            return api.INVALID_VALUE  # a body goes with its node
        self.forget(graph)
        return api.SUCCESS

    def _cuGraphConditionalHandleCreate(
        self, out: int, graph: int, context: int, default: int, flags: int
    ) -> None:
        assert (default, flags) == (0, 0)  # a condition has no value before it is set
        self.of_handle(context)
        known: Graph = self.of_handle(graph)
        handle = self.handle(known)
        (known.outer or known).handles[handle] = False
        put(out, ctypes.c_uint64, handle)

    def _cuGraphAddNode(self, out: int, graph: int, after: int, count: int, at: int) -> int:
        node, mine = api.ConditionalNode.from_address(at), self.of_handle(graph)
        outer = mine.outer or mine
        self.of_handle(node.context)
        known = node.kind == api.SWITCH or (node.kind, node.size) == (api.WHILE, 1)
        if node.type != api.CONDITIONAL or any((*node.reserved, *node.rest)):
            return api.INVALID_VALUE
        if not known or not node.size:
            return api.INVALID_VALUE
        if outer.handles.get(node.handle, True):
            return api.INVALID_VALUE  # of no condition, or another node decides by it
        outer.handles[node.handle] = True
        bodies = tuple([Graph(outer=outer) for _ in range(node.size)])
        handles = (api.P * node.size)(*map(self.handle, bodies))
        outer.kept.append(handles)
        node.bodies = ctypes.addressof(handles)
        decision = Decision(node.handle, node.kind == api.WHILE, bodies)
        return self._add(out, graph, after, count, _deciding(decision))

    def _cuGraphAddKernelNode(self, out: int, graph: int, after: int, count: int, at: int) -> int:
        return self._add(out, graph, after, count, self._kernel(at))

    def _cuGraphAddMemcpyNode(
        self, out: int, graph: int, after: int, count: int, at: int, context: int
    ) -> int:
        return self._add(out, graph, after, count, self._copy(at))

    def _kernel(self, at: int) -> GraphNode:
        node = api.KernelNode.from_address(at)
        assert not node.extra
        sizes = tuple(node.grid), tuple(node.block), node.shared
        name, run, uses = self.launching(node.function, *sizes, node.parameters, exact=True)

        def work() -> NodeAccess:
            done = run()
            return NodeAccess(done.ranges, done.conditions)

        return GraphNode(name, work, frozenset(uses), ())

    def _copy(self, at: int) -> GraphNode:
        node = api.CopyNode.from_address(at)
        target, source, nbytes = node.target.device, node.source.device, node.width
        assert (node.height, node.depth) == (1, 1) and 0 < nbytes <= api.MOST_COPIED
        for side in (node.source, node.target):
            assert side.kind == api.DEVICE_MEMORY and side.pitch >= nbytes
        starts = self.start(source), self.start(target)

        def ranges(address: int, start: int) -> Ranges:
            return np.array([address - start]), np.array([address - start + nbytes])

        def copy() -> NodeAccess:
            self.memory.copy(target, source, nbytes)
            reads, writes = ranges(source, starts[0]), ranges(target, starts[1])
            if starts[0] == starts[1]:
                return NodeAccess({starts[0]: (reads, writes)})
            return NodeAccess({starts[0]: (reads, _NOTHING), starts[1]: (_NOTHING, writes)})

        return GraphNode("a copy", copy, frozenset(starts), ())

    def _add(self, out: int, graph: int, after: int, count: int, node: GraphNode) -> int:
        others = [
            self.of_handle(ctypes.c_void_p.from_address(after + 8 * k).value or 0)
            for k in range(count)
        ]
        if any(type(x) is not _NodeHandle or x.graph != graph for x in others):
            return api.INVALID_VALUE
        numbers = tuple(x.number for x in others)
        if len(set(numbers)) < count:
            return api.INVALID_VALUE
        nodes = self.of_handle(graph).nodes
        nodes.append(replace(node, after=numbers))
        put(out, ctypes.c_void_p, self.handle(_NodeHandle(graph, len(nodes) - 1)))
        return api.SUCCESS

    def _cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> int:
        known: Graph = self.of_handle(graph)
        if known.outer is not None or not all(known.handles.values()):
            return api.INVALID_VALUE
        if known.handles and known.executables:
            return api.INVALID_VALUE  # there may be one alone
        known.executables += 1
        put(out, ctypes.c_void_p, self.handle(SimulatedGraph(self.queues, known)))
        return api.SUCCESS

    def _cuGraphExecKernelNodeSetParams(self, executable: int, node: int, at: int) -> int:
        return self._change(executable, node, self._kernel(at))

    def _cuGraphExecMemcpyNodeSetParams(
        self, executable: int, node: int, at: int, context: int
    ) -> int:
        return self._change(executable, node, self._copy(at))

    def _change(self, executable: int, node: int, changed: GraphNode) -> int:
        made: SimulatedGraph = self.of_handle(executable)
        place: _NodeHandle = self.of_handle(node)
        nodes = made.nodes(self.of_handle(place.graph))
        if nodes is None or nodes[place.number].name != changed.name:
            return api.INVALID_VALUE  # another graph's node, or one that did something else
        nodes[place.number] = replace(changed, after=nodes[place.number].after)
        return api.SUCCESS

    def _cuGraphLaunch(self, executable: int, stream: int) -> None:
        self.of_handle(executable).launch(self.of_handle(stream))

    def _cuGraphExecDestroy(self, executable: int) -> None:
        self.of_handle(executable).graph.executables -= 1
        self.forget(executable)


def _deciding(decision: Decision) -> GraphNode:
    def work() -> NodeAccess:
        raise AssertionError("a conditional node has no work of its own")

    return GraphNode("a conditional node", work, frozenset(), (), decision)


def put(place: int, kind: Any, value: int) -> None:
    """Write a value where a function of the driver leaves it."""
    kind.from_address(place).value = value
