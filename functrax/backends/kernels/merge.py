"""Neighbouring dims of a kernel as one, where every address allows it.

Start at :func:`merged`.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.accesses import accesses, coefficients
from functrax.backends.kernels.ir import Done, Kernel, LoopStage, Store, ordered
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.records import replace
from functrax.core.scalars.scalar import Builder, Scalar


def merged(kernel: Kernel, merge_inner: bool = True) -> Kernel:
    """The kernel with neighbouring dims merged, and dims of size 1 left out."""
    rank = len(kernel.extents)
    rows = [coefficients(address, rank) for address, _, _ in accesses(kernel)]
    fixed = {node.attr for node in kernel.nodes() if node.op == "dim"}
    if "merge" in kernel.off:
        fixed.update(kernel.outer, kernel.inner)
    elif not merge_inner:
        fixed.update(kernel.inner)
    groups = [
        _runs([d for d in dims if kernel.extents[d] > 1], rows, fixed, kernel.extents)
        for dims in (kernel.outer, kernel.inner)
    ]
    if kernel.inner and not groups[1]:
        groups[1] = [[kernel.inner[0]]]  # rows of one element: the stages still need a loop
    runs = [*groups[0], *groups[1]]
    if all(len(g) == 1 for g in runs) and len(runs) == len((*kernel.outer, *kernel.inner)):
        return kernel
    number = {g[-1]: k for k, g in enumerate(runs)}
    rewritten = Rewriting(kernel.builder, number)
    return replace(
        rewritten.kernel(kernel),
        extents=tuple(math.prod(kernel.extents[d] for d in g) for g in runs),
        outer=tuple(range(len(groups[0]))),
        inner=tuple(range(len(groups[0]), len(runs))),
        rewrites=(*kernel.rewrites, *[Done("merge", tuple(g)) for g in runs if len(g) > 1]),
    )


def _runs(
    dims: list[int], rows: list[list[int]], fixed: set[int], extents: tuple[int, ...]
) -> list[list[int]]:
    """Runs of neighbouring dims that every access walks through as if they were one."""
    groups: list[list[int]] = []
    for d in dims:
        if groups and d not in fixed:
            last = groups[-1][-1]
            if last not in fixed and all(row[last] == row[d] * extents[d] for row in rows):
                groups[-1].append(d)
                continue
        groups.append([d])
    return groups


class Rewriting:
    """Expressions with other numbers of dims; dims without a new number are left out.

    Args:
      builder: makes the expressions.
      number: the new numbers of dims.
      new: expressions to put in the place of others, which are known by their ids.
    """

    def __init__(
        self, builder: Builder, number: dict[int, int], new: dict[int, Scalar] | None = None
    ) -> None:
        self.builder = builder
        self.number = number
        self.new = {} if new is None else new

    def address(self, expr: IndexExpr) -> IndexExpr:
        """An address in the new dims."""
        terms = []
        for atom, coef in expr.terms:
            assert isinstance(atom, Dim)
            if atom.number in self.number:
                terms.append((Dim(self.number[atom.number]), coef))
        return add_terms(expr.const, terms)

    def array(self, number: int) -> int:
        """The number of an array in the new kernel."""
        return number

    def scalar(self, root: Scalar) -> Scalar:
        """An expression in the new dims."""
        new = self.new
        for node in ordered((root,)):
            if id(node) not in new:
                new[id(node)] = self._node(node)
        return new[id(root)]

    def _node(self, node: Scalar) -> Scalar:
        args = tuple(self.new[id(x)] for x in node.args)
        attr = node.attr
        if node.op == "load":
            attr = (self.array(attr[0]), self.address(attr[1]), *attr[2:])
        elif node.op == "dim":
            if attr not in self.number:
                return self.builder.const(0, node.dtype)
            attr = self.number[attr]
        elif all(x is y for x, y in zip(args, node.args, strict=True)):
            return node
        return self.builder.node(node.op, node.dtype, args, attr)

    def store(self, store: Store) -> Store:
        """A store in the new dims."""

        def maybe(x: Scalar | None) -> Scalar | None:
            return None if x is None else self.scalar(x)

        return replace(
            store,
            buffer=self.array(store.buffer),
            address=self.address(store.address),
            value=self.scalar(store.value),
            offset=maybe(store.offset),
            guard=maybe(store.guard),
        )

    def stage(self, stage: LoopStage) -> LoopStage:
        """A stage in the new dims."""
        reductions = [
            replace(r, values=tuple(map(self.scalar, r.values))) for r in stage.reductions
        ]
        carries = [
            replace(c, initial=self.scalar(c.initial), new=self.scalar(c.new))
            for c in stage.carries
        ]
        condition = None if stage.condition is None else self.scalar(stage.condition)
        stores = [self.store(s) for s in stage.stores]
        scan = stage.scan
        if scan is not None:
            values, new = (tuple(map(self.scalar, x)) for x in (scan.values, scan.results))
            scan = replace(scan, values=values, results=new)
        return LoopStage(reductions, stores, carries, condition, scan)

    def kernel(self, kernel: Kernel) -> Kernel:
        """All expressions of a kernel in the new dims."""
        stages = [self.stage(stage) for stage in kernel.stages]
        return replace(kernel, stages=stages, rows=[self.store(s) for s in kernel.rows])
