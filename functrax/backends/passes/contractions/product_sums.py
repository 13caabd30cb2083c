"""Sums of products as data: dims, and at which element each operand is read.

What enters is a ``contraction``.  What leaves is a :class:`ProductSum`, which the rules of this
folder change in a few lines each, and an equation that computes it.

    out[kept] = sum over summed of  f(x[exprs of x], y[exprs of y], ...)

A transpose of the result is another order of ``kept``; several sums as one are a dim more; what an
operand repeats is another expression of the dims.  The dims of what :func:`sum_of` gives are
numbered in order, those of the result first, so sums of equal products are equal but for operands.

Start at :func:`sum_of` and :func:`equation_of`.
"""

from __future__ import annotations

import math

from functrax.backends.passes.contractions.layouts import Shape, identity
from functrax.backends.passes.contractions.terms import composed, fills_zeros
from functrax.backends.passes.contractions.writer import ViewWriter
from functrax.backends.passes.groups import contraction, grouped
from functrax.core.errors.source import SourceLine
from functrax.core.index.expr import Condition, Dim, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.reduce import AxisReduce, kept_axes, reduce_sum
from functrax.core.prims.reindex import Reindex, map_of, reshape
from functrax.core.records import record, replace
from functrax.core.tracing.primitive import Elementwise, Primitive
from functrax.core.types.aval import ShapedArray


@record
class SumSide:
    """An operand, and which element of it belongs to a point.

    Args:
      value: an array.
      exprs: for each axis the index, an expression of the dims.  What lies outside is zero.
      conditions: what else has to hold for an element not to be zero.
    """

    value: Atom
    exprs: tuple[IndexExpr, ...]
    conditions: tuple[Condition, ...] = ()

    @property
    def axes(self) -> Shape:
        """The dims that its axes are; -1 for an axis whose index is no dim."""
        return tuple([e.number if isinstance(e, Dim) else -1 for e in self.exprs])

    def axis_of(self, d: int) -> int | None:
        """The one axis that goes with a dim; None if there is none, or several."""
        axes = [k for k, expr in enumerate(self.exprs) if d in expr.used_dims()]
        return axes[0] if len(axes) == 1 else None

    def at(self, axis: int, expr: IndexExpr) -> SumSide:
        """The side with another index along an axis."""
        return replace(self, exprs=(*self.exprs[:axis], expr, *self.exprs[axis + 1 :]))


@record
class SumStep:
    """An elementwise operation at each point.

    Args:
      primitive: what it does.
      params: its parameters.
      operands: numbers of sides, and of steps, which go on from those; and numbers.
      aval: the type of one result.
    """

    primitive: Primitive
    params: tuple[tuple[str, object], ...]
    operands: tuple[int | Literal, ...]
    aval: ShapedArray


@record
class ProductSum:
    """A contraction.

    Args:
      extents: of the dims, by their numbers.
      kept: for each axis of the result the dims that it is made of.
      summed: the other dims.
      sides: what is read at a point.
      steps: what is computed of it, in order; the last one is added up.
      total: what adds up.
    """

    extents: Shape
    kept: tuple[Shape, ...]
    summed: Shape
    sides: tuple[SumSide, ...]
    steps: tuple[SumStep, ...]
    total: Primitive

    @property
    def points(self) -> int:
        """How many there are."""
        return math.prod([self.extents[d] for d in (*self.summed, *sum(self.kept, ()))])

    @property
    def is_product(self) -> bool:
        """Whether it adds up products of two sides of its own dtype."""
        if len(self.sides) != 2 or len(self.steps) != 1 or self.total is not reduce_sum:
            return False
        (step,) = self.steps
        same = all(side.value.aval.dtype == step.aval.dtype for side in self.sides)
        return step.primitive is mul and step.operands == (0, 1) and same

    def with_dim(self, extent: int) -> tuple[ProductSum, int]:
        """The same, and the number of a new dim."""
        return replace(self, extents=(*self.extents, extent)), len(self.extents)

    def with_extent(self, d: int, extent: int) -> ProductSum:
        """The same with another extent of a dim."""
        return replace(self, extents=(*self.extents[:d], extent, *self.extents[d + 1 :]))

    def with_side(self, n: int, side: SumSide) -> ProductSum:
        """The same with another side."""
        return replace(self, sides=(*self.sides[:n], side, *self.sides[n + 1 :]))


