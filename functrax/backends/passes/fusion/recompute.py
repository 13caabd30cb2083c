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
from functrax.backends.passes.fusion.kernel_views import HERE, add_ways, one_after_another
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
        for v in sorted(group.writes, key=lambda v: -fusion.position[v]):
            copied = _Copied(fusion, group, v)
            if copied.saves():
                changed = copied.apply() or changed
            elif copied.possible and copied.sources:
                shared.setdefault(frozenset(copied.sources), []).append(copied)
        for several in shared.values():
            if len(several) > 1 and _save_together(several):
                for copied in several:
                    now = _Copied(fusion, group, copied.v)  # others may have become its readers
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
    """What it takes to let the readers of a value compute it.

    Attributes:
      readers: the groups that read it.
      eqns: the equations to copy.
      leaves: what they start from, and whether at the same points.
      sources: of these the results of dear equations, which the group may not store yet.
      possible: whether it can be done.
    """

    def __init__(self, fusion: Fusion, group: KernelGroup, v: Var) -> None:
        self.fusion, self.group, self.v = fusion, group, v
        self.readers = [fusion.groups[n] for n in fusion.readers.get(v, ())]
        self.eqns: set[int] = set()
        self.leaves: dict[Var, bool] = {}
        self.sources: set[Var] = set()
        closed = [b.update or (b.center is not None and not b.reads[v]) for b in self.readers]
        self.possible = bool(self.readers) and not group.update and not any(closed)
        self.possible = self.possible and self._collect() and bool(self.eqns)
        sizes = [b.size + self._times(b) * len(self.eqns) for b in self.readers]
        self.possible = self.possible and max(sizes) <= MAX_COMPUTED

    def _collect(self) -> bool:
        """Find the equations; whether they are few and cheap."""
        group, fusion = self.group, self.fusion
        stack: list[tuple[Atom, bool]] = [(self.v, True)]
        seen: set[tuple[Var, bool]] = set()
        while stack:
            x, here = stack.pop()
            if not isinstance(x, Var) or (x, here) in seen:
                continue
            seen.add((x, here))
            n = fusion.position.get(x, -1)
            known = x in group.reads or (x in group.writes and x is not self.v)
            if known or (n in group.eqns and is_sum(fusion.eqns[n])):
                self.leaves[x] = self.leaves.get(x, True) and here
                continue
            eqn = fusion.eqns[n]
            if n in group.eqns:
                if is_dear(eqn) and x.aval.shape == self.v.aval.shape:
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
        return self.v not in self.leaves

    def saves(self) -> bool:
        """Whether it is possible, and saves time."""
        if not self.possible:
            return False
        saved = self.dropped()
        for b in self.readers:
            saved -= moved_ns(x for x in self.leaves if x not in b.reads)
        written = self.group.writes | self.group.reads.keys()
        return saved > moved_ns(x for x in self.leaves if x not in written)

    def dropped(self) -> float:
        """Nanoseconds to move what is no longer moved, less those to compute it."""
        v = self.v
        saved = moved_ns([v] * (len(self.readers) + (v not in self.fusion.outside)))
        for b in self.readers:
            points = about(v.aval.shape)
            if not b.reads[v]:
                points = max(points, about(b.space.full))
            saved -= self._times(b) * points * target().element_ns * len(self.eqns)
        return saved

    def _times(self, b: KernelGroup) -> int:
        """At how many places a reader needs the value for one of its points."""
        return len(b.ways.get(self.v, HERE))

    def apply(self) -> bool:
        """Copy the equations into the readers; whether rewrites were left for that."""
        fusion, group, v = self.fusion, self.group, self.v
        if not fusion.rewrites.allow("compute again", fusion.eqns[fusion.position[v]]):
            return False
        for b in self.readers:
            here = b.reads.pop(v)
            ways = b.ways.pop(v, HERE)
            b.eqns |= self.eqns
            b.size += len(self.eqns) * len(ways)
            b.version += 1
            for x, same in self.leaves.items():
                if not (here and same):
                    step = HERE if same else frozenset([(fusion.views.step(v, x),)])
                    add_ways(b, x, one_after_another(ways, step))
                b.reads[x] = b.reads.get(x, True) and here and same
                fusion.readers.setdefault(x, set()).add(b.number)
        fusion.readers[v] = set()
        group.version += 1
        group.writes |= {x for x in self.leaves if x not in group.reads}
        if v not in fusion.outside:
            group.writes.discard(v)
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
