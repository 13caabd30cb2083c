"""A loop over small arrays as one kernel: its carry stays in registers, a row in each vector.

``scan`` and ``while`` whose steps look at neighbours (a rotation, a product with a matrix) cannot
be turned inside out as ``kernels/interchanged_loops.py`` does.  If the arrays of a step are small,
each row of them is a vector: a step is straight code, in which what moves elements is a permutation
of lanes.

What enters is an equation whose programs went through the pipeline.  What leaves is a kernel with
its schedule: one outer dim, the lanes, and one inner dim, the steps.

Start at :func:`lower_row_loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.backends.kernels.ir import Kernel, Store
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.kernels.small_arrays import (
    LANE,
    RowMemory,
    Rows,
    SmallArrays,
    refusal_of,
    row_lanes,
)
from functrax.backends.kernels.steps import (
    MOST_CARRIED,
    MOST_OPERATIONS,
    MOST_TERMS,
    LoopKernel,
    LoopLowering,
    Opened,
    carried_of,
    terms_of,
)
from functrax.backends.targets.facts import PORTABLE
from functrax.core.index.expr import as_expr
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.scalars.scalar import WORK, Scalar
from functrax.core.types.aval import ShapedArray


def lower_row_loop(eqn: Eqn, programs: Sequence[Opened], strict: bool) -> LoopKernel | Refusal:
    """The kernel of a ``scan`` or a ``while`` over small arrays.

    Args:
      eqn: the loop.
      programs: its body, and the condition of a ``while``: inputs, equations, results.
      strict: whether sums have to be added up in the order that other kernels have.

    Returns:
      The kernel; refused if an array is too large, or moves elements to where a step computes.
    """
    if strict and any(isinstance(e.primitive, ReindexReduce) for _, es, _ in programs for e in es):
        return Refusal("sums of small arrays have an order of their own")
    inside = [v for inputs, _, _ in programs for v in inputs]
    inside += [v for _, eqns, _ in programs for e in eqns for v in e.outvars]
    lanes = row_lanes([v.aval for v in inside])
    if lanes > MOST_CARRIED:
        return Refusal("rows that are too long for registers")
    if lanes < 2:
        return Refusal("a loop over numbers")
    if terms_of(programs) > MOST_TERMS * lanes:
        return Refusal("sums of too many terms to be written out")
    if sum(_rows(v.aval) for v in carried_of(eqn)) > MOST_CARRIED:
        return Refusal("too many rows are carried")
    for _, eqns, _ in programs:
        for refusal in map(refusal_of, eqns):
            if refusal is not None:
                return refusal
    return _RowLoop(eqn, programs, lanes).lowered()


class _RowLoop(LoopLowering):
    """Builds the kernel of one loop: dim 0 is the lanes.

    Leaves are the numbers of an array's elements, and scalars its rows.
    """

    def __init__(self, eqn: Eqn, programs: Sequence[Opened], lanes: int) -> None:
        super().__init__(eqn, programs, (lanes,), lanes=lanes)
        self.arrays = SmallArrays(self.builder, lanes)

    def _in_memory(self, x: Atom, aval: ShapedArray, of_step: bool) -> Any:
        if isinstance(x, Literal):
            return self.arrays.numbers(x, {})
        base = self.step * aval.size if of_step else as_expr(0)
        return self.arrays.add(RowMemory(aval, self.buffers[x], base))

    def _in_registers(self, k: int, aval: ShapedArray) -> Any:
        return self.arrays.add(Rows(aval, tuple(self._accs(k, aval))))

    def _accs(self, k: int, aval: ShapedArray) -> list[Scalar]:
        varies = bool(aval.shape)
        return [self.acc(k, (r,), aval.dtype, varies) for r in range(_rows(aval))]

    def _run(
        self, eqns: Sequence[Eqn], leaves: dict[Atom, Any]
    ) -> tuple[Callable[[Atom], Any], list[Store]]:
        self.arrays.run(eqns, leaves)
        return (lambda x: self.arrays.numbers(x, leaves)), []

    def _scalars(self, leaf: Any, aval: ShapedArray) -> list[Scalar]:
        return self.arrays.rows(leaf)

    def _stores(
        self, k: int, aval: ShapedArray, scalars: Sequence[Scalar], of_step: bool
    ) -> list[Store]:
        base = self.step * aval.size if of_step else as_expr(0)
        buffer = len(self.buffers) + k
        n = aval.shape[-1] if aval.shape else 1
        if n == 1:
            return [
                Store(buffer, base + r, self.arrays.lane(x, 0) if aval.shape else x)
                for r, x in enumerate(scalars)
            ]
        inside = self.arrays.valid(n)
        return [Store(buffer, base + r * n + LANE, x, guard=inside) for r, x in enumerate(scalars)]

    def _refusal(self, kernel: Kernel) -> Refusal | None:
        vectors = _vectors_of_operations(kernel)
        return Refusal("too many operations in a step") if vectors > MOST_OPERATIONS else None


def _rows(aval: ShapedArray) -> int:
    size = aval.size
    return size // aval.shape[-1] if aval.shape else 1


def _vectors_of_operations(kernel: Kernel) -> int:
    """About how many instructions a step is: operations of full registers, functions being calls.

    Registers are those of :data:`PORTABLE`, so that every machine makes the same kernels.
    """
    nodes = [node for node in kernel.nodes() if node.args or node.op == "load"]
    sizes = [node.dtype.itemsize * kernel.lanes for node in nodes]
    vectors = [-(-size // PORTABLE.vector_bytes) for size in sizes]
    return sum([n * WORK.get(node.op, 1) for n, node in zip(vectors, nodes, strict=True)])
