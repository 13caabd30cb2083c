"""The expressions of a group of equations: a kernel that has no schedule yet.

Values are evaluated at points of the iteration space (``kernels/values.py``), which is the shape
of the group's results, or of its reductions' operands.  Where an address divides an index by a
constant (reshapes do), the dim is split in two so that the division disappears (``split_dims``).

Start at :class:`Lowering`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from functrax.backends.kernels.accesses import dims_of
from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Kernel, LoopStage, Operand, Reduce, Store, load, ordered
from functrax.backends.kernels.operations import rounded_once
from functrax.backends.kernels.refusal import refuse
from functrax.backends.kernels.values import (
    Point,
    Shape,
    Values,
    elements_of,
    is_update,
    reduced_axes,
)
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.index.map_form import flatten
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.lowered_reductions import Fold, Reduction
from functrax.core.prims.reduce import ArgReduce, reduce_sum
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import roughly

NOTHING: Final[Mapping[Eqn, Reduction]] = MappingProxyType({})
#: The most products that are added up in their own dtype outside of contractions.  Where vectors
#: lie along the sum they are added up in many parts; elsewhere one after the other.
SHORT_PRODUCT = 4096


def read_inputs(jaxpr: Jaxpr) -> tuple[int, ...]:
    """The numbers of the inputs that a group's kernels read.

    What a scatter updates is where its result lies before the kernel runs, and is no operand of it.
    """
    read = {x for eqn in jaxpr.eqns for x in eqn.invars[elements_of(eqn) :]}
    read.update(jaxpr.outvars)
    return tuple(k for k, v in enumerate(jaxpr.invars) if v in read)


def iteration_space(jaxpr: Jaxpr) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that a group's kernel runs over, and the axes that are reduced."""
    for eqn in jaxpr.eqns:
        axes = reduced_axes(eqn)
        if axes is not None:
            return eqn.invars[0].aval.shape, axes
        if is_update(eqn):
            return eqn.params["map"].domain, ()
    return jaxpr.outvars[0].aval.shape, ()


