"""Loops that many threads share, as on a GPU: a grid of groups of threads, and loops of a group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import ClassVar

import numpy as np

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Store
from functrax.backends.loops.rewrites.rewrite import Rewrite, changed, nest, nested
from functrax.backends.loops.rewrites.vectorize import combined
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Body,
    Function,
    If,
    Loop,
    Statement,
    index,
    number,
)
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Builder, Scalar

_BOOL = np.dtype(np.bool_)
_WORD = np.dtype(np.uint32)


@record
class Grid(Rewrite):
    """Parallel loops, one inside the other, become one loop over units, of which each has threads.

    The indices of the loops are quotients and remainders of the unit's number: neighbouring units
    are neighbouring points of the innermost loop.

    Args:
      group: how many threads each unit has.
      wide: whether indices need more than 32 bits.
    """

    kind: ClassVar[str] = "grid"
    group: int
    wide: bool

    @property
    def is_required(self) -> bool:
        """Always: threads have nothing else to share."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree with one loop over units."""
        b, unit = tree.builder, tree.new_dim()
        loops, body = _parallel(tree.body)
        units = 1
        for loop in loops:
            units *= tree.extents[loop.dim]
        body = changed(body, partial(_once, b, [loop.dim for loop in loops]))
        rest = self._narrow(b, index(b, unit))
        for loop in loops[:0:-1]:
            size = self._narrow(b, loop.end)
            body = (Bind(loop.dim, b.convert(b.rem(rest, size), INDEX), body),)
            rest = b.div(rest, size)
        if loops:
            body = (Bind(loops[0].dim, b.convert(rest, INDEX), body),)
        zero = b.const(0, INDEX)
        grid = Loop("grid", unit, zero, number(b, "units", units), 1, body)
        return replace(tree, body=(grid,), units=units, group=self.group)

    def _narrow(self, b: Builder, x: Scalar) -> Scalar:
        return x if self.wide else b.convert(x, _WORD)


def _parallel(body: Body) -> tuple[list[Loop], Body]:
    """The parallel loops that stand one inside the other and begin at 0, and what is in them."""
    loops: list[Loop] = []
    while len(body) == 1:
        (loop,) = body
        if type(loop) is not Loop or loop.kind != "parallel" or loop.carries:
            break
        if not (loop.begin.op == "const" and loop.begin.attr == 0):
            break
        loops.append(loop)
        body = loop.body
    return loops, body


def _once(b: Builder, dims: Sequence[int], s: Statement) -> Sequence[Statement] | None:
    """A store that does not depend on some indices, done for one of each alone: the first."""
    if type(s) is not Store or s.serial or s.offset is not None:
        return None
    zero = b.const(0, INDEX)
    firsts = [b.compare("eq", index(b, d), zero) for d in dims if not coefficient(s.address, d)]
    return [If(reduce(partial(b.logic, "and"), firsts), (s,))] if firsts else None


@record
class Share(Rewrite):
    """All loops over a dim are shared by the threads of a group.

    What they reduce is combined by all threads, so that each has the result; what is written
    outside of them is written by the first thread of the group.

    Args:
      dim: the innermost of the loops that stand one inside the other.
    """

    kind: ClassVar[str] = "share"
    dim: int

    @property
    def is_required(self) -> bool:
        """Always: without it all threads of a group would do the same."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree with loops of groups."""

        def change(s: Statement) -> Sequence[Statement] | None:
            if type(s) is Store:
                return [If(tree.builder.node("first", _BOOL), (s,))]
            if type(s) is not Loop or s.kind == "grid":
                return None
            loops = nest(s)
            if loops[-1].dim != self.dim:
                return None
            loops[-1] = replace(loops[-1], kind="group", maybe_empty=True)
            return (
                combined(tree, loops, "together") if s.carries else [nested(loops, loops[-1].body)]
            )

        return replace(tree, body=changed(tree.body, change))
