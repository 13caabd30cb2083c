"""Arrays in memory that processes share.

An array that is sent to another process (by a queue, a pipe, or as the argument of a ``Process`` of
:mod:`multiprocessing`) is put in a segment of shared memory, once; what travels is the segment's
file descriptor, and the other process looks at the same memory.  The system frees a segment when no
process has it any more, so nothing is left behind.  Other pickles hold the elements.

Start at :func:`shared` and :func:`handle`.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any, Final

import numpy as np

#: Arrays of fewer bytes are sent as they are: a descriptor costs more than copying them.
LEAST_BYTES: Final = 1 << 16


class Segment(mmap.mmap):
    """A piece of shared memory, mapped into this process."""

    descriptor: int

    def __new__(cls, descriptor: int, nbytes: int, *, writable: bool) -> Segment:
        """Map the memory of a descriptor, which the segment takes."""
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        try:
            made = super().__new__(cls, descriptor, nbytes, mmap.MAP_SHARED, access)
        except (OSError, ValueError):
            os.close(descriptor)
            raise
        made.descriptor = descriptor
        return made

    def __del__(self) -> None:
        os.close(self.descriptor)


def available() -> bool:
    """Whether the system has memory that can be shared so."""
    return hasattr(os, "memfd_create")


def new_segment(nbytes: int) -> Segment:
    """A segment of zeros, writable."""
    descriptor = os.memfd_create("functrax", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, max(nbytes, 1))
    return Segment(descriptor, max(nbytes, 1), writable=True)


def segment_of(value: np.ndarray[Any, Any]) -> Segment | None:
    """The segment whose first bytes the array is; None if it is elsewhere."""
    base: Any = value
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.obj if isinstance(base, memoryview) else base.base
    if not isinstance(base, Segment) or not value.flags.c_contiguous:
        return None
    whole = np.frombuffer(base, np.uint8)
    return base if value.ctypes.data == whole.ctypes.data else None


def view(
    segment: Segment, shape: tuple[int, ...], dtype: np.dtype[Any], *, writable: bool
) -> np.ndarray[Any, Any]:
    """The first bytes of a segment as an array."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    array = np.frombuffer(segment, np.uint8, count).view(dtype).reshape(shape)
    array.flags.writeable = writable
    return array


def shared(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in shared memory, read-only; the same object if it is there already."""
    if segment_of(value) is not None:
        return value
    segment = new_segment(value.nbytes)
    view(segment, value.shape, value.dtype, writable=True)[...] = value
    return view(segment, value.shape, value.dtype, writable=False)


def handle(value: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """What :func:`attached` makes the same array of, in the process that it is sent to."""
    from multiprocessing.reduction import DupFd

    segment = segment_of(value)
    assert segment is not None, "the array is not in shared memory"
    return DupFd(segment.descriptor), value.shape, value.dtype, value.flags.writeable


def attached(
    descriptor: Any, shape: tuple[int, ...], dtype: np.dtype[Any], writable: bool
) -> np.ndarray[Any, Any]:
    """The array that a :func:`handle` stands for."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    segment = Segment(descriptor.detach(), max(nbytes, 1), writable=writable)
    return view(segment, shape, dtype, writable=writable)


def is_sending(depth: int) -> bool:
    """Whether multiprocessing's pickler asks: who called the caller ``depth`` frames up."""
    module = sys.modules.get("multiprocessing.reduction")
    return module is not None and sys._getframe(depth + 1).f_globals is vars(module)