def split_dims(
    divisors: dict[int, set[int]], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], ...] | None:
    """Sizes of the dims that each dimension is split into, or None if none should be.

    Dim ``d`` of size ``n`` divided by ``a`` and by ``b``, where ``a | b | n``, becomes dims of
    sizes ``n/b, b/a, a``.
    """
    pieces = []
    for d, size in enumerate(shape):
        bounds_ = [1]
        for divisor in sorted(divisors.get(d, ())):
            if divisor % bounds_[-1] == 0 and size % divisor == 0 and 1 < divisor < size:
                bounds_.append(divisor)
        bounds_.append(size)
        steps = [b // a for a, b in itertools.pairwise(bounds_)]
        pieces.append(tuple(reversed(steps)))
    return tuple(pieces) if any(len(p) > 1 for p in pieces) else None


class Lowering:
    """Builds the expressions of one group.

    Args:
      jaxpr: the group's program.
      name: for people.
      shape: of the iteration space.
      axes: of it that are reduced.
      pieces: for each axis the sizes of the dims that it is made of, outermost first.
      begins: for each axis the index at which the kernel begins; 0 where it is left out.
      strict: whether all sums are added up in the dtype that their primitive says.
      hows: how reductions put elements together, where that is known.
      spread: axes whose indices are written out, so that one loop reduces several rows.

    Attributes:
      hows: how reductions put elements together.
      written_out: whether they have no loop: the space is that of their results, each of which is
        an expression of all its elements.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        name: str,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        pieces: tuple[tuple[int, ...], ...],
        begins: tuple[int, ...] | None = None,
        strict: bool = False,
        hows: Mapping[Eqn, Reduction] = NOTHING,
        spread: tuple[int, ...] = (),
    ) -> None:
        self.strict, self.spread = strict, spread
        self.hows = dict(hows)
        self.written_out = bool(hows) and not axes
        self.jaxpr, self.name = jaxpr, name
        self.builder = Builder()
        self.extents = tuple(size for sizes in pieces for size in sizes)
        self.point, dims_of = points_of(pieces)
        if begins is not None:
            self.point = tuple(e + n for e, n in zip(self.point, begins, strict=True))
        self.full_shape = shape
        kept = [d for d in range(len(shape)) if d not in axes]
        self.row_point = tuple(self.point[d] for d in kept)
        #: The points of the rows that are reduced at once.
        self.row_points = [
            tuple([as_expr(place[d]) if d in place else self.point[d] for d in kept])
            for place in self._spread_places()
        ]
        self.row_shape = tuple(shape[d] for d in kept)
        self.outer = tuple(k for d in kept for k in dims_of[d])
        self.inner = tuple(k for d in axes for k in dims_of[d])
        self.defs: dict[Var, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
        self.inputs = {jaxpr.invars[n]: k for k, n in enumerate(read_inputs(jaxpr))}
        self.indices = Indices(self.builder, self.extents)
        chooses = self.written_out or all(map(_in_any_order, jaxpr.eqns))
        self.values = Values(self.builder, self.indices, self.defs, self, chooses)
        self.reductions: list[Reduce] = []
        self.stage_of: dict[Scalar, int] = {}  # the first stage that can compute a node
        self.row_values: dict[tuple[Eqn, Point], Scalar] = {}

    # ---- the kernel ---------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """Lower all results, and sort reductions and stores into stages."""
        operands = [Operand(v.aval.dtype, v.aval.size, False) for v in self.inputs]
        operands += [Operand(v.aval.dtype, v.aval.size, True) for v in self.jaxpr.outvars]
        rows: list[Store] = []
        stores: list[tuple[int, Store]] = []
        outs = enumerate(self.jaxpr.outvars, len(self.inputs))
        for (buffer, out), row_point in itertools.product(outs, self.row_points):
            store, in_full = self._store(out, buffer, row_point)
            if in_full and self.inner:
                stores.append((self._stage(store.values), store))
            else:
                rows.append(store)
        reductions = [(self._stage(r.values), r) for r in self.reductions]
        count = max([n for n, _ in (*stores, *reductions)], default=-1) + 1
        stages = [
            LoopStage([r for n, r in reductions if n == k], [s for n, s in stores if n == k])
            for k in range(count)
        ]
        return Kernel(
            self.name, self.builder, operands, self.extents, self.outer, self.inner, stages, rows
        )

    def _spread_places(self) -> Iterator[dict[int, int]]:
        """The indices that are written out, of each axis one."""
        for place in itertools.product(*[range(self.full_shape[d]) for d in self.spread]):
            yield dict(zip(self.spread, place, strict=True))

    def _store(self, out: Atom, buffer: int, row_point: Point) -> tuple[Store, bool]:
        """The store of a result, and whether it is one of the whole space (else of rows)."""
        eqn = self.defs.get(out) if isinstance(out, Var) else None
        if eqn is not None and is_update(eqn):
            return self._update(eqn, buffer), True
        shape = out.aval.shape
        in_full = True
        point = point_of(shape, self.full_shape, self.point)
        if point is None:
            in_full = False
            point = point_of(shape, self.row_shape, row_point)
        if point is None:
            refuse(f"a result of shape {shape} in a space of {self.full_shape}")
        value = self.values.at(out, point)
        return Store(buffer, flatten(point, shape), value), in_full

    def _update(self, eqn: Eqn, buffer: int) -> Store:
        """The store of a scatter or reindex_reduce."""
        index_map: IndexMap = eqn.params["map"]
        first = elements_of(eqn)
        loads = eqn.invars[first + 1 :]
        exprs, guard = self.values.image(index_map, self.point, loads, None)
        value = self.values.at(eqn.invars[first], self.point, guard)
        place, offset = self.indices.place(exprs, eqn.outvars[0].aval)
        free = frozenset(range(len(self.extents)))
        if not eqn.params.get("unique") and not index_map.injective():
            free = self._independent(exprs)
        how = eqn.primitive.reduction(eqn.invars[first].aval, **eqn.params)  # type: ignore[attr-defined]
        combine = None if eqn.params["op"] == "set" else how
        return Store(buffer, place, value, offset, guard, combine, free)

    def _independent(self, exprs: Point) -> frozenset[int]:
        """Dims along which the image moves on by itself, so that no two points meet."""
        dims = [expr.number for expr in exprs if isinstance(expr, Dim)]
        return frozenset(d for d in dims if d < len(self.extents))

    def _stage(self, roots: Sequence[Scalar]) -> int:
        """The first stage in which nodes can be computed."""
        known = self.stage_of
        for node in ordered(roots):
            if node not in known:
                known[node] = max([known[x] for x in node.args], default=0)
        return max([known[x] for x in roots])

    # ---- where values come from -----------------------------------------------------------------

    def read(self, x: Var, point: Point, guard: Scalar | None) -> Scalar:
        """An input of the group: what is in memory at its address."""
        address, offset = self.indices.place(point, x.aval)
        if guard is not None and offset is None and self.indices.is_inside(address, x.aval.size):
            guard = None  # what is read outside of it has no importance
        return load(self.builder, x.aval.dtype, self.inputs[x], (address, offset), guard)

    def reduced_points(self, eqn: Eqn, point: Point) -> list[Point]:
        """A reduction runs over its row, in a stage; or over all elements of it, one by one."""
        if not self.written_out:
            inside = [self.point[d] for d in reduced_axes(eqn) or ()]
            return [_inserted(eqn, point, inside)]
        return [_inserted(eqn, point, list(map(as_expr, place))) for place in _places(eqn)]

    def reduced(self, eqn: Eqn, point: Point, operands: list[Scalar]) -> Scalar:
        """The value of a reduction in the row of this point."""
        if self.written_out:
            return self._combined(eqn, operands)
        if point not in self.row_points:
            refuse("a reduction is used at another row than its own")
        if (eqn, point) in self.row_values:
            return self.row_values[eqn, point]
        b = self.builder
        (value,) = operands
        how = self.hows.get(eqn)
        if how is None:
            how = self.hows[eqn] = self._how(eqn, value)
        place = b.const(0, how.place)
        if isinstance(eqn.primitive, ArgReduce):
            place = self.indices.integer(self.point[eqn.params["axis"]], how.place)
        values = how.start(b, value, place)
        number = len(self.reductions)
        accs = tuple(b.node("acc", v.dtype, (), (number, k)) for k, v in enumerate(values))
        results = tuple(b.node("result", v.dtype, (), (number, k)) for k, v in enumerate(values))
        self.reductions.append(Reduce(how, values, accs, results))
        self.stage_of.update(dict.fromkeys(results, 1 + self._stage(values)))
        result: Scalar = how.finish(b, results)
        self.row_values[eqn, point] = result
        return result

    def _how(self, eqn: Eqn, value: Scalar) -> Reduction:
        """How a reduction puts elements together, of which ``value`` is one."""
        if self._is_product_of_matrices(eqn, value):
            return Fold("add", value.dtype, value.dtype, 0)
        how: Reduction = eqn.primitive.reduction(eqn.invars[0].aval, **eqn.params)  # type: ignore[attr-defined]
        return how

    def _combined(self, eqn: Eqn, operands: Sequence[Scalar]) -> Scalar:
        """The value of a reduction that is written out: in the order in which a loop has it."""
        b, how = self.builder, self.hows[eqn]
        carried = how.empty(b)
        for (place, *_), x in zip(_places(eqn), operands, strict=True):
            element = how.start(b, x, b.const(place, how.place))
            found = how.combine(b, carried, element)
            carried = tuple([rounded_once(b, v) if target().has_fma else v for v in found])
        return how.finish(b, carried)

    def _is_product_of_matrices(self, eqn: Eqn, value: Scalar) -> bool:
        """Whether a short sum is one of products of a matrix and a vector, or of two matrices.

        These are added up in their own dtype, as those are that are recognised as contractions.
        """
        short = roughly(math.prod(self.extents[d] for d in self.inner)) <= SHORT_PRODUCT
        if self.strict or not short or eqn.primitive is not reduce_sum or value.op != "mul":
            return False
        if value.dtype not in (dtypes.float32, dtypes.float64):
            return False
        rows = {d for d in self.outer if self.extents[d] > 1}
        dims = [dims_of(x) for x in value.args]
        both = not any(used.isdisjoint(self.inner) for used in dims)
        return both and dims[0] & rows != dims[1] & rows


def _inserted(eqn: Eqn, point: Point, inside: Sequence[IndexExpr]) -> Point:
    """Where an element of a row is: the point of the row, with an index for each axis of it."""
    found = list(point)
    for d, index in zip(reduced_axes(eqn) or (), inside, strict=True):  # in ascending order
        found.insert(d, index)
    return tuple(found)


def _places(eqn: Eqn) -> Iterator[tuple[int, ...]]:
    """The indices of the elements of a row along the axes that a reduction has, in order."""
    shape = eqn.invars[0].aval.shape
    return itertools.product(*[range(shape[d]) for d in reduced_axes(eqn) or ()])


def _in_any_order(eqn: Eqn) -> bool:
    """Whether a result does not depend on the form of its kernel, as the order of a sum does."""
    return reduced_axes(eqn) is None or eqn.invars[0].aval.dtype.kind in "iub"


def point_of(shape: Shape, space: Shape, point: Point) -> Point | None:
    """The point of an array that differs from a space in dimensions of size 1 only."""
    sizes = [(n, expr) for n, expr in zip(space, point, strict=True) if n != 1]
    if [n for n, _ in sizes] != [n for n in shape if n != 1]:
        return None
    exprs = iter(expr for _, expr in sizes)
    return tuple(as_expr(0) if n == 1 else next(exprs) for n in shape)


def points_of(
    pieces: tuple[tuple[int, ...], ...],
) -> tuple[Point, tuple[tuple[int, ...], ...]]:
    """For each axis its index in terms of the dims that it is made of, and their numbers."""
    point, dims_of, number = [], [], 0
    for sizes in pieces:
        expr = as_expr(0)
        numbers = tuple(range(number, number + len(sizes)))
        for k, size in zip(numbers, sizes, strict=True):
            expr = expr * size + (Dim(k) if size > 1 else 0)
        point.append(expr)
        dims_of.append(numbers)
        number += len(sizes)
    return tuple(point), tuple(dims_of)
