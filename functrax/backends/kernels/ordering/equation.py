"""An equation of ``sort`` or ``top_k``: its arrays, those between its kernels, and the kernels.

Start at :class:`Equation`; :class:`KernelWriter` writes what one kernel reads and stores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from functrax.backends.kernels.ir import (
    Digits,
    Kernel,
    LoopStage,
    Operand,
    Reduce,
    Sorting,
    Store,
    load,
)
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import ordering
from functrax.core.prims.lowered_reductions import Fold
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Builder, Scalar

INDEX: Final = np.dtype(np.int64)
#: Of indices in a row, and of the positions that go along with keys.
WORD: Final = np.dtype(np.uint32)
BOOL: Final = np.dtype(np.bool_)
SUM: Final = Fold("add", WORD, WORD, 0)
#: The dims of a kernel: axes before the one that is sorted along, and those after it.
BEFORE, AFTER = Dim(0), Dim(1)


@record
class OrderingKernels:
    """The kernels of an equation.

    Args:
      kernels: what runs, in order.
      arrays: for each the numbers of the arrays that it reads and writes: operands of the equation,
        its results, then temporaries.
      temporaries: arrays between the kernels.
    """

    kernels: Sequence[Kernel]
    arrays: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    temporaries: tuple[Operand, ...]


@record
class RowLayout:
    """How rows lie in arrays.

    Args:
      length: elements of a row.
      strided: whether the axes after the sorted one come after it in memory, too; else all rows
        are contiguous.
    """

    length: int
    strided: bool


class Equation:
    """A ``sort`` or ``top_k``, and the kernels that it has so far.

    Attributes:
      arrays: operands, results, and what is between kernels.
      length: elements of a row.
      kept: how many of them are in the results, the first ones.
      before: the product of the axes before the one that is sorted along.
      after: the product of those after it.
      outputs: the numbers of the results.
      others: the numbers of the operands that are no keys.
      moves_position: whether the results depend on where elements were.
    """

    def __init__(self, eqn: Eqn) -> None:
        params = eqn.params
        self.name = eqn.primitive.name
        self.is_top = eqn.primitive is ordering.top_k
        self.num_keys = 1 if self.is_top else params["num_keys"]
        axis = params["axis" if self.is_top else "dimension"]
        shape = eqn.invars[0].aval.shape
        self.length = shape[axis]
        self.kept = params["k"] if self.is_top else self.length
        self.before, self.after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        self.arrays = [
            Operand(v.aval.dtype, v.aval.size, n >= len(eqn.invars))
            for n, v in enumerate((*eqn.invars, *eqn.outvars))
        ]
        self.outputs = tuple(range(len(eqn.invars), len(self.arrays)))
        self.known = len(self.arrays)
        self.others = () if self.is_top else tuple(range(self.num_keys, len(eqn.invars)))
        self.moves_position = self.is_top or bool(self.others)
        #: How the operands and the results lie.
        self.given, self.wanted = RowLayout(self.length, True), RowLayout(self.kept, True)
        self._kernels: list[Kernel] = []
        self._taken: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    @property
    def waves(self) -> float:
        """How many elements each of the threads has that keep a GPU busy; at least one."""
        elements: int = self.before * self.after * self.length
        return max(elements / target().busy_threads, 1.0)

    def temporary(self, dtype: np.dtype[np.generic], length: int) -> int:
        """The number of a new array, which has so many elements for each row."""
        self.arrays.append(Operand(dtype, self.before * self.after * length, True))
        return len(self.arrays) - 1

    def address(self, rows: RowLayout) -> tuple[IndexExpr, int]:
        """Where a row begins, and how far apart its elements are."""
        if rows.strided and self.after > 1:
            return BEFORE * (rows.length * self.after) + AFTER, self.after
        return (BEFORE * self.after + AFTER) * rows.length, 1

    def add(
        self,
        w: KernelWriter,
        extents: Sequence[int],
        stages: list[LoopStage],
        stores: list[Store],
        sorting: Sorting | Digits | None = None,
    ) -> None:
        """One kernel more.

        Args:
          w: that wrote it.
          extents: of its dims after the first two; if it has stages, the last one is the inner one.
          stages: what it does along that.
          stores: what follows.
          sorting: how groups of threads do it.
        """
        extents = (self.before, self.after, *extents)
        dims = tuple(range(len(extents)))
        outer = dims[:-1] if stages else dims
        operands = [Operand(x.dtype, x.size, n >= len(w.reads)) for n, x in enumerate(w.operands)]
        kernel = Kernel(
            self.name, w.b, operands, extents, outer, dims[len(outer) :], stages, stores,
            sorting=sorting,
        )  # fmt: skip
        self._kernels.append(kernel)
        self._taken.append((tuple(w.reads), tuple(w.writes)))

    def lowered(self) -> OrderingKernels:
        """All kernels."""
        return OrderingKernels(self._kernels, self._taken, tuple(self.arrays[self.known :]))


class KernelWriter:
    """Writes the reads and stores of one kernel.

    Args:
      of: the equation.
      reads: the numbers of the arrays that it reads.
      writes: the numbers of those that it writes.
    """

    def __init__(self, of: Equation, reads: Sequence[int], writes: Sequence[int]) -> None:
        self.of, self.reads, self.writes = of, reads, writes
        self.b = Builder()
        self.operands = [of.arrays[n] for n in (*reads, *writes)]

    # ---- indices ---------------------------------------------------------------------------------

    def size(self, value: int) -> Scalar:
        """A number that depends on sizes."""
        return self.b.node("int", WORD, (), value)

    def word(self, index: IndexExpr) -> Scalar:
        """An index in a row."""
        b, found = self.b, self.b.const(index.const, WORD)
        for atom, coef in index.terms:
            assert isinstance(atom, Dim)
            term = b.convert(b.node("dim", INDEX, (), atom.number), WORD)
            term = term if coef == 1 else b.mul(term, b.const(coef, WORD))
            found = term if found.is_constant and not found.attr else b.add(found, term)
        return found

    def inside(self, element: IndexExpr, length: int, piece: int) -> Scalar:
        """Whether there is such an element of a row that is cut into pieces."""
        if not length % piece:
            return self.b.const(True, BOOL)
        return self.b.compare("lt", self.word(element), self.size(length))

    def counted(self, holds: Scalar) -> tuple[Reduce, Scalar]:
        """How often a bool holds: the reduction, and its result."""
        b = self.b
        value = b.select(holds, b.const(1, WORD), b.const(0, WORD))
        acc = b.node("acc", WORD, (), ("rank", 0))
        count = b.node("result", WORD, (), ("rank", 0))
        return Reduce(SUM, (value,), (acc,), (count,)), count

    # ---- memory ----------------------------------------------------------------------------------

    def _offset(self, index: Scalar | None, stride: int) -> Scalar | None:
        if index is None:
            return None
        b, found = self.b, self.b.convert(index, INDEX)
        return found if stride == 1 else b.mul(found, b.node("int", INDEX, (), stride))

    def read(
        self,
        number: int,
        rows: RowLayout,
        element: IndexExpr,
        index: Scalar | None,
        inside: Scalar,
    ) -> Scalar:
        """What an array has at an element of a row: an affine index, and a further one."""
        begin, stride = self.of.address(rows)
        offset = self._offset(index, stride)
        return self.read_at(number, begin + element * stride, offset, _guard(inside))

    def read_at(
        self,
        number: int,
        address: IndexExpr,
        offset: Scalar | None = None,
        guard: Scalar | None = None,
    ) -> Scalar:
        """What an array has at an address, and a further offset."""
        buffer = self.reads.index(number)
        return load(self.b, self.operands[buffer].dtype, buffer, (address, offset), guard)

    def store(
        self,
        number: int,
        rows: RowLayout,
        value: Scalar,
        element: IndexExpr,
        index: Scalar | None,
        inside: Scalar,
    ) -> Store:
        """An element of a row is written, at an affine index and a further one."""
        begin, stride = self.of.address(rows)
        offset = self._offset(index, stride)
        stored = self.store_at(number, begin + element * stride, value)
        return replace(stored, offset=offset, guard=_guard(inside))

    def store_at(self, number: int, address: IndexExpr, value: Scalar) -> Store:
        """An element is written at an address."""
        return Store(len(self.reads) + self.writes.index(number), address, value)


def _guard(inside: Scalar) -> Scalar | None:
    """Where something is read or written; None for always."""
    return None if inside.is_constant else inside
