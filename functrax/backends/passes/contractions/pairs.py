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

from functrax.backends.passes.clean.repeated_axes import volume
from functrax.backends.passes.contractions.pair_order import pair_order
from functrax.backends.passes.contractions.terms import (
    Factor,
    Link,
    Reading,
    linked,
    reindex_link,
    shape_after,
)
from functrax.backends.passes.groups import contraction, grouped
from functrax.core.errors.source import SourceLine
from functrax.core.index.expr import Dim, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Literal, Var
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import Reindexing, broadcast_in_dim
from functrax.core.tracing.primitive import Primitive

Shape = tuple[int, ...]


class Side(NamedTuple):
    """A product of factors, as one side of a contraction.

    Args:
      factors: what is multiplied.
      used: the axes of the iteration space that it depends on, increasing.
      distinct: how many elements there are in memory, at most.
    """

    factors: tuple[Factor, ...]
    used: Shape
    distinct: int


class Pairs:
    """Writes the equations of one sum.

    Args:
      reading: how the program's values are read.
      shape: the iteration space.
      kept: those of its axes that the result has, in order.
      dtype: what is added up in.
      source: the user's line.

    Attributes:
      eqns: what was written so far.
    """

    def __init__(
        self,
        reading: Reading,
        shape: Shape,
        kept: Shape,
        dtype: np.dtype[Any],
        source: SourceLine | None,
    ) -> None:
        self.reading = reading
        self.shape = shape
        self.kept = kept
        self.dtype = dtype
        self.source = source
        self.eqns: list[Eqn] = []
        self._outside = _Writer(self, self.eqns)

    def new(self, primitive: Primitive, *operands: Atom, **params: Any) -> Var:
        """Write an elementwise equation on arrays of one shape and numbers."""
        return self._outside.elementwise(primitive, operands, params)

    def viewed(self, x: Atom, *links: Link) -> Atom:
        """A value through views."""
        return self._outside.view(x, links)

    def contract(self, factors: Sequence[Factor]) -> tuple[Atom, int]:
        """The sum of a product of factors, and a number that it is to be multiplied with."""
        summed = {k for k, n in enumerate(self.shape) if k not in self.kept and n != 1}
        used = {k for f in factors for k in f.used}
        times = volume(self.shape, summed - used)
        behind = [f for f in factors if summed.isdisjoint(f.used)]
        sides = _absorbed([Side((f,), f.used, f.distinct) for f in factors if f not in behind])
        value = self._summed(sides) if sides else None
        if behind:
            factor = self._outside.product(behind, self.kept)
            value = factor if value is None else self.new(mul, value, factor)
        assert value is not None
        return value, times

    def _summed(self, sides: list[Side]) -> Atom:
        """The sum of the product of sides, of the shape of the result."""
        if len(sides) == 1:
            (side,) = sides
            axes, kept = self._axes(side.used)
            return self._spread_out(self._reduced(self._outside, sides, axes, kept), kept)
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
        """The axes over which the last sum runs, and those that its result has.

        All of the iteration space if they are used; axes of size 1 of the result always.
        """
        everything = tuple(range(len(self.shape)))
        found = {*used, *(k for k in self.kept if self.shape[k] == 1)}
        missing = any(n != 1 and k not in found for k, n in enumerate(self.shape))
        axes = tuple(sorted(found)) if missing else everything
        return axes, tuple([k for k in self.kept if k in axes])

    def _pair(self, first: Side, second: Side, axes: Shape, kept: Shape) -> Atom:
        """The product of two sides over some axes, summed over those that are not kept."""
        union = {*first.used, *second.used}
        grows = volume(self.shape, union) > max(first.distinct, second.distinct)
        if not grows or union.issubset(kept):
            return self._reduced(self._outside, (first, second), axes, kept)
        body: list[Eqn] = []
        out = self._reduced(_Writer(self, body), (first, second), axes, kept)
        assert isinstance(out, Var)
        self.eqns.append(grouped(contraction, body, [out], "sum_of_products", self.source))
        return out

    def _reduced(self, writer: _Writer, sides: Sequence[Side], axes: Shape, kept: Shape) -> Atom:
        found = writer.product([f for side in sides for f in side.factors], axes)
        summed = tuple([n for n, k in enumerate(axes) if k not in kept])
        if not summed:
            return found
        aval = found.aval.update(shape=tuple([self.shape[k] for k in kept]))
        return writer.add(reduce_sum, (found,), {"axes": summed}, aval)

    def _without_own(self, side: Side, others: set[int]) -> Side:
        """A side, summed over the axes that nothing else has."""
        kept = tuple([k for k in side.used if k in others])
        if kept == side.used:
            return side
        return self._side_of(self._reduced(self._outside, (side,), side.used, kept), kept)

    def _stored(self, side: Side) -> Side:
        """A side of several factors, or of more than views, computed if it is not large."""
        plain = all(f.value not in self.reading.producers for f in side.factors)
        size = volume(self.shape, side.used)
        if (plain and len(side.factors) == 1) or size > sum(f.distinct for f in side.factors):
            return side
        return self._side_of(self._outside.product(side.factors, side.used), side.used)

    def _side_of(self, x: Atom, axes: Shape) -> Side:
        """A value over some axes of the iteration space as a side."""
        spread = broadcast_in_dim, (("shape", self.shape), ("dims", axes))
        return Side((Factor(x, (spread,), axes, x.aval.size),), axes, x.aval.size)

    def _spread_out(self, x: Atom, axes: Shape) -> Atom:
        """A value over some axes of the result, repeated along the others."""
        if axes == self.kept:
            return x
        shape = tuple([self.shape[k] for k in self.kept])
        dims = tuple([self.kept.index(k) for k in axes])
        return self.viewed(x, (broadcast_in_dim, (("shape", shape), ("dims", dims))))


