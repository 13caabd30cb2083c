"""What fusion must keep and what it may cost, worked out without the code of the pass.

- :func:`check_groups`: every equation is in one group, groups keep the contract of
  contract of ``backends/passes/groups.py``, and the program of groups gives the same values.
- :func:`total_cost` and :func:`best_cost`: bytes that kernels read and write, a launch for each,
  and what is computed more than once; the latter is the least over all legal partitions.
- :func:`random_graph`: small programs of random shapes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from functrax.backends.kernels.math import FUNCTION_OPERATIONS
from functrax.backends.passes.fusion.fuse import fuse
from functrax.backends.passes.fusion.kernel_groups import MAX_COMPUTED
from functrax.backends.passes.groups import fused
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.scalars.scalar import MATH
from functrax.core.syntax.verify import verify
from functrax.core.tracing.primitive import registry
from functrax.core.types.aval import ShapedArray

REDUCTIONS = {name for name in registry if name.startswith("reduce_")} - {"reduce_precision"}
REDUCTIONS |= {"argmax", "argmin"}
UPDATES = {"scatter", "reindex_reduce"}


def is_view(eqn: Eqn) -> bool:
    return eqn.primitive.family == "reindex"


def flat(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def nbytes(x: Atom) -> int:
    return int(x.aval.size) * x.aval.dtype.itemsize


class Graph:
    """A part of a program, as one kernel would run it.

    Args:
      eqns: its equations in order, with the views that they need.
      outputs: what is used outside.
    """

    def __init__(self, eqns: Sequence[Eqn], outputs: Iterable[Var]) -> None:
        self.eqns = list(eqns)
        self.outputs = list(outputs)
        self.defs = {v: e for e in eqns for v in e.outvars}
        self.inputs = {
            x for e in eqns for x in e.invars if isinstance(x, Var) and x not in self.defs
        }
        self.reductions = [e for e in eqns if e.primitive.name in REDUCTIONS]
        self.updates = [e for e in eqns if e.primitive.name in UPDATES]
        self.after: set[Var] = set()  # what depends on a reduction
        for e in eqns:
            if e in self.reductions or any(x in self.after for x in e.invars):
                self.after.update(e.outvars)

    # ---- legality -----------------------------------------------------------------------------

    def problem(self) -> str:
        """What is wrong with it as one kernel; empty if nothing is."""
        if sum(not is_view(e) for e in self.eqns) > MAX_COMPUTED:
            return "too many equations"
        if self.updates:
            return self._problem_of_update()
        shapes = {flat(v.aval.shape) for v in self.outputs}
        if not self.reductions:
            return "" if len(shapes) == 1 else f"results of shapes {shapes}"
        spaces = {(e.invars[0].aval.shape, reduced_axes(e)) for e in self.reductions}
        if len(spaces) > 1:
            return f"reductions of {spaces}"
        ((full, axes),) = spaces
        kept = [d for d in range(len(full)) if d not in axes]
        row = flat([full[d] for d in kept])
        if not shapes <= {flat(full), row}:
            return f"results of shapes {shapes} beside a reduction of {full} along {axes}"
        again = False
        for e in self.eqns:
            if e.primitive.family != "reindex" or e in self.spreads(full, kept):
                continue
            if any(x in self.after for x in e.invars) and not is_renaming(e):
                return f"{e.primitive.name} of what depends on a reduction"
        for v in self.after:
            if flat(v.aval.shape) == flat(full) != row and v not in self._results():
                again = True
        if any(e.invars[0] in self.after for e in self.reductions):
            again = True
        if again and self._row_bytes(full, axes) > target().reread_bytes:
            return "a row that is too long"
        return ""

    def _results(self) -> set[Var]:
        return {v for e in self.reductions for v in e.outvars}

    def _problem_of_update(self) -> str:
        if len(self.updates) > 1 or self.reductions:
            return "something beside an update"
        (update,) = self.updates
        if self.outputs != list(update.outvars):
            return "results beside that of an update"
        if any(x in update.outvars for e in self.eqns for x in e.invars):
            return "an update's result is used in its kernel"
        return ""

    def spreads(self, full: tuple[int, ...], kept: list[int]) -> list[Eqn]:
        """Views that bring a row's value back to the elements of the row."""
        found = []
        for e in self.eqns:
            if e.primitive.name != "broadcast_in_dim" or tuple(e.params["shape"]) != full:
                continue
            sizes = e.invars[0].aval.shape if e.invars else ()
            used = [d for d, n in zip(e.params["dims"], sizes, strict=True) if n != 1]
            if used == [d for d in kept if full[d] != 1]:
                found.append(e)
        return found

    def _row_bytes(self, full: tuple[int, ...], axes: tuple[int, ...]) -> int:
        length = math.prod(full[d] for d in axes)
        return length * sum(
            v.aval.dtype.itemsize for v in self.inputs if v.aval.size >= math.prod(full)
        )

    # ---- cost ---------------------------------------------------------------------------------

    def cost(self) -> float:
        """Nanoseconds: what is moved, the launch, what is computed more often than once."""
        moved = sum(map(nbytes, self.inputs)) + sum(map(nbytes, self.outputs))
        return moved * target().byte_ns + target().kernel_ns + self.extra_work()

    def extra_work(self) -> float:
        """Nanoseconds of what is computed for more points than there are elements."""
        points: dict[Eqn, int] = {}
        seen = set()
        stack: list[tuple[Atom, int, tuple[Eqn, ...]]] = []
        for v in self.outputs:
            stack.append((v, int(v.aval.size), ()))
        while stack:
            x, size, path = stack.pop()
            e = self.defs.get(x) if isinstance(x, Var) else None
            if e is None or (e, path) in seen:
                continue
            seen.add((e, path))
            if is_view(e):
                same = is_renaming(e) or x in self.after
                inner = int(e.invars[0].aval.size) if x in self.after and e.invars else size
                following = path if same else (*path, e)
                stack += [(y, inner, following) for y in e.invars]
                continue
            if e.primitive.name in REDUCTIONS or e.primitive.name in UPDATES:
                stack += [(y, int(y.aval.size), ()) for y in e.invars]
                continue
            points[e] = points.get(e, 0) + size
            stack += [(y, size, path) for y in e.invars]
        return sum(max(n - int(e.outvars[0].aval.size), 0) * work(e) for e, n in points.items())


