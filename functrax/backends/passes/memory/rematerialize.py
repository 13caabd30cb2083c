"""Keeping to a budget of memory: values that wait long for their next use are computed again.

What enters is a program of groups (``backends/passes/fusion/fuse.py``) in the order in which it
runs, and a number of bytes.  While the values that are alive at some place take more, one that is
neither made nor used there is computed again just before it is needed next, by a copy of its group:
the one that frees most bytes for what the copy reads, writes and computes.  What the copy reads and
is gone by then is computed again with it; so a chain comes to be stored at few places.

Values of loops and branches are as they were (``functrax.checkpoint`` is for those), and so are
values that no group computes.  Start at :func:`rematerialize`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping

from functrax.backends.cost import memory_ns
from functrax.backends.passes.fusion.kernel_groups import SEARCH, nbytes
from functrax.backends.passes.groups import Group, grouped
from functrax.backends.passes.inner import renamed, with_eqns
from functrax.backends.passes.memory.costs import operations, traffic
from functrax.backends.passes.rewrites import EFFORT, Rewrites
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.records import record
from functrax.core.tracing.stage import live_eqns


def rematerialize(jaxpr: Jaxpr, rewrites: Rewrites, budget: int) -> Jaxpr:
    """The program with values computed again until it needs no more memory than it may.

    Args:
      jaxpr: a program of groups.
      rewrites: counts the values.
      budget: bytes that values between equations may take; where that cannot be reached, the
        program takes as few as are found.
    """
    best = plan = _Plan(jaxpr, list(jaxpr.eqns))
    while plan.most > budget:
        better = next(plan.better(rewrites), None)
        if better is None:
            break
        plan = better
        if plan.most < best.most:  # else there are only fewer places that are as full
            best = plan
    return with_eqns(jaxpr, best.eqns)


def alive(jaxpr: Jaxpr) -> int:
    """The bytes of values between equations that are alive at one time, at most."""
    return _Plan(jaxpr, list(jaxpr.eqns)).most


@record
class _Again:
    """Computing a value again.

    Args:
      worth: the bytes that it frees for each nanosecond of its cost.
      use: the place before which it is done.
      eqns: what is done, in order.
      renamed: the value, and the variable that stands for it from there on.
    """

    worth: float
    use: int
    eqns: tuple[Eqn, ...]
    renamed: Mapping[Atom, Atom]


class _Plan:
    """An order of equations, and what is alive at each of them.

    Args:
      jaxpr: the program; what enters and leaves it is not counted.
      eqns: the equations in its place.

    Attributes:
      most: the bytes that are alive at one place, at most.
      place: the first place where so many are.
      often: the number of such places.
    """

    def __init__(self, jaxpr: Jaxpr, eqns: list[Eqn]) -> None:
        self.jaxpr = jaxpr
        self.eqns = eqns
        outside = {*jaxpr.invars, *jaxpr.outvars}
        self.made: dict[Var, int] = {}
        self.uses: dict[Var, list[int]] = {}
        for n, eqn in enumerate(eqns):
            for v in eqn.outvars:
                if v not in outside:
                    self.made[v] = n
            for x in dict.fromkeys(eqn.invars):
                if x in self.made:
                    self.uses.setdefault(x, []).append(n)
        change = [0] * (len(eqns) + 1)
        for v, n in self.made.items():
            change[n] += nbytes(v)
            change[self.last(v) + 1] -= nbytes(v)
        self.most, self.place, self.often, total = 0, 0, 0, 0
        for n, difference in enumerate(change):
            total += difference
            if total > self.most:
                self.most, self.place, self.often = total, n, 0
            self.often += total == self.most

    def last(self, v: Var) -> int:
        """The last place where a value is alive."""
        return self.uses.get(v, (self.made[v],))[-1]

    def better(self, rewrites: Rewrites) -> Iterator[_Plan]:
        """Plans with less at the fullest place, or with fewer places as full as that."""
        found = sorted(filter(None, map(self._again, self._waiting())), key=lambda a: -a.worth)
        for again in found[:EFFORT]:
            plan = self._with(again)
            if (plan.most, plan.often) < (self.most, self.often):
                if not rewrites.allow("compute again", again.eqns[-1]):
                    return
                yield plan

    def _waiting(self) -> list[Var]:
        """What is alive at the fullest place, and neither made nor used there."""
        p = self.place
        return [
            v
            for v, n in self.made.items()
            if n < p < self.last(v) and p not in self.uses[v]
            and isinstance(self.eqns[n].primitive, Group)
        ]  # fmt: skip

    def _again(self, v: Var) -> _Again | None:
        """How to compute a value again before its next use, if that frees memory."""
        uses = self.uses[v]
        use = uses[bisect.bisect_right(uses, self.place)]
        copies: dict[Var, Eqn] = {}
        kept: set[Var] = set()
        stack = [v]
        while stack:
            x = stack.pop()
            if x in copies:
                continue
            if len(copies) >= SEARCH:
                return None
            copies[x] = _copy(self.eqns[self.made[x]], x)
            for y in copies[x].invars:
                if not isinstance(y, Var) or y not in self.made or self.last(y) >= self.place:
                    continue
                if isinstance(self.eqns[self.made[y]].primitive, Group):
                    stack.append(y)
                else:
                    kept.add(y)
        gain = nbytes(v) - sum(map(nbytes, kept))
        if gain <= 0:
            return None
        ordered = sorted(copies, key=self.made.__getitem__)
        fresh: dict[Atom, Atom] = {x: copies[x].outvars[0] for x in ordered}
        eqns = tuple(renamed(copies[x], fresh) for x in ordered)
        return _Again(gain / sum(map(_cost, eqns)), use, eqns, {v: fresh[v]})

    def _with(self, again: _Again) -> _Plan:
        """The plan with copies before a use, which that and all later ones read."""
        later = [renamed(eqn, again.renamed) for eqn in self.eqns[again.use :]]
        return _Plan(self.jaxpr, [*self.eqns[: again.use], *again.eqns, *later])


def _copy(eqn: Eqn, v: Var) -> Eqn:
    """An equation that computes again one of the results of a group."""
    inner: Jaxpr = eqn.params["jaxpr"]
    wanted = inner.outvars[eqn.outvars.index(v)]
    assert isinstance(eqn.primitive, Group) and isinstance(wanted, Var)
    needed = live_eqns(inner.eqns, [wanted])
    alone = grouped(eqn.primitive, needed, [wanted], eqn.params["name"], eqn.source)
    operands = dict(zip(inner.invars, eqn.invars, strict=True))
    invars = [operands[x] for x in alone.invars if isinstance(x, Var)]
    return Eqn(eqn.primitive, invars, [Var(v.aval)], alone.params, eqn.source)


def _cost(eqn: Eqn) -> float:
    """Nanoseconds of a launch, as fusion counts them."""
    reads, writes = traffic(eqn)
    done = operations(eqn)
    costs = target()
    computed = costs.element_ns * done.flops + costs.function_ns * done.transcendentals
    return costs.kernel_ns + memory_ns(sum(reads) + sum(writes), costs) + computed
