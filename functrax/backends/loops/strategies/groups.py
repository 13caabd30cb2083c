"""Schedules for a GPU: which loops a grid of groups of threads shares, and how large a group is.

Outer dims become units of a grid.  A unit is the work of

- one thread, where nothing is reduced, or columns are: neighbouring threads take neighbouring
  points of the dim along which memory is contiguous;
- the threads of a warp, or of a block, where rows are reduced, or gone through again afterwards:
  neighbouring threads take neighbouring points of the row;
- a block that shares memory, which does a tile at a time, of reads along another dim than the
  stores, and of sums of products (``shared_tiles.py``).

Long reductions and running results are done in blocks first, as on other targets.

Start at :func:`for_groups`.
"""

from __future__ import annotations

from functrax.backends.kernels.ir import Digits, Kernel, Sorting
from functrax.backends.kernels.merge import merged
from functrax.backends.loops.rewrites.combine import Combine
from functrax.backends.loops.rewrites.digits import CountDigits, SortByDigit
from functrax.backends.loops.rewrites.grid import Grid, Keep, Neighbours, Share
from functrax.backends.loops.rewrites.points import Points
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.rewrites.sort_rows import SortRows
from functrax.backends.loops.strategies import shared_tiles
from functrax.backends.loops.strategies.group_points import neighbours_at_once, points_at_once
from functrax.backends.loops.strategies.group_scans import scans_of_groups
from functrax.backends.loops.strategies.group_scatters import owners_of, with_atomic_updates
from functrax.backends.loops.strategies.group_sizes import group_of_row, is_wide, keeps_rows
from functrax.backends.loops.strategies.lanes import (
    choose_vector,
    scatter_loops,
    vector_innermost,
)
from functrax.backends.loops.strategies.reduction_blocks import block_of_reduction, two_kernels
from functrax.backends.targets import Target


def for_groups(kernel: Kernel, target: Target) -> list[tuple[Kernel, list[Rewrite]]]:
    """The kernels that run one after the other, and what their trees are rewritten by."""
    last = Combine(target.has_fma)
    if kernel.sorting is not None:
        sorts = _sorts(kernel.sorting, target)
        return [(kernel, [sorts, Grid(kernel.sorting.group, False), last])]
    if any(s.serial for s in kernel.rows):
        kernel = with_atomic_updates(kernel)
    if not any(s.atomic for s in kernel.rows):
        scatter_loops(kernel)
    kernel = merged(kernel)
    is_product = bool(shared_tiles.product_tiles(kernel, target))
    kernel.vector = choose_vector(kernel, kernel.outer if is_product else None)
    vector_innermost(kernel)
    parts = _with_groups(kernel, target, is_product)
    return [(k, [*_rewrites(k, n, target), last]) for k, n in parts]


def _sorts(how: Sorting | Digits, target: Target) -> Rewrite:
    """What gives the threads of a group the rows that they sort, or the tiles."""
    if isinstance(how, Sorting):
        return SortRows(how.group, how.rows, how.kept)
    if how.sorts:
        return SortByDigit(how.group, target.warp, how.count, target.resident // how.group)
    return CountDigits(how.group)


def _rewrites(kernel: Kernel, group: int, target: Target) -> list[Rewrite]:
    """What shares the loops of a kernel: the first of some ways that takes it."""
    kernel.lanes = 1
    tiles = shared_tiles.product_tiles(kernel, target) or shared_tiles.staged_reads(kernel, target)
    return tiles or _threads(kernel, group, target)


def _with_groups(kernel: Kernel, target: Target, is_product: bool) -> list[tuple[Kernel, int]]:
    """The kernels that a kernel is done in, and how many threads each unit has."""
    if kernel.stages and kernel.stages[0].scan is not None:
        return scans_of_groups(kernel, target)
    grain = None
    if "block" not in kernel.off:
        way = shared_tiles.block_of_products if is_product else block_of_reduction
        grain = way(kernel, target)
    parts = [kernel] if grain is None else two_kernels(kernel, grain)
    return [(k, group_of_row(k, target)) for k in parts]


def _threads(kernel: Kernel, group: int, target: Target) -> list[Rewrite]:
    """The rewrites that give a kernel its threads."""
    if kernel.updated and (owned := owners_of(kernel, is_wide(kernel), target)) is not None:
        return owned
    count = points_at_once(kernel, target)
    found: list[Rewrite] = [Points(count, kernel.outer[-1])] if count > 1 else []
    found.append(Grid(group, is_wide(kernel)))
    if group > 1:
        d, keeps = kernel.inner[-1], keeps_rows(kernel, group, target)
        found.append(Share(d))
        if (count := neighbours_at_once(kernel, group, target)) > 1:
            found.append(Neighbours(count, keeps, d))
        elif keeps:
            found.append(Keep(d))
    return found
