"""NVIDIA's driver, ``libcuda.so.1``, which is opened when it is needed.

Signatures are those of *CUDA Driver API*, https://docs.nvidia.com/cuda/cuda-driver-api/.

Start at :class:`LibCuda`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from functrax.backends.cuda.driver import Bytes, Driver, KernelUsage

_I: Final = ctypes.c_int
_U: Final = ctypes.c_uint
_P: Final = ctypes.c_void_p
_PLACE: Final = ctypes.c_uint64  # of device memory
_SIZE: Final = ctypes.c_size_t

#: The arguments of the functions that are used; each returns an error's number.
SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (_U,),
    "cuGetErrorString": (_I, ctypes.POINTER(ctypes.c_char_p)),
    "cuDeviceGet": (ctypes.POINTER(_I), _I),
    "cuDeviceGetCount": (ctypes.POINTER(_I),),
    "cuDeviceGetName": (ctypes.c_char_p, _I, _I),
    "cuDeviceGetAttribute": (ctypes.POINTER(_I), _I, _I),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(_P), _I),
    "cuCtxSetCurrent": (_P,),
    "cuMemAlloc_v2": (ctypes.POINTER(_PLACE), _SIZE),
    "cuMemFree_v2": (_PLACE,),
    "cuMemcpyHtoD_v2": (_PLACE, _P, _SIZE),
    "cuMemcpyDtoH_v2": (_P, _PLACE, _SIZE),
    "cuMemcpyDtoD_v2": (_PLACE, _PLACE, _SIZE),
    "cuModuleLoadData": (ctypes.POINTER(_P), ctypes.c_char_p),
    "cuModuleGetFunction": (ctypes.POINTER(_P), _P, ctypes.c_char_p),
    "cuFuncGetAttribute": (ctypes.POINTER(_I), _I, _P),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (ctypes.POINTER(_I), _P, _I, _SIZE),
    "cuCtxSynchronize": (),
    "cuLaunchKernel": (_P, *(_U,) * 7, _P, ctypes.POINTER(_P), ctypes.POINTER(_P)),
}
_OUT_OF_MEMORY: Final = 2
#: The numbers of attributes of a device: the compute capability, threads of a multiprocessor.
_MAJOR, _MINOR, _MOST_THREADS = 75, 76, 39
#: The numbers of attributes of a kernel.
_SHARED, _LOCAL, _REGISTERS = 1, 3, 4


class LibCuda(Driver):
    """The first GPU that the driver knows.

    Work is asked for in order on the default stream.
    """

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise RuntimeError(
                "no driver of NVIDIA's: libcuda.so.1 cannot be opened; install the driver, or set "
                "FUNCTRAX_CUDA_DRIVER=simulated"
            ) from error
        self._functions: dict[str, Any] = {}
        for name, arguments in SIGNATURES.items():
            function = getattr(library, name, None)
            if function is None:
                raise RuntimeError(f"NVIDIA's driver is too old: it has no {name}")
            function.argtypes, function.restype = arguments, _I
            self._functions[name] = function
        self._call("cuInit", 0)
        count = _I()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        if not count.value:
            raise RuntimeError("NVIDIA's driver knows no GPU")
        device = _I()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, len(text), device)
        self.name = text.value.decode()
        major, minor = (self._attribute(x, device) for x in (_MAJOR, _MINOR))
        self._most_threads = self._attribute(_MOST_THREADS, device)
        self.capability = 10 * major + minor
        #: What was loaded, by the texts; it stays as long as the process.
        self._modules: dict[str, Any] = {}
        self._context = _P()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def _attribute(self, which: int, device: Any) -> int:
        found = _I()
        self._call("cuDeviceGetAttribute", ctypes.byref(found), which, device)
        return found.value

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
          MemoryError: there is not as much memory.
          RuntimeError: says what the driver says.
        """
        error = self._functions[name](*arguments)
        if not error:
            return
        text = ctypes.c_char_p()
        self._functions["cuGetErrorString"](error, ctypes.byref(text))
        said = (text.value or b"an unknown error").decode()
        if error == _OUT_OF_MEMORY:
            raise MemoryError(f"{self.name}: {said}")
        raise RuntimeError(f"{name}: {said} (error {error} of NVIDIA's driver)")

    def _here(self) -> None:
        """Let this thread use the GPU."""
        self._call("cuCtxSetCurrent", self._context)

    def allocate(self, nbytes: int) -> int:
        self._here()
        place = _PLACE()
        self._call("cuMemAlloc_v2", ctypes.byref(place), nbytes)
        return place.value

    def free(self, address: int) -> None:
        self._here()
        self._call("cuMemFree_v2", address)

    def write(self, address: int, data: Bytes) -> None:
        self._here()
        self._call("cuMemcpyHtoD_v2", address, data.ctypes.data, data.nbytes)

    def read(self, address: int, data: Bytes) -> None:
        self._here()
        self._call("cuMemcpyDtoH_v2", data.ctypes.data, address, data.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._here()
        self._call("cuMemcpyDtoD_v2", target, source, nbytes)

    def synchronize(self) -> None:
        self._here()
        self._call("cuCtxSynchronize")

    def usage(self, kernel: Any, block: int) -> KernelUsage:
        self._here()
        found = []
        for which in (_SHARED, _REGISTERS, _LOCAL):
            number = _I()
            self._call("cuFuncGetAttribute", ctypes.byref(number), which, kernel)
            found.append(number.value)
        blocks = _I()
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        self._call(name, ctypes.byref(blocks), kernel, block, 0)
        shared, registers, local = found
        return KernelUsage(shared, registers, local, blocks.value * block / self._most_threads)

    def load(self, ptx: str, name: str) -> Any:
        self._here()
        module, function = self._modules.get(ptx), _P()
        if module is None:
            module = _P()
            self._call("cuModuleLoadData", ctypes.byref(module), ptx.encode())
            self._modules[ptx] = module
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(
        self,
        kernel: Any,
        grid: int,
        block: int,
        addresses: Sequence[int],
        numbers: NDArray[np.int64],
    ) -> None:
        self._here()
        places = (_PLACE * max(len(addresses), 1))(*addresses)
        first = ctypes.addressof(places)
        arguments = [first + 8 * n for n in range(len(addresses))]
        given = (_P * (len(arguments) + 1))(*arguments, numbers.ctypes.data)
        self._call("cuLaunchKernel", kernel, grid, 1, 1, block, 1, 1, 0, None, given, None)
