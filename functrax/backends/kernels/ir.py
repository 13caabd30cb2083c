"""The loop IR: what a kernel computes, and the loops that it runs in.

A :class:`Kernel` has loops over *dims*.  Its ``outer`` loops are independent of one another; inside
them run its :class:`LoopStage` s, one after the other, each of which runs the ``inner`` loops once:

    for outer dims:
        for stage in stages:
            for inner dims:              (a row: what is reduced)
                accumulate the stage's reductions; do the stage's stores
        do the row stores

A kernel without reductions has no inner loops and no stages, and all its stores are row stores.
Softmax has three stages: the maximum, the sum that uses it, the quotient that uses both.

One dim may be the *vector* dim, the innermost one of the outer or of the inner loops: ``lanes``
neighbouring points of it are computed at once.  What is computed are the scalar expressions of
``core/scalars/scalar.py``, with these leaves:

- ``load``: attr ``(buffer, address)``, where ``address`` is affine in the dims; operands: a further
  offset where the address is not affine (attr[2]), and a bool outside which the element is not
  read and the value is arbitrary (attr[3]);
- ``dim``: the index of a loop; ``int``: an integer that depends on sizes (a run-time argument);
  ``given``: a float that is one too, by its bits;
- ``acc``, ``result``: a reduction while it runs, and its value afterwards; ``tail``: whether a
  lane is inside the extent of the vector dim.

Start at :class:`Kernel`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from functrax.backends.kernels.tiling import Tiling
from functrax.core.index.expr import IndexExpr
from functrax.core.prims.lowered_reductions import Reduction
from functrax.core.records import field, record
from functrax.core.scalars.scalar import WORK, Builder, Scalar


@record
class Operand:
    """An array that a kernel reads or writes.

    Args:
      dtype: of its elements.
      size: how many there are.
      written: whether the kernel writes it.
      scratch: whether it is memory of the kernel's own, for one row.
      shared: whether it is memory that the threads of a group share, while they do one unit.
      alias: the number of the operand whose bytes it is, read as another dtype; or None.
    """

    dtype: np.dtype[Any]
    size: int
    written: bool
    scratch: bool = False
    alias: int | None = None
    shared: bool = False


@record
class Store:
    """Writes one element.

    Args:
      buffer: the number of the array.
      address: its place, affine in the dims.
      value: what is written.
      offset: added to the address where that is not affine.
      guard: a bool; nothing is written where it is false.
      combine: how the element is updated, or None to set it.
      independent: the dims along which a scatter never meets an element again; None for a store
        that writes every element once.
      streams: whether it goes past the caches, where it writes whole lines.
      atomic: whether several threads may update an element at once, in any order.
    """

    buffer: int
    address: IndexExpr
    value: Scalar
    offset: Scalar | None = None
    guard: Scalar | None = None
    combine: Reduction | None = None
    independent: frozenset[int] | None = None
    streams: bool = False
    atomic: bool = False

    @property
    def serial(self) -> bool:
        """Whether it may write an element more than once, so that the order matters."""
        return self.independent is not None

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The expressions that it needs."""
        return tuple([x for x in (self.value, self.offset, self.guard) if x is not None])


@record
class Reduce:
    """A reduction along the inner dims.

    Args:
      how: how elements are put together.
      values: what is accumulated at each point; two for ``argmax`` and ``argmin``.
      accs: the leaves that stand for the values accumulated so far.
      results: the leaves that stand for the values after the loops.
    """

    how: Reduction
    values: tuple[Scalar, ...]
    accs: tuple[Scalar, ...]
    results: tuple[Scalar, ...]


@record
class Carry:
    """A value that each step of the inner loop computes from that of the step before.

    Args:
      initial: its value before the first step.
      acc: the leaf that stands for it in a step; attr[2] says whether it differs between lanes.
      new: its value after the step.
      result: the leaf that stands for it after the last step.
    """

    initial: Scalar
    acc: Scalar
    new: Scalar
    result: Scalar


@record(frozen=False)
class LoopStage:
    """What one run of the inner loops does.

    Args:
      reductions: what is accumulated, in any order.
      stores: what is written at each point.
      carries: what goes from step to step, in order; such a stage has one inner dim.
      scan: how elements are put together, where all carries are running results of an associative
        operation: its values, the carries' leaves, and what the steps make of them.  Such a stage
        may go along the vector dim.
      condition: a bool, of what is carried; the steps end when it is false.  None for as many
        steps as the inner dim has points.
    """

    reductions: list[Reduce] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    condition: Scalar | None = None
    scan: Reduce | None = None

    @property
    def ordered(self) -> bool:
        """Whether its steps must be taken one after the other."""
        return bool(self.carries and self.scan is None) or any(
            store.serial for store in self.stores
        )


