"""Neighbouring points that a thread does at once, whose memory is read and written in one access.

Start at :class:`Points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from functrax.backends.kernels.accesses import coefficient, dims_of
from functrax.backends.kernels.ir import Reduce, Store, ordered
from functrax.backends.loops.rewrites.rewrite import Rewrite, changed, on_loops
from functrax.backends.loops.tree import (
    Body,
    Function,
    If,
    Let,
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
    loads, stores = parts_of(loop.body)
    buffers = {s.buffer for s in stores}
    buffers |= {x.attr[0] for x in loads if coefficient(x.attr[1], loop.dim)}
    return b.node("aligned", _BOOL, (), tuple(sorted(buffers)))


def loads_along(stores: Sequence[Store], d: int) -> list[Scalar]:
    """What stores need of memory at addresses that differ from point to point of a dim."""
    nodes = ordered([x for s in stores for x in s.values])
    return [x for x in nodes if x.op == "load" and coefficient(x.attr[1], d)]


def parts_of(body: Body) -> tuple[list[Scalar], list[Store]]:
    """The reads that a body needs, those in its conditions' bodies too, and its stores."""
    roots: list[Scalar] = []
    stores: list[Store] = []

    def look(s: Statement) -> None:
        if type(s) is Store:
            stores.append(s)
            roots.extend(s.values)
        elif type(s) is Let or type(s) is Reduce:
            roots.extend(s.values)

    changed(body, look)
    return [x for x in ordered(tuple(roots)) if x.op == "load"], stores


def is_wide_load(x: Scalar, d: int, count: int) -> bool:
    """Whether a read at so many neighbouring points of a dim can be one access: its offset and its
    guard, if it has any, are the same for all of them.
    """
    if any(d in dims_of(arg) for arg in x.args) or not is_aligned_row(x.attr[1], d, count):
        return False
    return not x.attr[2] or is_multiple(x.args[0], count)


def is_multiple(x: Scalar, count: int) -> bool:
    """Whether an integer is known to be a multiple of a power of two."""
    if x.op in ("const", "int"):
        return int(x.attr) % count == 0
    if x.op == "mul":
        return any(is_multiple(arg, count) for arg in x.args)
    if x.op in ("add", "sub", "convert"):
        return all(arg.dtype.kind in "iu" and is_multiple(arg, count) for arg in x.args)
    return False


def is_wide_store(s: Store, d: int, count: int) -> bool:
    """Whether a store at so many neighbouring points of a dim can be one access."""
    plain = s.offset is None and s.guard is None and s.combine is None and not s.serial
    return plain and is_aligned_row(s.address, d, count)


def is_aligned_row(address: IndexExpr, d: int, count: int) -> bool:
    """Whether so many points of a dim, the first a multiple of that, are neighbours in memory that
    begin at a multiple of it, too.
    """
    others = [step for atom, step in address.terms if atom.dims_mask != 1 << d]
    return coefficient(address, d) == 1 and all(x % count == 0 for x in (address.const, *others))
