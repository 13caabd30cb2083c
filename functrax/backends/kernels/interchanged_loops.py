"""A loop of the program as one kernel: each point of it runs through all steps by itself.

``scan`` and ``while`` whose steps do the same at every point of a *batch* shape, and never look at
another point, are turned inside out: for each point all steps, the carry in registers.  What a
point carries may be a small array (the three coordinates of a particle): its elements are scalars,
and reductions and reindexes of such arrays are written out.  A larger array may be carried too if a
step does no more than update a few of its elements: it stays in memory, where the result lies, and
a step reads what it needs of it before it writes.

What enters is an equation whose programs went through the pipeline; its groups are opened again.
What leaves is a kernel without a schedule, whose one stage carries values from step to step.

Start at :func:`lower_loop`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from functrax.backends.kernels.accesses import dims_of
from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Kernel, Store, load, ordered
from functrax.backends.kernels.math import FUNCTION_OPERATIONS
from functrax.backends.kernels.refusal import Refusal, refuse
from functrax.backends.kernels.row_loops import lower_row_loop
from functrax.backends.kernels.steps import (
    FEW_ELEMENTS,
    MOST_CARRIED,
    MOST_OPERATIONS,
    MOST_TERMS,
    LoopKernel,
    LoopLowering,
    Opened,
    carried_of,
    opened,
    terms_of,
)
from functrax.backends.kernels.values import (
    MOST_VALUES,
    Point,
    Shape,
    Values,
    is_update,
    reduced_axes,
)
from functrax.backends.targets import PORTABLE, target
from functrax.core.index.expr import Dim, as_expr
from functrax.core.index.map_form import flatten
from functrax.core.ir.jaxpr import Atom, Eqn, Literal, Var
from functrax.core.prims.control import LoopPrimitive
from functrax.core.prims.mapped import Scatter
from functrax.core.prims.reindex import Reindexing
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.size_bounds import roughly
from functrax.core.types.symbolic_sizes import is_symbolic_dim

_Leaf: TypeAlias = Callable[[Point, "Scalar | None"], Scalar]


def lower_loop(eqn: Eqn, strict: bool = False) -> LoopKernel | Refusal:
    """The kernel of a ``scan`` or a ``while``.

    If the steps of no two points depend on one another, it has no schedule.  Else all elements of a
    step are scalars, if they are few, or rows of lanes (``kernels/row_loops.py``), which have one.

    Args:
      eqn: the loop.
      strict: whether sums have to be added up in the order that other kernels have.

    Returns:
      The kernel; refused if the steps of different points depend on one another, or are too large.
    """
    if eqn.params.get("length") == 0:
        return Refusal("no step")
    if not all(x.aval.dtype in dtypes.ALL for x in (*eqn.invars, *eqn.outvars)):
        return Refusal("no numbers at all")
    if eqn.primitive.has_side_effects(dict(eqn.params)):
        return Refusal("a step has side effects")
    assert isinstance(eqn.primitive, LoopPrimitive)
    programs = []
    for jaxpr in eqn.primitive.programs(eqn.params):
        program = opened(jaxpr)
        if isinstance(program, Refusal):
            return program
        programs.append(program)
    updates = _updates(eqn, *programs[0])
    found: LoopKernel | Refusal = Refusal("no batch shape")
    for batch in _batch_shapes(eqn, updates):
        found = _of_points(eqn, batch, programs, updates, strict)
        if isinstance(found, LoopKernel):
            break
    return found


def _of_points(
    eqn: Eqn,
    batch: Shape,
    programs: Sequence[Opened],
    updates: dict[int, Eqn],
    strict: bool,
) -> LoopKernel | Refusal:
    """A loop over the points of a batch shape."""
    points = math.prod(batch)
    has_vectors = not target().warp
    eighth = PORTABLE.vector_bytes // dtypes.float32.itemsize // 8
    few = not is_symbolic_dim(points) and points <= eighth
    if has_vectors and few and not updates:
        found = _by_rows(eqn, batch, programs, strict)
        if found is not None:
            return found
    if roughly(terms_of(programs)) > 4 * MOST_TERMS * roughly(points):
        return Refusal("sums of too many terms to be written out")
    return _PointLoop(eqn, batch, programs, updates).lowered()


def _by_rows(
    eqn: Eqn, batch: Shape, programs: Sequence[Opened], strict: bool
) -> LoopKernel | Refusal | None:
    """A loop of few points, which fill no eighth of a vector, in rows; None if not so."""
    work = sum(_scalar_work(e) for _, eqns, _ in programs for e in eqns)
    if work <= 4 * MOST_TERMS:
        return None
    found = lower_row_loop(eqn, programs, strict)
    refused = not isinstance(found, LoopKernel) and (batch or work <= MOST_OPERATIONS)
    return None if refused else found


def _updates(
    eqn: Eqn, inputs: Sequence[Var], eqns: Sequence[Eqn], results: Sequence[Atom]
) -> dict[int, Eqn]:
    """Parts of the carry of which a step updates a few elements, with the scatters that do."""
    number = len(carried_of(eqn))
    first = eqn.params.get("num_consts", len(inputs) - number)
    found = {}
    for scatter in eqns:
        if not isinstance(scatter.primitive, Scatter):
            continue
        out, before = scatter.outvars[0], scatter.invars[0]
        k = results.index(out) if out in results else number
        once = results.count(out) == 1 and not any(out in e.invars for e in eqns)
        few = math.prod(scatter.params["map"].domain) <= FEW_ELEMENTS
        if k < number and once and few and before is inputs[first + k]:
            found[k] = scatter
    return found


def _scalar_work(eqn: Eqn) -> int:
    """How many scalar operations an equation is."""
    primitive = eqn.primitive
    if isinstance(primitive, Reindexing):
        return 0
    size = (eqn.outvars if isinstance(primitive, Elementwise) else eqn.invars)[0].aval.size
    if is_update(eqn):
        size = math.prod(eqn.params["map"].domain)
    # All functions count alike, as one of middling length.
    return size * (FUNCTION_OPERATIONS["sin"] if primitive.is_function else 1)


def _batch_shapes(eqn: Eqn, updates: Mapping[int, Eqn]) -> Iterator[Shape]:
    """Shapes that points may have, the longest first: prefixes that all carried arrays share."""
    carried = [v for k, v in enumerate(carried_of(eqn)) if k not in updates]
    shapes = {v.aval.shape for v in carried if v.aval.shape}
    if any(v.aval.size == 0 for v in (*eqn.invars, *eqn.outvars)):
        return
    prefix = () if updates else min(shapes, key=len, default=())
    while any(shape[: len(prefix)] != prefix for shape in shapes):
        prefix = prefix[:-1]
    for length in range(len(prefix), -1, -1):
        batch = prefix[:length]
        points = math.prod(batch)
        carried_points = [v.aval.size // points if v.aval.shape else 1 for v in carried]
        if any(map(is_symbolic_dim, carried_points)):
            continue
        if sum(carried_points) <= MOST_CARRIED:
            yield batch


class _Step:
    """Where the values of a step come from: ``leaves`` are what the inputs of a program are."""

    def __init__(self, builder: Builder, leaves: dict[Atom, _Leaf]) -> None:
        self.builder = builder
        self.leaves = leaves

    def read(self, x: Var, point: Point, guard: Scalar | None) -> Scalar:
        """An input of the program."""
        return self.leaves[x](point, guard)

    def reduced_points(self, eqn: Eqn, point: Point) -> list[Point]:
        """The points of a small array that a reduction puts together."""
        axes = reduced_axes(eqn)
        assert axes is not None
        shape = eqn.invars[0].aval.shape
        count = math.prod(shape[d] for d in axes)
        if is_symbolic_dim(count) or count > MOST_CARRIED:
            refuse("a reduction of a large array in a step")
        kept = iter(point)
        ranges = [
            map(as_expr, range(n)) if d in axes else (next(kept),) for d, n in enumerate(shape)
        ]
        return list(itertools.product(*ranges))

    def reduced(self, eqn: Eqn, point: Point, operands: list[Scalar]) -> Scalar:
        """Their reduction, written out."""
        b = self.builder
        how = eqn.primitive.reduction(eqn.invars[0].aval, **eqn.params)  # type: ignore[attr-defined]
        places = (b.const(k, how.place) for k in range(len(operands)))
        carried = [how.start(b, x, place) for x, place in zip(operands, places, strict=True)]
        total = carried[0]
        for part in carried[1:]:
            total = how.combine(b, total, part)
        result: Scalar = how.finish(b, total)
        return result


class _PointLoop(LoopLowering):
    """Builds the kernel of one loop for one batch shape, whose dims are the outer ones.

    Leaves are functions of a point, and scalars what belongs to one point.
    """

    def __init__(
        self, eqn: Eqn, batch: Shape, programs: Sequence[Opened], updates: Mapping[int, Eqn]
    ) -> None:
        super().__init__(eqn, programs, batch, updates)
        self.batch = batch
        self.point: Point = tuple(Dim(k) if n > 1 else as_expr(0) for k, n in enumerate(batch))
        self.indices = Indices(self.builder, self.extents)

    # ---- leaves -------------------------------------------------------------------------------

    def _in_memory(self, x: Atom, aval: ShapedArray, of_step: bool) -> _Leaf:
        before = (self.step,) if of_step else ()
        return lambda point, guard: self._read(x, (*before, *point), guard)

    def _read(self, x: Atom, point: Point, guard: Scalar | None) -> Scalar:
        if isinstance(x, Literal):
            return self.builder.const(x.val, x.aval.dtype)
        place = self.indices.place(point, x.aval)
        if place[1] is not None:
            refuse("a step reads at a place that it computes")
        return load(self.builder, x.aval.dtype, self.buffers[x], place, guard)

    def _in_registers(self, k: int, aval: ShapedArray) -> _Leaf:
        """What a step reads of the carry, also of arrays that it updates in memory."""
        varies = bool(aval.shape) and bool(self.batch)

        def carried(point: Point, guard: Scalar | None) -> Scalar:
            return self.acc(k, self._own_index(point, aval.shape), aval.dtype, varies)

        def updated(point: Point, guard: Scalar | None) -> Scalar:
            place = self.indices.place(point, aval)
            return load(self.builder, aval.dtype, len(self.buffers) + k, place, guard)

        return updated if k in self.updates else carried

    def _own_index(self, point: Point, shape: Shape) -> Shape:
        """Which of its scalars a point reads of what it carries."""
        if not shape:
            return ()
        rank = len(self.batch)
        if point[:rank] != self.point:
            refuse("a step reads what another point carries")
        index = tuple(expr.as_int() for expr in point[rank:])
        sizes = zip(index, shape[rank:], strict=True)
        if any(i is None for i in index):
            refuse("a step reads its carry at a place that it computes")
        # What is read outside is not used: a guard selects another value.
        return tuple(i if 0 <= i < n else 0 for i, n in sizes if i is not None)

    # ---- values -------------------------------------------------------------------------------

    def _run(
        self, eqns: Sequence[Eqn], leaves: dict[Atom, Any]
    ) -> tuple[Callable[[Atom], _Leaf], list[Store]]:
        defs = {v: eqn for eqn in eqns for v in eqn.outvars}
        values = Values(self.builder, self.indices, defs, _Step(self.builder, leaves))
        return (lambda x: partial(values.at, x)), self._update_stores(values)

    def _scalars(self, leaf: _Leaf, aval: ShapedArray) -> list[Scalar]:
        return [leaf(point, None) for point in self._points_of(aval.shape)]

    def _points_of(self, shape: Shape) -> Iterator[Point]:
        """Where the scalars of an array are that belong to a point."""
        if not shape:
            yield ()
            return
        rank = len(self.batch)
        if shape[:rank] != self.batch:
            refuse("an array that does not belong to the points")
        for index in itertools.product(*map(range, shape[rank:])):
            yield (*self.point, *map(as_expr, index))

    # ---- stores -------------------------------------------------------------------------------

    def _stores(
        self, k: int, aval: ShapedArray, scalars: Sequence[Scalar], of_step: bool
    ) -> list[Store]:
        if of_step and self.batch and not aval.shape:
            refuse("a stacked result that does not belong to the points")
        before = (self.step,) if of_step else ()
        buffer, whole = len(self.buffers) + k, self.eqn.outvars[k].aval.shape
        points = self._points_of(aval.shape)
        return [
            Store(buffer, flatten((*before, *point), whole), x)
            for point, x in zip(points, scalars, strict=True)
        ]

    def _update_stores(self, values: Values) -> list[Store]:
        stores = []
        for k, scatter in self.updates.items():
            if scatter.outvars[0] not in values.defs:
                continue  # it is no equation of this program
            index_map, updates = scatter.params["map"], scatter.invars[1]
            how = scatter.primitive.reduction(updates.aval, **scatter.params)  # type: ignore[attr-defined]
            combine = None if scatter.params["op"] == "set" else how
            for index in itertools.product(*map(range, index_map.domain)):
                point = tuple(map(as_expr, index))
                exprs, guard = values.image(index_map, point, scatter.invars[2:], None)
                value = values.at(updates, point, guard)
                place, offset = self.indices.place(exprs, scatter.outvars[0].aval)
                buffer = len(self.buffers) + k
                stores.append(Store(buffer, place, value, offset, guard, combine, frozenset()))
        return stores

    # ---- checks -------------------------------------------------------------------------------

    def _refusal(self, kernel: Kernel) -> Refusal | None:
        """A step may be too large, or what all points share may differ from point to point."""
        (stage,) = kernel.stages
        if len(kernel.nodes()) > MOST_VALUES:
            return Refusal("too many operations in a step")
        if stage.condition is not None and self._is_batched(stage.condition):
            return Refusal("points run different numbers of steps")
        if any(self._is_batched(c.new) for c in stage.carries if not c.acc.attr[2]):
            return Refusal("a scalar that depends on the points")
        return None

    def _is_batched(self, root: Scalar) -> bool:
        """Whether a value differs from point to point."""
        carried = any(node.op == "acc" and node.attr[2] for node in ordered((root,)))
        return carried or not dims_of(root).isdisjoint(range(len(self.batch)))
