"""``check``: whether a compiled program computes what it was made from.

The program is run on the reference device as it was traced, after each pass of the compiler, and
compiled; and each kernel is compared with its own equations, run on the reference device on the
very arrays that the kernel was given.  Where something differs, the error names the rewrite of the
pass, or the kernel.

Start at :func:`checked`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.backends.compilation import pipeline
from functrax.backends.compilation.assembly import Work
from functrax.backends.compilation.bisection import first_wrong_rewrite
from functrax.backends.compilation.codegen import SCHEDULE
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.compilation.provenance import Members
from functrax.backends.executables.program import Instruction
from functrax.backends.targets import Target
from functrax.core.errors.typed import MiscompilationError
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var
from functrax.core.ir.printing import eqn_text
from functrax.core.options.config import Override
from functrax.core.records import record
from functrax.explanation.agreement import Judge, Mismatch, run_reference
from functrax.explanation.running import compiled_alone, executables

#: How often a kernel in a loop is compared.
_MOST_RUNS = 16


@record
class CheckReport:
    """What was compared, and found to agree.

    Args:
      name: of the function.
      passes: the passes after which the program was run.
      kernels: the kernels that were compared with their equations.
      launches: how many launches of them.
      largest_difference: of a result of the compiled program from the reference device's, in units
        in the last place.
    """

    name: str
    passes: tuple[str, ...]
    kernels: tuple[str, ...]
    launches: int
    largest_difference: float

    def __str__(self) -> str:
        return (
            f"{self.name}: the reference device agrees with {len(self.passes)} passes "
            f"({', '.join(self.passes)}), {len(self.kernels)} kernels in {self.launches} launches, "
            f"and the compiled program; results differ by up to {self.largest_difference:.1f} ulp"
        )


def checked(name: str, compiled: CompiledProgram, values: Sequence[Any]) -> CheckReport:
    """Compare a compiled program with what it was made from.

    Args:
      name: of the function.
      compiled: the compiler's record.
      values: a NumPy array for each input.

    Raises:
      MiscompilationError: if something differs.
    """
    judge = Judge(compiled.stages.source, values)
    for stage in compiled.stages.stages:
        found = judge.mismatch(run_reference(stage.program, values))
        if found is not None:
            raise _wrong_pass(name, stage.name, judge, found)
    kernels = _KernelChecks(compiled)
    for runtime, run in executables(compiled, kernels).items():
        found = judge.mismatch(run(values))
        if found is not None:
            raise _wrong_program(name, runtime, found)
    return CheckReport(
        name,
        tuple(stage.name for stage in compiled.stages.stages),
        tuple(kernels.names),
        kernels.launches,
        judge.largest,
    )


def _wrong_pass(name: str, step: str, judge: Judge, found: Mismatch) -> MiscompilationError:
    def is_right(program: Jaxpr) -> bool:
        return judge.mismatch(run_reference(program, judge.values)) is None

    culprit = first_wrong_rewrite(judge.jaxpr, is_right, pipeline.PIPELINE)
    rewrite = "" if culprit is None else f"\nrewrite {culprit.rewrite or culprit.number}"
    number = 0 if culprit is None else max(culprit.number - 1, 0)
    return MiscompilationError(
        f"check: the pass {step} changes what {name} computes",
        got=f"{found}{rewrite}",
        fix=f"report this; FUNCTRAX_OPT_LIMIT={step}={number} stops before that rewrite",
    )


def _wrong_program(name: str, runtime: str, found: Mismatch) -> MiscompilationError:
    return MiscompilationError(
        f"check: the compiled program of {name} gives another result, though its passes and its "
        f"kernels are right (the {runtime} runtime)",
        got=str(found),
        fix="report this; functrax.backend('interp') runs without the compiler",
    )


class _KernelChecks:
    """Compares each kernel with its equations when it runs.

    Attributes:
      names: the kernels that were compared.
      launches: how many comparisons there were.
    """

    def __init__(self, compiled: CompiledProgram) -> None:
        self._target = compiled.target
        self._members = Members(compiled.stages)
        works = [w for w in compiled.works if w.code is not None]
        self._works: dict[int, list[Work]] = {}
        for w in works:
            for x in w.instructions:
                self._works.setdefault(id(x), []).append(w)
        self._inputs: dict[int, dict[int, Any]] = {}  # of each work that has begun, by slot
        self._runs: dict[int, int] = {}
        self.names = [_title(w.eqn) for w in works]
        self.launches = 0

    def __call__(
        self,
        x: Instruction,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        run: Callable[[], None],
    ) -> None:
        works = self._works.get(id(x), [])
        works = [w for w in works if self._runs.get(id(w), 0) < _MOST_RUNS]
        for work in works:
            known = self._inputs.setdefault(id(work), {})
            for slot, array in zip(x.inputs, inputs):
                if slot not in known:
                    known[slot] = array.copy()
        run()
        for work in works:
            if x is work.instructions[-1]:
                self._runs[id(work)] = self._runs.get(id(work), 0) + 1
                written = dict(zip(x.outputs, outputs))
                self._compare(work, [written[slot] for slot in work.outputs])

    def _compare(self, work: Work, results: list[Any]) -> None:
        eqn = work.eqn
        known = self._inputs.pop(id(work))
        given = {v: known[slot] for v, slot in zip(eqn.invars, work.inputs) if isinstance(v, Var)}
        alone = Jaxpr((), tuple(given), eqn.outvars, [eqn], _title(eqn))
        found = Judge(alone, list(given.values())).mismatch(results)
        self.launches += 1
        if found is None:
            return
        members = self._members.of(eqn)
        culprit, limit = _first_wrong_rewrite(work, alone, list(given.values()), self._target)
        raise MiscompilationError(
            f"check: the kernel {_title(eqn)} computes something else than its equations",
            got="\n".join([str(found), culprit, *map(_line, members)]),
            fix=f"report this with functrax.explain(f)(*args).kernels; {limit}"
            "functrax.backend('interp') runs without the compiler",
            where=next((e.source for e in members if e.source is not None), None),
        )


def _first_wrong_rewrite(
    work: Work, alone: Jaxpr, values: list[Any], target: Target
) -> tuple[str, str]:
    """What makes a kernel wrong: a rewrite of its loops, or all that comes before and after."""
    kernels = [] if work.code is None else [code.kernel for code in work.code.kernels]
    most = max([len(kernel.schedule) for kernel in kernels], default=0)
    judge = Judge(alone, values)
    for limit in range(most + 1):
        with Override("opt_limit", f"{SCHEDULE.name}={limit}"):
            results = compiled_alone(alone, target)(values)
        if judge.mismatch(results) is None:
            continue
        if limit == 0:
            return "without any rewrite of its loops, too", ""
        made = {str(k.schedule[limit - 1]) for k in kernels if limit <= len(k.schedule)}
        avoided = f"FUNCTRAX_OPT_LIMIT={SCHEDULE.name}={limit - 1} avoids it; "
        return f"from the rewrite {limit} of its loops on: {', '.join(sorted(made))}", avoided
    return "not when it is compiled alone", ""


def _title(eqn: Eqn) -> str:
    return str(eqn.params.get("name", eqn.primitive.name))


def _line(eqn: Eqn) -> str:
    text, *_ = eqn_text(eqn).splitlines()
    return text if eqn.source is None else f"{text}  # {eqn.source}"
