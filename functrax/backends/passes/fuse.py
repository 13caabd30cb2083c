"""Fusion: which equations share a kernel.

What enters: a program of elementwise, reindex and reindex_reduce equations among others.  What
leaves: the same program with its fusible equations in ``fused`` groups, each of which satisfies the
contract of ``backends/passes/groups.py``.

The cost of a partition is the number of bytes that its kernels read and write, plus ``LAUNCH`` for
each kernel, plus what is computed more often than once.  Fusion starts with one group for each
equation and merges, as long as that lowers the cost, the two groups whose merging saves most:

- a producer with its consumer, whose value then needs not be written, or not be read again;
- two groups that read the same array;
- in the end, small groups that have nothing in common but their space, which saves a launch.

A *view* (an equation that only reindexes) is never a value of its own: every group that needs one
has its own copy, which costs an address.  What a merge must keep:

- there is one iteration space (``Space`` of ``fuse_groups.py``): the shape of all values but those
  in rows of a reduction, which have the shape of its result;
- a reduction's result is used in its row only, after the row was read: in the same kernel a row
  is read again (softmax), if it is small enough to stay in the cache;
- groups depend on one another in one direction only.

Every edge that stays has a reason, which :attr:`Fusion.reasons` tells.  Start at :func:`fuse`.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Iterable
from typing import TypeAlias

from functrax.backends.passes.fuse_groups import (
    MAX_GROUP,
    Candidate,
    KernelGroup,
    Shape,
    Space,
    is_fusible,
    is_view,
    nbytes,
    squeezed,
    work_of,
)
from functrax.backends.passes.fuse_views import Views
from functrax.backends.passes.groups import Group, fused, grouped
from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.jaxpr import Eqn, Jaxpr, Var

Barred: TypeAlias = frozenset[tuple[int, int]]

#: Under what a program of groups remembers why pairs of its equations, given by their positions,
#: share no kernel.
REASONS = "reasons why groups stay apart"
#: What starting a kernel costs, in bytes that could be moved meanwhile.
LAUNCH = 4096
#: The most bytes of a row that is read again in the same kernel.
MAX_ROW = 256 * 1024
#: Groups that move fewer bytes are merged with unrelated ones, of which each tries so many others.
SMALL, UNRELATED = 32 * LAUNCH, 6
#: How many groups a search for a path between unrelated ones looks at.
SEARCH = 256
#: Programs of at most so many equations are partitioned again, so often, with equations barred from
#: sharing a kernel, if the cost is more than so many times what is needed at the least.
TRIED, ROUNDS, ENOUGH = 24, 3, 1.1


def fuse(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with its fusible equations in groups."""
    return Fusion(jaxpr, rewrites, _best_barred(jaxpr)).program()


def _best_barred(jaxpr: Jaxpr) -> Barred:
    """Pairs of equations of a small program that are better off in different kernels.

    They are found by taking back the merges of a partition, one at a time.
    """
    if len(jaxpr.eqns) > TRIED:
        return frozenset()
    best = Fusion(jaxpr, Rewrites())
    best.merge()
    for _ in range(ROUNDS):
        if len(best.groups) < 2 or best.cost() <= ENOUGH * best.least_cost():
            break
        others = [Fusion(jaxpr, Rewrites(), best.barred | {pair}) for pair in best.merged]
        for other in others:
            other.merge()
        other = min(others, key=Fusion.cost, default=best)
        if other.cost() >= best.cost():
            break
        best = other
    return best.barred


