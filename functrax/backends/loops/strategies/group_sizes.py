"""How many threads of a GPU share a row, and whether they keep what they read of it.

Start at :func:`group_of_row`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel, LoopStage, ordered
from functrax.backends.targets import Target
from functrax.core.scalars.scalar import Scalar
from functrax.core.types import dtypes

#: The largest number of 32 bits.
MOST: Final = int(np.iinfo(np.int32).max)


def is_wide(kernel: Kernel) -> bool:
    """Whether the numbers of points need more than 32 bits."""
    return math.prod(kernel.extents) > MOST


def group_of(length: int, target: Target, least: int = 2) -> int:
    """How many threads share a row of a length: one, a part of a warp, a warp, or a block.

    Args:
      length: of the row.
      target: the GPU.
      least: how many points a thread has of short rows; of long ones it has four times as many.
    """
    if length <= 2 * target.row_points * target.warp:
        return min(1 << (-(-length // least) - 1).bit_length(), target.warp) if length > 2 else 1
    wanted = 1 << (length // (4 * least) - 1).bit_length()
    return min(wanted, target.largest_group)


def group_of_row(kernel: Kernel, target: Target) -> int:
    """How many threads share a unit of a kernel that is no running result.

    Rows that are read in several stages have so many that these can keep them.
    """
    alone = (
        kernel.vector is None
        or kernel.vector not in kernel.inner
        or bool(kernel.updated)
        or any(s.serial for s in kernel.stores())
        or any(s.carries or s.condition is not None for s in kernel.stages)
        or any(not r.how.commutative for s in kernel.stages for r in s.reductions)
    )
    if alone:
        return 1
    length = kernel.extents[kernel.inner[-1]]
    least = target.access_bytes // dtypes.float32.itemsize
    group, words = group_of(length, target, least), _kept_words(kernel, target)
    if not words:  # several blocks at once, of which some read while others put sums together
        return min(group, target.largest_group // 2)
    if keeps_rows(kernel, group, target):
        return group
    wanted = 1 << (-(-length * words // target.row_points) - 1).bit_length()
    return wanted if wanted <= target.largest_group else group


def keeps_rows(kernel: Kernel, group: int, target: Target) -> bool:
    """Whether threads keep what they read of a row for the stages that read it again.

    A thread keeps few words: loops are written out, and large blocks have few registers a thread.
    """
    words = _kept_words(kernel, target)
    steps = -(-kernel.extents[kernel.inner[-1]] // group)
    return 0 < steps * words <= target.row_points


def _kept_words(kernel: Kernel, target: Target) -> int:
    """Words of registers that keep what is read of a row at a point; 0 if it is not read again, or
    cannot be kept.
    """
    if len(kernel.stages) < 2 or len(kernel.inner) != 1 or kernel.block is not None:
        return 0
    (d,) = kernel.inner
    stages = [ordered(tuple(_roots(stage))) for stage in kernel.stages]
    reads = Counter(x for stage in stages for x in stage if x.op == "load")
    again = [x for x, count in reads.items() if count > 1 and coefficient(x.attr[1], d)]
    if any(kernel.operands[x.attr[0]].written for x in again):
        return 0
    return sum([-(-x.dtype.itemsize // target.vector_bytes) for x in again])


def _roots(stage: LoopStage) -> Iterator[Scalar]:
    for reduction in stage.reductions:
        yield from reduction.values
    for store in stage.stores:
        yield from store.values
