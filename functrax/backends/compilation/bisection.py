"""Which rewrite of which pass makes a program wrong: found by halving, not by reading.

The pipeline keeps the program after each pass, and a pass can be told to stop after so many
rewrites (``backends/passes/rewrites.py``).  So the first pass after which a program is wrong is
found by trying its stages, and the first wrong rewrite by trying limits.

Start at :func:`first_wrong_rewrite`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functrax.backends.compilation.pipeline import PIPELINE, run_pipeline
from functrax.backends.compilation.stage import Stage
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.ir.printing import variable_names
from functrax.core.records import record


@record
class Culprit:
    """The first rewrite after which a program is wrong.

    Args:
      name: the pass.
      number: which of its rewrites, counted from 1; 0 if the pass is wrong without any.
      rewrite: what was done to which equation, on one line.
      before: the program before the rewrite.
      after: the program after it.
    """

    name: str
    number: int
    rewrite: str
    before: Jaxpr
    after: Jaxpr

    def __str__(self) -> str:
        limit = f"FUNCTRAX_OPT_LIMIT={self.name}={max(self.number - 1, 0)}"
        return f"{self.name}, rewrite {self.rewrite or self.number}; avoided by {limit}"


def first_wrong_rewrite(
    jaxpr: Jaxpr, is_right: Callable[[Jaxpr], bool], passes: Sequence[Stage] = PIPELINE
) -> Culprit | None:
    """Find the rewrite that makes a program wrong.

    Args:
      jaxpr: a program without constants.
      is_right: whether a program gives the right values.
      passes: the pipeline.

    Returns:
      The first wrong rewrite of the first wrong pass, or None if the last program is right.
    """
    stages = run_pipeline(jaxpr, passes)
    if is_right(stages.program):
        return None
    before = jaxpr
    for stage in stages.stages:
        if not is_right(stage.program):
            break
        before = stage.program
    step = next(p for p in passes if p.name == stage.name)

    def limited(count: int) -> Jaxpr:
        after: Jaxpr = step.run(before, Rewrites(count))
        return after

    low, high = -1, stage.rewrites  # right after low rewrites, wrong after high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_right(limited(middle)) else (low, middle)
    rewrites = Rewrites(high, remember=True)
    after = step.run(before, rewrites)
    lines = rewrites.lines(variable_names(before))
    previous = limited(high - 1) if high else before
    return Culprit(stage.name, high, lines[high - 1] if high else "", previous, after)
