"""Running results of long rows, by threads: three kernels in place of one.

What enters is the kernel of one scan along its vector dim.  The first kernel reduces each block,
the second turns the blocks' results into what comes before each block, and the third does the scan
block by block, each from there.  Blocks follow from sizes alone, and so do the bits.

Start at :func:`scans`.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.ir import Carry, Done, Kernel, LoopStage, Reduce, Store
from functrax.backends.loops.rewrites.parallelize import Parallelize
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.strategies.parallel import share
from functrax.backends.loops.strategies.reduction_blocks import BLOCK, blocks_alone, in_blocks
from functrax.backends.loops.strategies.rows import ends_of_rows
from functrax.backends.targets import Target
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar


def scans(kernel: Kernel, target: Target) -> list[tuple[Kernel, list[Rewrite]]]:
    """A running result, in blocks if rows are few and long."""
    if "block" not in kernel.off and is_long(kernel):
        blocks, starts, last = three_kernels(kernel, BLOCK)
        each = [Parallelize(blocks.outer[0], 1)]
        return [
            (blocks, [*each, *ends_of_rows(blocks, each)]),
            (starts, []),
            (last, [*each, *ends_of_rows(last, each)]),
        ]
    units = share(kernel, target)
    return [(kernel, [*units, *ends_of_rows(kernel, units)])]


def is_long(kernel: Kernel) -> bool:
    """Whether rows are few and long, and lie in memory as they are gone through."""
    rows = math.prod(kernel.extents[d] for d in kernel.outer)
    (d,) = kernel.inner
    return kernel.vector == d and in_blocks(rows, kernel.extents[d])


def three_kernels(kernel: Kernel, grain: int) -> tuple[Kernel, Kernel, Kernel]:
    """The kernels of a running result in blocks.

    Two arrays for each number that is carried are appended to the operands.

    Args:
      kernel: one scan along its one inner dim.
      grain: the length of a block.
    """
    (stage,) = kernel.stages
    (d,) = kernel.inner
    scan = stage.scan
    assert scan is not None
    b, dtypes = kernel.builder, [v.dtype for v in scan.values]

    def leaves(op: str, key: str) -> tuple[Scalar, ...]:
        attrs = [(key, k, False) if op == "acc" else (key, k) for k in range(len(dtypes))]
        return tuple(b.node(op, t, (), a) for t, a in zip(dtypes, attrs, strict=True))

    totals = Reduce(scan.how, scan.values, leaves("acc", "block"), leaves("result", "block"))
    across = kernel.vector in kernel.outer
    blocks, (loads,) = blocks_alone(kernel, Done("scan", (d,), grain), LoopStage([totals]), across)
    unit, first = blocks.outer[0], len(blocks.operands)
    own = blocks.operands[len(kernel.operands) :]
    blocks = replace(blocks, operands=[*blocks.operands, *own])
    place = blocks.rows[0].address
    before = leaves("acc", "before")
    after = scan.how.combine(b, before, loads)
    carries = list(map(Carry, scan.how.empty(b), before, after, leaves("result", "before")))
    stores = [Store(first + k, place, x) for k, x in enumerate(before)]
    of_blocks = LoopStage([], stores, carries, scan=Reduce(scan.how, loads, before, after))
    starts = replace(
        kernel,
        name=f"{kernel.name}.starts",
        operands=blocks.operands,
        extents=blocks.extents,
        inner=(unit,),
        stages=[of_blocks],
        vector=None,
        lanes=1,
        rewrites=blocks.rewrites,
    )
    carried = [
        replace(c, initial=b.node("load", t, (), (first + k, place, False, False)))
        for k, (c, t) in enumerate(zip(stage.carries, dtypes, strict=True))
    ]
    last = replace(
        blocks, name=kernel.name, stages=[replace(stage, carries=carried)], rows=list(kernel.rows)
    )
    return blocks, starts, last
