"""Fusion: which equations share a kernel.

What enters: a program of elementwise, reindex and reindex_reduce equations among others.  What
leaves: the same program with its fusible equations in ``fused`` groups, each of which satisfies the
contract of ``backends/passes/groups.py``.

The cost of a partition is the number of bytes that its kernels read and write, plus ``LAUNCH`` for
each kernel, plus what is computed more often than once.  Fusion starts with one group for each
equation and merges, as long as that lowers the cost, the two groups whose merging saves most:

- a producer with its consumer, whose value then needs not be written, or not be read again;
- two groups that read the same array.

A *view* (an equation that only reindexes) is never a value of its own: every group that needs one
has its own copy, which costs an address.  What a merge must keep:

- there is one iteration space (:class:`_Space`): the shape of all values but those in rows of a
  reduction, which have the shape of its result;
- a reduction's result is used in its row only, after the row was read: in the same kernel a row
  is read again (softmax), if it is small enough to stay in the cache;
- groups depend on one another in one direction only.

Every edge that stays has a reason, which :attr:`Fusion.reasons` tells.  Start at :func:`fuse`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from functrax.backends.kernels.values import is_update, reduced_axes
from functrax.backends.passes.groups import Group, fused, grouped
from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core import dtypes
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.lowering import MATH

Shape: TypeAlias = tuple[int, ...]

#: Under what a program of groups remembers why pairs of its equations, given by their positions,
#: share no kernel.
REASONS = "reasons why groups stay apart"
#: What starting a kernel costs, in bytes that could be moved meanwhile.
LAUNCH = 4096
#: The most equations in a group: what a kernel's compile time and registers allow.
MAX_GROUP = 256
#: The most bytes of a row that is read again in the same kernel.
MAX_ROW = 256 * 1024
#: What an operation on one element costs, in bytes; a function of MATH is as dear as so many.
OPERATION, FUNCTION = 0.25, 24


def fuse(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with its fusible equations in groups."""
    return Fusion(jaxpr, rewrites).program()


def squeezed(shape: Shape) -> Shape:
    """A shape without its dimensions of size 1, in which they do not matter."""
    return tuple([n for n in shape if n != 1]) if 1 in shape else shape


def nbytes(x: Atom) -> int:
    """Bytes of a value in memory."""
    return int(x.aval.size) * x.aval.dtype.itemsize


def is_fusible(eqn: Eqn) -> bool:
    """Whether an equation can be part of a kernel."""
    family = eqn.primitive.family
    avals = tuple([x.aval for x in eqn.invars])
    results = [v.aval for v in eqn.outvars]
    if any(a.size == 0 for a in (*avals, *results)):
        return False
    if family == "elementwise":
        return eqn.primitive.lowers(avals, dict(eqn.params))
    if family not in ("reindex", "reindex_reduce"):
        return False
    if is_update(eqn):
        x = avals[1 if eqn.primitive.name == "scatter" else 0]
        how = eqn.primitive.reduction(x, **eqn.params)  # type: ignore[attr-defined]
        if how.carries != (x.dtype,):
            return False  # memory does not hold what it accumulates
    return all(a.dtype in dtypes.SCALAR for a in (*avals, *results))


def is_view(eqn: Eqn) -> bool:
    """Whether an equation only says where values are read."""
    return eqn.primitive.family == "reindex"


def is_renaming(eqn: Eqn) -> bool:
    """Whether an equation inserts or removes dimensions of size 1 and does nothing else."""
    name = eqn.primitive.name
    if name not in ("reshape", "broadcast_in_dim") or not eqn.invars:
        return False
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    if squeezed(before) != squeezed(after):
        return False
    dims = eqn.params.get("dims", ())
    return tuple(sorted(dims)) == tuple(dims)


@dataclass(frozen=True)
class _Space:
    """What a group's kernel runs over.

    Args:
      full: the shape, without dimensions of size 1.
      row: the shape of the rows that it reduces; None if it reduces nothing.
      operand: the shape and the axes that its reductions have.
    """

    full: Shape
    row: Shape | None = None
    operand: tuple[Shape, Shape] | None = None

    def holds(self, shape: Shape) -> bool:
        """Whether a value of this shape can leave the kernel."""
        flat = squeezed(shape)
        return flat in (self.full, self.row)


