"""The stages of the road from a jaxpr to machine code, and the driver that runs each of them.

A :class:`Stage` takes what the one before made and gives what the next one takes.  The driver,
:func:`run_stage`, and nobody else times it, verifies what it made, counts and limits its rewrites,
logs and dumps:

- ``FUNCTRAX_OPT_LIMIT=simplify=10``: a stage stops after so many rewrites.
- ``FUNCTRAX_LOG=simplify:>dce``: print what a stage changed; ``>`` adds a line for each rewrite,
  ``>>`` what the stage says besides.
- ``FUNCTRAX_DUMP=passes,llvm``: print what stages made (``backends/dumps.py``).
- ``FUNCTRAX_CHECK=1``: verify what stages made.

All of them in order are the list in ``backends/compilation/pipeline.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from functrax.backends.compile_log import step
from functrax.backends.dumps import dump, dumped, show
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.errors.typed import FunctraxError, VerificationError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import state as options, strict_was_chosen
from functrax.core.options.option_text import levels, limits
from functrax.core.records import record


def _itself(made: Any) -> Iterable[tuple[str, str]]:
    return [("", str(made))]


@record
class Stage:
    """One step of the road.

    Args:
      name: what it is called in options, logs and records; no two stages share one.
      run: takes what the stage before made and the counter of its rewrites, returns what it makes;
        the same object if it changed nothing.
      required: whether it runs when optimisation is off, for later stages rely on it.
      reorders: whether sums may be added up in another order after it, which strict mode forbids.
      kind: what the times of such stages are added up as; empty for its own name.
      dumped: the stage of the option ``dump`` that shows what it made; empty for none.
      texts: what it made as texts, each with a name if it is not that of what was worked on.
      verify: raises an error if what it made breaks a rule; None if there is nothing to verify.
    """

    name: str
    run: Callable[[Any, Rewrites], Any]
    required: bool = True
    reorders: bool = False
    kind: str = ""
    dumped: str = ""
    texts: Callable[[Any], Iterable[tuple[str, str]]] = _itself
    verify: Callable[[Any], None] | None = None

    @property
    def is_left_out(self) -> bool:
        """Whether the options say that it does not run."""
        return not (self.required or options.opt) or (self.reorders and strict_was_chosen())


def as_pass(
    name: str,
    run: Callable[[Jaxpr, Rewrites], Jaxpr],
    required: bool = False,
    reorders: bool = False,
) -> Stage:
    """A stage from a program to an equal one."""
    return Stage(name, run, required, reorders, "passes", "passes", verify=_verify)


def _verify(program: Jaxpr) -> None:
    """The rules of the language, which what a pass made has to keep."""
    from functrax.core.syntax.verify import verify  # which few programs need

    verify(program)


@record
class PassResult:
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
    """What the passes made of a program, step by step.

    Args:
      source: the program before the first pass.
      stages: what each pass did, in order.
    """

    source: Jaxpr
    stages: tuple[PassResult, ...]

    @property
    def program(self) -> Jaxpr:
        """The program after the last pass."""
        return self.stages[-1].program if self.stages else self.source

    def __getitem__(self, name: str) -> PassResult:
        return next(stage for stage in self.stages if stage.name == name)

    def __str__(self) -> str:
        lines = [f"{'pass':<12} {'ms':>8} {'rewrites':>9} {'equations':>10}"]
        for s in self.stages:
            size = len(s.program.eqns)
            lines.append(f"{s.name:<12} {s.milliseconds:8.2f} {s.rewrites:9} {size:10}")
        return "\n".join(lines)


def run_stage(
    stage: Stage,
    state: Any,
    name: str,
    rewrite_limits: Mapping[str, int] | None = None,
    results: list[PassResult] | None = None,
) -> Any:
    """What a stage makes.

    Args:
      stage: the stage.
      state: what the stage before made.
      name: of the program, the group or the kernel.
      rewrite_limits: how many rewrites stages may make; from the option ``opt_limit`` if None.
      results: what a pass did is added to it.

    Raises:
      VerificationError: if the option ``check`` is on and what it made breaks a rule.
    """
    level = levels(options.log).get(stage.name, 0) if options.log else 0
    if rewrite_limits is None:
        rewrite_limits = limits(options.opt_limit) if options.opt_limit else {}
    rewrites = Rewrites(rewrite_limits.get(stage.name), level > 1, level > 2)
    begin = time.perf_counter()
    with step(stage.kind, stage.name) if stage.kind else step(stage.name, name):
        made = stage.run(state, rewrites)
    if results is not None:
        took = (time.perf_counter() - begin) * 1e3
        results.append(PassResult(stage.name, took, made, rewrites.count))
    if options.check and stage.verify is not None:
        _check(stage, made)
    if level:
        _log(stage, name, state, made, rewrites)
    if stage.dumped and dumped(stage.dumped):
        for own, text in stage.texts(made):
            dump(stage.dumped, own or name, stage.name, text)
    return made


def _check(stage: Stage, made: Any) -> None:
    assert stage.verify is not None
    try:
        stage.verify(made)
    except FunctraxError as error:
        what = "pass" if stage.kind == "passes" else "stage"
        raise VerificationError(
            f"the {what} {stage.name} broke a rule of the language: {error.what}",
            got=error.got,
            fix=f"FUNCTRAX_OPT_LIMIT={stage.name}=n for the first n of its rewrites alone",
            where=error.where,
        ) from error


def _log(stage: Stage, name: str, before: Any, made: Any, rewrites: Rewrites) -> None:
    """Print what a stage did; nothing if it did nothing and had nothing to say."""
    from functrax.core.ir.printing import variable_names

    lines = rewrites.lines(variable_names(before) if isinstance(before, Jaxpr) else {})
    if made is not before:
        lines += [text for _, text in stage.texts(made)]
    if lines:
        show(f"{name}: {stage.name}: {rewrites.count} rewrites", "\n".join(lines))
