"""Schedules of running results on a GPU.

A row is the work of a group of threads, which go along it in step (``loops/rewrites/grid.py``): of
neighbouring threads where memory is contiguous, and a part of a warp for each of several short
rows.  Few long rows are done in blocks, as on other targets (``scans``), all three kernels by
groups.  Many rows that are not contiguous are the work of one thread each: the threads beside it
read what is beside in memory.

Start at :func:`scans_of_groups`.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.accesses import accesses, coefficient
from functrax.backends.kernels.ir import Kernel
from functrax.backends.loops.strategies.group_sizes import group_of
from functrax.backends.loops.strategies.reduction_blocks import BLOCK, in_blocks
from functrax.backends.loops.strategies.scans import three_kernels
from functrax.backends.targets import Target


def scans_of_groups(kernel: Kernel, target: Target) -> list[tuple[Kernel, int]]:
    """The kernels of a running result, and how many threads each unit of them has."""
    (d,) = kernel.inner
    rows = math.prod(kernel.extents[x] for x in kernel.outer)
    steps = [abs(coefficient(address, d)) for address, _, _ in accesses(kernel)]
    if rows >= target.largest_group and max(steps) > 1:
        return [(kernel, 1)]
    if "block" in kernel.off or not in_blocks(rows, kernel.extents[d]):
        return [(kernel, group_of(kernel.extents[d], target))]
    blocks, starts, last = three_kernels(kernel, BLOCK)
    (unit,) = starts.inner
    return [
        (blocks, group_of(BLOCK, target)),
        (starts, group_of(starts.extents[unit], target)),
        (last, group_of(BLOCK, target)),
    ]
