"""How long rows go through memory: in pieces, from a cache line on, past the caches, ahead.

Start at :func:`go_through_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import eq
from typing import Final

from functrax.backends.kernels.accesses import (
    accesses,
    coefficient,
    is_large,
    is_streamed,
    rows_read,
)
from functrax.backends.kernels.ir import Kernel, Store
from functrax.backends.loops.rewrites.interleave import Interleave
from functrax.backends.loops.rewrites.memory_hints import PrefetchRows, Stream
from functrax.backends.loops.rewrites.parallelize import Parallelize
from functrax.backends.loops.rewrites.peel import Align, Peel
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.strategies.lanes import FEW_VECTORS, LIGHT, has_functions
from functrax.backends.targets import Target
from functrax.core.records import replace
from functrax.core.types.size_bounds import roughly, surely

#: Rows of fewer vectors are not worth a short one at their beginning.
LEAST_LINES: Final = 16
#: Reductions along fewer points are short: float32 are added up as they are and rounded once, and a
#: last vector of columns is not worth a loop of its own.
LONG_ROW: Final = 256


def go_through_rows(
    kernel: Kernel,
    target: Target,
    units: Sequence[Parallelize],
) -> list[Rewrite]:
    """How the vector dim is gone through.

    Args:
      kernel: with its vector dim and lanes.
      target: where it runs.
      units: what threads share of it.
    """
    shared = units[0] if units else None
    aligned = _aligned_store(kernel, target, shared)
    pieces, shared = _pieces(kernel, target, shared, aligned)
    row = None if kernel.block or pieces > 1 else _row_ahead(kernel, target)
    found: list[Rewrite] = [] if shared is None else [shared]
    v = kernel.vector
    if aligned is not None:
        found.append(Align(_dim(v), aligned.buffer))
    if row is not None:
        found.append(PrefetchRows(row))
    if pieces > 1:
        return [*found, Interleave(_dim(v), pieces), *streams(kernel, aligned)]
    return [*found, *ends_of_rows(kernel, units, aligned)]


def ends_of_rows(
    kernel: Kernel, units: Sequence[Parallelize], aligned: Store | None = None
) -> list[Rewrite]:
    """A loop of its own for the last vector of rows, and what is written past the caches."""
    shared = units[0] if units else None
    tails = [Peel(_dim(kernel.vector))] if _has_own_tail(kernel, shared, aligned) else []
    return [*tails, *streams(kernel, aligned)]


def _dim(v: int | None) -> int:
    assert v is not None
    return v


def streams(kernel: Kernel, aligned: Store | None = None) -> list[Rewrite]:
    """The results that are written past the caches."""
    stores = [s for s in kernel.stores() if is_streamed(kernel, s, s is aligned)]
    return [Stream(b) for b in dict.fromkeys(s.buffer for s in stores)]


def _aligned_store(kernel: Kernel, target: Target, shared: Parallelize | None) -> Store | None:
    """The store whose rows begin with a short vector: its results are no whole lines, but many, or
    they are a part of rows of whole lines.
    """
    v = kernel.vector
    if v is None or kernel.inner or kernel.lanes == 1:
        return None
    stores = list(kernel.stores())
    if _begins_in_line(kernel, target) and _length(kernel, shared) >= FEW_VECTORS * kernel.lanes:
        return stores[0]
    if len(stores) != 1 or any(s.serial or not is_large(kernel, s) for s in stores):
        return None
    (store,) = stores
    size = kernel.operands[store.buffer].dtype.itemsize
    whole = size * kernel.lanes % target.cache_line == 0
    whole = whole and _length(kernel, shared) >= LEAST_LINES * kernel.lanes
    usual = coefficient(store.address, v) == 1 and not is_streamed(kernel, store)
    return store if whole and usual else None


def _begins_in_line(kernel: Kernel, target: Target) -> bool:
    """Whether all that is written are rows a whole number of lines apart, from inside of a line on.

    These are parts of rows (``kernels/lower.py``).  A vector on two lines takes as long as two.
    """
    stores = list(kernel.stores())
    address = stores[0].address
    if any(s.address != address or s.serial or s.offset is not None for s in stores):
        return False
    size = min([kernel.operands[s.buffer].dtype.itemsize for s in stores])
    apart = [c * size for a, c in address.terms if a.dims_mask != 1 << _dim(kernel.vector)]
    begins_inside = address.const * size % target.cache_line != 0
    whole = all(step % target.cache_line == 0 for step in apart)
    return begins_inside and whole and coefficient(address, kernel.vector) == 1


def _length(kernel: Kernel, shared: Parallelize | None) -> int:
    """How many points of the vector dim come one after the other."""
    v = _dim(kernel.vector)
    if kernel.block is not None and kernel.block[0] == v:
        return kernel.block[1]
    return shared.grain if shared is not None and v == shared.dim else kernel.extents[v]


def _pieces(
    kernel: Kernel, target: Target, shared: Parallelize | None, aligned: Store | None
) -> tuple[int, Parallelize | None]:
    """In how many pieces side by side rows are gone through, and what threads share then.

    Some processors fetch ahead within a page, and a few lines only: what they read from several
    pages at once comes faster.  It does not matter to results but for the order of sums.
    """
    v = kernel.vector
    if not target.several_pages or v is None or kernel.lanes == 1:
        return 1, shared
    if (kernel.inner and v not in kernel.inner) or (kernel.inner and target.strict):
        return 1, shared
    if any(s.serial for s in kernel.stores()) or any(s.ordered for s in kernel.stages):
        return 1, shared
    written = [s for s in kernel.stores() if coefficient(s.address, v) == 1]
    if not all(is_streamed(kernel, s, s is aligned) for s in written):
        return 1, shared
    arrays: dict[int, int] = {}
    for address, k, _ in accesses(kernel):
        if coefficient(address, v) == 1 and not kernel.operands[k].scratch:
            arrays[k] = kernel.operands[k].dtype.itemsize
    size = sum(kernel.operands[k].size * n for k, n in arrays.items())
    if not is_from_memory(size, target) or kernel.work > LIGHT or has_functions(kernel):
        return 1, shared
    itemsize = min(arrays.values())
    pieces = target.streams // 2
    while pieces * len(arrays) > target.streams:
        pieces //= 2
    if shared is not None and v == shared.dim and v in kernel.outer:
        least = 2 * target.streams * target.page // itemsize
        grain = min(max(shared.grain, least), kernel.extents[v])
        shared = replace(shared, grain=grain)
    while _length(kernel, shared) * itemsize < pieces * target.page:
        pieces //= 2
    return max(pieces, 1), shared


def is_from_memory(nbytes: int, target: Target) -> bool:
    """Whether most of so many bytes that are read cannot be in the second cache."""
    return roughly(nbytes) >= 2 * target.second_cache


def _row_ahead(kernel: Kernel, target: Target) -> int | None:
    """The outer dim whose next row is asked for where a row is gone through several times.

    While a row is read for the first time nothing is computed, and later nothing is fetched: a
    processor fetches ahead within a page, so hardly beyond the end of a row that is not short.
    This row and the next one must be in the first cache together.
    """
    v = kernel.vector
    if v not in kernel.inner or not kernel.outer:
        return None
    if len(kernel.stages) + bool(kernel.rows) < 2 or any(s.ordered for s in kernel.stages):
        return None
    d = kernel.outer[-1]
    first = [x for reduction in kernel.stages[0].reductions for x in reduction.values]
    size = sum(
        kernel.operands[buffer].dtype.itemsize * kernel.points
        for buffer, address in rows_read(first, v)
        if coefficient(address, d)
    )
    row = size // math.prod(kernel.extents[n] for n in kernel.outer)
    near = target.far_stride <= roughly(row) <= target.first_cache // 2
    return d if near and is_from_memory(size, target) else None


def _has_own_tail(kernel: Kernel, shared: Parallelize | None, aligned: Store | None) -> bool:
    """Whether the last vector of a row has a loop of its own, so that others need no mask."""
    v = kernel.vector
    if v is None or kernel.lanes == 1 or kernel.work > 2 * LIGHT:
        return False
    lengths = kernel.extents[v], _length(kernel, shared)
    whole = all(surely(eq, length % kernel.lanes, 0) for length in lengths)
    if whole and aligned is None:
        return False
    if roughly(kernel.extents[v]) >= FEW_VECTORS * kernel.lanes:
        return True
    columns = kernel.inner and v in kernel.outer and roughly(kernel.extents[v]) > kernel.lanes
    return bool(columns) and roughly(math.prod(kernel.extents[d] for d in kernel.inner)) >= LONG_ROW