class Fusion:
    """The work on one program.

    Attributes:
      barred: pairs of equations that must not share a kernel.
      merged: the groups that were merged, in order.
      reasons: for each pair of groups that stayed apart, by the numbers of their first equations,
        why.
    """

    def __init__(self, jaxpr: Jaxpr, rewrites: Rewrites, barred: Barred = frozenset()) -> None:
        self.jaxpr = jaxpr
        self.rewrites = rewrites
        self.barred = barred
        self.merged: list[tuple[int, int]] = []
        self.recomputed = 0.0
        self.eqns = jaxpr.eqns
        self.fusible = [is_fusible(e) for e in self.eqns]
        self.position = {v: n for n, e in enumerate(self.eqns) for v in e.outvars}
        self.views = Views(self.eqns, self.fusible, self.position)
        self.groups: dict[int, KernelGroup] = {}
        self.group_of: dict[int, int] = {}  # as they were before any merge
        self.readers: dict[Var, set[int]] = {}  # groups that read a value
        self.outside: set[Var] = {v for v in jaxpr.outvars if isinstance(v, Var)}
        self.successors: dict[int, set[int]] = {}
        self.predecessors: dict[int, set[int]] = {}
        #: Every edge leads to a larger level.
        self.level: dict[int, int] = {}
        self.last_effect: int | None = None
        self.reasons: dict[tuple[int, int], str] = {}
        self.heap: list[Candidate] = []

    # ---- the groups of one equation each ------------------------------------------------------

    def program(self) -> Jaxpr:
        """Merge, and write the program of groups."""
        self.merge()
        return self._written()

    def merge(self) -> None:
        """Find the groups."""
        self._prepare()
        if self._merge_all():
            self._merge_unrelated()

    def cost(self) -> float:
        """The cost of the groups."""
        moved = sum(nbytes(v) for g in self.groups.values() for v in (*g.reads, *g.writes))
        return moved + LAUNCH * len(self.groups) + self.recomputed

    def least_cost(self) -> float:
        """What one kernel for everything would cost."""
        results = {v for v in self.jaxpr.outvars if isinstance(v, Var)}
        return LAUNCH + sum(map(nbytes, {*self.jaxpr.invars, *results}))

    def _prepare(self) -> None:
        self.outside |= self._needed_by_others()
        clusters = {} if len(self.eqns) <= TRIED else self.views.clusters()
        for n, eqn in enumerate(self.eqns):
            if not self.fusible[n] or (is_view(eqn) and not self._is_value(eqn)):
                continue
            number = clusters.get(n, n)
            group = self.groups.get(number)
            if group is None:
                group = self.groups[number] = KernelGroup(number, eqn)
                group.eqns = {n}  # the number is that of the last equation
            else:
                group.eqns.add(n)
                group.writes.update(eqn.outvars)
                group.work += work_of(eqn)
            self.group_of[n] = number
            for v, here in self.views.reads_of(eqn).items():
                if v not in group.writes:
                    group.reads[v] = group.reads.get(v, True) and here
        self._find_readers()
        self._connect()
        self._find_levels()

    def _find_readers(self) -> None:
        for number, group in self.groups.items():
            for v in group.reads:
                self.readers.setdefault(v, set()).add(number)
        for group in self.groups.values():
            if len(group.eqns) > 1:
                group.writes = {v for v in group.writes if v in self.outside or v in self.readers}

    def _needed_by_others(self) -> set[Var]:
        """Values that something else than a kernel uses."""
        needed: set[Var] = set()
        for n, eqn in enumerate(self.eqns):
            if not self.fusible[n]:
                needed.update(x for x in eqn.invars if isinstance(x, Var))
            elif eqn.primitive.name == "scatter" and isinstance(eqn.invars[0], Var):
                needed.add(eqn.invars[0])  # its memory is updated, or copied
        return needed

    def _is_value(self, eqn: Eqn) -> bool:
        return any(v in self.outside for v in eqn.outvars)

    def _connect(self) -> None:
        """Edges between groups, and other equations, which are nodes that are never merged."""
        for n, eqn in enumerate(self.eqns):
            if n in self.group_of:
                self._add_node(self.group_of[n])
            elif not (self.fusible[n] and is_view(eqn)):
                self._add_node(n)
        for number, group in self.groups.items():
            for v in group.reads:
                self._add_edges(v, number)
        for n, eqn in enumerate(self.eqns):
            if n in self.predecessors and n not in self.group_of:
                for x in eqn.invars:
                    if isinstance(x, Var):
                        self._add_edges(x, n)
                if eqn.primitive.has_side_effects(dict(eqn.params)):
                    self._keep_order(n)

    def _add_node(self, n: int) -> None:
        self.predecessors.setdefault(n, set())
        self.successors.setdefault(n, set())

    def _keep_order(self, n: int) -> None:
        """Side effects happen in the order of the program."""
        if self.last_effect is not None:
            self.successors[self.last_effect].add(n)
            self.predecessors[n].add(self.last_effect)
        self.last_effect = n

    def _add_edges(self, v: Var, n: int) -> None:
        """Edges from what computes a value; for a view that is no value, from what it reads."""
        source = self.position.get(v)
        if source is None:
            return
        node = self.group_of.get(source, source)
        if node in self.predecessors:
            if node != n:
                self.successors[node].add(n)
                self.predecessors[n].add(node)
            return
        for x in self.eqns[source].invars:
            if isinstance(x, Var):
                self._add_edges(x, n)

    # ---- merging ------------------------------------------------------------------------------

    def _merge_all(self) -> bool:
        """Merge what is related, the best first; whether rewrites are left."""
        for n in list(self.groups):
            self._propose_all(n)
        while self.heap:
            best = heapq.heappop(self.heap)
            a, b = self.groups.get(best.left), self.groups.get(best.right)
            if a is None or b is None or best.versions != (a.version, b.version):
                continue
            siblings = b.number not in self.successors[a.number]
            if self._would_cycle(a.number, b.number) or (
                siblings and self._would_cycle(b.number, a.number)
            ):
                self.reasons[a.number, b.number] = "cycle: another kernel lies between them"
                continue
            if not self.rewrites.allow("fuse", self.eqns[b.number]):
                return False
            self._merge(a, b)
        return True

    def _merge_unrelated(self) -> None:
        """Merge small groups that run over the same points."""
        near: dict[Shape, list[int]] = {}
        for n in sorted(self.groups):
            if not self._is_small(self.groups[n]):
                continue
            space = self.groups[n].space
            shapes = {space.full} if space.row is None else {space.full, space.row}
            tried = {m for shape in shapes for m in near.get(shape, ())[-UNRELATED:]}
            for m in sorted(tried):
                if m in self.groups and self._may_merge_unrelated(m, n):
                    if not self.rewrites.allow("fuse", self.eqns[n]):
                        return
                    self._merge(self.groups[m], self.groups[n])
            for shape in shapes:
                near.setdefault(shape, []).append(n)

    def _is_small(self, group: KernelGroup) -> bool:
        return not group.update and sum(map(nbytes, (*group.reads, *group.writes))) <= SMALL

    def _may_merge_unrelated(self, m: int, n: int) -> bool:
        a, b = self.groups[m], self.groups[n]
        if m in self.successors[n] or n in self.successors[m]:
            return False  # it was tried before
        if self._merged_space(a, b)[0] is None or not self._is_small(b):
            return False
        return not (self._would_cycle(m, n, SEARCH) or self._would_cycle(n, m, SEARCH))

    def _propose_all(self, n: int) -> None:
        group = self.groups[n]
        others = {m for m in self.predecessors[n] if m in self.groups}
        others |= {m for m in self.successors[n] if m in self.groups}
        for v in group.reads:
            readers = self.readers.get(v, ())
            if len(readers) <= 32:
                others.update(readers)
        others.discard(n)
        for m in others:
            self._propose(m, n)

    def _propose(self, m: int, n: int) -> None:
        a, b = self.groups[m], self.groups[n]
        if m in self.successors[n] or (n not in self.successors[m] and n < m):
            a, b = b, a  # a comes first
        merged, reason = self._merged_space(a, b)
        if merged is None:
            self.reasons[a.number, b.number] = reason
            return
        saved = self._saved(a, b)
        if saved <= 0:
            self.reasons[a.number, b.number] = "cost: computing again is dearer than loading"
            return
        versions = (a.version, b.version)
        heapq.heappush(self.heap, Candidate(-saved, a.number, b.number, versions))

    def _saved(self, a: KernelGroup, b: KernelGroup) -> float:
        """Bytes that a merge saves."""
        saved = float(LAUNCH)
        for v in b.reads:
            if v in a.writes:
                saved += nbytes(v)
                if v not in self.outside and self.readers[v] == {b.number}:
                    saved += nbytes(v)
            elif v in a.reads:
                saved += nbytes(v)
        return saved - self._recomputed_by(a, b)

    def _recomputed_by(self, a: KernelGroup, b: KernelGroup) -> float:
        """What it costs that ``b`` reads values of ``a`` through views, if they are merged."""
        views = [v for v, here in b.reads.items() if v in a.writes and not here]
        return sum(self._recomputed(a, v, b) for v in views if not self._is_reduced(a, v))

    def _recomputed(self, a: KernelGroup, v: Var, b: KernelGroup) -> float:
        """What it costs to compute a value at every point that reads it through a view."""
        times = math.prod(b.space.full) / max(v.aval.size, 1)
        if times <= 1:
            return 0.0
        read_again = sum(nbytes(u) for u in a.reads) - nbytes(v)
        return (times - 1) * (a.work * v.aval.size) + max(read_again, 0) * 0.25

    def _merged_space(self, a: KernelGroup, b: KernelGroup) -> tuple[Space | None, str]:
        """The iteration space of two groups as one, or why they cannot be one."""
        if len(a.eqns) + len(b.eqns) > MAX_GROUP:
            return None, f"size: more than {MAX_GROUP} equations"
        if any({p, q} <= a.eqns | b.eqns for p, q in self.barred):
            return None, "cost: other partners are better"
        if a.update:
            return None, "update: a scatter ends its kernel"
        through = [v for v in b.reads if v in a.writes]
        if b.update:
            return self._into_update(a, b, through)
        space, reason = self._common_space(a, b, through)
        if space is None:
            return None, reason
        for v in self._written_after(a, b):
            if not space.holds(v.aval.shape):
                return None, f"shape: {v.aval.str_short()} is needed outside"
        return space, ""

    def _into_update(
        self, a: KernelGroup, b: KernelGroup, through: list[Var]
    ) -> tuple[Space | None, str]:
        if not through:
            return None, "update: nothing else shares the kernel of a scatter"
        if a.space.row is not None:
            return None, "reduction: its result is complete only after its kernel"
        if self._written_after(a, b) != b.writes:
            return None, "update: a value that is also needed elsewhere"
        return b.space, ""

    def _common_space(
        self, a: KernelGroup, b: KernelGroup, through: list[Var]
    ) -> tuple[Space | None, str]:
        if a.space.row is None and b.space.row is None:
            if through or a.space.full == b.space.full:
                return b.space, ""
            return None, "shape: different iteration spaces"
        if a.space.row is None:
            return self._producer_of_reduction(a, b, through)
        return self._after_reduction(a, b, through)

    def _producer_of_reduction(
        self, a: KernelGroup, b: KernelGroup, through: list[Var]
    ) -> tuple[Space | None, str]:
        """``a`` reduces nothing, ``b`` does."""
        if through or a.space.full in (b.space.full, b.space.row):
            return b.space, ""
        return None, "shape: different iteration spaces"

    def _after_reduction(
        self, a: KernelGroup, b: KernelGroup, through: list[Var]
    ) -> tuple[Space | None, str]:
        """``a`` reduces; ``b`` may use the results in their rows, or read the rows again."""
        again = False
        for v in through:
            if self._is_reduced(a, v):
                how = self._use_of_row(a, b, v)
                if how is None:
                    return None, "reduction: its result is used outside its row"
                again = again or how == "full"
            elif not b.reads[v] or b.space.full != a.space.full:
                return None, "reduction: a value of its rows is used elsewhere"
        if b.space.row is not None:
            if b.space.operand != a.space.operand:
                return None, "reduction: along other axes"
        elif b.space.full not in (a.space.full, a.space.row):
            return None, "shape: different iteration spaces"
        if again and not self._row_fits(a, b):
            return None, "row: too long to be read again from the cache"
        return a.space, ""

    def _is_reduced(self, a: KernelGroup, v: Var) -> bool:
        """Whether a value of a group has one element for each row of its reductions."""
        return squeezed(v.aval.shape) == a.space.row != a.space.full

    def _use_of_row(self, a: KernelGroup, b: KernelGroup, v: Var) -> str | None:
        """How ``b`` uses a value of one element for each row: in ``row`` s, ``full``, or not so."""
        if b.reads[v]:
            return "row" if b.space.row is None or b.space.operand == a.space.operand else None
        return "full" if self._spread_only(a, b, v) else None

    def _spread_only(self, a: KernelGroup, b: KernelGroup, v: Var) -> bool:
        """Whether every view by which ``b`` reads ``v`` spreads it over the rows of ``a``."""
        assert a.space.operand is not None
        shape, axes = a.space.operand
        kept = [d for d in range(len(shape)) if d not in axes]
        for n in b.eqns:
            for x in self.eqns[n].invars:
                if not self.views.spreads(x, v, shape, kept):
                    return False
            if is_view(self.eqns[n]) and not self.views.spreads(
                self.eqns[n].outvars[0], v, shape, kept
            ):
                return False
        return True

    def _row_fits(self, a: KernelGroup, b: KernelGroup) -> bool:
        assert a.space.operand is not None
        shape, axes = a.space.operand
        length = math.prod(shape[d] for d in axes)
        width = 0
        for v in {*a.reads, *b.reads}:
            if v.aval.size >= math.prod(shape):
                width += v.aval.dtype.itemsize
        return length * width <= MAX_ROW

    def _written_after(self, a: KernelGroup, b: KernelGroup) -> set[Var]:
        """What a merged group writes."""
        inside = {a.number, b.number}
        kept = set(b.writes)
        for v in a.writes:
            if v in self.outside or not self.readers.get(v, set()) <= inside:
                kept.add(v)
        return kept

    def _would_cycle(self, a: int, b: int, most: int = sys.maxsize) -> bool:
        """Whether a path leads from ``a`` to ``b`` through another group.

        After looking at ``most`` groups the answer is that one might.
        """
        end = self.level[b]
        stack = [s for s in self.successors[a] if s != b and self.level[s] < end]
        seen = set(stack)
        while stack:
            n = stack.pop()
            for s in self.successors[n]:
                if s == b:
                    return True
                if s not in seen and self.level[s] < end:
                    seen.add(s)
                    stack.append(s)
        return False

    def _find_levels(self) -> None:
        """Number all nodes so that every edge leads to a larger number."""
        waiting = {n: len(p) for n, p in self.predecessors.items()}
        ready = [n for n, count in waiting.items() if count == 0]
        self.level = dict.fromkeys(ready, 0)
        while ready:
            n = ready.pop()
            for s in self.successors[n]:
                self.level[s] = max(self.level.get(s, 0), self.level[n] + 1)
                waiting[s] -= 1
                if waiting[s] == 0:
                    ready.append(s)

    def _raise_level(self, n: int, level: int) -> None:
        """Give a node at least this level, and those that follow it larger ones."""
        stack = [(n, level)]
        while stack:
            n, level = stack.pop()
            if self.level[n] >= level:
                continue
            self.level[n] = level
            stack.extend((s, level + 1) for s in self.successors[n] if self.level[s] <= level)

    def _merge(self, a: KernelGroup, b: KernelGroup) -> None:
        """Put ``a`` into ``b``."""
        space, _ = self._merged_space(a, b)
        assert space is not None
        self.merged.append((a.number, b.number))
        self.recomputed += self._recomputed_by(a, b)
        writes = self._written_after(a, b)
        moved = any(
            not b.reads[w] and not self._is_reduced(a, w) for w in a.writes & b.reads.keys()
        )
        for v, here in a.reads.items():
            readers = self.readers[v]
            readers.discard(a.number)
            readers.add(b.number)
            b.reads[v] = b.reads.get(v, True) and here and not moved
        for v in a.writes:
            if b.reads.pop(v, None) is not None:
                self.readers[v].discard(b.number)
        b.space, b.writes = space, writes
        b.eqns |= a.eqns
        b.work += a.work
        b.version += 1
        self._rewire(a.number, b.number)
        level = max(self.level.pop(a.number), self.level[b.number])
        self.level[b.number] = -1
        self._raise_level(b.number, level)
        del self.groups[a.number]
        self._propose_all(b.number)

    def _rewire(self, a: int, b: int) -> None:
        for p in self.predecessors.pop(a):
            self.successors[p].discard(a)
            if p != b:
                self.successors[p].add(b)
                self.predecessors[b].add(p)
        for s in self.successors.pop(a):
            self.predecessors[s].discard(a)
            if s != b:
                self.predecessors[s].add(b)
                self.successors[b].add(s)
        self.predecessors[b].discard(a)
        self.successors[b].discard(a)

    # ---- the program of groups ----------------------------------------------------------------

    def _written(self) -> Jaxpr:
        order = list(self._in_order())
        eqns = [self._equation(n) for n in order]
        program = Jaxpr(
            (), self.jaxpr.invars, self.jaxpr.outvars, eqns, self.jaxpr.name, self.jaxpr.arg_names
        )
        place = {n: k for k, n in enumerate(order)}
        program.memo[REASONS] = {
            (place[a], place[b]): reason
            for (a, b), reason in self.reasons.items()
            if a in place and b in place
        }
        return program

    def _in_order(self) -> Iterable[int]:
        """Groups and other equations, each after those that it depends on."""
        waiting = {n: len(p) for n, p in self.predecessors.items()}
        ready = [n for n, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        while ready:
            n = heapq.heappop(ready)
            yield n
            for s in self.successors[n]:
                waiting[s] -= 1
                if waiting[s] == 0:
                    heapq.heappush(ready, s)

    def _equation(self, n: int) -> Eqn:
        group = self.groups.get(n)
        if group is None:
            eqn = self.eqns[n]
            if isinstance(eqn.primitive, Group):
                return eqn
            return with_programs(eqn, lambda inner: fuse(inner, self.rewrites))
        inside = self.views.with_views(group.eqns, group.reads)
        eqns = [self.eqns[k] for k in inside]
        outputs = [v for e in eqns for v in e.outvars if v in group.writes]
        return grouped(fused, eqns, outputs, _name(eqns), self.eqns[n].source)


def _name(eqns: list[Eqn]) -> str:
    """A name for a group: what it does, the last first."""
    names = [e.primitive.name for e in eqns if not is_view(e)] or [eqns[-1].primitive.name]
    shown = list(dict.fromkeys(reversed(names)))[:3]
    return "_".join(shown)
