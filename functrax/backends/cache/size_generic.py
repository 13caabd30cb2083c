"""One compilation for programs that differ in sizes alone.

A *family* is what such programs have in common (``backends/cache/program_numbers.py``).  When a
third member of one is compiled, the whole compiler runs on a program whose numbers are recorded
ones (``core/types/symbolic_sizes.py``): those that were not the same in all members.  What comes
out is a :class:`ProgramTemplate`, a Program in which numbers follow from those of a member.  Later
members for which all answers are the same are made from it: no pass runs, nothing is lowered or
written.

A plan is used when it has made of a member what that was compiled to by itself; else it is thrown
away.

Start at :class:`Families`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from operator import itemgetter
from typing import Any, Final

from functrax.backends.cache import MEMBERS
from functrax.backends.cache.program_cache import same_programs
from functrax.backends.cache.program_numbers import Flat, NotGenericError, Rebuilt
from functrax.backends.compile_log import CompileLog, logged
from functrax.backends.executables.program import (
    CopyInstruction,
    Instruction,
    Launch,
    RuntimeProgram,
    Slot,
)
from functrax.backends.internal_errors import report
from functrax.core.ir.jaxpr import Jaxpr, Literal
from functrax.core.options.config import compile_context
from functrax.core.process.locks import new_lock
from functrax.core.records import record
from functrax.core.tracing.primitive import MAX_REMEMBERED
from functrax.core.types.symbolic_sizes import Replay, SizeRecording, identity

#: Of a family so many members that no plan holds for are remembered, and so many plans may be made
#: without a use; those that held last are kept, four times as many.
REMEMBERED: Final = 8


class _ByChanceError(NotGenericError):
    """A program with a size that is like another one, which in others it is not."""


# ---- plans --------------------------------------------------------------------------------------


@record(eq=False)
class ProgramTemplate:
    """A compiled program whose numbers follow from those of a member.

    Args:
      name: of the program.
      fixed: gives of a member's numbers those that are the same in all.
      expected: what they are.
      first: gives of the others one for each recorded number.
      others: gives all of the others.
      which: for each of those which recorded number it is.
      replay: from the recorded numbers to the shapes of slots, and to the numbers of launches.
      slots: the slots; their shapes are those that the plan was made with.
      instructions: what it does; launches with the numbers that it was made with.
      outputs: the slot of each result.
      pins: how many numbers it holds for one value of alone.
      log: of its making.
    """

    name: str
    fixed: Callable[[Any], tuple[Any, ...]]
    expected: tuple[Any, ...]
    first: Callable[[Any], tuple[Any, ...]]
    others: Callable[[Any], tuple[Any, ...]]
    which: Callable[[Any], tuple[Any, ...]]
    replay: Replay
    slots: tuple[Slot, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    pins: int
    log: CompileLog

    def program(self, numbers: Sequence[Any]) -> RuntimeProgram | None:
        """The program of a member; None if the plan does not hold for it."""
        from functrax.backends.executables.program_builder import ProgramBuilder

        if self.fixed(numbers) != self.expected:
            return None
        given = self.first(numbers)
        if self.others(numbers) != self.which(given):
            return None
        try:
            values = self.replay(*map(_value, given))
        except (ArithmeticError, ValueError):  # of what is asked only where it has an answer
            return None
        if values is None:
            return None
        count = len(self.slots)
        slots = [
            Slot(s.kind, shape, s.dtype, s.number, s.value)
            for s, shape in zip(self.slots, values[:count])
        ]
        instructions = [
            _launch(x, *found) if isinstance(x, Launch) else x
            for x, found in zip(self.instructions, values[count:], strict=True)
        ]
        return ProgramBuilder.of(self.name, slots, instructions).finished(self.outputs)


def _launch(
    x: Launch, params: tuple[int, ...], units: int, cost: int, begins: tuple[int, ...]
) -> Launch:
    return Launch(
        x.function, x.name, x.inputs, x.outputs, params, units, cost, x.grain, x.aliases, x.owner,
        begins,
    )  # fmt: skip


def _getter(places: Sequence[int]) -> Callable[[Any], tuple[Any, ...]]:
    """Gives the elements at some places, as a tuple."""
    if not places:
        return lambda x: ()
    if len(places) == 1:
        (place,) = places
        return lambda x: (x[place],)
    return itemgetter(*places)


def make_plan(jaxpr: Jaxpr, samples: Sequence[Sequence[Any]]) -> ProgramTemplate:
    """Compile the last of some members, so that others need not be.

    Args:
      jaxpr: its program.
      samples: the numbers of all members, its own last.

    Raises:
      NotGenericError: the program has parts that are not kernels, or some of its numbers are equal
        by chance.
    """
    from functrax.backends.compilation.compiler import assembled_parts

    numbers = samples[-1]
    columns = list(zip(*samples, strict=True))
    fixed = [n for n, column in enumerate(columns) if _all_equal(column)]
    varying = sorted(set(range(len(columns))) - set(fixed))
    which: dict[Any, int] = {}
    first: list[int] = []
    for n in varying:
        if which.setdefault(columns[n], len(which)) == len(first):
            first.append(n)
    values = [_value(numbers[n]) for n in first]
    others = {identity(_value(numbers[n])) for n in fixed}
    if any(identity(x) in others for x in values):
        raise _ByChanceError
    recording = SizeRecording(values)
    mixed = list(numbers)
    for n in varying:
        mixed[n] = recording.given[which[columns[n]]]
    try:
        recorded = Rebuilt(mixed).program(jaxpr)
        with logged(CompileLog()) as log:
            slots, instructions, outputs = assembled_parts(recorded)
        wanted = [*[s.shape for s in slots], *map(_numbers_of, instructions)]
        replay = recording.replay(wanted, list(others))
    finally:
        recording.close()
    return ProgramTemplate(
        jaxpr.name or "program",
        _getter(fixed),
        tuple([numbers[n] for n in fixed]),
        _getter(first),
        _getter(varying),
        _getter([which[columns[n]] for n in varying]),
        replay,
        tuple(slots),
        tuple(instructions),
        tuple(outputs),
        recording.pins,
        log,
    )


def _value(x: Any) -> Any:
    return x.val if type(x) is Literal else x


def _all_equal(column: Sequence[Any]) -> bool:
    return all(x is column[0] or x == column[0] for x in column)


def _numbers_of(x: Instruction) -> Any:
    if isinstance(x, Launch):
        assert x.grain == 1
        return x.params, x.units, x.cost, x.begins
    if isinstance(x, CopyInstruction):
        return None
    raise NotGenericError("a program with a loop, or with a call of Python")


# ---- families -----------------------------------------------------------------------------------


class _Family:
    """Programs that differ in numbers alone.

    Attributes:
      members: the numbers of those that were compiled by themselves, and their programs.
      plans: the last one that held first.
      tries: how many more plans may be made; each use of one earns half a plan, for to make one
        takes about two compilations.
    """

    def __init__(self) -> None:
        self.members: list[tuple[Sequence[Any], weakref.ref[RuntimeProgram]]] = []
        self.plans: list[ProgramTemplate] = []
        self.tries: float = REMEMBERED

    def confirmed(self, plan: ProgramTemplate) -> bool | None:
        """Whether a plan makes of a member what that was compiled to; None if it holds for none."""
        for numbers, program in reversed(self.members):
            compiled = program()
            made = None if compiled is None else plan.program(numbers)
            if made is not None and compiled is not None:
                return same_programs(made, compiled)
        return None


class Families:
    """The families of the programs that this process compiled."""

    def __init__(self) -> None:
        self._families: dict[Hashable, _Family] = {}
        self._equations = 0  # of one program of each family
        self._lock = new_lock()

    def member(self, jaxpr: Jaxpr) -> Member | None:
        """A program as a member of its family; None if it cannot be one."""
        if not jaxpr.eqns:
            return None
        try:
            flat = Flat(jaxpr)
        except NotGenericError:
            return None
        key = (compile_context(), *flat.words)
        with self._lock:
            family = self._families.get(key)
            if family is None:
                if self._equations > MAX_REMEMBERED:
                    self._families.clear()
                    self._equations = 0
                family = self._families[key] = _Family()
                self._equations += len(jaxpr.eqns)
        return Member(jaxpr, flat.numbers, family)


class Member:
    """A program of a family."""

    def __init__(self, jaxpr: Jaxpr, numbers: Sequence[Any], family: _Family) -> None:
        self.jaxpr = jaxpr
        self.numbers = numbers
        self._family = family

    def planned(self) -> RuntimeProgram | None:
        """What a plan makes of it, if one holds for it."""
        plans = self._family.plans
        for plan in plans:
            program = plan.program(self.numbers)
            if program is not None:
                family = self._family
                family.tries = min(family.tries + 0.5, REMEMBERED)
                if plan is not plans[0]:
                    family.plans = [plan, *[p for p in plans if p is not plan]]
                return program
        return None

    def add(self, program: RuntimeProgram) -> None:
        """Remember what it was compiled to by itself."""
        earlier = self._family.members[1 - REMEMBERED :]
        self._family.members = [*earlier, (self.numbers, weakref.ref(program))]

    def plan(self, compiled: Callable[[], RuntimeProgram]) -> RuntimeProgram | None:
        """Make a plan that holds for it, if that is worth it and possible; what that makes of it.

        Args:
          compiled: compiles it, where there is nothing else to compare the plan with.
        """
        family = self._family
        if len(family.members) < MEMBERS - 1 or family.tries < 1:
            return None
        samples = [*[numbers for numbers, _ in family.members], self.numbers]
        try:
            plan = make_plan(self.jaxpr, samples)
        except _ByChanceError:
            return None
        except NotGenericError:  # which programs of other sizes may be
            family.tries /= 2
            return None
        except Exception as error:  # a part of the compiler does not take recorded numbers
            report(error)
            family.tries = 0
            return None
        # One that holds for one value of a number alone is of little use.
        family.tries = family.tries - 1 if plan.pins == 0 else family.tries / 2
        program = plan.program(self.numbers)
        confirmed = family.confirmed(plan)
        if confirmed is None and program is not None:
            confirmed = same_programs(program, compiled())
        if program is None or not confirmed:
            return None
        family.plans = [plan, *family.plans][: 4 * REMEMBERED]
        self.jaxpr.memo["plan", compile_context()] = plan.log  # what it took, for cache_info()
        return program
