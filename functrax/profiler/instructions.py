"""What the instructions of recorded programs are: names, the user's lines, bytes and operations.

Start at :func:`instruction_events`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from functrax.backends.cache.program_cache import source_of
from functrax.backends.compilation.compiler import record_of
from functrax.backends.cpu import CpuDevice
from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    Instruction,
    Launch,
    RuntimeProgram,
    all_programs,
    subprograms,
)
from functrax.core.events.recorder import Recording
from functrax.core.records import field, record, replace
from functrax.explanation.facts import explanation_of
from functrax.explanation.record import Explanation, KernelFacts


@record
class InstructionFacts:
    """What is known about an instruction.

    Args:
      kind: ``"kernel"``, ``"call"`` of a Python function, ``"copy"``, or ``"loop"`` and
        ``"branch"``, which contain others.
      name: of the kernel or the function.
      lines: the user's lines that it computes.
      nbytes: that one run reads and writes, predicted; 0 if that is not known.
      flops: operations of one run, predicted.
      completes: whether it is the last of the instructions that are one kernel together.
      graph: the CUDA graph that it is a part of while nobody records; empty if there is none.
      explanation: the program that it is in, if the compiler's record of it is there.
      explained: the kernel of that program.
    """

    kind: str
    name: str
    lines: tuple[str, ...] = ()
    nbytes: int = 0
    flops: int = 0
    completes: bool = True
    graph: str = ""
    explanation: Explanation | None = field(default=None, repr=False, compare=False)
    explained: KernelFacts | None = field(default=None, repr=False, compare=False)


class InstructionEvent(NamedTuple):
    """An instruction that ran: what it is, when it began and ended, and in which thread."""

    facts: InstructionFacts
    begin: int
    end: int
    thread: int


def instruction_events(recording: Recording) -> Iterator[InstructionEvent]:
    """The instructions of all runs of a recording."""
    known: dict[int, dict[tuple[int, int], InstructionFacts]] = {}
    for run in recording.runs:
        facts = known.get(id(run.program))
        if facts is None:
            facts = known[id(run.program)] = facts_of(run.program)
        for number, place, begin, end in run.events:
            yield InstructionEvent(facts[number, place], begin, end, run.thread)


def facts_of(program: RuntimeProgram) -> dict[tuple[int, int], InstructionFacts]:
    """By the number of the program inside ``program``, and the number of the instruction."""
    known: dict[int, InstructionFacts] = {}
    programs = all_programs(_with_record(program))
    for part in programs:
        known |= _compiled(part)
    graphs = _graphs(programs[0])
    found = {}
    for n, part in enumerate(programs):
        for k, x in enumerate(part.instructions):
            facts = known.get(id(x)) or _bare(x)
            found[n, k] = replace(facts, graph=graphs[x]) if x in graphs else facts
    return found


def _graphs(program: RuntimeProgram) -> dict[Instruction, str]:
    """What to say of instructions that are parts of CUDA graphs."""
    compiled = record_of(program)
    if compiled is None or not compiled.target.warp:
        return {}
    from functrax.backends.cuda import choice
    from functrax.backends.cuda.graphs import gpu_decides, planned_graphs

    planned = planned_graphs(program, compiled.target, gpu_decides(choice.gpu().table))
    return {
        x: f"number {n}, of {graph.nodes} nodes, while nobody records"
        for n, graph in enumerate(planned)
        for x in graph.instructions
    }


def _with_record(program: RuntimeProgram) -> RuntimeProgram:
    """The program as the compiler makes it, if it was found on disk without its record."""
    jaxpr = source_of(program)
    if jaxpr is None:
        return program
    again = CpuDevice().compiled(jaxpr).program
    same = _names(again) == _names(program)  # else options have changed meanwhile
    return again if same else program


def _names(program: RuntimeProgram) -> list[list[str]]:
    return [[_bare(x).name for x in part.instructions] for part in all_programs(program)]


def _compiled(program: RuntimeProgram) -> dict[int, InstructionFacts]:
    """What the compiler says of the instructions of a program that it made."""
    compiled = record_of(program)
    if compiled is None:
        return {}
    found = {}
    explanation = explanation_of(program.name, compiled, 0.0)
    for kernel in explanation.kernels:
        facts = InstructionFacts(
            kernel.kind,
            kernel.name,
            tuple(map(str, kernel.lines)),
            kernel.bytes_read + kernel.bytes_written,
            kernel.flops + kernel.transcendentals,
            explanation=explanation,
            explained=kernel,
        )
        # The figures are those of all its instructions together: the last one bears them.
        for x in kernel.instructions[:-1]:
            found[id(x)] = replace(facts, nbytes=0, flops=0, completes=False)
        for x in kernel.instructions[-1:]:
            found[id(x)] = facts
    return found


def _bare(x: Instruction) -> InstructionFacts:
    name: Any = getattr(x, "name", type(x).__name__.removesuffix("Instruction").lower())
    if isinstance(x, Launch):
        return InstructionFacts("kernel", name)
    if subprograms(x):
        return InstructionFacts("branch" if isinstance(x, CondInstruction) else "loop", name)
    return InstructionFacts("copy" if isinstance(x, CopyInstruction) else "call", name)
