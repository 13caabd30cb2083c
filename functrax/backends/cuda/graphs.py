"""Parts of programs that a GPU gets as one CUDA graph: the twin of ``native/cuda_graph.cpp``.

A *part* is some neighbouring instructions of which none waits for the host: launches, copies, and
scans of these, which are written out.  :func:`graph_parts` finds those that are worth a graph.
From its second run on a part is a graph: a node for each launch and each copy, after those that its
memory says (``graph_order.py``), made by the driver's functions and asked for in one call.

The addresses of a node follow from those of the program's arguments and results and of its
temporaries.  Where they are others than the graph has, the nodes that have them are changed.  The
results of a call are arguments of the next, so that two sets of addresses take turns: a part has
two graphs, and in its steady state nothing is changed.

What CUDA's documentation says of executable graphs: a launch comes after earlier work of its stream
and after earlier launches of the same graph; changed parameters are those of later launches; a
graph that is destroyed while it runs is freed when it ends; its functions may not be called by two
threads at once.  The last is so here as the driver is called under a lock, which a simulated one
may give up in C++: so a part that is at work is left alone, and who comes meanwhile asks for
launches one by one.

Start at :meth:`GraphPart.ask`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from functrax.backends.cuda import driver as api
from functrax.backends.cuda.gpu import Gpu
from functrax.backends.cuda.graph_order import BytesAccess, SharedPlace, order_of, share
from functrax.backends.executables.program import (
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    Slot,
    all_programs,
    subprograms,
)
from functrax.backends.ptx.code import DeviceCode
from functrax.backends.runtime.executor import Frame, ProgramRun, workspace_of
from functrax.backends.targets.facts import Target
from functrax.backends.targets.nvptx import target_of
from functrax.core.options.config import state as options

#: The first instruction of a part, and the one after its last.
Part = tuple[int, int]
#: Where a constant is.
Constant = Callable[[Slot], int]
#: Errors after which a part is asked for without a graph.
_REFUSALS: Final = (api.OUT_OF_MEMORY, api.NOT_SUPPORTED)


# ---- what may be a graph ------------------------------------------------------------------------


def graph_parts(program: RuntimeProgram, target: Target) -> dict[int, tuple[Part, ...]]:
    """The parts that may be graphs, by the number of their program in ``all_programs``."""
    if not options.cuda_graphs:
        return {}
    numbers = {p: n for n, p in enumerate(all_programs(program))}
    found: dict[int, tuple[Part, ...]] = {}
    left = [program]
    while left:
        p = left.pop()
        parts = _parts(p, target)
        if parts:
            found[numbers[p]] = parts
        inside = {k for begin, end in parts for k in range(begin, end)}
        left += [q for k, x in enumerate(p.instructions) if k not in inside for q in subprograms(x)]
    return found


def _parts(program: RuntimeProgram, target: Target) -> tuple[Part, ...]:
    found: list[tuple[int, int, int]] = []  # with the number of nodes
    begin = total = 0
    for k, x in enumerate(program.instructions):
        nodes = _nodes(x, program.slots)
        if nodes is None or nodes > target.graph_nodes:
            found.append((begin, k, total))
            begin, total = k + 1, 0
        elif total + nodes > target.graph_nodes:
            found.append((begin, k, total))
            begin, total = k, nodes
        else:
            total += nodes
    found.append((begin, len(program.instructions), total))
    return tuple([(begin, end) for begin, end, n in found if n >= target.least_graph_nodes])


def _nodes(x: Instruction, slots: Sequence[Slot]) -> int | None:
    """How many nodes an instruction is at most; None if it cannot be in a graph."""
    match x:
        case Launch():
            return 1 if x.units else 0
        case CopyInstruction():
            return _copies((x.source,), slots)
        case ScanInstruction():
            body, moved = x.body, _copies(x.carry, slots)
            own = [s for n, s in enumerate(body.outputs) if not _is_written(body, n, s)]
            each = [_nodes(inner, body.slots) for inner in body.instructions]
            each.append(_copies(own, body.slots))
            counts = [n for n in each if n is not None]
            if moved is None or len(counts) < len(each):
                return None
            return 2 * moved + x.length * sum(counts)
    return None


def _is_written(program: RuntimeProgram, number: int, slot: int) -> bool:
    x = program.slots[slot]
    return x.kind == "output" and x.number == number


def _copies(sources: Sequence[int], slots: Sequence[Slot]) -> int | None:
    sizes = [slots[s].nbytes for s in sources]
    return len(sizes) if max(sizes, default=0) <= api.MOST_COPIED else None


class PlannedGraph(NamedTuple):
    """A part of a program that becomes a graph.

    Args:
      nodes: how many it has at most.
      instructions: that are in it, those inside of scans included.
    """

    nodes: int
    instructions: tuple[Instruction, ...]


def planned_graphs(program: RuntimeProgram, target: Target) -> list[PlannedGraph]:
    """The parts of a program that become graphs when it runs again."""
    programs, found = all_programs(program), []
    for number, parts in sorted(graph_parts(program, target).items()):
        for begin, end in parts:
            chosen = programs[number].instructions[begin:end]
            counts = [_nodes(x, programs[number].slots) or 0 for x in chosen]
            inner = [
                y
                for x in chosen
                for p in subprograms(x)
                for q in all_programs(p)
                for y in q.instructions
            ]
            found.append(PlannedGraph(sum(counts), (*chosen, *inner)))
    return found


class GraphUse(NamedTuple):
    """What became of a part.

    Args:
      program: the number of its program in ``all_programs``.
      begin: its first instruction.
      end: the instruction after its last.
      nodes: of its graphs.
      graphs: how many there are.
      launches: how often they were launched.
      patched: how many nodes got other addresses.
    """

    program: int
    begin: int
    end: int
    nodes: int
    graphs: int
    launches: int
    patched: int


# ---- the work of a part -------------------------------------------------------------------------


class _Work(NamedTuple):
    """What one node does: a launch, or a copy of so many bytes."""

    launch: Launch | None
    slots: Sequence[Slot]
    places: tuple[int, ...]
    nbytes: int

    def like(self, other: _Work) -> bool:
        """Whether it is the same but for addresses."""
        return self.launch is other.launch and self.nbytes == other.nbytes

    def accesses(self) -> list[BytesAccess]:
        """What it reads and writes."""
        if self.launch is None:
            target, source = self.places
            return [
                BytesAccess(target, target + self.nbytes, True),
                BytesAccess(source, source + self.nbytes, False),
            ]
        x = self.launch
        begins = [p - b for p, b in zip(self.places, x.begins or (0,) * len(self.places))]
        return [
            BytesAccess(begin, begin + self.slots[s].nbytes, k >= len(x.inputs))
            for k, (begin, s) in enumerate(zip(begins, (*x.inputs, *x.outputs), strict=True))
        ]


class _Recording(ProgramRun):
    """A run that writes down what is to be done."""

    __slots__ = ("_constant", "_slots", "works")

    def __init__(self, constant: Constant, program: RuntimeProgram) -> None:
        super().__init__(None, program, None, None)
        self._constant = constant
        self._slots: Sequence[Slot] = program.slots
        self.works: list[_Work] = []

    def part(self, program: RuntimeProgram, frame: Frame, part: Part) -> None:
        """Write down what some instructions do."""
        self._slots = program.slots
        for n in range(*part):
            place = workspace_of(program, frame, n)
            self._instruction(program.instructions[n], program.slots, frame, place)
            self._slots = program.slots

    def instructions(self, program: RuntimeProgram, frame: Frame) -> None:
        self.part(program, frame, (0, len(program.instructions)))

    def constant(self, slot: Slot) -> int:
        return self._constant(slot)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if target != source and nbytes:
            self.works.append(_Work(None, (), (target, source), nbytes))

    def launches(self, run: Sequence[Any], frame: Frame) -> None:
        for x in run:
            if x.units:
                places = launch_places(x, frame)
                self.works.append(_Work(x, self._slots, tuple(places), 0))

    def number(self, address: int, dtype: np.dtype[Any]) -> Any:
        raise AssertionError("an instruction that waits for the host is in a graph")

    def host_call(self, x: HostCall, slots: Sequence[Slot], frame: Frame) -> None:
        raise AssertionError("a function of the host is in a graph")


def launch_places(x: Launch, frame: Frame) -> list[int]:
    """The addresses of a launch's arrays."""
    places = [frame[s] for s in (*x.inputs, *x.outputs)]
    if x.begins:
        places = [place + begin for place, begin in zip(places, x.begins, strict=True)]
    return places


