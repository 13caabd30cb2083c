"""Reads along another dim than results are written along, by way of memory that threads share.

    for tiles:
        for threads:
            at each of its points of the tile, neighbours along the dim of the reads:
                shared[point] = what is read there
            barrier
            at each of its points, neighbours along the dim of the stores:
                what is stored, of shared[point]

So threads that are neighbours read neighbours, and write neighbours.

Start at :class:`StageReads`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

import numpy as np

from functrax.backends.kernels.accesses import coefficient, dims_of
from functrax.backends.kernels.ir import Store, ordered
from functrax.backends.kernels.merge import Rewriting
from functrax.backends.loops.rewrites.grid import parallel_loops
from functrax.backends.loops.rewrites.members import WORD, GroupMembers
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.tree import Barrier, Body, Function, If, extent
from functrax.core.index.expr import Dim
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar

_BOOL: Final = np.dtype(np.bool_)


@record
class StageReads(Rewrite):
    """Tiles of two dims are read along one of them, kept, and used along the other.

    Args:
      group: how many threads do a tile.
      edge: how many points it has along each of the two dims.
      count: how many reads are done so: the first ones.
      dim_written: along which results are contiguous.
      dim_read: along which the reads are.
    """

    kind: ClassVar[str] = "staged"
    group: int
    edge: int
    count: int
    dim_written: int
    dim_read: int

    @property
    def is_required(self) -> bool:
        """Always: the loops are those of a group of threads."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree of loops over tiles."""
        m, b, edge = GroupMembers(tree, self.group), tree.builder, self.edge
        loops, body = parallel_loops(tree.body)
        stores = [s for s in body if type(s) is Store]
        dims = self.dim_written, self.dim_read
        found = reads_along([x for s in stores for x in s.values], *dims)[: self.count]
        arrays = [m.share(x.dtype, edge * (edge + 1)) for x in found]
        blocks, tiles = [], {}
        for loop in loops:
            if loop.dim in dims:
                tiles[loop.dim] = m.tiles(-(-tree.extents[loop.dim] // edge))
            blocks.append(tiles.get(loop.dim, loop))
        inside = {d: tree.new_dim() for d in dims}
        place = Dim(inside[self.dim_written]) * (edge + 1) + Dim(inside[self.dim_read])

        here: list[tuple[int, Scalar]] = []
        is_point = b.const(True, _BOOL)
        for d in dims:
            here.append((d, m.numbered(tiles[d], edge, inside[d])))
            if tree.extents[d] % edge:
                end = b.convert(extent(b, d, tree.extents[d]), WORD)
                is_point = b.both(is_point, b.compare("lt", here[-1][1], end))

        def points(along: int, across: int, body: Body) -> Callable[[Scalar], Body]:
            def point(x: Scalar) -> Body:
                row, column = m.divided(x, edge)
                return m.bound([(inside[across], row), (inside[along], column)], body)

            return point

        reads = found if is_point.is_constant else [m.read(x, is_point) for x in found]
        kept = tuple([Store(n, place, x) for n, x in zip(arrays, reads, strict=True)])
        new = {id(x): m.get(n, place) for n, x in zip(arrays, found, strict=True)}
        same = Rewriting(b, {d: d for d in range(len(tree.extents))}, new)
        used = m.bound(here, tuple([same.store(s) for s in stores]))
        used = used if is_point.is_constant else (If(is_point, used),)
        body = (
            m.each(edge * edge, points(self.dim_read, self.dim_written, m.bound(here, kept))),
            Barrier(),
            m.each(edge * edge, points(self.dim_written, self.dim_read, used)),
        )
        return m.rewritten(blocks, body)


def reads_along(values: Iterable[Scalar], written: int, read: int) -> list[Scalar]:
    """The reads of which neighbours along one dim are nearer than those along another one."""
    found = [node for node in ordered(values) if node.op == "load"]
    return [x for x in found if 0 < distance(x, read) < distance(x, written)]


def distance(read: Scalar, d: int) -> float:
    """How far apart in memory neighbours along a dim are; infinite where data decides."""
    is_offset = read.attr[2] and d in dims_of(read.args[0])
    return math.inf if is_offset else abs(coefficient(read.attr[1], d))
