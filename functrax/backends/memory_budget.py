"""How a program comes to need no more memory than it may (the option ``memory_budget``).

The pass that computes values again (``passes/spare.py``) knows what is alive between groups.  What
groups need besides, such as packed sides of contractions, is known when their kernels are; so the
program is compiled, and the pass is given less where it came out above the budget.

Start at :func:`within_budget`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from functrax.backends.passes.spare import alive, spare
from functrax.backends.pipeline import CompiledStages, Pass, run_pipeline

#: How often the pass is given less.
_ROUNDS: Final = 4


def within_budget(
    stages: CompiledStages, budget: int, peak_of: Callable[[CompiledStages], int]
) -> CompiledStages:
    """The stages with one more, after which the program keeps to the budget if that is found.

    Args:
      stages: up to the groups.
      budget: bytes that temporaries may take.
      peak_of: how many they take once the program is compiled.
    """
    best, peak, target = stages, peak_of(stages), alive(stages.program)
    for _ in range(_ROUNDS):
        if peak <= budget:
            break
        target = max(target - (peak - budget), 0)
        last = Pass("spare", partial(spare, budget=target))
        more = run_pipeline(stages.program, (last,)).stages
        spared = CompiledStages(stages.source, (*stages.stages, *more))
        found = peak_of(spared)
        if found >= peak:
            break
        best, peak = spared, found
    return best
