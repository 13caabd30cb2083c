"""From a group that is a contraction to the kernels that compute it.

What enters: the program of a ``contraction`` group, one sum of one product of two *sides*:

    prologue of each side -> mul -> (views) -> sum -> epilogue -> results

What leaves: the kernels that run one after the other.  The last one is the contraction itself, a
:class:`Kernel` as all others, whose only stage adds up a product of two loads, with a
:class:`~functrax.backends.kernels.tiling.Tiling` as its schedule.  Those before it *stage* a side
that is not read in place: they compute it once into a temporary, in the order in which the last one
reads it (``gemm/sides.py``).

Prologue and epilogue are expressions like those of other kernels (``kernels/values.py``): the
results are evaluated at a point of their own shape, where the sum is a leaf, and each side at the
points that this leaf adds up.

Start at :func:`contraction_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from functrax.backends.gemm.blocking import Plan, ranked
from functrax.backends.gemm.packed_blocks import Launched, in_blocks
from functrax.backends.gemm.packing import staged
from functrax.backends.gemm.reduction_domains import (
    SumSpace,
    accumulator,
    remainders,
    sum_of_product,
)
from functrax.backends.gemm.sides import Side
from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Kernel, LoopStage, Operand, Reduce, Store
from functrax.backends.kernels.lowering import split_dims
from functrax.backends.kernels.merge import Rewriting, merged
from functrax.backends.kernels.refusal import Refusal, answered, refuse
from functrax.backends.kernels.values import Point, Values, reduced_axes
from functrax.backends.targets import Target
from functrax.core.index.expr import IndexExpr
from functrax.core.index.map_form import flatten
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.lowered_reductions import Fold
from functrax.core.prims.reindex import Reindexing
from functrax.core.records import replace
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import roughly

#: What chooses one of several plans.
Pick: TypeAlias = "Callable[[Kernel, list[Plan], Callable[[Plan], list[Kernel]]], Plan]"
#: Dtypes that a contraction adds up in.
_ACCUMULATORS = frozenset(
    {dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64}
)
#: And those whose parts it adds up.
_IN_PARTS = frozenset({dtypes.complex64, dtypes.complex128})
#: Loops of so many steps may be innermost.
LONG_LOOP = 16


def takes(jaxpr: Jaxpr) -> bool:
    """Whether a contraction has the form that there are kernels for, by its equations alone.

    It is then taken with any prologue of its sides and any epilogue of the sum's shape.  What its
    sides read may still be such that other ways are better (:func:`contraction_kernels`).
    """
    found = sum_of_product(jaxpr)
    if isinstance(found, Refusal):
        return False
    product, total = found
    if any(type(x) is Literal for x in product.invars):
        return False
    dtypes_ = {product.outvars[0].aval.dtype, total.outvars[0].aval.dtype}
    return dtypes_ <= _ACCUMULATORS | _IN_PARTS


def contraction_kernels(
    jaxpr: Jaxpr,
    name: str,
    target: Target,
    off: frozenset[str] = frozenset(),
    pick: Pick | None = None,
    needed: bool = False,
) -> list[Launched] | Refusal:
    """The kernels of a contraction: the sums with their tiling, what stores sides without.

    Args:
      jaxpr: its program.
      name: for people.
      target: what they run on.
      off: decisions that their schedules leave out.
      pick: chooses one of its plans, of which the first one is the model's choice; and is given
        what makes a plan's kernels.  None for that one.
      needed: whether nothing else computes it in loops (:func:`~.blocking.ranked`).

    Returns:
      The kernels; refused if it is not one sum of one product, or is better done by other loops.
    """
    parts = lower_contraction(jaxpr, name)
    if isinstance(parts, Refusal):
        return parts
    launched: list[Launched] = []
    for part in parts:
        if launched:
            part.operands = [o for o in launched[-1].kernel.operands if not o.scratch]
        scheduled = _scheduled(part, target, off, pick, needed)
        if isinstance(scheduled, Refusal):
            return scheduled
        launched += scheduled
    return launched


def _scheduled(
    kernel: Kernel, target: Target, off: frozenset[str], pick: Pick | None, needed: bool
) -> list[Launched] | Refusal:
    """The kernels of a contraction, or of a part of one."""
    if not kernel.stages:
        return [Launched(kernel)]
    kernel = merged(kernel)
    kernel.off = off
    (reduction,) = kernel.stages[0].reductions
    (product,) = reduction.values
    if product.op != "mul":
        return Refusal("a sum of something else than a product")
    sides = _sides(kernel)
    kernel.inner = _in_order(kernel, sides)
    plain = ranked(kernel, *sides, target, needed)
    if not plain:
        return Refusal("no tiles: a side has no dim of its own")
    forms = [(kernel, plain)]
    if target.dots and all(x.op in ("convert", "select") for x in product.args):
        from functrax.backends.gemm.packed_dtypes import over_words  # which few programs need

        words = over_words(kernel, target)
        forms += [(form, ranked(form, *_sides(form), target)) for form in words]
    kernel, plans = min((form for form in forms if form[1]), key=lambda form: form[1][0].cost)
    plan = plans[0]
    if pick is not None:
        plan = pick(kernel, plans, lambda plan: staged(kernel, plan, target))
    blocks = in_blocks(kernel, plan, target)
    return blocks or [Launched(x) for x in staged(kernel, plan, target)]


def _sides(kernel: Kernel) -> tuple[Side, Side]:
    """The sides of a contraction's product."""
    (reduction,) = kernel.stages[0].reductions
    first, second = reduction.values[0].args
    return Side.of(kernel, first), Side.of(kernel, second)


