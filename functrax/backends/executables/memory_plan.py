"""Where the temporaries of a program lie: one arena, used again as values die.

A :class:`~functrax.backends.executables.program.RuntimeProgram` enters and leaves; its temporaries
have got offsets, its instructions workspaces, and it knows how many bytes its arena takes.  In
between stand the *lives* of the temporaries: from the first to the last run of instructions that
mentions them.

1. A temporary that dies where an instruction writes its output into the same memory (an alias of a
   kernel, a carry updated in place, a copy) shares that output's memory, so that nothing is moved.
2. The rest is laid out in the order of the program: a value takes the smallest hole that holds it,
   and leaves its place after its last use.  Places are multiples of 64 bytes.

A loop keeps its second places for the carry, and the arenas of its programs, in a *workspace*,
which is a temporary that lives for one instruction.  Start at :func:`plan_memory`;
:func:`plan_text` shows the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    Slot,
    instruction_text,
    shared_by_branches,
    subprograms,
    updated_in_place,
)
from functrax.backends.executables.sized_layout import SizedLayout
from functrax.backends.executables.uses import Uses
from functrax.backends.targets import target
from functrax.core.records import record, replace
from functrax.core.types.size_bounds import roughly
from functrax.core.types.symbolic_sizes import applied, is_symbolic_dim

ALIGNMENT: Final = 64
#: Arrays larger than the first cache do not begin at the same place of a page one after the other,
#: or what is at the same index of several would compete for the same lines of the cache.
_SPREAD: Final = 5 * ALIGNMENT


def padded(nbytes: int) -> int:
    """``nbytes`` as memory is given out: a multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _room(nbytes: int) -> int:
    """What an array takes of an arena."""
    return padded(nbytes) + (_SPREAD if roughly(nbytes) > target().first_cache else 0)


@record
class Workspace:
    """The parts of an instruction's own memory.

    Args:
      nbytes: how much it is.
      carry: where the second place of each part of a loop's carry begins; -1 if it has none.
      cell: where a loop's condition or index lies; -1 if it has neither.
      arena: where the arena of the programs inside begins; only one of them runs at a time.
    """

    nbytes: int
    carry: tuple[int, ...] = ()
    cell: int = -1
    arena: int = 0


def workspace(x: Instruction, slots: Sequence[Slot]) -> Workspace:
    """What an instruction needs; the programs inside it must be planned."""
    match x:
        case Launch() | HostCall() | CopyInstruction():
            return Workspace(0)
        case CondInstruction():
            return Workspace(_largest([b.arena for b in x.branches]))
    end, places = 0, []
    for slot, in_place in zip(x.outputs, updated_in_place(x)):
        places.append(-1 if in_place else end)
        end += 0 if in_place else padded(slots[slot].nbytes)
    cell = -1 if isinstance(x, ScanInstruction) else end
    end += 0 if isinstance(x, ScanInstruction) else ALIGNMENT
    return Workspace(end + _largest([p.arena for p in subprograms(x)]), tuple(places), cell, end)


def _largest(some: Sequence[int]) -> int:
    """The largest of sizes that are not negative; 0 if there are none."""
    found = 0
    for n in some:
        both = type(found) is int and type(n) is int
        found = max(found, n) if both else applied(max, found, n)
    return found


def _are_sized(program: RuntimeProgram) -> bool:
    """Whether arrays of a program, or of those inside it, have sizes with names."""
    inner = [p.arena for x in program.instructions for p in subprograms(x)]
    return any(map(is_symbolic_dim, (*[s.nbytes for s in program.slots], *inner)))


def plan_memory(program: RuntimeProgram) -> RuntimeProgram:
    """The program with places for its temporaries; the programs inside it have theirs."""
    instructions = program.instructions
    uses = Uses(instructions, program.runs)
    lives = _lives(program, uses)
    shared = _shared_places(program, lives, uses)
    starts, ends = (tuple([list[int]() for _ in program.runs]) for _ in range(2))
    for slot, (first, last) in _merged(lives, shared).items():
        starts[first].append(slot)
        ends[last].append(slot)
    layout = SizedLayout() if _are_sized(program) else _Layout()
    offsets, workspaces, peak = {}, list[int](), 0
    for time, step in enumerate(program.steps):
        for slot in starts[time]:
            offsets[slot] = layout.take(_room(program.slots[slot].nbytes))
        sizes = [padded(workspace(instructions[n], program.slots).nbytes) for n in step]
        places = [layout.take(size) if size else -1 for size in sizes]
        workspaces += places
        peak = max(peak, roughly(layout.used))
        for place, size in zip(places, sizes):
            layout.give(place, size)
        for slot in ends[time]:
            layout.give(offsets[slot], _room(program.slots[slot].nbytes))
    slots = list(program.slots)
    for n in offsets.keys() | shared.keys():
        slots[n] = replace(slots[n], offset=offsets.get(n, -1), shares=shared.get(n, -1))
    return replace(
        program, slots=tuple(slots), workspaces=tuple(workspaces), arena=layout.end, peak=peak
    )


