"""Fusion: which equations share a kernel.

What enters: a program of elementwise, reindex and reindex_reduce equations among others.  What
leaves: the same program with its fusible equations in ``fused`` groups, each of which satisfies the
contract of ``backends/passes/groups.py``.

The cost of a partition, in nanoseconds of ``backends/cost.py``, is that of the bytes that its
kernels read and write, of a launch for each kernel, and of what is computed more often than once.
Fusion starts with one group for each equation and merges, as long as that lowers the cost, the two
groups whose merging saves most:

- a producer with its consumer, whose value then needs not be written, or not be read again;
- two groups that read the same array;
- in the end, small groups that have nothing in common but their space, which saves a launch.

A *view* (an equation that only reindexes) is never a value of its own: every group that needs one
has its own copy, which costs an address.  A merge must keep one iteration space
(``kernel_spaces.py``), and groups that depend on one another in one direction only.

Every edge that stays has a reason, which :attr:`Fusion.reasons` tells.  Start at :func:`fuse`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from functrax.backends.passes.fusion.contraction_groups import (
    contraction_kernels_take,
    flat,
)
from functrax.backends.passes.fusion.kernel_graph import KernelGraph
from functrax.backends.passes.fusion.kernel_groups import (
    FEW,
    SEARCH,
    TOO_LARGE,
    KernelGroup,
    Shape,
    all_fusible,
    is_dear_to_copy,
    is_view,
    loads,
    moved_ns,
)
from functrax.backends.passes.fusion.kernel_spaces import LASTING, merged_space
from functrax.backends.passes.fusion.kernel_views import Views, recomputed, take_evaluations
from functrax.backends.passes.fusion.prices import PRICES, REASONS, Price
from functrax.backends.passes.fusion.recompute import recompute
from functrax.backends.passes.fusion.stored_views import views_to_store
from functrax.backends.passes.groups import Group, contraction, fused, grouped
from functrax.backends.passes.inner import once_each, with_programs
from functrax.backends.passes.rewrites import EFFORT, Rewrites
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.mapped import scatter

Takes: TypeAlias = Callable[[Jaxpr], bool]
_NO_PRICES: Mapping[Var, Price] = MappingProxyType({})


def fuse(jaxpr: Jaxpr, rewrites: Rewrites, takes: Takes = contraction_kernels_take) -> Jaxpr:
    """The program with its fusible equations in groups.

    Args:
      jaxpr: the program.
      rewrites: counts the merges.
      takes: whether there are kernels for a contraction; see
        ``passes/fusion/contraction_groups.py``.
    """
    fusion = Fusion(jaxpr, rewrites, takes)
    fusion.merge()
    while stored := views_to_store(fusion):
        fusion = Fusion(jaxpr, rewrites, takes, {**fusion.stored, **stored})
        fusion.merge()
    return fusion.written()


class Fusion:
    """The work on one program.

    Attributes:
      stored: views that are to be values, which ``views_to_store`` found, and why.
      prices: of values that are computed more often than once.
      reasons: for each pair of groups that stayed apart, by the numbers of their first equations,
        why.
      apart: for each group those that no merge brings nearer to it, and why.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        rewrites: Rewrites,
        takes: Takes,
        stored: Mapping[Var, Price] = _NO_PRICES,
    ) -> None:
        self.jaxpr = jaxpr
        self.rewrites = rewrites
        self.eqns = jaxpr.eqns
        self.fusible = all_fusible(self.eqns, takes)
        self.views = Views(self.eqns, self.fusible)
        self.position = self.views.position
        self.groups: dict[int, KernelGroup] = {}
        self.group_of: dict[int, int] = {}  # as they were before any merge
        self.merged_into: dict[int, int] = {}
        self.readers: dict[Var, set[int]] = {}  # groups that read a value
        self.stored = stored
        self.outside: set[Var] = {v for v in jaxpr.outvars if isinstance(v, Var)}
        self.graph = KernelGraph()
        self.reasons: dict[tuple[int, int], str | Price] = {}
        self.apart: dict[int, dict[int, str]] = {}
        self.prices: dict[Var, Price] = {}
        self.inner = once_each(lambda program: fuse(program, rewrites))
        #: Minus what a merge saves, the two groups, and their versions then.
        self.heap: list[tuple[float, int, int, int, int]] = []

    # ---- the groups of one equation each ------------------------------------------------------

    def merge(self) -> None:
        """Find the groups."""
        self._prepare()
        if not self._merge_all():
            return
        for _ in range(EFFORT):  # what one kernel computes again, another one may need to
            if not recompute(self):
                break
            self._connect()
            if not self._merge_all():
                return
        self._merge_unrelated()

    def _prepare(self) -> None:
        self.outside |= self._needed_by_others() | self.stored.keys()
        self.views.store(self.outside)
        clusters = {} if len(self.eqns) <= FEW else self.views.clusters()
        for n, eqn in enumerate(self.eqns):
            if not self.fusible[n] or (is_view(eqn) and self.outside.isdisjoint(eqn.outvars)):
                continue
            number = clusters.get(n, n)
            group = self.groups.get(number)
            if group is None:
                group = self.groups[number] = KernelGroup(number, eqn)
            group.add(n, eqn, self.views.work_of(eqn))
            self.group_of[n] = number
            reads = self.views.reads_of(eqn)
            if group.ways or not all(reads.values()):
                self.views.add_ways_of(group, eqn, reads)
            for v, here in reads.items():
                if v not in group.writes:
                    group.reads[v] = group.reads.get(v, True) and here
        for number, group in self.groups.items():
            for v in group.reads:
                self.readers.setdefault(v, set()).add(number)
        for group in self.groups.values():
            if len(group.eqns) > 1:
                group.writes = {v for v in group.writes if v in self.outside or v in self.readers}
            group.loads = loads(group.reads)
        self._connect()

    def _needed_by_others(self) -> set[Var]:
        """Values that something else than a kernel uses."""
        needed: set[Var] = set()
        for n, eqn in enumerate(self.eqns):
            if not self.fusible[n]:
                needed.update(x for x in eqn.invars if isinstance(x, Var))
            elif eqn.primitive is contraction:
                needed.update(x for x in eqn.invars if isinstance(x, Var) and x in self.views.made)
            elif eqn.primitive is scatter and isinstance(eqn.invars[0], Var):
                needed.add(eqn.invars[0])  # its memory is updated, or copied
                read = eqn.invars[1]
                if isinstance(read, Var) and read in self.views.made:
                    at = self.position[read]
                    if is_dear_to_copy(eqn.invars[0]) and self.views.reads_elsewhere([at], eqn):
                        needed.add(read)
        return needed

    def _connect(self) -> None:
        """Edges between groups, and other equations, which are nodes that are never merged."""
        self.graph = KernelGraph()
        last_effect: int | None = None
        others = [
            n
            for n, eqn in enumerate(self.eqns)
            if n not in self.group_of and not (self.fusible[n] and is_view(eqn))
        ]
        for n in (*self.groups, *others):
            self.graph.add_node(n)
        for number, group in self.groups.items():
            for v in group.reads:
                self.add_edges(v, number)
        for n in others:
            eqn = self.eqns[n]
            for x in eqn.invars:
                self.add_edges(x, n)
            if eqn.primitive.has_side_effects(dict(eqn.params)):
                if last_effect is not None:  # they happen in the order of the program
                    self.graph.add_edge(last_effect, n)
                last_effect = n
        self.graph.find_levels()

    def add_edges(self, v: Atom, n: int) -> None:
        """Edges from what computes a value; for a view that is no value, from what it reads."""
        source = self.position.get(v) if isinstance(v, Var) else None
        if source is None:
            return
        node = self.group_of.get(source, source)
        while node in self.merged_into:
            node = self.merged_into[node]
        if node in self.graph.predecessors:
            self.graph.add_edge(node, n)
            return
        for x in self.eqns[source].invars:
            self.add_edges(x, n)

    # ---- merging ------------------------------------------------------------------------------

    def _merge_all(self) -> bool:
        """Merge what is related, the best first; whether rewrites are left."""
        self.apart = {n: {} for n in self.groups}
        for n in list(self.groups):
            self._propose_all(n, n)
        while self.heap:
            _, left, right, *versions = heapq.heappop(self.heap)
            a, b = self.groups.get(left), self.groups.get(right)
            if a is None or b is None or versions != [a.version, b.version]:
                continue
            siblings = b.number not in self.graph.successors[a.number]
            if self.graph.has_detour(a.number, b.number) or (
                siblings and self.graph.has_detour(b.number, a.number)
            ):
                self.reasons[a.number, b.number] = "cycle: another kernel lies between them"
                continue
            if not self.rewrites.allow("fuse", self.eqns[b.number]):
                return False
            self._merge(a, b)
        return True

    def _merge_unrelated(self) -> None:
        """Merge small groups that run over the same points: those that one thread does."""
        near: dict[Shape, list[int]] = {}
        for n in sorted(self.groups):
            if not self._is_small(self.groups[n]):
                continue
            space = self.groups[n].space
            shapes = {space.full} if space.row is None else {space.full, space.row}
            tried = {m for shape in shapes for m in near.get(shape, ())[-EFFORT:]}
            for m in sorted(tried):
                if m in self.groups and self._may_merge_unrelated(m, n):
                    if not self.rewrites.allow("fuse", self.eqns[n]):
                        return
                    self._merge(self.groups[m], self.groups[n])
            for shape in shapes:
                near.setdefault(shape, []).append(n)

    def _is_small(self, group: KernelGroup) -> bool:
        closed = group.update or group.center is not None
        return not closed and moved_ns((*group.reads, *group.writes)) <= target().wake_ns

    def _may_merge_unrelated(self, m: int, n: int) -> bool:
        a, b, graph = self.groups[m], self.groups[n], self.graph
        if m in graph.successors[n] or n in graph.successors[m]:
            return False  # it was tried before
        if len(a.eqns) + len(b.eqns) > FEW:
            return False
        space, _ = merged_space(self.views, a, b, lambda: self._written_after(a, b))
        if space is None or not self._is_small(b):
            return False
        return not (graph.has_detour(m, n, SEARCH) or graph.has_detour(n, m, SEARCH))

    def _propose_all(self, n: int, first: int = 0) -> None:
        """Propose merges of a group with those near it whose numbers are not below ``first``."""
        group = self.groups[n]
        others = self.graph.predecessors[n] | self.graph.successors[n]
        others &= self.groups.keys()
        if group.center is None:
            # A contraction shares its kernel with what uses its result, or gives its operands.
            several = [self.readers[v] for v in group.reads if len(self.readers[v]) <= 2 * FEW]
            siblings = set().union(*several) - {n}
            others.update([m for m in siblings if self.groups[m].center is None])
        apart = self.apart[n]
        for m in others:
            if m >= first and m not in apart:
                self._propose(m, n)

    def _propose(self, m: int, n: int) -> None:
        a, b = self.groups[m], self.groups[n]
        if m in self.graph.successors[n] or (n not in self.graph.successors[m] and n < m):
            a, b = b, a  # a comes first
        merged, reason = merged_space(self.views, a, b, lambda: self._written_after(a, b))
        if merged is None:
            self.reasons[a.number, b.number] = reason
            if reason in LASTING:
                self.apart[m][n] = self.apart[n][m] = reason
            return
        stored, times, again = self._costs(a, b)
        saved = stored - again
        if saved <= 0:
            found = TOO_LARGE if again is math.inf else Price(times, again, stored)
            self.reasons[a.number, b.number] = found
            return
        heapq.heappush(self.heap, (-saved, a.number, b.number, a.version, b.version))

    def _costs(self, a: KernelGroup, b: KernelGroup) -> tuple[float, int, float]:
        """What two groups cost while they are apart: nanoseconds that a merge saves.

        And at how many places a merge computes values, and the nanoseconds that this takes.
        """
        stored = target().kernel_ns
        views = False
        for v, here in b.reads.items():
            if v in a.writes:
                alone = len(self.readers[v]) == 1 and v not in self.outside  # b is the only reader
                stored += moved_ns((v, v) if alone else (v,))
                views = views or not here
            elif v in a.reads:
                stored += moved_ns((v,))
        times, again = recomputed(a, b, self._written_after(a, b)) if views else (1, 0.0)
        if b.space.row is not None and len(a.eqns) == 1:
            again += self.views.unsplit_ns(self.eqns[a.number])
        return stored, times, again

    def _written_after(self, a: KernelGroup, b: KernelGroup) -> set[Var]:
        """What a merged group writes."""
        inside = {a.number, b.number}
        needed = {v for v in a.writes if not self.readers.get(v, set()) <= inside}
        return b.writes | needed | (a.writes & self.outside)

    def _merge(self, a: KernelGroup, b: KernelGroup) -> None:
        """Put ``a`` into ``b``."""
        space, _ = merged_space(self.views, a, b, lambda: self._written_after(a, b))
        assert space is not None
        writes = self._written_after(a, b)
        moved = any(not b.reads[w] and not a.has_for_rows(w) for w in a.writes & b.reads.keys())
        if moved:
            stored, times, again = self._costs(a, b)
            price = Price(times, again, stored)
            self.prices.update(dict.fromkeys(a.writes & b.reads.keys(), price))
        take_evaluations(a, b, writes)
        for v, here in a.reads.items():
            readers = self.readers[v]
            readers.discard(a.number)
            readers.add(b.number)
            b.reads[v] = b.reads.get(v, True) and here and not moved
        for v in a.writes:
            if b.reads.pop(v, None) is not None:
                self.readers[v].discard(b.number)
        b.space, b.writes = space, writes
        if len(a.eqns) > len(b.eqns):  # the shorter way, for chains grow at their ends
            a.eqns, b.eqns = b.eqns, a.eqns
        b.eqns |= a.eqns
        b.loads = loads(b.reads)
        b.dear = b.dear or a.dear
        b.center = b.center if a.center is None else a.center
        b.in_parts = b.in_parts or a.in_parts
        b.version += 1
        self.graph.merge(a.number, b.number)
        self._stay_apart(a.number, b.number)
        del self.groups[a.number]
        self.merged_into[a.number] = b.number
        self._propose_all(b.number)

    def _stay_apart(self, a: int, b: int) -> None:
        """What is apart from a group is apart from the one that it becomes a part of."""
        others = self.apart.pop(a)
        self.apart[b].update(others)
        for n, reason in others.items():
            del self.apart[n][a]
            self.apart[n][b] = self.reasons[n, b] = reason

    # ---- the program of groups ----------------------------------------------------------------

    def written(self) -> Jaxpr:
        """The program of the groups as they are."""
        order = list(self.graph.in_order())
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
        program.memo[PRICES] = {**self.stored, **self.prices}
        return program

    def _equation(self, n: int) -> Eqn:
        group = self.groups.get(n)
        if group is None:
            eqn = self.eqns[n]
            if isinstance(eqn.primitive, Group):
                return eqn
            return with_programs(eqn, self.inner)
        inside = self.views.with_views(group.eqns, group.reads)
        eqns = [self.eqns[k] for k in inside]
        if group.center is not None and len(eqns) == 1:
            return eqns[0]
        outputs = [v for e in eqns for v in e.outvars if v in group.writes]
        around = [e for e in eqns if not is_view(e) and e.primitive is not contraction]
        does = dict.fromkeys(e.primitive.name for e in reversed(around or eqns[-1:]))
        name = "_".join(list(does)[:3])  # the last first
        source = self.eqns[n].source
        if group.center is not None:
            return grouped(contraction, flat(eqns), outputs, f"contraction_{name}", source)
        return grouped(fused, eqns, outputs, name, source)
