"""How a program comes to need no more memory than it may (the option ``memory_budget``).

The pass that computes values again (``passes/memory/rematerialize.py``) knows what is alive between
groups.  What groups need besides, such as packed sides of contractions, is known when their kernels
are; so the program is compiled, and the pass is given less where it came out above the budget.

Start at :func:`within_budget`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from functrax.backends.compilation.pipeline import CompiledStages, Pass, run_pipeline
from functrax.backends.executables.program import Program
from functrax.backends.passes.memory.rematerialize import alive, rematerialize

if TYPE_CHECKING:
    from functrax.backends.compilation.compiler import Assembly

#: How often the pass is given less.
_ROUNDS: Final = 4


class Candidate(NamedTuple):
    """A compiled program.

    Args:
      stages: up to its groups.
      assembly: how it was put together.
      program: what runs.
    """

    stages: CompiledStages
    assembly: Assembly
    program: Program


def within_budget(
    first: Candidate, budget: int, compiled: Callable[[CompiledStages], Candidate]
) -> Candidate:
    """A program of one stage more, which keeps to the budget if one that does is found.

    Args:
      first: the program that does not.
      budget: bytes that temporaries may take.
      compiled: compiles the last stage.
    """
    stages = first.stages
    best, target = first, alive(stages.program)
    for _ in range(_ROUNDS):
        if best.program.peak <= budget:
            break
        target = max(target - (best.program.peak - budget), 0)
        last = Pass("rematerialize", partial(rematerialize, budget=target))
        more = run_pipeline(stages.program, (last,)).stages
        spared = compiled(CompiledStages(stages.source, (*stages.stages, *more)))
        if spared.program.peak >= best.program.peak:
            break
        best = spared
    return best
