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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Carry, Kernel, Operand, Stage, Store
from functrax.backends.kernels.refusal import Refusal, answered, refuse
from functrax.backends.kernels.row_loops import MATH_INSTRUCTIONS, lower_row_loop
from functrax.backends.kernels.steps import MAX_CARRIED, Leaf, Opened, Step, opened
from functrax.backends.kernels.values import (
    Point,
    Shape,
    Values,
    is_update,
)
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.index.map_form import flatten
from functrax.core.ir.jaxpr import Atom, Eqn, Literal, Var
from functrax.core.prims.control import Loop, ScanLoop
from functrax.core.prims.mapped import Scatter
from functrax.core.prims.reindex import Reindexing
from functrax.core.records import record
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: The most nodes of a step.
MAX_NODES = 4000
#: A step of more scalar operations than the first number is computed in rows of lanes if it can be,
#: one of more than the second one is not written out.
FEW_SCALARS, MOST_SCALARS = 256, 1500
#: The most elements of an array that a step updates in memory.
MAX_UPDATES = 8


@record
class LoopKernel:
    """A loop as a kernel, and what it takes.

    Args:
      kernel: it takes the arrays of ``reads``, then the loop's results.
      reads: operands of the loop.
      copies: pairs (operand, number of a result) that are copied before it runs.
    """

    kernel: Kernel
    reads: tuple[Var, ...]
    copies: tuple[tuple[Var, int], ...] = ()


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
    assert isinstance(eqn.primitive, Loop)
    programs = []
    for jaxpr in eqn.primitive.programs(eqn.params):
        program = opened(jaxpr)
        if isinstance(program, Refusal):
            return program
        programs.append(program)
    updates = _updates(eqn, *programs[0])
    found: LoopKernel | Refusal = Refusal("no batch shape")
    for batch in _batch_shapes(eqn, updates):
        if batch or updates:
            found = _LoopLowering(eqn, batch, programs, updates).lowered()
        else:
            found = _whole(eqn, programs, strict)
        if isinstance(found, LoopKernel):
            break
    return found


def _whole(eqn: Eqn, programs: Sequence[Opened], strict: bool) -> LoopKernel | Refusal:
    """A loop without points: scalars, or rows of lanes."""
    work = sum(_scalar_work(e) for _, eqns, _ in programs for e in eqns)
    if work > FEW_SCALARS:
        kernel = lower_row_loop(eqn, programs, strict)
        if isinstance(kernel, Kernel):
            return LoopKernel(kernel, variables(eqn))
        if work > MOST_SCALARS:
            return kernel
    return _LoopLowering(eqn, (), programs, {}).lowered()


def variables(eqn: Eqn) -> tuple[Var, ...]:
    """The operands that are no numbers, each once."""
    return tuple(dict.fromkeys(x for x in eqn.invars if isinstance(x, Var)))


def _updates(
    eqn: Eqn, inputs: Sequence[Var], eqns: Sequence[Eqn], results: Sequence[Atom]
) -> dict[int, Eqn]:
    """Parts of the carry of which a step updates a few elements, with the scatters that do."""
    number = len(_carried(eqn))
    is_scan = isinstance(eqn.primitive, ScanLoop)
    first = eqn.params["num_consts"] if is_scan else len(inputs) - number
    found = {}
    for scatter in eqns:
        if not isinstance(scatter.primitive, Scatter):
            continue
        out, before = scatter.outvars[0], scatter.invars[0]
        k = results.index(out) if out in results else number
        once = results.count(out) == 1 and not any(out in e.invars for e in eqns)
        few = math.prod(scatter.params["map"].domain) <= MAX_UPDATES
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
    return size * (MATH_INSTRUCTIONS if primitive.is_function else 1)


