"""Making a program step by step: slots first, then what reads and writes them.

What enters are shapes, dtypes and instructions in the order in which they run; what leaves is a
:class:`~functrax.backends.executables.program.RuntimeProgram` that has been checked and whose
memory is planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.executables.in_place import shared_results
from functrax.backends.executables.launch_runs import in_runs, slack
from functrax.backends.executables.memory_plan import plan_memory
from functrax.backends.executables.program import Aliases, Instruction, Kind, RuntimeProgram, Slot
from functrax.backends.executables.program_rules import check_program
from functrax.core.options.config import flushes_subnormals
from functrax.core.types.size_bounds import roughly


class ProgramBuilder:
    """Collects the slots and instructions of a program.

    >>> from functrax.backends.executables.program import HostCall
    >>> b = ProgramBuilder("negate")
    >>> x = b.input((3,), np.dtype(np.float32))
    >>> y = b.value((3,), np.dtype(np.float32))
    >>> b.add(HostCall(np.negative, "negative", (x,), (y,)))
    >>> print(b.build((y,)))
    program negate(i0:f32[3]) -> (o0:f32[3])
      host negative(i0) -> (o0)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._slots: list[Slot] = []
        self._counts: dict[Kind, int] = {}
        self._instructions: list[Instruction] = []
        self._runs: list[int] = []

    @classmethod
    def of(
        cls, name: str, slots: Sequence[Slot], instructions: Sequence[Instruction]
    ) -> ProgramBuilder:
        """One that has got all of a program's slots, as yet without outputs, and instructions."""
        self = cls(name)
        self._slots, self._instructions = list(slots), list(instructions)
        self._runs = [1] * len(instructions)
        return self

    @property
    def parts(self) -> tuple[tuple[Slot, ...], tuple[Instruction, ...]]:
        """The slots and the instructions so far."""
        return tuple(self._slots), tuple(self._instructions)

    def slot(self, number: int) -> Slot:
        """A slot by its number; whether a value is an output is not known yet."""
        return self._slots[number]

    def _slot(self, kind: Kind, shape: Sequence[int], dtype: Any, value: Any = None) -> int:
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        self._slots.append(Slot(kind, tuple(shape), np.dtype(dtype), number, value))
        return len(self._slots) - 1

    def input(self, shape: Sequence[int], dtype: Any) -> int:
        """The next input."""
        return self._slot("input", shape, dtype)

    def value(self, shape: Sequence[int], dtype: Any) -> int:
        """An array that instructions write: a temporary, or an output if ``build`` says so."""
        return self._slot("temp", shape, dtype)

    def const(self, value: Any) -> int:
        """A constant, which nobody writes to from now on."""
        array = np.asarray(value)
        dense = np.ascontiguousarray(array).reshape(array.shape)
        return self._slot("const", dense.shape, dense.dtype, dense)

    def add(self, instruction: Instruction) -> None:
        """The next instruction."""
        self._instructions.append(instruction)
        self._runs.append(1)

    def finished(self, outputs: Sequence[int], carry: range | None = None) -> RuntimeProgram:
        """The program with these results, its launches in runs, results in inputs' memory.

        Of a loop's carry, and of large arrays, memory that is shared comes before runs.
        """
        ends = [n for n, s in enumerate(self._slots) if s.kind == "input"], outputs
        aliases = shared_results(self._slots, self._instructions, self._runs, *ends, carry)
        first = aliases
        if carry is None:
            first = tuple(
                [x for x in aliases if roughly(self._slots[outputs[x[0]]].nbytes) >= slack()]
            )
        instructions, runs = in_runs(self._slots, self._instructions, *ends, first)
        if (instructions, runs) != (self._instructions, self._runs):
            self._instructions, self._runs = instructions, runs
            aliases = shared_results(self._slots, instructions, runs, *ends, carry)
        return self.build(outputs, aliases)

    def build(self, outputs: Sequence[int], aliases: Aliases = ()) -> RuntimeProgram:
        """The program with these results, checked, its memory planned.

        Args:
          outputs: the slot of each result; the same slot may be several results.
          aliases: (result, input) numbers which may share memory.

        Raises:
          VerificationError: if the program breaks a rule.
        """
        results = dict.fromkeys(s for s in outputs if self._slots[s].kind == "temp")
        number = {slot: tuple(outputs).index(slot) for slot in results}
        counts: dict[Kind, int] = {}
        slots: list[Slot] = []
        for n, s in enumerate(self._slots):
            kind: Kind = "output" if n in number else s.kind
            position = number.get(n, counts.get(kind, 0))
            counts[kind] = counts.get(kind, 0) + 1
            same = kind == s.kind and position == s.number
            slots.append(s if same else Slot(kind, s.shape, s.dtype, position, s.value))
        inputs = tuple(n for n, s in enumerate(slots) if s.kind == "input")
        program = RuntimeProgram(
            self.name,
            tuple(slots),
            inputs,
            tuple(outputs),
            tuple(self._instructions),
            tuple(self._runs),
            aliases,
            flushes=flushes_subnormals(),
        )
        check_program(program)
        return plan_memory(program)
