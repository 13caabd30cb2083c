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

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends import disk_cache
from functrax.backends.gemm.blocking import Plan
from functrax.backends.gemm.shared_arrays import with_own_arrays
from functrax.backends.kernels.ir import Kernel, Operand
from functrax.backends.llvm.emit import Emitted, emit_kernel
from functrax.backends.loops.strategies import scheduled_trees
from functrax.backends.machine_code.kernel_jit import circumstances, request
from functrax.backends.targets import schedule_target
from functrax.core.records import replace

#: Contractions of fewer nanoseconds are not worth measuring.
LEAST_NS: Final = 120_000
#: So many plans are measured, so often.
MOST_PLANS, RUNS = 6, 5
#: And tiles of no more rows.
HIGHEST: Final = 14
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
) -> Plan:
    """The plan that is computed in the least time.

    Args:
      kernel: the contraction.
      plans: for it, the one that the model chooses first.
      kernels_of: makes a plan's kernels.
    """
    if plans[0].ns < LEAST_NS:
        return plans[0]
    same = [plan for plan in plans if plan.block == plans[0].block]
    found: dict[str, Plan] = {}
    for plan in (*same[:MOST_PLANS], *_other_tiles(kernel, plans[0])):
        found.setdefault(described(plan), plan)
    if len(found) == 1:
        return plans[0]
    key = disk_cache.content_key("autotune", circumstances(), str(kernel), " ".join(found))
    chosen = _remembered(key)
    if chosen not in found:
        times = {text: _seconds(kernels_of(plan)) for text, plan in found.items()}
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
    highest = HIGHEST if plan.rows in plan.left.dims - plan.right.dims else 1
    registers = schedule_target().registers
    for width in range(1, 5):
        height = min((registers - 1 - width) // width, highest, kernel.extents[plan.rows])
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


def _seconds(kernels: Sequence[Kernel]) -> float:
    """How long kernels take, one after the other, on one thread; the best of a few runs."""
    arrays = [_array(operand) for operand in kernels[-1].operands]
    calls = [call for kernel in kernels for call in _calls(kernel, arrays)]
    best = float("inf")
    for _ in range(RUNS):
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


def _calls(kernel: Kernel, arrays: Sequence[np.ndarray[Any, Any]]) -> Iterator[Callable[[], None]]:
    """Functions that run a kernel on some of the arrays."""
    own, (read, written) = with_own_arrays(kernel)
    pointers = [-(-arrays[n].ctypes.data // _ROOM) * _ROOM for n in (*read, *written)]
    for part, tree in scheduled_trees(own, schedule_target()):
        yield _call(emit_kernel(tree), part.name, tree.units, pointers)


def _call(emitted: Emitted, name: str, units: int, pointers: Sequence[int]) -> Callable[[], None]:
    """A function that runs a kernel on arrays."""
    code = request(emitted.text, name).compiled
    called = [(place, request(text, name).compiled) for place, text in emitted.calls]
    numbers = list(emitted.numbers)
    for place, inner in called:
        numbers[place] = inner.address
    buffers = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
    given = (ctypes.c_int64 * max(1, len(numbers)))(*numbers)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function = ctypes.CFUNCTYPE(None, *types)(code.address)

    def call(alive: object = (code, called)) -> None:
        function(ctypes.addressof(buffers), ctypes.addressof(given), 0, units)

    return call