def work(eqn: Eqn) -> float:
    return FUNCTION_OPERATIONS.get(eqn.primitive.name, 1) * target().element_ns


def reduced_axes(eqn: Eqn) -> tuple[int, ...]:
    axes = eqn.params.get("axes")
    return (eqn.params["axis"],) if axes is None else tuple(sorted(axes))


def is_renaming(eqn: Eqn) -> bool:
    """Whether a view inserts or removes axes of size 1 and does nothing else."""
    if eqn.primitive.name not in ("reshape", "broadcast_in_dim") or not eqn.invars:
        return False
    if flat(eqn.invars[0].aval.shape) != flat(eqn.outvars[0].aval.shape):
        return False
    dims = tuple(eqn.params.get("dims", ()))
    return dims == tuple(sorted(dims))


# ---- what the pass made -------------------------------------------------------------------------


def fused_program(jaxpr: Jaxpr) -> Jaxpr:
    out = fuse(jaxpr, Rewrites())
    verify(out)  # a cycle would use a variable before it is defined
    return out


def total_cost(program: Jaxpr) -> float:
    """The cost of the groups of a program."""
    return sum(group_of(e).cost() for e in program.eqns)


def group_of(eqn: Eqn) -> Graph:
    assert eqn.primitive is fused, eqn
    inner = eqn.params["jaxpr"]
    return Graph(inner.eqns, [v for v in inner.outvars if isinstance(v, Var)])


