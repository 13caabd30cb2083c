"""The schedule of a kernel: the rewrites that its loops go through.

What enters is a kernel as it was lowered; what leaves are one or more kernels, each with the list
of rewrites that turn its plain tree into the one that is emitted.  In order:

1. The dims along which a scatter may write one element twice become inner dims, which run in order;
   neighbouring dims become one where every address allows it (``kernels/merge.py``).
2. The dim along which most of the memory is contiguous is computed in lanes (``lanes``).
3. By form: a running result (``scans``), a reduction, which may be done in blocks
   (``reduction_blocks``), arrays that are contiguous along another dim (``transposes``), or a map.
   What one stage computes at some cost and a later one needs again stays in a row of memory
   (``kernels/row_buffers.py``).
4. Threads share units of work (``parallel``); rows go through memory (``rows``).

Blocks follow from shapes alone, so the bits of results do not depend on the number of threads.
Where the target is *strict*, the order of a reduction follows from its shape and axes alone, not
from what shares its kernel: along the last dim, if that is reduced, in as many lanes whatever the
dtype, else one element after the other; and dims that are reduced are not merged.

Start at :func:`schedule`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.merge import merged
from functrax.backends.kernels.row_buffers import keep_rows
from functrax.backends.kernels.work import kernel_ns
from functrax.backends.loops.build import build
from functrax.backends.loops.rewrites.apply import rewritten
from functrax.backends.loops.rewrites.combine import Combine
from functrax.backends.loops.rewrites.rewrite import KINDS, Rewrite
from functrax.backends.loops.rewrites.vectorize import Narrow, Vectorize
from functrax.backends.loops.strategies.lanes import (
    choose_full_vector,
    choose_lanes,
    choose_vector,
    ends_in_row,
    scatter_loops,
    vector_innermost,
)
from functrax.backends.loops.strategies.parallel import share
from functrax.backends.loops.strategies.reduction_blocks import (
    block_of_reduction,
    ends_apart,
    has_dear_ends,
    in_two,
    narrow_lanes,
)
from functrax.backends.loops.strategies.rows import go_through_rows
from functrax.backends.loops.strategies.scans import scans
from functrax.backends.loops.strategies.tiles import tiles
from functrax.backends.loops.strategies.transposes import choose_tile, transposes
from functrax.backends.loops.tree import Function
from functrax.backends.targets import Target
from functrax.core.errors.typed import ArgumentError
from functrax.core.records import record, replace

#: Besides rewrites of trees, what can be left out: dims that are merged, values that are kept
#: between stages, reductions and scans in blocks, and kernels for parts of what is put together.
ALSO_OFF: Final = frozenset(("merge", "stage", "block", "apart", "parts"))


@record
class LeftOut:
    """What schedules do without, to see what it brings or to find what is wrong.

    Args:
      kinds: of rewrites (the option ``schedule_off``).
      limit: how many rewrites of a tree are made at most (``schedule=n`` in the option
        ``opt_limit``), besides those that are required; None for all.
    """

    kinds: frozenset[str] = frozenset()
    limit: int | None = None


NOTHING: Final = LeftOut()
#: A kernel, and what its plain tree is rewritten by.
Scheduled: TypeAlias = "tuple[Kernel, list[Rewrite]]"


def schedule(kernel: Kernel, target: Target, left_out: LeftOut = NOTHING) -> list[Scheduled]:
    """The kernels that run one after the other.

    The second one reads what the first one writes to the operands that were appended.
    """
    kernel.off = left_out.kinds
    if target.warp:
        from functrax.backends.loops.strategies.groups import for_groups  # which only GPUs need

        return for_groups(kernel, target)
    if kernel.tiling is not None:
        return [(kernel, tiles(kernel, kernel.tiling))]
    last = Combine(_fuses(target))
    if kernel.in_lanes:
        return [(kernel, [last])]
    found = _strategy(_with_lanes(kernel, target), target)
    return [(k, [*_lanes(k, target), *rewrites, last]) for k, rewrites in found]


def estimated_ns(kernel: Kernel, target: Target) -> int:
    """Nanoseconds that a kernel is predicted to take with its schedule, which it is not given."""
    return sum([kernel_ns(k, target) for k, _ in schedule(replace(kernel), target)])


def scheduled_trees(
    kernel: Kernel,
    target: Target,
    left_out: LeftOut = NOTHING,
    look: Callable[[Function], None] | None = None,
) -> list[tuple[Kernel, Function]]:
    """The kernels that run one after the other, and their trees.

    Args:
      kernel: as it was lowered.
      target: where it runs.
      left_out: what its schedule does without.
      look: what is called with each tree on the way.

    Raises:
      ArgumentError: what is left out is no rewrite.
    """
    unknown = left_out.kinds and left_out.kinds.difference(can_be_left_out())
    if unknown:
        raise ArgumentError(
            "config: schedule_off: unknown rewrite",
            got=repr(min(unknown)),
            fix="some of " + ", ".join(can_be_left_out()) + ", joined by commas",
        )
    found = []
    for part, rewrites in schedule(kernel, target, left_out):
        made = [
            x
            for n, x in enumerate(rewrites)
            if x.is_required
            or (x.kind not in left_out.kinds and (left_out.limit is None or n < left_out.limit))
        ]
        found.append((replace(part, schedule=tuple(made)), rewritten(build(part), made, look)))
    return found


def can_be_left_out() -> list[str]:
    """What can be left out of schedules, by name."""
    return sorted({*KINDS, *ALSO_OFF} - {Combine.kind})


def _strategy(kernel: Kernel, target: Target) -> list[Scheduled]:
    """The rewrites of a kernel that has lanes, after these."""
    tile = choose_tile(kernel, target)
    if "stage" not in kernel.off:
        keep_rows(kernel)
    if kernel.stages and kernel.stages[0].scan is not None:
        return scans(kernel, target)
    grain = None if "block" in kernel.off else block_of_reduction(kernel, target)
    if grain is not None:
        return in_two(kernel, target, grain)
    if "apart" not in kernel.off and has_dear_ends(kernel, target):
        return ends_apart(kernel, target)
    if tile is not None:
        return [(kernel, transposes(kernel, target, tile))]
    return [(kernel, go_through_rows(kernel, target, share(kernel, target)))]


def _with_lanes(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with its dims merged and in order, its vector dim and its lanes."""
    scatter_loops(kernel)
    if target.strict and any(s.reductions for s in kernel.stages):
        along_row = ends_in_row(kernel)
        kernel = merged(kernel, merge_inner=False)
        kernel.vector = max(kernel.inner) if along_row else choose_vector(kernel, kernel.outer)
    else:
        kernel = merged(kernel)
        kernel.vector = choose_vector(kernel)
        if choose_tile(replace(kernel), target) is None:  # what is turned has full vectors
            choose_full_vector(kernel, target)
    vector_innermost(kernel)
    choose_lanes(kernel, target)
    return kernel


def _lanes(kernel: Kernel, target: Target) -> list[Rewrite]:
    """The rewrites that give a kernel its lanes."""
    if kernel.vector is None or kernel.lanes == 1:
        return []
    found: list[Rewrite] = [Vectorize(kernel.vector, kernel.lanes)]
    narrow = narrow_lanes(kernel, target)
    if narrow < kernel.lanes:
        found.append(Narrow(kernel.vector, narrow))
    return found


def _fuses(target: Target) -> bool:
    """Whether reductions round a product once with its sum."""
    return target.has_fma and not target.strict
