"""Arrays in memory that processes share.

An array that is sent to another process (by a queue, a pipe, or as the argument of a ``Process`` of
:mod:`multiprocessing`) is put in a segment of shared memory, once; what travels is the segment's
file descriptor, and the other process looks at the same memory.  The system frees a segment when no
process has it any more, so nothing is left behind.  Other pickles hold the elements.

Descriptors are handed over by the process that sends, when the other asks.  So a process that
multiprocessing started waits at its end until they were asked for (:func:`_wait_until_taken`).

Start at :func:`shared` and :func:`handle`.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
import time
from typing import Any, Final

import numpy as np

from functrax.core.errors import add_note

#: Arrays of fewer bytes are sent as they are: a descriptor costs more than copying them.
LEAST_BYTES: Final = 1 << 16
#: So many seconds a process that ends waits for the next of its arrays to be taken.
PATIENCE: Final = 60.0
#: Of multiprocessing's exit functions those of queues have the priority -5, lower ones come later.
_AFTER_QUEUES: Final = -10

_waits_at_exit: int | None = None  # the process that does, for a fork has other threads


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
    descriptor = DupFd(segment.descriptor)
    _wait_at_exit()
    return descriptor, value.shape, value.dtype, value.flags.writeable


def attached(
    descriptor: Any, shape: tuple[int, ...], dtype: np.dtype[Any], writable: bool
) -> np.ndarray[Any, Any]:
    """The array that a :func:`handle` stands for."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    try:
        taken = descriptor.detach()
    except (EOFError, OSError) as error:
        add_note(error, "an array in shared memory was asked for, but its sender has ended")
        raise
    segment = Segment(taken, max(nbytes, 1), writable=writable)
    return view(segment, shape, dtype, writable=writable)


def _wait_at_exit() -> None:
    """Have this process wait at its end, if multiprocessing started it.

    It waits among multiprocessing's exit functions, before the directory of the socket goes where
    arrays are asked for; the socket itself would go earlier.  If a queue's thread sends its first
    array while these functions run, both come too late to be among them; then a thread waits, for
    threads are waited for after that.
    """
    global _waits_at_exit
    from multiprocessing import parent_process, util

    sharer = _sharer()
    if _waits_at_exit == os.getpid() or parent_process() is None or sharer._listener is None:
        return
    _waits_at_exit = os.getpid()
    sharer._listener._listener._unlink.cancel()
    util.Finalize(None, _wait_until_taken, exitpriority=_AFTER_QUEUES)
    name = "functrax sent arrays"
    threading.Thread(target=_wait_behind_main, name=name, daemon=False).start()


def _sharer() -> Any:
    """What hands over descriptors, which multiprocessing keeps to itself."""
    from multiprocessing import resource_sharer

    return vars(resource_sharer)["_resource_sharer"]


def _wait_behind_main() -> None:
    threading.main_thread().join()
    _wait_until_taken()


def _wait_until_taken() -> None:
    """Wait until no descriptor is left that may be asked for."""
    from multiprocessing import parent_process

    parent, left = parent_process(), _sharer()._cache
    count, since = len(left), time.monotonic()
    while count and parent is not None and parent.is_alive():
        if time.monotonic() - since > PATIENCE:
            return
        time.sleep(0.002)
        if len(left) != count:
            count, since = len(left), time.monotonic()
    with contextlib.suppress(OSError):  # the socket's directory is gone
        _sharer().stop()  # which waits until the last one was handed over


def is_sending(depth: int) -> bool:
    """Whether multiprocessing's pickler asks: who called the caller ``depth`` frames up."""
    module = sys.modules.get("multiprocessing.reduction")
    return module is not None and sys._getframe(depth + 1).f_globals is vars(module)
