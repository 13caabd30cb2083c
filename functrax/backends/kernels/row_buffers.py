"""Rows of memory between the stages of a kernel.

Stages run over the same row one after the other.  What an early one computes with functions that
are dear, and a later one needs again (the exponentials of a softmax), is kept in a row of memory
that belongs to the kernel, and read again from the cache.  What is cheap is computed again.

Start at :func:`keep_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from functrax.backends.kernels.ir import Kernel, Operand, Stage, Store, ordered
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.records import replace
from functrax.core.scalars.scalar import MATH, Scalar

#: The most bytes of a kernel's own rows.
MAX_BYTES = 128 * 1024


def keep_rows(kernel: Kernel) -> None:
    """Let later stages read what earlier ones computed, where that is worth it."""
    if len(kernel.stages) < 2 or kernel.vector not in kernel.inner:
        return
    keeper = _Keeper(kernel)
    for stage in kernel.stages:
        keeper.visit(stage)


class _Keeper:
    """Goes through the stages of a kernel in order."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.inner = set(kernel.inner)
        self.computed: dict[int, Stage] = {}  # nodes, and the first stage that computes them
        self.dear: dict[int, bool] = {}
        self.varies: dict[int, bool] = {}
        self.kept: dict[int, Scalar] = {}
        self.length = math.prod(kernel.extents[d] for d in kernel.inner)
        self.bytes = 0

    def visit(self, stage: Stage) -> None:
        """Make the stage read what is kept, and note what it computes."""
        nodes = ordered(_roots(stage))
        for node in nodes:
            self._describe(node)
        replaced: dict[int, Scalar] = {}
        for root in _roots(stage):
            self._find(root, replaced)
        for node in nodes:
            self.computed.setdefault(id(node), stage)
        if replaced:
            self._rewrite(stage, nodes, replaced)

    def _describe(self, node: Scalar) -> None:
        own = (node.op == "load" and not self.inner.isdisjoint(node.attr[1].used_dims())) or (
            node.op == "dim" and node.attr in self.inner
        )
        self.varies[id(node)] = own or any(self.varies[id(x)] for x in node.args)
        inside = any(self.dear[id(x)] for x in node.args)
        self.dear[id(node)] = self.varies[id(node)] and (node.op in MATH or inside)

    def _find(self, root: Scalar, replaced: dict[int, Scalar]) -> None:
        """The uppermost nodes that are dear and were computed by an earlier stage."""
        stack = [root]
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen or not self.dear[id(node)]:
                continue
            seen.add(id(node))
            if id(node) in self.computed:
                found = self._keep(node)
                if found is not None:
                    replaced[id(node)] = found
                    continue
            stack.extend(node.args)

    def _keep(self, node: Scalar) -> Scalar | None:
        """The load of a node from its row; None if there is no memory left."""
        found = self.kept.get(id(node))
        size = self.length * node.dtype.itemsize
        if found is not None or self.bytes + size > MAX_BYTES:
            return found
        self.bytes += size
        number = len(self.kernel.operands)
        self.kernel.operands.append(Operand(node.dtype, self.length, True, scratch=True))
        place = self._place()
        self.computed[id(node)].stores.append(Store(number, place, node))
        load = self.kernel.builder.node("load", node.dtype, (), (number, place, False, False))
        self.kept[id(node)] = load
        self.varies[id(load)], self.dear[id(load)] = True, False
        return load

    def _place(self) -> IndexExpr:
        place: IndexExpr = as_expr(0)
        for d in self.kernel.inner:
            place = place * self.kernel.extents[d] + Dim(d)
        return place

    def _rewrite(self, stage: Stage, nodes: list[Scalar], replaced: dict[int, Scalar]) -> None:
        new: dict[int, Scalar] = dict(replaced)
        for node in nodes:
            if id(node) not in new:
                args = tuple(new[id(x)] for x in node.args)
                same = all(x is y for x, y in zip(args, node.args, strict=True))
                b = self.kernel.builder
                new[id(node)] = node if same else b.node(node.op, node.dtype, args, node.attr)
        stage.reductions = [
            replace(r, values=tuple(new[id(v)] for v in r.values)) for r in stage.reductions
        ]
        stage.stores = [_with(store, new) for store in stage.stores]


def _with(store: Store, new: dict[int, Scalar]) -> Store:
    offset = None if store.offset is None else new[id(store.offset)]
    guard = None if store.guard is None else new[id(store.guard)]
    return replace(store, value=new[id(store.value)], offset=offset, guard=guard)


def _roots(stage: Stage) -> Iterator[Scalar]:
    for reduction in stage.reductions:
        yield from reduction.values
    for store in stage.stores:
        yield from (x for x in (store.value, store.offset, store.guard) if x is not None)
