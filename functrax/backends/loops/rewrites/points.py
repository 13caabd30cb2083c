"""Neighbouring points that a thread does at once, whose memory is read and written in one access.

Start at :class:`Points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Store, ordered
from functrax.backends.loops.rewrites.rewrite import Rewrite, on_loops
from functrax.backends.loops.tree import (
    Body,
    Function,
    If,
    Loop,
    Statement,
    index,
    number,
    smaller,
)
from functrax.core.index.expr import IndexExpr
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Builder, Scalar

_BOOL: Final = np.dtype(np.bool_)


@record
class Points(Rewrite):
    """A parallel loop takes several neighbouring points at once.

    The last ones, and all where an array does not begin at a multiple of an access, are done one by
    one.

    Args:
      count: of points; a power of two.
      dim: of the loop.
    """

    kind: ClassVar[str] = "points"
    count: int
    dim: int

    def apply(self, tree: Function) -> Function:
        """The tree with loops of the kind ``wide``."""
        b, part = tree.builder, tree.new_dim()

        def change(loop: Loop) -> list[Statement]:
            low = b.mul(index(b, part), number(b, "points", self.count))
            high = b.add(low, number(b, "points", self.count))
            end = smaller(b, high, loop.end)
            wide = replace(loop, kind="wide", begin=low, end=end)
            whole = b.both(_aligned(b, loop), b.compare("le", high, loop.end))
            single = replace(wide, kind="serial")
            parts = number(b, "parts", -(-tree.extents[self.dim] // self.count))
            body = (If(whole, (wide,), (single,)),)
            return [replace(loop, dim=part, end=parts, body=body)]

        return on_loops(tree, self.dim, change)


def _aligned(b: Builder, loop: Loop) -> Scalar:
    """Whether the arrays begin where an access of several elements may."""
    stores = stores_of(loop.body)
    buffers = {s.buffer for s in stores}
    buffers |= {x.attr[0] for x in loads_along(stores, loop.dim)}
    return b.node("aligned", _BOOL, (), tuple(sorted(buffers)))


def stores_of(body: Body) -> list[Store]:
    """The stores of a body that has no other statements."""
    return [s for s in body if type(s) is Store]


def loads_along(stores: Sequence[Store], d: int) -> list[Scalar]:
    """What stores need of memory at addresses that differ from point to point of a dim."""
    nodes = ordered([x for s in stores for x in s.values])
    return [x for x in nodes if x.op == "load" and coefficient(x.attr[1], d)]


def is_aligned_row(address: IndexExpr, d: int, count: int) -> bool:
    """Whether so many points of a dim, the first a multiple of that, are neighbours in memory that
    begin at a multiple of it, too.
    """
    others = [step for atom, step in address.terms if atom.dims_mask != 1 << d]
    return coefficient(address, d) == 1 and all(x % count == 0 for x in (address.const, *others))