def _shared_places(program: RuntimeProgram, frame: Frame) -> list[SharedPlace]:
    """Results that lie in the memory of an argument if that is donated: so it is in some calls."""
    shared: list[SharedPlace] = []
    for output, source in program.aliases:
        result, argument = program.outputs[output], program.inputs[source]
        share(shared, frame[argument], frame[result], program.slots[result].nbytes)
    return shared


# ---- executable graphs --------------------------------------------------------------------------


class _RefusedError(Exception):
    """The driver has no memory for a graph, or does not know what it is made of."""


class ExecutableGraph:
    """A graph that can be launched, and the addresses that its nodes have.

    Args:
      gpu: that runs it.
      works: what its nodes do.
      order: for each node those that it comes after.
      given: the addresses of the frame that the others follow from.
    """

    def __init__(
        self,
        gpu: Gpu,
        works: list[_Work],
        order: Sequence[Sequence[int]],
        given: list[int],
    ) -> None:
        self._gpu, self.works, self.given = gpu, works, given
        self._graph = self._executable = 0
        self._nodes: list[int] = []
        self._graph = self._made("cuGraphCreate", 0)
        for work, after in zip(works, order, strict=True):
            others = (api.P * max(len(after), 1))(*[self._nodes[n] for n in after])
            made = self._graph, ctypes.addressof(others), len(after)
            self._nodes.append(self._node("cuGraphAdd{}Node", work, made))
        self._executable = self._made("cuGraphInstantiateWithFlags", self._graph, 0)

    def _made(self, function: str, *arguments: Any) -> int:
        handle = ctypes.c_void_p()
        error = self._gpu.table(function, ctypes.addressof(handle), *arguments)
        if error in _REFUSALS:
            raise _RefusedError
        self._gpu.check(function, error)
        return handle.value or 0

    def _node(self, function: str, work: _Work, made: tuple[Any, ...]) -> int:
        """Make a node, or change one, where ``made`` says which."""
        changed = function.startswith("cuGraphExec")
        if work.launch is None:
            node: Any = _copy_node(work)
            rest: tuple[Any, ...] = (ctypes.addressof(node), self._gpu.context)
            name = function.format("Memcpy")
        else:
            node, _kept = self._launch_node(work.launch, work.places)
            rest = (ctypes.addressof(node),)
            name = function.format("Kernel")
        if not changed:
            return self._made(name, *made, *rest)
        self._gpu.check(name, self._gpu.table(name, *made, *rest))
        return 0

    def _launch_node(self, x: Launch, places: Sequence[int]) -> tuple[api.KernelNode, Any]:
        """The parameters of a node, and what keeps them."""
        code: DeviceCode = x.owner
        kept = self._gpu.parameters(places, np.asarray(x.params or (0,), np.int64))
        node = api.KernelNode()
        node.function = self._gpu.load(code.ptx, code.name)
        node.grid[:] = code.grid(x.units), 1, 1
        node.block[:] = code.block, 1, 1
        node.parameters = ctypes.addressof(kept[0])
        return node, kept

    def fits(self, works: Sequence[_Work]) -> bool:
        """Whether it does the same, but for addresses."""
        return len(works) == len(self.works) and all(map(_Work.like, self.works, works))

    def patch(self, works: list[_Work], given: list[int]) -> int:
        """Give the nodes other addresses; how many have got them."""
        before, self.works = self.works, works
        count = 0
        for node, old, new in zip(self._nodes, before, works, strict=True):
            if old.places != new.places:
                count += 1
                self._node("cuGraphExec{}NodeSetParams", new, (self._executable, node))
        self.given = given
        return count

    def launch(self) -> None:
        """Let it run, as the next thing that the GPU does."""
        self._gpu.launch_graph(self._executable)

    def __del__(self) -> None:
        # A graph that is running ends; then the driver frees it.  An error here is one that the
        # driver reports again at the next call.
        if sys.is_finalizing() or not self._graph:
            return
        table = self._gpu.table
        table("cuCtxSetCurrent", self._gpu.context)
        if self._executable:
            table("cuGraphExecDestroy", self._executable)
        table("cuGraphDestroy", self._graph)


