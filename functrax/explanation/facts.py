"""Collecting what is known about a compiled program.

What enters is the compiler's record of a program; what leaves is an :class:`Explanation`.  Start at
:func:`explanation_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from functrax.backends.compilation.assembly import Work
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.compilation.pipeline import PIPELINE, ROAD
from functrax.backends.compilation.provenance import Members, expanded
from functrax.backends.passes.fusion.evaluations import evaluations
from functrax.backends.passes.fusion.kernel_groups import nbytes
from functrax.backends.passes.fusion.prices import PRICES, REASONS, Price
from functrax.backends.passes.groups import Group, contraction, fused
from functrax.backends.passes.memory.costs import operations, traffic
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Literal, Var, subjaxprs
from functrax.core.ir.number_text import scalar_text
from functrax.core.ir.printing import variable_names
from functrax.core.prims.control import Choice, ScanLoop, WhileLoop
from functrax.explanation.record import (
    Access,
    Edge,
    Explanation,
    KernelFacts,
    PassFacts,
    ProgramLevel,
    Recomputed,
)

#: Why a value is not stored of which fusion has weighed nothing else.
_ONE_KERNEL = "it is in one kernel with what reads it"
#: The way from the outermost program to one inside it, as the compiler writes it.
Path = tuple[tuple[int, str], ...]


def explanation_of(name: str, compiled: CompiledProgram, trace_ms: float) -> Explanation:
    """What is known about a compiled program.

    Args:
      name: of the function.
      compiled: the compiler's record.
      trace_ms: how long tracing took.
    """
    whole = {(work.inside, work.place) for work in compiled.works}
    paths = list(_levels(compiled.stages.program, whole))
    numbers = {path: level.number for path, level in paths}
    levels = tuple(level for _, level in paths)
    members = Members(compiled.stages)
    kernels = tuple(
        _kernel(k, work, levels[numbers[work.inside]], members)
        for k, work in enumerate(_in_order(compiled.works, numbers))
    )
    edges = tuple(edge for level in levels for edge in _edges(level))
    return Explanation(
        name,
        _passes(compiled),
        levels,
        kernels,
        edges,
        _compile_ms(compiled, trace_ms),
        {str(origin): n for origin, n in compiled.log.origins.items()},
        compiled.program,
        compiled,
    )


def _in_order(works: tuple[Work, ...], numbers: Mapping[Path, int]) -> list[Work]:
    """Those of the outermost program first."""
    return sorted(works, key=lambda work: numbers[work.inside])


def _passes(compiled: CompiledProgram) -> tuple[PassFacts, ...]:
    before, found = compiled.stages.source, []
    for s in compiled.stages.stages:
        found.append(PassFacts(s.name, before, s.program, s.rewrites, s.milliseconds))
        before = s.program
    return tuple(found)


def _compile_ms(compiled: CompiledProgram, trace_ms: float) -> dict[str, float]:
    total = {"trace": trace_ms}
    total |= {s.name: s.milliseconds for s in compiled.stages.stages}
    stages = compiled.log.milliseconds()
    total |= {s.name: stages.get(s.name, 0.0) for s in ROAD if s not in PIPELINE}
    return total


# ---- programs inside programs -------------------------------------------------------------------


def _levels(jaxpr: Jaxpr, whole: set[tuple[Path, int]]) -> Iterator[tuple[Path, ProgramLevel]]:
    """The program and those inside it, outer ones first; not those of loops that are kernels.

    Args:
      jaxpr: the program.
      whole: the equations that are computed as a whole.
    """
    waiting: list[tuple[Path, str, Jaxpr, int | None, tuple[int, int] | None]] = [
        ((), "", jaxpr, 1, None)
    ]
    number = 0
    while waiting:
        path, title, program, calls, within = waiting.pop(0)
        yield path, ProgramLevel(number, title, program, calls, within)
        for place, eqn in enumerate(program.eqns):
            inside = [] if (path, place) in whole else _inner_programs(eqn)
            for role, inner, times in inside:
                total = None if calls is None or times is None else calls * times
                waiting.append(
                    (
                        (*path, (place, role)),
                        f"{role} of {eqn.primitive.name}",
                        inner,
                        total,
                        (number, place),
                    )
                )
        number += 1


def _inner_programs(eqn: Eqn) -> list[tuple[str, Jaxpr, int | None]]:
    """The programs that an equation of control flow runs: role, program, how often."""
    params: dict[str, Any] = eqn.params
    if isinstance(eqn.primitive, ScanLoop):
        return [("body", params["jaxpr"], params["length"])]
    if isinstance(eqn.primitive, WhileLoop):
        return [("condition", params["cond"], None), ("body", params["body"], None)]
    if isinstance(eqn.primitive, Choice):
        return [(f"branch {k}", branch, None) for k, branch in enumerate(params["branches"])]
    return []


# ---- kernels ------------------------------------------------------------------------------------


def _kernel(number: int, work: Work, level: ProgramLevel, members: Members) -> KernelFacts:
    eqn = work.eqn
    names = variable_names(level.jaxpr)
    reads, writes = traffic(eqn)
    done = operations(eqn)
    is_group = isinstance(eqn.primitive, Group)
    inner = eqn not in level.jaxpr.eqns  # of a group that the compiler took apart
    eqns = _members(eqn, members)
    launched = () if work.code is None else work.code.kernels
    codes = {id(x.kernel): x for x in launched}  # some are launched several times
    between = () if work.code is None else work.code.temporaries
    return KernelFacts(
        number,
        eqn.params["name"] if is_group else eqn.primitive.name,
        "call" if work.code is None else "kernel",
        eqns,
        level.number,
        work.place,
        level.calls,
        tuple(
            Access(_name(x, {} if inner else names), x.aval, n)
            for x, n in zip(eqn.invars, reads)
            if isinstance(x, Var)
        ),
        tuple(
            Access(_name(v, {} if inner else names), v.aval, n) for v, n in zip(eqn.outvars, writes)
        ),
        done.flops,
        done.transcendentals,
        tuple(codes.values()),
        work.instructions,
        bytes_staged=sum(x.size * x.dtype.itemsize for x in between),
        recomputed=tuple(_recomputed(eqn, eqns, level.jaxpr)),
    )


def _members(eqn: Eqn, members: Members) -> tuple[Eqn, ...]:
    """The equations of a group, or of a loop that is one kernel."""
    if isinstance(eqn.primitive, Group):
        return members.of(eqn)
    return tuple(e for program in subjaxprs(eqn) for e in expanded(program)) or (eqn,)


def _recomputed(group: Eqn, eqns: tuple[Eqn, ...], program: Jaxpr) -> Iterator[Recomputed]:
    """Which equations of a group are not computed once; of a contraction nothing is known."""
    if group.primitive is not fused or len(group.params["jaxpr"].eqns) != len(eqns):
        return
    prices: Mapping[Var, Price] = program.memo.get(PRICES, {})
    reasons: dict[Any, str] = {}  # that of a value is also one of what it is made of
    found = []
    for eqn, times in reversed([*zip(eqns, evaluations(group.params["jaxpr"]))]):
        known = [v for v in eqn.outvars if v in prices]
        reason = str(prices[known[0]]) if known else reasons.get(eqn.outvars[0], _ONE_KERNEL)
        if times < 1:
            reason = "only a part of it is needed"
        reasons.update(
            (x, reason) for x in eqn.invars if reasons.get(x, _ONE_KERNEL) is _ONE_KERNEL
        )
        if times != 1:
            found.append(Recomputed(eqn, times, reason))
    yield from reversed(found)


def _name(x: Any, names: Mapping[Var, str]) -> str:
    if isinstance(x, Literal):
        return scalar_text(x.val, x.aval.dtype)
    return names.get(x, "·")


# ---- edges --------------------------------------------------------------------------------------


def _edges(level: ProgramLevel) -> Iterator[Edge]:
    """The values that go from one equation of a program of groups to another."""
    jaxpr = level.jaxpr
    names = variable_names(jaxpr)
    place = {v: k for k, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
    prices: Mapping[Var, Price] = jaxpr.memo.get(PRICES, {})
    for target, eqn in enumerate(jaxpr.eqns):
        for x in dict.fromkeys(eqn.invars):
            if not isinstance(x, Var) or x not in place:
                continue
            reason = _reason(jaxpr, place[x], target)
            code = reason.partition(":")[0]
            if x in prices:
                reason += f"; the view is stored: {prices[x]}"
            value = f"{names[x]}:{x.aval.str_short()}"
            yield Edge(level.number, place[x], target, value, nbytes(x), code, reason)


def _reason(jaxpr: Jaxpr, source: int, target: int) -> str:
    """Why two equations of a program of groups are not one kernel."""
    reasons: Mapping[tuple[int, int], str | Price] | None = jaxpr.memo.get(REASONS)
    found = (reasons or {}).get((source, target)) or (reasons or {}).get((target, source))
    if isinstance(found, Price):
        return f"cost: {found}"
    if found:
        return found
    for k in (source, target):
        eqn = jaxpr.eqns[k]
        name = eqn.primitive.name
        if eqn.primitive is contraction:
            return f"contraction: {eqn.params['name']} is computed by itself"
        if eqn.primitive.holds_programs and eqn.primitive is not fused:
            return f"control flow: {name} is computed by itself"
        if eqn.primitive is not fused:
            return f"call: {name} is no part of any kernel"
    if reasons is None:
        return "off: the pass fuse did not run last"
    return "limit: the pass fuse was stopped before it looked at them"
