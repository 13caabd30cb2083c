"""A libcuda for programs in C, whose functions are those of a simulated GPU.

Start at :class:`FakeLibcuda`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from functrax.backends.cuda import driver as api
from functrax.backends.cuda.simulated import SimulatedDriver
from functrax.backends.cuda.simulated_graphs import put
from tests.aot.building import STRICT, run

HERE: Final = Path(__file__).parent
#: What programs in C call and programs in Python do not.
_MORE: Final[dict[str, tuple[Any, ...]]] = {
    "cuDevicePrimaryCtxRelease_v2": (api.INT,),
    "cuCtxPushCurrent_v2": (api.P,),
    "cuCtxPopCurrent_v2": (api.P,),
    "cuCtxGetDevice": (api.P,),
    "cuCtxSynchronize": (),
    "cuMemcpyHtoD_v2": (api.PLACE, api.P, api.SIZE),
    "cuStreamSynchronize": (api.P,),
    "cuModuleUnload": (api.P,),
}


class FakeLibcuda:
    """The library, and what was asked of it.

    Args:
      folder: where it is built.
      seed: of the simulated GPU.

    Attributes:
      path: of the library.
      driver: the simulated GPU.
      calls: how often each function was called.
      launches: the name of each kernel that was launched, the blocks and the threads of one.
      alter: functions that are called instead, with the function before and its arguments.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.path = folder / "libfakecuda.so"
        run("gcc", *STRICT, "-shared", "-fPIC", "-o", self.path, HERE / "fake_libcuda.c")
        self.library = ctypes.CDLL(str(self.path))
        self.driver = SimulatedDriver(seed)
        self.driver._handles[0] = self.driver.queues.stream()  # the default stream
        self.calls: dict[str, int] = {}
        self.launches: list[tuple[str, int, int]] = []
        self.alter: dict[str, Callable[..., int]] = {}
        self._kept: list[Any] = []
        self._stacks: dict[int, list[int]] = {}  # Python's locals of a thread of C end with a call
        table = self.driver.table.addresses
        for name, types in (api.SIGNATURES | _MORE).items():
            prototype = ctypes.CFUNCTYPE(api.INT, *types)
            before = prototype(table[name]) if name in table else getattr(self, "_" + name)
            function = prototype(self._called(name, before))
            self._kept.append(function)
            address = ctypes.cast(function, ctypes.c_void_p)
            missing = self.library.fake_libcuda_set(name.encode(), address)
            assert not missing or name in api.SIGNATURES, name

    @property
    def option(self) -> str:
        """What a compiler of C is told."""
        return f'-DFUNCTRAX_LIBCUDA="{self.path}"'

    @property
    def stack(self) -> list[int]:
        """The contexts that this thread has pushed."""
        return self._stacks.setdefault(threading.get_ident(), [])

    def _called(self, name: str, before: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls[name] = self.calls.get(name, 0) + 1
            if name in self.alter:
                return self.alter[name](before, *arguments)
            if name.startswith(("cuMem", "cuModule", "cuLaunch", "cuStream")) and not self.stack:
                return 201  # CUDA_ERROR_INVALID_CONTEXT
            if name == "cuLaunchKernel":
                function, grid, _, _, block, *_ = arguments
                kernel = self.driver.of_handle(function).name
                self.launches.append((kernel, grid, block))
            return before(*arguments)

        return call

    # ---- what simulated GPUs do not have ------------------------------------------------------

    def _cuDevicePrimaryCtxRelease_v2(self, device: int) -> int:
        return 0

    def _cuCtxPushCurrent_v2(self, context: int) -> int:
        self.driver.of_handle(context)
        self.stack.append(context)
        return 0

    def _cuCtxPopCurrent_v2(self, out: int) -> int:
        if not self.stack:
            return 201
        put(out, ctypes.c_void_p, self.stack.pop())
        return 0

    def _cuCtxGetDevice(self, out: int) -> int:
        put(out, ctypes.c_int, 0)
        return 0

    def _cuCtxSynchronize(self) -> int:
        return max([self._finished(x) for x in range(len(self.driver.queues._clocks))], default=0)

    def _finished(self, stream: int) -> int:
        with self.driver._lock:
            if not self.driver._broken:
                try:
                    self.driver.queues.finish(stream)
                except BaseException as error:  # of a kernel, as the simulated GPU keeps it
                    self.driver.fault, self.driver._broken = error, api.LAUNCH_FAILED
            return self.driver._broken

    def _cuStreamSynchronize(self, stream: int | None) -> int:
        return self._finished(self.driver.of_handle(stream or 0))

    def _cuMemcpyHtoD_v2(self, place: int, source: int, nbytes: int) -> int:
        with self.driver._lock:  # who gives memory that may be paged out does not wait for the end
            content = np.frombuffer(ctypes.string_at(source, nbytes), np.uint8)
            self.driver._write(0, place, content, "a copy to the device")
        return 0

    def _cuModuleUnload(self, module: int) -> int:
        self.driver.forget(module)
        return 0