def _in_order(kernel: Kernel, sides: tuple[Side, Side]) -> tuple[int, ...]:
    """The steps' dims: short ones outside, then those along which what is in memory is far apart.

    What is not in memory as it is read is stored in this order.
    """
    places = [side.place[1] for side in sides if side.place is not None]

    def key(d: int) -> tuple[bool, int, int]:
        extent = roughly(kernel.extents[d])
        far = max((roughly(abs(coefficient(place, d))) for place in places), default=0)
        return (True, -far, extent) if extent >= LONG_LOOP else (False, extent, 0)

    return tuple(sorted(kernel.inner, key=key))


def lower_contraction(jaxpr: Jaxpr, name: str) -> list[Kernel] | Refusal:
    """A contraction as kernels without a schedule: a sum of a product, then the results.

    There are several where what is read follows from remainders (a stride in what is written, or
    holes in what is read): one for each remainder of the indices of the results.  Refused if it has
    not that form.
    """
    if any(dtypes.is_complex(v.aval.dtype) for v in jaxpr.outvars):
        from functrax.backends.gemm.complex_parts import in_parts  # which few programs need

        parts = in_parts(jaxpr)
        if isinstance(parts, Refusal):
            return parts
        jaxpr = parts
    found = sum_of_product(jaxpr)
    if isinstance(found, Refusal):
        return found
    product, total = found
    if 0 in total.invars[0].aval.shape:
        return Refusal("a sum of nothing")
    shape = jaxpr.outvars[0].aval.shape
    if any(x.aval.shape != shape or isinstance(x, Literal) for x in jaxpr.outvars):
        return Refusal("results of several shapes")
    if total.outvars[0].aval.size != jaxpr.outvars[0].aval.size:
        return Refusal("a sum that is repeated, or of which a part is used")
    dtype = accumulator(total)
    if dtype not in _ACCUMULATORS:
        return Refusal(f"a sum of {dtype}")
    operand = total.invars[0].aval.shape
    space = SumSpace((*shape, *(operand[d] for d in reduced_axes(total) or ())))
    plain = _Lowering(jaxpr, name, product, total, space)
    kernel = answered(plain.kernel)
    if isinstance(kernel, Refusal):
        return kernel
    spaces = _parts(plain, space, len(shape))
    if spaces is None:
        return [kernel]
    if isinstance(spaces, Refusal):
        return spaces
    lowerings = [_Lowering(jaxpr, name, product, total, part) for part in spaces]
    return answered(lambda: [part.kernel() for part in lowerings])


def _parts(plain: _Lowering, space: SumSpace, rank: int) -> list[SumSpace] | Refusal | None:
    """The parts of a space that have kernels of their own; None if the whole has one, which is
    lowered by then.  The results have so many axes.
    """
    strides = list(plain.indices.strides)
    if not plain.strides and not strides:
        pieces = split_dims(plain.indices.divisors, space.shape)
        return None if pieces is None else [replace(space, pieces=pieces)]
    if strides and not _holes_are_zero(plain):
        return Refusal("what is not read of a side counts")
    return remainders(space, rank, strides, list(plain.strides))


