"""Arrays of other libraries, and ours for them, by the DLPack protocol and without a copy.

NumPy speaks the protocol for us.  Two things are missing there, and are added here: bfloat16, which
travels as 16-bit integers whose type is renamed in the capsule, and read-only arrays for consumers
of the protocol before version 1.0, which had no word for them.

Memory of GPUs travels in the same capsules: NumPy makes and takes them with the address of the
device's memory, which it does not look at, and the device is written in here.

What enters or leaves shares its memory with the other library, whatever its size.  Arrays are
immutable: who writes to shared memory afterwards changes them, as in JAX.

Start at :func:`exported` and :func:`imported`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

CPU: Final = (1, 0)  # kDLCPU
CUDA: Final = 2  # kDLCUDA
_UNSIGNED, _BFLOAT = 1, 4  # codes of DLDataType
#: Where the code of the element type is in the structure that a capsule of this name holds.
_CODE_OFFSETS: Final = {b"dltensor": 20, b"dltensor_versioned": 52}
#: The type and the number of the device are so many bytes before it.
_TYPE_BEFORE, _NUMBER_BEFORE = 12, 8


class GpuMemory(NamedTuple):
    """An array in the memory of a GPU, row by row.

    Args:
      device: as ``__dlpack_device__`` has it.
      address: of the first element.
      shape: its shape.
      dtype: its dtype.
      owner: what keeps the memory.
      wait: waits until the elements are computed, for streams other than the default one.
    """

    device: tuple[int, int]
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any
    wait: Callable[[], None]


#: By the class of raw values, what finds the memory of one; None for memory of the host.
MEMORY: Final[dict[type, Callable[[Any], GpuMemory | None]]] = {}


def memory_of(raw: Any) -> GpuMemory | None:
    """The memory of a raw value that is on a GPU; None of one on the host."""
    find = MEMORY.get(type(raw))
    return None if find is None else find(raw)


def exported(
    value: np.ndarray[Any, Any],
    aval: ShapedArray,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule of the elements; the arguments are those of ``__dlpack__``.

    Args:
      value: the elements, which may be read-only.
      aval: the array's type, for errors.

    Raises:
      ArgumentError: if another device, or a stream, is asked for.
      DTypeError: if the dtype cannot be exported.
    """
    if stream is not None or tuple(dl_device or CPU) != CPU:
        raise ArgumentError(
            "__dlpack__: the array is in the memory of the host",
            got=f"stream={stream!r}, dl_device={dl_device!r}",
            fix="no stream, and the device (1, 0)",
        )
    if value.dtype == dtypes.float0:
        raise DTypeError(
            "__dlpack__: float0 has no bits",
            got=aval.str_short(),
            fix="an array of numbers; a gradient of float0 is that of an integer",
        )
    if copy:
        value = value.copy()
    is_bfloat = value.dtype == dtypes.bfloat16
    if is_bfloat:
        value = value.view(np.uint16)
    options: dict[str, Any] = {}
    if max_version is not None and max_version[0] >= 1:
        options["max_version"] = max_version
    elif not value.flags.writeable:
        value = _writable_alias(value)
    capsule = value.__dlpack__(**options)
    if is_bfloat:
        _rename(capsule, _UNSIGNED, _BFLOAT)
    return capsule


def exported_memory(
    memory: GpuMemory,
    aval: ShapedArray,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
) -> Any:
    """A capsule of an array on a GPU, without a copy; see :func:`exported`.

    Raises:
      ArgumentError: if another device is asked for, or the stream 0, which could be either of two.
    """
    if tuple(dl_device or memory.device) != memory.device or stream == 0:
        raise ArgumentError(
            "__dlpack__: the array is in the memory of a GPU",
            got=f"stream={stream!r}, dl_device={dl_device!r}",
            fix=f"the device {memory.device}; for a stream -1, 1, 2 or its address",
        )
    if stream not in (None, -1, 1):  # 1 is the default stream, on which programs run
        memory.wait()
    is_bfloat = memory.dtype == dtypes.bfloat16
    shown = _at(memory, np.dtype(np.uint16) if is_bfloat else memory.dtype)
    options: dict[str, Any] = {}
    if max_version is not None and max_version[0] >= 1:
        options["max_version"] = max_version
        shown.flags.writeable = False
    capsule = shown.__dlpack__(**options)
    _set_device(capsule, *memory.device)
    if is_bfloat:
        _rename(capsule, _UNSIGNED, _BFLOAT)
    return capsule


