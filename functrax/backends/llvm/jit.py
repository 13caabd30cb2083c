"""From LLVM IR to machine code in this process.

A text is looked for in memory, then on disk (:mod:`functrax.backends.disk_cache`), and only then
given to LLVM (:mod:`functrax.backends.llvm.code_generator`).  Object code is loaded by functrax
itself (:mod:`functrax.backends.llvm.object_code`), so a process that finds all of its kernels on
disk does not load LLVM.

Start at :func:`compile_texts`.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from functrax.backends import disk_cache
from functrax.backends.compile_log import found
from functrax.backends.cpu_info import cpu_info
from functrax.backends.llvm import object_code
from functrax.backends.llvm.code_generator import (
    LEFT_OUT,
    OPTIMIZATION,
    CodeGenerator,
    generator,
    library,
)
from functrax.core.records import record

_DEFINED: Final = re.compile(r"^define (?!internal)[^@]*@([\w.]+)\(", re.MULTILINE)
#: Kernels that stay in memory although nobody uses them, for programs made again and again.
KEPT: Final = 256


@record
class Compiled:
    """Machine code of a kernel.

    Args:
      address: of the function; valid as long as this object lives.
      symbol: a name for it, which follows from its text and the machine.
      library: keeps the code alive.
      milliseconds: that it took to get it.
      origin: whether LLVM made it now, or it was on disk.
    """

    address: int
    symbol: str
    library: Any
    milliseconds: float
    origin: Literal["llvm", "disk"]


class Machine:
    """What compiles and remembers the kernels of a process.

    Args:
      vector_bytes: the width of the processor's vector registers.
      count: how many kernels LLVM has compiled.
    """

    def __init__(self) -> None:
        self.vector_bytes = cpu_info().vector_bytes
        self.count = 0
        self._known: WeakValueDictionary[bytes, Compiled] = WeakValueDictionary()
        self._recent: dict[bytes, Compiled] = {}  # the last to be used is the last
        self._lock = threading.RLock()

    @property
    def generator(self) -> CodeGenerator:
        """LLVM, which is loaded when it is asked for."""
        return generator()

    def compile_all(self, texts: Sequence[str]) -> list[Compiled]:
        """The machine code of modules with one function each."""
        cache = disk_cache.current()
        with self._lock:
            return [self._compile(text, cache) for text in texts]

    def _compile(self, text: str, cache: disk_cache.DiskCache) -> Compiled:
        key = disk_cache.content_key(_circumstances(), text)
        known = self._known.get(key)
        if known is None:
            known = self._from_disk(key, text, cache) or self._from_llvm(key, text, cache)
            self._known[key] = known
            found(known.origin)
        else:
            found("memory")
        self._recent.pop(key, None)
        self._recent[key] = known
        if len(self._recent) > KEPT:
            del self._recent[next(iter(self._recent))]
        return known

    def _from_disk(self, key: bytes, text: str, cache: disk_cache.DiskCache) -> Compiled | None:
        begin = time.perf_counter()
        entry = cache.get(key)
        if entry is None:
            return None
        try:
            address, owner = self._load(entry.payload, text)
        except RuntimeError:  # sound, and yet of no use
            cache.discard(key)
            return None
        return Compiled(address, _symbol(key), owner, _since(begin), "disk")

    def _from_llvm(self, key: bytes, text: str, cache: disk_cache.DiskCache) -> Compiled:
        begin = time.perf_counter()
        llvm = self.generator
        code = llvm.object_code(text)
        address, owner = self._load(code, text)
        self.count += 1
        took = _since(begin)
        cache.put(key, code, f"{took:.1f} ms by LLVM {llvm.version} for {llvm.cpu} {llvm.features}")
        return Compiled(address, _symbol(key), owner, took, "llvm")

    def _load(self, code: bytes, text: str) -> tuple[int, Any]:
        """The address of an object's function, and what keeps it there.

        Raises:
          RuntimeError: if the object is damaged.
        """
        try:
            loaded = object_code.load(code)
        except (ValueError, RuntimeError, OSError):
            return self.generator.link(code, function_name(text))
        return loaded.address, loaded

    def object_code(self, text: str) -> bytes:
        """A module as an object file."""
        return self.generator.object_code(text)

    def assembly(self, text: str) -> str:
        """A module as assembly, for people."""
        return self.generator.assembly(text)


def function_name(text: str) -> str:
    """The name of the function that a module defines for others."""
    found = _DEFINED.search(text)
    assert found is not None, "a kernel's text defines a function"
    return found[1]


def _symbol(key: bytes) -> str:
    return "functrax_" + key.hex()[:32]


def _since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1e3


@cache
def _circumstances() -> str:
    """Everything but its text that decides what a kernel's machine code is."""
    version = sys.modules["functrax"].__version__
    processor = cpu_info().identity or f"{generator().cpu} {generator().features}"
    return "\n".join((version, library(), processor, f"O{OPTIMIZATION} {LEFT_OUT}"))


@cache
def machine() -> Machine:
    """The one of this process."""
    return Machine()


def compile_texts(texts: Sequence[str]) -> list[Compiled]:
    """The machine code of the texts of kernels, compiled the first time."""
    return machine().compile_all(texts)


def compile_text(text: str) -> Compiled:
    """The machine code of a kernel's text, compiled the first time."""
    return machine().compile_all((text,))[0]