def _holes_are_zero(lowering: _Lowering) -> bool:
    """Whether nothing is added where a side is not read, so that these points can be left out."""
    holes: dict[Atom, bool] = {}  # of values that have holes: whether all of them are zero
    for eqn in lowering.jaxpr.eqns:
        fill = eqn.params.get("fill")
        found = [holes[x] for x in eqn.invars if x in holes]
        if fill is not None:
            found.append(not np.any(fill.val))
        if found:
            keeps = isinstance(eqn.primitive, Reindexing) or eqn.primitive.keeps_zero
            holes.update(dict.fromkeys(eqn.outvars, keeps and all(found)))
        if eqn is lowering.total:
            break
    return all(holes.get(x, True) for x in lowering.total.invars)


class _Lowering:
    """Builds the expressions of one contraction.

    Args:
      jaxpr: the group's program.
      name: for people.
      product: the equation that multiplies.
      total: the one that sums.
      space: of which points; the axes of the results first, then those that are summed.
    """

    def __init__(self, jaxpr: Jaxpr, name: str, product: Eqn, total: Eqn, space: SumSpace) -> None:
        self.jaxpr, self.name, self.product, self.total = jaxpr, name, product, total
        self.builder = Builder()
        self.extents, point, numbers = space.points()
        rank = len(jaxpr.outvars[0].aval.shape)
        self.point, self.summed = point[:rank], point[rank:]
        self.outer = tuple(d for dims in numbers[:rank] for d in dims)
        self.inner = tuple(d for dims in numbers[rank:] for d in dims)
        self.defs: dict[Var, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
        self.inputs = {v: k for k, v in enumerate(jaxpr.invars)}
        self.indices = Indices(self.builder, self.extents)
        self.values = Values(self.builder, self.indices, self.defs, self)
        self.row: Point | None = None
        #: What is asked to be divisible by what follows the sum; ``indices`` has that of the sum.
        self.strides: tuple[tuple[IndexExpr, int], ...] = ()
        self.dtype = accumulator(total)
        self.result = self.builder.node("result", self.dtype, (), (0, 0))

    def kernel(self) -> Kernel:
        """The sum's product in its stage, the results as stores of rows."""
        operands = [Operand(v.aval.dtype, v.aval.size, False) for v in self.jaxpr.invars]
        stores = []
        for out in self.jaxpr.outvars:
            place = flatten(self.point, out.aval.shape)
            stores.append(Store(len(operands), place, self.values.at(out, self.point)))
            operands.append(Operand(out.aval.dtype, out.aval.size, True))
        self.strides = tuple(self.indices.strides)
        self.indices.strides.clear()
        if 0 in self.extents:
            return self._of_nothing(operands, stores)
        how = Fold("add", self.dtype, self.dtype, 0)
        acc = self.builder.node("acc", self.dtype, (), (0, 0))
        stage = LoopStage([Reduce(how, (self._product(),), (acc,), (self.result,))])
        name, b, extents = self.name, self.builder, self.extents
        return Kernel(name, b, operands, extents, self.outer, self.inner, [stage], stores)

    def _of_nothing(self, operands: list[Operand], stores: list[Store]) -> Kernel:
        """The results where nothing is summed."""
        known = Rewriting(self.builder, {d: d for d in self.outer})
        known.new[id(self.result)] = self.builder.const(0, self.dtype)
        rows = [known.store(store) for store in stores]
        extents = tuple(max(n, 1) for n in self.extents)
        return Kernel(self.name, self.builder, operands, extents, self.outer, (), [], rows)

    def _product(self) -> Scalar:
        """What is summed, at a point of the whole space."""
        if self.row is None:
            refuse("a sum that no result needs")
        x = self.total.invars[0]
        axes, kept, summed = reduced_axes(self.total) or (), iter(self.row), iter(self.summed)
        exprs = [next(summed if d in axes else kept) for d in range(len(x.aval.shape))]
        point, b = tuple(map(self.indices.simplify, exprs)), self.builder
        factors = self.product.invars
        sides = [b.convert(self.values.at(y, point), self.dtype) for y in factors]
        if any(side.is_constant for side in sides):
            refuse("a product with a number")
        return b.mul(*sides)

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
            refuse("a sum that is used at two places")
        self.row = point
        return self.builder.convert(self.result, eqn.outvars[0].aval.dtype)
