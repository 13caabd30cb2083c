"""What a jitted call costs the host that runs on a GPU, beyond the driver's own cost.

The driver is a table of functions that do nothing (``native/cuda_driver.cpp``), so no GPU is needed
and what is measured is functrax's own part: reading the arguments, memory, launches or graphs.
Calls are made with launches one by one, with graphs whose addresses stay, and with graphs that get
other addresses at each call, as results of three calls before are kept.

    python -m benchmarks.gpu_calls

Start at :func:`main`.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
from functrax import lax
from functrax.backends.cuda import driver as api
from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.runtime import NATIVE
from functrax.backends.device import device_of
from functrax.core import native
from functrax.core.arrays.array import ConcreteArray
from functrax.core.options.config import Override
from functrax.core.types.aval import ShapedArray

LAUNCHES = (1, 10, 100)
#: The most microseconds that a call of so many launches may cost.
ALLOWED = {1: 1.0, 10: 2.0, 100: 10.0}


def empty_table() -> Table:
    """The driver that does nothing."""
    assert native.extension is not None, "the driver that does nothing is part of the extension"
    return Table(native.extension.cuda_empty_functions())


def chain(launches: int) -> Callable[[Any], Any]:
    """A function of so many kernels, none of which the compiler joins with another."""

    def f(x: Any) -> Any:
        for k in range(launches):
            x = lax.optimization_barrier(x * 2 + k)
        return x

    return f


def counted_launches(f: Callable[[Any], Any], x: Any) -> int:
    """How many kernels a call asks for."""
    table, count = empty_table(), 0

    def launch(*arguments: Any) -> int:
        nonlocal count
        count += 1
        return api.SUCCESS

    callback = api.prototype("cuLaunchKernel")(launch)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    counting = Table({**table.addresses, "cuLaunchKernel": address}, callback)
    program = compiled(f, x)
    assert NATIVE is not None
    NATIVE.executable(program, NATIVE.gpu(counting, 0))([x])
    return count


def compiled(f: Callable[[Any], Any], x: Any) -> Any:
    """A function's program for a GPU."""
    device: Any = device_of("cuda")
    return device.compiled(functrax.make_jaxpr(f)(x).jaxpr).program


def seconds(call: Callable[[], Any], times: int = 1000, rounds: int = 20) -> float:
    """The least processor time of a call."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(times):
            call()
        best = min(best, (time.thread_time() - begin) / times)
    return best


def measure(launches: int, graphs: bool = True, kept: int = 1) -> tuple[int, float]:
    """How many kernels a jitted call asks for, and the microseconds that it costs.

    Args:
      launches: how many it should be.
      graphs: whether it may ask for graphs.
      kept: of how many calls the results are kept.
    """
    from functrax.backends.cuda import choice

    table = empty_table()
    known = choice.table, choice.gpu
    assert NATIVE is not None
    gpu = NATIVE.gpu(table, 0)
    choice.table, choice.gpu = (lambda: table), (lambda ordinal=0: gpu)  # type: ignore[assignment]
    try:
        with functrax.backend("cuda"), Override("cuda_graphs", graphs):
            f = chain(launches)
            host = np.zeros(4, np.float32)
            count = counted_launches(f, host)
            x = ConcreteArray(NATIVE.array.of(gpu, host), ShapedArray((4,), host.dtype))
            jitted = functrax.jit(f)
            results = deque([jitted(x)] * kept, kept)
            return count, 1e6 * seconds(lambda: results.append(jitted(x)))
    finally:
        choice.table, choice.gpu = known


def main() -> None:
    """Print the cost of calls."""
    print("launches  one by one  as graphs  with other addresses, µs")
    for launches in LAUNCHES:
        count, alone = measure(launches, graphs=False)
        graphs, patched = (measure(launches, kept=kept)[1] for kept in (1, 3))
        allowed = f"of {ALLOWED[launches]:.0f} allowed"
        print(f"{count:8}  {alone:10.2f}  {graphs:9.2f}  {patched:20.2f}  {allowed}")


if __name__ == "__main__":
    main()
