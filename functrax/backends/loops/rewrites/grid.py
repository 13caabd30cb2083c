"""Loops that many threads share, as on a GPU: a grid of groups of threads, and loops of a group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import ClassVar

import numpy as np

from functrax.backends.kernels.accesses import coefficient, dims_of
from functrax.backends.kernels.ir import Store
from functrax.backends.loops.rewrites.points import is_wide_load, is_wide_store, parts_of
from functrax.backends.loops.rewrites.rewrite import (
    Rewrite,
    changed,
    nest,
    nested,
    on_loops,
)
from functrax.backends.loops.rewrites.vectorize import combined
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Body,
    Function,
    If,
    Loop,
    Running,
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
        loops, body = parallel_loops(tree.body)
        units = math.prod([loop.end.attr[1] for loop in loops])
        own = [loop for loop in loops if loop.dim < len(tree.extents)]
        body = changed(body, partial(_once, tree, _steps_along(own, body)))
        number_of_unit = index(b, unit)
        if not self.wide:
            number_of_unit = b.convert(number_of_unit, _WORD)
        body = with_indices(b, [(x.dim, x.end) for x in loops], number_of_unit, body)
        zero = b.const(0, INDEX)
        grid = Loop("grid", unit, zero, number(b, "units", units), 1, body)
        return replace(tree, body=(grid,), units=units, group=self.group)


def with_indices(b: Builder, dims: Sequence[tuple[int, Scalar]], place: Scalar, body: Body) -> Body:
    """A body with the indices of loops, of which one number counts the steps together.

    Args:
      b: makes the expressions.
      dims: dims that get the indices, with how many there are of each; the innermost one last.
      place: the number, of the dtype to divide in.
      body: the statements.
    """
    for d, size in dims[:0:-1]:
        size = b.convert(size, place.dtype)
        body = (Bind(d, b.convert(b.rem(place, size), INDEX), body),)
        place = b.div(place, size)
    return (Bind(dims[0][0], b.convert(place, INDEX), body),) if dims else body


def parallel_loops(body: Body) -> tuple[list[Loop], Body]:
    """The parallel loops that stand one inside the other and begin at 0, and what is in them."""
    loops: list[Loop] = []
    while len(body) == 1:
        (loop,) = body
        if type(loop) is not Loop or loop.kind != "parallel" or loop.carries:
            break
        if not (loop.begin.op == "const" and loop.begin.attr == 0 and loop.end.op == "number"):
            break
        loops.append(loop)
        body = loop.body
    return loops, body


def _steps_along(loops: Sequence[Loop], body: Body) -> dict[int, set[int]]:
    """Each dim of some loops with the dims of loops inside that begin at another index with each of
    its own: blocks.
    """
    found = {loop.dim: {loop.dim} for loop in loops}

    def look(s: Statement) -> None:
        if type(s) is Loop:
            for d in dims_of(s.begin) & found.keys():
                found[d].add(s.dim)

    changed(body, look)
    return found


def _once(
    tree: Function, along: Mapping[int, set[int]], s: Statement
) -> Sequence[Statement] | None:
    """A store that does not depend on some indices, done for one of each alone: the first."""
    if type(s) is not Store or s.serial or s.offset is not None or tree.operands[s.buffer].shared:
        return None
    b = tree.builder
    zero = b.const(0, INDEX)
    firsts = [
        b.compare("eq", index(b, d), zero)
        for d, dims in along.items()
        if not any(coefficient(s.address, x) for x in dims)
    ]
    return [If(reduce(partial(b.logic, "and"), firsts), (s,))] if firsts else None


@record
class Share(Rewrite):
    """All loops over a dim are shared by the threads of a group.

    What they reduce is combined by all threads, so that each has the result; what is written
    outside of them is written by the first thread of the group.  Threads take the steps of running
    results together.

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
        b = tree.builder

        def change(s: Statement) -> Sequence[Statement] | None:
            if type(s) is Store:
                return [If(b.node("first", _BOOL), (s,))]
            if type(s) is not Loop or s.kind == "grid":
                return None
            loops = nest(s)
            if loops[-1].dim != self.dim:
                return None
            loops[-1] = replace(loops[-1], kind="group", maybe_empty=True)
            if any(type(x) is Running for x in loops[-1].body):
                loops[-1] = in_step(b, loops[-1])
            return (
                combined(tree, loops, "together") if s.carries else [nested(loops, loops[-1].body)]
            )

        return replace(tree, body=changed(tree.body, change))


@record
class Keep(Rewrite):
    """What a thread reads in a group's loops over a dim stays in its registers.

    Args:
      dim: of the loops.
    """

    kind: ClassVar[str] = "keep"
    dim: int

    def apply(self, tree: Function) -> Function:
        """The tree whose loops over the dim are written out."""
        return on_loops(tree, self.dim, lambda loop: [self.kept(tree, loop)])

    def kept(self, tree: Function, loop: Loop) -> Loop:
        """A loop, written out; threads that have fewer steps than others go along."""
        if loop.kind != "group":
            return loop
        is_ragged = tree.extents[self.dim] % (tree.group * loop.step) != 0
        in_turn = is_ragged and not loop.masked
        return replace(in_step(tree.builder, loop) if in_turn else loop, kept=True)


@record
class Neighbours(Rewrite):
    """Threads take several neighbouring points of a group's loops over a dim in each step.

    Where arrays begin at a multiple of an access, memory is accessed once for all of them;
    elsewhere one by one, in the same order, and nothing is kept.

    Args:
      count: of points; the extent of the dim is a multiple.
      keeps: whether what is read stays in registers.
      dim: of the loops.
    """

    kind: ClassVar[str] = "neighbours"
    count: int
    keeps: bool
    dim: int

    def apply(self, tree: Function) -> Function:
        """The tree whose units do the same in two ways."""
        (grid,) = tree.body
        assert type(grid) is Loop
        buffers: set[int] = set()
        keep = Keep(self.dim)

        def wide(loop: Loop) -> list[Statement]:
            if loop.kind != "group":
                return [loop]
            loads, stores = parts_of(loop.body)
            found = {x.attr[0] for x in loads if is_wide_load(x, self.dim, self.count)}
            found -= {n for n in found if tree.operands[n].written}
            found |= {s.buffer for s in stores if is_wide_store(s, self.dim, self.count)}
            buffers.update(found)
            loop = replace(loop, step=self.count)
            return [keep.kept(tree, loop) if self.keeps else loop]

        def narrow(loop: Loop) -> list[Statement]:
            return [replace(loop, step=self.count) if loop.kind == "group" else loop]

        inside = replace(tree, body=grid.body)
        fast = on_loops(inside, self.dim, wide).body
        slow = on_loops(inside, self.dim, narrow).body
        aligned = tree.builder.node("aligned", _BOOL, (), tuple(sorted(buffers)))
        return replace(tree, body=(replace(grid, body=(If(aligned, fast, slow),)),))


def in_step(b: Builder, loop: Loop) -> Loop:
    """A loop whose steps the threads of a group take together.

    Those that are past the end write nothing, and reductions get nothing of them.
    """
    tail = b.node("tail", _BOOL)
    body = changed(loop.body, lambda s: [If(tail, (s,))] if type(s) is Store else None)
    return replace(loop, masked=True, body=body)
