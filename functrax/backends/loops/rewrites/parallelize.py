"""Units of work that threads share."""

from __future__ import annotations

from operator import eq
from typing import ClassVar

from functrax.backends.loops.rewrites.rewrite import Rewrite, on_loops
from functrax.backends.loops.tree import INDEX, Function, Loop, Statement, index, number, smaller
from functrax.core.records import record, replace
from functrax.core.types.size_bounds import surely


@record
class Parallelize(Rewrite):
    """A loop in blocks, which are units of work for threads.

    Args:
      dim: of the loop.
      grain: points of a block.
    """

    kind: ClassVar[str] = "parallelize"
    dim: int
    grain: int

    def apply(self, tree: Function) -> Function:
        """The tree with a loop over units around it."""
        b, units = tree.builder, -(-tree.extents[self.dim] // self.grain)
        first, last = (b.node("units", INDEX, (), x) for x in ("begin", "end"))
        (outermost,) = tree.body
        if self.grain == 1 and type(outermost) is Loop and outermost.dim == self.dim:
            loop = replace(outermost, kind="threads", begin=first, end=last)
            return replace(tree, body=(loop,), units=units)
        unit = tree.new_dim()
        grain = number(b, "grain", self.grain)
        low = b.mul(index(b, unit), grain)
        end = b.add(low, grain)

        def change(loop: Loop) -> list[Statement]:
            masked = loop.masked or (
                loop.kind == "vector" and not surely(eq, self.grain % loop.step, 0)
            )
            return [replace(loop, begin=low, end=smaller(b, end, loop.end), masked=masked)]

        tree = on_loops(tree, self.dim, change)
        return replace(tree, body=(Loop("threads", unit, first, last, 1, tree.body),), units=units)
