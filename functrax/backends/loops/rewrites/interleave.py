"""Long rows in pieces that are gone through side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from functrax.backends.loops.rewrites.rewrite import Rewrite, carried, on_loops
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Function,
    Loop,
    Statement,
    index,
    length,
    plus,
)
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Scalar


@record
class Interleave(Rewrite):
    """A vector loop in pieces: a vector of each, then the next vectors.

    What is left, less than a vector of each piece, has a loop of its own.

    Args:
      dim: of the innermost loops.
      pieces: how many.
    """

    kind: ClassVar[str] = "interleave"
    dim: int
    pieces: int

    def apply(self, tree: Function) -> Function:
        """The tree with its loops in pieces."""

        def change(loop: Loop) -> Sequence[Statement]:
            whole = loop.kind == "vector" and not loop.peeled
            return self._in_pieces(tree, loop) if whole else [loop]

        return on_loops(tree, self.dim, change)

    def _in_pieces(self, tree: Function, loop: Loop) -> list[Statement]:
        b, n, lanes = tree.builder, self.pieces, loop.step
        steps = b.div(length(b, loop.begin, loop.end), b.const(n * lanes, INDEX))
        size = b.mul(steps, b.const(lanes, INDEX)) if lanes > 1 else steps
        j = tree.new_dim()
        accs = self._leaves(tree, "acc", loop)
        values = accs
        body: list[Statement] = []
        for k in range(n):
            begin = index(b, j)
            if k:
                begin = plus(b, begin, b.mul(size, b.const(k, INDEX)) if k > 1 else size)
            results = self._leaves(tree, "result", loop)
            carries = carried(loop.carries, values, results)
            body.append(Bind(loop.dim, begin, loop.body, carries, vector=True))
            values = results
        between = self._leaves(tree, "result", loop)
        outer = [
            replace(c, acc=acc, new=new, result=result)
            for c, acc, new, result in zip(loop.carries, accs, values, between, strict=True)
        ]
        end = plus(b, loop.begin, size)
        pieces = Loop(
            "serial", j, loop.begin, end, lanes, tuple(body), tuple(outer), maybe_empty=True
        )
        middle = plus(b, loop.begin, b.mul(size, b.const(n, INDEX)) if n > 1 else size)
        last = [c.result for c in loop.carries]
        carries = carried(loop.carries, between, last)
        rest = replace(loop, begin=middle, carries=carries, maybe_empty=True, peeled=True)
        return [pieces, rest]

    def _leaves(self, tree: Function, op: str, loop: Loop) -> list[Scalar]:
        return [tree.leaf(op, c.acc.dtype) for c in loop.carries]
