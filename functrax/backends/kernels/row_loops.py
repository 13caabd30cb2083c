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

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from functrax.backends.kernels.ir import Carry, Kernel, Operand, Stage, Store
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.kernels.refusal import Refusal, answered
from functrax.backends.kernels.small_arrays import (
    LANE,
    Memory,
    Rows,
    SmallArrays,
    refusal_of,
    row_lanes,
)
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.ir.jaxpr import Atom, Eqn, Literal, Var
from functrax.core.prims.control import Loop, ScanLoop
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.scalars.scalar import WORK, Builder, Scalar
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: The most lanes of a row, the most rows that are carried, and the most instructions of a step, in
#: vectors of 64 bytes.
MOST_LANES, MOST_CARRIED, MOST_INSTRUCTIONS = 64, 24, 1500
#: What a function of ``MATH`` counts for.
MATH_INSTRUCTIONS: Final = 30
#: Functions that are used more often are called.
FEW_CALLS: Final = 6
VECTOR_BYTES: Final = 64


def lower_row_loop(
    eqn: Eqn, programs: Sequence[tuple[list[Var], list[Eqn], list[Atom]]], strict: bool
) -> Kernel | Refusal:
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
    if lanes > MOST_LANES:
        return Refusal("rows that are too long for registers")
    if lanes < 2:
        return Refusal("a loop over numbers")
    assert isinstance(eqn.primitive, Loop)
    carried = eqn.outvars[: eqn.primitive.num_carry(eqn)]
    if sum(_rows(v.aval) for v in carried) > MOST_CARRIED:
        return Refusal("too many rows are carried")
    for _, eqns, _ in programs:
        for refusal in map(refusal_of, eqns):
            if refusal is not None:
                return refusal
    kernel = answered(_RowLoop(eqn, programs, lanes).kernel)
    if isinstance(kernel, Kernel) and _instructions(kernel) > MOST_INSTRUCTIONS:
        return Refusal("too many operations in a step")
    return kernel


