"""Where the summands of a contraction are: for each result the points of the product.

A sum along axes has them at all points of these axes.  A sum along windows (``reindex_reduce``:
what the derivative of a convolution is) writes the element ``h + k`` for each ``h`` and ``k``; seen
from the result ``a`` that is ``h = a - k`` where this is inside.  Where it writes ``2*h + k``, only
every second ``k`` counts, which depends on the remainder of ``a``; the same holds where an array is
read with holes in it.  Then the space falls into parts, one for each remainder, in which nothing is
divided any more.

Start at :meth:`Summands.of` and :func:`remainders`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.kernels.lower import points_of
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.kernels.values import Point, Shape, reduced_axes
from functrax.core.index.expr import Condition, Dim, Index, IndexExpr, as_expr
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims.mapped import reindex_reduce
from functrax.core.prims.reduce import reduce_sum
from functrax.core.records import record, replace
from functrax.core.types import dtypes
from functrax.core.types.symbolic_sizes import gcd

#: The most parts that a space falls into.
MOST_PARTS = 16


@record
class Space:
    """The points of a contraction, or a part of them.

    Args:
      shape: of all axes: those of the results, then those that are summed.
      pieces: for each axis the sizes of the dims that it is made of, outermost first, if any
        axis has several.
      steps: of each axis which indices belong to the part: ``(step, first)``.
    """

    shape: Shape
    pieces: tuple[tuple[int, ...], ...] | None = None
    steps: tuple[tuple[int, int], ...] | None = None

    def points(self) -> tuple[tuple[int, ...], Point, tuple[tuple[int, ...], ...]]:
        """The extents of its dims; for each axis its index in terms of them, and their numbers."""
        pieces = self.pieces or tuple((n,) for n in self.sizes())
        point, numbers = points_of(pieces)
        if self.steps is not None:
            point = tuple(e * step + first for e, (step, first) in zip(point, self.steps))
        return tuple(n for sizes in pieces for n in sizes), point, numbers

    def sizes(self) -> Shape:
        """How many indices of each axis belong to the part."""
        if self.steps is None:
            return self.shape
        return tuple(-(-(n - first) // step) for n, (step, first) in zip(self.shape, self.steps))


def remainders(
    space: Space,
    rank: int,
    strides: Sequence[tuple[IndexExpr, int]],
    others: Sequence[tuple[IndexExpr, int]] = (),
) -> list[Space] | Refusal:
    """The parts of a space in which what must be divisible is so.

    Args:
      space: whole, each axis one dim.
      rank: how many axes the results have.
      strides: expressions over the axes, and what they must be divisible by for a point to count.
      others: the same for what the results need besides the sum; there all points count.

    Returns:
      The parts; refused if they are too many, or the remainders of the results do not tell those
      of what is summed.
    """
    steps = [1] * len(space.shape)
    for expr, divisor in (*strides, *others):
        for atom, coef in expr.terms:
            if not isinstance(atom, Dim) or atom.number >= len(steps):
                return Refusal("a remainder of what is read")
            step = divisor // gcd(coef, divisor)
            steps[atom.number] = math.lcm(steps[atom.number], step)
    if math.prod(steps[:rank]) > MOST_PARTS or math.prod(steps) > MOST_PARTS**2:
        return Refusal("too many remainders")
    parts = []
    for outer in itertools.product(*map(range, steps[:rank])):
        fits = [
            inner
            for inner in itertools.product(*map(range, steps[rank:]))
            if all(_at(expr, (*outer, *inner)) % divisor == 0 for expr, divisor in strides)
        ]
        if len(fits) > 1:
            return Refusal("several remainders of what is summed for one of the results")
        inner = fits[0] if fits else tuple(space.shape[rank:])  # nothing is summed
        part = replace(space, steps=tuple(zip(steps, (*outer, *inner), strict=True)))
        if min(part.sizes()[:rank], default=1) > 0:
            parts.append(part)
    return parts


def _at(expr: IndexExpr, point: Sequence[int]) -> int:
    return expr.const + sum(coef * point[a.number] for a, coef in expr.terms if isinstance(a, Dim))


def accumulator(total: Eqn) -> np.dtype[Any]:
    """What a sum is added up in."""
    (x,), (out,) = total.invars, total.outvars
    dtype = np.result_type(x.aval.dtype, out.aval.dtype)
    if dtype in dtypes.HALF:
        return np.dtype(dtypes.float32)
    if dtypes.is_integer(dtype) and dtype.itemsize < 4:
        return np.dtype("u4" if dtype.kind == "u" else "i4")  # wraps as the narrow one does
    return dtype


@record
class Summands:
    """Where the summands of an element of a sum are.

    Args:
      summed: the axes of the operand along which is summed.
      solved: for each other axis, in order, the axis of the result, a factor, and the rest: its
        index times the factor, plus the rest, is the index in the result.
      shape: of the operand.
    """

    summed: tuple[int, ...]
    solved: dict[int, tuple[int, int, IndexExpr]]
    shape: Shape

    @classmethod
    def of(cls, total: Eqn) -> Summands | Refusal:
        """Those of an equation that sums; refused if the result does not tell where they are."""
        shape = total.invars[0].aval.shape
        axes = reduced_axes(total)
        if axes is not None:
            if total.primitive is not reduce_sum:
                return Refusal("a reduction that is no sum")
            kept = [d for d in range(len(shape)) if d not in axes]
            return cls(axes, {d: (k, 1, as_expr(0)) for k, d in enumerate(kept)}, shape)
        index_map = total.params["map"]
        fits = total.primitive is reindex_reduce and total.params["op"] == "add"
        if not fits or len(total.invars) > 1 or index_map.conditions:
            return Refusal("an update that is no sum along windows")
        solved = {}
        for k, expr in enumerate(index_map.exprs):
            others = {d for j, e in enumerate(index_map.exprs) if j != k for d in e.used_dims()}
            tells = _solvable(expr, others, shape)
            if tells is None:
                return Refusal("an update whose indices do not tell where they come from")
            d, factor = tells
            solved[d] = (k, factor, expr - Dim(d) * factor)
        summed = tuple(d for d in range(len(shape)) if d not in solved)
        return cls(summed, solved, shape)

    def point(self, row: Point, summed: Point) -> tuple[Point, list[Condition]]:
        """The point of the operand, and the conditions under which it is one."""
        known: dict[int, Index] = dict(zip(self.summed, summed, strict=True))
        conditions = []
        for d, (k, factor, rest) in self.solved.items():
            distance = row[k] - rest.substitute(known)
            if factor < 0:
                distance = -distance
            at = distance // abs(factor)
            known[d] = at
            if abs(factor) > 1:
                conditions.append((distance % abs(factor)).eq(0))
            conditions += [at >= 0, at < self.shape[d]]
        return tuple(as_expr(known[d]) for d in range(len(self.shape))), conditions


def _solvable(expr: IndexExpr, others: set[int], shape: Shape) -> tuple[int, int] | None:
    """The longest axis that an index of the result tells, if the others are known; its factor.

    None if it tells none.
    """
    found = [
        (shape[a.number], a.number, coef)
        for a, coef in expr.terms
        if isinstance(a, Dim) and a.number not in others
    ]
    if not found or not all(isinstance(a, Dim) for a, _ in expr.terms):
        return None
    _, d, factor = max(found)
    return d, factor