def _absorbed(sides: Sequence[Side]) -> list[Side]:
    """The sides, those multiplied into the smallest other one that has all of their axes."""
    found: list[Side] = []
    for side in sorted(sides, key=lambda s: -len(s.used)):
        fits = [k for k, other in enumerate(found) if {*side.used} <= {*other.used}]
        if not fits:
            found.append(side)
            continue
        k = min(fits, key=lambda k: found[k].distinct)
        other = found[k]
        found[k] = Side(
            (*other.factors, *side.factors), other.used, max(other.distinct, side.distinct)
        )
    return found


class _Writer:
    """Writes equations, each once.

    Args:
      sum_: the sum that they are part of.
      eqns: where they go.
    """

    def __init__(self, sum_: Pairs, eqns: list[Eqn]) -> None:
        self.sum = sum_
        self.eqns = eqns
        self._known: dict[Any, Var] = {}

    def product(self, factors: Sequence[Factor], axes: Shape) -> Atom:
        """The product of factors over some axes of the iteration space, in the sum's dtype."""
        found: Atom | None = None
        for f in factors:
            link = _restriction(self.sum.shape, axes, f.value.aval.dtype)
            links = f.links if link is None else (*f.links, link)
            x = self._read(f.value, linked(f.value.aval, links))
            if x.aval.dtype != self.sum.dtype:
                params = {"dtype": self.sum.dtype, "weak_type": False}
                x = self.elementwise(convert_element_type, (x,), params)
            found = x if found is None else self.elementwise(mul, (found, x), {})
        assert found is not None
        return found

    def _read(self, x: Atom, links: tuple[Link, ...]) -> Atom:
        """A value through views; what need not be stored is computed behind them."""
        x, links = self.sum.reading.through_views(x, links)
        eqn = self.sum.reading.producers.get(x)
        if eqn is None or isinstance(eqn.primitive, Reindexing) or len(eqn.outvars) > 1:
            return self.view(x, links)
        operands = [y if type(y) is Literal else self._read(y, links) for y in eqn.invars]
        return self.elementwise(eqn.primitive, operands, eqn.params, x.aval)

    def view(self, x: Atom, links: Sequence[Link]) -> Atom:
        """A value through views."""
        for primitive, params in links:
            aval = x.aval.update(shape=shape_after(x.aval, (primitive, params)))
            x = self.add(primitive, (x,), dict(params), aval)
        return x

    def elementwise(
        self,
        primitive: Primitive,
        operands: Sequence[Atom],
        params: dict[str, Any],
        like: Any = None,
    ) -> Var:
        """An elementwise equation on arrays of one shape and numbers."""
        whole = next(x.aval for x in operands if type(x) is not Literal)
        aval = whole if like is None else like.update(shape=whole.shape)
        if primitive is convert_element_type:
            aval = aval.update(dtype=params["dtype"])
        return self.add(primitive, operands, params, aval)

    def add(
        self, primitive: Primitive, operands: Sequence[Atom], params: dict[str, Any], aval: Any
    ) -> Var:
        """An equation with one result."""
        key = (primitive, tuple(operands), tuple(params.items()))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Var(aval)
            self.eqns.append(Eqn(primitive, operands, (found,), params, self.sum.source))
        return found


@functools.lru_cache(maxsize=1024)
def _restriction(shape: Shape, axes: Shape, dtype: np.dtype[Any]) -> Link | None:
    """The view of an iteration space along some of its axes, at 0 along the others."""
    if len(axes) == len(shape):
        return None
    exprs = tuple([Dim(axes.index(k)) if k in axes else as_expr(0) for k in range(len(shape))])
    return reindex_link(IndexMap(tuple([shape[k] for k in axes]), shape, exprs), dtype)
