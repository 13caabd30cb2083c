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

- there is one iteration space (:class:`Space`): the shape of all values but those in rows of a
  reduction, which have the shape of its result;
- a reduction's result is used in its row only, after the row was read: in the same kernel a row
  is read again (softmax), if it is small enough to stay in the cache;
- groups depend on one another in one direction only.

Every edge that stays has a reason, which :attr:`Fusion.reasons` tells.  Start at :func:`fuse`.
"""

from __future__ import annotations

import heapq
import math

from functrax.backends.passes.groups import Group, fused, grouped
from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.kernel_graph import KernelGraph
from functrax.backends.passes.kernel_groups import (
    LAUNCH,
    MAX_GROUP,
    REASONS,
    SEARCH,
    SMALL,
    UNRELATED,
    KernelGroup,
    Shape,
    is_fusible,
    is_renaming,
    is_view,
    nbytes,
    squeezed,
    work_of,
)
from functrax.backends.passes.kernel_spaces import Spaces, is_row_value
from functrax.backends.passes.recompute import recompute
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.jaxpr import Eqn, Jaxpr, Var


def fuse(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with its fusible equations in groups."""
    return Fusion(jaxpr, rewrites).program()


class Fusion:
    """The work on one program.

    Attributes:
      reasons: for each pair of groups that stayed apart, by the numbers of their first equations,
        why.
    """

    def __init__(self, jaxpr: Jaxpr, rewrites: Rewrites) -> None:
        self.jaxpr = jaxpr
        self.rewrites = rewrites
        self.eqns = jaxpr.eqns
        self.fusible = [is_fusible(e) for e in self.eqns]
        self.position = {v: n for n, e in enumerate(self.eqns) for v in e.outvars}
        self.groups: dict[int, KernelGroup] = {}
        self.group_of: dict[int, int] = {}  # as they were before any merge
        self.merged_into: dict[int, int] = {}
        self.readers: dict[Var, set[int]] = {}  # groups that read a value
        self.outside: set[Var] = {v for v in jaxpr.outvars if isinstance(v, Var)}
        self.graph = KernelGraph()
        self.spaces = Spaces(self.eqns, self.position, self.fusible)
        self.reasons: dict[tuple[int, int], str] = {}
        #: Minus what a merge saves, the two groups, and their versions then.
        self.heap: list[tuple[float, int, int, int, int]] = []

    # ---- the groups of one equation each ------------------------------------------------------

    def program(self) -> Jaxpr:
        """Merge, and write the program of groups."""
        self._prepare()
        if self._merge_all():
            if recompute(self):
                self._connect()
            if self._merge_all():
                self._merge_unrelated()
        return self._written()

    def _prepare(self) -> None:
        self.outside |= self._needed_by_others()
        clusters = self._clusters()
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
            for v, here in self._reads_of(eqn).items():
                if v not in group.writes:
                    group.reads[v] = group.reads.get(v, True) and here
        self._find_readers()
        self._connect()

    def _find_readers(self) -> None:
        for number, group in self.groups.items():
            for v in group.reads:
                self.readers.setdefault(v, set()).add(number)
        for group in self.groups.values():
            if len(group.eqns) > 1:
                group.writes = {v for v in group.writes if v in self.outside or v in self.readers}

    def _clusters(self) -> dict[int, int]:
        """Elementwise equations that share a kernel in every good partition: the number of each.

        They are connected, have one shape, and one *depth*: on every path to them the number of
        steps from one kernel to the next.  Depth grows along all other edges, so merging them
        makes no cycle.  The number is that of the last equation.
        """
        depth: list[int] = []
        kind: list[Shape | None] = []
        parent: dict[int, int] = {}

        def root(n: int) -> int:
            while parent[n] != n:
                parent[n] = n = parent[parent[n]]
            return n

        sizes: dict[int, int] = {}
        for n, eqn in enumerate(self.eqns):
            plain = self.fusible[n] and eqn.primitive.family == "elementwise"
            shape = squeezed(eqn.outvars[0].aval.shape) if plain else None
            sources = [self.position[x] for x in eqn.invars if x in self.position]
            same = [m for m in sources if plain and kind[m] == shape]
            others = [depth[m] + 1 for m in sources if not (plain and kind[m] == shape)]
            deepest = max([*others, *(depth[m] for m in same)], default=0)
            joined = {root(m) for m in same if depth[m] == deepest}
            if sum(sizes[r] for r in joined) >= MAX_GROUP:
                deepest, joined = deepest + 1, set()
            depth.append(deepest)
            kind.append(shape)
            if plain:
                parent[n] = n
                parent.update(dict.fromkeys(joined, n))
                sizes[n] = 1 + sum(sizes.pop(r) for r in joined)
        return {n: root(n) for n in parent}

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

    def _reads_of(self, eqn: Eqn) -> dict[Var, bool]:
        """The values that an equation reads, by way of views: whether at its own points."""
        reads: dict[Var, bool] = {}
        start = not is_view(eqn) or is_renaming(eqn)
        loads = eqn.primitive.name in ("scatter", "reindex_reduce", "reindex")
        stack = []
        for k, x in enumerate(eqn.invars):
            data = k == (1 if eqn.primitive.name == "scatter" else 0)
            stack.append((x, start and (not loads or data)))
        while stack:
            x, here = stack.pop()
            if not isinstance(x, Var):
                continue
            n = self.position.get(x, -1)
            view = n >= 0 and self.fusible[n] and is_view(self.eqns[n])
            if view:
                inner = self.eqns[n]
                same = here and is_renaming(inner)
                stack.extend((y, same) for y in inner.invars)
            else:
                reads[x] = reads.get(x, True) and here
        return reads

    def _connect(self) -> None:
        """Edges between groups, and other equations, which are nodes that are never merged."""
        self.graph = KernelGraph()
        self.last_effect: int | None = None
        for number in self.groups:
            self.graph.add_node(number)
        for n, eqn in enumerate(self.eqns):
            if n not in self.group_of and not (self.fusible[n] and is_view(eqn)):
                self.graph.add_node(n)
        for number, group in self.groups.items():
            for v in group.reads:
                self.add_edges(v, number)
        for n, eqn in enumerate(self.eqns):
            if n in self.graph.predecessors and n not in self.group_of:
                for x in eqn.invars:
                    if isinstance(x, Var):
                        self.add_edges(x, n)
                if eqn.primitive.has_side_effects(dict(eqn.params)):
                    self._keep_order(n)
        self.graph.find_levels()

    def _node_of(self, n: int) -> int:
        """The node of the graph that an equation belongs to now."""
        n = self.group_of.get(n, n)
        while n in self.merged_into:
            n = self.merged_into[n]
        return n

    def _keep_order(self, n: int) -> None:
        """Side effects happen in the order of the program."""
        if self.last_effect is not None:
            self.graph.successors[self.last_effect].add(n)
            self.graph.predecessors[n].add(self.last_effect)
        self.last_effect = n

    def add_edges(self, v: Var, n: int) -> None:
        """Edges from what computes a value; for a view that is no value, from what it reads."""
        source = self.position.get(v)
        if source is None:
            return
        node = self._node_of(source)
        if node in self.graph.predecessors:
            if node != n:
                self.graph.successors[node].add(n)
                self.graph.predecessors[n].add(node)
            return
        for x in self.eqns[source].invars:
            if isinstance(x, Var):
                self.add_edges(x, n)

    # ---- merging ------------------------------------------------------------------------------

    def _merge_all(self) -> bool:
        """Merge what is related, the best first; whether rewrites are left."""
        for n in list(self.groups):
            self._propose_all(n)
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
        a, b, graph = self.groups[m], self.groups[n], self.graph
        if m in graph.successors[n] or n in graph.successors[m]:
            return False  # it was tried before
        space, _ = self.spaces.merged(a, b, lambda: self._written_after(a, b))
        if space is None or not self._is_small(b):
            return False
        return not (graph.has_detour(m, n, SEARCH) or graph.has_detour(n, m, SEARCH))

    def _propose_all(self, n: int) -> None:
        group = self.groups[n]
        others = {m for m in self.graph.predecessors[n] if m in self.groups}
        others |= {m for m in self.graph.successors[n] if m in self.groups}
        for v in group.reads:
            readers = self.readers.get(v, ())
            if len(readers) <= 32:
                others.update(readers)
        others.discard(n)
        for m in others:
            self._propose(m, n)

    def _propose(self, m: int, n: int) -> None:
        a, b = self.groups[m], self.groups[n]
        if m in self.graph.successors[n] or (n not in self.graph.successors[m] and n < m):
            a, b = b, a  # a comes first
        merged, reason = self.spaces.merged(a, b, lambda: self._written_after(a, b))
        if merged is None:
            self.reasons[a.number, b.number] = reason
            return
        saved = self._saved(a, b)
        if saved <= 0:
            self.reasons[a.number, b.number] = "cost: computing again is dearer than loading"
            return
        heapq.heappush(self.heap, (-saved, a.number, b.number, a.version, b.version))

    def _saved(self, a: KernelGroup, b: KernelGroup) -> float:
        """Bytes that a merge saves."""
        saved = float(LAUNCH)
        for v in b.reads:
            if v in a.writes:
                saved += nbytes(v)
                if v not in self.outside and self.readers[v] == {b.number}:
                    saved += nbytes(v)
                if not b.reads[v] and not is_row_value(a, v):
                    saved -= self._recomputed(a, v, b)
            elif v in a.reads:
                saved += nbytes(v)
        return saved

    def _recomputed(self, a: KernelGroup, v: Var, b: KernelGroup) -> float:
        """What it costs to compute a value at every point that reads it through a view."""
        times = math.prod(b.space.full) / max(v.aval.size, 1)
        if times <= 1:
            return 0.0
        read_again = sum(nbytes(u) for u in a.reads) - nbytes(v)
        return (times - 1) * (a.work * v.aval.size) + max(read_again, 0) * 0.25

    def _written_after(self, a: KernelGroup, b: KernelGroup) -> set[Var]:
        """What a merged group writes."""
        inside = {a.number, b.number}
        kept = set(b.writes)
        for v in a.writes:
            if v in self.outside or not self.readers.get(v, set()) <= inside:
                kept.add(v)
        return kept

    def _merge(self, a: KernelGroup, b: KernelGroup) -> None:
        """Put ``a`` into ``b``."""
        space, _ = self.spaces.merged(a, b, lambda: self._written_after(a, b))
        assert space is not None
        writes = self._written_after(a, b)
        moved = any(not b.reads[w] and not is_row_value(a, w) for w in a.writes & b.reads.keys())
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
        self.graph.merge(a.number, b.number)
        del self.groups[a.number]
        self.merged_into[a.number] = b.number
        self._propose_all(b.number)

    # ---- the program of groups ----------------------------------------------------------------

    def _written(self) -> Jaxpr:
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
        return program

    def _equation(self, n: int) -> Eqn:
        group = self.groups.get(n)
        if group is None:
            eqn = self.eqns[n]
            if isinstance(eqn.primitive, Group):
                return eqn
            return with_programs(eqn, lambda inner: fuse(inner, self.rewrites))
        inside = self._with_views(group)
        eqns = [self.eqns[k] for k in inside]
        outputs = [v for e in eqns for v in e.outvars if v in group.writes]
        return grouped(fused, eqns, outputs, _name(eqns), self.eqns[n].source)

    def _with_views(self, group: KernelGroup) -> list[int]:
        """The equations of a group and the views that it needs, in order."""
        found = set(group.eqns)
        stack = [x for n in group.eqns for x in self.eqns[n].invars]
        while stack:
            x = stack.pop()
            if not isinstance(x, Var) or x in group.reads:
                continue
            n = self.position.get(x, -1)
            if n >= 0 and n not in found:
                found.add(n)
                stack.extend(self.eqns[n].invars)
        return sorted(found)


def _name(eqns: list[Eqn]) -> str:
    """A name for a group: what it does, the last first."""
    names = [e.primitive.name for e in eqns if not is_view(e)] or [eqns[-1].primitive.name]
    shown = list(dict.fromkeys(reversed(names)))[:3]
    return "_".join(shown)
