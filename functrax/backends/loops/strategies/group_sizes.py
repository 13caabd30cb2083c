"""How many threads of a GPU share a row, and whether they keep what they read of it.

Start at :func:`group_of_row`.
"""

from __future__ import annotations

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel
from functrax.backends.targets import Target


def group_of(length: int, target: Target) -> int:
    """How many threads share a row of a length: one, a part of a warp, a warp, or a block."""
    if length <= 4 * target.row_points * target.warp:
        return min(1 << (-(-length // 2) - 1).bit_length(), target.warp) if length > 2 else 1
    wanted = 1 << (length // target.row_points - 1).bit_length()
    return min(wanted, target.largest_group)


def group_of_row(kernel: Kernel, target: Target) -> int:
    """How many threads share a unit of a kernel that is no running result."""
    alone = (
        kernel.vector is None
        or kernel.vector not in kernel.inner
        or bool(kernel.updated)
        or any(s.serial for s in kernel.stores())
        or any(s.carries or s.condition is not None for s in kernel.stages)
        or any(not r.how.commutative for s in kernel.stages for r in s.reductions)
    )
    return 1 if alone else group_of(kernel.extents[kernel.inner[-1]], target)


def keeps_rows(kernel: Kernel, group: int, target: Target) -> bool:
    """Whether threads keep what they read of a row for the stages that read it again.

    The loops are written out, and what is kept is an eighth of the registers at most: as much again
    may be computed of it, and in a large block a thread has a quarter of them.
    """
    if len(kernel.stages) < 2 or len(kernel.inner) != 1 or kernel.block is not None:
        return False
    (d,) = kernel.inner
    read = {node for node in kernel.nodes() if node.op == "load" and coefficient(node.attr[1], d)}
    if any(kernel.operands[node.attr[0]].written for node in read):
        return False
    words = sum([-(-node.dtype.itemsize // target.vector_bytes) for node in read])
    steps = -(-kernel.extents[d] // group)
    return 0 < 8 * steps * words <= target.registers + 1
