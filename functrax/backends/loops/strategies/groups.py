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
from functrax.backends.loops.rewrites.grid import Grid, Keep, Share
from functrax.backends.loops.rewrites.points import Points
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.strategies.group_points import points_at_once
from functrax.backends.loops.strategies.group_scans import scans_of_groups
from functrax.backends.loops.strategies.group_scatters import owners_of, with_atomic_updates
from functrax.backends.loops.strategies.group_sizes import group_of_row, keeps_rows
from functrax.backends.loops.strategies.lanes import (
    choose_vector,
    scatter_loops,
    vector_innermost,
)
from functrax.backends.loops.strategies.reduction_blocks import block_of_reduction, two_kernels
from functrax.backends.targets import Target


def for_groups(kernel: Kernel, target: Target) -> list[tuple[Kernel, list[Rewrite]]]:
    """The kernels that run one after the other, and what their trees are rewritten by."""
    if any(s.serial for s in kernel.rows):
        kernel = with_atomic_updates(kernel)
    if not any(s.atomic for s in kernel.rows):
        scatter_loops(kernel)
    kernel = merged(kernel)
    kernel.vector = choose_vector(kernel)
    vector_innermost(kernel)
    last = Combine(target.has_fma)
    return [(k, [*_threads(k, n, target), last]) for k, n in _with_groups(kernel, target)]


def _with_groups(kernel: Kernel, target: Target) -> list[tuple[Kernel, int]]:
    """The kernels that a kernel is done in, and how many threads each unit has."""
    if kernel.stages and kernel.stages[0].scan is not None:
        return scans_of_groups(kernel, target)
    grain = None if "block" in kernel.off else block_of_reduction(kernel, target)
    parts = [kernel] if grain is None else two_kernels(kernel, grain)
    return [(k, group_of_row(k, target)) for k in parts]


def _threads(kernel: Kernel, group: int, target: Target) -> list[Rewrite]:
    """The rewrites that give a kernel its threads."""
    kernel.lanes = 1
    wide = math.prod(kernel.extents) > np.iinfo(np.int32).max
    if kernel.updated and (owned := owners_of(kernel, wide, target)) is not None:
        return owned
    count = points_at_once(kernel, target)
    found: list[Rewrite] = [Points(count, kernel.outer[-1])] if count > 1 else []
    found.append(Grid(group, wide))
    if group > 1:
        found.append(Share(kernel.inner[-1]))
        if keeps_rows(kernel, group, target):
            found.append(Keep(kernel.inner[-1]))
    return found
