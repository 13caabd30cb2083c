"""Short rows are sorted by groups of threads, in memory that they share.

A kernel that sorts says of each element how many others of its row come before it, which is its
place.  To count them takes as many steps as there are pairs.  Here sorted runs of 1, 2, 4, ...
elements are merged two by two:

    for some rows:
        for threads:
            shared = the rows, which the threads read together
            barrier
            for widths 1, 2, 4, ...:
                at each element:
                    found = how many elements of the neighbouring run come before it, by bisection
                    shared = the element, at its index in its own run + found
                barrier
            at each place:
                what is stored, of the element that is there

Whether an element comes before another one is asked as the kernel asks it.  Its tie-break, which
one has the lower index, holds for runs as for elements: all of a run were before those of the next.

Start at :class:`SortRows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Reduce, Store, load, ordered
from functrax.backends.kernels.merge import Rewriting
from functrax.backends.loops.rewrites.grid import parallel_loops
from functrax.backends.loops.rewrites.members import WORD, GroupMembers
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.tree import (
    INDEX,
    Barrier,
    Body,
    Carried,
    Function,
    If,
    Let,
    Loop,
    Statement,
    index,
    number,
    plus,
    smaller,
)
from functrax.core.index.expr import as_expr
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar

_BOOL: Final = np.dtype(np.bool_)


@record
class SortRows(Rewrite):
    """A group of threads sorts some rows at once.

    The tree has loops over rows, over the elements of a row, and over those that may come before
    one, which it counts.  A row has a power of two of elements; where a row of the operands has
    fewer, reads of the others are guarded.

    Args:
      group: how many threads.
      rows: how many rows.
      kept: how many elements of each row are stored, the first ones; runs are merged up to there.
    """

    kind: ClassVar[str] = "sort"
    group: int
    rows: int
    kept: int

    @property
    def is_required(self) -> bool:
        """Always: the loops are those of a group of threads."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree of loops over some rows."""
        return _Sorting(tree, self).tree()


@record
class _Point:
    """An element of the rows of a group.

    Args:
      row: the number of its row.
      index: in the row.
      inside: whether there is such an element.
    """

    row: Scalar
    index: Scalar
    inside: Scalar


