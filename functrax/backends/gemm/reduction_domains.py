"""The points of a contraction: those of its results, and for each those that are summed.

The derivative of a convolution with a stride reads ``h = (a - k) / 2`` for the element ``a`` of its
result: only every second ``k`` counts, which depends on the remainder of ``a``.  The same holds
where an array is read with holes in it.  Then the space falls into parts, one for each remainder,
in which nothing is divided any more.

Start at :class:`SumSpace` and :func:`remainders`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.kernels.lowering import points_of
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.kernels.values import Point, Shape, is_update, reduced_axes
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.reduce import reduce_sum
from functrax.core.records import record, replace
from functrax.core.types import dtypes
from functrax.core.types.symbolic_sizes import gcd

#: The most parts that a space falls into.
MOST_PARTS = 16


@record
class SumSpace:
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
    space: SumSpace,
    rank: int,
    strides: Sequence[tuple[IndexExpr, int]],
    others: Sequence[tuple[IndexExpr, int]] = (),
) -> list[SumSpace] | Refusal:
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


def sum_of_product(jaxpr: Jaxpr) -> tuple[Eqn, Eqn] | Refusal:
    """The equation of a contraction that multiplies, and the one that sums.

    Sums that scatter have become such by then (``passes/contractions/inverse_maps.py``).
    """
    sums = [e for e in jaxpr.eqns if is_update(e) or reduced_axes(e) is not None]
    if len(sums) != 1:
        return Refusal("a contraction has one sum")
    if sums[0].primitive is not reduce_sum:
        return Refusal("a sum that is not along axes")
    product = next((e for e in jaxpr.eqns if sums[0].invars[0] in e.outvars), None)
    if product is None or product.primitive is not mul:
        return Refusal("a sum of something else than a product")
    return product, sums[0]


def accumulator(total: Eqn) -> np.dtype[Any]:
    """What a sum is added up in."""
    (x,), (out,) = total.invars, total.outvars
    dtype = np.result_type(x.aval.dtype, out.aval.dtype)
    if dtype in dtypes.HALF:
        return np.dtype(dtypes.float32)
    if dtypes.is_integer(dtype) and dtype.itemsize < 4:
        return np.dtype("u4" if dtype.kind == "u" else "i4")  # wraps as the narrow one does
    return dtype
