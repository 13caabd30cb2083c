"""What the threads of a group do each: how they divide what is to be done among them.

Each thread has a number in its group.  A rewrite gives threads neighbouring elements, so that they
read and write memory in whole lines, and keeps tiles in an array that they share, whose rows are
one element longer than the tile's: so threads that go down a column meet other banks of it.

Start at :class:`GroupMembers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.kernels.ir import Operand, load, ordered
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Body,
    Function,
    Loop,
    Statement,
    extent,
    index,
)
from functrax.core.index.expr import IndexExpr
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar

WORD: Final = np.dtype(np.uint32)


class GroupMembers:
    """Writes what the threads of a group do.

    Args:
      tree: that it is for.
      group: how many threads.

    Attributes:
      thread: the number of the thread, in 32 bits as all numbers of points are.
    """

    def __init__(self, tree: Function, group: int) -> None:
        self.tree, self.group, self.b = tree, group, tree.builder
        self._dim = tree.new_dim()
        self.thread = self.b.convert(index(self.b, self._dim), WORD)
        self._operands = list(tree.operands)

    def share(self, dtype: np.dtype[Any], size: int) -> int:
        """The number of a new array that the threads share."""
        self._operands.append(Operand(dtype, size, True, shared=True))
        return len(self._operands) - 1

    def rewritten(self, loops: Sequence[Loop], body: Body) -> Function:
        """The tree whose threads do statements, in each step of loops one inside the other."""
        tree = self.tree
        zero, end = self.b.const(0, INDEX), self.b.const(self.group, INDEX)
        body = (Loop("member", self._dim, zero, end, 1, body),)
        for loop in reversed(loops):
            body = (replace(loop, body=body),)
        shared = range(len(tree.operands), len(self._operands))
        updated = tree.updated.union(shared)
        facts = {"operands": self._operands, "updated": updated, "group": self.group}
        return replace(tree, body=body, nodes_=None, **facts)

    def tiles(self, count: int) -> Loop:
        """A loop over so many tiles."""
        d = self.tree.new_dim()
        return Loop("parallel", d, self.b.const(0, INDEX), extent(self.b, d, count), 1, ())

    def each(self, count: int, body: Callable[[Scalar], Body]) -> Statement:
        """What is done with each of so many elements, which the threads share evenly."""
        d, b = self.tree.new_dim(), self.b
        zero, end = b.const(0, INDEX), b.const(count // self.group, INDEX)
        step = b.convert(index(b, d), WORD)
        here = b.add(self.thread, b.mul(step, b.const(self.group, WORD)))
        return Loop("serial", d, zero, end, 1, body(here))

    def divided(self, x: Scalar, size: int) -> tuple[Scalar, Scalar]:
        """Quotient and remainder of a number by a size."""
        by = self.b.const(size, WORD)
        return self.b.div(x, by), self.b.rem(x, by)

    def numbered(self, tile: Loop, size: int, inside: int) -> Scalar:
        """The number of a point, which is the one with the index ``inside`` in a tile."""
        b = self.b
        place, begin = b.convert(index(b, inside), WORD), b.convert(index(b, tile.dim), WORD)
        return b.add(b.mul(begin, b.const(size, WORD)), place)

    def bound(self, indices: Sequence[tuple[int, Scalar]], body: Body) -> Body:
        """Statements with indices that are given."""
        for d, x in reversed(indices):
            body = (Bind(d, self.b.convert(x, INDEX), body),)
        return body

    def read(self, value: Scalar, inside: Scalar) -> Scalar:
        """An expression that reads nothing where a bool is false, and is anything there."""
        new: dict[Scalar, Scalar] = {}
        for node in ordered((value,)):
            args = tuple([new[x] for x in node.args])
            if node.op == "load":
                buffer, address, has_offset, has_guard = node.attr
                guard = self.b.both(args[-1], inside) if has_guard else inside
                offset = args[0] if has_offset else None
                new[node] = load(self.b, node.dtype, buffer, (address, offset), guard)
            elif all(x is y for x, y in zip(args, node.args, strict=True)):
                new[node] = node
            else:
                new[node] = self.b.node(node.op, node.dtype, args, node.attr)
        return new[value]

    def get(self, buffer: int, place: IndexExpr) -> Scalar:
        """What is read of an array that the threads share."""
        return load(self.b, self._operands[buffer].dtype, buffer, (place, None))
