"""Rows of memory between the stages of a kernel.

Stages run over the same row one after the other.  What an early one computes with functions that
are dear, and a later one needs again (the exponentials of a softmax), is kept in a row of memory
that belongs to the kernel, and read again from the cache.  What is cheap is computed again.

Start at :func:`keep_rows`.
"""

from __future__ import annotations

from functrax.backends.kernels.accesses import address_along
from functrax.backends.kernels.ir import Kernel, Operand, Store, load, ordered
from functrax.backends.kernels.merge import Rewriting
from functrax.backends.targets import target
from functrax.core.scalars.scalar import MATH, Scalar


def keep_rows(kernel: Kernel) -> None:
    """Let later stages read what earlier ones computed, where that is worth it."""
    if len(kernel.stages) < 2 or kernel.vector not in kernel.inner:
        return
    keeper = _Keeper(kernel)
    for number in range(len(kernel.stages)):
        keeper.visit(number)


class _Keeper:
    """Goes through the stages of a kernel in order."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.inner = set(kernel.inner)
        self.computed: dict[int, int] = {}  # nodes, and the first stage that computes them
        self.dear: dict[int, bool] = {}
        self.varies: dict[int, bool] = {}
        self.kept: dict[int, Scalar] = {}
        self.place, self.length = address_along(kernel, kernel.inner)
        self.bytes = 0

    def visit(self, number: int) -> None:
        """Make a stage read what is kept, and note what it computes."""
        stage = self.kernel.stages[number]
        roots = [x for r in stage.reductions for x in r.values]
        roots += [x for s in stage.stores for x in s.values]
        nodes = ordered(roots)
        for node in nodes:
            self._describe(node)
        replaced: dict[int, Scalar] = {}
        for root in roots:
            self._find(root, replaced)
        for node in nodes:
            self.computed.setdefault(id(node), number)
        if replaced:
            dims = {d: d for d in range(len(self.kernel.extents))}
            rewritten = Rewriting(self.kernel.builder, dims, replaced)
            self.kernel.stages[number] = rewritten.stage(stage)

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
        if found is not None or self.bytes + size > target().row_bytes:
            return found
        self.bytes += size
        number = len(self.kernel.operands)
        self.kernel.operands.append(Operand(node.dtype, self.length, True, scratch=True))
        computing = self.kernel.stages[self.computed[id(node)]]
        computing.stores.append(Store(number, self.place, node))
        found = load(self.kernel.builder, node.dtype, number, (self.place, None))
        self.kept[id(node)] = found
        self.varies[id(found)], self.dear[id(found)] = True, False
        return found
