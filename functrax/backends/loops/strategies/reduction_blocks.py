"""Long reductions: blocks by themselves, then all blocks of a row together.

A reduction with few results and long rows, with very long rows, or of long columns, is done in
blocks, whose results a second kernel reduces.

Start at :func:`block_of_reduction`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from functrax.backends.cost import about
from functrax.backends.kernels.accesses import accesses, address_along, coefficient
from functrax.backends.kernels.ir import Done, Kernel, LoopStage, Operand, Reduce, Store, ordered
from functrax.backends.loops.rewrites.parallelize import Parallelize
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.rewrites.vectorize import is_widened_sum
from functrax.backends.loops.strategies.lanes import choose_lanes, choose_vector, vector_innermost
from functrax.backends.loops.strategies.parallel import FEW, share
from functrax.backends.loops.strategies.rows import LONG_ROW, ends_of_rows, go_through_rows
from functrax.backends.targets import Target, target
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.records import replace
from functrax.core.scalars.scalar import MATH, Scalar
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import roughly

#: A reduction is done in blocks when it has few rows, and longer ones than this.
BLOCK: Final = 1 << 15
#: Longer rows are done in blocks whatever their number: one sum of so many is not accurate.
LONG: Final = 1 << 20


def block_of_reduction(kernel: Kernel, target: Target) -> int | None:
    """How many points of the longest inner dim make a block; None to reduce rows in one piece.

    Columns that reach over more than the second cache are reduced in blocks of rows, two of which
    are fetched ahead in each page that a processor follows; of more if they are short.
    """
    rows = math.prod(kernel.extents[d] for d in kernel.outer)
    length = math.prod(kernel.extents[d] for d in kernel.inner)
    simple = len(kernel.stages) == 1 and not kernel.stages[0].carries
    if not simple or not kernel.stages[0].reductions:
        return None
    shared = _longest_inner(kernel)
    if target.warp:
        return _block_of_threads(kernel, shared, rows, length, target)
    if in_blocks(rows, length):
        grain = -(-BLOCK * kernel.extents[shared] // length)
        return -(-grain // kernel.lanes) * kernel.lanes if shared == kernel.vector else grain
    step = max(
        coefficient(address, shared) * kernel.operands[k].dtype.itemsize
        for address, k, _ in accesses(kernel)
    )
    if target.strict or kernel.vector in kernel.inner:
        return None
    if roughly(step * kernel.extents[shared]) < target.second_cache:
        return None
    return max(target.streams * target.page // step, 2 * target.streams)


def _block_of_threads(
    kernel: Kernel, shared: int, rows: int, length: int, target: Target
) -> int | None:
    """The same where groups of threads share rows, and a thread has a column: as many blocks as
    give all threads something to do.
    """
    columns = kernel.vector in kernel.outer
    if not columns and not in_blocks(rows, length):
        return None
    threads = rows if columns else rows * target.largest_group
    blocks = 2 * target.busy_threads // threads
    wide = target.access_bytes // dtypes.float32.itemsize
    least = 2 * target.row_points if columns else target.largest_group * wide
    if columns and (blocks < 2 or length < 4 * least):  # one kernel more would take longer
        return None
    grain = max(-(-length // max(blocks, 1)), least)
    if grain >= length:
        return None
    if not columns:
        grain = min(grain, BLOCK)
    steps = -(-grain * kernel.extents[shared] // length)
    return steps if columns else -(-steps // wide) * wide


def in_blocks(rows: int, length: int) -> bool:
    """Whether rows of this length are reduced in blocks."""
    return length > LONG or (rows < FEW and length > BLOCK)


def _longest_inner(kernel: Kernel) -> int:
    return max(kernel.inner, key=lambda d: kernel.extents[d])


def blocks_alone(
    kernel: Kernel, done: Done, stage: LoopStage, across: bool
) -> tuple[Kernel, list[tuple[Scalar, ...]]]:
    """A kernel that reduces blocks by themselves, and what it stores as another one loads it.

    Args:
      kernel: with one stage.
      done: the dim that is in blocks, and their size.
      stage: the reductions.
      across: whether neighbours in memory are results of one block, not of one row.
    """
    (shared,), grain = done.dims, done.size
    assert grain is not None
    units = -(-kernel.extents[shared] // grain)
    unit = len(kernel.extents)  # a dim: the number of the block
    row, rows = address_along(kernel, kernel.outer)
    place = row + Dim(unit) * rows if across else row * units + Dim(unit)
    operands, stores, loads = _in_memory(kernel, stage, place, units * rows)
    blocks = replace(
        kernel,
        name=f"{kernel.name}.blocks",
        operands=operands,
        extents=(*kernel.extents, units),
        outer=(unit, *kernel.outer),
        stages=[stage],
        rows=stores,
        block=(shared, grain, unit),
        rewrites=(*kernel.rewrites, done),
    )
    return blocks, loads


def _in_memory(
    kernel: Kernel, stage: LoopStage, place: IndexExpr, size: int
) -> tuple[list[Operand], list[Store], list[tuple[Scalar, ...]]]:
    """A kernel's arrays and one more for each result of its reductions; its stores, and its loads
    by reduction.
    """
    operands, stores, loads = list(kernel.operands), [], []
    for reduction in stage.reductions:
        found = []
        for x in reduction.results:
            attr = (len(operands), place, False, False)
            stores.append(Store(len(operands), place, x))
            found.append(kernel.builder.node("load", x.dtype, (), attr))
            operands.append(Operand(x.dtype, size, True))
        loads.append(tuple(found))
    return operands, stores, loads


def _of_values(stage: LoopStage, loads: Sequence[tuple[Scalar, ...]]) -> list[Reduce]:
    """The reductions of a stage, of what was loaded for them."""
    return [replace(x, values=y) for x, y in zip(stage.reductions, loads, strict=True)]


def two_kernels(kernel: Kernel, grain: int) -> tuple[Kernel, Kernel]:
    """Blocks of the longest inner dim by themselves, then all blocks of a row together."""
    (stage,) = kernel.stages
    shared = _longest_inner(kernel)
    units = -(-kernel.extents[shared] // grain)
    # A thread of a GPU goes through few blocks of its column; more are the work of a group.
    across = kernel.vector in kernel.outer and not (
        target().warp and units > 2 * target().row_points
    )
    blocks, loads = blocks_alone(kernel, Done("block", (shared,), grain), stage, across)
    unit = blocks.outer[0]
    final = replace(
        kernel,
        operands=blocks.operands,
        extents=blocks.extents,
        inner=(unit,),
        stages=[LoopStage(_of_values(stage, loads), [])],
        vector=kernel.vector if across or kernel.vector is None else unit,
        rewrites=blocks.rewrites,
    )
    return blocks, final


def in_two(kernel: Kernel, target: Target, grain: int) -> list[tuple[Kernel, list[Rewrite]]]:
    """A reduction in blocks, and what the trees of both kernels are rewritten by."""
    blocks, final = two_kernels(kernel, grain)
    unit = blocks.outer[0]
    choose_lanes(final, target)
    shares = share(final, target)
    return [
        (blocks, go_through_rows(blocks, target, [Parallelize(unit, 1)])),
        (final, [*shares, *ends_of_rows(final, shares)]),
    ]


def has_dear_ends(kernel: Kernel, target: Target) -> bool:
    """Whether what follows the reduction of each row, one after the other, is dear.

    Rows that are reduced by vectors give one number at a time.  Functions of many such numbers take
    less time in a kernel of their own, which computes a vector of them at once.
    """
    if kernel.vector not in kernel.inner or len(kernel.stages) != 1:
        return False
    (stage,) = kernel.stages
    if stage.carries or stage.scan is not None or not stage.reductions:
        return False
    ends = ordered(tuple([x for store in kernel.rows for x in store.values]))
    functions = sum([node.op in MATH for node in ends])
    lanes = target.vector_bytes // dtypes.float32.itemsize
    rows = about(tuple([kernel.extents[d] for d in kernel.outer]))
    return functions > 0 and rows * functions * target.function_ns * lanes > target.kernel_ns


def ends_apart(kernel: Kernel, target: Target) -> list[tuple[Kernel, list[Rewrite]]]:
    """The reductions of all rows, then what follows them, for a vector of rows at once."""
    (stage,) = kernel.stages
    done = Done("apart", kernel.outer)
    row, rows = address_along(kernel, kernel.outer)
    operands, stores, loads = _in_memory(kernel, stage, row, rows)
    first = replace(
        kernel,
        name=f"{kernel.name}.rows",
        operands=operands,
        rows=stores,
        rewrites=(*kernel.rewrites, done),
    )
    # Each result is "reduced" along a dim of one point.
    final = replace(
        kernel,
        operands=operands,
        extents=(*kernel.extents, 1),
        inner=(len(kernel.extents),),
        stages=[LoopStage(_of_values(stage, loads), [])],
        rewrites=first.rewrites,
    )
    final.vector = choose_vector(final, final.outer)
    vector_innermost(final)
    choose_lanes(final, target)
    shares = share(final, target)
    return [
        (first, go_through_rows(first, target, share(first, target))),
        (final, [*shares, *ends_of_rows(final, shares)]),
    ]


def narrow_lanes(kernel: Kernel, target: Target) -> int:
    """The lanes that sums of float32 carry in float64: of long rows, one vector of them."""
    sums = any(is_widened_sum(r) for stage in kernel.stages for r in stage.reductions)
    if not sums or target.strict or kernel.vector not in kernel.inner:
        return kernel.lanes
    if roughly(math.prod(kernel.extents[d] for d in kernel.inner)) < LONG_ROW:
        return kernel.lanes
    return min(kernel.lanes, target.vector_bytes // dtypes.float32.itemsize)
