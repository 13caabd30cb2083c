"""The compiler: from a program of the language to one that the runtime runs.

What enters is a :class:`Jaxpr`; it goes through all stages (``backends/compilation/pipeline.py``).
What leaves is a :class:`CompiledProgram`, with all that is known of how it came about.

Start at :func:`compile_program`.
"""

from __future__ import annotations

import warnings
import weakref
from functools import partial

from functrax.backends.compilation.assembly import ASSEMBLE, Assembly, Work
from functrax.backends.compilation.kernel_table import KernelTable
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.compilation.provenance import Members
from functrax.backends.compilation.stage import CompiledStages, as_pass, run_stage
from functrax.backends.compile_log import CompileLog, logged
from functrax.backends.executables.program import Instruction, RuntimeProgram, Slot
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.targets import Target, target
from functrax.core.errors.source import user_line
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.options import option_text
from functrax.core.options.config import state as options
from functrax.core.records import record


@record
class CompiledProgram:
    """A compiled program and how it came about.

    Args:
      stages: what each pass made of it.
      program: what the runtime runs.
      works: how each equation is computed that is no control flow, in order.
      log: what the compiler did, and when.
      refused: groups, contractions and loops that are no kernel, with the reasons.
      target: what it was compiled for.
    """

    stages: CompiledStages
    program: RuntimeProgram
    works: tuple[Work, ...]
    log: CompileLog
    refused: tuple[tuple[Eqn, Refusal], ...]
    target: Target


def compile_program(jaxpr: Jaxpr, guarded: bool = False) -> CompiledProgram:
    """Compile a program without constants.

    Args:
      jaxpr: the program.
      guarded: whether it looks for NaNs and infinities in what its kernels compute.
    """
    with logged(CompileLog()) as log:
        stages = run_pipeline(jaxpr)
        assembly, program = run_stage(ASSEMBLE, (stages, guarded), jaxpr.name)
        budget = option_text.budget(options.memory_budget)
        if 0 < budget < program.peak:
            stages, assembly, program = _within(budget, stages, assembly, program)
            _warn_of_more(budget, program.peak, jaxpr.name)
    refused = assembly.codes.refused()
    works = tuple(assembly.works)
    compiled = CompiledProgram(stages, program, works, log, refused, target())
    _records[program] = weakref.ref(compiled)
    return compiled


def _within(
    budget: int, stages: CompiledStages, assembly: Assembly, program: RuntimeProgram
) -> tuple[CompiledStages, Assembly, RuntimeProgram]:
    """A program of one pass more, which keeps to a budget if one that does is found.

    The pass that computes values again knows what is alive between groups.  What groups need
    besides, such as packed sides of contractions, is known when their kernels are: so the pass is
    given less as long as the program needs more than it may, and that makes it need less.
    """
    from functrax.backends.passes.memory.rematerialize import alive, rematerialize

    best, allowed = (stages, assembly, program), alive(stages.program)
    while best[2].peak > budget:
        allowed = max(allowed - (best[2].peak - budget), 0)
        last = as_pass("rematerialize", partial(rematerialize, budget=allowed))
        more = run_pipeline(stages.program, (last,)).stages
        spared = CompiledStages(stages.source, (*stages.stages, *more))
        found = (spared, *run_stage(ASSEMBLE, (spared, assembly.guarded), stages.source.name))
        if found[2].peak >= best[2].peak:
            break
        best = found
    return best


def _warn_of_more(budget: int, peak: int, name: str) -> None:
    """Tell the user, at the line that calls the program, that it needs more than it may."""
    if peak <= budget:
        return
    line = user_line()
    warnings.warn_explicit(
        f"memory_budget: the temporaries of {name} take {peak:,} bytes, and the budget is "
        f"{budget:,}. Computing values again frees no more: what single operations, loops and "
        "branches need stays; functrax.checkpoint around a loop's body makes that less",
        RuntimeWarning,
        __file__ if line is None else line.file,
        0 if line is None else line.line,
    )


def assembled_parts(
    jaxpr: Jaxpr,
) -> tuple[tuple[Slot, ...], tuple[Instruction, ...], list[int]]:
    """The slots, instructions and results' slots of what a program is compiled to."""
    stages = run_pipeline(jaxpr)
    assembly = Assembly(stages.program, False, Members(stages), KernelTable(stages.program))
    outputs = assembly.write()
    return *assembly.builder.parts, outputs


_records: weakref.WeakKeyDictionary[RuntimeProgram, weakref.ref[CompiledProgram]] = (
    weakref.WeakKeyDictionary()
)


def record_of(program: RuntimeProgram) -> CompiledProgram | None:
    """What the compiler knows of a program that it made, if it is remembered."""
    found = _records.get(program)
    return None if found is None else found()
