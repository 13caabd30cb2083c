"""Arrays of other libraries, and ours for them, by the DLPack protocol and without a copy.

NumPy speaks the protocol for us.  Two things are missing there, and are added here: bfloat16, which
travels as 16-bit integers whose type is renamed in the capsule, and read-only arrays for consumers
of the protocol before version 1.0, which had no word for them.

What enters or leaves shares its memory with the other library, whatever its size.  Arrays are
immutable: who writes to shared memory afterwards changes them, as in JAX.

Start at :func:`exported` and :func:`imported`.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

CPU: Final = (1, 0)  # kDLCPU
_UNSIGNED, _BFLOAT = 1, 4  # codes of DLDataType
#: Where the code of the element type is in the structure that a capsule of this name holds.
_CODE_OFFSETS: Final = {b"dltensor": 20, b"dltensor_versioned": 52}


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


def imported(x: Any) -> np.ndarray[Any, Any]:
    """The memory of another library's array, as a NumPy array."""
    producer = _Producer(x)
    value: np.ndarray[Any, Any] = np.from_dlpack(producer)
    return value.view(dtypes.bfloat16) if producer.gave_bfloat else value


class _Producer:
    """Gives NumPy the capsule of another library, with bfloat16 as 16-bit integers."""

    def __init__(self, x: Any) -> None:
        self._x = x
        self.gave_bfloat = False

    def __dlpack__(self, **options: Any) -> Any:
        try:
            capsule = self._x.__dlpack__(**options)
        except TypeError:  # a producer of the protocol before 1.0
            capsule = self._x.__dlpack__()
        self.gave_bfloat = _rename(capsule, _BFLOAT, _UNSIGNED)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self._x.__dlpack_device__()


class _Memory:
    """Shows NumPy an array's memory as writable, and keeps the array."""

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        interface = dict(value.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.value = value


def _writable_alias(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if value.size == 0:
        return np.empty(value.shape, value.dtype)
    return np.asarray(_Memory(value))


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