class _Group:
    """Equations that share a kernel.

    Attributes:
      eqns: their positions in the program, views left out.
      space: what the kernel runs over.
      reads: for each value from outside how it is used: as it is, or through views.
      writes: the values that are used outside.
      update: whether it ends with a scatter.
      work: operations for each element, in bytes.
    """

    __slots__ = ("eqns", "number", "reads", "space", "update", "version", "work",
                 "writes")  # fmt: skip

    def __init__(self, number: int, eqn: Eqn) -> None:
        self.number = number
        self.eqns = {number}
        self.reads: dict[Var, bool] = {}
        self.writes = set(eqn.outvars)
        self.update = is_update(eqn)
        self.space = _space_of(eqn)
        self.work = _work(eqn)
        self.version = 0


def _space_of(eqn: Eqn) -> _Space:
    axes = reduced_axes(eqn)
    if axes is not None:
        shape = eqn.invars[0].aval.shape
        row = tuple(n for d, n in enumerate(shape) if d not in axes)
        return _Space(squeezed(shape), squeezed(row), (shape, axes))
    if is_update(eqn):
        return _Space(squeezed(eqn.params["map"].domain))
    return _Space(squeezed(eqn.outvars[0].aval.shape))


def _work(eqn: Eqn) -> float:
    return OPERATION * (FUNCTION if eqn.primitive.name in MATH else 1)


