"""Computing a value again instead of storing it, after fusion has chosen the kernels.

A value that one kernel writes and others read costs its bytes each time.  Where it follows by a few
cheap elementwise equations from values that its readers read anyway, or from smaller ones (the rows
of a normalisation), the readers compute it again, from copies of those equations.  Several values
may follow from one that is dear and that nobody stores, as the factors of a gelu's derivative do
from its ``tanh``: then that one is stored in their place.

What enters is a :class:`~functrax.backends.passes.fusion.fuse.Fusion` that has merged its groups;
its groups are changed in place, and its graph is out of date then.  Start at :func:`recompute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from functrax.backends.cost import about
from functrax.backends.passes.fusion.kernel_groups import (
    FEW,
    MAX_COMPUTED,
    KernelGroup,
    has_holes,
    is_dear,
    is_renaming,
    is_sum,
    is_view,
    moved_ns,
)
from functrax.backends.passes.fusion.kernel_views import HERE, Ways, add_ways, one_after_another
from functrax.backends.passes.fusion.prices import Price
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Var

if TYPE_CHECKING:
    from functrax.backends.passes.fusion.fuse import Fusion


def recompute(fusion: Fusion) -> bool:
    """Compute values again where that saves bytes; whether anything changed."""
    changed = False
    last_first = sorted(fusion.groups.values(), key=lambda g: -fusion.graph.level[g.number])
    for group in last_first:
        shared: dict[frozenset[Var], list[_Copied]] = {}
        written: dict[int, list[Var]] = {}  # by what computes them, the last first
        for v in sorted(group.writes, key=lambda v: -fusion.position[v]):
            written.setdefault(fusion.position[v], []).append(v)
        for values in written.values():
            copied = _Copied(fusion, group, values)
            if copied.saves():
                changed = copied.apply() or changed
            elif copied.possible and copied.sources:
                shared.setdefault(frozenset(copied.sources), []).append(copied)
        for several in shared.values():
            if len(several) > 1 and _save_together(several):
                for copied in several:
                    # Others may have become its readers.
                    now = _Copied(fusion, group, copied.values)
                    changed = (now.possible and now.apply()) or changed
    return changed


def _save_together(several: Sequence[_Copied]) -> bool:
    """Whether to compute all of these values of a group again saves bytes."""
    group = several[0].group
    saved = sum(copied.dropped() for copied in several)
    fresh: set[Var] = set()
    read: set[tuple[int, Var]] = set()
    for copied in several:
        fresh.update(x for x in copied.leaves if x not in group.writes and x not in group.reads)
        for b in copied.readers:
            read.update((b.number, x) for x in copied.leaves if x not in b.reads)
    return saved > moved_ns([*fresh, *[x for _, x in read]])


class _Copied:
    """What it takes to let the readers of the results of an equation compute them.

    Attributes:
      values: the results, as far as the group writes them.
      readers: the groups that read some of them.
      eqns: the equations to copy.
      work: nanoseconds of what these compute for an element.
      leaves: what they start from, and whether at the same points.
      sources: of these the results of dear equations, which the group may not store yet.
      possible: whether it can be done.
    """

    def __init__(self, fusion: Fusion, group: KernelGroup, values: Sequence[Var]) -> None:
        self.fusion, self.group, self.values = fusion, group, values
        numbers = {n for v in values for n in fusion.readers.get(v, ())}
        self.readers = [fusion.groups[n] for n in sorted(numbers)]
        self.eqns: set[int] = set()
        self.leaves: dict[Var, bool] = {}
        self.sources: set[Var] = set()
        closed = [
            b.update or (b.center is not None and not self._read_here(b)) for b in self.readers
        ]
        self.possible = bool(self.readers) and not group.update and not any(closed)
        self.possible = self.possible and self._collect() and bool(self.eqns)
        sizes = [b.size + len(self._ways(b)) * len(self.eqns) for b in self.readers]
        self.possible = self.possible and max(sizes) <= MAX_COMPUTED
        self.work = self._work() if self.possible else 0.0

    def _work(self) -> float:
        """What the equations compute for an element, in nanoseconds.

        What follows from next to nothing, as random bits do from a key, costs as if each was one
        operation, for who needs it at its own points: a network does not keep its dropout's masks.
        """
        points = about(self.values[0].aval.shape)
        drawn = all(FEW * about(x.aval.shape) <= points for x in self.leaves)
        if drawn and all(map(self._read_here, self.readers)):
            return len(self.eqns) * target().element_ns
        return sum(self.fusion.views.work_of(self.fusion.eqns[n]) for n in self.eqns)

    def _read_here(self, b: KernelGroup) -> bool:
        """Whether a reader needs the values at its own points alone."""
        if len(self.values) == 1:
            return b.reads[self.values[0]]
        return all(b.reads.get(v, True) for v in self.values)

    def _collect(self) -> bool:
        """Find the equations; whether they are few and cheap."""
        group, fusion = self.group, self.fusion
        shape = self.values[0].aval.shape
        stack: list[tuple[Atom, bool]] = [(v, True) for v in self.values]
        seen: set[tuple[Var, bool]] = set()
        while stack:
            x, here = stack.pop()
            if not isinstance(x, Var) or (x, here) in seen:
                continue
            seen.add((x, here))
            n = fusion.position.get(x, -1)
            known = x in group.reads or (x in group.writes and x not in self.values)
            if known or (n in group.eqns and is_sum(fusion.eqns[n])):
                self.leaves[x] = self.leaves.get(x, True) and here
                continue
            eqn = fusion.eqns[n]
            if n in group.eqns:
                if is_dear(eqn) and x.aval.shape == shape:
                    self.leaves[x] = self.leaves.get(x, True) and here
                    self.sources.add(x)
                    continue
                self.eqns.add(n)
                if len(self.eqns) > FEW or is_dear(eqn):
                    return False
            if is_view(eqn):
                if has_holes(eqn):
                    return False  # each of its elements is looked up
                here = here and is_renaming(eqn)
            stack.extend((y, here) for y in eqn.invars)
        return self.leaves.keys().isdisjoint(self.values)

    def saves(self) -> bool:
        """Whether it is possible, and saves time."""
        if not self.possible:
            return False
        saved = self.dropped()
        for b in self.readers:
            saved -= moved_ns(x for x in self.leaves if x not in b.reads)
        written = self.group.writes | self.group.reads.keys()
        saved -= moved_ns(x for x in self.leaves if x not in written)
        once = about(self.values[0].aval.shape) * self.work
        return saved > 0 or (saved + once > 0 and self._only_there())

    def dropped(self) -> float:
        """Nanoseconds to move what is no longer moved, less those to compute it."""
        return self.moving() - self.computing()

    def moving(self) -> float:
        """Nanoseconds to store the values, if nothing else needs them, and to load them."""
        fusion, ns = self.fusion, 0.0
        for v in self.values:
            ns += moved_ns([v] * (len(fusion.readers.get(v, ())) + (v not in fusion.outside)))
        return ns

    def computing(self) -> float:
        """Nanoseconds to compute them in all readers."""
        points = 0
        for b in self.readers:
            shape = self.values[0].aval.shape if self._read_here(b) else b.space.full
            points += len(self._ways(b)) * about(shape)
        return points * self.work

    def _only_there(self) -> bool:
        """Whether the group itself need not compute the values any more, nor what they need."""
        fusion, group = self.fusion, self.group
        if not fusion.outside.isdisjoint(self.values):
            return False
        stack: list[Atom] = [v for v in group.writes if v not in self.values]
        seen = set()
        while stack:
            x = stack.pop()
            n = fusion.position.get(x, -1) if isinstance(x, Var) else -1
            if n not in group.eqns or n in seen:
                continue
            if n in self.eqns:
                return False
            seen.add(n)
            stack.extend(fusion.eqns[n].invars)
        return True

    def _ways(self, b: KernelGroup) -> Ways:
        """The ways by which a reader needs the values for one of its points."""
        if len(self.values) == 1:
            return b.ways.get(self.values[0], HERE)
        none: Ways = frozenset()
        return none.union(*[b.ways.get(v, HERE) for v in self.values if v in b.reads])

    def apply(self) -> bool:
        """Copy the equations into the readers; whether rewrites were left for that."""
        fusion, group, values = self.fusion, self.group, self.values
        if not fusion.rewrites.allow("compute again", fusion.eqns[fusion.position[values[0]]]):
            return False
        price = Price(len(self.readers), self.computing(), self.moving())
        for b in self.readers:
            here, ways = self._read_here(b), self._ways(b)
            for v in values:
                b.reads.pop(v, None)
                b.ways.pop(v, None)
            b.eqns |= self.eqns
            b.size += len(self.eqns) * len(ways)
            b.version += 1
            fusion.prices.update(dict.fromkeys(values, price))
            for x, same in self.leaves.items():
                if not (here and same):
                    step = HERE if same else frozenset([(fusion.views.step(values[0], x),)])
                    add_ways(b, x, one_after_another(ways, step))
                b.reads[x] = b.reads.get(x, True) and here and same
                fusion.readers.setdefault(x, set()).add(b.number)
        fusion.readers.update({v: set() for v in values})
        group.version += 1
        group.writes |= {x for x in self.leaves if x not in group.reads}
        group.writes.difference_update([v for v in values if v not in fusion.outside])
        _keep_needed(fusion, group)
        return True


def _keep_needed(fusion: Fusion, group: KernelGroup) -> None:
    """Leave out of a group what none of its results needs."""
    needed: set[int] = set()
    reads: set[Var] = set()
    stack: list[Atom] = [*group.writes]
    while stack:
        x = stack.pop()
        if not isinstance(x, Var):
            continue
        if x in group.reads:
            reads.add(x)
            continue
        n = fusion.position[x]
        if n not in needed:
            needed.add(n)
            stack.extend(fusion.eqns[n].invars)
    group.eqns &= needed
    for v in group.reads.keys() - reads:
        del group.reads[v]
        group.ways.pop(v, None)
        fusion.readers[v].discard(group.number)
    if not group.writes:
        del fusion.groups[group.number]
