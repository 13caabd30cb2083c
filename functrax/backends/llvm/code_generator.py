"""LLVM, through llvmlite: from text to object code or assembly for this machine.

This is the only module that imports llvmlite, and it does so when the first new kernel is compiled:
a process that finds all of its kernels on disk never does.  :func:`library` identifies the LLVM
that there is without loading it, for the keys of the disk cache.

Several threads may compile at the same time: each call has a target machine of its own, and goes
around llvmlite's lock (:mod:`functrax.backends.llvm.unlocked`).

Start at :func:`generator`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache, partial
from importlib.machinery import PathFinder
from typing import Any, Final

from functrax.backends.cpu_info import cpu_info
from functrax.backends.llvm.unlocked import Calls
from functrax.core.locks import new_lock

#: How well instructions are selected and scheduled; no passes run before that.
OPTIMIZATION: Final = 2
#: A part of it takes a third of the time and does nothing for kernels: rewriting the addresses in
#: loops, which are short sums as they are written.
LEFT_OUT: Final = "disable-lsr"


class _LeftOut:
    """A block in which LLVM does without ``LEFT_OUT``, if it is needed.

    Other users of LLVM in this process may want it.  Switching takes 0.2 ms: who compiles several
    kernels puts one block around them all; blocks nest, and several threads may be in one.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._inside = 0
        self._switch: Any = None  # switches it on again

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._switch is not None:
                self._switch()
                self._switch = None

    def need(self, llvm: Any) -> None:
        """Switch it off, inside a block."""
        with self._lock:
            if self._switch is None:
                llvm.set_option("", f"-{LEFT_OUT}=true")
                self._switch = partial(llvm.set_option, "", f"-{LEFT_OUT}=false")


left_out: Final = _LeftOut()


class CodeGenerator:
    """The target machines of a process, which are all alike.

    Args:
      cpu: the name of the processor, as LLVM knows it.
      features: its instruction sets, as LLVM sees them.
      version: of LLVM.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        kind = cpu_info().kind
        self.cpu: str = kind or llvm.get_host_cpu_name()
        self.features: str = "" if kind else llvm.get_host_cpu_features().flatten()
        self.version = ".".join(map(str, llvm.llvm_version_info))
        self._machine = self._new_machine()
        self._free: list[Any] = []  # machines that no thread uses now
        self._calls = Calls(llvm.ffi.lib._name)
        self._linker: Any = None
        self._linked = 0
        self._lock = new_lock()  # of the two above

    def _new_machine(self) -> Any:
        return self._llvm.Target.from_default_triple().create_target_machine(
            cpu=self.cpu,
            features=self.features,
            opt=OPTIMIZATION,
            reloc="pic",
            codemodel="small",
        )

    def object_code(self, text: str) -> bytes:
        """A module as an object file; several threads may ask for some at the same time.

        Raises:
          RuntimeError: if LLVM does not take the text.
        """
        try:
            machine = self._free.pop()
        except IndexError:
            machine = self._new_machine()
        address = ctypes.cast(machine._ptr, ctypes.c_void_p).value
        assert address is not None, "a target machine is somewhere"
        with left_out:
            left_out.need(self._llvm)
            code = self._calls.object_code(address, text.encode())
        self._free.append(machine)
        return code

    def assembly(self, text: str) -> str:
        """A module as assembly, for people."""
        with left_out:
            left_out.need(self._llvm)
            lines: str = self._machine.emit_assembly(self._llvm.parse_assembly(text))
        return lines

    def link(self, object_code: bytes, name: str) -> tuple[int, Any]:
        """The address of an object's function, and what keeps it there.

        This takes objects that :mod:`functrax.backends.llvm.object_code` refuses: of another
        format, or with calls of library functions.

        Raises:
          RuntimeError: if the object is damaged, or calls what is not there.
        """
        with self._lock:
            if self._linker is None:
                self._linker = self._llvm.create_lljit_compiler(self._machine)
            self._linked += 1
            builder = self._llvm.JITLibraryBuilder().add_object_img(object_code)
            library = builder.export_symbol(name).link(self._linker, f"{name}.{self._linked}")
        return library[name], library


_only_one: Final = new_lock()


def generator() -> CodeGenerator:
    """The one of this process.

    Raises:
      ImportError: if llvmlite is not installed.
    """
    with _only_one:
        return _generator()


@cache
def _generator() -> CodeGenerator:
    return CodeGenerator()


@cache
def library() -> str:
    """What tells the LLVM that would be loaded from others: versions, and the library's size.

    Asking the package's metadata would take as long as a program's first call.
    """
    loaded = sys.modules.get("llvmlite")
    found = PathFinder.find_spec("llvmlite") if loaded is None else loaded.__spec__
    if found is None or found.origin is None:
        return "none"
    folder = os.path.dirname(found.origin)
    try:
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            version = file.read()
        binding = os.path.join(folder, "binding")
        names = sorted(name for name in os.listdir(binding) if "llvmlite." in name)
        sizes = [f"{name} {os.stat(os.path.join(binding, name)).st_size}" for name in names]
    except OSError:  # installed in an unusual way: as a zip file, say
        return f"LLVM {generator().version}"
    return "\n".join((version, *sizes))