class _Sorting:
    """Makes the loops of one kernel."""

    def __init__(self, tree: Function, rewrite: SortRows) -> None:
        self.of, self.b = tree, tree.builder
        self.rows, self.kept = rewrite.rows, rewrite.kept
        self.m = GroupMembers(tree, rewrite.group)
        loops, (others, *stores) = parallel_loops(tree.body)
        *self.around, elements = loops
        assert type(others) is Loop
        (counted,) = others.body
        assert type(counted) is Reduce
        self.precedes = counted.values[0].args[0]
        self.rank = others.carries[0].result
        self.stores = [s for s in stores if type(s) is Store]
        self.own, self.other = index(self.b, elements.dim), index(self.b, others.dim)
        self.size = tree.extents[elements.dim]
        self.keys, self.other_keys = (self._compared(x.attr) for x in (self.own, self.other))
        #: Neighbouring threads read neighbouring rows, and not neighbours in a row.
        self.across = self.rows > 1 and coefficient(self.keys[0].attr[1], elements.dim) > 1
        #: How far apart rows are in shared memory, and the two copies of them.
        self.pitch = self.size + self.across
        self.copy = self.rows * self.pitch
        self.shared = [self.m.share(x.dtype, 2 * self.copy) for x in self.keys]
        self.positions = self.m.share(WORD, 2 * self.copy) if self._moves_positions() else None
        self.count = math.prod([x.end.attr[1] for x in self.around])
        self.tile = self.m.tiles(-(-self.count // self.rows))

    def _compared(self, dim: int) -> list[Scalar]:
        """What is read, to be compared, of the element at an index of a dim."""
        loads = [x for x in ordered((self.precedes,)) if x.op == "load"]
        return [x for x in loads if coefficient(x.attr[1], dim)]

    def _moves_positions(self) -> bool:
        """Whether what is stored depends on where an element was, besides its keys."""
        known = set(self.keys)

        def asks(x: Scalar) -> bool:
            if x in known:
                return False
            if x.op == "load":
                is_offset = x.attr[2] and asks(x.args[0])
                return bool(coefficient(x.attr[1], self.own.attr)) or is_offset
            return x is self.own or any(map(asks, x.args))

        return any(asks(s.value) for s in self.stores)

    def tree(self) -> Function:
        """The tree of loops over some rows."""
        b, leaf = self.b, self.of.leaf
        width, source = leaf("acc", WORD), leaf("acc", WORD)
        step, passes = self.of.new_dim(), self.size.bit_length() - 1
        carries = (
            Carried(self._word(1), width, b.add(width, width), leaf("result", WORD)),
            Carried(self._word(0), source, self._target(source), leaf("result", WORD)),
        )
        merged = self._each(lambda x: self._merged(x, step, width, source))
        ends = b.const(0, INDEX), b.const(passes, INDEX)
        body: Body = (merged, Barrier())
        merging = Loop("serial", step, *ends, 1, body, carries, maybe_empty=passes == 0)
        written = self._each(lambda x: self._written(x, carries[1].result), self.across)
        body = (self._each(self._read, self.across), Barrier(), merging, written)
        return self.m.rewritten([self.tile], body)

    # ---- elements --------------------------------------------------------------------------------

    def _each(self, body: Callable[[_Point], Body], across: bool = False) -> Statement:
        """What is done with each element, neighbours in a row by neighbouring threads, or else
        neighbours in different rows.
        """
        m, b = self.m, self.b

        def point(x: Scalar) -> Body:
            first, second = m.divided(x, self.rows if across else self.size)
            row, here = (second, first) if across else (first, second)
            begin = b.convert(index(b, self.tile.dim), WORD)
            rest = b.add(b.mul(begin, self._word(self.rows)), row)
            inside = self._inside(self.keys[0], self.own, here)
            if self.count % self.rows:
                is_row = b.compare("lt", rest, self._number("rows", self.count))
                inside = b.both(is_row, inside)
            known = []
            for loop in self.around[::-1]:
                size = b.convert(loop.end, WORD)
                known.append((loop.dim, b.rem(rest, size)))
                rest = b.div(rest, size)
            return m.bound(known, body(_Point(row, here, inside)))

        return m.each(self.rows * self.size, point)

    def _where(self, inside: Scalar, body: Body) -> Body:
        return body if inside.is_constant else (If(inside, body),)

    def _is_kept(self, rank: Scalar) -> Scalar:
        """Whether an element with so many others before it may be among those that are stored."""
        if self.kept == self.size:
            return self.b.const(True, _BOOL)
        return self.b.compare("lt", rank, self._number("kept", self.kept))

    def _inside(self, key: Scalar, dim: Scalar, here: Scalar) -> Scalar:
        """Whether there is an element at an index, by the guard of what is read there."""
        if not key.attr[3]:
            return self.b.const(True, _BOOL)
        return self._with({dim: self.b.convert(here, INDEX)}).scalar(key.args[-1])

    def _with(self, new: dict[Scalar, Scalar]) -> Rewriting:
        """The same expressions, with others in the place of some."""
        same = {d: d for d in range(len(self.of.extents))}
        return Rewriting(self.b, same, {id(x): y for x, y in new.items()})

    def _word(self, value: int) -> Scalar:
        return self.b.const(value, WORD)

    def _number(self, key: str, value: int) -> Scalar:
        """A number that depends on sizes."""
        return self.b.convert(number(self.b, key, value), WORD)

    # ---- shared memory ---------------------------------------------------------------------------

    def _target(self, source: Scalar) -> Scalar:
        """Where the copy begins that is written while one is read."""
        return self.b.sub(self._word(self.copy), source)

    def _place(self, begin: Scalar, row: Scalar, here: Scalar) -> Scalar:
        b = self.b
        return b.add(plus(b, begin, b.mul(row, self._word(self.pitch))), here)

    def _get(self, buffer: int, dtype: np.dtype[Any], place: Scalar) -> Scalar:
        return load(self.b, dtype, buffer, (as_expr(0), place))

    def _named(self, place: Scalar) -> tuple[Let, list[Scalar], Scalar | None]:
        """The keys of an element that is at a place, and its position if that is moved."""
        values = [self._get(n, x.dtype, place) for n, x in zip(self.shared, self.keys, strict=True)]
        if self.positions is not None:
            values.append(self._get(self.positions, WORD, place))
        names = [self.of.leaf("result", x.dtype) for x in values]
        count = len(self.keys)
        position = names[count] if self.positions is not None else None
        return Let(tuple(names), tuple(values)), names[:count], position

    def _put(self, place: Scalar, keys: list[Scalar], position: Scalar | None) -> Body:
        """An element is written to a place."""
        stores = [Store(n, as_expr(0), x, place) for n, x in zip(self.shared, keys, strict=True)]
        if self.positions is not None and position is not None:
            stores.append(Store(self.positions, as_expr(0), position, place))
        return tuple(stores)

    # ---- what threads do -------------------------------------------------------------------------

    def _read(self, x: _Point) -> Body:
        """Anything is written for an element that is not inside: so no branch makes reads wait."""
        keys = self.keys if x.inside.is_constant else [self.m.read(k, x.inside) for k in self.keys]
        place = self._place(self._word(0), x.row, x.index)
        put = self._put(place, keys, x.index)
        return self.m.bound([(self.own.attr, x.index)], put)

    def _merged(self, x: _Point, step: int, width: Scalar, source: Scalar) -> Body:
        """An element moves to its place in the run that its own and the neighbouring one become."""
        b, one = self.b, self._word(1)
        here = self._place(source, x.row, x.index)
        named, keys, position = self._named(here)
        is_second = b.logic("and", x.index, width)
        begin = b.logic("and", b.logic("xor", x.index, width), b.sub(self._word(0), width))
        found, by = self.of.leaf("acc", WORD), self.of.leaf("acc", WORD)
        probed = b.sub(b.add(found, by), one)
        there = b.add(begin, probed)
        inside = self._inside(self.other_keys[0], self.other, there)
        inside = b.both(inside, self._is_kept(probed))
        place = b.select(inside, self._place(source, x.row, there), here)
        new = dict(zip(self.keys, keys, strict=True))
        for n, key in zip(self.shared, self.other_keys, strict=True):
            new[key] = self._get(n, key.dtype, place)
        new |= {self.own: b.convert(x.index, INDEX), self.other: b.convert(there, INDEX)}
        comes_before = self._with(new).scalar(self.precedes)
        if self.kept < self.size:
            comes_before = b.both(inside, comes_before)
        moved = b.select(comes_before, b.add(found, by), found)
        steps, most = b.add(index(b, step), b.const(1, INDEX)), width
        if self.kept < self.size:  # so much of a run, a power of two, has all that is kept of it
            reach = (self.kept - 1).bit_length()
            steps = smaller(b, steps, number(b, "steps", reach + 1))
            most = smaller(b, width, self._number("reach", 1 << reach))
        half, less = (b.logic("shr", n, one) for n in (most, by))
        # by half the width, a quarter, ... 1, and 1 again: the width in all
        carries = (
            Carried(self._word(0), found, moved, self.of.leaf("result", WORD)),
            Carried(b.max(half, one), by, b.max(less, one), self.of.leaf("result", WORD)),
        )
        search = Loop("serial", self.of.new_dim(), b.const(0, INDEX), steps, 1, (), carries)
        rank = b.add(b.sub(x.index, is_second), carries[0].result)
        put = self._put(self._place(self._target(source), x.row, rank), keys, position)
        in_run = b.logic("and", x.index, b.sub(width, one))
        return self._where(b.both(x.inside, self._is_kept(in_run)), (named, search, *put))

    def _written(self, x: _Point, source: Scalar) -> Body:
        """What is stored, of the element that is at a place of its row."""
        b = self.b
        named, keys, position = self._named(self._place(source, x.row, x.index))
        new = dict(zip(self.keys, keys, strict=True))
        same = self._with({**new, self.rank: x.index})
        stores = tuple([same.store(s) for s in self.stores])
        before = x.index if position is None else position
        body: Body = (named, *self.m.bound([(self.own.attr, before)], stores))
        return self._where(b.both(x.inside, self._is_kept(x.index)), body)