def _batch_shapes(eqn: Eqn, updates: Mapping[int, Eqn]) -> Iterator[Shape]:
    """Shapes that points may have, the longest first: prefixes that all carried arrays share."""
    carried = [v for k, v in enumerate(_carried(eqn)) if k not in updates]
    shapes = {v.aval.shape for v in carried if v.aval.shape}
    if any(v.aval.size == 0 for v in (*eqn.invars, *eqn.outvars)):
        return
    prefix = () if updates else min(shapes, key=len, default=())
    while any(shape[: len(prefix)] != prefix for shape in shapes):
        prefix = prefix[:-1]
    for length in range(len(prefix), -1, -1):
        batch = prefix[:length]
        points = math.prod(batch)
        if sum(v.aval.size // points if v.aval.shape else 1 for v in carried) <= MAX_CARRIED:
            yield batch


def _carried(eqn: Eqn) -> Sequence[Var]:
    """The results that are the last carry."""
    assert isinstance(eqn.primitive, Loop)
    return eqn.outvars[: eqn.primitive.num_carry(eqn)]


class _LoopLowering:
    """Builds the kernel of one loop for one batch shape.

    Dims 0, 1, ... are those of the batch shape; the last one is the step.
    """

    def __init__(
        self, eqn: Eqn, batch: Shape, programs: Sequence[Opened], updates: Mapping[int, Eqn]
    ) -> None:
        self.eqn, self.batch = eqn, batch
        self.programs, self.updates = programs, updates
        self.builder = Builder()
        assert isinstance(eqn.primitive, Loop)
        self.is_scan = isinstance(eqn.primitive, ScanLoop)
        self.length = eqn.params["length"] if self.is_scan else 1
        self.extents = (*batch, self.length)
        self.point: Point = tuple(Dim(k) if n > 1 else as_expr(0) for k, n in enumerate(batch))
        step: IndexExpr = Dim(len(batch)) if self.length > 1 else as_expr(0)
        self.step = self.length - 1 - step if eqn.params.get("reverse") else step
        self.indices = Indices(self.builder, self.extents)
        first = eqn.primitive.first_carried(eqn.params)
        self.copies = {first + k: k for k in updates}
        read = [x for n, x in enumerate(eqn.invars) if n not in self.copies]
        variables_ = dict.fromkeys(x for x in read if isinstance(x, Var))
        self.buffers = {x: n for n, x in enumerate(variables_)}
        self.carries: dict[tuple[int, Shape], Scalar] = {}

    def lowered(self) -> LoopKernel | Refusal:
        """The kernel, and what it takes."""
        copies = []
        for n, k in self.copies.items():
            x = self.eqn.invars[n]
            if not isinstance(x, Var):
                return Refusal("a number is updated")
            copies.append((x, k))
        kernel = answered(self._kernel)
        if isinstance(kernel, Refusal):
            return kernel
        if len(kernel.nodes()) > MAX_NODES:
            return Refusal("too many operations in a step")
        if not self._keeps_scalars(kernel.stages[0]):
            return Refusal("a scalar that depends on the points")
        return LoopKernel(kernel, tuple(self.buffers), tuple(copies))

    def _kernel(self) -> Kernel:
        """One stage that runs all steps, and stores of the last carry."""
        if self.is_scan:
            stage = self._scan()
        else:
            stage = self._while()
        rows = [store for k in range(self._num_carry()) for store in self._last(k, stage)]
        return Kernel(
            self.eqn.primitive.name,
            self.builder,
            self._operands(),
            self.extents,
            tuple(range(len(self.batch))),
            (len(self.batch),),
            [stage],
            rows,
        )

    def _num_carry(self) -> int:
        return len(_carried(self.eqn))

    def _operands(self) -> list[Operand]:
        inputs = [Operand(v.aval.dtype, v.aval.size, False) for v in self.buffers]
        return inputs + [Operand(v.aval.dtype, v.aval.size, True) for v in self.eqn.outvars]

    # ---- the two kinds of loops ---------------------------------------------------------------

    def _scan(self) -> Stage:
        params = self.eqn.params
        first = params["num_consts"]
        second = first + params["num_carry"]
        operands = self.eqn.invars
        ((inputs, eqns, results),) = self.programs
        leaves = self._leaves(inputs, operands[:first], first, second)
        for v, x in zip(inputs[second:], operands[second:], strict=True):
            leaves[v] = self._element_leaf(x)
        body = self._values(eqns, leaves)
        carries = self._carries(body, operands[first:second], results)
        stores = self._updated(body)
        for k, result in enumerate(results[second - first :], second - first):
            stores += self._stacked(body, result, k)
        return Stage([], stores, carries)

    def _while(self) -> Stage:
        params = self.eqn.params
        first = params["cond_consts"]
        second = first + params["body_consts"]
        operands = self.eqn.invars
        (inputs, eqns, results), (tested, tests, outs) = self.programs
        leaves = self._leaves(inputs, operands[first:second], second - first, len(inputs))
        body = self._values(eqns, leaves)
        carries = self._carries(body, operands[second:], results)
        stores = self._updated(body)
        leaves = self._leaves(tested, operands[:first], first, len(tested))
        condition = self._values(tests, leaves).at(outs[0], ())
        if self._is_batched(condition):
            refuse("points run different numbers of steps")
        return Stage([], stores, carries, condition)

    def _values(self, eqns: Sequence[Eqn], leaves: dict[Var, Leaf]) -> Values:
        defs = {v: eqn for eqn in eqns for v in eqn.outvars}
        return Values(self.builder, self.indices, defs, Step(self.builder, leaves))

    # ---- leaves -------------------------------------------------------------------------------

    def _leaves(
        self, inputs: Sequence[Var], consts: Sequence[Atom], first: int, second: int
    ) -> dict[Var, Leaf]:
        """What a program reads: constants, then the carry from input ``first`` to ``second``."""
        leaves: dict[Var, Leaf] = {}
        for v, x in zip(inputs, consts):
            leaves[v] = self._const_leaf(x)
        for k, v in enumerate(inputs[first:second]):
            in_memory = k in self.updates
            leaves[v] = self._memory_leaf(k, v.aval) if in_memory else self._carry_leaf(k, v.aval)
        return leaves

    def _const_leaf(self, x: Atom) -> Leaf:
        return lambda point, guard: self._read(x, point, guard)

    def _element_leaf(self, x: Atom) -> Leaf:
        return lambda point, guard: self._read(x, (self.step, *point), guard)

    def _read(self, x: Atom, point: Point, guard: Scalar | None) -> Scalar:
        if isinstance(x, Literal):
            return self.builder.const(x.val, x.aval.dtype)
        address = flatten(point, x.aval.shape)
        address = self.indices.simplify(address)
        if self.indices.is_dynamic(address) or not _is_affine(address):
            refuse("a step reads at a place that it computes")
        args = () if guard is None else (guard,)
        attr = (self.buffers[x], address, False, guard is not None)
        return self.builder.node("load", x.aval.dtype, args, attr)

    def _carry_leaf(self, k: int, aval: ShapedArray) -> Leaf:
        def leaf(point: Point, guard: Scalar | None) -> Scalar:
            return self._carry(k, self._own_index(point, aval.shape), aval)

        return leaf

    def _memory_leaf(self, k: int, aval: ShapedArray) -> Leaf:
        """What a step reads of an array that it updates."""

        def leaf(point: Point, guard: Scalar | None) -> Scalar:
            address, offset = self._place(point, aval)
            args = tuple(x for x in (offset, guard) if x is not None)
            attr = (len(self.buffers) + k, address, offset is not None, guard is not None)
            return self.builder.node("load", aval.dtype, args, attr)

        return leaf

    def _place(self, point: Point, aval: ShapedArray) -> tuple[IndexExpr, Scalar | None]:
        address = self.indices.simplify(flatten(point, aval.shape))
        return self.indices.affine_part(address, aval.size)

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

    def _carry(self, k: int, index: Shape, aval: ShapedArray) -> Scalar:
        found = self.carries.get((k, index))
        if found is None:
            batched = bool(aval.shape) and bool(self.batch)
            found = self.carries[k, index] = self._leaf("acc", aval.dtype, (k, index, batched))
        return found

    def _leaf(self, op: str, dtype: np.dtype[Any], attr: tuple[Any, ...]) -> Scalar:
        """A leaf for each real number that a value is."""
        b = self.builder
        parts = enumerate(dtypes.parts_of(dtype))
        return b.whole(tuple([b.node(op, d, (), (*attr, part)) for part, d in parts]))

    # ---- results ------------------------------------------------------------------------------

    def _points_of(self, shape: Shape) -> Iterator[tuple[Shape, Point]]:
        """The indices of the scalars of an array that belong to a point, and where they are."""
        if not shape:
            yield (), ()
            return
        rank = len(self.batch)
        if shape[:rank] != self.batch:
            refuse("an array that does not belong to the points")
        for index in itertools.product(*map(range, shape[rank:])):
            yield index, (*self.point, *map(as_expr, index))

    def _carries(
        self, body: Values, initial: Sequence[Atom], results: Sequence[Atom]
    ) -> list[Carry]:
        out = []
        for k, first in enumerate(initial):
            if k in self.updates:
                continue
            aval = first.aval
            for index, point in self._points_of(aval.shape):
                values = (
                    self._read(first, point, None),
                    self._carry(k, index, aval),
                    body.at(results[k], point),
                )
                for start, acc, new in zip(*map(self.builder.parts, values), strict=True):
                    result = self.builder.node("result", acc.dtype, (), acc.attr)
                    out.append(Carry(start, acc, new, result))
        return out

    def _stacked(self, body: Values, result: Atom, k: int) -> list[Store]:
        """The stores of one element of a stacked result."""
        shape = result.aval.shape
        if self.batch and not shape:
            refuse("a stacked result that does not belong to the points")
        whole = self.eqn.outvars[k].aval.shape
        buffer = len(self.buffers) + k
        return [
            Store(buffer, flatten((self.step, *point), whole), body.at(result, point))
            for _, point in self._points_of(shape)
        ]

    def _updated(self, body: Values) -> list[Store]:
        """The stores of the elements that a step updates, in order."""
        stores = []
        for k, scatter in self.updates.items():
            index_map, updates = scatter.params["map"], scatter.invars[1]
            how = scatter.primitive.reduction(updates.aval, **scatter.params)  # type: ignore[attr-defined]
            combine = None if scatter.params["op"] == "set" else how
            for index in itertools.product(*map(range, index_map.domain)):
                point = tuple(map(as_expr, index))
                exprs, guard = body.image(index_map, point, scatter.invars[2:], None)
                value = body.at(updates, point, guard)
                place, offset = self._place(exprs, scatter.outvars[0].aval)
                buffer = len(self.buffers) + k
                stores.append(Store(buffer, place, value, offset, guard, combine, frozenset()))
        return stores

    def _last(self, k: int, stage: Stage) -> list[Store]:
        """The stores of the last carry."""
        if k in self.updates:
            return []
        aval = self.eqn.outvars[k].aval
        buffer = len(self.buffers) + k
        results = {carry.acc: carry.result for carry in stage.carries}
        b = self.builder
        return [
            Store(
                buffer,
                flatten(point, aval.shape),
                b.whole(tuple([results[x] for x in b.parts(self._carry(k, index, aval))])),
            )
            for index, point in self._points_of(aval.shape)
        ]

    # ---- checks -------------------------------------------------------------------------------

    def _is_batched(self, root: Scalar) -> bool:
        """Whether a value differs from point to point."""
        seen: set[int] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if node.op == "load" and any(d < len(self.batch) for d in node.attr[1].used_dims()):
                return True
            if node.op == "dim" and node.attr < len(self.batch):
                return True
            if node.op == "acc" and node.attr[2]:
                return True
            stack.extend(node.args)
        return False

    def _keeps_scalars(self, stage: Stage) -> bool:
        """Whether what all points carry together does not depend on the points."""
        scalars = [carry for carry in stage.carries if not carry.acc.attr[2]]
        return not any(self._is_batched(carry.new) for carry in scalars)


def _is_affine(address: Any) -> bool:
    return all(isinstance(atom, Dim) for atom, _ in address.terms)
