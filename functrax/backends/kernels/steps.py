"""Loops of steps as kernels: what all ways to lower them have in common.

What enters is a ``scan`` or a ``while`` whose programs went through the pipeline.  :func:`opened`
writes their groups as what they hold, or says why an equation can be in no step of a kernel.
:class:`LoopLowering` makes one stage of the steps, which hands the carry from one to the next, and
stores of the last carry.  What a value of a step is, its subclasses say: scalars
(``kernels/interchanged_loops.py``), or rows of lanes (``kernels/row_loops.py``).

Start at :class:`LoopLowering`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Carry, Kernel, LoopStage, Operand, Store
from functrax.backends.kernels.refusal import Refusal, answered
from functrax.backends.kernels.values import is_update
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var, all_eqns
from functrax.core.prims.control import Grouping, LoopPrimitive
from functrax.core.prims.identity import OptimizationBarrier
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindexing
from functrax.core.records import record
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: The inputs, equations and results of a program.
Opened: TypeAlias = tuple[list[Var], list[Eqn], list[Atom]]

#: The most scalars or rows that are carried, and the most lanes of a row.
MOST_CARRIED = 64
#: The most operations of a step that are written out: LLVM compiles a long block in more than
#: proportional time.
MOST_OPERATIONS = 1500
#: The most elements of an array in memory that a step updates, and the most pieces that a row is
#: put together from.
FEW_ELEMENTS = 8
#: The most vectors of terms that the sums of a step have; of scalar terms, and of other scalar
#: operations, four times as many.  Longer products of matrices are kernels of their own.
MOST_TERMS = 64
NO_UPDATES: Final[Mapping[int, Eqn]] = {}


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


def variables(operands: Sequence[Atom]) -> tuple[Var, ...]:
    """Those that are no numbers, each once."""
    return tuple(dict.fromkeys(x for x in operands if isinstance(x, Var)))


def carried_of(eqn: Eqn) -> Sequence[Var]:
    """The results of a loop that are its last carry."""
    assert isinstance(eqn.primitive, LoopPrimitive)
    return eqn.outvars[: eqn.primitive.num_carry(eqn)]


def opened(jaxpr: Jaxpr) -> Opened | Refusal:
    """A program's inputs, equations and results, with groups replaced by what they hold.

    It is refused if an equation can be in no step.
    """
    for refusal in map(_refusal_of, all_eqns(jaxpr)):
        if refusal is not None:
            return refusal
    eqns: list[Eqn] = []

    def write(program: Jaxpr, operands: Sequence[Atom]) -> list[Atom]:
        env: dict[Atom, Atom] = dict(zip(program.invars, operands, strict=True))
        for eqn in program.eqns:
            invars = [env.get(x, x) for x in eqn.invars]
            if isinstance(eqn.primitive, Grouping):
                env.update(zip(eqn.outvars, write(eqn.params["jaxpr"], invars), strict=True))
                continue
            if isinstance(eqn.primitive, OptimizationBarrier):  # all are computed at once
                env.update(zip(eqn.outvars, invars, strict=True))
                continue
            outvars = [Var(v.aval) for v in eqn.outvars]
            eqns.append(Eqn(eqn.primitive, invars, outvars, eqn.params, eqn.source))
            env.update(zip(eqn.outvars, outvars, strict=True))
        return [env.get(x, x) for x in program.outvars]

    inputs = [Var(v.aval) for v in jaxpr.invars]
    return inputs, eqns, write(jaxpr, inputs)


def terms_of(programs: Sequence[Opened]) -> int:
    """How many terms the sums of a step have."""
    eqns = [e for _, eqns, _ in programs for e in eqns]
    sums = [e for e in eqns if isinstance(e.primitive, ReindexReduce) and not is_update(e)]
    return sum([e.invars[0].aval.size for e in sums])


def _refusal_of(eqn: Eqn) -> Refusal | None:
    """Why an equation can be in no step: no scalar expression, or it does something besides."""
    if isinstance(eqn.primitive, Grouping | OptimizationBarrier):
        return None
    if eqn.primitive.has_side_effects(dict(eqn.params)):
        return Refusal("a step has effects")
    if not isinstance(eqn.primitive, (Elementwise, Reindexing, ReindexReduce)):
        return Refusal(f"{eqn.primitive.name} inside a kernel")
    avals = tuple(x.aval for x in (*eqn.invars, *eqn.outvars))
    if not all(a.dtype in dtypes.ALL and a.size for a in avals):
        return Refusal("no numbers at all")
    operands = tuple(x.aval for x in eqn.invars)
    if isinstance(eqn.primitive, Elementwise):
        if not eqn.primitive.lowers(operands, dict(eqn.params)):
            return Refusal(f"{eqn.primitive.name} has no scalar expression")
    return None


class LoopLowering(ABC):
    """Builds the kernel of one loop.

    A subclass has a kind of *leaves*, which stand for arrays: what a program of the loop reads, and
    what its equations make of that.  A leaf is a list of scalar expressions.

    Args:
      eqn: the loop.
      programs: its body, and the condition of a ``while``.
      outer: the extents of the outer dims; the steps are the dim after these.
      updates: parts of the carry that stay in memory, by number, with the scatters that update
        them.
      lanes: how many points of the first dim are computed at once, if the lowering decides it.
    """

    def __init__(
        self,
        eqn: Eqn,
        programs: Sequence[Opened],
        outer: tuple[int, ...],
        updates: Mapping[int, Eqn] = NO_UPDATES,
        lanes: int = 1,
    ) -> None:
        self.eqn, self.programs, self.updates, self.lanes = eqn, programs, updates, lanes
        assert isinstance(eqn.primitive, LoopPrimitive)
        self.first = eqn.primitive.first_carried(eqn.params)
        self.carried = carried_of(eqn)
        self.builder = Builder()
        length = eqn.params.get("length", 1)
        self.extents = (*outer, length)
        step: IndexExpr = Dim(len(outer)) if length > 1 else as_expr(0)
        self.step = length - 1 - step if eqn.params.get("reverse") else step
        copied = {self.first + k: k for k in self.updates}
        self.copies = tuple((eqn.invars[n], k) for n, k in copied.items())
        read = [x for n, x in enumerate(eqn.invars) if n not in copied]
        self.buffers = {x: n for n, x in enumerate(variables(read))}

    def lowered(self) -> LoopKernel | Refusal:
        """The kernel, and what it takes."""
        copies = tuple((x, k) for x, k in self.copies if isinstance(x, Var))
        if copies != self.copies:
            return Refusal("a number is updated")
        kernel = answered(self._kernel)
        if isinstance(kernel, Refusal):
            return kernel
        return self._refusal(kernel) or LoopKernel(kernel, tuple(self.buffers), copies)

    # ---- what subclasses say ------------------------------------------------------------------

    @abstractmethod
    def _in_memory(self, x: Atom, aval: ShapedArray, of_step: bool) -> Any:
        """The leaf of an operand, or of the element of it that belongs to a step."""

    @abstractmethod
    def _in_registers(self, k: int, aval: ShapedArray) -> Any:
        """The leaf of the ``k``-th part of the carry."""

    @abstractmethod
    def _run(
        self, eqns: Sequence[Eqn], leaves: dict[Atom, Any]
    ) -> tuple[Callable[[Atom], Any], list[Store]]:
        """What gives the leaves of the values that equations make of others, and the stores of
        the elements in memory that they update, in order.
        """

    @abstractmethod
    def _scalars(self, leaf: Any, aval: ShapedArray) -> list[Scalar]:
        """The scalars of a leaf."""

    @abstractmethod
    def _stores(
        self, k: int, aval: ShapedArray, scalars: Sequence[Scalar], of_step: bool
    ) -> list[Store]:
        """The stores of scalars to the ``k``-th result, or to the element that a step gives."""

    @abstractmethod
    def _refusal(self, kernel: Kernel) -> Refusal | None:
        """Why the kernel is not used, if it is not."""

    # ---- the kernel ---------------------------------------------------------------------------

    def _kernel(self) -> Kernel:
        """One stage that runs all steps, and stores of the last carry."""
        stage = self._stage()
        results = {carry.acc: carry.result for carry in stage.carries}
        rows = []
        for k, v in enumerate(self.carried):
            if k not in self.updates:
                accs = map(self.builder.parts, self._accs(k, v.aval))
                last = [self.builder.whole(tuple([results[x] for x in parts])) for parts in accs]
                rows += self._stores(k, v.aval, last, False)
        operands = [Operand(v.aval.dtype, v.aval.size, False) for v in self.buffers]
        operands += [Operand(v.aval.dtype, v.aval.size, True) for v in self.eqn.outvars]
        inner = len(self.extents) - 1
        return Kernel(
            self.eqn.primitive.name,
            self.builder,
            operands,
            self.extents,
            tuple(range(inner)),
            (inner,),
            [stage],
            rows,
            vector=0 if self.lanes > 1 else None,
            lanes=self.lanes,
            in_lanes=self.lanes > 1,
        )

    def _stage(self) -> LoopStage:
        operands, count = self.eqn.invars, len(self.carried)
        initial, elements = operands[self.first :][:count], operands[self.first + count :]
        (inputs, eqns, results), *conditions = self.programs
        consts = len(inputs) - count - len(elements)
        leaves = self._leaves(inputs, operands[self.first - consts : self.first])
        for v, x in zip(inputs[consts + count :], elements, strict=True):
            leaves[v] = self._in_memory(x, v.aval, True)
        leaf_of, stores = self._run(eqns, leaves)
        carries = [
            carry
            for k, x in enumerate(initial)
            if k not in self.updates
            for carry in self._carries(k, x, self._scalars(leaf_of(results[k]), x.aval))
        ]
        for k, x in enumerate(results[count:], count):
            stores += self._stores(k, x.aval, self._scalars(leaf_of(x), x.aval), True)
        stage = LoopStage([], stores, carries)
        for inputs, eqns, (holds,) in conditions:
            leaves = self._leaves(inputs, operands[: len(inputs) - count])
            leaf_of, _ = self._run(eqns, leaves)
            (stage.condition,) = self._scalars(leaf_of(holds), holds.aval)
        return stage

    def _leaves(self, inputs: Sequence[Var], consts: Sequence[Atom]) -> dict[Atom, Any]:
        """What a program reads: constants, then the carry."""
        leaves: dict[Atom, Any] = {}
        for v, x in zip(inputs, consts):
            leaves[v] = self._in_memory(x, v.aval, False)
        for k, v in enumerate(inputs[len(consts) :][: len(self.carried)]):
            leaves[v] = self._in_registers(k, v.aval)
        return leaves

    def _accs(self, k: int, aval: ShapedArray) -> list[Scalar]:
        """The scalars of the ``k``-th part of the carry: leaves of its own."""
        return self._scalars(self._in_registers(k, aval), aval)

    def _carries(self, k: int, x: Atom, new: Sequence[Scalar]) -> list[Carry]:
        b, out = self.builder, []
        first = self._scalars(self._in_memory(x, x.aval, False), x.aval)
        for values in zip(first, self._accs(k, x.aval), new, strict=True):
            for start, acc, after in zip(*map(b.parts, values), strict=True):
                out.append(Carry(start, acc, after, b.node("result", acc.dtype, (), acc.attr)))
        return out

    def acc(self, k: int, index: tuple[int, ...], dtype: np.dtype[Any], varies: bool) -> Scalar:
        """The leaf of a scalar of the carry, which may differ between lanes."""
        b = self.builder
        parts = enumerate(dtypes.parts_of(dtype))
        return b.whole(tuple([b.node("acc", d, (), (k, index, varies, n)) for n, d in parts]))
