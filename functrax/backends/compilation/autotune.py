"""Plans of contractions by measurement: the option ``autotune``.

A model of costs decides how a contraction is computed (``gemm/blocking.py``).  With ``autotune``
on, the plans that it finds cheapest are made into kernels and run, the first time that a large
contraction is compiled on a machine, and the fastest one is taken.  The choice is written to the
disk cache, so other processes find it there; it belongs to the processor, as machine code does.

What enters is a contraction and its plans; what leaves is one of them.  Only plans that give the
same bits as the model's are tried: those with its instructions and its blocks of steps, for a sum
is added up in the order of its steps whatever the tile, and whichever way its sides are read.  So
results do not depend on what was measured, with the option on or off.

Start at :func:`fastest`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends import disk_cache
from functrax.backends.gemm.blocking import Plan
from functrax.backends.gemm.shared_arrays import with_own_arrays
from functrax.backends.kernels.ir import Kernel, Operand
from functrax.backends.loops.text import kernel_text
from functrax.backends.machine_code.kernel_jit import circumstances
from functrax.backends.targets import schedule_target, target
from functrax.core.records import replace

#: Makes functions that run a kernel on arrays at some addresses.
Runs: TypeAlias = "Callable[[Kernel, Sequence[int]], list[Callable[[], None]]]"
#: So many plans are measured besides tiles of other forms, and each so often.
TRIES: Final = 6
#: Bytes beyond an array, and what it is aligned to.
_ROOM: Final = 64
#: What arrays of floats hold, byte by byte: numbers whose products are no less than normal.
_BYTE: Final = 0x3F

#: What was measured in this process, by the key on disk.
_known: Final[dict[bytes, str]] = {}


def fastest(
    kernel: Kernel,
    plans: Sequence[Plan],
    kernels_of: Callable[[Plan], list[Kernel]],
    *,
    runs: Runs,
) -> Plan:
    """The plan that is computed in the least time.

    Args:
      kernel: the contraction.
      plans: for it, the one that the model chooses first.
      kernels_of: makes a plan's kernels.
      runs: makes functions that run one of them.
    """
    if plans[0].ns < target().program_ns:  # less than to call it takes
        return plans[0]
    same = [plan for plan in plans if plan.block == plans[0].block]
    found: dict[str, Plan] = {}
    for plan in (*same[:TRIES], *_other_tiles(kernel, plans[0])):
        found.setdefault(described(plan), plan)
    if len(found) == 1:
        return plans[0]
    key = disk_cache.content_key("autotune", circumstances(), kernel_text(kernel), " ".join(found))
    chosen = _remembered(key)
    if chosen not in found:
        times = {text: _seconds(kernels_of(plan), runs) for text, plan in found.items()}
        chosen = min(times, key=times.__getitem__)
        about = ", ".join(f"{text}: {seconds * 1e3:.3f} ms" for text, seconds in times.items())
        disk_cache.current().put(key, chosen.encode(), about)
    _known[key] = chosen
    return found[chosen]


def _other_tiles(kernel: Kernel, plan: Plan) -> Iterator[Plan]:
    """A plan with tiles of other forms, as high as the registers allow."""
    (reduction,) = kernel.stages[0].reductions
    product = reduction.values[0]
    if product.op == "dot" and product.attr[0].startswith("tile "):
        return  # the tiles of a matrix unit are few, and among the plans
    own_rows = plan.rows in plan.left.dims - plan.right.dims
    registers = schedule_target().registers
    for width in range(1, 5):
        highest = (registers - 1 - width) // width if own_rows else 1
        height = min(highest, kernel.extents[plan.rows])
        if (width - 1) * plan.lanes < kernel.extents[plan.columns]:
            yield replace(plan, height=height, width=width)


def described(plan: Plan) -> str:
    """What a plan decides, as a word."""
    columns = f"{plan.columns}:{plan.width}x{plan.lanes}"
    ways = "/".join(plan.ways).replace(" ", "-") + ("-copied" if plan.copied else "")
    return f"{plan.rows}:{plan.height},{columns},{ways}"


def _remembered(key: bytes) -> str | None:
    known = _known.get(key)
    if known is None:
        entry = disk_cache.current().get(key)
        known = None if entry is None else entry.payload.decode("ascii", "replace")
    return known


def _seconds(kernels: Sequence[Kernel], runs: Runs) -> float:
    """How long kernels take, one after the other, on one thread; the best of a few runs."""
    arrays = [_array(operand) for operand in kernels[-1].operands]
    calls: list[Callable[[], None]] = []
    for kernel in kernels:
        own, (read, written) = with_own_arrays(kernel)
        calls += runs(own, [-(-arrays[n].ctypes.data // _ROOM) * _ROOM for n in (*read, *written)])
    best = float("inf")
    for _ in range(TRIES):
        begin = time.perf_counter()
        for call in calls:
            call()
        best = min(best, time.perf_counter() - begin)
    return best


def _array(operand: Operand) -> np.ndarray[Any, Any]:
    """Memory for an array of a kernel: numbers near 1, and integers that are 0, for they may be
    indices.
    """
    size = 0 if operand.scratch or operand.alias is not None else operand.size
    byte = 0 if operand.dtype.kind in "iub" else _BYTE
    return np.full(size * operand.dtype.itemsize + 2 * _ROOM, byte, np.uint8)
