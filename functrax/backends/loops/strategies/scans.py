"""Running results of long rows, by threads: three kernels in place of one.

What enters is the kernel of one scan along its vector dim.  The first kernel reduces each block,
the second turns the blocks' results into what comes before each block, and the third does the scan
block by block, each from there.  Blocks follow from sizes alone, and so do the bits.

Start at :func:`scans`.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.accesses import row_address
from functrax.backends.kernels.ir import Carry, Done, Kernel, Operand, Reduce, Stage, Store
from functrax.backends.loops.rewrites.parallelize import Parallelize
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.strategies.parallel import share
from functrax.backends.loops.strategies.reduction_blocks import BLOCK, in_blocks
from functrax.backends.loops.strategies.rows import ends_of_rows
from functrax.backends.targets import Target
from functrax.core.index.expr import Dim
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar


def scans(kernel: Kernel, target: Target) -> list[tuple[Kernel, list[Rewrite]]]:
    """A running result, in blocks if rows are few and long."""
    rows = math.prod(kernel.extents[d] for d in kernel.outer)
    (d,) = kernel.inner
    long = kernel.vector == d and in_blocks(rows, kernel.extents[d])
    if long and "block" not in kernel.off:
        return _in_blocks(kernel, BLOCK)
    units = share(kernel, target)
    return [(kernel, [*units, *ends_of_rows(kernel, units)])]


def _in_blocks(kernel: Kernel, grain: int) -> list[tuple[Kernel, list[Rewrite]]]:
    """The three kernels; two arrays for each number that is carried are appended to the operands.

    Args:
      kernel: one scan along its one inner dim.
      grain: the length of a block.
    """
    (stage,) = kernel.stages
    (d,) = kernel.inner
    scan = stage.scan
    assert scan is not None
    b = kernel.builder
    units = -(-kernel.extents[d] // grain)
    unit = len(kernel.extents)  # a dim: the number of the block
    row, rows = row_address(kernel)
    place = row * units + Dim(unit)
    first = len(kernel.operands)
    width = len(scan.values)
    dtypes = [v.dtype for v in scan.values]
    operands = [*kernel.operands, *(Operand(t, units * rows, True) for t in dtypes * 2)]
    extents = (*kernel.extents, units)
    done = (*kernel.rewrites, Done("scan", (d,), grain))

    def leaves(op: str, key: str) -> tuple[Scalar, ...]:
        attrs = [(key, k, False) if op == "acc" else (key, k) for k in range(width)]
        return tuple(b.node(op, t, (), a) for t, a in zip(dtypes, attrs, strict=True))

    def loads(number: int) -> tuple[Scalar, ...]:
        return tuple(
            b.node("load", t, (), (number + k, place, False, False)) for k, t in enumerate(dtypes)
        )

    totals = Reduce(scan.how, scan.values, leaves("acc", "block"), leaves("result", "block"))
    blocks = replace(
        kernel,
        name=f"{kernel.name}.blocks",
        outer=(unit, *kernel.outer),
        block=(d, grain, unit),
        operands=operands,
        extents=extents,
        stages=[Stage([totals])],
        rows=[Store(first + k, place, x) for k, x in enumerate(totals.results)],
        rewrites=done,
    )
    before = leaves("acc", "before")
    carries = [
        Carry(start, acc, new, result)
        for start, acc, new, result in zip(
            scan.how.empty(b),
            before,
            scan.how.combine(b, before, loads(first)),
            leaves("result", "before"),
            strict=True,
        )
    ]
    starts = replace(
        kernel,
        name=f"{kernel.name}.starts",
        operands=operands,
        extents=extents,
        inner=(unit,),
        stages=[
            Stage([], [Store(first + width + k, place, x) for k, x in enumerate(before)], carries)
        ],
        vector=None,
        lanes=1,
        rewrites=done,
    )
    carried = [
        replace(c, initial=x) for c, x in zip(stage.carries, loads(first + width), strict=True)
    ]
    last = replace(
        blocks, name=kernel.name, stages=[replace(stage, carries=carried)], rows=list(kernel.rows)
    )
    each = [Parallelize(unit, 1)]
    return [
        (blocks, [*each, *ends_of_rows(blocks, each)]),
        (starts, []),
        (last, [*each, *ends_of_rows(last, each)]),
    ]
