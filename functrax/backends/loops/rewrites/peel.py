"""First and last steps of vector loops, as loops of their own."""

from __future__ import annotations

from collections.abc import Sequence
from operator import ne
from typing import ClassVar

from functrax.backends.kernels.ir import Store
from functrax.backends.loops.rewrites.rewrite import Rewrite, carried, on_loops
from functrax.backends.loops.tree import (
    INDEX,
    Function,
    Loop,
    Statement,
    length,
    plus,
    smaller,
)
from functrax.core.records import record, replace
from functrax.core.types.size_bounds import surely


@record
class Peel(Rewrite):
    """The last vector of masked loops has a loop of its own, so that the others need no mask.

    Args:
      dim: of the vector loops.
    """

    kind: ClassVar[str] = "peel"
    dim: int

    def apply(self, tree: Function) -> Function:
        """The tree with two loops for each."""
        b = tree.builder

        def change(loop: Loop) -> Sequence[Statement]:
            if not loop.masked or loop.peeled:
                return [loop]
            whole = b.logic("and", length(b, loop.begin, loop.end), b.const(-loop.step, INDEX))
            middle = plus(b, loop.begin, whole)
            rest = tree.extents[self.dim] % loop.step
            # A part may have whole vectors only, or none.
            maybe = loop.begin.op != "const" or not surely(ne, rest, 0)
            main = replace(loop, end=middle, masked=False, maybe_empty=maybe)
            return in_two(tree, main, replace(loop, begin=middle, maybe_empty=maybe, peeled=True))

        return on_loops(tree, self.dim, change)


@record
class Align(Rewrite):
    """A first short vector up to where a cache line of a result begins, then whole ones.

    Args:
      dim: of the vector loop.
      buffer: the result, which one store writes.
    """

    kind: ClassVar[str] = "align"
    dim: int
    buffer: int

    def apply(self, tree: Function) -> Function:
        """The tree with a loop of one step at most before each."""
        b = tree.builder
        stores = [s for s in tree.statements() if type(s) is Store and s.buffer == self.buffer]
        (store,) = stores

        def change(loop: Loop) -> Sequence[Statement]:
            if loop.kind != "vector":
                return [loop]
            line = b.node("line", INDEX, (loop.begin,), (self.buffer, store.address, self.dim))
            line = smaller(b, line, loop.end)
            head = replace(loop, end=line, masked=True, maybe_empty=True, peeled=True)
            return in_two(tree, head, replace(loop, begin=line, masked=True))

        return on_loops(tree, self.dim, change)


def in_two(tree: Function, first: Loop, second: Loop) -> list[Statement]:
    """Two parts of a loop, the second of which carries on what the first one carried."""
    between = [tree.leaf("result", c.acc.dtype) for c in first.carries]
    first = replace(first, carries=carried(first.carries, results=between))
    return [first, replace(second, carries=carried(second.carries, between))]
