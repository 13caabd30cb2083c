"""From a group that is a contraction to the kernels that compute it.

What enters: the program of a ``contraction`` group, one sum of one product of two *sides*:

    prologue of each side -> mul -> (views) -> sum -> epilogue -> results

What leaves: the kernels that run one after the other.  The last one is the contraction itself, a
:class:`Kernel` as all others, whose only stage adds up a product of two loads, with a
:class:`~functrax.backends.kernels.tiling.Tiling` as its schedule.  Those before it *stage* a side
that is not read in place: they compute it once into a temporary, in the order in which the last one
reads it (``kernels/sides.py``).

Prologue and epilogue are expressions like those of other kernels (``kernels/values.py``): the
results are evaluated at a point of their own shape, where the sum is a leaf, and each side at the
points that this leaf adds up.

Start at :func:`contraction_kernels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Kernel, Operand, Reduce, Stage, Store
from functrax.backends.kernels.lower import points_of, split_dims
from functrax.backends.kernels.schedule import Target, collapse
from functrax.backends.kernels.sides import Side, dims_of
from functrax.backends.kernels.staging import staged
from functrax.backends.kernels.strategy import choose
from functrax.backends.kernels.values import (
    NotAKernelError,
    Point,
    Values,
    is_update,
    reduced_axes,
)
from functrax.core import dtypes
from functrax.core.index_expr import Condition, Dim, Index, IndexExpr, as_expr
from functrax.core.index_form import flatten
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.lowering import Builder, Scalar
from functrax.core.prims.lowered_reductions import Fold

#: Dtypes that a contraction adds up in.
_ACCUMULATORS = frozenset(
    {dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64}
)


def contraction_kernels(jaxpr: Jaxpr, name: str, target: Target) -> list[Kernel]:
    """The kernels of a contraction, scheduled.

    Raises:
      NotAKernelError: it is not one sum of one product, or is better done by other loops.
    """
    kernel = collapse(lower_contraction(jaxpr, name))
    kernel.inner = tuple(sorted(kernel.inner, key=lambda d: kernel.extents[d]))
    (reduction,) = kernel.stages[0].reductions
    (product,) = reduction.values
    if product.op != "mul":
        raise NotAKernelError("a sum of something else than a product")
    first, second = (Side.of(kernel, x) for x in product.args)
    return staged(kernel, choose(kernel, first, second, target), target)


def lower_contraction(jaxpr: Jaxpr, name: str) -> Kernel:
    """A contraction as a kernel without a schedule: a sum of a product, then the results.

    Raises:
      NotAKernelError: it has not that form.
    """
    total = _the_sum(jaxpr)
    shape = jaxpr.outvars[0].aval.shape
    if any(x.aval.shape != shape or isinstance(x, Literal) for x in jaxpr.outvars):
        raise NotAKernelError("results of several shapes")
    if total.outvars[0].aval.size != jaxpr.outvars[0].aval.size:
        raise NotAKernelError("a sum that is repeated, or of which a part is used")
    summands = Summands.of(total)
    operand = total.invars[0].aval.shape
    space = (*shape, *(operand[d] for d in summands.summed))
    plain = _Lowering(jaxpr, name, total, summands, tuple((n,) for n in space))
    kernel = plain.kernel()
    pieces = split_dims(plain.indices.divisors, space)
    if pieces is None:
        return kernel
    return _Lowering(jaxpr, name, total, summands, pieces).kernel()


def _the_sum(jaxpr: Jaxpr) -> Eqn:
    sums = [e for e in jaxpr.eqns if is_update(e) or reduced_axes(e) is not None]
    if len(sums) != 1:
        raise NotAKernelError("a contraction has one sum")
    if 0 in sums[0].invars[0].aval.shape:
        raise NotAKernelError("a sum of nothing")
    return sums[0]


class _Lowering:
    """Builds the expressions of one contraction.

    Args:
      jaxpr: the group's program.
      name: for people.
      total: the equation that sums.
      summands: where what it sums is.
      pieces: for each axis the sizes of the dims that it is made of, outermost first.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        name: str,
        total: Eqn,
        summands: Summands,
        pieces: tuple[tuple[int, ...], ...],
    ) -> None:
        self.jaxpr, self.name, self.total, self.summands = jaxpr, name, total, summands
        self.builder = Builder()
        self.extents = tuple(size for sizes in pieces for size in sizes)
        point, numbers = points_of(pieces)
        rank = len(jaxpr.outvars[0].aval.shape)
        self.point, self.summed = point[:rank], point[rank:]
        self.outer = tuple(d for dims in numbers[:rank] for d in dims)
        self.inner = tuple(d for dims in numbers[rank:] for d in dims)
        self.defs: dict[Var, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
        self.inputs = {v: k for k, v in enumerate(jaxpr.invars)}
        self.indices = Indices(self.builder, self.extents)
        self.values = Values(self.builder, self.indices, self.defs, self)
        self.row: Point | None = None
        self.dtype = self._accumulator()
        self.result = self.builder.node("result", self.dtype, (), (0, 0))

    def _accumulator(self) -> np.dtype[Any]:
        (x,), (out,) = self.total.invars, self.total.outvars
        dtype = np.result_type(x.aval.dtype, out.aval.dtype)
        if dtype in dtypes.HALF:
            dtype = dtypes.float32
        elif dtypes.is_integer(dtype) and dtype.itemsize < 4:
            dtype = np.dtype("u4" if dtype.kind == "u" else "i4")  # wraps as the narrow one does
        if dtype not in _ACCUMULATORS:
            raise NotAKernelError(f"a sum of {dtype}")
        return dtype

    def kernel(self) -> Kernel:
        """The sum's product in its stage, the results as stores of rows."""
        operands = [Operand(v.aval.dtype, v.aval.size, False) for v in self.jaxpr.invars]
        stores = []
        for out in self.jaxpr.outvars:
            place = flatten(self.point, out.aval.shape)
            stores.append(Store(len(operands), place, self.values.at(out, self.point)))
            operands.append(Operand(out.aval.dtype, out.aval.size, True))
        how = Fold("add", self.dtype, self.dtype, 0)
        acc = self.builder.node("acc", self.dtype, (), (0, 0))
        stage = Stage([Reduce(how, (self._product(),), (acc,), (self.result,))])
        return Kernel(
            self.name,
            self.builder,
            operands,
            self.extents,
            self.outer,
            self.inner,
            [stage],
            stores,
        )

    def _product(self) -> Scalar:
        """What is summed, at a point of the whole space."""
        if self.row is None:
            raise NotAKernelError("a sum that no result needs")
        x = self.total.invars[0]
        exprs, conditions = self.summands.point(self.row, self.summed)
        point = tuple(map(self.indices.simplify, exprs))
        eqn, at = self._multiplication(x, point)
        b = self.builder
        sides = [b.convert(self.values.at(y, at), self.dtype) for y in eqn.invars]
        guard = None
        for condition in conditions:
            guard = self.indices.both(guard, condition)
        if guard is not None:
            sides = self._guarded(eqn, at, sides, guard, conditions)
        if any(side.is_constant for side in sides):
            raise NotAKernelError("a product with a number")
        return b.mul(*sides)

    def _guarded(
        self,
        eqn: Eqn,
        point: Point,
        sides: list[Scalar],
        guard: Scalar,
        conditions: Sequence[Condition],
    ) -> list[Scalar]:
        """The sides, one of them zero where there is nothing to add: that which moves there."""
        b = self.builder
        used = {d for condition in conditions for d in condition.expr.used_dims()}
        for k, side in enumerate(sides):
            if used <= dims_of(side):
                value = b.convert(self.values.at(eqn.invars[k], point, guard), self.dtype)
                sides[k] = b.select(guard, value, b.const(0, self.dtype))
                return sides
        raise NotAKernelError("a sum over a part of the space that no side knows of")

    def _multiplication(self, x: Atom, point: Point) -> tuple[Eqn, Point]:
        """The product beneath a sum, and the point at which it is needed."""
        while x in self.defs:
            assert isinstance(x, Var)
            eqn = self.defs[x]
            if eqn.primitive.name == "mul":
                return eqn, point
            if eqn.primitive.family == "reindex" and len(eqn.invars) == 1:
                point = self.values.moved(eqn, point)
            elif eqn.primitive.name != "convert_element_type" or not _is_float(eqn):
                break
            x = eqn.invars[0]
        raise NotAKernelError("a sum of something else than a product")

    # ---- where values come from -----------------------------------------------------------------

    def read(self, x: Var, point: Point, guard: Scalar | None) -> Scalar:
        """An input of the group: what is in memory at its address."""
        address = self.indices.simplify(flatten(point, x.aval.shape))
        place, offset = self.indices.affine_part(address, x.aval.size)
        args = tuple(a for a in (offset, guard) if a is not None)
        attr = (self.inputs[x], place, offset is not None, guard is not None)
        return self.builder.node("load", x.aval.dtype, args, attr)

    def reduced_points(self, eqn: Eqn, point: Point) -> list[Point]:
        """The sum's operand is evaluated apart."""
        return []

    def reduced(self, eqn: Eqn, point: Point, operands: list[Scalar]) -> Scalar:
        """The sum, which is needed at one point only."""
        if self.row not in (None, point):
            raise NotAKernelError("a sum that is used at two places")
        self.row = point
        return self.builder.convert(self.result, eqn.outvars[0].aval.dtype)


@dataclass(frozen=True)
class Summands:
    """Where the summands of an element of a sum are.

    Args:
      summed: the axes of the operand along which is summed.
      solved: for each other axis the axis of the result, the sign, and the rest: its index is
        ``sign * (index in the result - rest)``; the rest is an expression over the operand's axes.
      shape: of the operand.
    """

    summed: tuple[int, ...]
    solved: dict[int, tuple[int, int, IndexExpr]]
    shape: Shape

    @classmethod
    def of(cls, total: Eqn) -> Summands:
        """Those of an equation that sums.

        Raises:
          NotAKernelError: they are not at a point for each point of the axes that are summed.
        """
        shape = total.invars[0].aval.shape
        axes = reduced_axes(total)
        if axes is not None:
            if total.primitive.name != "reduce_sum":
                raise NotAKernelError("a reduction that is no sum")
            kept = [d for d in range(len(shape)) if d not in axes]
            return cls(axes, {d: (k, 1, as_expr(0)) for k, d in enumerate(kept)}, shape)
        index_map = total.params["map"]
        fits = total.primitive.name == "reindex_reduce" and total.params["op"] == "add"
        if not fits or len(total.invars) > 1 or index_map.conditions:
            raise NotAKernelError("an update that is no sum along windows")
        solved = {}
        for k, expr in enumerate(index_map.exprs):
            d, sign = _solvable(expr, [*index_map.exprs[:k], *index_map.exprs[k + 1 :]], shape)
            solved[d] = (k, sign, expr - Dim(d) * sign)
        summed = tuple(d for d in range(len(shape)) if d not in solved)
        return cls(summed, solved, shape)

    def point(self, row: Point, summed: Point) -> tuple[Point, list[Condition]]:
        """The point of the operand, and the conditions under which it is one."""
        known: dict[int, Index] = dict(zip(self.summed, summed, strict=True))
        conditions = []
        for d, (k, sign, rest) in self.solved.items():
            at = (row[k] - rest.substitute(known)) * sign
            known[d] = at
            if rest.terms or rest.const:
                conditions += [at >= 0, at < self.shape[d]]
        return tuple(as_expr(known[d]) for d in range(len(self.shape))), conditions


def _solvable(expr: IndexExpr, others: Sequence[IndexExpr], shape: Shape) -> tuple[int, int]:
    """The longest axis that alone can be told from an index of the result, and its sign."""
    found = [
        (shape[a.number], a.number, coef)
        for a, coef in expr.terms
        if isinstance(a, Dim) and abs(coef) == 1 and all(a.number not in e.used_dims() for e in others)
    ]
    if not found or not all(isinstance(a, Dim) for a, _ in expr.terms):
        raise NotAKernelError("an update whose indices do not tell where they come from")
    if any(abs(coef) != 1 for _, coef in expr.terms):
        raise NotAKernelError("an update in strides")
    _, d, sign = max(found)
    return d, sign


def _is_float(eqn: Eqn) -> bool:
    return all(dtypes.is_float(x.aval.dtype) for x in (*eqn.invars, *eqn.outvars))


