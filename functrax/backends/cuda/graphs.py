"""Parts of programs that a GPU gets as one CUDA graph: the twin of ``native/cuda_graph.cpp``.

A *part* is some neighbouring instructions of which none waits for the host: launches, copies, scans
of these, which are written out, and where the driver has conditional nodes branches and loops of
these, which the GPU decides by itself (``graph_work.py``).  :func:`graph_parts` finds those that
are worth a graph.  From its second run on a part is a graph, and one with a loop from its first: a
node for each launch and each copy, after those that its memory says (``graph_order.py``), made by
the driver's functions and asked for in one call.

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
from functrax.backends.cuda.conditions import SETTING_KERNELS, SETTING_PTX
from functrax.backends.cuda.gpu import Gpu
from functrax.backends.cuda.graph_order import SharedPlace, share
from functrax.backends.cuda.graph_work import (
    Constant,
    DecidingWork,
    GraphRecording,
    GraphWork,
    LoopCopies,
    Part,
    SettingWork,
    order_of_works,
)
from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    Instruction,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    Slot,
    WhileInstruction,
    all_programs,
    subprograms,
    updated_in_place,
)
from functrax.backends.ptx.code import DeviceCode
from functrax.backends.runtime.executor import Frame
from functrax.backends.targets.facts import Target
from functrax.backends.targets.nvptx import target_of
from functrax.core.options.config import state as options

#: Errors after which a part is asked for without a graph.
_REFUSALS: Final = (api.OUT_OF_MEMORY, api.NOT_SUPPORTED)


# ---- what may be a graph ------------------------------------------------------------------------


def graph_parts(
    program: RuntimeProgram, target: Target, conditions: bool
) -> dict[int, tuple[Part, ...]]:
    """The parts that may be graphs, by the number of their program in ``all_programs``.

    Args:
      program: the program.
      target: the GPU.
      conditions: whether the GPU decides loops and branches by itself (:func:`gpu_decides`).
    """
    if not options.cuda_graphs:
        return {}
    copies = loop_copies(target) if conditions else None
    numbers = {p: n for n, p in enumerate(all_programs(program))}
    found: dict[int, tuple[Part, ...]] = {}
    left = [program]
    while left:
        p = left.pop()
        parts = _parts(p, target, copies)
        if parts:
            found[numbers[p]] = parts
        inside = {k for begin, end in parts for k in range(begin, end)}
        left += [q for k, x in enumerate(p.instructions) if k not in inside for q in subprograms(x)]
    return found


def gpu_decides(table: api.Table) -> bool:
    """Whether loops and branches are conditional nodes, as driver and options have it."""
    return table.has_conditions and table.has_switched_on(options.cuda_conditional_nodes)


def loop_copies(target: Target) -> LoopCopies:
    """Which loops of a GPU copy their carry after each step."""
    branch, node = target.branch_ns / 2, target.node_ns  # a branch serves two steps
    return LoopCopies(int(node / target.moved_byte_ns), int(branch / target.moved_byte_ns))


def _parts(program: RuntimeProgram, target: Target, copies: LoopCopies | None) -> tuple[Part, ...]:
    found: list[tuple[int, int, int]] = []  # with the number of nodes
    begin = total = 0
    for k, x in enumerate(program.instructions):
        nodes = _nodes(x, program.slots, copies)
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


def _nodes(x: Instruction, slots: Sequence[Slot], copies: LoopCopies | None) -> int | None:
    """How many nodes an instruction is at most; None if it cannot be in a graph.

    Args:
      x: the instruction.
      slots: of its program.
      copies: which loops copy their carry; None where the host decides.
    """
    match x:
        case Launch():
            return 1 if x.units else 0
        case CopyInstruction():
            return _copies((x.source,), slots)
        case ScanInstruction():
            body, moved = _inside(x.body, copies), _copies(x.carry, slots)
            return _sum(moved, moved, None if body is None else x.length * body)
        case CondInstruction() if copies is not None:
            # One sets the condition, another decides by it.
            return _sum(2, *[_inside(branch, copies) for branch in x.branches])
        case WhileInstruction() if copies is not None:
            test, body = (_inside(p, copies) for p in (x.cond, x.body))
            two = [s for s, once in zip(x.carry, updated_in_place(x)) if not once]
            moved = _sum(_copies(x.carry, slots), _copies(two, slots))
            step = _sum(body, test, 1)  # which sets the condition
            if copies.pay([slots[s].nbytes for s in two]):
                return _sum(moved, test, 2, step)
            return _sum(moved, test, 2, step, 1, step)
    return None


def _sum(*nodes: int | None) -> int | None:
    counts = [n for n in nodes if n is not None]
    return sum(counts) if len(counts) == len(nodes) else None


def _inside(program: RuntimeProgram, copies: LoopCopies | None) -> int | None:
    """How many nodes a program inside an instruction is at most."""
    own = [s for n, s in enumerate(program.outputs) if not _is_written(program, n, s)]
    each = [_nodes(x, program.slots, copies) for x in program.instructions]
    return _sum(*each, _copies(own, program.slots))


def _has(x: Instruction, kinds: tuple[type, ...]) -> bool:
    """Whether an instruction, or one inside it, is of some kinds."""
    inside = [y for p in subprograms(x) for y in p.instructions]
    return isinstance(x, kinds) or any(_has(y, kinds) for y in inside)


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


def planned_graphs(program: RuntimeProgram, target: Target, conditions: bool) -> list[PlannedGraph]:
    """The parts of a program that become graphs when it runs again; arguments as before."""
    programs, found = all_programs(program), []
    copies = loop_copies(target) if conditions else None
    for number, parts in sorted(graph_parts(program, target, conditions).items()):
        for begin, end in parts:
            chosen = programs[number].instructions[begin:end]
            counts = [_nodes(x, programs[number].slots, copies) or 0 for x in chosen]
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


# ---- executable graphs --------------------------------------------------------------------------


def _shared_places(program: RuntimeProgram, frame: Frame) -> list[SharedPlace]:
    """Results that lie in the memory of an argument if that is donated: so it is in some calls."""
    shared: list[SharedPlace] = []
    for output, source in program.aliases:
        result, argument = program.outputs[output], program.inputs[source]
        share(shared, frame[argument], frame[result], program.slots[result].nbytes)
    return shared


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
        works: list[GraphWork],
        order: Sequence[Sequence[int]],
        given: list[int],
    ) -> None:
        self._gpu, self.works, self.given = gpu, works, given
        self._graph = self._executable = 0
        self._nodes: list[int] = []
        self._conditions: list[int] = []
        self._graph = self._made("cuGraphCreate", 0)
        bodies = {0: self._graph}
        for work, after in zip(works, order, strict=True):
            others = (api.P * max(len(after), 1))(*[self._nodes[n] for n in after])
            made = bodies[work.body], ctypes.addressof(others), len(after)
            if isinstance(work.rule, DecidingWork):
                node, inside = self._deciding_node(work, work.rule, made)
                bodies |= zip(work.bodies, inside, strict=True)
            else:
                node = self._node("cuGraphAdd{}Node", work, made)
            self._nodes.append(node)
        self._executable = self._made("cuGraphInstantiateWithFlags", self._graph, 0)

    def _made(self, function: str, *arguments: Any) -> int:
        handle = ctypes.c_void_p()
        error = self._gpu.table(function, ctypes.addressof(handle), *arguments)
        if error in _REFUSALS:
            raise _RefusedError
        self._gpu.check(function, error)
        return handle.value or 0

    def _node(self, function: str, work: GraphWork, made: tuple[Any, ...]) -> int:
        """Make a node, or change one, where ``made`` says which."""
        changed = function.startswith("cuGraphExec")
        if work.launch is None and work.rule is None:
            node: Any = _copy_node(work)
            rest: tuple[Any, ...] = (ctypes.addressof(node), self._gpu.context)
            name = function.format("Memcpy")
        else:
            node, _kept = self._kernel_node(work)
            rest = (ctypes.addressof(node),)
            name = function.format("Kernel")
        if not changed:
            return self._made(name, *made, *rest)
        self._gpu.check(name, self._gpu.table(name, *made, *rest))
        return 0

    def _kernel_node(self, work: GraphWork) -> tuple[api.KernelNode, Any]:
        """The parameters of a node, and what keeps them."""
        x, rule, places = work.launch, work.rule, work.places
        numbers: tuple[int, ...] = (0,)
        if x is not None:
            code: DeviceCode = x.owner
            grid, block = code.grid(x.units), code.block
            kernel = self._gpu.load(code.ptx, code.name)
            numbers = x.params or numbers
        else:
            assert isinstance(rule, SettingWork)
            kernel = self._gpu.load(SETTING_PTX, SETTING_KERNELS[rule.kernel])
            grid = block = 1
            places, numbers = (self._condition(work.condition), *places), (rule.last,)
        kept = self._gpu.parameters(places, np.asarray(numbers, np.int64))
        node = api.KernelNode(function=kernel, parameters=ctypes.addressof(kept[0]))
        node.grid[:] = grid, 1, 1
        node.block[:] = block, 1, 1
        return node, kept

    def _condition(self, number: int) -> int:
        """The handle of a condition; they are numbered in the order in which they are needed."""
        if number == len(self._conditions):
            function, gpu = "cuGraphConditionalHandleCreate", self._gpu
            self._conditions.append(self._made(function, self._graph, gpu.context, 0, 0))
        return self._conditions[number]

    def _deciding_node(
        self, work: GraphWork, rule: DecidingWork, made: tuple[Any, ...]
    ) -> tuple[int, list[int]]:
        """Make a conditional node; it and its bodies."""
        node = api.ConditionalNode(type=api.CONDITIONAL, context=self._gpu.context)
        node.handle = self._condition(work.condition)
        node.kind, node.size = api.WHILE if rule.loops else api.SWITCH, len(rule.bodies)
        place = self._made("cuGraphAddNode", *made, ctypes.addressof(node))
        bodies = (api.P * node.size).from_address(node.bodies)
        return place, [x or 0 for x in bodies]

    def fits(self, works: Sequence[GraphWork]) -> bool:
        """Whether it does the same, but for addresses."""
        return len(works) == len(self.works) and all(map(GraphWork.like, self.works, works))

    def patch(self, works: list[GraphWork], given: list[int]) -> int:
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

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A graph that is running ends; then the driver frees it.  An error here is one that the
        # driver reports again at the next call.
        if is_finalizing() or not self._graph:
            return
        table = self._gpu.table
        table("cuCtxSetCurrent", self._gpu.context)
        if self._executable:
            table("cuGraphExecDestroy", self._executable)
        table("cuGraphDestroy", self._graph)


def _copy_node(work: GraphWork) -> api.CopyNode:
    node = api.CopyNode(width=work.nbytes, height=1, depth=1)
    for side, place in zip((node.target, node.source), work.places, strict=True):
        side.kind, side.device = api.DEVICE_MEMORY, place
        side.pitch, side.height = work.nbytes, 1
    return node


class GraphPart:
    """A part of a program that may become a graph."""

    #: The results of a call are arguments of the next: two sets of addresses take turns.
    GRAPHS = 2

    def __init__(self, part: Part, program: RuntimeProgram, copies: LoopCopies) -> None:
        self.part, self._copies = part, copies
        self._graphs: list[ExecutableGraph | None] = [None] * self.GRAPHS
        self._last = self.GRAPHS - 1
        self._at_work = self._refused = False
        # A graph of what runs once is not worth its making, unless that has a loop.
        self._ran = any(_has(x, (WhileInstruction,)) for x in program.instructions[slice(*part)])
        self._launches = self._patched = 0

    def ask(self, constant: Constant, gpu: Gpu, program: RuntimeProgram, frame: Frame) -> bool:
        """Ask for the part's work as one graph; False where it is to be asked for one by one."""
        if self._at_work or self._refused:
            return False
        if not self._ran:
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
        recording = GraphRecording(constant, program, self._copies)
        recording.part(program, frame, self.part)
        graph, self._graphs[self._last] = self._graphs[self._last], None  # unless all goes well
        if graph is not None and graph.fits(recording.works):
            self._patched += graph.patch(recording.works, given)
        else:
            order = order_of_works(recording.works, _shared_places(program, frame))
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
    return graph_parts(program, target_of(gpu.capability), gpu_decides(gpu.table))


def made_parts(program: RuntimeProgram, gpu: Gpu) -> dict[RuntimeProgram, list[GraphPart]]:
    """The parts that may be graphs, by the program that they are in."""
    programs, copies = all_programs(program), loop_copies(target_of(gpu.capability))
    return {
        programs[n]: [GraphPart(x, programs[n], copies) for x in found]
        for n, found in parts_of(program, gpu).items()
    }


def conditions_of(
    program: RuntimeProgram, gpu: Any, parts: dict[int, tuple[Part, ...]]
) -> tuple[Any, ...]:
    """What C++ needs for parts with branches and loops; empty where there are none.

    Returns:
      The kernels that set conditions, loaded, and the numbers of :class:`LoopCopies`.
    """
    programs, kinds = all_programs(program), (CondInstruction, WhileInstruction)
    inside = [programs[n].instructions[slice(*p)] for n, found in parts.items() for p in found]
    if not any(_has(x, kinds) for some in inside for x in some):
        return ()
    kernels = tuple([gpu.load(SETTING_PTX, name) for name in SETTING_KERNELS])
    return kernels, *loop_copies(target_of(gpu.capability))
