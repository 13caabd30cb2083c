"""``cond``: one of several programs, chosen by an index when the program runs.

All branches take the same operands and return the same types.  The rules give every branch the
same form: which results have tangents (are batched, are unknown) is the union over the branches.
In reverse mode a branch keeps what is dearer to compute again than to load
(``transforms/control/residuals.py``); the branches share the places where it is kept.
A batched index cannot choose a branch for all elements, so all branches run, and a select chooses.

Start at :class:`Cond`; the user's functions are in ``transforms/control/choices.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from functrax.backends.device import run_jaxpr
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.arithmetic import clamp, select_n
from functrax.core.prims.comparisons import eq
from functrax.core.prims.control import Choice
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim, zeros
from functrax.core.records import record
from functrax.core.tracing.primitive import Avals, Linear, Value, like, literal
from functrax.core.tracing.stage import Derived, eval_jaxpr, stage
from functrax.core.tracing.trace import current
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.residuals import fewer_residuals, keep_exactly
from functrax.transforms.control.scan import chosen, merged, others
from functrax.transforms.interpreters.batching import batch_jaxpr, check_effects_of_choice
from functrax.transforms.interpreters.forward import jvp_jaxpr
from functrax.transforms.interpreters.linearize import PartialTrace, SplitJaxpr, split_jaxpr
from functrax.transforms.interpreters.transpose import transpose_jaxpr
from functrax.transforms.operations.user_checks import checks_where

Ops = Sequence[Value]
Tangents = Sequence["Value | None"]
Branches = tuple[Jaxpr, ...]


def union(masks: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    """Where any of the masks is set."""
    return tuple(any(flags) for flags in zip(*masks, strict=True))


def with_all_consts(derived: Sequence[Derived]) -> tuple[Branches, list[Value]]:
    """Branches that all take the constants of all, in front of their operands."""
    consts = [c for d in derived for c in d.consts]
    branches = []
    start = 0
    for d in derived:
        own = len(d.consts)
        before = [c.aval for c in consts[:start]]
        after = [c.aval for c in consts[start + own :]]
        branches.append(_with_unused(d.jaxpr, before, own, after))
        start += own
    return tuple(branches), consts


def _with_unused(
    jaxpr: Jaxpr, before: Sequence[ShapedArray], own: int, after: Sequence[ShapedArray]
) -> Jaxpr:
    """The same program with inputs that it does not use, around its first ``own`` ones."""

    def program(*args: Value) -> list[Value]:
        first = args[len(before) : len(before) + own]
        rest = args[len(before) + own + len(after) :]
        return eval_jaxpr(jaxpr, (), *first, *rest)

    avals = jaxpr.in_avals
    staged, consts = stage(program, [*before, *avals[:own], *after, *avals[own:]], jaxpr.name)
    assert not consts, "a program without constants gains none"
    return staged


class Cond(Choice):
    """Runs ``branches[index]``; an index out of range is clamped."""

    name = "cond"

    def shape_rule(self, *avals: ShapedArray, branches: Branches) -> Avals:
        index, *operands = avals
        if index.shape != () or index.dtype != dtypes.int32:
            raise ShapeError(
                "cond: the index is not a scalar of int32",
                got=index.str_short(),
                fix="convert the predicate with .astype('int32')",
            )
        given = [a.strip_weak_type() for a in operands]
        for branch in branches:
            if given != [a.strip_weak_type() for a in branch.in_avals]:
                raise ShapeError(
                    "cond: operands do not fit a branch",
                    got=f"{[a.str_short() for a in given]} for "
                    f"{[a.str_short() for a in branch.in_avals]}",
                    fix="operands of the types that the branches were traced for",
                )
        return tuple(branches[0].out_avals)

    def reference(self, *values: Any, branches: Branches) -> Any:
        index = min(max(int(values[0]), 0), len(branches) - 1)
        return [np.asarray(x) for x in run_jaxpr(branches[index], list(values[1:]))]

    def jvp(self, primals: Ops, tangents: Tangents, *, branches: Branches) -> tuple[Any, Any]:
        index, *operands = primals
        nonzero = tuple(t is not None for t in tangents[1:])
        filled = union([jvp_jaxpr(b, nonzero).flags for b in branches])
        programs, consts = with_all_consts([jvp_jaxpr(b, nonzero, filled) for b in branches])
        given = [t for t in tangents[1:] if t is not None]
        outs = self.bind(index, *consts, *operands, *given, branches=programs)
        found = iter(outs[len(filled) :])
        return outs[: len(filled)], [next(found) if f else None for f in filled]

    def batch_over_axis(
        self,
        mapped: Hashable,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        /,
        *,
        branches: Branches,
    ) -> tuple[Any, Any]:
        """Batch the branches, with their collectives over the axis ``mapped``."""
        index, *operands = args
        flags = tuple(batched[1:])
        if batched[0]:
            return self._select(mapped, size, index, operands, flags, branches)
        filled = union([batch_jaxpr(b, size, flags, mapped).flags for b in branches])
        derived = [batch_jaxpr(b, size, flags, mapped, filled) for b in branches]
        programs, consts = with_all_consts(derived)
        return self.bind(index, *consts, *operands, branches=programs), filled

    def _select(
        self,
        mapped: Hashable,
        size: int,
        index: Value,
        operands: Ops,
        flags: tuple[bool, ...],
        branches: Branches,
    ) -> tuple[Any, Any]:
        """Run all branches for all elements, and choose by element."""
        check_effects_of_choice("in vmap-of-cond", branches)
        everything = (True,) * len(branches[0].outvars)
        derived = [batch_jaxpr(b, size, flags, mapped, everything) for b in branches]
        last = literal(len(branches) - 1, dtypes.int32)
        which = clamp.bind(literal(0, dtypes.int32), index, last)
        results = [self._branch(d, operands, which, k) for k, d in enumerate(derived)]
        if len(branches) == 2:
            which = convert_element_type.bind(which, dtype=dtypes.bool_)

        def choose(*cases: Value) -> Value:
            shape = cases[0].aval.shape
            spread_out = broadcast_in_dim.bind(which, shape=shape, dims=(0,))
            return select_n.bind(spread_out, *cases) if len(cases) > 1 else cases[0]

        return [choose(*cases) for cases in zip(*results, strict=True)], everything

    @staticmethod
    def _branch(branch: Derived, operands: Ops, which: Value, number: int) -> list[Value]:
        """The results of a branch for all elements; its checks are of those that choose it."""
        if "check" not in branch.jaxpr.effects:
            return eval_jaxpr(branch.jaxpr, (), *branch.consts, *operands)
        with checks_where(eq.bind(which, like(which, number))):
            return eval_jaxpr(branch.jaxpr, (), *branch.consts, *operands)

    def partial_eval(self, trace: PartialTrace, args: Ops, params: dict[str, Any]) -> list[Value]:
        """Run the known part now, keeping what the chosen branch needs; record the rest."""
        branches: Branches = params["branches"]
        index, *operands = args
        unknown = tuple(trace.is_unknown(x) for x in operands)
        moved = union([split_jaxpr(b, unknown, keep_exactly).out_unknown for b in branches])
        splits = [
            fewer_residuals(split_jaxpr(b, unknown, keep_exactly, moved), unknown.count(False), 0)
            for b in branches
        ]
        kept = _Kept.by(splits)
        known = others(operands, unknown)
        known_programs, known_consts = with_all_consts(
            [_known_program(split, kept, i) for i, split in enumerate(splits)]
        )
        with current(trace.parent):
            outs = self.bind(index, *known_consts, *known, branches=known_programs)
        num_known = moved.count(False)
        saved = [*(outs[i] for i in kept.results), *outs[num_known:]]
        avals = [[x.aval for x in known], [x.aval for x in saved]]
        rest_programs, rest_consts = with_all_consts(
            [_rest_program(split, kept.places[i], *avals) for i, split in enumerate(splits)]
        )
        rest: list[Value] = []
        if any(moved):
            given = [index, *rest_consts, *known, *saved, *chosen(operands, unknown)]
            rest = trace.record(self, given, {"branches": rest_programs})
        return merged(moved, rest, outs[:num_known])

    def transpose(
        self, cts: Tangents, index: Value, *operands: Any, branches: Branches
    ) -> list[Value | None]:
        linear = tuple(isinstance(x, Linear) for x in operands)
        nonzero = tuple(ct is not None for ct in cts)
        derived = [transpose_jaxpr(b, linear, nonzero, fill=True) for b in branches]
        programs, consts = with_all_consts(derived)
        given = [ct for ct in cts if ct is not None]
        found = self.bind(index, *consts, *others(operands, linear), *given, branches=programs)
        nothing: list[None] = [None] * linear.count(False)
        return [None, *merged(linear, found, nothing)]


@record
class _Kept:
    """What the branches pass from their known to their unknown parts.

    ``results`` are the numbers of the known results that some branch reads again; ``slots`` are the
    types of what is passed besides, each for at most one value of each branch; ``places`` says for
    each branch where its residuals are, among the results and then the slots.
    """

    results: tuple[int, ...]
    slots: tuple[ShapedArray, ...]
    places: tuple[tuple[int, ...], ...]

    @staticmethod
    def by(splits: Sequence[SplitJaxpr]) -> _Kept:
        """Share slots among the branches, and keep no result twice."""
        slots: list[ShapedArray] = []
        found: list[list[tuple[bool, int]]] = []
        for split in splits:
            outs = split.known.jaxpr.outvars
            num_known = split.out_unknown.count(False)
            numbers = {v: i for i, v in enumerate(outs[:num_known])}
            free = list(range(len(slots)))
            found.append([])
            for v in outs[num_known:]:
                if v in numbers:
                    found[-1].append((True, numbers[v]))
                    continue
                aval = v.aval.strip_weak_type()
                slot = next((i for i in free if slots[i] == aval), len(slots))
                if slot == len(slots):
                    slots.append(aval)
                else:
                    free.remove(slot)
                found[-1].append((False, slot))
        results = sorted({i for places in found for is_result, i in places if is_result})
        return _Kept(
            tuple(results),
            tuple(slots),
            tuple(
                tuple(
                    results.index(i) if is_result else len(results) + i for is_result, i in places
                )
                for places in found
            ),
        )


def _known_program(split: SplitJaxpr, kept: _Kept, number: int) -> Derived:
    """A known branch that also fills all slots, with zeros where it has nothing to keep."""
    num_known = split.out_unknown.count(False)
    first = len(kept.results)

    def program(*args: Value) -> list[Value]:
        outs = eval_jaxpr(split.known.jaxpr, (), *args)
        mine = dict(zip(kept.places[number], outs[num_known:], strict=True))
        saved = [
            mine[first + i] if first + i in mine else zeros(a) for i, a in enumerate(kept.slots)
        ]
        return [*outs[:num_known], *saved]

    jaxpr, consts = stage(program, split.known.jaxpr.in_avals, split.known.jaxpr.name)
    assert not consts, "a program without constants gains none"
    return Derived(jaxpr, split.known.consts, ())


def _rest_program(
    split: SplitJaxpr,
    places: Sequence[int],
    known: Sequence[ShapedArray],
    saved: Sequence[ShapedArray],
) -> Derived:
    """An unknown branch that takes its own residuals from among what all branches keep."""
    new = len(split.unknown.consts)
    avals = split.unknown.jaxpr.in_avals
    unknown_avals = avals[new + len(split.residuals) :]

    def program(*args: Value) -> list[Value]:
        consts, rest = args[:new], args[new:]
        given, kept = rest[: len(known)], rest[len(known) : len(known) + len(saved)]
        residuals = [given[r] if r >= 0 else kept[places[~r]] for r in split.residuals]
        unknown = rest[len(known) + len(saved) :]
        return eval_jaxpr(split.unknown.jaxpr, (), *consts, *residuals, *unknown)

    jaxpr, consts = stage(
        program, [*avals[:new], *known, *saved, *unknown_avals], split.unknown.jaxpr.name
    )
    assert not consts, "a program without constants gains none"
    return Derived(jaxpr, split.unknown.consts, ())


cond_p = Cond()
