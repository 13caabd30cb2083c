"""Modules of PTX: all new kernels of a program are made in one call of LLVM, and loaded at once.

A kernel's text is looked for in memory, then on disk (:mod:`functrax.backends.disk_cache`), and
only then given to LLVM.  In a block :func:`one_module` what is asked for waits for the block's
end; LLVM gets what is new in one module, and the driver gets all of it, found on disk or new, in
one module.  A process that finds all of its kernels on disk gives LLVM nothing to do.

Start at :func:`kernel_text`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from weakref import WeakValueDictionary

from functrax.backends import disk_cache
from functrax.backends.compile_log import found, step
from functrax.backends.machine_code.code_generator import library
from functrax.backends.machine_code.kernel_jit import KEPT
from functrax.backends.ptx.assemble import ptx
from functrax.backends.ptx.emit import DeviceKernel, module
from functrax.backends.ptx.pieces import alone, joined
from functrax.backends.targets import Target
from functrax.backends.targets.nvptx import OPTIMIZATION
from functrax.core.process.locks import new_rlock
from functrax.core.records import record


@record(eq=False)
class Texts:
    """The PTX of a kernel.

    Args:
      own: a module with the kernel alone.
      module: the module that it is loaded in, which is the same text for others of its program.
    """

    own: str
    module: str


class WaitingText:
    """A kernel whose PTX may not be made yet.

    Args:
      kernel: the kernel as LLVM IR.
      target: the GPU.
      key: of the text and the target.
    """

    def __init__(self, kernel: DeviceKernel, target: Target, key: bytes) -> None:
        self.kernel, self.target, self.key = kernel, target, key
        self.llvm: Final = module([kernel])
        #: What was on disk when it was asked for.
        self.on_disk: str | None = None
        self.texts: Texts | None = None

    def made(self) -> Texts:
        """Its PTX, made now if it was not."""
        if self.texts is None:
            _make([self])
        assert self.texts is not None
        return self.texts


class _Open(threading.local):
    """What this thread has asked for in a block."""

    waiting: list[WaitingText] | None = None


_open: Final = _Open()
_known: Final[WeakValueDictionary[bytes, WaitingText]] = WeakValueDictionary()
_recent: Final[dict[bytes, WaitingText]] = {}  # the last to be used is the last
_lock: Final = new_rlock()


def kernel_text(kernel: DeviceKernel, target: Target) -> WaitingText:
    """The PTX of a kernel, which is made now or at the end of a block :func:`one_module`.

    Args:
      kernel: the kernel; its name is of no other text.
      target: the GPU.

    Raises:
      VerificationError: an operation that there are no instructions for.
    """
    key = disk_cache.content_key(_circumstances(target), module([kernel]))
    with _lock:
        text = _known.get(key)
        if text is None:
            text = WaitingText(kernel, target, key)
            entry = disk_cache.current().get(key)
            if entry is not None:
                text.on_disk = entry.payload.decode()
            found("llvm" if entry is None else "disk")
        else:
            found("memory")
        _known[key] = text
        _recent.pop(key, None)
        _recent[key] = text
        if len(_recent) > KEPT:
            del _recent[next(iter(_recent))]
    if text.texts is None:
        if _open.waiting is None:
            _make([text])
        elif text not in _open.waiting:
            _open.waiting.append(text)
    return text


@contextmanager
def one_module() -> Iterator[None]:
    """Let kernels that are asked for in this block be one module, made at its end."""
    if _open.waiting is not None:
        yield
        return
    waiting = _open.waiting = []
    try:
        yield
    finally:
        _open.waiting = None
    _make(waiting)


def _make(waiting: Sequence[WaitingText]) -> None:
    """Make the PTX of kernels for one target."""
    asked = [x for x in waiting if x.texts is None]  # which another thread may have made
    new = [x for x in asked if x.on_disk is None]
    own = {x.key: x.on_disk for x in asked if x.on_disk is not None}
    own |= _compiled(new) if new else {}
    if asked:
        together = joined(own.values())
        for x in asked:
            x.texts = Texts(own[x.key], together)


def _compiled(new: Sequence[WaitingText]) -> dict[bytes, str]:
    """What LLVM makes of kernels, each by itself; it is written to disk."""
    names = [x.kernel.name for x in new]
    begin = time.perf_counter()
    with step("llvm", " + ".join(names)):
        texts = alone(ptx(module([x.kernel for x in new]), new[0].target), names)
    took = (time.perf_counter() - begin) * 1e3
    cache, about = disk_cache.current(), f"{took:.1f} ms by LLVM for {len(new)} kernels"
    for x in new:
        cache.put(x.key, texts[x.kernel.name].encode(), about)
    return {x.key: texts[x.kernel.name] for x in new}


def _circumstances(target: Target) -> str:
    """Everything but its text that decides what a kernel's PTX is."""
    version = sys.modules["functrax"].__version__
    return "\n".join((version, library(), target.triple, target.cpu, f"O{OPTIMIZATION}"))
