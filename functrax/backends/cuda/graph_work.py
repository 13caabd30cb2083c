"""What the nodes of a part do: a run of its instructions that is written down.

A part is a list of :class:`GraphWork`.  Launches and copies are work.  A branch and a loop whose
end the GPU decides are two works, one that sets a *condition* and one that decides by it, and
*bodies*, which are lists of works inside of it: one for each branch, or that of the loop.  All are
one list, in which what is in a body comes after what decides.

A loop's carry has two places, of which a step reads one and writes the other.  Its body ends as it
began: with copies that bring the carry back, or with a second step the other way round.  That one
is in a branch, as the loop may end after the first one; the copies are in the other branch then.
The former is chosen where the copies take less time than the branch (:class:`LoopCopies`).

Start at :class:`GraphRecording`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from functrax.backends.cuda.conditions import setting_kernel
from functrax.backends.cuda.graph_order import BytesAccess, NodeMemory, SharedPlace, order_in_bodies
from functrax.backends.executables.program import (
    CondInstruction,
    HostCall,
    Launch,
    RuntimeProgram,
    Slot,
)
from functrax.backends.runtime.executor import Frame, LoopRun, ProgramRun, workspace_of

#: The first instruction of a part, and the one after its last.
Part = tuple[int, int]
#: Where a constant is.
Constant = Callable[[Slot], int]
#: Conditions count as memory beyond all addresses, so the order of those who set them and of those
#: who decide by them follows as any other.
_CONDITIONS: Final = 1 << 63
_CONDITION_BYTES: Final = 8


class LoopCopies(NamedTuple):
    """Which loops copy their carry back after each step.

    Args:
      node_bytes: how many bytes a GPU copies while it begins a copy.
      most_bytes: how many it copies, these among them, in the time of what a branch costs a step.
    """

    node_bytes: int
    most_bytes: int

    def pay(self, sizes: Sequence[int]) -> bool:
        """Whether copies of so many bytes each pay."""
        return sum(sizes) + len(sizes) * self.node_bytes <= self.most_bytes


class SettingWork(NamedTuple):
    """How a condition follows from a cell.

    Args:
      kernel: the number of the kernel that sets it (``conditions.py``).
      last: the largest number that it may be.
    """

    kernel: int
    last: int


class DecidingWork(NamedTuple):
    """What is done by a condition.

    Args:
      loops: whether a body runs as long as the condition is not zero, or the one whose number it
        is.
      bodies: their numbers.
    """

    loops: bool
    bodies: range


class GraphWork(NamedTuple):
    """What one node does: a launch, or a copy of so many bytes, or what has to do with a condition.

    Args:
      body: the number of the body that it is in; 0 is the part itself.
      places: the addresses of a launch's arrays, a copy's target and source, or a cell.
      nbytes: of a copy, or of a cell.
      launch: the launch.
      slots: of its program.
      condition: the number of the condition that is set, or decides; -1 if there is none.
      rule: how it is set, or what it decides.
    """

    body: int
    places: tuple[int, ...]
    nbytes: int = 0
    launch: Launch | None = None
    slots: Sequence[Slot] = ()
    condition: int = -1
    rule: SettingWork | DecidingWork | None = None

    def like(self, other: GraphWork) -> bool:
        """Whether it is the same but for addresses."""
        mine = self.body, self.nbytes, self.condition, self.rule
        return self.launch is other.launch and mine == (
            other.body,
            other.nbytes,
            other.condition,
            other.rule,
        )

    @property
    def bodies(self) -> range:
        """The bodies that it decides between."""
        return self.rule.bodies if isinstance(self.rule, DecidingWork) else range(0)

    def accesses(self) -> list[BytesAccess]:
        """What it reads and writes itself."""
        if self.rule is not None:
            sets = isinstance(self.rule, SettingWork)
            begin = _CONDITIONS + _CONDITION_BYTES * self.condition
            cells = [BytesAccess(x, x + self.nbytes, False) for x in self.places]
            return [*cells, BytesAccess(begin, begin + _CONDITION_BYTES, sets)]
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


def order_of_works(
    works: Sequence[GraphWork], shared: Sequence[SharedPlace]
) -> list[tuple[int, ...]]:
    """For each work those of the same body that it comes after, the latest first."""
    return order_in_bodies([NodeMemory(x.accesses(), x.body, x.bodies) for x in works], shared)


class _OpenLoop(NamedTuple):
    """A loop whose body is being written down.

    Args:
      cell: where its test leaves whether it goes on.
      condition: of the loop.
      outer: the body around it.
      body: its own.
      twice: whether the second step is being written down.
    """

    cell: int
    condition: int
    outer: int
    body: int
    twice: bool = False


class GraphRecording(ProgramRun):
    """A run that writes down what is to be done.

    Args:
      constant: tells where constants are.
      program: whose part it is.
      copies: which loops copy their carry.

    Attributes:
      works: what is to be done.
    """

    __slots__ = (
        "_body",
        "_conditions",
        "_constant",
        "_copies",
        "_count",
        "_loops",
        "_slots",
        "works",
    )

    decides_later = True

    def __init__(self, constant: Constant, program: RuntimeProgram, copies: LoopCopies) -> None:
        super().__init__(None, program, None, None)
        self._constant, self._copies = constant, copies
        self._slots: Sequence[Slot] = program.slots
        self._body = self._conditions = 0
        self._count = 1  # of bodies
        self._loops: list[_OpenLoop] = []
        self.works: list[GraphWork] = []

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
            self.works.append(GraphWork(self._body, (target, source), nbytes))

    def launches(self, run: Sequence[Any], frame: Frame) -> None:
        for x in run:
            if x.units:
                places = tuple(launch_places(x, frame))
                self.works.append(GraphWork(self._body, places, 0, x, self._slots))

    def goes_on(self, cell: int, loop: LoopRun) -> bool:
        """Whether another step is to be written down: one, or two."""
        bools = np.dtype(np.bool_)
        open_ = self._loops[-1] if self._loops and self._loops[-1].cell == cell else None
        if open_ is None:
            condition = self._set(None, cell, bools, 1)
            (body,) = self._decide(condition, 1, loops=True)
            self._loops.append(_OpenLoop(cell, condition, self._body, body))
            self._body = body
            return True
        if not open_.twice and not self._copies.pay(loop.moved()):
            ends, goes_on = self._decide(self._set(None, cell, bools, 1), 2, loops=False)
            self._body = ends
            loop.copy_back()
            self._body = goes_on
            self._loops[-1] = open_._replace(twice=True)
            return True
        if not open_.twice:
            loop.copy_back()
        self._body = open_.body
        self._set(open_.condition, cell, bools, 1)
        self._body = open_.outer
        self._loops.pop()
        loop.came_back()
        return False

    def _cond(self, x: CondInstruction, slots: Sequence[Slot], frame: Frame, place: int) -> None:
        outer, count = self._body, len(x.branches)
        condition = self._set(None, frame[x.index], slots[x.index].dtype, count - 1)
        for n, body in enumerate(self._decide(condition, count, loops=False)):
            self._body = body
            self._branch(x, n, frame, place)
        self._body = outer

    def _set(self, condition: int | None, cell: int, dtype: np.dtype[Any], last: int) -> int:
        """Set a condition, or a new one; its number."""
        if condition is None:
            condition = self._conditions
            self._conditions += 1
        kernel = setting_kernel(dtype.itemsize, dtype.kind in "bu")
        rule = SettingWork(kernel, last)
        self.works.append(
            GraphWork(self._body, (cell,), dtype.itemsize, condition=condition, rule=rule)
        )
        return condition

    def _decide(self, condition: int, count: int, *, loops: bool) -> range:
        """Decide by a condition; the new bodies."""
        bodies = range(self._count, self._count + count)
        self._count += count
        rule = DecidingWork(loops, bodies)
        self.works.append(GraphWork(self._body, (), condition=condition, rule=rule))
        return bodies

    def host_call(self, x: HostCall, slots: Sequence[Slot], frame: Frame) -> None:
        raise AssertionError("a function of the host is in a graph")


def launch_places(x: Launch, frame: Frame) -> list[int]:
    """The addresses of a launch's arrays."""
    places = [frame[s] for s in (*x.inputs, *x.outputs)]
    if x.begins:
        places = [place + begin for place, begin in zip(places, x.begins, strict=True)]
    return places