def sum_of(eqn: Eqn) -> ProductSum | None:
    """A contraction as data; None if it is more than a sum over views of its operands."""
    program: Jaxpr = eqn.params["jaxpr"]
    if "sum" not in program.memo:
        program.memo["sum"] = _sum_of_program(program)
    found: ProductSum | None = program.memo["sum"]
    if found is None:
        return None
    outside = dict(zip(program.invars, eqn.invars, strict=True))
    sides = [replace(side, value=outside[side.value]) for side in found.sides]  # type: ignore[index]
    return replace(found, sides=tuple(sides))


def _sum_of_program(program: Jaxpr) -> ProductSum | None:
    *body, total = program.eqns
    if not isinstance(total.primitive, AxisReduce) or len(program.outvars) > 1:
        return None
    over: set[Atom] = {total.invars[0]}
    made: dict[Atom, Eqn] = {}
    steps: list[Eqn] = []
    for eqn in reversed(body):
        if isinstance(eqn.primitive, Elementwise) and eqn.outvars[0] in over:
            steps.insert(0, eqn)
            over.update(x for x in eqn.invars if type(x) is Var)
        else:
            made[eqn.outvars[0]] = eqn
    computed = [v for eqn in steps for v in eqn.outvars]
    read = [x for eqn in steps for x in eqn.invars if type(x) is Var and x not in computed]
    extents, axes = total.invars[0].aval.shape, total.params["axes"]
    order = (*kept_axes(len(extents), axes), *axes)
    names = {d: Dim(number) for number, d in enumerate(order)}
    sides = {x: _side_of(x, made, names) for x in read}
    if (
        None in sides.values()
        or not steps
        or any(x.aval.shape != extents for x in [*read, *computed])
    ):
        return None
    numbers = {x: k for k, x in enumerate([*sides, *computed])}
    rank = len(extents) - len(axes)
    return ProductSum(
        tuple([extents[d] for d in order]),
        tuple([(d,) for d in range(rank)]),
        tuple(range(rank, len(extents))),
        tuple([side for side in sides.values() if side]),
        tuple(
            [
                SumStep(
                    eqn.primitive,
                    tuple(eqn.params.items()),
                    tuple([x if type(x) is Literal else numbers[x] for x in eqn.invars]),  # type: ignore[index]
                    eqn.outvars[0].aval.update(shape=()),
                )
                for eqn in steps
            ]
        ),
        total.primitive,
    )


def _side_of(x: Atom, made: dict[Atom, Eqn], names: dict[int, Dim]) -> SumSide | None:
    """A value over the iteration space as a side, if it is an operand through views."""
    view = identity(x.aval.shape)
    while x in made:
        eqn = made[x]
        if not isinstance(eqn.primitive, Reindex) or not fills_zeros(eqn):
            return None
        if len(eqn.invars) > 1 or type(eqn.invars[0]) is Literal:
            return None
        x, view = eqn.invars[0], composed(view, map_of(eqn))
    exprs = tuple([expr.substitute(names) for expr in view.exprs])
    return SumSide(x, exprs, tuple([c.substitute(names) for c in view.conditions]))


def coefficients_of(expr: IndexExpr) -> dict[int, int] | None:
    """The coefficients of the dims in an expression; None if it is not affine."""
    if not all(type(atom) is Dim for atom, _ in expr.terms):
        return None
    return {atom.number: coef for atom, coef in expr.terms if type(atom) is Dim}


def equation_of(found: ProductSum, out: Var, name: str, source: SourceLine | None) -> Eqn:
    """The equation of a contraction.

    Args:
      found: what it sums.
      out: its result.
      name: the name of the group.
      source: the user's line.
    """
    order = [d for dims in found.kept for d in dims] + list(found.summed)
    domain = tuple([found.extents[d] for d in order])
    names = {d: Dim(place) for place, d in enumerate(order)}
    writer = ViewWriter(source)
    values: list[Atom] = []
    for side in found.sides:
        exprs = tuple([expr.substitute(names) for expr in side.exprs])
        conditions = tuple([c.substitute(names) for c in side.conditions])
        view = IndexMap(domain, side.value.aval.shape, exprs, conditions)
        values.append(writer.view(side.value, view))
    for step in found.steps:
        operands = [values[n] if isinstance(n, int) else n for n in step.operands]
        aval = step.aval.update(shape=domain)
        values.append(writer.add(step.primitive, operands, dict(step.params), aval))
    rank = len(order) - len(found.summed)
    axes, aval = tuple(range(rank, len(order))), out.aval.update(shape=domain[:rank])
    total = writer.add(found.total, values[-1:], {"axes": axes}, aval)
    if aval.shape != out.aval.shape:
        writer.new(reshape, total, shape=out.aval.shape)
    return grouped(contraction, writer.giving(out), [out], name, source)
