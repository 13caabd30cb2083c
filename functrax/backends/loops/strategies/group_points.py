"""How many neighbouring points of a map a thread of a GPU does at once.

Memory is accessed 16 bytes at a time where all that depends on the dim is contiguous along it.

Start at :func:`points_at_once`.
"""

from __future__ import annotations

from functrax.backends.kernels.accesses import dims_of
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.steps import MOST_OPERATIONS
from functrax.backends.loops.rewrites.points import is_aligned_row, loads_along
from functrax.backends.targets import Target


def points_at_once(kernel: Kernel, target: Target) -> int:
    """How many points a thread does: 1 if accesses are not contiguous, or threads would be few."""
    d = kernel.vector
    if d is None or kernel.inner or d != kernel.outer[-1] or kernel.points < target.busy_threads:
        return 1
    loads = loads_along(kernel.rows, d)
    plain = all(x.attr[2:] == (False, False) for x in loads) and all(
        s.offset is None and s.guard is None and s.combine is None for s in kernel.rows
    )
    places = [x.args[0] for x in kernel.nodes() if x.op == "load" and x.args]
    if not plain or any(d in dims_of(x) for x in places):
        return 1
    buffers = {x.attr[0] for x in loads}, {s.buffer for s in kernel.rows}
    dtypes = [kernel.operands[n].dtype for n in sorted(set.union(*buffers))]
    if set.intersection(*buffers) or any(x.kind == "c" for x in dtypes):
        return 1
    count = target.access_bytes // max(x.itemsize for x in dtypes)
    addresses = [x.attr[1] for x in loads] + [s.address for s in kernel.rows]
    if not all(is_aligned_row(x, d, count) for x in addresses):
        return 1
    while count > 1 and count * kernel.work > MOST_OPERATIONS:
        count //= 2
    return count
