"""The order of loops, and loops in two."""

from __future__ import annotations

from typing import ClassVar

from functrax.backends.loops.rewrites.rewrite import Rewrite, changed, nest, nested, on_loops
from functrax.backends.loops.tree import Function, Loop, Statement, index, plus, smaller
from functrax.core.records import record, replace


@record
class Reorder(Rewrite):
    """Loops that stand one inside the other, in another order.

    Wherever a nest has loops over just these dims, they go in this order.  What is carried goes
    from loop to loop as before, so a reduction is done in another order, too.

    Args:
      dims: outermost first.
    """

    kind: ClassVar[str] = "reorder"
    dims: tuple[int, ...]

    def apply(self, tree: Function) -> Function:
        """The tree with its loops in this order."""

        def change(s: Statement) -> list[Statement] | None:
            loops = nest(s)[: len(self.dims)] if type(s) is Loop else []
            by_dim = {loop.dim: loop for loop in loops}
            if by_dim.keys() != set(self.dims):
                return None
            inside = loops[-1].body
            # A loop in the place of another one has its carries.
            moved = zip(loops, self.dims, strict=True)
            loops = [replace(by_dim[d], carries=place.carries) for place, d in moved]
            return [nested(loops, inside)]

        return replace(tree, body=changed(tree.body, change))


@record
class Split(Rewrite):
    """A loop that carries nothing in blocks: a loop over blocks, and one over each one's points.

    Args:
      dim: of the loop, which the inner one keeps.
      size: points of a block.
    """

    kind: ClassVar[str] = "split"
    dim: int
    size: int

    def apply(self, tree: Function) -> Function:
        """The tree with the loop in two."""
        b, block = tree.builder, tree.new_dim()

        def change(loop: Loop) -> list[Statement]:
            assert not loop.carries
            begin = index(b, block)
            end = smaller(b, plus(b, begin, b.const(self.size, begin.dtype)), loop.end)
            inner = replace(loop, begin=begin, end=end)
            return [Loop("parallel", block, loop.begin, loop.end, self.size, (inner,))]

        return on_loops(tree, self.dim, change)
