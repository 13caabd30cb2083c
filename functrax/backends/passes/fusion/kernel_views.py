"""Views in fusion: equations that only say where values are read.

Every kernel has its own copies of the views that it needs, so fusion looks through them: at which
value is read in the end, and whether at its own points (:meth:`Views.reads_of`).

What a kernel reads through views it computes at each place that reads it, if its producer is fused
into it; and it goes through its rows once more for each number of a row that it needs on the way.
Both are counted: for the cost of a merge (:func:`recomputed`), and so that kernels stay of bounded
size (:func:`take_evaluations`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from functrax.backends.cost import about, products_ns
from functrax.backends.kernels.lower import LEAST_SPLIT
from functrax.backends.kernels.operations import OPERATIONS, operations_of
from functrax.backends.kernels.values import elements_of, is_update
from functrax.backends.passes.fusion.kernel_groups import (
    MAX_COMPUTED,
    SEARCH,
    KernelGroup,
    Shape,
    about_bytes,
    has_holes,
    is_renaming,
    is_view,
    loads,
    squeezed,
)
from functrax.backends.passes.groups import contraction
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Var
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import Reindex, broadcast_in_dim, map_of
from functrax.core.prims.slicing import concatenate
from functrax.core.tracing.primitive import Elementwise

#: The views on the way from where a kernel is to where it reads, each by a number: equal ways lead
#: to the same place.  Numbers below 0 are of the smaller operands of a concatenation.
Way: TypeAlias = tuple[int, ...]
Ways: TypeAlias = frozenset[Way]
HERE: Final[Ways] = frozenset([()])


def one_after_another(first: Ways, second: Ways) -> Ways:
    """The ways that go on from the ends of others: some of them, if they are very many."""
    both = itertools.product(sorted(first), sorted(second))
    return frozenset([p + q for p, q in itertools.islice(both, SEARCH)])


def add_ways(group: KernelGroup, v: Var, ways: Ways) -> None:
    """Let a group read a value by more ways; before its reads change."""
    group.ways[v] = group.ways.get(v, HERE if v in group.reads else frozenset()) | ways


def places(ways: Ways, points: int) -> int:
    """At how many places a kernel of so many points computes what it reads by these ways.

    A large space is split where the operands of a concatenation meet.
    """
    return len(ways) if points < LEAST_SPLIT else max(1, sum(min(w, default=0) >= 0 for w in ways))


def _is_stack(eqn: Eqn) -> bool:
    """Whether an equation puts arrays side by side along an axis in which each has one place."""
    if eqn.primitive is not concatenate:
        return False
    axis = eqn.params["axis"]
    return all(x.aval.shape[axis] == 1 for x in eqn.invars)


class Views:
    """The views of one program.

    Args:
      eqns: the program's equations.
      fusible: whether each can be part of a kernel.

    Attributes:
      position: the equation that defines a value.
    """

    def __init__(self, eqns: Sequence[Eqn], fusible: Sequence[bool]) -> None:
        self.eqns = eqns
        self.fusible = fusible
        self.position = {v: n for n, eqn in enumerate(eqns) for v in eqn.outvars}
        #: The views by their results.
        self.made = {
            v: eqn
            for eqn, fits in zip(eqns, fusible, strict=True)
            if fits and is_view(eqn)
            for v in eqn.outvars
        }
        self._steps: dict[Hashable, int] = {}
        self._reads: dict[Eqn, dict[Var, bool]] = {}
        self._work: dict[Eqn, float] = {}
        self._each = target().element_ns

    def store(self, values: Container[Var]) -> None:
        """Take views that are in memory for values, if to read them is less than to make them."""
        for v, eqn in [*self.made.items()]:
            if v in values and self.pieces(eqn) > 1:
                del self.made[v]

    def pieces(self, eqn: Eqn) -> int:
        """How many elements of others a kernel reads for one of a view, to choose among them."""
        return sum(map(len, self.ways_of(eqn).values()))

    def choosing(self, eqn: Eqn) -> int:
        """Operations to put together an element of a view."""
        return (self.pieces(eqn) - 1) * OPERATIONS["piece of a view"]

    def unsplit_ns(self, eqn: Eqn) -> float:
        """What a view that is stored takes longer in a kernel of sums, which is not split."""
        if eqn.primitive is not concatenate:
            return 0.0
        aval = eqn.outvars[0].aval
        return products_ns(about(aval.shape) * self.choosing(eqn), aval.dtype.itemsize, target())

    def work_of(self, eqn: Eqn) -> float:
        """Nanoseconds of what an equation computes for an element of its result."""
        work = self._work.get(eqn)
        if work is None:
            operations = max(1, self.choosing(eqn)) if is_view(eqn) else operations_of(eqn)
            work = self._work[eqn] = operations * self._each
        return work

    def step(self, *key: Hashable) -> int:
        """The number of one step of a :data:`Way`."""
        return self._steps.setdefault(key, len(self._steps))

    def ways_of(self, eqn: Eqn) -> dict[Var, Ways]:
        """The ways by which an equation, or who reads a view, reads values.

        Some of them, if they are very many.
        """
        found: dict[Var, set[Way]] = {}
        stack: list[tuple[Atom, Way]] = [(x, ()) for x in eqn.invars]
        if is_view(eqn) and not is_renaming(eqn):
            stack = [(x, (self._step_through(eqn, k),)) for k, x in enumerate(eqn.invars)]
        for _ in range(SEARCH):
            if not stack:
                break
            x, way = stack.pop()
            if type(x) is not Var:
                continue
            view = self.made.get(x)
            if view is None:
                found.setdefault(x, set()).add(way)
                continue
            for k, y in enumerate(view.invars):
                step = () if is_renaming(view) else (self._step_through(view, k),)
                stack.append((y, way + step))
        return {v: frozenset(ways) for v, ways in found.items()}

    def _step_through(self, view: Eqn, operand: int) -> int:
        """The number of the step from a view to an operand; below 0 to a smaller one."""
        if view.primitive is concatenate:
            axis = view.params["axis"]
            sizes = [x.aval.shape[axis] for x in view.invars]
            which = -1 if sizes[operand] == 1 else operand  # as the only place of it
            number = self.step(concatenate, axis, which, *([] if which < 0 else sizes))
            return ~number if sizes[operand] < max(sizes) else number
        source = view.invars[0] if isinstance(view.primitive, Reindex) else None
        stacked = self.made.get(source) if isinstance(source, Var) else None
        if stacked is not None and _is_stack(stacked):  # any of its parts is read at one place
            places = list(map_of(view).exprs)
            del places[stacked.params["axis"]]
            return self.step(_is_stack, *places, *view.invars[1:])
        return self.step(view.primitive, *view.params.items(), view.invars[1:], operand)

    def reads_of(self, eqn: Eqn) -> dict[Var, bool]:
        """The values that an equation reads, by way of views: whether at its own points."""
        reads = self._reads.get(eqn)
        if reads is None:
            reads = self._reads[eqn] = self._find_reads(eqn)
        return reads

    def _find_reads(self, eqn: Eqn) -> dict[Var, bool]:
        if eqn.primitive is contraction:  # it has the views that are good for it
            return {x: False for x in eqn.invars if isinstance(x, Var)}
        made = self.made
        if isinstance(eqn.primitive, Elementwise) and made.keys().isdisjoint(eqn.invars):
            return {x: True for x in reversed(eqn.invars) if type(x) is Var}
        reads: dict[Var, bool] = {}
        start = not is_view(eqn) or is_renaming(eqn)
        loads = is_update(eqn) or eqn.primitive is reindex
        stack = []
        for k, x in enumerate(eqn.invars):
            data = k == elements_of(eqn)
            stack.append((x, start and (not loads or data)))
        seen = set()
        while stack:
            x, here = stack.pop()
            if type(x) is not Var or (x, here) in seen:
                continue
            seen.add((x, here))
            inner = made.get(x)
            if inner is not None:
                same = here and is_renaming(inner)
                stack.extend((y, same) for y in inner.invars)
            else:
                reads[x] = reads.get(x, True) and here
        return reads

    def seen_through(self, values: Iterable[Atom], ends: Container[Atom] = ()) -> Iterator[Eqn]:
        """The views by which values are seen, each once; what is among ``ends`` is no view."""
        stack, seen = list(values), set()
        while stack:
            x = stack.pop()
            view = self.made.get(x) if type(x) is Var and x not in ends else None
            if view is not None and view not in seen:
                seen.add(view)
                yield view
                stack.extend(view.invars)

    def _read_by(self, members: Iterable[int]) -> list[Atom]:
        return [x for n in members for x in self.eqns[n].invars]

    def reads_elsewhere(self, members: Iterable[int], update: Eqn) -> bool:
        """Whether equations read an array that is updated at other places than those it is at.

        Such an array cannot be updated where it is, but by a kernel that comes after them.
        """
        x = update.invars[0]
        there = update.invars[2:], update.params["map"].exprs
        readers = [self.eqns[n] for n in members]
        for eqn in (*readers, *self.seen_through(self._read_by(members))):
            mine = x in (eqn.invars[1:] if eqn is update else eqn.invars)
            if mine and eqn.primitive is not reindex:
                return True
            if mine and (eqn.invars[1:], eqn.params["map"].exprs) != there:
                return True
        return False

    def with_holes(self, members: Iterable[int]) -> bool:
        """Whether equations read, by way of views, an array whose elements are set apart."""
        return any(map(has_holes, self.seen_through(self._read_by(members))))

    def spreads(self, x: Atom, v: Var, shape: Shape, kept: list[int]) -> bool:
        """Whether ``x`` is no view of ``v``, or one that repeats its elements along their rows."""
        spread = []
        while type(x) is Var and x is not v:
            eqn = self.made.get(x)
            if eqn is None:
                return True
            if len(eqn.invars) != 1:
                return all(v not in view.invars for view in self.seen_through([x]))
            if not is_renaming(eqn):
                spread.append(eqn)
            x = eqn.invars[0]
        if x is not v or not spread:
            return True
        if len(spread) > 1 or spread[0].primitive is not broadcast_in_dim:
            return False
        eqn = spread[0]
        if tuple(eqn.params["shape"]) != shape:
            return False
        source = eqn.invars[0].aval.shape
        used = [d for d, n in zip(eqn.params["dims"], source, strict=True) if n != 1]
        return used == [d for d in kept if shape[d] != 1]

    def with_views(self, members: Iterable[int], reads: Container[Atom]) -> list[int]:
        """The equations ``members`` and the views between them and ``reads``, in order."""
        views = self.seen_through(self._read_by(members), reads)
        return sorted({*members, *(self.position[view.outvars[0]] for view in views)})

    def add_ways_of(self, group: KernelGroup, eqn: Eqn, reads: Mapping[Var, bool]) -> None:
        """An equation becomes part of a group that reads through views; before its reads change."""
        plain = all(reads.values()) or eqn.primitive is contraction
        ways = {} if plain else self.ways_of(eqn)
        for v in reads:
            add_ways(group, v, ways.get(v, HERE))

    def clusters(self) -> dict[int, int]:
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
        position = self.position
        for n, eqn in enumerate(self.eqns):
            plain = self.fusible[n] and isinstance(eqn.primitive, Elementwise)
            shape = squeezed(eqn.outvars[0].aval.shape) if plain else None
            same, deepest = [], 0
            for x in eqn.invars:
                m = position.get(x, -1)  # type: ignore[arg-type]
                if m < 0:
                    continue
                here = depth[m]
                if plain and kind[m] == shape:
                    same.append(m)
                else:
                    here += 1
                if here > deepest:
                    deepest = here
            joined = {root(m) for m in same if depth[m] == deepest}
            if joined and sum([sizes[r] for r in joined]) >= MAX_COMPUTED:
                deepest, joined = deepest + 1, set()
            depth.append(deepest)
            kind.append(shape)
            if plain:
                parent[n] = n
                parent.update(dict.fromkeys(joined, n))
                views = 0 if self.made.keys().isdisjoint(eqn.invars) else loads(self.reads_of(eqn))
                sizes[n] = 1 + views + sum([sizes.pop(r) for r in joined])
        return {n: root(n) for n in parent}


def recomputed(a: KernelGroup, b: KernelGroup, written: set[Var]) -> tuple[int, float]:
    """What it costs that ``b`` reads values of ``a`` through views, if they are merged.

    At how many places they are computed, and the nanoseconds of that beyond once.  Nothing where
    ``a`` reduces, for rows' numbers are not computed again; and a side of a contraction is computed
    while it is packed.  Infinity where the kernel would be too large.  ``written`` is what the two
    write together.
    """
    if a.space.row is not None or b.center is not None:
        return 1, 0.0
    points = about(b.space.full)
    times = places(_ways_into(a, b, written), points)
    if times == 1 and math.prod(b.space.full) <= math.prod(a.space.full):
        return 1, 0.0
    computed, before = times * points, about(a.space.full)
    if times * a.size + b.size > MAX_COMPUTED:
        return times, math.inf
    given = sum(about_bytes(v) for v in a.writes & b.reads.keys())
    read = sum(map(about_bytes, a.reads)) - given
    again = max(computed - before, 0) * a.work + max(read, 0) * target().reread_ns
    return times, again


def take_evaluations(a: KernelGroup, b: KernelGroup, written: set[Var]) -> None:
    """What ``b`` computes how often, when ``a`` becomes a part of it; before its reads change."""
    into = _ways_into(a, b, written)
    times = places(into, about(b.space.full)) + _take_stages(a, b, written)
    for v in a.reads:
        if v in b.ways or v in a.ways or into != HERE:
            add_ways(b, v, one_after_another(into, a.ways.get(v, HERE)))
    for v in a.writes:
        b.ways.pop(v, None)
    b.work += a.work * times
    b.size += a.size * times


def _take_stages(a: KernelGroup, b: KernelGroup, written: set[Var]) -> int:
    """Gives ``b`` the stages of both; returns how often more the rows of ``a`` are gone through."""
    if a.space.row is None:
        return 0
    first = 1  # the stage in which b can begin
    for v in b.reads.keys() & a.writes:
        after = a.has_for_rows(v) and not b.reads[v]
        first = max(first, a.stage_of.get(v, 1) + after)
    later = {v: b.stage_of.get(v, 1) + first - 1 for v in b.writes & written}
    b.stage_of = later | {v: a.stage_of.get(v, 1) for v in a.writes & written}
    b.stages = max(a.stages, b.stages + first - 1)
    return b.stages - a.stages


def _ways_into(a: KernelGroup, b: KernelGroup, written: set[Var]) -> Ways:
    """The ways by which ``a`` and ``b`` as one read what ``a`` computes.

    Numbers of rows are none: they are not computed again, but rows are gone through again.
    """
    if not b.ways:
        return HERE
    read = b.reads.keys() & a.writes
    ways = [HERE if a.has_for_rows(v) else b.ways.get(v, HERE) for v in read]
    if all(way == HERE for way in ways):
        return HERE
    return frozenset().union(*ways, () if written.isdisjoint(a.writes) else HERE)
