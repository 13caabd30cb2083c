"""Contractions: their tiles were chosen with what they read (``gemm/blocking.py``).

Start at :func:`tiles`.
"""

from __future__ import annotations

from functrax.backends.kernels.accesses import coefficient, is_streamed
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.tiling import Tiling
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.rewrites.tile import TileSums
from functrax.core.scalars.scalar import Scalar


def tiles(kernel: Kernel, tiling: Tiling) -> list[Rewrite]:
    """The rewrite of a contraction."""
    assert kernel.vector is not None
    ahead = "prefetch" not in kernel.off
    adds = tiling.turned is None and _adds(kernel, tiling)
    result = _result(kernel, tiling, adds)
    return [TileSums(tiling, kernel.vector, kernel.lanes, ahead, result, adds and result >= 0)]


def _adds(k: Kernel, t: Tiling) -> bool:
    """Whether all that follows the sums is to add them to what is there."""
    if len(k.rows) != 1 or k.rows[0].value.op != "add":
        return False
    (store,) = k.rows
    before, total = store.value.args
    there = before.op == "load" and before.attr == (store.buffer, store.address, False, False)
    return there and _is_sum(total, t)


def _is_sum(value: Scalar, t: Tiling) -> bool:
    return value.op == "load" and value.attr[0] == t.scratch


def _result(k: Kernel, t: Tiling, adds: bool) -> int:
    """The array that sums are stored to as they are, or ``adds`` to, in whole vectors, if that is
    all that follows them; else -1.
    """
    if len(k.rows) != 1 or (t.turned is None and (t.on_unit or t.block is not None)):
        return -1
    (store,) = k.rows
    if store.offset is not None or store.guard is not None or store.combine is not None:
        return -1
    if not adds and not _is_sum(store.value, t):
        return -1
    sizes = (t.left, t.rows, t.height), (t.right, t.columns, t.width * t.lanes)
    if any(k.extents[d] < size for side, d, size in sizes if not side.packed):
        return -1
    (reduction,) = k.stages[0].reductions
    alike = k.operands[store.buffer].dtype == reduction.how.carries[0]
    along = coefficient(store.address, t.columns if t.turned is None else t.rows) == 1
    return store.buffer if alike and along and (adds or not is_streamed(k, store)) else -1
