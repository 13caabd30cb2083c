"""The plain tree of a kernel: its loops as they were lowered, before any rewrite.

Outer dims are parallel loops, one inside the other.  Inside them each stage is a nest of loops that
carry what it accumulates, and the row stores follow.  What a tree is rewritten by is in
``loops/rewrites``.  Where expressions are about whole vectors, there are vector loops from the
beginning.

Start at :func:`build`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from functrax.backends.kernels.ir import Kernel, LoopStage, Reduce, Store
from functrax.backends.kernels.tiling import Tiling
from functrax.backends.loops.rewrites.vectorize import Vectorize
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Body,
    Carried,
    Function,
    Let,
    Loop,
    Poll,
    Running,
    Statement,
    While,
    extent,
    index,
    number,
    smaller,
)
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar

#: Operations from which on a loop of steps that depend on one another can be interrupted.
LONG: Final = 1 << 26


def build(kernel: Kernel) -> Function:
    """The plain tree of a kernel."""
    k = kernel
    tree = Function(
        k.name, k.builder, k.operands, k.extents, (), fetches=k.fetches, updated=k.updated,
        points=k.points, work=k.work, nodes_=k.nodes(), counter=count(len(k.extents)),
    )  # fmt: skip
    body: Body = tuple([x for stage in k.stages for x in _Stage(tree, k, stage).statements()])
    if k.tiling is not None:
        body = _with_tile(k, k.tiling, body)
    else:
        body = (*body, *k.rows)
    for d in reversed(k.outer):
        body = (Loop("parallel", d, *_range(k, d), 1, body),)
    tree = replace(tree, body=body)
    if not k.in_lanes:
        return tree
    assert k.vector is not None
    return Vectorize(k.vector, k.lanes).apply(tree)


def _with_tile(k: Kernel, t: Tiling, body: Body) -> Body:
    """The statements of a point of a contraction: its sum goes by way of a tile in scratch memory.

    Where its tile begins is known in them, for the sides are read from there.
    """
    b = k.builder
    (reduction,) = k.stages[0].reductions
    body = (*body, Store(t.scratch, t.place, reduction.results[0]), *k.rows)
    if t.block is not None:
        body = (Bind(t.first_column + 1, b.const(0, INDEX), body),)
    for d, first_, size in (
        (t.columns, t.first_column, t.width * t.lanes),
        (t.rows, t.first_row, t.height),
    ):
        here = index(b, d)
        begin = b.sub(here, b.rem(here, b.const(size, INDEX)))
        body = (Bind(first_, begin, body, tile=(d, size)),)
    return body


def _range(k: Kernel, d: int) -> tuple[Scalar, Scalar]:
    """Where the loop over a dim begins and ends."""
    b = k.builder
    end = extent(b, d, k.extents[d])
    if k.block is None or d != k.block[0]:
        return b.const(0, INDEX), end
    size = number(b, "grain", k.block[1])
    low = b.mul(index(b, k.block[2]), size)
    return low, smaller(b, b.add(low, size), end)


class _Stage:
    """One stage: what it carries, and its loops."""

    def __init__(self, tree: Function, kernel: Kernel, stage: LoopStage) -> None:
        self.tree, self.kernel, self.stage = tree, kernel, stage
        reductions, carries = stage.reductions, stage.carries
        b = kernel.builder
        self.first = [x for r in reductions for x in r.how.empty(b)]
        self.first += [c.initial for c in carries]
        self.accs = [x for r in reductions for x in r.accs] + [c.acc for c in carries]
        self.names = [x for r in reductions for x in r.results] + [c.result for c in carries]
        self.varies = [True] * (len(self.accs) - len(carries))
        self.varies += [bool(c.acc.attr[2]) for c in carries]

    def statements(self) -> list[Statement]:
        """The nest over the inner dims, or a loop that goes on as long as a condition holds."""
        k, stage = self.kernel, self.stage
        body, new = self._point()
        if stage.condition is not None:
            carries = self._carried(self.first, self.accs, new, self.names)
            return [While(self.tree.new_dim(), stage.condition, tuple(body), carries)]
        if not k.inner:
            return [*body, Let(tuple(self.names), tuple(new))] if new else body
        accs, kind = self.accs, self._kind()
        for n, d in enumerate(reversed(k.inner), 1):
            last = n == len(k.inner)
            first = self.first if last else self._leaves("acc")
            results = self.names if last else self._leaves("result")
            carries = self._carried(first, accs, new, results)
            body = [Loop(kind, d, *_range(k, d), 1, tuple(body), carries)]
            accs, new = first, results
        return body

    def _kind(self) -> str:
        serial = self.accs or any(s.serial for s in self.stage.stores)
        return "serial" if serial else "parallel"

    def _leaves(self, op: str) -> list[Scalar]:
        return [self.tree.leaf(op, x.dtype) for x in self.accs]

    def _carried(
        self,
        first: Sequence[Scalar],
        accs: Sequence[Scalar],
        new: Sequence[Scalar],
        results: Sequence[Scalar],
    ) -> tuple[Carried, ...]:
        found = zip(first, accs, new, results, self.varies, strict=True)
        return tuple([Carried(f, a, n, r, varies=v) for f, a, n, r, v in found])

    def _point(self) -> tuple[list[Statement], list[Scalar]]:
        """What a step does, and what it makes of what is carried."""
        stage = self.stage
        found: list[Statement] = []
        if self._is_long():
            found.append(Poll())
        new: list[Scalar] = []
        for reduction in stage.reductions:
            step = replace(reduction, results=self._like("result", reduction))
            found.append(step)
            new += step.results
        carried = [c.new for c in stage.carries]
        if stage.scan is not None:
            last = self._like("result", stage.scan)
            found.append(Running(stage.scan, last))
            carried = list(last)
        if self.kernel.updated:  # all is read before anything is written
            roots = [x for s in stage.stores for x in s.values]
            found.append(Let((), (*roots, *carried)))
        return [*found, *stage.stores], [*new, *carried]

    def _like(self, op: str, reduction: Reduce) -> tuple[Scalar, ...]:
        return tuple([self.tree.leaf(op, x.dtype) for x in reduction.accs])

    def _is_long(self) -> bool:
        """Whether it may take so long that somebody wants to interrupt it."""
        k, stage = self.kernel, self.stage
        if stage.condition is not None:
            return True
        steps = k.extents[k.inner[-1]] if stage.carries and stage.scan is None else 0
        return steps * k.work >= LONG
