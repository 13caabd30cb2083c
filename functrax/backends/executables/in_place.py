"""Which results of a program may lie in the memory of its inputs.

A program enters that has no such pairs yet; pairs (output, input) leave, which
``backends/executables/program_rules.py`` proves.  They serve two ends: a loop updates those parts
of its carry where they are that its body declares, and a donated array's memory becomes a result's.

An input gives up its memory if nothing reads it after the output is first written, and the
instruction that writes it first does not read it either, or reads each element before it is
written.  Where a loop's body has several choices, each part of the carry stays where it is; a
temporary that turns into an output without being moved comes before a donation, which may not
happen.

Start at :func:`shared_results`.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.backends.executables.program import (
    Aliases,
    CopyInstruction,
    Instruction,
    Launch,
    Slot,
)
from functrax.backends.executables.program_rules import may_share
from functrax.backends.executables.uses import Uses


def shared_results(
    slots: Sequence[Slot],
    instructions: Sequence[Instruction],
    runs: Sequence[int],
    inputs: Sequence[int],
    outputs: Sequence[int],
    carry: range | None = None,
) -> Aliases:
    """Pairs (output, input) which may share memory, each output and each input in one at most.

    Args:
      slots: of the program.
      instructions: what it does, in order.
      runs: the lengths of runs of instructions, which run at once.
      inputs: the slots of its inputs.
      outputs: the slots of its results.
      carry: of a loop's body the numbers of the inputs that are its carry, which its first results
        replace: only they are paired.  None for any pairs.
    """
    uses = _Uses(slots, instructions, runs, outputs)
    pairs: dict[int, int] = {}  # input -> output
    own = {s: n for n, s in reversed(list(enumerate(outputs))) if slots[s].kind == "temp"}
    if carry is not None:
        for n, i in enumerate(carry):
            if own.get(outputs[n]) == n and uses.allow(outputs[n], inputs[i]):
                pairs[i] = n
        return tuple((n, i) for i, n in pairs.items())
    number = {slot: i for i, slot in enumerate(inputs)}
    free = [slot for slot in own if not uses.takes_a_temporary(slot)]
    for slot in free:
        for source in uses.candidates(slot):
            place = number.get(source)
            if place is not None and place not in pairs and uses.allow(slot, source):
                pairs[place] = own[slot]
                break
    paired = set(pairs.values())
    rest = [slot for slot in free if own[slot] not in paired]
    for n, i in uses.dead_before(rest, [s for s in inputs if number[s] not in pairs]):
        pairs[number[i]] = own[n]
    return tuple(sorted((n, i) for i, n in pairs.items()))


class _Uses(Uses):
    """Which outputs of a program may lie in the memory of which inputs."""

    def __init__(
        self,
        slots: Sequence[Slot],
        instructions: Sequence[Instruction],
        runs: Sequence[int],
        outputs: Sequence[int],
    ) -> None:
        super().__init__(instructions, runs)
        self.slots = slots
        self.results = set(outputs)

    def _first(self, output: int, source: int) -> int:
        """The first instruction that writes an output, but for a copy of the source."""
        places = self.writes.get(output, [])
        for n in places:
            x = self.instructions[n]
            if not (isinstance(x, CopyInstruction) and x.source == source):
                return n
        return len(self.instructions)

    def allow(self, output: int, source: int) -> bool:
        """Whether an output may lie in the memory of an input."""
        if self.slots[output].nbytes != self.slots[source].nbytes or source in self.results:
            return False
        first = self._first(output, source)
        last = self.last_read(source)
        if last != self.time[first]:
            return last < self.time[first]
        if first == len(self.instructions):
            return True
        alone = all(n == first or self.time[n] < last for n in self.reads[source])
        return alone and may_share(self.instructions[first], output, source)

    def candidates(self, output: int) -> list[int]:
        """What the first instructions that write an output may write over."""
        found = []
        for n in self.writes.get(output, [])[:2]:
            x = self.instructions[n]
            if isinstance(x, Launch):
                found += [x.inputs[i] for j, i in x.aliases if x.outputs[j] == output]
            else:
                found += x.inputs
        return found

    def takes_a_temporary(self, output: int) -> bool:
        """Whether a temporary may become an output without being moved."""
        for source in self.candidates(output):
            first = self.first_written(output)
            if self.slots[source].kind == "temp" and self.last_read(source) == first:
                return True
        return False

    def dead_before(self, outputs: list[int], inputs: list[int]) -> list[tuple[int, int]]:
        """Pairs of outputs and inputs of one size that are not needed when the output is made."""
        dead: dict[int, list[int]] = {}
        for source in sorted(inputs, key=self.last_read, reverse=True):
            if source not in self.results:
                dead.setdefault(self.slots[source].nbytes, []).append(source)
        pairs = []
        for output in sorted(outputs, key=self.first_written):
            same = dead.get(self.slots[output].nbytes)
            if same and self.last_read(same[-1]) < self.first_written(output):
                pairs.append((output, same.pop()))
        return pairs
