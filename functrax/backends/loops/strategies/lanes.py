"""Which dim has lanes, and how many: what all strategies choose first.

Start at :func:`choose_lanes`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from functrax.backends.cost import least, moving_ns, size_class
from functrax.backends.kernels.accesses import (
    accesses,
    coefficient,
    coefficients,
    is_large,
)
from functrax.backends.kernels.ir import Done, Kernel, LoopStage
from functrax.backends.kernels.work import kernel_ns
from functrax.backends.targets import Target
from functrax.core.records import replace
from functrax.core.scalars.scalar import MATH
from functrax.core.types.dtypes import float32, real_dtype
from functrax.core.types.size_bounds import choice, roughly
from functrax.core.types.symbolic_sizes import applied, decided

#: Kernels with fewer nodes than this hide latencies by using more lanes.
LIGHT: Final = 12
#: Columns of fewer vectors are reduced in shorter ones if the last vector has a mask; rows of as
#: many have a loop of its own for the last one.
FEW_VECTORS: Final = 4


def ends_in_row(kernel: Kernel) -> bool:
    """Whether the last dim is one that is reduced."""
    dims = [d for d in (*kernel.outer, *kernel.inner) if kernel.extents[d] > 1]
    return not dims or max(dims) in kernel.inner


def choose_vector(kernel: Kernel, dims: tuple[int, ...] | None = None) -> int | None:
    """The dim, of some or of all, along which most accesses are contiguous.

    Stores count twice, what is read at several places of one array once, and what is read or
    written once for each row as much less as there are points in it.
    """
    candidates = _with_free_order(kernel, (*kernel.outer, *kernel.inner) if dims is None else dims)
    best, best_score, longest = None, 0.0, 0
    rank = len(kernel.extents)
    rows = {
        (number, *coefficients(address, rank)): 2.0 if stored else 1.0
        for address, number, stored in accesses(kernel)
    }
    length = math.prod(kernel.extents[d] for d in kernel.inner)
    for row in rows:
        if not any(row[d + 1] for d in kernel.inner):
            rows[row] /= length
    for d in candidates:
        steps = [(row[d + 1], weight) for row, weight in rows.items()]
        contiguous = sum(weight for step, weight in steps if step == 1)
        strided = sum(weight for step, weight in steps if step not in (0, 1))
        full = decided(_fullness, kernel.extents[d])
        score = full * (1 + contiguous) / (1 + strided)
        extent = roughly(kernel.extents[d])
        if score > best_score or (score == best_score and extent > longest):
            best, best_score, longest = d, score, extent
    return best


def _with_free_order(kernel: Kernel, dims: Sequence[int]) -> list[int]:
    """Those of some dims along which several points may be computed at once."""
    scanned = any(s.scan is not None for s in kernel.stages) and not _in_order(kernel)
    in_order = any(s.serial for s in kernel.stores()) or any(s.ordered for s in kernel.stages)
    found = kernel.outer if scanned or in_order else dims
    return [d for d in found if kernel.extents[d] > 1]


def choose_full_vector(kernel: Kernel, target: Target) -> None:
    """Take a longer vector dim where most lanes of the chosen one are empty, if that costs less.

    Elements that are not contiguous are moved one by one then, but more is computed at once.  Where
    lanes are half full the costs are near each other, and sizes would decide, each for itself.
    """
    if kernel.vector is None or _only_moves(kernel):
        return
    filled = decided(_fullness, kernel.extents[kernel.vector])
    if filled > 1 / 4:
        return
    others = [
        d
        for d in _with_free_order(kernel, (*kernel.outer, *kernel.inner))
        if decided(_fullness, kernel.extents[d]) > filled
    ]
    if others:
        dims = (kernel.vector, *others)
        kernel.vector = dims[decided(least, *[_ns_along(kernel, d, target) for d in dims])]


def _ns_along(kernel: Kernel, d: int, target: Target) -> float:
    """Estimated nanoseconds of a kernel with lanes along a dim.

    Its dims go outside of it, so what is beside each other along them is moved as often.
    """
    tried = replace(kernel, vector=d)
    vector_innermost(tried)
    choose_lanes(tried, target)
    inside = kernel.outer[kernel.outer.index(d) + 1 :] if d in kernel.outer else ()
    times = math.prod([kernel.extents[x] for x in inside])
    nbytes = sum([o.size * o.dtype.itemsize for o in kernel.operands])
    again: float = applied(_again_ns, times, nbytes, target)
    return kernel_ns(tried, target) + again


@choice
def _again_ns(times: int, nbytes: int, target: Target) -> float:
    """Nanoseconds to move arrays so often, beyond once."""
    return (times - 1) * moving_ns(nbytes, target)


def _fullness(extent: int) -> float:
    """About which part of the lanes of a vector a dim fills."""
    return min(size_class(extent) / 16, 1.0)


def _in_order(kernel: Kernel) -> bool:
    """Whether a running result goes through memory as it lies there."""
    (d,) = kernel.inner
    return all(coefficient(address, d) == 1 for address, _, _ in accesses(kernel))


def vector_innermost(kernel: Kernel) -> None:
    """Let the vector dim be the innermost one of the outer or of the inner dims."""
    v = kernel.vector
    for name in ("outer", "inner"):
        dims = getattr(kernel, name)
        if v is not None and v in dims and dims[-1] != v:
            reorder(kernel, name, (*(d for d in dims if d != v), v))


def reorder(kernel: Kernel, name: str, dims: tuple[int, ...]) -> None:
    """Let the outer or the inner dims go in this order."""
    if getattr(kernel, name) != dims:
        setattr(kernel, name, dims)
        kernel.rewrites += (Done("reorder", dims),)


def choose_lanes(kernel: Kernel, target: Target) -> None:
    """How many neighbouring points of the vector dim are computed at once."""
    v = kernel.vector
    if v is None:
        return
    if _is_scattered(kernel, v, target):
        kernel.vector = None
        return
    touched = {number for _, number, _ in accesses(kernel)}
    widest = max(real_dtype(kernel.operands[k].dtype).itemsize for k in touched)
    lanes = vector = target.vector_bytes // max(widest, 2)
    work = kernel.work
    if target.strict and v in kernel.inner:
        lanes = 2 * target.vector_bytes // float32.itemsize  # whatever else is in the kernel
    elif v in kernel.inner and any(s.scan is not None for s in kernel.stages):
        pass  # what goes from step to step is short
    elif kernel.inner:
        if v in kernel.inner:  # vectors are added up before they are widened: two at least
            lanes *= 4 if work <= 2 * LIGHT else 2
        else:
            lanes *= 4 if work <= LIGHT else 2 if work <= 2 * LIGHT else 1
        if work <= LIGHT and _is_column_sum(kernel) and target.vector_bytes >= 64:
            lanes *= 2  # there are registers for it, and memory is read in longer pieces
        extent = roughly(kernel.extents[v])
        while v in kernel.outer and lanes > 2 * vector and _is_mostly_tail(extent, lanes):
            lanes //= 2
    elif has_functions(kernel) and roughly(2 * kernel.points * widest) >= target.second_cache:
        lanes *= 2  # two chains of dependent operations at a time, where it pays to compile them
    elif work <= 2 * LIGHT:
        lanes = max(lanes, _lanes_of_a_line(kernel, target))
    while lanes // 2 >= roughly(kernel.extents[v]):
        lanes //= 2
    kernel.lanes = lanes


def _is_scattered(kernel: Kernel, v: int, target: Target) -> bool:
    """Whether a kernel moves elements that are lines apart, and computes little.

    A processor moves them one by one, and code that puts them into vectors is long.
    """
    if not _only_moves(kernel):
        return False
    steps = [
        (abs(coefficient(address, v)) * kernel.operands[k].dtype.itemsize, stored)
        for address, k, stored in accesses(kernel)
    ]
    return all(step >= target.cache_line or not (step or stored) for step, stored in steps)


def _only_moves(kernel: Kernel) -> bool:
    """Whether a kernel moves elements, and computes little of each."""
    little = kernel.work <= 4 * len(list(accesses(kernel)))
    return little and not kernel.inner and not has_functions(kernel)


def has_functions(kernel: Kernel) -> bool:
    """Whether a kernel computes functions such as ``exp``."""
    return any(node.op in MATH for node in kernel.nodes())


def _is_mostly_tail(extent: int, lanes: int) -> bool:
    """Whether the last vector of a row, of which a part is masked out, is one of few."""
    return extent % lanes != 0 and extent < FEW_VECTORS * lanes


def _lanes_of_a_line(kernel: Kernel, target: Target) -> int:
    """How many lanes it takes to write whole cache lines, which go past the caches; else 0."""
    sizes = [
        kernel.operands[s.buffer].dtype.itemsize
        for s in kernel.stores()
        if is_large(kernel, s) and coefficient(s.address, kernel.vector) == 1
    ]
    return target.cache_line // max(sizes) if sizes else 0


def _is_column_sum(kernel: Kernel) -> bool:
    """Whether a kernel does one reduction, along columns."""
    across = kernel.vector in kernel.outer and len(kernel.stages) == 1
    return across and len(kernel.stages[0].reductions) == 1 and not kernel.stages[0].stores


def scatter_loops(kernel: Kernel) -> None:
    """Make inner dims of those along which a scatter may meet an element again."""
    updates = [s for s in kernel.rows if s.serial]
    if not updates:
        return
    (store,) = updates
    free = tuple(d for d in kernel.outer if d in (store.independent or ()))
    kernel.inner = tuple(d for d in kernel.outer if d not in free)
    kernel.outer = free
    if kernel.inner:
        kernel.stages, kernel.rows = [LoopStage([], kernel.rows)], []
