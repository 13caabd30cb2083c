"""What kernels take of a multiprocessor, as far as the driver knows it.

Start at :func:`usage`.
"""

from __future__ import annotations

import ctypes
from typing import Any

from functrax.backends.cuda import driver as api, failures
from functrax.core.records import record


@record
class KernelUsage:
    """What a kernel takes of a multiprocessor.

    Args:
      shared: bytes that a block shares.
      registers: of a thread; None where nobody has assembled the kernel.
      local: bytes of memory that a thread has of its own, spilled registers among them; None as
        before.
      occupancy: the share of a multiprocessor's threads that can be there at once; None as before.
    """

    shared: int
    registers: int | None = None
    local: int | None = None
    occupancy: float | None = None


def usage(gpu: Any, kernel: int, block: int) -> KernelUsage:
    """What a kernel takes of a multiprocessor.

    Args:
      gpu: that has loaded it.
      kernel: what its ``load`` gave.
      block: how many threads a block has.
    """
    shared = _number(gpu, "cuFuncGetAttribute", api.SHARED_BYTES, kernel)
    registers = _number(gpu, "cuFuncGetAttribute", api.REGISTERS, kernel)
    if shared is None or registers is None:
        return KernelUsage(shared or 0)
    local = _number(gpu, "cuFuncGetAttribute", api.LOCAL_BYTES, kernel)
    blocks = _number(gpu, "cuOccupancyMaxActiveBlocksPerMultiprocessor", kernel, block, 0)
    most = _number(gpu, "cuDeviceGetAttribute", api.MOST_THREADS, gpu.ordinal)
    return KernelUsage(shared, registers, local, (blocks or 0) * block / (most or block))


def _number(gpu: Any, function: str, *arguments: Any) -> int | None:
    found = ctypes.c_int()
    error = gpu.table(function, ctypes.addressof(found), *arguments)
    if error == api.NOT_SUPPORTED:
        return None
    if error:
        raise failures.failure(gpu.table, gpu.name, function, error, ())
    return found.value
