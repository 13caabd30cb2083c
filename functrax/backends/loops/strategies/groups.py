"""Schedules for a GPU: which loops a grid of groups of threads shares, and how large a group is.

Outer dims become units of a grid.  A unit is the work of

- one thread, where nothing is reduced, or columns are: neighbouring threads take neighbouring
  points of the dim along which memory is contiguous;
- the threads of a warp, or of a block, where rows are reduced, or gone through again afterwards:
  neighbouring threads take neighbouring points of the row.

Long reductions and running results are done in blocks first, as on other targets.

Start at :func:`for_groups`.
"""

from __future__ import annotations

import math

import numpy as np

from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.merge import merged
from functrax.backends.loops.rewrites.combine import Combine
from functrax.backends.loops.rewrites.grid import Grid, Share
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.strategies.lanes import (
    choose_vector,
    scatter_loops,
    vector_innermost,
)
from functrax.backends.loops.strategies.reduction_blocks import (
    BLOCK,
    block_of_reduction,
    two_kernels,
)
from functrax.backends.loops.strategies.scans import is_long, three_kernels
from functrax.backends.targets import Target


def for_groups(kernel: Kernel, target: Target) -> list[tuple[Kernel, list[Rewrite]]]:
    """The kernels that run one after the other, and what their trees are rewritten by."""
    scatter_loops(kernel)
    kernel = merged(kernel)
    kernel.vector = choose_vector(kernel)
    vector_innermost(kernel)
    parts = [kernel]
    if "block" not in kernel.off:
        parts = _in_blocks(kernel, target)
    return [(k, [*_threads(k, target), Combine(target.has_fma)]) for k in parts]


def _in_blocks(kernel: Kernel, target: Target) -> list[Kernel]:
    """The kernels of a long reduction or running result."""
    if kernel.stages and kernel.stages[0].scan is not None:
        return [*three_kernels(kernel, BLOCK)] if is_long(kernel) else [kernel]
    grain = block_of_reduction(kernel, target)
    return [kernel] if grain is None else [*two_kernels(kernel, grain)]


def _threads(kernel: Kernel, target: Target) -> list[Rewrite]:
    kernel.lanes = 1
    group = _group(kernel, target)
    wide = math.prod(kernel.extents) > np.iinfo(np.int32).max
    found: list[Rewrite] = [Grid(group, wide)]
    if group > 1:
        found.append(Share(kernel.inner[-1]))
    return found


def _group(kernel: Kernel, target: Target) -> int:
    """How many threads share a unit: one, a warp, or a block of several warps."""
    alone = (
        kernel.vector is None
        or kernel.vector not in kernel.inner
        or bool(kernel.updated)
        or any(s.serial for s in kernel.stores())
        or any(s.carries or s.scan or s.condition is not None for s in kernel.stages)
        or any(not r.how.commutative for s in kernel.stages for r in s.reductions)
    )
    length = kernel.extents[kernel.inner[-1]] if kernel.inner else 0
    if alone or 2 * length < target.warp:
        return 1
    if length <= 4 * target.row_points * target.warp:
        return target.warp
    wanted = 1 << (length // target.row_points - 1).bit_length()
    return min(wanted, target.largest_group)
