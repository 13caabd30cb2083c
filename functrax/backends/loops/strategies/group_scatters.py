"""Schedules of scatters on a GPU that may meet an element twice.

What is exact in any order (sums, bits and extrema of integers) is done by a thread for each update,
atomically.  All else is done in the order of the updates by the owners of the elements
(``loops/rewrites/own.py``), which are warps: so many that they keep a GPU busy, and no more than
there are elements, or warps of updates.  All warps read all indices.

Start at :func:`scatter_of_groups`.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.accesses import coefficient, dims_of
from functrax.backends.kernels.ir import Kernel, Store
from functrax.backends.loops.atomic_updates import atomic_operation
from functrax.backends.loops.rewrites.grid import Grid
from functrax.backends.loops.rewrites.own import Own
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.targets import Target
from functrax.core.records import replace


def with_atomic_updates(kernel: Kernel) -> Kernel:
    """The kernel, whose updates are atomic if their order does not matter."""
    if len(kernel.rows) != 1 or kernel.inner:
        return kernel
    (store,) = kernel.rows
    how, dtype = store.combine, kernel.operands[store.buffer].dtype
    if how is None or atomic_operation(how, dtype) is None or _reads_what_it_writes(kernel):
        return kernel
    return replace(kernel, rows=[replace(store, atomic=True)])


def owners_of(kernel: Kernel, wide: bool, target: Target) -> list[Rewrite] | None:
    """The rewrites of a scatter with loops over its updates; None to do it by one thread."""
    if len(kernel.stages) != 1 or kernel.rows or _reads_what_it_writes(kernel):
        return None
    (stage,) = kernel.stages
    if len(stage.stores) != 1 or stage.reductions or stage.carries:
        return None
    (store,) = stage.stores
    row = _row(kernel, store)
    points = 1 if row is None else kernel.extents[row]
    others = math.prod([kernel.extents[d] for d in kernel.outer]) // points
    updates = math.prod([kernel.extents[d] for d in kernel.inner])
    elements = max(kernel.operands[store.buffer].size // (points * others), 1)
    warps = max(target.busy_threads // (target.warp * others), 1)
    most = min(warps, -(-updates // target.warp), elements)
    owners = 1 << (most.bit_length() - 1)
    chunks = max(min(warps // owners, -(-points // target.warp)), 1)
    grain = -(-points // (chunks * target.warp)) * target.warp
    dims = () if row is None else (row,)
    # Dividing takes about as long as three steps of threads that go together.
    flat = kernel.extents[kernel.inner[-1]] * 4 <= target.warp and updates < 2**32
    return [
        Own(owners, grain, kernel.inner[-1], flat and len(kernel.inner) > 1, dims),
        Grid(target.warp, wide),
    ]


def _row(kernel: Kernel, store: Store) -> int | None:
    """The dim along which an update is of neighbouring elements, whatever place they begin at."""
    places = [x for x in (store.offset, store.guard) if x is not None]
    rows = [d for d in kernel.outer if coefficient(store.address, d) == 1]
    return next((d for d in rows if not any(d in dims_of(x) for x in places)), None)


def _reads_what_it_writes(kernel: Kernel) -> bool:
    written = {n for n, operand in enumerate(kernel.operands) if operand.written}
    return any(node.op == "load" and node.attr[0] in written for node in kernel.nodes())
