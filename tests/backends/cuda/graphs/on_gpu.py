"""Loops and branches on the GPU of this machine: decided by it, and by the host.

    python -m tests.backends.cuda.graphs.on_gpu

Each program of ``decided.py`` has to give the same bits both ways, in calls with several sets of
addresses.  The shortest time of a call is written beside it, for a driver of a GPU.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from functrax.backends.cuda import choice, runtime
from functrax.core.options.config import Override
from tests.backends.cuda.graphs.decided import DECIDED
from tests.backends.cuda.runtimes import program_of

CALLS = 12


def called(program: Any, args: Any) -> tuple[list[list[bytes]], float, bool]:
    """The bytes of the results of each call, the shortest time, and whether nodes decided."""
    gpu, device = choice.gpu(), runtime.CURRENT
    executable = device.executable(program, gpu)
    sets = [[device.array.of(gpu, np.asarray(x)) for x in args] for _ in range(3)]
    found, best = [], float("inf")
    for n in range(CALLS):
        begin = time.perf_counter()
        results = executable(sets[n % 3 if n < CALLS // 2 else 0])
        for x in results:
            x.wait()
        best = min(best, time.perf_counter() - begin)
        found.append([np.asarray(x).tobytes() for x in results])
    whole = any(
        use[3] and use[2] - use[1] == len(program.instructions) for use in executable.graphs()
    )
    return found, best, whole


def main() -> int:
    """How many programs differ."""
    differ = 0
    measures = not choice.table().is_simulated
    if not choice.table().has_conditions:
        print("the driver has no conditional nodes: the host decides")
        return 0
    for name, (f, args, _) in DECIDED.items():
        program = program_of(f, *args)
        with Override("cuda_conditional_nodes", "off"):
            theirs, host, _ = called(program, args)
        with Override("cuda_conditional_nodes", "on"):
            ours, device, decided = called(program, args)
        same = all(x == theirs[0] for x in (*theirs, *ours)) and decided
        differ += not same
        times = f": {device * 1e6:.0f} us a call, {host * 1e6:.0f} where the host decides"
        print(f"{name}: {'the same bits' if same else 'OTHER BITS'}{times if measures else ''}")
    return differ


if __name__ == "__main__":
    sys.exit(min(main(), 1))
