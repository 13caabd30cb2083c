"""The functions of NVIDIA's driver that functrax calls, as one table.

A table has the driver's own functions, by their documented names and signatures (*CUDA Driver API*,
https://docs.nvidia.com/cuda/cuda-driver-api/), whoever offers them: ``libcuda.so.1``
(``libcuda.py``), a simulated GPU (``simulated.py``), or C++ functions that do nothing.  What runs
programs (``native/cuda_*.cpp`` and its twin ``gpu.py``) knows only the table, so all of it is
tested where there is no GPU.

Start at :class:`Table`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final

INT: Final = ctypes.c_int
U: Final = ctypes.c_uint
P: Final = ctypes.c_void_p
#: An address of device memory, which is not an address of the host's.
PLACE: Final = ctypes.c_uint64
SIZE: Final = ctypes.c_size_t
BYTE: Final = ctypes.c_ubyte

#: The arguments of the functions; each returns an error's number.  ``native/cuda_driver.h`` has the
#: same list.  Pointers to what is written are plain addresses.
SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (U,),
    "cuDriverGetVersion": (P,),
    "cuGetErrorString": (INT, P),
    "cuDeviceGet": (P, INT),
    "cuDeviceGetCount": (P,),
    "cuDeviceGetName": (P, INT, INT),
    "cuDeviceGetAttribute": (P, INT, INT),
    "cuDevicePrimaryCtxRetain": (P, INT),
    "cuCtxSetCurrent": (P,),
    "cuMemAlloc_v2": (P, SIZE),
    "cuMemFree_v2": (PLACE,),
    "cuMemcpyHtoDAsync_v2": (PLACE, P, SIZE, P),
    "cuMemcpyDtoHAsync_v2": (P, PLACE, SIZE, P),
    "cuMemcpyDtoDAsync_v2": (PLACE, PLACE, SIZE, P),
    "cuMemsetD8Async": (PLACE, BYTE, SIZE, P),
    "cuMemsetD32Async": (PLACE, U, SIZE, P),
    "cuModuleLoadData": (P, P),
    "cuModuleGetFunction": (P, P, P),
    "cuFuncGetAttribute": (P, INT, P),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (P, P, INT, SIZE),
    "cuLaunchKernel": (P, U, U, U, U, U, U, U, P, P, P),
    "cuStreamCreate": (P, U),
    "cuStreamWaitEvent": (P, P, U),
    "cuEventCreate": (P, U),
    "cuEventRecord": (P, P),
    "cuEventQuery": (P,),
    "cuGraphCreate": (P, U),
    "cuGraphDestroy": (P,),
    "cuGraphAddKernelNode": (P, P, P, SIZE, P),
    "cuGraphAddMemcpyNode": (P, P, P, SIZE, P, P),
    "cuGraphInstantiateWithFlags": (P, P, ctypes.c_uint64),
    "cuGraphExecKernelNodeSetParams": (P, P, P),
    "cuGraphExecMemcpyNodeSetParams": (P, P, P, P),
    "cuGraphLaunch": (P, P),
    "cuGraphExecDestroy": (P,),
    "cuGraphConditionalHandleCreate": (P, P, P, U, U),
    "cuGraphAddNode": (P, P, P, SIZE, P),
}
#: Those that conditional nodes need, and those of graphs without these.  An old driver may lack
#: them: what runs programs goes on without.
CONDITIONS: Final = frozenset(("cuGraphConditionalHandleCreate", "cuGraphAddNode"))
GRAPHS: Final = frozenset(x for x in SIGNATURES if x.startswith("cuGraph")) - CONDITIONS
#: The driver's version from which on it has conditional nodes of all kinds (CUDA 12.8): switches,
#: and bodies without nodes.
CONDITIONS_SINCE: Final = 12080
#: What functions return (``CUresult``), the flags of streams and events, and the attributes of a
#: device and of a kernel that are asked for.
SUCCESS: Final = 0
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
NO_DEVICE: Final = 100
INVALID_DEVICE: Final = 101
INVALID_PTX: Final = 218
NOT_FOUND: Final = 500
NOT_READY: Final = 600
ILLEGAL_ADDRESS: Final = 700
LAUNCH_TIMEOUT: Final = 702
MISALIGNED_ADDRESS: Final = 716
LAUNCH_FAILED: Final = 719
NOT_SUPPORTED: Final = 801
NON_BLOCKING: Final = 1
DISABLE_TIMING: Final = 2
MAJOR: Final = 75
MINOR: Final = 76
MOST_THREADS: Final = 39
SHARED_BYTES: Final = 1
LOCAL_BYTES: Final = 3
REGISTERS: Final = 4
#: ``CU_GRAPH_NODE_TYPE_CONDITIONAL``, and the kinds of such nodes that are used.
CONDITIONAL: Final = 13
WHILE: Final = 1
SWITCH: Final = 2
#: ``CU_MEMORYTYPE_DEVICE``, and the most bytes of a row that a node copies (a pitch is less).
DEVICE_MEMORY: Final = 2
MOST_COPIED: Final = 2**31 - 1


class KernelNode(ctypes.Structure):
    """A launch in a graph: ``CUDA_KERNEL_NODE_PARAMS`` of the functions without a version."""

    _fields_ = (
        ("function", P),
        ("grid", U * 3),
        ("block", U * 3),
        ("shared", U),
        ("parameters", P),
        ("extra", P),
    )


class _CopySide(ctypes.Structure):
    _fields_ = (
        ("x", SIZE),
        ("y", SIZE),
        ("z", SIZE),
        ("level", SIZE),
        ("kind", U),
        ("host", P),
        ("device", PLACE),
        ("array", P),
        ("reserved", P),
        ("pitch", SIZE),
        ("height", SIZE),
    )


class CopyNode(ctypes.Structure):
    """A copy in a graph: ``CUDA_MEMCPY3D``."""

    _fields_ = (
        ("source", _CopySide),
        ("target", _CopySide),
        ("width", SIZE),
        ("height", SIZE),
        ("depth", SIZE),
    )


class ConditionalNode(ctypes.Structure):
    """A conditional node: ``CUgraphNodeParams`` with ``CUDA_CONDITIONAL_NODE_PARAMS``."""

    _fields_ = (
        ("type", INT),
        ("reserved", INT * 3),
        ("handle", ctypes.c_uint64),
        ("kind", INT),
        ("size", U),
        ("bodies", P),
        ("context", P),
        ("rest", ctypes.c_uint64 * 26),
    )


class Table:
    """Functions of a driver.

    Args:
      functions: by name, each of the type ``prototype(name)``, or an address.
      owner: what keeps them there; a simulated driver has its last ``fault``.

    Attributes:
      addresses: where the functions are.
      has_graphs: whether those of graphs are there.
      has_conditions: whether those of conditional nodes are there, and nodes of all kinds.
      is_simulated: whether a simulated driver offers them.
      libraries: what is known of the libraries beside the driver (``libraries/opened.py``).

    Raises:
      KeyError: a function is missing that is not of graphs.
    """

    def __init__(self, functions: Mapping[str, Any], owner: Any = None) -> None:
        self.owner = owner
        self.libraries: Any = None
        self._functions: dict[str, Callable[..., int]] = {}
        self.addresses: dict[str, int] = {}
        self.is_simulated = hasattr(owner, "fault")
        self.has_graphs = functions.keys() >= GRAPHS
        self.has_conditions = self.has_graphs and functions.keys() >= CONDITIONS
        for name in SIGNATURES:
            if name in GRAPHS and not self.has_graphs:
                continue
            if name in CONDITIONS and not self.has_conditions:
                continue
            given = functions[name]
            address = given if isinstance(given, int) else ctypes.cast(given, P).value
            assert address is not None
            self.addresses[name] = address
            self._functions[name] = prototype(name)(address)
        self._kept = dict(functions)
        if self.has_conditions:
            version = ctypes.c_int()
            error = self("cuDriverGetVersion", ctypes.addressof(version))
            self.has_conditions = error == SUCCESS and version.value >= CONDITIONS_SINCE

    def __call__(self, name: str, *arguments: Any) -> int:
        """Call a function; the error's number."""
        return self._functions[name](*arguments)

    def has_switched_on(self, choice: str) -> bool:
        """Whether an option, "off", "simulated" or "on", is on for this driver."""
        return choice == "on" or (choice == "simulated" and self.is_simulated)

    def error_text(self, error: int) -> str:
        """What the driver says of an error's number."""
        text = ctypes.c_char_p()
        self("cuGetErrorString", error, ctypes.addressof(text))
        return (text.value or b"an unknown error").decode()

    def cause(self) -> BaseException | None:
        """What a simulated driver knows of its last failure."""
        found: BaseException | None = getattr(self.owner, "fault", None)
        return found


def prototype(name: str) -> Any:
    """The C type of a function."""
    return ctypes.CFUNCTYPE(INT, *SIGNATURES[name])