def check_groups(jaxpr: Jaxpr, program: Jaxpr) -> None:
    """Check what every partition must keep."""
    computed = [e.primitive.name for e in live(jaxpr) if not is_view(e)]
    found = [
        inner.primitive.name
        for e in program.eqns
        for inner in (e.params["jaxpr"].eqns if e.primitive is fused else [e])
        if not is_view(inner)
    ]
    given, wanted = Counter(found), Counter(computed)
    assert given >= wanted, "an equation is in no group"
    twice = {registry[name] for name in given - wanted}  # what is cheaper to compute again
    assert all(p.family == "elementwise" and p.name not in MATH for p in twice), twice
    for e in program.eqns:
        if e.primitive is fused:
            assert not group_of(e).problem(), f"{group_of(e).problem()}:\n{e.params['jaxpr']}"


def live(jaxpr: Jaxpr) -> list[Eqn]:
    """The equations that results need, in order."""
    needed: set[Any] = set(jaxpr.outvars)
    kept = []
    for e in reversed(jaxpr.eqns):
        if any(v in needed for v in e.outvars):
            needed.update(e.invars)
            kept.append(e)
    return kept[::-1]


# ---- the best partition -------------------------------------------------------------------------


class BestPartition:
    """Tries all partitions of a small program into kernels."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.eqns = live(jaxpr)
        self.results = {v for v in jaxpr.outvars if isinstance(v, Var)}
        self.defs = {v: e for e in self.eqns for v in e.outvars}
        self.nodes = [
            n
            for n, e in enumerate(self.eqns)
            if not is_view(e) or any(v in self.results for v in e.outvars)
        ]
        self.values = {v: n for n in self.nodes for v in self.eqns[n].outvars}
        self.sources = {n: self._sources(n) for n in self.nodes}
        self.known: dict[frozenset[int], float | None] = {}

    def _sources(self, n: int) -> set[int]:
        """The nodes whose values a node reads, through views."""
        found, stack = set(), list(self.eqns[n].invars)
        while stack:
            x = stack.pop()
            if x in self.values:
                found.add(self.values[x])
            elif x in self.defs:
                stack += self.defs[x].invars
        return found

    def cost_of(self, group: frozenset[int]) -> float | None:
        """The cost of a kernel, or None if there can be none."""
        if group not in self.known:
            graph = self._graph(group)
            self.known[group] = None if graph.problem() else graph.cost()
        return self.known[group]

    def _graph(self, group: frozenset[int]) -> Graph:
        needed, stack = set(group), [x for n in group for x in self.eqns[n].invars]
        while stack:
            x = stack.pop()
            if x in self.defs and x not in self.values:
                n = self.eqns.index(self.defs[x])
                if n not in needed:
                    needed.add(n)
                    stack += self.eqns[n].invars
        outside = set(self.results)
        for n in self.nodes:
            if n not in group:
                outside |= {v for m in self.sources[n] for v in self.eqns[m].outvars}
        outputs = [v for n in sorted(group) for v in self.eqns[n].outvars if v in outside]
        return Graph([self.eqns[n] for n in sorted(needed)], outputs)

    def best(self) -> float:
        """The least cost."""
        self.least = math.inf
        self._extend([], 0)
        return self.least

    def _extend(self, groups: list[set[int]], done: int) -> None:
        if done == len(self.nodes):
            costs = [self.cost_of(frozenset(g)) for g in groups]
            if all(c is not None for c in costs):
                total = sum(c for c in costs if c is not None)
                if total < self.least and not self._cyclic(groups):
                    self.least = total
            return
        n = self.nodes[done]
        for g in groups:
            g.add(n)
            self._extend(groups, done + 1)
            g.remove(n)
        self._extend([*groups, {n}], done + 1)

    def _cyclic(self, groups: list[set[int]]) -> bool:
        of = {n: k for k, g in enumerate(groups) for n in g}
        before = {
            k: {of[m] for n in g for m in self.sources[n]} - {k} for k, g in enumerate(groups)
        }
        left = set(before)
        while left:
            free = {k for k in left if not before[k] & left}
            if not free:
                return True
            left -= free
        return False


def best_cost(jaxpr: Jaxpr) -> float:
    """The least cost of all legal partitions of a program."""
    return BestPartition(jaxpr).best()


# ---- programs -----------------------------------------------------------------------------------


def bind(name: str, *operands: Atom, **params: Any) -> Eqn:
    """An equation with new results."""
    primitive = registry[name]
    out = primitive.infer(tuple(x.aval for x in operands), params)
    outs = out if isinstance(out, tuple) else (out,)
    return Eqn(primitive, operands, tuple(Var(a) for a in outs), params)


def random_graph(
    seed: int, most: int, choice: Sequence[int] = (4, 16, 60, 128, 512, 2000)
) -> Jaxpr:
    """A program of at most so many equations that are no views; all values that nothing uses, and
    some others, are results.  ``choice`` is what sizes are chosen from.
    """
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.choice(choice, 3, replace=False)]
    whole = tuple(sizes[: int(rng.integers(1, 4))]) if rng.random() < 0.7 else tuple(sizes[:2])
    parts = [whole, whole[1:], whole[:1], whole[:-1]]
    inputs = [Var(ShapedArray(parts[int(rng.integers(4))], "float32")) for _ in range(3)]
    values: list[Atom] = list(inputs)
    eqns: list[Eqn] = []
    count = 0
    while count < most:
        e = next(_steps(rng, values, whole), None)
        if e is None:
            continue
        eqns += e
        values += e[-1].outvars
        count += sum(not is_view(x) for x in e)
    used = {x for e in eqns for x in e.invars}
    free = [v for e in eqns for v in e.outvars if v not in used and not is_view(e)]
    more = [v for e in eqns for v in e.outvars if not is_view(e) and rng.random() < 0.15]
    outs = list(dict.fromkeys([*free, *more])) or [eqns[-1].outvars[0]]
    return Jaxpr((), inputs, outs, live(Jaxpr((), inputs, outs, eqns)))


def _steps(
    rng: np.random.Generator, values: list[Atom], whole: tuple[int, ...]
) -> Iterator[list[Eqn]]:
    """One random step, if it is possible: an equation, or one with the view that it needs."""
    recent = values[-4:] if rng.random() < 0.6 else values
    x = recent[int(rng.integers(len(recent)))]
    kind = rng.random()
    shape = x.aval.shape
    if kind < 0.2:
        yield [bind(str(rng.choice(["neg", "exp", "abs", "sin"])), x)]
    elif kind < 0.5:
        same = [v for v in values if v.aval.shape == shape]
        y = same[int(rng.integers(len(same)))]
        yield [bind(str(rng.choice(["add", "mul", "sub", "max"])), x, y)]
    elif kind < 0.7:
        fit = [p for p in (whole, whole[1:]) if set(shape) < set(p)]
        if fit:
            target = fit[int(rng.integers(len(fit)))]
            dims = tuple(target.index(n) for n in shape)
            view = bind("broadcast_in_dim", x, shape=target, dims=dims)
            same = [v for v in values if v.aval.shape == target]
            other = same[int(rng.integers(len(same)))] if same else Literal(
                2.0, ShapedArray((), "float32"))  # fmt: skip
            yield [view, bind("add", view.outvars[0], other)]
    elif kind < 0.85 and shape:
        axes = (int(rng.integers(len(shape))),)
        yield [bind(str(rng.choice(["reduce_sum", "reduce_max"])), x, axes=axes)]
    elif kind < 0.95 and shape:
        view = bind("transpose", x, perm=tuple(map(int, rng.permutation(len(shape)))))
        if view.params["perm"] != tuple(range(len(shape))):
            yield [view, bind("neg", view.outvars[0])]
    elif shape and min(shape) >= 4:
        half = tuple(n // 2 for n in shape)
        view = bind("slice", x, start=(0,) * len(half), limit=half, strides=(1,) * len(half))
        yield [view, bind("exp", view.outvars[0])]
