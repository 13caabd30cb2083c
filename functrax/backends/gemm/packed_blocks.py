"""Large products block by block, so that what is packed of their sides takes little memory.

A side that is packed as a whole is as large as the side.  Where that is more than a tenth of what
the product reads and writes, the product becomes *blocks*, which run one after the other and pack
into the same memory:

    for blocks of batch dims:
        for blocks of steps:
            pack the smaller side
            for blocks of the larger side's own dim:
                pack the larger side; add up products

Each is an ordinary contraction with smaller extents, whose arrays begin further on.  So blocks of
one size are one kernel, launched with other addresses, and nothing is packed twice.

Blocks of steps are those of the plan, which are added up in the same order whether they are kernels
or loops of one: results have the same bits.  Between them the sums wait where a result will be.

Start at :func:`in_blocks`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from functrax.backends.gemm.blocking import Plan
from functrax.backends.gemm.packing import UNITS, staged
from functrax.backends.kernels.accesses import accesses, coefficient
from functrax.backends.kernels.ir import Kernel, Store, load, ordered
from functrax.backends.kernels.merge import Rewriting
from functrax.backends.targets import Target
from functrax.core.index.expr import IndexExpr
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Scalar
from functrax.core.types.symbolic_sizes import decided

#: What is packed takes at most one part of so many of a product's operands and results.
PART: Final = 10


@record
class Launched:
    """A kernel, and where its arrays begin.

    Args:
      kernel: which.
      begins: of arrays, by their numbers, the element that is the first one for the kernel; 0 of
        all others.
    """

    kernel: Kernel
    begins: tuple[tuple[int, int], ...] = ()


class _Packed(NamedTuple):
    """A side that is packed: the dims that it depends on, and its own with the size of a tile."""

    dims: frozenset[int]
    own: int
    tile: int
    itemsize: int

    def tiles(self, extents: Sequence[int]) -> int:
        """How many tiles there are along its own dim."""
        return -(-extents[self.own] // self.tile)

    def nbytes(self, extents: Sequence[int]) -> int:
        """What it takes."""
        others = [extents[d] for d in self.dims if d != self.own]
        return math.prod(others) * self.tiles(extents) * self.tile * self.itemsize


def in_blocks(kernel: Kernel, plan: Plan, target: Target) -> list[Launched] | None:
    """The kernels of a contraction in blocks; None where it is not large, or has no such blocks.

    Args:
      kernel: the contraction, without a schedule.
      plan: how it is computed.
      target: what it runs on.
    """
    sizes = plan.height, plan.width * plan.lanes
    packed = [
        _Packed(side.dims, dim, size, side.value.dtype.itemsize)
        for side, dim, size, way in zip(
            (plan.left, plan.right), (plan.rows, plan.columns), sizes, plan.ways, strict=True
        )
        if way == "packed"
    ]
    if not packed or not set(plan.ways) <= {"in place", "packed"}:
        return None
    if plan.ns < 2 * target.wake_ns * UNITS**2:
        return None  # two blocks have too little to do
    large = max(packed, key=lambda side: side.nbytes(kernel.extents))
    counts = _chosen(kernel, plan, packed, large, target)
    if counts is None:
        return None
    return list(_Blocks(kernel, plan, target, packed, counts, large).launches())


# ---- which blocks -------------------------------------------------------------------------------


def _chosen(
    kernel: Kernel, plan: Plan, packed: Sequence[_Packed], large: _Packed, target: Target
) -> dict[int, int] | None:
    """How many blocks there are along dims, outermost first."""
    extents, nbytes = kernel.extents, [side.nbytes(kernel.extents) for side in packed]
    both = plan.left.dims & plan.right.dims
    batch = [d for d in kernel.outer if d in both and _movable(kernel, plan, d)]
    steps = []
    if plan.block is not None and plan.block[0] == kernel.inner[0]:
        if _waiting(kernel) is not None and _movable(kernel, plan, plan.block[0]):
            steps.append(plan.block[0])
    own = [large.own] if _movable(kernel, plan, large.own) else []
    found = decided(
        _counts,
        sum([x.size * x.dtype.itemsize for x in kernel.operands]) // PART,
        tuple([extents[d] for d in batch]),
        -(-extents[steps[0]] // plan.block[1]) if steps and plan.block else 1,
        large.tiles(extents) if own else 1,
        sum(nbytes) - large.nbytes(extents),
        large.nbytes(extents),
        plan.ns,
        target.wake_ns * UNITS**2,
    )
    if found is None:
        return None
    of_batch, of_steps, of_own = found
    counts = dict(zip(batch, of_batch, strict=True))
    counts.update(dict.fromkeys(steps, of_steps))
    counts.update(dict.fromkeys(own, of_own))
    return counts


def _counts(
    most: int,
    batch: tuple[int, ...],
    steps: int,
    tiles: int,
    small: int,
    large: int,
    ns: float,
    least: float,
) -> tuple[tuple[int, ...], int, int] | None:
    """How many blocks there are: along batch dims, of steps, and along the larger side's own dim.

    The fewest that keep to the memory; None if there are none, or none are needed.

    Args:
      most: bytes that may be packed.
      batch: the extents of batch dims.
      steps: how many blocks of steps there are.
      tiles: how many tiles there are along the larger side's own dim.
      small: bytes of the smaller side, which is packed as a whole for each block of steps; 0 if
        one side alone is packed.
      large: bytes of the larger side.
      ns: nanoseconds that the whole takes on one thread.
      least: what a block takes that threads share well.
    """
    if small + large <= most:
        return None
    most -= most // 8  # which is lost where memory comes in eight sizes an octave
    counts = []
    for n in batch:
        each = max(1, min(n, n * most // (small + large)))
        counts.append(-(-n // each))
        small, large = -(-small * each // n), -(-large * each // n)
    for blocks in (1, steps):
        room = most - -(-small // blocks)
        each = min(tiles, tiles * room * blocks // large)
        if each >= 1 and math.prod(counts) * blocks * -(-tiles // each) * least <= ns:
            return tuple(counts), blocks, -(-tiles // each)
    return None


def _movable(kernel: Kernel, plan: Plan, d: int) -> bool:
    """Whether blocks along a dim differ in nothing but where arrays begin."""
    results = [x for store in kernel.rows for x in store.values]
    stored = [(store.buffer, store.address) for store in kernel.rows]
    parts: list[tuple[list[Scalar], list[tuple[int, IndexExpr]]]] = [(results, stored)]
    for side, way in zip((plan.left, plan.right), plan.ways, strict=True):
        if way == "in place":
            results.append(side.value)
        else:
            parts.append(([side.value], []))
    for values, places in parts:
        steps: dict[int, int] = {}
        for node in ordered(values):
            if node.op == "dim" and node.attr == d:
                return False
            if node.op == "load":
                places.append(node.attr[:2])
        for buffer, address in places:
            if kernel.operands[buffer].alias is not None:
                return False
            step = coefficient(address, d)
            if steps.setdefault(buffer, step) != step:
                return False
    return True


def _waiting(kernel: Kernel) -> Store | None:
    """The store of a result where sums can wait between blocks of steps, if there is one."""
    (reduction,) = kernel.stages[0].reductions
    for store in kernel.rows:
        plain = store.offset is None and store.guard is None and store.combine is None
        if plain and kernel.operands[store.buffer].dtype == reduction.how.carries[0]:
            return store
    return None


# ---- their kernels ------------------------------------------------------------------------------


class _Blocks:
    """Makes the kernels of blocks, each once.

    Args:
      kernel: the contraction.
      plan: how it is computed.
      target: what it runs on.
      packed: the sides that are packed, as kernels pack them.
      counts: how many blocks there are along dims, outermost first.
      own: the side whose own dim is in blocks.
    """

    def __init__(
        self,
        kernel: Kernel,
        plan: Plan,
        target: Target,
        packed: Sequence[_Packed],
        counts: dict[int, int],
        own: _Packed,
    ) -> None:
        self.kernel, self.target, self.packed, self.counts = kernel, target, packed, counts
        self.steps = next((d for d in kernel.inner if counts.get(d, 1) > 1), None)
        self.sizes = {}
        for d, count in counts.items():
            tile = own.tile if d == own.own else 1
            self.sizes[d] = -(-kernel.extents[d] // (count * tile)) * tile
        if self.steps is not None:
            assert plan.block is not None
            self.sizes[self.steps] = plan.block[1]
        count = math.prod(counts.values())
        block = plan.block if self.steps is None else None
        self.plan = replace(plan, block=block, ns=plan.ns / count, cost=plan.cost / count)
        self.known: dict[Hashable, Kernel] = {}
        first = dict.fromkeys(counts, 0)
        #: With those that are packed into, as large as the largest blocks need.
        self.arrays = [x for x in self._staged(first)[-1].operands if not x.scratch]

    def launches(self) -> Iterator[Launched]:
        """All kernels, in order."""
        last: dict[int, tuple[int, ...]] = {}  # the block that is packed, by the side's own dim
        for numbers in itertools.product(*[range(n) for n in self.counts.values()]):
            at = dict(zip(self.counts, numbers, strict=True))
            *packs, main = self._kernels(at)
            for side, kernel in zip(self.packed, packs, strict=True):
                block = tuple([n for d, n in at.items() if d in side.dims])
                if last.get(side.own) != block:
                    last[side.own] = block
                    yield self._launched(kernel, at)
            yield self._launched(main, at)

    def _launched(self, kernel: Kernel, at: dict[int, int]) -> Launched:
        begins = {}
        for address, buffer, _ in accesses(kernel):
            steps = [coefficient(address, d) * n * self.sizes[d] for d, n in at.items() if n]
            if buffer < len(self.kernel.operands) and any(steps):
                begins[buffer] = sum(steps)
        return Launched(kernel, tuple(begins.items()))

    def _kernels(self, at: dict[int, int]) -> list[Kernel]:
        """The kernels of a block: what packs the sides, and what adds up products."""
        ends = {d: n + 1 == self.counts[d] for d, n in at.items()}
        step = None if self.steps is None else min(at[self.steps], 1)
        keys: list[Hashable] = [
            (side, *[ends[d] for d in ends if d in side.dims]) for side in self.packed
        ]
        keys.append((step, *ends.values()))
        if any(key not in self.known for key in keys):
            for key, kernel in zip(keys, self._staged(at), strict=True):
                self.known.setdefault(key, self._with_arrays(kernel))
        return [self.known[key] for key in keys]

    def _with_arrays(self, kernel: Kernel) -> Kernel:
        scratch = [x for x in kernel.operands if x.scratch]
        return replace(kernel, operands=[*self.arrays, *scratch])

    def _staged(self, at: dict[int, int]) -> list[Kernel]:
        extents = list(self.kernel.extents)
        for d, n in at.items():
            rest = extents[d] - n * self.sizes[d]
            extents[d] = rest if n + 1 == self.counts[d] else self.sizes[d]
        part = replace(self.kernel, extents=tuple(extents), rows=self._rows(at))
        return staged(part, self.plan, self.target)

    def _rows(self, at: dict[int, int]) -> list[Store]:
        """What follows the sums of a block: they wait, and are added to those before."""
        kernel, b = self.kernel, self.kernel.builder
        if self.steps is None:
            return kernel.rows
        store = _waiting(kernel)
        assert store is not None
        (reduction,) = kernel.stages[0].reductions
        (total,) = reduction.results
        if at[self.steps]:
            before = load(b, total.dtype, store.buffer, (store.address, None))
            total = b.add(before, total)
        if at[self.steps] + 1 < self.counts[self.steps]:
            return [replace(store, value=total)]
        added = Rewriting(b, {d: d for d in range(len(kernel.extents))})
        added.new[id(reduction.results[0])] = total
        others = [x for x in kernel.rows if x is not store]
        return [added.store(x) for x in (*others, store)]  # which overwrites the sums
