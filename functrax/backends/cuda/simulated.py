"""A driver without a GPU: it executes PTX on the CPU, and looks for the faults that GPUs hide.

It offers the same C functions as NVIDIA's driver, as callbacks.  Streams are those of
``simulator/queues.py``: work that is asked for is done later, in an order that a seed draws.  As on
a GPU the first failure of a kernel ends all work: every function returns its error from then on,
and ``fault`` is what the simulator says of it.

Start at :class:`SimulatedDriver`.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.cuda import driver as api
from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.simulated_graphs import SimulatedGraphs, Sizes, put
from functrax.backends.cuda.simulator.errors import (
    ConditionFault,
    EndlessLoop,
    MemoryLimitError,
    Misaligned,
    OutOfBounds,
    PtxError,
    UseAfterFree,
)
from functrax.backends.cuda.simulator.launch import Statistics, launch
from functrax.backends.cuda.simulator.memory import DeviceMemory
from functrax.backends.cuda.simulator.module import Module, PtxKernel
from functrax.backends.cuda.simulator.queues import Queues, StreamEvent

#: The error of each fault, the first that fits.
_ERRORS: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (Misaligned, api.MISALIGNED_ADDRESS),
    (OutOfBounds, api.ILLEGAL_ADDRESS),
    (UseAfterFree, api.ILLEGAL_ADDRESS),
    (EndlessLoop, api.LAUNCH_TIMEOUT),
    (BaseException, api.LAUNCH_FAILED),
)
#: Faults that a call has for itself, after which others go on.
_OWN: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (MemoryLimitError, api.OUT_OF_MEMORY),
    (PtxError, api.INVALID_PTX),
)


class SimulatedDriver(SimulatedGraphs):
    """GPUs that do what their PTX says, as slowly as it takes to check each access.

    Args:
      seed: for the order in which streams work.
      devices: how many there are; they share a memory, as one does its work after the other.
      limit: bytes of memory.

    Attributes:
      block_seed: if it is not 0, blocks of each kernel run in an order that is drawn with it.
      fault: why it failed last.
      table: its functions.
      calls: how often each function was called.
    """

    def __init__(self, seed: int = 0, devices: int = 1, limit: int = 1 << 34) -> None:
        self.memory = DeviceMemory(limit)
        self.queues = Queues(self.memory, seed)
        self.fault: BaseException | None = None
        self.devices = devices
        self.block_seed = 0
        self._lock = threading.RLock()
        self.calls = dict.fromkeys(api.SIGNATURES, 0)
        self._broken = api.SUCCESS
        self._handles: dict[int, Any] = {}
        self._numbers = itertools.count(16, 16)
        self._texts: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.table = Table({name: self._callback(name) for name in api.SIGNATURES}, self)

    def _callback(self, name: str) -> Any:
        method: Callable[..., int | None] = getattr(self, "_" + name.removesuffix("_v2"))

        def call(*arguments: Any) -> int:
            self.calls[name] += 1
            if self._broken and name != "cuGetErrorString":
                return self._broken
            return self.done(method, arguments)

        return api.prototype(name)(call)

    def done(self, method: Callable[..., int | None], arguments: Sequence[Any]) -> int:
        """Do what a C function does; its error, which may be that of work that was asked for."""
        try:
            with self._lock:
                return method(*[0 if x is None else x for x in arguments]) or api.SUCCESS
        except BaseException as error:
            self.fault = error
            for kind, number in _OWN:
                if isinstance(error, kind):
                    return number
            self._broken = next(n for kind, n in _ERRORS if isinstance(error, kind))
            return self._broken

    def _new(self, thing: Any) -> int:
        handle = next(self._numbers)
        self._handles[handle] = thing
        return handle

    def handle(self, thing: Any) -> int:
        return self._new(thing)

    def of_handle(self, handle: int) -> Any:
        return self._handles[handle]

    def forget(self, handle: int) -> None:
        del self._handles[handle]

    # ---- devices ------------------------------------------------------------------------------

    def _cuInit(self, flags: int) -> None: ...

    def _cuDriverGetVersion(self, out: int) -> None:
        put(out, ctypes.c_int, api.CONDITIONS_SINCE)

    def _cuGetErrorString(self, error: int, out: int) -> None:
        names = {number: name for name, number in vars(api).items() if type(number) is int}
        text = f"simulated {names.get(error, 'error').lower().replace('_', ' ')}"
        kept = self._texts.setdefault(error, ctypes.create_string_buffer(text.encode()))
        put(out, ctypes.c_void_p, ctypes.addressof(kept))

    def _cuDeviceGet(self, out: int, ordinal: int) -> int:
        if not 0 <= ordinal < self.devices:
            return api.INVALID_DEVICE
        put(out, ctypes.c_int, ordinal)
        return api.SUCCESS

    def _cuDeviceGetCount(self, out: int) -> None:
        put(out, ctypes.c_int, self.devices)

    def _cuDeviceGetName(self, out: int, size: int, device: int) -> None:
        name = f"simulated GPU {device}" if self.devices > 1 else "simulated GPU"
        ctypes.memmove(out, name.encode()[: size - 1] + b"\0", min(len(name) + 1, size))

    def _cuDeviceGetAttribute(self, out: int, which: int, device: int) -> None:
        put(out, ctypes.c_int, {api.MAJOR: 8, api.MINOR: 0}[which])

    def _cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        put(out, ctypes.c_void_p, self._new(device))

    def _cuCtxSetCurrent(self, context: int) -> None:
        assert self._handles[context] in range(self.devices)

    # ---- memory -------------------------------------------------------------------------------

    def _cuMemAlloc(self, out: int, nbytes: int) -> None:
        put(out, ctypes.c_uint64, self.memory.allocate(nbytes))

    def _cuMemFree(self, address: int) -> None:
        self.queues.free(address)

    def _cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        content = np.frombuffer(ctypes.string_at(source, nbytes), np.uint8)  # it is pageable
        self._write(stream, target, content, "a copy to the device")

    def _cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        start = self.start(source)

        def copy() -> tuple[set[int], set[int]]:
            content = self.memory.read(source, nbytes)
            ctypes.memmove(target, content.ctypes.data, nbytes)
            return {start}, set()

        self._ask(stream, "a copy to the host", copy, [start])
        self.queues.finish(self._handles[stream])  # the memory is pageable

    def _cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        starts = [self.start(source), self.start(target)]

        def copy() -> tuple[set[int], set[int]]:
            self.memory.copy(target, source, nbytes)
            return {starts[0]}, {starts[1]}

        self._ask(stream, "a copy", copy, starts)

    def _cuMemsetD8Async(self, target: int, value: int, count: int, stream: int) -> None:
        self._write(stream, target, np.full(count, value, np.uint8), "a fill")

    def _cuMemsetD32Async(self, target: int, value: int, count: int, stream: int) -> None:
        self._write(stream, target, np.full(count, value, np.uint32), "a fill")

    def _write(self, stream: int, target: int, content: np.ndarray[Any, Any], name: str) -> None:
        start = self.start(target)

        def write() -> tuple[set[int], set[int]]:
            self.memory.write(target, content)
            return set(), {start}

        self._ask(stream, name, write, [start])

    def start(self, address: int) -> int:
        region = self.memory.region(address)
        if region is None:
            why = "was freed" if self.memory.was_freed(address) else "is in no allocation"
            raise ValueError(f"{address:#x} {why}")
        return region.start

    def _ask(self, stream: int, name: str, work: Any, uses: Sequence[int]) -> None:
        self.queues.ask(self._handles[stream], name, work, frozenset(uses))

    # ---- kernels ------------------------------------------------------------------------------

    def _cuModuleLoadData(self, out: int, text: int) -> None:
        put(out, ctypes.c_void_p, self._new(Module(ctypes.string_at(text).decode())))

    def _cuModuleGetFunction(self, out: int, module: int, name: int) -> int:
        kernel = self._handles[module].kernels.get(ctypes.string_at(name).decode())
        if kernel is None:
            return api.NOT_FOUND
        put(out, ctypes.c_void_p, self._new(kernel))
        return api.SUCCESS

    def _cuFuncGetAttribute(self, out: int, which: int, function: int) -> int:
        if which != api.SHARED_BYTES:
            return api.NOT_SUPPORTED  # nobody assembles kernels here
        put(out, ctypes.c_int, self._handles[function].shared_bytes)
        return api.SUCCESS

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *arguments: int) -> int:
        return api.NOT_SUPPORTED

    def _cuLaunchKernel(self, function: int, *rest: int) -> None:
        gx, gy, gz, bx, by, bz, shared, stream, parameters, _ = rest
        sizes = (gx, gy, gz), (bx, by, bz), shared
        name, run, uses = self.launching(function, *sizes, parameters, exact=False)

        def work() -> tuple[set[int], set[int]]:
            done = run()
            if done.conditions:
                raise ConditionFault(f"{name} sets a condition, and is no node of a graph")
            return done.read, done.written

        self._ask(stream, name, work, uses)

    def launching(
        self,
        function: int,
        grid: Sizes,
        block: Sizes,
        shared: int,
        parameters: int,
        *,
        exact: bool,
    ) -> tuple[str, Callable[[], Statistics], list[int]]:
        kernel: PtxKernel = self._handles[function]
        given: list[bytes] = []
        uses: set[int] = set()
        for k, parameter in enumerate(kernel.parameters):
            place = ctypes.c_void_p.from_address(parameters + 8 * k).value
            content = ctypes.string_at(place or 0, parameter.size)
            given.append(content)
            region = None
            if parameter.size == 8:
                region = self.memory.region(int.from_bytes(content, "little"))
            if region is not None:
                uses.add(region.start)

        def run() -> Statistics:
            return launch(
                kernel,
                grid,
                block,
                given,
                self.memory,
                shared_bytes=shared,
                seed=self.block_seed,
                exact=exact,
            )

        return f"kernel {kernel.name!r}", run, [*uses]

    # ---- streams and events -------------------------------------------------------------------

    def _cuStreamCreate(self, out: int, flags: int) -> None:
        put(out, ctypes.c_void_p, self._new(self.queues.stream()))

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        self.queues.wait(self._handles[stream], self._handles[event])

    def _cuEventCreate(self, out: int, flags: int) -> None:
        put(out, ctypes.c_void_p, self._new(StreamEvent()))

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self.queues.record(self._handles[event], self._handles[stream])

    def _cuEventQuery(self, event: int) -> int:
        return api.SUCCESS if self.queues.is_done(self._handles[event]) else api.NOT_READY