class _RowLoop:
    """Builds the kernel of one loop."""

    def __init__(
        self, eqn: Eqn, programs: Sequence[tuple[list[Var], list[Eqn], list[Atom]]], lanes: int
    ) -> None:
        self.eqn, self.programs = eqn, programs
        self.is_scan = isinstance(eqn.primitive, ScanLoop)
        self.length = eqn.params["length"] if self.is_scan else 1
        step: IndexExpr = Dim(1) if self.length > 1 else as_expr(0)
        self.step = self.length - 1 - step if eqn.params.get("reverse") else step
        self.buffers: dict[Var, int] = {}
        for x in eqn.invars:
            if isinstance(x, Var):
                self.buffers.setdefault(x, len(self.buffers))
        self.builder = Builder()
        self.lanes = lanes
        self.arrays = SmallArrays(self.builder, self.lanes)

    def kernel(self) -> Kernel:
        """One stage that runs all steps, and stores of the last carry."""
        stage = self._scan() if self.is_scan else self._while()
        rows = []
        position = 0
        for k, v in enumerate(self.eqn.outvars[: self.num_carry]):
            parts = len(dtypes.parts_of(v.aval.dtype))
            count = parts * _rows(v.aval)
            results = [c.result for c in stage.carries[position : position + count]]
            wholes = [tuple(results[n : n + parts]) for n in range(0, count, parts)]
            rows += self._stores(k, as_expr(0), v.aval, list(map(self.builder.whole, wholes)))
            position += count
        operands = [Operand(v.aval.dtype, v.aval.size, False) for v in self.buffers]
        operands += [Operand(v.aval.dtype, v.aval.size, True) for v in self.eqn.outvars]
        return Kernel(
            self.eqn.primitive.name,
            self.builder,
            operands,
            (self.lanes, self.length),
            (0,),
            (1,),
            [stage],
            rows,
            vector=0,
            lanes=self.lanes,
        )

    def _scan(self) -> Stage:
        params = self.eqn.params
        first = params["num_consts"]
        second = first + params["num_carry"]
        self.num_carry = second - first
        ((inputs, eqns, results),) = self.programs
        env = self._leaves(inputs, self.eqn.invars[:first], first, second)
        for v, x in zip(inputs[second:], self.eqn.invars[second:], strict=True):
            env[v] = self._memory(x, v.aval, self.step * v.aval.size)
        self.arrays.run(eqns, env)
        stage = Stage(carries=self._carries(self.eqn.invars[first:second], results, env))
        for k, x in enumerate(results[self.num_carry :], self.num_carry):
            values = self.arrays.rows(self.arrays.numbers(x, env))
            stage.stores += self._stores(k, self.step * x.aval.size, x.aval, values)
        return stage

    def _while(self) -> Stage:
        params, operands = self.eqn.params, self.eqn.invars
        first = params["cond_consts"]
        second = first + params["body_consts"]
        self.num_carry = len(operands) - second
        (inputs, eqns, results), (tested, tests, (holds,)) = self.programs
        env = self._leaves(inputs, operands[first:second], second - first, len(inputs))
        self.arrays.run(eqns, env)
        carries = self._carries(operands[second:], results, env)
        env = self._leaves(tested, operands[:first], first, len(tested))
        self.arrays.run(tests, env)
        (condition,) = self.arrays.rows(self.arrays.numbers(holds, env))
        return Stage(carries=carries, condition=condition)

    def _leaves(
        self, inputs: Sequence[Var], consts: Sequence[Atom], first: int, second: int
    ) -> dict[Atom, Any]:
        """What a program reads: constants, then the carry from input ``first`` to ``second``."""
        env: dict[Atom, Any] = {}
        for v, x in zip(inputs, consts):
            env[v] = self._memory(x, v.aval, as_expr(0))
        for k, v in enumerate(inputs[first:second]):
            env[v] = self.arrays.add(Rows(v.aval, tuple(self._accs(k, v.aval))))
        return env

    def _accs(self, k: int, aval: ShapedArray) -> list[Scalar]:
        b, batched = self.builder, bool(aval.shape)
        parts = list(enumerate(dtypes.parts_of(aval.dtype)))
        return [
            b.whole(tuple([b.node("acc", d, (), (k, (r,), batched, n)) for n, d in parts]))
            for r in range(_rows(aval))
        ]

    def _memory(self, x: Atom, aval: ShapedArray, base: IndexExpr) -> Any:
        if isinstance(x, Literal):
            return self.arrays.numbers(x, {})
        return self.arrays.add(Memory(aval, self.buffers[x], base))

    def _carries(
        self, initial: Sequence[Atom], results: Sequence[Atom], env: dict[Atom, Any]
    ) -> list[Carry]:
        out = []
        for k, (x, result) in enumerate(zip(initial, results)):
            first = self.arrays.rows(self._memory(x, x.aval, as_expr(0)))
            new = self.arrays.rows(self.arrays.numbers(result, env))
            for values in zip(first, self._accs(k, x.aval), new, strict=True):
                for start, acc, value in zip(*map(self.builder.parts, values), strict=True):
                    last = self.builder.node("result", acc.dtype, (), acc.attr)
                    out.append(Carry(start, acc, value, last))
        return out

    def _stores(
        self, k: int, base: IndexExpr, aval: ShapedArray, values: Sequence[Scalar]
    ) -> list[Store]:
        """The stores of an array, row by row, to a place in a result."""
        buffer = len(self.buffers) + k
        n = aval.shape[-1] if aval.shape else 1
        if n == 1:
            return [
                Store(buffer, base + r, self.arrays.lane(x, 0) if aval.shape else x)
                for r, x in enumerate(values)
            ]
        inside = self.arrays.valid(n)
        return [Store(buffer, base + r * n + LANE, x, guard=inside) for r, x in enumerate(values)]


def _rows(aval: ShapedArray) -> int:
    size = aval.size
    return size // aval.shape[-1] if aval.shape else 1


def _instructions(kernel: Kernel) -> int:
    """About how many instructions a step is."""
    total = 0
    nodes = kernel.nodes()
    often = Counter(node.op for node in nodes)
    for node in nodes:
        if node.args or node.op == "load":
            vectors = -(-node.dtype.itemsize * kernel.lanes // VECTOR_BYTES)
            written_out = node.op in EXPANSIONS and often[node.op] <= FEW_CALLS
            total += vectors * (MATH_INSTRUCTIONS if written_out else WORK.get(node.op, 1))
    return total
