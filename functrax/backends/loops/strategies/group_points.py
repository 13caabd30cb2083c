"""How many neighbouring points a thread of a GPU does at once, of a map and of a row.

Memory is accessed 16 bytes at a time where arrays are contiguous along the dim.

Start at :func:`points_at_once`.
"""

from __future__ import annotations

from collections.abc import Callable

from functrax.backends.kernels.accesses import accesses, coefficient, dims_of
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.steps import MOST_OPERATIONS
from functrax.backends.loops.rewrites.points import (
    is_aligned_row,
    is_wide_load,
    is_wide_store,
    loads_along,
)
from functrax.backends.targets import Target


def points_at_once(kernel: Kernel, target: Target) -> int:
    """How many points a thread does: 1 if accesses are not contiguous, or threads would be few."""
    d = kernel.vector
    if d is None or kernel.inner or d != kernel.outer[-1] or kernel.points < target.busy_threads:
        return 1
    loads = loads_along(kernel.rows, d)
    if any(d in dims_of(arg) for x in kernel.nodes() if x.op == "load" for arg in x.args):
        return 1
    buffers = {x.attr[0] for x in loads}, {s.buffer for s in kernel.rows}
    dtypes = [kernel.operands[n].dtype for n in sorted(set.union(*buffers))]
    if set.intersection(*buffers) or any(x.kind == "c" for x in dtypes):
        return 1
    # Where a row lies that is looked up is found once for two accesses.
    at_once = 2 if any(x.attr[2] for x in loads) else 1
    count = at_once * target.access_bytes // max(x.itemsize for x in dtypes)

    def fits(count: int) -> bool:
        wide = all(is_wide_load(x, d, count) for x in loads)
        return wide and all(is_wide_store(s, d, count) for s in kernel.rows)

    return _most(count, kernel, fits)


def neighbours_at_once(kernel: Kernel, group: int, target: Target) -> int:
    """How many points of a row a thread of a group does in each step: 1 if rows are not contiguous,
    or their length is no multiple of more.
    """
    d = kernel.inner[-1]
    if any(s.scan is not None or s.carries for s in kernel.stages) or kernel.updated:
        return 1
    places = [
        (address, kernel.operands[n].dtype)
        for address, n, _ in accesses(kernel)
        if coefficient(address, d) == 1
    ]
    if not places or any(dtype.kind == "c" for _, dtype in places):
        return 1
    lengths = [kernel.extents[d]]
    if kernel.block is not None and kernel.block[0] == d:
        lengths.append(kernel.block[1])
    count = target.access_bytes // max(dtype.itemsize for _, dtype in places)

    def fits(count: int) -> bool:
        whole = all(length % count == 0 for length in lengths)
        wide = any(is_aligned_row(address, d, count) for address, _ in places)
        return whole and wide and count * group <= lengths[-1]

    return _most(count, kernel, fits)


def _most(count: int, kernel: Kernel, fits: Callable[[int], bool]) -> int:
    """The largest power of two, up to a count, that fits and is not too long written out."""
    while count > 1 and not (fits(count) and count * kernel.work <= MOST_OPERATIONS):
        count //= 2
    return count