@record
class Done:
    """A rewrite that a kernel went through before it had a tree.

    Args:
      kind: its name.
      dims: it is about.
      size: of a block; None for others.
    """

    kind: str
    dims: tuple[int, ...]
    size: int | None = None

    def __str__(self) -> str:
        words = [self.kind, *[f"d{d}" for d in self.dims]]
        return " ".join([*words, str(self.size)] if self.size is not None else words)


@record
class Sorting:
    """How a group of threads sorts the rows of a kernel.

    Args:
      group: how many threads it has.
      rows: how many it sorts at once.
      kept: how many elements of each row are stored, the first ones.
    """

    group: int
    rows: int
    kept: int


@record
class Digits:
    """How a group of threads goes through tiles of the rows of a kernel by a digit of their keys.

    Args:
      group: how many threads it has.
      count: how many digits there are.
      sorts: whether tiles are sorted; else the elements with each digit are counted.
    """

    group: int
    count: int
    sorts: bool


@record(frozen=False)
class Kernel:
    """Loops and what they compute.

    Args:
      name: for people.
      builder: that made its expressions.
      operands: the arrays, in the order of the launch.
      extents: the size of each dim; at least 1.
      outer: the numbers of the outer dims, outermost first.
      inner: the numbers of the inner dims, outermost first.
      stages: what runs in the inner loops.
      rows: stores that follow the stages.
      vector: the dim whose neighbouring points are computed at once, or None.
      lanes: how many.
      in_lanes: whether its expressions are about all lanes of a vector at once (small arrays, whose
        rows are vectors), so that they mean nothing for a single point.
      block: the dim of which it does one block only, the block's size, and the outer dim that is
        the block's number; or None.
      fetches: whether it asks for what it reads in rows some lines before it reads them.
      rewrites: what was done to it so far.
      schedule: the rewrites of its tree.
      off: what its schedule shall not do (the option ``schedule_off``).
      tiling: the schedule of a contraction, in place of what is shared.
      sorting: how its rows are sorted, if its one reduction counts the elements that come before
        another one; how tiles are, if it counts those with a digit; or None.
    """

    name: str
    builder: Builder
    operands: list[Operand]
    extents: tuple[int, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    stages: list[LoopStage]
    rows: list[Store]
    vector: int | None = None
    lanes: int = 1
    in_lanes: bool = False
    block: tuple[int, int, int] | None = None
    fetches: bool = False
    rewrites: tuple[Done, ...] = ()
    schedule: tuple[Any, ...] = ()
    off: frozenset[str] = frozenset()
    tiling: Tiling | None = None
    sorting: Sorting | Digits | None = None
    #: Roots, and the nodes that they need.
    _sorted: tuple[tuple[Scalar, ...], list[Scalar]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def updated(self) -> frozenset[int]:
        """The arrays of which elements are written in the steps of a loop, maybe more than once."""
        return frozenset(s.buffer for stage in self.stages for s in stage.stores if s.serial)

    def stores(self) -> Iterator[Store]:
        """All stores."""
        for stage in self.stages:
            yield from stage.stores
        yield from self.rows

    def roots(self) -> Iterator[Scalar]:
        """The expressions that its stores and reductions need."""
        for stage in self.stages:
            for reduction in stage.reductions:
                yield from reduction.values
            for carry in stage.carries:
                yield from (carry.initial, carry.new)
            if stage.condition is not None:
                yield stage.condition
        for store in self.stores():
            yield from store.values

    def nodes(self) -> list[Scalar]:
        """All nodes, operands first; they are sorted again when others are needed."""
        roots = tuple(self.roots())
        if self._sorted is None or self._sorted[0] != roots:
            self._sorted = roots, ordered(roots)
        return self._sorted[1]

    @property
    def points(self) -> int:
        """How many points its loops have."""
        return math.prod([self.steps(d) for d in (*self.outer, *self.inner)])

    def steps(self, d: int) -> int:
        """How many steps the loop over a dim takes."""
        return self.block[1] if self.block is not None and d == self.block[0] else self.extents[d]

    @property
    def work(self) -> int:
        """How many operations and reads a point takes."""
        nodes = [node for node in self.nodes() if node.args or node.op == "load"]
        return sum([WORK.get(node.op, 1) for node in nodes])


def load(
    b: Builder,
    dtype: np.dtype[Any],
    buffer: int,
    place: tuple[IndexExpr, Scalar | None],
    guard: Scalar | None = None,
) -> Scalar:
    """What is read of an array: at an address and a further offset, where a bool holds."""
    address, offset = place
    args = tuple([x for x in (offset, guard) if x is not None])
    return b.node("load", dtype, args, (buffer, address, offset is not None, guard is not None))


def ordered(roots: Iterable[Scalar]) -> list[Scalar]:
    """The nodes that the roots need, each after its operands."""
    out: dict[Scalar, None] = {}
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in out:
                stack.pop()
                continue
            waiting = len(stack)
            for x in node.args[::-1]:
                if x not in out:
                    stack.append(x)
            if len(stack) == waiting:
                out[stack.pop()] = None
    return list(out)
