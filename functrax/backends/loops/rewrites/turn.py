"""Squares that are transposed in registers."""

from __future__ import annotations

from typing import ClassVar

from functrax.backends.kernels.ir import Store
from functrax.backends.loops.rewrites.rewrite import Rewrite, nest, nested, on_loops
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Function,
    Loop,
    Statement,
    Tile,
    extent,
    index,
    plus,
)
from functrax.core.records import record, replace


@record
class Turn(Rewrite):
    """As many points of a loop at once as vectors along another one have lanes.

    What is contiguous along the loop is read in rows, and transposed in registers.

    Args:
      dim: of the loop, in whose innermost statements there are stores alone.
    """

    kind: ClassVar[str] = "turn"
    dim: int

    def apply(self, tree: Function) -> Function:
        """The tree whose innermost statements are tiles."""
        if tree.vector is None:
            return tree
        b, corner, lanes = tree.builder, tree.new_dim(), tree.lanes
        whole = tree.extents[self.dim] % lanes == 0
        end = extent(b, self.dim, tree.extents[self.dim])

        def change(loop: Loop) -> list[Statement]:
            loops = nest(replace(loop, dim=corner, step=lanes))
            stores = loops[-1].body
            assert all(type(s) is Store for s in stores)
            points = []
            for n in range(lanes):
                here = plus(b, index(b, corner), b.const(n, INDEX))
                inside = None if whole or n == 0 else b.compare("lt", here, end)
                points.append(Bind(self.dim, here, stores, inside=inside))
            return [nested(loops, (Tile(corner, tuple(points)),))]

        return on_loops(tree, self.dim, change, tile=self.dim)
