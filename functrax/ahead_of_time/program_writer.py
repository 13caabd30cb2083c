"""What drivers have in common that write a program as text: where slots are, and what runs inside.

A :class:`~functrax.backends.executables.program.RuntimeProgram` says which slots share memory, and
which results are arguments; loops say where the parts of their carry are in turn.  Addresses are
:class:`~functrax.ahead_of_time.writer.BufferAddress` es.  How an instruction is written is a matter
of the language.

Start at :class:`ProgramWriter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.ahead_of_time.writer import BufferAddress
from functrax.backends.executables.memory_plan import workspace
from functrax.backends.executables.program import (
    HostCall,
    LoopInstruction,
    RuntimeProgram,
    Slot,
    first_carry,
)
from functrax.backends.executables.program_inputs import adapter

#: Addresses of a program's slots.
Frame = dict[int, BufferAddress]


class ProgramWriter(ABC):
    """Writes programs."""

    @abstractmethod
    def constant(self, value: np.ndarray[Any, Any]) -> BufferAddress:
        """Where a constant is."""

    @abstractmethod
    def write_copy(self, to: BufferAddress, source: BufferAddress, nbytes: int) -> None:
        """Copy some bytes, which are at another place or at the same."""

    @abstractmethod
    def write_steps(
        self, program: RuntimeProgram, frame: Frame, arena: BufferAddress, outermost: bool
    ) -> None:
        """The instructions of a program all of whose slots have addresses."""

    def prepared(
        self, program: RuntimeProgram, arena: BufferAddress, inputs: Sequence[BufferAddress]
    ) -> Frame:
        """The addresses of what stays where it is, and of the first inputs."""
        frame: Frame = {}
        for n, slot in enumerate(program.slots):
            if slot.value is not None:
                frame[n] = self.constant(slot.value)
            elif slot.offset >= 0:
                frame[n] = arena.plus(slot.offset)
        frame.update(zip(program.inputs, inputs))
        return frame

    def inner(
        self,
        program: RuntimeProgram,
        frame: Frame,
        arena: BufferAddress,
        to: Sequence[BufferAddress],
        outermost: bool = False,
    ) -> None:
        """Run a program whose inputs have got their addresses; its results go to some addresses."""
        slots = program.slots
        for n, slot in enumerate(program.outputs):
            if slots[slot].kind == "output" and slots[slot].number == n:
                frame[slot] = to[n]
        for n, x in enumerate(slots):
            if x.shares >= 0:
                frame[n] = frame[x.shares]
        self.write_steps(program, frame, arena, outermost)
        for n, slot in enumerate(program.outputs):
            self.copy(to[n], frame[slot], slots[slot].nbytes)

    def copy(self, to: BufferAddress, source: BufferAddress, nbytes: int) -> None:
        """Copy bytes, if there are any and they are not there already."""
        if to != source and nbytes:
            self.write_copy(to, source, nbytes)

    def known(self, x: HostCall, slots: Sequence[Slot], frame: Frame) -> None:
        """What a function of Python makes of arrays without elements and of constants."""
        inputs, outputs = (
            [np.empty(slots[n].shape, slots[n].dtype) for n in some]
            for some in (x.inputs, x.outputs)
        )
        given = [y if (z := slots[n].value) is None else z for n, y in zip(x.inputs, inputs)]
        adapter(x)(given, outputs)
        for n, value in zip(x.outputs, outputs, strict=True):
            self.copy(frame[n], self.constant(value), value.nbytes)


class LoopWriter:
    """A loop: where the parts of its carry are, and where they go next; see ``executor.py``.

    Args:
      writer: of the program around it.
      x: the loop.
      slots: of the program around it.
      frame: their addresses.
      place: where the loop's own memory begins.

    Attributes:
      arena: where the arena of the programs inside begins.
      cell: where a condition lies.
      first: where the last carry must be.
      second: the other places of the carry.
      now: where it is.
    """

    def __init__(
        self,
        writer: ProgramWriter,
        x: LoopInstruction,
        slots: Sequence[Slot],
        frame: Frame,
        place: BufferAddress,
    ) -> None:
        self._writer, self._body, self._begin = writer, x.body, first_carry(x)
        space = workspace(x, slots)
        self.sizes = [slots[s].nbytes for s in x.carry]
        self.arena = place.plus(space.arena)
        self.cell = place.plus(max(space.cell, 0))
        self._in_place = [second < 0 for second in space.carry]
        self.first = [frame[s] for s in x.outputs[: len(x.carry)]]
        self.second = [
            a if second < 0 else place.plus(second)
            for a, second in zip(self.first, space.carry, strict=True)
        ]
        self.now = [frame[s] for s in x.carry]

    def enter(self) -> None:
        """Bring what is updated in place to its place."""
        for k, in_place in enumerate(self._in_place):
            if in_place:
                self._move(k, self.first[k])

    def leave(self) -> None:
        """Bring the last carry to its place."""
        for k, place in enumerate(self.first):
            self._move(k, place)

    def _move(self, k: int, target: BufferAddress) -> None:
        self._writer.copy(target, self.now[k], self.sizes[k])
        self.now[k] = target

    def moving(self) -> list[int]:
        """The parts of the carry that are at different places in turn."""
        return [k for k, in_place in enumerate(self._in_place) if not in_place]

    def step(self, inside: Frame, targets: list[BufferAddress]) -> None:
        """A round of the body, which brings the carry, and elements of results, to some places."""
        inside.update(zip(self._body.inputs[self._begin :], self.now))
        self._writer.inner(self._body, inside, self.arena, targets)
        self.now = targets[: len(self.now)]
