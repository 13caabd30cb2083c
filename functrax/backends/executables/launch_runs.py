"""Launches that threads share at once: a *run* of neighbours of which none needs another.

The instructions of a program enter; they leave in an order in which more launches that do not
depend on one another are neighbours, with the length of each run.  The threads get the units of all
kernels of a run together: queries, keys and values of attention are three products and one launch,
and what is too short for two threads is not when there are several of it.

An instruction moves up, over others that have nothing to do with it, to the run that is being
collected.  What it makes lives longer then, and arrays that die in a run leave their places at its
end.  So only short launches are collected, and no more of them than fit the memory that the program
needs at its peak, and a little more.

Start at :func:`in_runs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from functrax.backends.executables.library_functions import LibraryFunction
from functrax.backends.executables.program import (
    Aliases,
    CopyInstruction,
    Instruction,
    Launch,
    Slot,
)
from functrax.backends.executables.uses import Uses
from functrax.backends.machine_code.kernel_jit import LaunchCode
from functrax.backends.targets import target
from functrax.core.types.size_bounds import roughly

#: Estimated nanoseconds from which on a launch is not collected, and a run takes no more: to hand
#: work to threads, and to wait for the last one, takes some microseconds.
LONG: Final = 1_000_000
#: How far apart instructions are looked at together: for a run, and to use again what was packed.
NEAR: Final = 12


def slack() -> int:
    """Bytes of temporaries that runs may cost a program: what a cache holds beside the others.

    An array from that size on rather lies in the memory of an input than that its kernel runs with
    others.
    """
    return target().second_cache


def in_runs(
    slots: Sequence[Slot],
    instructions: Sequence[Instruction],
    inputs: Sequence[int],
    outputs: Sequence[int],
    aliases: Aliases,
) -> tuple[list[Instruction], list[int]]:
    """The instructions in an order that does the same, and the length of each run.

    Args:
      slots: of the program.
      instructions: in their order.
      inputs: the slots of its inputs.
      outputs: the slots of its results.
      aliases: (output, input) numbers which may share memory.
    """
    if sum(map(is_short, instructions)) < 2:
        return list(instructions), [1] * len(instructions)
    place = list(range(len(slots)))
    for j, i in aliases:
        place[outputs[j]] = inputs[i]
    results = set(outputs)
    nbytes = [
        roughly(x.nbytes) if x.kind == "temp" and n not in results else 0
        for n, x in enumerate(slots)
    ]
    return _Runs(instructions, place, nbytes).collect()


def is_short(x: Instruction) -> bool:
    """Whether an instruction may be collected."""
    return _short_cost(x) is not None


def _short_cost(x: Instruction) -> int | None:
    """The estimated nanoseconds of a launch that may be collected; None for all others."""
    if not isinstance(x, Launch) or x.cost >= LONG or x.grain != 1 or _of_library(x) or x.foreign:
        return None
    return x.cost


def _of_library(x: Launch) -> bool:
    """Whether a library computes it, which may have threads and locks of its own."""
    return type(x.owner) is LaunchCode and type(x.owner.kernel) is LibraryFunction


class _Runs:
    """Collects the runs of a program.  Sets of places in memory are the bits of an integer.

    Args:
      instructions: in their order.
      place: the place of each slot.
      nbytes: what each slot takes of the arena.

    Attributes:
      costs: of the instructions that may be collected, None for others.
      alive: the bytes of temporaries at each instruction, which grow as others move.
      made: the bytes of those that begin there.
    """

    def __init__(
        self, instructions: Sequence[Instruction], place: Sequence[int], nbytes: Sequence[int]
    ) -> None:
        self.instructions = instructions
        self.costs = [_short_cost(x) for x in instructions]
        self.reads = [_bits(place, x.inputs) for x in instructions]
        self.writes = [_bits(place, x.outputs) for x in instructions]
        lives = Uses(instructions, [1] * len(instructions)).lives()
        self.made, dead = [0] * len(instructions), [0] * len(instructions)
        for slot, (first, last) in lives.items():
            self.made[first] += nbytes[slot]
            dead[last] += nbytes[slot]
        self.alive: list[int] = []
        now = 0
        for n in range(len(instructions)):
            now += self.made[n]
            self.alive.append(now)
            now -= dead[n]
        self.limit = max(self.alive) + slack()

    def collect(self) -> tuple[list[Instruction], list[int]]:
        """The order and the lengths of the runs."""
        order: list[int] = []
        lengths = []
        rest = iter(range(len(self.instructions)))
        left = list(islice(rest, NEAR + 1))
        while left:
            run = self._run(left)
            order += run
            lengths.append(len(run))
            left = [n for n in left if n not in run]
            left += islice(rest, len(run))
        return [self.instructions[n] for n in order], lengths

    def _run(self, left: Sequence[int]) -> list[int]:
        """The first of some instructions, and those that run together with it."""
        first = left[0]
        run, passed = [first], dict[int, int]()  # with the bytes that are made before
        cost = self.costs[first]
        if cost is None:
            return run
        reads, writes = self.reads[first], self.writes[first]  # of all that comes before
        alive = self.alive[first]
        for n in left[1:]:
            if cost >= LONG or not isinstance(self.instructions[n], Launch | CopyInstruction):
                break
            more = self.costs[n]
            needs = self.writes[n] & (reads | writes) or self.reads[n] & writes
            reads |= self.reads[n]
            writes |= self.writes[n]
            if needs or more is None or not self._fits(n, alive, passed):
                passed[n] = 0
                continue
            run.append(n)
            cost += more
            alive += self.made[n]
            for m in passed:
                passed[m] += self.made[n]
        if cost < target().share_ns:
            return [first]
        for m, made in passed.items():
            self.alive[m] += made
        return run

    def _fits(self, n: int, alive: int, passed: dict[int, int]) -> bool:
        """Whether there is memory for what an instruction makes, if it comes before others."""
        room = self.limit - self.made[n]
        return alive <= room and all(self.alive[m] + k <= room for m, k in passed.items())


def _bits(place: Sequence[int], slots: Sequence[int]) -> int:
    found = 0
    for slot in slots:
        found |= 1 << place[slot]
    return found
