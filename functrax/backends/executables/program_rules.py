"""The rules of compiled programs.

A :class:`~functrax.backends.executables.program.Program` enters; nothing leaves, or a
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
    Cond,
    Copy,
    HostCall,
    Instruction,
    Launch,
    Program,
    Scan,
    While,
    instruction_text,
    shared_by_branches,
)
from functrax.core.errors.typed import VerificationError
from functrax.core.types.aval import ShapedArray

#: A shape and a dtype.
Type: TypeAlias = tuple[tuple[int, ...], Any]


def _wrong(program: Program, what: str, got: str, fix: str) -> NoReturn:
    raise VerificationError(f"program {program.name}: {what}", got=got, fix=fix)


def check_program(program: Program) -> None:
    """Check all the rules; the programs inside it were checked when they were built.

    Raises:
      VerificationError: if one is broken.
    """
    slots = program.slots
    written = {n for n, s in enumerate(slots) if s.kind in ("input", "const")}
    for x in program.instructions:
        _check_slots(program, x, written)
        _check_types(program, x)
        written.update(x.outputs)
    _check_runs(program)
    for slot in program.outputs:
        if slots[slot].kind == "temp" or slot not in written:
            text = "a result is an input, a constant, or an output that an instruction writes"
            _wrong(program, "a result has no value", str(slots[slot]), text)
    for numbers in zip(*program.aliases):
        if len(set(numbers)) < len(numbers):
            _wrong(program, "memory is shared by three", str(program.aliases), "pairs")
    uses = _uses(program) if program.aliases else {}
    for output, source in program.aliases:
        _check_alias(program, output, source, uses)


def _check_slots(program: Program, x: Instruction, written: set[int]) -> None:
    slots = program.slots
    for slot in x.inputs:
        if slot not in written:
            fix = "write it first"
            text = instruction_text(x, slots)
            _wrong(program, f"{slots[slot].name} is read before it is written", text, fix)
    for slot in x.outputs:
        if slots[slot].kind in ("input", "const"):
            fix = "write a temporary or an output"
            text = instruction_text(x, slots)
            _wrong(program, f"{slots[slot].name} is not writable", text, fix)


def _check_types(program: Program, x: Instruction) -> None:
    slots = program.slots

    def types(numbers: Sequence[int]) -> list[Type]:
        return [(slots[s].shape, slots[s].dtype) for s in numbers]

    def check(inner: Program, inputs: list[Type], outputs: list[Type]) -> None:
        _check_signature(program, x, inner, inputs, outputs)

    match x:
        case Launch():
            _check_launch(program, x)
        case Copy():
            if slots[x.source].nbytes != slots[x.target].nbytes:
                text = f"{slots[x.source]} -> {slots[x.target]}"
                _wrong(program, "a copy between sizes", text, "slots of as many bytes")
        case Cond():
            _check_scalar(program, x.index, "biu")
            if not x.branches:
                _wrong(program, "a cond without branches", "0 branches", "at least one")
            for branch in x.branches:
                check(branch, types(x.operands), types(x.outputs))
        case While():
            carry = types(x.carry)
            check(x.cond, types(x.cond_consts) + carry, [((), _BOOL)])
            check(x.body, types(x.body_consts) + carry, carry)
            _same(program, x, carry, types(x.outputs))
        case Scan():
            _check_scan(program, x, types, check)


_BOOL = ShapedArray((), bool).dtype


def _check_launch(program: Program, x: Launch) -> None:
    if x.units < 0 or x.grain < 1 or x.function == 0:
        text = f"units={x.units} grain={x.grain} function={x.function}"
        _wrong(program, f"launch {x.name} has a wrong extent", text, "units >= 0, grain >= 1")
    for output, source in x.aliases:
        if not (0 <= output < len(x.outputs) and 0 <= source < len(x.inputs)):
            text = f"alias ({output}, {source})"
            _wrong(program, f"launch {x.name} has no such slots", text, "(output, input)")


def _check_runs(program: Program) -> None:
    place = list(range(len(program.slots)))  # an output may lie in the memory of an input
    for output, source in program.aliases:
        place[program.outputs[output]] = program.inputs[source]
    steps = program.steps
    if sum(program.runs) != len(program.instructions) or 0 in program.runs:
        got = f"{program.runs} of {len(program.instructions)}"
        _wrong(program, "runs are not the instructions", got, "each instruction in one run")
    for step in steps:
        if len(step) == 1:
            continue
        mentioned, written = set[int](), set[int]()
        for n in step:
            x = program.instructions[n]
            outputs = {place[s] for s in x.outputs}
            own = {place[s] for s in x.inputs} | outputs
            if not isinstance(x, Launch) or own & written or outputs & mentioned:
                text = instruction_text(x, program.slots)
                _wrong(program, "a run with what needs another", text, "independent launches")
            mentioned |= own
            written |= outputs


def _check_scan(program: Program, x: Scan, types: Any, check: Any) -> None:
    carry, outputs = types(x.carry), types(x.outputs)
    stacked, results = types(x.xs), outputs[len(carry) :]
    for shape, _ in (*stacked, *results):
        if shape[:1] != (x.length,):
            text = f"{list(shape)} in a scan of length {x.length}"
            _wrong(program, "a scan over arrays of another length", text, "the length in front")
    elements = [(shape[1:], dtype) for shape, dtype in stacked]
    inner_results = carry + [(shape[1:], dtype) for shape, dtype in results]
    check(x.body, types(x.consts) + carry + elements, inner_results)
    _same(program, x, carry, outputs[: len(carry)])


def _check_scalar(program: Program, slot: int, kinds: str) -> None:
    s = program.slots[slot]
    if s.shape or s.dtype.kind not in kinds:
        _wrong(program, "an index has a wrong type", str(s), "an integer of rank 0")


def _text(types: Sequence[Type]) -> str:
    return "(" + ", ".join(ShapedArray(s, d).str_short() for s, d in types) + ")"


def _same(program: Program, x: Instruction, left: list[Type], right: list[Type]) -> None:
    if left != right:
        text = instruction_text(x, program.slots)
        got = f"{text}\n{_text(left)} and {_text(right)}"
        _wrong(program, "types differ", got, "equal shapes and dtypes")


def _check_signature(
    program: Program, x: Instruction, inner: Program, inputs: list[Type], outputs: list[Type]
) -> None:
    def types(numbers: Sequence[int]) -> list[Type]:
        return [(inner.slots[s].shape, inner.slots[s].dtype) for s in numbers]

    if not inner.planned:
        _wrong(program, "an inner program has no plan", inner.name, "plan_memory")
    _same(program, x, types(inner.inputs), inputs)
    _same(program, x, types(inner.outputs), outputs)


def _uses(program: Program) -> dict[int, list[int]]:
    """For each slot the numbers of the instructions that read or write it."""
    uses: dict[int, list[int]] = {}
    for n, x in enumerate(program.instructions):
        for slot in {*x.inputs, *x.outputs}:
            uses.setdefault(slot, []).append(n)
    return uses


def _check_alias(program: Program, output: int, source: int, uses: dict[int, list[int]]) -> None:
    target, read = program.slots[program.outputs[output]], program.inputs[source]
    name = program.slots[read].name
    pair = f"{target} in the memory of {program.slots[read]}"
    if target.kind != "output" or target.nbytes != program.slots[read].nbytes:
        _wrong(program, "an alias needs an output as large as the input", pair, "another input")
    if read in program.outputs:
        _wrong(program, f"{name} is written to, and also a result", pair, "no such alias")
    place = program.outputs[output]
    written = False
    for n in sorted({*uses.get(place, ()), *uses.get(read, ())}):
        x = program.instructions[n]
        if written and read in x.inputs:
            text = instruction_text(x, program.slots)
            _wrong(program, f"{name} is read after it was written to", text, "no such alias")
        same = isinstance(x, Copy) and x.source == read
        if place not in x.outputs or written or same:
            continue
        written = True
        if not may_share(x, place, read):
            text = instruction_text(x, program.slots)
            _wrong(program, f"{name} is written to while it is read", text, "no such alias")


def may_share(x: Instruction, output: int, source: int) -> bool:
    """Whether an instruction may write slot ``output`` in the memory of slot ``source``."""
    if source not in x.inputs:
        return True
    j, i = x.outputs.index(output), x.inputs.index(source)
    alone = x.inputs.count(source) == 1
    match x:
        case Launch():
            return alone and (j, i) in x.aliases
        case HostCall():
            return not x.into
        case Copy():
            return True
        case Cond():
            return alone and (j, i - 1) in shared_by_branches(x)
    return alone and j < len(x.carry) and x.carry[j] == source