@dataclass(order=True)
class _Candidate:
    """Two groups that might be merged."""

    minus_saved: float
    left: int
    right: int
    versions: tuple[int, int] = field(compare=False)


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
        self.groups: dict[int, _Group] = {}
        self.group_of: dict[int, int] = {}  # as they were before any merge
        self.readers: dict[Var, set[int]] = {}  # groups that read a value
        self.outside: set[Var] = {v for v in jaxpr.outvars if isinstance(v, Var)}
        self.successors: dict[int, set[int]] = {}
        self.predecessors: dict[int, set[int]] = {}
        #: Every edge leads to a larger level.
        self.level: dict[int, int] = {}
        self.last_effect: int | None = None
        self.reasons: dict[tuple[int, int], str] = {}
        self.heap: list[_Candidate] = []

    # ---- the groups of one equation each ------------------------------------------------------

    def program(self) -> Jaxpr:
        """Merge, and write the program of groups."""
        self._prepare()
        self._merge_all()
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
                group = self.groups[number] = _Group(number, eqn)
                group.eqns = {n}  # the number is that of the last equation
            else:
                group.eqns.add(n)
                group.writes.update(eqn.outvars)
                group.work += _work(eqn)
            self.group_of[n] = number
            for v, here in self._reads_of(eqn).items():
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

    def _merge_all(self) -> None:
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
                return
            self._merge(a, b)

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
        heapq.heappush(self.heap, _Candidate(-saved, a.number, b.number, versions))

    def _saved(self, a: _Group, b: _Group) -> float:
        """Bytes that a merge saves."""
        saved = float(LAUNCH)
        for v in b.reads:
            if v in a.writes:
                saved += nbytes(v)
                if v not in self.outside and self.readers[v] == {b.number}:
                    saved += nbytes(v)
                if not b.reads[v] and not self._is_reduced(a, v):
                    saved -= self._recomputed(a, v, b)
            elif v in a.reads:
                saved += nbytes(v)
        return saved

    def _recomputed(self, a: _Group, v: Var, b: _Group) -> float:
        """What it costs to compute a value at every point that reads it through a view."""
        times = math.prod(b.space.full) / max(v.aval.size, 1)
        if times <= 1:
            return 0.0
        read_again = sum(nbytes(u) for u in a.reads) - nbytes(v)
        return (times - 1) * (a.work * v.aval.size) + max(read_again, 0) * 0.25

    def _merged_space(self, a: _Group, b: _Group) -> tuple[_Space | None, str]:
        """The iteration space of two groups as one, or why they cannot be one."""
        if len(a.eqns) + len(b.eqns) > MAX_GROUP:
            return None, f"size: more than {MAX_GROUP} equations"
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

    def _into_update(self, a: _Group, b: _Group, through: list[Var]) -> tuple[_Space | None, str]:
        if not through:
            return None, "update: nothing else shares the kernel of a scatter"
        if a.space.row is not None:
            return None, "reduction: its result is complete only after its kernel"
        if self._written_after(a, b) != b.writes:
            return None, "update: a value that is also needed elsewhere"
        return b.space, ""

    def _common_space(self, a: _Group, b: _Group, through: list[Var]) -> tuple[_Space | None, str]:
        if a.space.row is None and b.space.row is None:
            if through or a.space.full == b.space.full:
                return b.space, ""
            return None, "shape: different iteration spaces"
        if a.space.row is None:
            return self._producer_of_reduction(a, b, through)
        return self._after_reduction(a, b, through)

    def _producer_of_reduction(
        self, a: _Group, b: _Group, through: list[Var]
    ) -> tuple[_Space | None, str]:
        """``a`` reduces nothing, ``b`` does."""
        if through or a.space.full == b.space.full:
            return b.space, ""
        return None, "shape: different iteration spaces"

    def _after_reduction(
        self, a: _Group, b: _Group, through: list[Var]
    ) -> tuple[_Space | None, str]:
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
        if not through and b.space.full == a.space.row != a.space.full:
            return None, "shape: different iteration spaces"
        return a.space, ""

    def _is_reduced(self, a: _Group, v: Var) -> bool:
        """Whether a value of a group has one element for each row of its reductions."""
        return squeezed(v.aval.shape) == a.space.row != a.space.full

    def _use_of_row(self, a: _Group, b: _Group, v: Var) -> str | None:
        """How ``b`` uses a value of one element for each row: in ``row`` s, ``full``, or not so."""
        if b.reads[v]:
            return "row" if b.space.row is None or b.space.operand == a.space.operand else None
        return "full" if self._spread_only(a, b, v) else None

    def _spread_only(self, a: _Group, b: _Group, v: Var) -> bool:
        """Whether every view by which ``b`` reads ``v`` spreads it over the rows of ``a``."""
        assert a.space.operand is not None
        shape, axes = a.space.operand
        kept = [d for d in range(len(shape)) if d not in axes]
        for n in b.eqns:
            for x in self.eqns[n].invars:
                if not self._spreads(x, v, shape, kept):
                    return False
            if is_view(self.eqns[n]) and not self._spreads(self.eqns[n].outvars[0], v, shape, kept):
                return False
        return True

    def _spreads(self, x: Atom, v: Var, shape: Shape, kept: list[int]) -> bool:
        """Whether ``x`` is no view of ``v``, or one that repeats its elements along their rows."""
        chain = []
        while isinstance(x, Var) and x is not v:
            n = self.position.get(x, -1)
            if n < 0 or not self.fusible[n] or not is_view(self.eqns[n]):
                return True
            eqn = self.eqns[n]
            if len(eqn.invars) != 1:
                return not self._reaches_value(eqn, v)
            chain.append(eqn)
            x = eqn.invars[0]
        if x is not v:
            return True
        spread = [e for e in chain if not is_renaming(e)]
        if not spread:
            return True
        if len(spread) > 1 or spread[0].primitive.name != "broadcast_in_dim":
            return False
        eqn = spread[0]
        if tuple(eqn.params["shape"]) != shape:
            return False
        source = eqn.invars[0].aval.shape
        used = [d for d, n in zip(eqn.params["dims"], source, strict=True) if n != 1]
        return used == [d for d in kept if shape[d] != 1]

    def _reaches_value(self, eqn: Eqn, v: Var) -> bool:
        stack = [x for x in eqn.invars if isinstance(x, Var)]
        while stack:
            x = stack.pop()
            if x is v:
                return True
            n = self.position.get(x, -1)
            if n >= 0 and self.fusible[n] and is_view(self.eqns[n]):
                stack.extend(y for y in self.eqns[n].invars if isinstance(y, Var))
        return False

    def _row_fits(self, a: _Group, b: _Group) -> bool:
        assert a.space.operand is not None
        shape, axes = a.space.operand
        length = math.prod(shape[d] for d in axes)
        width = 0
        for v in {*a.reads, *b.reads}:
            if v.aval.size >= math.prod(shape):
                width += v.aval.dtype.itemsize
        return length * width <= MAX_ROW

    def _written_after(self, a: _Group, b: _Group) -> set[Var]:
        """What a merged group writes."""
        inside = {a.number, b.number}
        kept = set(b.writes)
        for v in a.writes:
            if v in self.outside or not self.readers.get(v, set()) <= inside:
                kept.add(v)
        return kept

    def _would_cycle(self, a: int, b: int) -> bool:
        """Whether a path leads from ``a`` to ``b`` through another group."""
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

    def _merge(self, a: _Group, b: _Group) -> None:
        """Put ``a`` into ``b``."""
        space, _ = self._merged_space(a, b)
        assert space is not None
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
        inside = self._with_views(group)
        eqns = [self.eqns[k] for k in inside]
        outputs = [v for e in eqns for v in e.outvars if v in group.writes]
        return grouped(fused, eqns, outputs, _name(eqns), self.eqns[n].source)

    def _with_views(self, group: _Group) -> list[int]:
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
