"""A GPU and what was asked of it: the Python twin of ``native/cuda_gpu.cpp``.

Work is asked for on three streams: one computes, one copies up from the host, one copies down.
What computes is numbered: a *mark* is an event that stands for all that was asked for before, and
the number of the next mark is what memory and arrays remember.  A copy down waits for the array's
mark, a copy up for that of the memory's last use, and what computes for the copies up.

Memory that nobody has any more waits under its size for the next who asks for as much, so a program
in its steady state asks the driver for none.

Start at :class:`Gpu`.
"""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functrax.backends.cuda import driver as api, failures
from functrax.backends.cuda.driver import Table
from functrax.backends.executables.program import RuntimeProgram
from functrax.backends.runtime.pool import PoolStats, size_class
from functrax.core.errors.typed import UnavailableError
from functrax.core.process.locks import new_rlock

Bytes = NDArray[np.uint8]


class GpuBlock:
    """Memory of a GPU, given back when the last reference to it goes."""

    __slots__ = ("_gpu", "address", "size")

    def __init__(self, gpu: Gpu, address: int, size: int) -> None:
        self._gpu, self.address, self.size = gpu, address, size

    def __del__(self) -> None:
        self._gpu.give_back(self.address, self.size)


class Gpu:
    """One of the driver's GPUs.

    Args:
      table: the driver.
      ordinal: which one.
      events: how many marks have an event of their own; an older one waits for a later.

    Attributes:
      name: of the GPU.
      capability: its compute capability, 80 for 8.0.
      context: the driver's.
      lock: for those who ask for work.
    """

    def __init__(self, table: Table, ordinal: int = 0, events: int = 64) -> None:
        self.table, self.ordinal, self.name = table, ordinal, "the GPU"
        self.lock = new_rlock()
        #: Arrays in its memory, which enter themselves.
        self.arrays: weakref.WeakSet[Any] = weakref.WeakSet()
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.addressof(self._device), ordinal)
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", ctypes.addressof(text), len(text), self._device)
        self.name = text.value.decode()
        self.capability = 10 * self._attribute(api.MAJOR) + self._attribute(api.MINOR)
        self.context = self._made("cuDevicePrimaryCtxRetain", self._device)
        self._here()
        # The first one waits for the default stream, and that for it, which other libraries use.
        flags = 0, api.NON_BLOCKING, api.NON_BLOCKING
        self._compute, self._up, self._down = (self._made("cuStreamCreate", x) for x in flags)
        timing = api.DISABLE_TIMING
        self._events = [self._made("cuEventCreate", timing) for _ in range(events)]
        self._copied = [self._made("cuEventCreate", timing) for _ in range(2)]
        self._programs: list[RuntimeProgram | None] = [None] * events
        self._modules: dict[str, int] = {}
        self._kernels: dict[tuple[str, str], int] = {}
        self._asked = self._done = 0
        self._open = False
        self._free: dict[int, list[tuple[int, int]]] = {}
        self._in_use = self._cached = self._peak = self._allocations = self._hits = 0

    # ---- the driver ---------------------------------------------------------------------------

    def _call(self, function: str, *arguments: Any) -> None:
        self.check(function, self.table(function, *arguments))

    def check(self, function: str, error: int) -> None:
        """Raise for what a function of the driver returned.

        Raises:
          DeviceError: it is an error.
        """
        if error:
            raise self._failure(function, error)

    def _failure(self, function: str, error: int) -> Exception:
        return failures.failure(self.table, self.name, function, error, self._running())

    def _running(self) -> list[RuntimeProgram]:
        """The programs that were asked for and not seen to end."""
        count = len(self._events)
        marks = range(max(self._done, self._asked + 1 - count), self._asked + 1)
        return [x for n in marks if (x := self._programs[(n + 1) % count]) is not None]

    def _made(self, function: str, *arguments: Any) -> int:
        handle = ctypes.c_void_p()
        self._call(function, ctypes.addressof(handle), *arguments)
        return handle.value or 0

    @property
    def stream(self) -> int:
        """The driver's handle of the stream that computes."""
        return self._compute

    def _attribute(self, which: int) -> int:
        found = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.addressof(found), which, self._device)
        return found.value

    def _here(self) -> None:
        """Let this thread use the GPU."""
        self._call("cuCtxSetCurrent", self.context)

    # ---- marks --------------------------------------------------------------------------------

    def position(self) -> int:
        """The number of the mark that comes after all that was asked for."""
        return self._asked + self._open

    def next_mark(self) -> int:
        """The number of a mark that is still to be put."""
        self._open = True
        return self.position()

    def sizes(self) -> list[int]:
        """The bytes of each array that has memory of the driver's."""
        return [x.nbytes for x in self.arrays if not x.deleted]

    def mark(self) -> int:
        """Put a mark after all that was asked for; its number."""
        self._asked += 1
        self._open = False
        self._programs[(self._asked + 1) % len(self._events)] = None
        self._call("cuEventRecord", self._event(self._asked), self._compute)
        return self._asked

    def _event(self, mark: int) -> int:
        return self._events[mark % len(self._events)]

    def _reach(self, mark: int) -> int:
        """The event of a mark, which is put where it is not there yet."""
        if mark > self._asked:
            self.mark()
        return self._event(mark)

    def is_done(self, mark: int) -> bool:
        """Whether the GPU has come to a mark."""
        if mark > self._done:
            self._here()
            if not self._has_come(self._reach(mark)):
                return False
            self._done = max(self._done, mark)
        return True

    def wait(self, mark: int) -> None:
        """Wait for a mark.

        Raises:
          DeviceError: what was asked for failed, or took too long.
        """
        if mark > self._done:
            self._here()
            self._wait_for(self._reach(mark))
            self._done = max(self._done, mark)

    def _has_come(self, event: int) -> bool:
        error = self.table("cuEventQuery", event)
        if error not in (api.SUCCESS, api.NOT_READY):
            raise self._failure("cuEventQuery", error)
        return error == api.SUCCESS

    def _wait_for(self, event: int) -> None:
        begin = time.monotonic()
        while not self._has_come(event):
            waited, limit = time.monotonic() - begin, failures.time_limit()
            if 0 < limit < waited:
                raise failures.too_long(self.name, self._running())
            time.sleep(waited / 8)

    # ---- memory -------------------------------------------------------------------------------

    def allocate(self, nbytes: int, what: str) -> tuple[GpuBlock, int]:
        """New memory, with any content, and the mark of its last use.

        Raises:
          OutOfDeviceMemory: there is not as much.
        """
        size = size_class(nbytes)
        waiting = self._free.get(size)
        if waiting:
            address, mark = waiting.pop()
            self._hits += 1
            self._cached -= size
        else:
            address, mark = self._from_driver(size, what), 0
            self._allocations += 1
        self._in_use += size
        self._peak = max(self._peak, self._in_use)
        return GpuBlock(self, address, size), mark

    def _from_driver(self, size: int, what: str) -> int:
        self._here()
        place = ctypes.c_uint64()
        out = ctypes.addressof(place)
        error = self.table("cuMemAlloc_v2", out, size)
        if error == api.OUT_OF_MEMORY and self._cached:
            self.trim()
            error = self.table("cuMemAlloc_v2", out, size)
        if error == api.OUT_OF_MEMORY:
            said = self.table.error_text(error)
            arrays = [(x.label, x.nbytes) for x in self.arrays if not x.deleted]
            raise failures.no_memory(self.name, what, size, arrays, said)
        if error:
            raise self._failure("cuMemAlloc_v2", error)
        return place.value

    def give_back(self, address: int, size: int) -> None:
        """Keep memory for the next who asks for as much."""
        self._free.setdefault(size, []).append((address, self.position()))
        self._in_use -= size
        self._cached += size

    def synchronize(self) -> None:
        """Wait for all that was asked for."""
        self.wait(self.position())

    def trim(self) -> None:
        """Return memory that waits to the driver."""
        self.wait(self.position())
        self._here()
        for size, waiting in self._free.items():
            while waiting:
                self._call("cuMemFree_v2", waiting.pop()[0])
                self._cached -= size

    def stats(self) -> PoolStats:
        """What the memory holds and has done."""
        counts = self._in_use, self._cached, self._peak, self._allocations, self._hits
        return PoolStats(*counts)

    # ---- work ---------------------------------------------------------------------------------

    def load(self, ptx: str, name: str) -> int:
        """A kernel of a module, ready to be launched; both are loaded once."""
        found = self._kernels.get((ptx, name))
        if found is None:
            self._here()
            module = self._modules.get(ptx)
            if module is None:
                module = self._made("cuModuleLoadData", ctypes.c_char_p(ptx.encode()))
                self._modules[ptx] = module
            found = self._made("cuModuleGetFunction", module, ctypes.c_char_p(name.encode()))
            self._kernels[ptx, name] = found
        return found

    def begin(self, program: RuntimeProgram) -> None:
        """Begin to ask for a program's work, which ends with the next mark."""
        self._here()
        self._programs[(self._asked + 1) % len(self._events)] = program

    def upload(self, address: int, data: Bytes, mark: int) -> int:
        """Copy bytes of the host, which may change afterwards; the mark that they are there at.

        Args:
          address: where to.
          data: what.
          mark: of the last use of the memory.
        """
        self._here()
        if mark > self._done:
            self._call("cuStreamWaitEvent", self._up, self._reach(mark), 0)
        self._call("cuMemcpyHtoDAsync_v2", address, data.ctypes.data, data.nbytes, self._up)
        (copied, _) = self._copied
        self._call("cuEventRecord", copied, self._up)
        self._call("cuStreamWaitEvent", self._compute, copied, 0)
        self._open = True
        return self.position()

    def download(self, address: int, data: Bytes, mark: int) -> None:
        """Copy bytes to the host, and wait for them.

        Args:
          address: where from.
          data: where to.
          mark: after which they are there.
        """
        self.wait(mark)  # here, for the driver takes its time for memory that may be paged out
        self._here()
        self._call("cuMemcpyDtoHAsync_v2", data.ctypes.data, address, data.nbytes, self._down)
        (_, copied) = self._copied
        self._call("cuEventRecord", copied, self._down)
        self._wait_for(copied)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes from one place of the device to another."""
        self._here()
        self._open = True
        self._call("cuMemcpyDtoDAsync_v2", target, source, nbytes, self._compute)

    def put(self, address: int, data: Bytes) -> None:
        """Copy bytes of the host, as the next thing that the GPU does."""
        self._here()
        self._open = True
        self._call("cuMemcpyHtoDAsync_v2", address, data.ctypes.data, data.nbytes, self._compute)

    def launch(
        self,
        kernel: int,
        grid: int,
        block: int,
        addresses: Sequence[int],
        numbers: NDArray[np.int64],
    ) -> None:
        """Run a kernel over a grid of blocks.

        Args:
          kernel: what :meth:`load` gave.
          grid: how many blocks.
          block: how many threads each has.
          addresses: of the arrays.
          numbers: the run-time arguments.
        """
        self._open = True
        given, _kept = self.parameters(addresses, numbers)
        sizes = grid, 1, 1, block, 1, 1, 0
        at = ctypes.addressof(given)
        self._call("cuLaunchKernel", kernel, *sizes, self._compute, at, None)

    @staticmethod
    def parameters(addresses: Sequence[int], numbers: NDArray[np.int64]) -> tuple[Any, Any]:
        """What a kernel is given, as the driver reads it, and what keeps it."""
        places = (api.PLACE * max(len(addresses), 1))(*addresses)
        first = ctypes.addressof(places)
        arguments = [first + ctypes.sizeof(api.PLACE) * n for n in range(len(addresses))]
        return (api.P * (len(arguments) + 1))(*arguments, numbers.ctypes.data), (places, numbers)

    def launch_graph(self, graph: int) -> None:
        """Run an executable graph."""
        self._open = True
        self._call("cuGraphLaunch", graph, self._compute)


def gpu_count(table: Table) -> int:
    """How many GPUs the driver knows.

    Raises:
      UnavailableError: it cannot be asked.
    """
    count = ctypes.c_int()
    for function, arguments in (
        ("cuInit", (0,)),
        ("cuDeviceGetCount", (ctypes.addressof(count),)),
    ):
        error = table(function, *arguments)
        if error == api.NO_DEVICE:
            return 0
        if error:
            raise UnavailableError(
                "NVIDIA's driver does not work",
                got=f"{function}: {table.error_text(error)} (error {error})",
                fix="nvidia-smi tells more; the kernel module and libcuda.so.1 have one version",
            )
    return count.value
