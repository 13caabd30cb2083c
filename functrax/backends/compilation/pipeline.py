"""The pipeline: a program's way to the groups that become kernels, as one list of passes.

A pass takes a program without constants and returns an equal one (``backends/passes/``, one file
each).  The driver, :func:`run_pipeline`, runs the passes in order; it and nobody else names them,
times them, verifies what they made, counts and limits their rewrites, logs and dumps.  Each stage
is a program like any other: it prints, parses, and runs on the reference device.

- ``FUNCTRAX_OPT=0``: required passes only.
- ``FUNCTRAX_OPT_LIMIT=simplify=10``: a pass stops after so many rewrites.
- ``FUNCTRAX_LOG=simplify:>dce``: print the program after a pass that changed it; ``>`` adds a line
  for each rewrite, ``>>`` what the pass says besides.
- ``FUNCTRAX_DUMP=passes``: print the program after each pass (``backends/dumps.py``).
- ``FUNCTRAX_CHECK=1``: verify after each pass.

Start at :data:`PIPELINE`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from functrax.backends import compile_log
from functrax.backends.dumps import dump, dumped, show
from functrax.backends.passes.algebra.simplify import simplify
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.constant_folding import constant_folding
from functrax.backends.passes.clean.cse import cse
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.clean.multiply_adds import multiply_adds
from functrax.backends.passes.clean.pack import pack
from functrax.backends.passes.clean.widen import widen
from functrax.backends.passes.fusion.fuse import fuse
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.errors.typed import ArgumentError, FunctraxError, VerificationError
from functrax.core.ir.jaxpr import Jaxpr, subjaxprs
from functrax.core.options.config import state as options
from functrax.core.options.option_text import levels, limits
from functrax.core.prims.control import ScanLoop
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.records import record
from functrax.core.tracing.primitive import Primitive


@record
class Pass:
    """One step of the pipeline.

    Args:
      name: what it is called in options, logs and records; no two passes share one.
      run: takes a program and the counter of its rewrites, returns an equal program; the same
        object if it changed nothing.
      required: whether it runs when optimisation is off, for later steps rely on it.
      reorders: whether sums may be added up in another order after it, which strict mode forbids.
    """

    name: str
    run: Callable[[Jaxpr, Rewrites], Jaxpr]
    required: bool = False
    reorders: bool = False


def _on_demand(
    module: str, name: str, concerns: Callable[[Primitive], bool]
) -> Callable[[Jaxpr, Rewrites], Jaxpr]:
    """A pass that changes only programs with certain primitives: the first one imports it.

    Args:
      module: of ``backends/passes/``.
      name: the function in it.
      concerns: whether a primitive is one of them.
    """
    path = f"functrax.backends.passes.{module}"

    def run(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
        if not any(map(concerns, _primitives(jaxpr))):
            return jaxpr
        after: Jaxpr = getattr(import_module(path), name)(jaxpr, rewrites)
        return after

    return run


def _primitives(jaxpr: Jaxpr) -> set[Primitive]:
    """The primitives of a program, for which passes that change nothing ask in turn."""
    found: set[Primitive] | None = jaxpr.memo.get("primitives")
    if found is None:
        found = jaxpr.memo["primitives"] = {eqn.primitive for eqn in jaxpr.eqns}
        if any(primitive.holds_programs for primitive in found):
            for eqn in jaxpr.eqns:
                if eqn.primitive.holds_programs:
                    found.update(*map(_primitives, subjaxprs(eqn)))
    return found


def _is_contraction(primitive: Primitive) -> bool:
    return primitive is contraction


def _is_reduction(primitive: Primitive) -> bool:
    return isinstance(primitive, ReindexReduce)


def _is_scan(primitive: Primitive) -> bool:
    return isinstance(primitive, ScanLoop)


split_loops = _on_demand("clean.split_loops", "split_loops", _is_scan)
spread = _on_demand("clean.spread", "spread", _is_reduction)
recognise = _on_demand("contractions.recognise", "recognise", _is_reduction)
absorb = _on_demand("contractions.conjugates", "absorb", _is_contraction)
repeats = _on_demand("contractions.repeats", "repeats", _is_contraction)
batch = _on_demand("contractions.batch", "batch", _is_contraction)
share = _on_demand("contractions.share", "share", _is_contraction)
join = _on_demand("contractions.join", "join", _is_contraction)
orient = _on_demand("contractions.orientation", "orient", _is_contraction)

PIPELINE: tuple[Pass, ...] = (
    Pass("inline", inline, required=True),  # calls are inlined
    Pass("constant_folding", constant_folding),  # constants are folded
    Pass("split", split_loops, reorders=True),  # loops are distributed: what needs none leaves them
    Pass("simplify", simplify),  # exact algebraic simplification
    Pass("compose", compose),  # index maps are composed
    Pass("widen", widen),  # narrow floats are added up in wider ones
    Pass("cse", cse),  # common subexpression elimination
    Pass("spread", spread, reorders=True),  # repeated rows are reduced once
    Pass("recognise", recognise, reorders=True),  # sums of products become contractions
    Pass("absorb", absorb, reorders=True),  # conjugates are absorbed by contractions
    Pass("repeats", repeats, reorders=True),  # repeated elements are multiplied once
    Pass("batch", batch, reorders=True),  # products that share an operand become one
    Pass("orient", orient, reorders=True),  # contractions give results in the order that is wanted
    Pass("share", share, reorders=True),  # products with a side in common become one
    Pass("join", join, reorders=True),  # products that are added up become one
    Pass("pack", pack),  # in strict mode, operands of sums lie in the order that they are read in
    Pass("dce", dce),  # dead code elimination
    Pass("fma", multiply_adds),  # fused multiply-adds
    Pass("fuse", fuse),  # equations share kernels
)
#: Passes that an option adds: rematerialization
#: (``backends/compilation/memory_budget.py``).
ADDED: tuple[str, ...] = ("rematerialize",)
#: What limits the rewrites of the trees of kernels, as passes' are limited.
SCHEDULE = "schedule"


@record
class Stage:
    """What one pass did.

    Args:
      name: the pass.
      milliseconds: how long it took.
      program: the program after it.
      rewrites: how many rewrites it made.
    """

    name: str
    milliseconds: float
    program: Jaxpr
    rewrites: int


@record
class CompiledStages:
    """What the pipeline made of a program, step by step.

    Args:
      source: the program before the first pass.
      stages: what each pass did, in order.
    """

    source: Jaxpr
    stages: tuple[Stage, ...]

    @property
    def program(self) -> Jaxpr:
        """The program after the last pass."""
        return self.stages[-1].program if self.stages else self.source

    @property
    def milliseconds(self) -> float:
        """How long the passes took together."""
        return sum(stage.milliseconds for stage in self.stages)

    def __getitem__(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def __str__(self) -> str:
        lines = [f"{'pass':<12} {'ms':>8} {'rewrites':>9} {'equations':>10}"]
        for s in self.stages:
            size = len(s.program.eqns)
            lines.append(f"{s.name:<12} {s.milliseconds:8.2f} {s.rewrites:9} {size:10}")
        return "\n".join(lines)


def run_pipeline(
    jaxpr: Jaxpr,
    passes: Sequence[Pass] | None = None,
    rewrite_limits: Mapping[str, int] | None = None,
) -> CompiledStages:
    """Run the passes on a program.

    Args:
      jaxpr: a program without constants.
      passes: the steps, in order; those of :data:`PIPELINE` if None.
      rewrite_limits: how many rewrites a pass may make; from the option ``opt_limit`` if None.

    Returns:
      The program after each pass, with times and numbers of rewrites.

    Raises:
      ArgumentError: if the options name a pass that there is not.
      VerificationError: if the option ``check`` is on and a pass broke a rule of the language.
    """
    if passes is None:
        passes = PIPELINE
    if rewrite_limits is None:
        rewrite_limits = limits(options.opt_limit)
    log_levels = levels(options.log)
    if rewrite_limits or log_levels:
        _check_names("opt_limit", rewrite_limits, passes)
        _check_names("log", log_levels, passes)
    if dumped("jaxpr"):
        dump("jaxpr", jaxpr.name, "source", str(jaxpr))
    program, stages = jaxpr, []
    for step in passes:
        if not (step.required or options.opt) or (
            step.reorders and options.strict and not options.strict_tiles
        ):
            continue
        level = log_levels.get(step.name, 0)
        rewrites = Rewrites(rewrite_limits.get(step.name), level > 1, level > 2)
        begin = time.perf_counter()
        with compile_log.step("passes", step.name):
            after = step.run(program, rewrites)
        milliseconds = (time.perf_counter() - begin) * 1e3
        if options.check:
            _check(step.name, after)
        if level:
            _log(step.name, program, after, rewrites)
        if dumped("passes"):
            dump("passes", jaxpr.name, step.name, str(after))
        stages.append(Stage(step.name, milliseconds, after, rewrites.count))
        program = after
    if dumped("groups"):
        dump("groups", jaxpr.name, "groups", str(program))
    return CompiledStages(jaxpr, tuple(stages))


def _check_names(option: str, given: Mapping[str, int], passes: Sequence[Pass]) -> None:
    known = {*(step.name for step in (*PIPELINE, *passes)), *ADDED}
    if option == "opt_limit":
        known.add(SCHEDULE)
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ArgumentError(
            f"config: {option}: unknown pass",
            got=", ".join(unknown),
            fix="one of " + ", ".join(sorted(known)),
        )


def _check(name: str, program: Jaxpr) -> None:
    from functrax.core.syntax.verify import verify

    try:
        verify(program)
    except FunctraxError as error:
        raise VerificationError(
            f"the pass {name} broke a rule of the language: {error.what}",
            got=error.got,
            fix=f"FUNCTRAX_OPT_LIMIT={name}=n for the first n of its rewrites alone",
            where=error.where,
        ) from error


def _log(name: str, before: Jaxpr, after: Jaxpr, rewrites: Rewrites) -> None:
    """Print what a pass did; nothing if it did nothing and had nothing to say."""
    from functrax.core.ir.printing import variable_names

    lines = rewrites.lines(variable_names(before))
    if after is not before:
        lines.append(str(after))
    if lines:
        show(f"{before.name}: {name}: {rewrites.count} rewrites", "\n".join(lines))
