"""When the slots of a program are read and written.

Instructions and the lengths of their runs enter; what leaves tells for each slot by which
instructions it is mentioned, and at which times.  The instructions of a run have one time.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.backends.executables.program import Instruction


class Uses:
    """The uses of slots.

    Args:
      instructions: of a program, in order.
      runs: how many of them, one after the other, run at once.

    Attributes:
      time: of each instruction, and of the end.
      reads: the numbers of the instructions that read a slot, by the slot.
      writes: of those that write it.
    """

    def __init__(self, instructions: Sequence[Instruction], runs: Sequence[int]) -> None:
        self.instructions = instructions
        self.time = [time for time, count in enumerate(runs) for _ in range(count)]
        self.time.append(len(runs))
        self.reads: dict[int, list[int]] = {}
        self.writes: dict[int, list[int]] = {}
        for n, x in enumerate(instructions):
            for slot in dict.fromkeys(x.inputs):
                self.reads.setdefault(slot, []).append(n)
            for slot in x.outputs:
                self.writes.setdefault(slot, []).append(n)

    def mentions(self, *slots: int) -> list[int]:
        """The instructions that read or write one of some slots, in order."""
        found = {
            n for slot in slots for uses in (self.reads, self.writes) for n in uses.get(slot, ())
        }
        return sorted(found)

    def lives(self) -> dict[int, tuple[int, int]]:
        """The first and the last time that mentions each slot."""
        lives: dict[int, tuple[int, int]] = {}
        for n, x in enumerate(self.instructions):
            time = self.time[n]
            for slot in (*x.inputs, *x.outputs):
                lives[slot] = lives[slot][0] if slot in lives else time, time
        return lives

    def last_read(self, slot: int) -> int:
        """When a slot is read for the last time; -1 if never."""
        return self.time[self.reads[slot][-1]] if slot in self.reads else -1

    def first_written(self, slot: int) -> int:
        """When it is first written."""
        return self.time[self.writes[slot][0]]
