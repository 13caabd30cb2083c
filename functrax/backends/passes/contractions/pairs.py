"""One product of factors, summed: contractions of two sides each.

What enters are the factors of a product over an iteration space (``passes/contractions/terms.py``),
each of which depends on some of its axes.  What leaves are equations:

- a factor that does not depend on what is summed is multiplied with the result;
- a factor whose axes are among those of another is multiplied into that: the two are one *side*;
- what only one side depends on is summed before;
- more than two sides are contracted in pairs, in the order that makes least.

A side of several factors is computed where that takes no more memory than they do (not, for
instance, the windows of a convolution); else it is part of the contraction.  A pair whose product
is no larger than one of the two, a matrix and a vector, is a plain sum, which fusion knows.

Start at :meth:`Pairs.contract`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrax.backends.passes.contractions.layouts import RepeatLayout, Shape, volume
from functrax.backends.passes.contractions.pair_order import pair_order
from functrax.backends.passes.contractions.terms import (
    Factor,
    Producers,
    is_part_of_sides,
    read_through,
)
from functrax.backends.passes.contractions.writer import ViewWriter
from functrax.backends.passes.groups import contraction, grouped
from functrax.core.errors.source import SourceLine
from functrax.core.index.expr import Dim, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Var
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import Reindexing
from functrax.core.types.size_bounds import roughly


class PairSide(NamedTuple):
    """A product of factors, as one side of a contraction.

    Args:
      factors: what is multiplied.
      used: the axes of the iteration space that it depends on, increasing.
      distinct: how many elements there are in memory, at most.
    """

    factors: tuple[Factor, ...]
    used: Shape
    distinct: int


class Pairs(ViewWriter):
    """Writes the equations of one sum.

    Args:
      producers: the equations of values that need not be stored.
      shape: the iteration space.
      kept: those of its axes that the result has, in order.
      dtype: what is added up in.
      source: the user's line.
    """

    def __init__(
        self,
        producers: Producers,
        shape: Shape,
        kept: Shape,
        dtype: np.dtype[Any],
        source: SourceLine | None,
    ) -> None:
        super().__init__(source)
        self.producers = producers
        self.shape = shape
        self.kept = kept
        self.dtype = dtype

    def contract(self, factors: Sequence[Factor]) -> tuple[Atom, int]:
        """The sum of a product of factors, and a number that it is to be multiplied with."""
        summed = {k for k, n in enumerate(self.shape) if k not in self.kept and n != 1}
        used = {k for f in factors for k in f.used}
        times = volume(self.shape, summed - used)
        behind = [f for f in factors if summed.isdisjoint(f.used)]
        sides = _absorbed([PairSide((f,), f.used, f.distinct) for f in factors if f not in behind])
        value = self._summed(sides) if sides else None
        if behind:
            factor = self.product(behind, self.kept)
            value = factor if value is None else self.add(mul, (value, factor), {}, value.aval)
        assert value is not None
        return value, times

    def _summed(self, sides: list[PairSide]) -> Atom:
        """The sum of the product of sides, of the shape of the result."""
        if len(sides) == 1:
            (side,) = sides
            axes, kept = self._axes(side.used)
            return self._spread_out(self.sum_of_product(side.factors, axes, kept), kept)
        sides = [self._stored(side) for side in sides]
        labels = tuple([side.used for side in sides])
        sizes = tuple([(k, n) for k, n in enumerate(self.shape)])
        wanted = tuple([k for k in self.kept if self.shape[k] != 1])
        for left, right in pair_order(labels, sizes, wanted):
            second, first = sides.pop(right), sides.pop(left)
            needed = {*wanted, *(k for side in sides for k in side.used)}
            first = self._without_own(first, {*second.used, *needed})
            second = self._without_own(second, {*first.used, *needed})
            union = tuple(sorted({*first.used, *second.used}))
            if not sides:
                axes, kept = self._axes(union)
                return self._spread_out(self._pair(first, second, axes, kept), kept)
            kept = tuple([k for k in union if k in needed])
            sides.append(self._side_of(self._pair(first, second, union, kept), kept))
        raise AssertionError("the last pair returned")

    def _axes(self, used: Shape) -> tuple[Shape, Shape]:
        """The axes over which the last sum runs, and those that its result has: also of size 1."""
        axes = tuple(sorted({*used, *(k for k in self.kept if self.shape[k] == 1)}))
        return axes, tuple([k for k in self.kept if k in axes])

    def _pair(self, first: PairSide, second: PairSide, axes: Shape, kept: Shape) -> Atom:
        """The product of two sides over some axes, summed over those that are not kept."""
        factors, union = (*first.factors, *second.factors), {*first.used, *second.used}
        most = max(roughly(first.distinct), roughly(second.distinct))
        grows = roughly(volume(self.shape, union)) > most
        if not grows or union.issubset(kept):
            return self.sum_of_product(factors, axes, kept)
        writer = Pairs(self.producers, self.shape, self.kept, self.dtype, self.source)
        out = writer.sum_of_product(factors, axes, kept)
        assert isinstance(out, Var)
        self.eqns.append(grouped(contraction, writer.eqns, [out], "sum_of_products", self.source))
        return out

    def _without_own(self, side: PairSide, others: set[int]) -> PairSide:
        """A side, summed over the axes that nothing else has."""
        kept = tuple([k for k in side.used if k in others])
        if kept == side.used:
            return side
        return self._side_of(self.sum_of_product(side.factors, side.used, kept), kept)

    def _stored(self, side: PairSide) -> PairSide:
        """A side of several factors, or of more than views, computed if it is not large."""
        plain = all(self.is_stored(f.value) for f in side.factors)
        size = volume(self.shape, side.used)
        if (plain and len(side.factors) == 1) or size > sum(f.distinct for f in side.factors):
            return side
        return self._side_of(self.product(side.factors, side.used), side.used)

    def _side_of(self, x: Atom, axes: Shape) -> PairSide:
        """A value over some axes of the iteration space as a side."""
        view = IndexMap.broadcast(x.aval.shape, self.shape, axes)
        factor = Factor(x, view, RepeatLayout(self.shape, axes, x.aval.size))
        return PairSide((factor,), axes, x.aval.size)

    def _spread_out(self, x: Atom, axes: Shape) -> Atom:
        """A value over some axes of the result, repeated along the others."""
        if axes == self.kept:
            return x
        shape = tuple([self.shape[k] for k in self.kept])
        dims = tuple([self.kept.index(k) for k in axes])
        return self.view(x, IndexMap.broadcast(x.aval.shape, shape, dims))

    def is_stored(self, x: Atom) -> bool:
        """Whether a value is an array, or what contractions compute of one."""
        return x not in self.producers or is_part_of_sides(self.producers[x])

    def product(self, factors: Sequence[Factor], axes: Shape) -> Atom:
        """The product of factors over some axes of the iteration space, at 0 along the others."""
        found: Atom | None = None
        for f in factors:
            x = self._read(f.value, _restricted(f.view, axes))
            if x.aval.dtype != self.dtype:
                x = self.new(convert_element_type, x, dtype=self.dtype, weak_type=False)
            found = x if found is None else self.add(mul, (found, x), {}, found.aval)
        assert found is not None
        return found

    def _read(self, x: Atom, view: IndexMap) -> Atom:
        """A value through a view; what need not be stored is computed behind it, once."""
        wanted = x, view
        done: dict[tuple[Atom, IndexMap], Atom] = {}
        left = [wanted]
        while left:
            x, view = read_through(*left[-1], self.producers)
            eqn = self.producers.get(x)
            if eqn is None or isinstance(eqn.primitive, Reindexing) or len(eqn.outvars) > 1:
                done[left.pop()] = self.view(x, view)
                continue
            missing = [y for y in eqn.invars if type(y) is Var and (y, view) not in done]
            left += [(y, view) for y in reversed(missing)]
            if not missing:
                operands = [done.get((y, view), y) for y in eqn.invars]
                aval = x.aval.update(shape=view.domain)
                done[left.pop()] = self.add(eqn.primitive, operands, eqn.params, aval)
        return done[wanted]

    def sum_of_product(self, factors: Sequence[Factor], axes: Shape, kept: Shape) -> Atom:
        """The product of factors over some axes, summed over those that are not kept."""
        found = self.product(factors, axes)
        summed = tuple([n for n, k in enumerate(axes) if k not in kept])
        return self.new(reduce_sum, found, axes=summed) if summed else found


def _absorbed(sides: Sequence[PairSide]) -> list[PairSide]:
    """The sides, those multiplied into the smallest other one that has all of their axes."""
    found: list[PairSide] = []
    for side in sorted(sides, key=lambda s: -len(s.used)):
        fits = [k for k, other in enumerate(found) if {*side.used} <= {*other.used}]
        if not fits:
            found.append(side)
            continue
        k = min(fits, key=lambda k: found[k].distinct)
        other = found[k]
        found[k] = PairSide(
            (*other.factors, *side.factors), other.used, max(other.distinct, side.distinct)
        )
    return found


@functools.lru_cache(maxsize=2048)
def _restricted(view: IndexMap, axes: Shape) -> IndexMap:
    """A view of some axes of its domain, at 0 along the others."""
    if len(axes) == len(view.domain):
        return view
    dims = {k: Dim(axes.index(k)) if k in axes else as_expr(0) for k in range(len(view.domain))}
    return view.substitute([view.domain[k] for k in axes], dims)
