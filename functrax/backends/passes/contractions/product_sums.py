"""Sums of products as data: the extents of their dims, and where each side is read.

What enters is a ``contraction`` of two sides, each one view of an array; what leaves is a
:class:`Sum`, which passes change with a few lines, and an equation that computes it.

Start at :func:`sum_of` and :func:`equation_of`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functrax.backends.passes.contractions.terms import Link, reindex_link
from functrax.backends.passes.groups import contraction, grouped
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.reduce import kept_axes, reduce_sum
from functrax.core.prims.reindex import Reindexing, reshape
from functrax.core.records import record, replace
from functrax.core.types import dtypes

Shape = tuple[int, ...]
Exprs = tuple[IndexExpr, ...]


@record
class Side:
    """One factor of a contraction's product.

    Args:
      value: an array.
      exprs: for each axis the index, affine in the dims of the iteration space; outside are zeros.
      times: for each axis of how many neighbours sums take the place of the elements.
    """

    value: Atom
    exprs: Exprs
    times: Shape

    @property
    def shape(self) -> Shape:
        """Of the sums."""
        return tuple([n + r - 1 for n, r in zip(self.value.aval.shape, self.times, strict=True)])

    def axis_of(self, d: int) -> int | None:
        """The one axis that goes with a dim; None if there is none, or several."""
        axes = [k for k, expr in enumerate(self.exprs) if d in expr.used_dims()]
        return axes[0] if len(axes) == 1 else None

    def at(self, axis: int, expr: IndexExpr, times: int = 1) -> Side:
        """The side with another index along an axis, into sums of so many neighbours."""
        exprs = (*self.exprs[:axis], expr, *self.exprs[axis + 1 :])
        return replace(
            self, exprs=exprs, times=(*self.times[:axis], times, *self.times[axis + 1 :])
        )


@record
class Sum:
    """A contraction.

    Args:
      extents: of the dims of the iteration space, by their numbers.
      kept: for each axis of the result the dims that it is made of.
      summed: the other dims.
      sides: what is multiplied.
    """

    extents: tuple[int, ...]
    kept: tuple[Shape, ...]
    summed: Shape
    sides: tuple[Side, Side]

    @property
    def products(self) -> int:
        """How many there are."""
        return math.prod(self.extents)

    def with_extent(self, d: int, extent: int) -> Sum:
        """The same with another extent of a dim."""
        return replace(self, extents=(*self.extents[:d], extent, *self.extents[d + 1 :]))

    def with_side(self, n: int, side: Side) -> Sum:
        """The same with another side."""
        return replace(self, sides=(side, self.sides[1]) if n == 0 else (self.sides[0], side))


def sum_of(eqn: Eqn) -> Sum | None:
    """A contraction of two sides as data; None if it is more than that."""
    program: Jaxpr = eqn.params["jaxpr"]
    made: dict[Atom, Eqn] = {e.outvars[0]: e for e in program.eqns}
    total = program.eqns[-1]
    product = made.get(total.invars[0])
    if total.primitive is not reduce_sum or product is None or product.primitive is not mul:
        return None
    aval = total.outvars[0].aval
    if aval.dtype not in (dtypes.float32, dtypes.float64) or len(program.outvars) > 1:
        return None
    sides = []
    for x in product.invars:
        side = _side_of(x, made, dict(zip(program.invars, eqn.invars, strict=True)))
        if side is None or side.value.aval.dtype != aval.dtype:
            return None
        sides.append(side)
    if len(program.eqns) != 2 + sum(x in made for x in {*product.invars}):
        return None
    extents, summed = product.outvars[0].aval.shape, total.params["axes"]
    kept = tuple([(d,) for d in kept_axes(len(extents), summed)])
    return Sum(extents, kept, summed, (sides[0], sides[1]))


def _side_of(x: Atom, made: dict[Atom, Eqn], outside: dict[Atom, Atom]) -> Side | None:
    """A factor that is an operand, or one view of it, with zeros outside."""
    index_map = IndexMap.identity(x.aval.shape)
    if x in made:
        eqn = made[x]
        if not isinstance(eqn.primitive, Reindexing) or len(eqn.invars) != 1:
            return None
        x = eqn.invars[0]
        fill = eqn.params.get("fill")
        if fill is not None and np.any(fill.val):
            return None
        index_map = eqn.primitive.index_map(x.aval, **eqn.params)  # type: ignore[attr-defined]
    if x not in outside or index_map.conditions or index_map.num_loads:
        return None
    if any(coefficients_of(expr) is None for expr in index_map.exprs):
        return None
    return Side(outside[x], index_map.exprs, (1,) * len(index_map.exprs))


def coefficients_of(expr: IndexExpr) -> dict[int, int] | None:
    """The coefficients of the dims in an expression; None if it is not affine."""
    if not all(type(atom) is Dim for atom, _ in expr.terms):
        return None
    return {atom.number: coef for atom, coef in expr.terms if type(atom) is Dim}


def equation_of(found: Sum, values: Sequence[Atom], like: Eqn) -> Eqn:
    """The equation of a contraction.

    Args:
      found: what it sums.
      values: the arrays of its sides.
      like: whose result it gives.
    """
    order = [d for dims in found.kept for d in dims] + list(found.summed)
    domain = tuple([found.extents[d] for d in order])
    names = {d: Dim(place) for place, d in enumerate(order)}
    source, (out,) = like.source, like.outvars
    body: list[Eqn] = []

    def new(step: Link, operands: Sequence[Atom], shape: Shape, result: Var | None = None) -> Var:
        found = result or Var(out.aval.update(shape=shape))
        body.append(Eqn(step[0], operands, (found,), dict(step[1]), source))
        return found

    factors: list[Atom] = []
    for side, x in zip(found.sides, values, strict=True):
        exprs = tuple([expr.substitute(names) for expr in side.exprs])
        link = reindex_link(IndexMap(domain, x.aval.shape, exprs), x.aval.dtype)
        factors.append(x if link is None else new(link, (x,), domain))
    product = new((mul, ()), factors, domain)
    rank = len(order) - len(found.summed)
    summed = reduce_sum, (("axes", tuple(range(rank, len(order)))),)
    if domain[:rank] == out.aval.shape:
        new(summed, (product,), domain[:rank], out)
    else:
        total = new(summed, (product,), domain[:rank])
        new((reshape, (("shape", out.aval.shape),)), (total,), out.aval.shape, out)
    return grouped(contraction, body, [out], "sum_of_products", source)