def _copy_node(work: _Work) -> api.CopyNode:
    node = api.CopyNode(width=work.nbytes, height=1, depth=1)
    for side, place in zip((node.target, node.source), work.places, strict=True):
        side.kind, side.device = api.DEVICE_MEMORY, place
        side.pitch, side.height = work.nbytes, 1
    return node


class GraphPart:
    """A part of a program that may become a graph."""

    #: The results of a call are arguments of the next: two sets of addresses take turns.
    GRAPHS = 2

    def __init__(self, part: Part) -> None:
        self.part = part
        self._graphs: list[ExecutableGraph | None] = [None] * self.GRAPHS
        self._last = self.GRAPHS - 1
        self._ran = self._at_work = self._refused = False
        self._launches = self._patched = 0

    def ask(self, constant: Constant, gpu: Gpu, program: RuntimeProgram, frame: Frame) -> bool:
        """Ask for the part's work as one graph; False where it is to be asked for one by one."""
        if self._at_work or self._refused:
            return False
        if not self._ran:  # a graph of what runs once is not worth its making
            self._ran = True
            return False
        self._at_work = True
        try:
            graph = self._graph(constant, gpu, program, frame)
            self._launches += 1
            graph.launch()
        except _RefusedError:
            self._refused = True
        finally:
            self._at_work = False
        return not self._refused

    def _graph(
        self, constant: Constant, gpu: Gpu, program: RuntimeProgram, frame: Frame
    ) -> ExecutableGraph:
        """A graph with the addresses of a frame."""
        given = [frame[-1], *[frame[s] for s in (*program.inputs, *program.outputs)]]
        for n, known in enumerate(self._graphs):
            if known is not None and known.given == given:
                self._last = n
                return known
        self._last = (self._last + 1) % self.GRAPHS
        recording = _Recording(constant, program)
        recording.part(program, frame, self.part)
        graph, self._graphs[self._last] = self._graphs[self._last], None  # unless all goes well
        if graph is not None and graph.fits(recording.works):
            self._patched += graph.patch(recording.works, given)
        else:
            order = order_of(
                [x.accesses() for x in recording.works], _shared_places(program, frame)
            )
            graph = ExecutableGraph(gpu, recording.works, order, given)
        self._graphs[self._last] = graph
        return graph

    def use(self, number: int) -> GraphUse:
        """What became of it, as a part of the program of a number."""
        graphs = [x for x in self._graphs if x is not None]
        nodes = max((len(x.works) for x in graphs), default=0)
        return GraphUse(number, *self.part, nodes, len(graphs), self._launches, self._patched)


def parts_of(program: RuntimeProgram, gpu: Any) -> dict[int, tuple[Part, ...]]:
    """The parts of a program that may be graphs on a GPU."""
    if not gpu.table.has_graphs:
        return {}
    return graph_parts(program, target_of(gpu.capability))
