"""The rules of compiled programs.

A :class:`~functrax.backends.executables.program.RuntimeProgram` enters; nothing leaves, or a
``VerificationError`` that says which instruction breaks which rule.  The executors trust programs:
a wrong one would read or write memory that is not its own.

- Instructions read slots that have been written (inputs and constants have), and write outputs and
  temporaries.
- Of the launches of a run none writes what another one mentions.
- Programs inside an instruction have the shapes and dtypes of its slots.
- Where a program declares that an output may lie in the memory of an input, nothing reads the input
  after that output is first written, and neither is part of another such pair.  A copy of the input
  to the output does not count as a write: in the same memory it does nothing.

Start at :func:`check_program`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    WhileInstruction,
    instruction_text,
    shared_by_branches,
)
from functrax.backends.executables.uses import Uses
from functrax.core.errors.typed import VerificationError
from functrax.core.types.aval import ShapedArray

#: A shape and a dtype.
Type: TypeAlias = tuple[tuple[int, ...], Any]
_BOOL = ShapedArray((), bool).dtype


def check_program(program: RuntimeProgram) -> None:
    """Check all the rules; the programs inside it were checked when they were built.

    Raises:
      VerificationError: if one is broken.
    """
    _Rules(program).check()


def may_share(x: Instruction, output: int, source: int) -> bool:
    """Whether an instruction may write slot ``output`` in the memory of slot ``source``."""
    if source not in x.inputs or isinstance(x, CopyInstruction):
        return True
    if isinstance(x, HostCall):
        return not x.into
    if x.inputs.count(source) > 1:
        return False
    j, i = x.outputs.index(output), x.inputs.index(source)
    match x:
        case Launch():
            return (j, i) in x.aliases
        case CondInstruction():
            return (j, i - 1) in shared_by_branches(x)
    return j < len(x.carry) and x.carry[j] == source


class _Rules:
    """The rules of one program."""

    def __init__(self, program: RuntimeProgram) -> None:
        self.program, self.slots = program, program.slots

    def wrong(self, what: str, got: object, fix: str) -> NoReturn:
        """Raise the error; an instruction is shown as its text."""
        text = instruction_text(got, self.slots) if isinstance(got, Instruction) else str(got)
        raise VerificationError(f"program {self.program.name}: {what}", got=text, fix=fix)

    def check(self) -> None:
        """Check the instructions, the runs, the results and the aliases."""
        program, slots = self.program, self.slots
        written = {n for n, s in enumerate(slots) if s.kind in ("input", "const")}
        for x in program.instructions:
            for slot in x.inputs:
                if slot not in written:
                    self.wrong(
                        f"{slots[slot].name} is read before it is written", x, "write it first"
                    )
            for slot in x.outputs:
                if slots[slot].kind in ("input", "const"):
                    fix = "write a temporary or an output"
                    self.wrong(f"{slots[slot].name} is not writable", x, fix)
            self.types_of(x)
            written.update(x.outputs)
        self.runs()
        for slot in program.outputs:
            if slots[slot].kind == "temp" or slot not in written:
                fix = "a result is an input, a constant, or an output that an instruction writes"
                self.wrong("a result has no value", slots[slot], fix)
        for numbers in zip(*program.aliases):
            if len(set(numbers)) < len(numbers):
                self.wrong("memory is shared by three", program.aliases, "pairs")
        if program.aliases:
            uses = Uses(program.instructions, program.runs)
            for output, source in program.aliases:
                self.alias(program.outputs[output], program.inputs[source], uses)

    def types_of(self, x: Instruction) -> None:
        """Check the shapes and dtypes of what an instruction reads and writes."""
        slots = self.slots

        def types(numbers: Sequence[int]) -> list[Type]:
            return [(slots[s].shape, slots[s].dtype) for s in numbers]

        match x:
            case Launch():
                self.launch(x)
            case CopyInstruction():
                source, target = slots[x.source], slots[x.target]
                if source.nbytes != target.nbytes:
                    got = f"{source} -> {target}"
                    self.wrong("a copy between sizes", got, "slots of as many bytes")
            case CondInstruction():
                index = slots[x.index]
                if index.shape or index.dtype.kind not in "biu":
                    self.wrong("an index has a wrong type", index, "an integer of rank 0")
                if not x.branches:
                    self.wrong("a cond without branches", "0 branches", "at least one")
                for branch in x.branches:
                    self.inner(x, branch, types(x.operands), types(x.outputs))
            case WhileInstruction():
                carry = types(x.carry)
                self.inner(x, x.cond, types(x.cond_consts) + carry, [((), _BOOL)])
                self.inner(x, x.body, types(x.body_consts) + carry, carry)
                self.same(x, carry, types(x.outputs))
            case ScanInstruction():
                carry, stacked = types(x.carry), types(x.outputs)[len(x.carry) :]
                rows = []
                for shape, dtype in (*types(x.xs), *stacked):
                    if shape[:1] != (x.length,):
                        got = f"{list(shape)} in a scan of length {x.length}"
                        fix = "the length in front"
                        self.wrong("a scan over arrays of another length", got, fix)
                    rows.append((shape[1:], dtype))
                inputs = types(x.consts) + carry + rows[: len(x.xs)]
                self.inner(x, x.body, inputs, carry + rows[len(x.xs) :])
                self.same(x, carry, types(x.outputs)[: len(carry)])

    def launch(self, x: Launch) -> None:
        """Check the numbers of a launch."""
        if x.units < 0 or x.grain < 1 or x.function == 0:
            got = f"units={x.units} grain={x.grain} function={x.function}"
            self.wrong(f"launch {x.name} has a wrong extent", got, "units >= 0, grain >= 1")
        if x.begins and (len(x.begins) != len(x.inputs) + len(x.outputs) or x.aliases):
            got = f"begins={x.begins} aliases={x.aliases}"
            self.wrong(f"launch {x.name} has wrong begins", got, "one of each slot, no aliases")
        for output, source in x.aliases:
            if not (0 <= output < len(x.outputs) and 0 <= source < len(x.inputs)):
                got = f"alias ({output}, {source})"
                self.wrong(f"launch {x.name} has no such slots", got, "(output, input)")

    def inner(
        self, x: Instruction, inner: RuntimeProgram, inputs: list[Type], outputs: list[Type]
    ) -> None:
        """Check that a program inside an instruction takes and gives what it should."""
        if not inner.planned:
            self.wrong("an inner program has no plan", inner.name, "plan_memory")
        for numbers, wanted in ((inner.inputs, inputs), (inner.outputs, outputs)):
            self.same(x, [(inner.slots[s].shape, inner.slots[s].dtype) for s in numbers], wanted)

    def same(self, x: Instruction, left: list[Type], right: list[Type]) -> None:
        """Check that types are equal."""
        if left != right:
            got = f"{instruction_text(x, self.slots)}\n{_text(left)} and {_text(right)}"
            self.wrong("types differ", got, "equal shapes and dtypes")

    def runs(self) -> None:
        """Check that of the launches of a run none needs another."""
        program = self.program
        place = list(range(len(self.slots)))  # an output may lie in the memory of an input
        for output, source in program.aliases:
            place[program.outputs[output]] = program.inputs[source]
        if sum(program.runs) != len(program.instructions) or 0 in program.runs:
            got = f"{program.runs} of {len(program.instructions)}"
            self.wrong("runs are not the instructions", got, "each instruction in one run")
        for step in program.steps:
            mentioned, written = set[int](), set[int]()
            for x in program.instructions[step.start : step.stop] if len(step) > 1 else ():
                outputs = {place[s] for s in x.outputs}
                own = {place[s] for s in x.inputs} | outputs
                if not isinstance(x, Launch) or own & written or outputs & mentioned:
                    self.wrong("a run with what needs another", x, "independent launches")
                mentioned |= own
                written |= outputs

    def alias(self, place: int, read: int, uses: Uses) -> None:
        """Check that an output may lie in the memory of an input."""
        target, source = self.slots[place], self.slots[read]
        pair = f"{target} in the memory of {source}"
        if target.kind != "output" or target.nbytes != source.nbytes:
            self.wrong("an alias needs an output as large as the input", pair, "another input")
        if read in self.program.outputs:
            self.wrong(f"{source.name} is written to, and also a result", pair, "no such alias")
        written = False
        for n in uses.mentions(place, read):
            x = self.program.instructions[n]
            if written and read in x.inputs:
                self.wrong(f"{source.name} is read after it was written to", x, "no such alias")
            same = isinstance(x, CopyInstruction) and x.source == read
            if place in x.outputs and not (written or same):
                written = True
                if not may_share(x, place, read):
                    self.wrong(f"{source.name} is written to while it is read", x, "no such alias")


def _text(types: Sequence[Type]) -> str:
    return "(" + ", ".join(ShapedArray(s, d).str_short() for s, d in types) + ")"