def _lives(program: RuntimeProgram, uses: Uses) -> dict[int, tuple[int, int]]:
    """The first and the last run that mentions each temporary."""
    return {n: life for n, life in uses.lives().items() if program.slots[n].kind == "temp"}


def _merged(
    lives: dict[int, tuple[int, int]], shared: dict[int, int]
) -> dict[int, tuple[int, int]]:
    """The lives of places in the arena: each begins with the first value that lies there."""
    merged = {slot: life for slot, life in lives.items() if slot not in shared}
    for slot, place in shared.items():
        if place in merged:
            first, last = merged[place]
            merged[place] = (min(first, lives[slot][0]), last)
    return merged


def _aliases(x: Instruction) -> list[tuple[int, int]]:
    """Slots (output, input) of an instruction which may share memory if the input dies there."""
    match x:
        case Launch():
            return [(x.outputs[j], x.inputs[i]) for j, i in x.aliases]
        case CopyInstruction():
            return [(x.target, x.source)]
        case CondInstruction():
            return [(x.outputs[j], x.operands[i]) for j, i in shared_by_branches(x)]
        case HostCall():
            return []
    carried = zip(x.outputs, x.carry, updated_in_place(x))
    return [(j, i) for j, i, in_place in carried if in_place]


def _shared_places(
    program: RuntimeProgram, lives: dict[int, tuple[int, int]], uses: Uses
) -> dict[int, int]:
    """Temporaries that lie in the memory of another slot, by the slot that has a place.

    An output that may lie in an input's memory takes nobody in: it is written too early then.
    """
    slots = program.slots
    taken = {program.outputs[j] for j, _ in program.aliases}
    shared: dict[int, int] = {}
    for n, x in reversed(list(enumerate(program.instructions))):
        for output, source in _aliases(x):
            time = uses.time[n]
            dies = source in lives and lives[source][1] == time and source not in shared
            others = [m for m in uses.mentions(source) if uses.time[m] == time and m != n]
            alone = x.inputs.count(source) == 1 and source not in x.outputs and not others
            fits = slots[source].nbytes == slots[output].nbytes and output not in taken
            if dies and alone and fits and uses.writes[output][0] == n:
                taken.add(output)
                shared[source] = shared.get(output, output)
    return shared


class _Layout:
    """Holes and used places of an arena, as in a heap."""

    def __init__(self) -> None:
        self.end = 0
        self.used = 0
        self._holes: dict[int, int] = {}  # begin -> size
        self._ends: dict[int, int] = {}  # end -> begin

    def take(self, size: int) -> int:
        """A place of this size: the smallest hole that holds it, or at the end."""
        self.used += size
        fitting = [(hole, begin) for begin, hole in self._holes.items() if hole >= size]
        if fitting and size:
            hole, begin = min(fitting)
            self._remove(begin)
            if hole > size:
                self._insert(begin + size, hole - size)
            return begin
        begin = self._ends.get(self.end, self.end)  # the last hole can grow
        if begin < self.end and size:
            self._remove(begin)
        else:
            begin = self.end
        self.end = begin + size if size else self.end
        return begin

    def give(self, begin: int, size: int) -> None:
        """A place becomes a hole, joined with the holes beside it."""
        self.used -= size
        if not size:
            return
        following = self._holes.get(begin + size)
        if following is not None:
            self._remove(begin + size)
            size += following
        before = self._ends.get(begin)
        if before is not None:
            size += self._holes[before]
            self._remove(before)
            begin = before
        self._insert(begin, size)

    def _insert(self, begin: int, size: int) -> None:
        self._holes[begin] = size
        self._ends[begin + size] = begin

    def _remove(self, begin: int) -> None:
        del self._ends[begin + self._holes.pop(begin)]


def plan_text(program: RuntimeProgram) -> str:
    """The arena over time: the temporaries, and the bytes that are alive at each instruction."""
    lives = _lives(program, Uses(program.instructions, program.runs))
    shared = {n: s.shares for n, s in enumerate(program.slots) if s.shares >= 0}
    places = _merged(lives, shared)
    lines = [f"arena {program.arena} bytes, at most {program.peak} alive"]
    for slot, (first, last) in sorted(lives.items()):
        s = program.slots[slot]
        place = f"@{s.offset}" if s.shares < 0 else f"in {program.slots[s.shares].name}"
        begin, end = program.steps[first].start, program.steps[last].stop - 1
        lines.append(f"  {s.name}: {s.nbytes} bytes {place}, instructions {begin} to {end}")
    for time, step in enumerate(program.steps):
        for n in step:
            x = program.instructions[n]
            alive = padded(workspace(x, program.slots).nbytes) + sum(
                padded(program.slots[slot].nbytes)
                for slot, (first, last) in places.items()
                if first <= time <= last
            )
            lines.append(f"  {n:>3} {alive:>12}  {instruction_text(x, program.slots)}")
    return "\n".join(lines)