class ArrayInterface:
    """An object with ``__array_interface__``, and what keeps the memory."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__, self.owner = interface, owner


def interface(memory: GpuMemory) -> dict[str, Any]:
    """What the protocols of NumPy and of CUDA for interfaces have in common, of an array."""
    return {
        "data": (memory.address, False),
        "shape": memory.shape,
        "strides": None,
        "typestr": memory.dtype.str,
        "version": 3,
    }


def _at(memory: GpuMemory, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of NumPy's whose elements must not be looked at: they are on a GPU."""
    described = {**interface(memory), "typestr": dtype.str}
    return np.asarray(ArrayInterface(described, memory.owner))


def imported_memory(x: Any) -> np.ndarray[Any, Any]:
    """Where another library's array on a GPU is; its elements must not be looked at.

    What is returned keeps the memory.  Work on the default stream comes after that of the producer.
    """
    producer = _Producer(x, on_gpu=True)
    value: np.ndarray[Any, Any] = np.from_dlpack(producer)
    return value.view(dtypes.bfloat16) if producer.gave_bfloat else value


def imported(x: Any) -> np.ndarray[Any, Any]:
    """The memory of another library's array, as a NumPy array."""
    producer = _Producer(x)
    value: np.ndarray[Any, Any] = np.from_dlpack(producer)
    return value.view(dtypes.bfloat16) if producer.gave_bfloat else value


class _Producer:
    """Gives NumPy the capsule of another library, with bfloat16 as 16-bit integers."""

    def __init__(self, x: Any, on_gpu: bool = False) -> None:
        self._x, self._on_gpu = x, on_gpu
        self.gave_bfloat = False

    def __dlpack__(self, **options: Any) -> Any:
        if self._on_gpu:
            options = {"stream": 1, **{k: v for k, v in options.items() if k == "max_version"}}
        try:
            capsule = self._x.__dlpack__(**options)
        except TypeError:  # a producer of the protocol before 1.0
            capsule = self._x.__dlpack__(**({"stream": 1} if self._on_gpu else {}))
        if self._on_gpu:
            _set_device(capsule, *CPU)
        self.gave_bfloat = _rename(capsule, _BFLOAT, _UNSIGNED)
        return capsule

    def __dlpack_device__(self) -> Any:
        return CPU if self._on_gpu else self._x.__dlpack_device__()


def _writable_alias(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if value.size == 0:
        return np.empty(value.shape, value.dtype)
    interface = dict(value.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(ArrayInterface(interface, value))


@functools.cache
def _capsule_functions() -> tuple[Any, Any, Any]:
    """What gives a capsule's name, with it its pointer, and the byte at an address."""
    import ctypes

    api, capsule = ctypes.pythonapi, ctypes.py_object
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, capsule)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, capsule, ctypes.c_char_p)
    return name_of, pointer(("PyCapsule_GetPointer", api)), ctypes.c_uint8.from_address


def _rename(capsule: Any, before: int, after: int) -> bool:
    """Change the code of the element type in a capsule, if it is ``before``."""
    name_of, pointer_of, byte_at = _capsule_functions()
    name = name_of(capsule)
    pointer = pointer_of(capsule, name)
    code = byte_at(pointer + _CODE_OFFSETS[name])
    if code.value != before:
        return False
    code.value = after
    return True


def _set_device(capsule: Any, kind: int, number: int) -> None:
    """Change the device in a capsule."""
    import ctypes

    name_of, pointer_of, _ = _capsule_functions()
    name = name_of(capsule)
    code = pointer_of(capsule, name) + _CODE_OFFSETS[name]
    ctypes.c_int32.from_address(code - _TYPE_BEFORE).value = kind
    ctypes.c_int32.from_address(code - _NUMBER_BEFORE).value = number
