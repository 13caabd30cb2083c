"""What the machine can do: copy and read bandwidth, multiply-add peak, and what it is called.

``measure`` compiles the loops of machine.c with the system's C compiler and runs them in one thread
and in as many threads as the process may use; the better figure counts.  Without a compiler NumPy's
copy, sum and matrix product stand in for them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

FLOATS = 1 << 24  # 64 MiB, beyond any cache
ROUNDS = 1 << 23
CHAINS, LANES = 12, 16  # of machine.c
REPEATS = 9
SOURCE = Path(__file__).parent / "machine.c"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Bytes a second copied (read and written both count), bytes a second read, flops a second."""

    name: str
    threads: int
    copy: float
    read: float
    flops: float

    def floor(self, bytes_moved: float, flops: float, read_only: bool = False) -> float:
        """The microseconds that moving so many bytes or doing so many flops takes at least."""
        bandwidth = self.read if read_only else self.copy
        return max(bytes_moved / bandwidth, flops / self.flops) * 1e6


def cpu_name() -> str:
    """The processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def threads() -> int:
    """How many threads this process may use at once."""
    return len(os.sched_getaffinity(0))


def measure() -> Machine:
    """Measure this machine; takes about two seconds."""
    # Aligned to a vector: the loops of machine.c load whole ones.
    a, b = aligned(), aligned()
    a[:] = 1
    b[:] = 0
    loops = native_loops(a, b) or numpy_loops(a, b)
    flops = best_rate(loops["flops"], loops["flops of a call"], each_thread=True)
    return Machine(
        cpu_name(),
        threads(),
        copy=best_rate(loops["copy"], 8.0 * FLOATS),
        read=best_rate(loops["read"], 4.0 * FLOATS),
        flops=flops,
    )


def aligned() -> np.ndarray:
    """An array of FLOATS float32 that starts at a multiple of 64 bytes."""
    raw = np.empty(4 * FLOATS + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + 4 * FLOATS].view(np.float32)


def best_rate(run: Callable[[int, int], Any], work: float, each_thread: bool = False) -> float:
    """Work a second of ``run(begin, end)`` over all floats, in one thread or in all of them.

    With ``each_thread`` every thread does all the work, not a part of it.
    """
    best = 0.0
    for count in {1, threads()}:
        parts = [(i * FLOATS // count, (i + 1) * FLOATS // count) for i in range(count)]
        with ThreadPoolExecutor(count) as pool:
            for _ in range(REPEATS):
                begin = time.perf_counter()
                list(pool.map(lambda part: run(*part), parts))
                seconds = time.perf_counter() - begin
                best = max(best, work * (count if each_thread else 1) / seconds)
    return best


def native_loops(a: np.ndarray, b: np.ndarray) -> dict[str, Any] | None:
    """The loops of machine.c, or None where they cannot be compiled."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "machine.so"
        flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-shared", "-fPIC"]
        if not platform.machine().startswith(("x86", "AMD64")):
            flags.remove("-mprefer-vector-width=512")
        command = [compiler, *flags, "-o", str(path), str(SOURCE)]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        library = ctypes.CDLL(str(path))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    library.copy_floats.argtypes = [pointer, pointer, size]
    library.copy_floats.restype = None
    library.read_floats.argtypes = [pointer, size]
    library.read_floats.restype = ctypes.c_float
    library.multiply_add.argtypes = [size]
    library.multiply_add.restype = ctypes.c_float
    start, end = a.ctypes.data, b.ctypes.data
    return {
        "copy": lambda i, j: library.copy_floats(end + 4 * i, start + 4 * i, j - i),
        "read": lambda i, j: library.read_floats(start + 4 * i, (j - i) // 128 * 128),
        "flops": lambda i, j: library.multiply_add(ROUNDS),
        "flops of a call": 2.0 * ROUNDS * CHAINS * LANES,
    }


def numpy_loops(a: np.ndarray, b: np.ndarray) -> dict[str, Any]:
    """The same by NumPy."""
    n = 2048
    left, right = a[: n * n].reshape(n, n), b[: n * n].reshape(n, n)
    return {
        "copy": lambda i, j: np.copyto(b[i:j], a[i:j]),
        "read": lambda i, j: a[i:j].sum(),
        "flops": lambda i, j: left @ right,
        "flops of a call": 2.0 * n**3,
    }
