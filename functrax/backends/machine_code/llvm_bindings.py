"""LLVM's functions, in the library that llvmlite brings, without llvmlite around them.

Two reasons.  Importing ``llvmlite.binding`` takes several times as long as loading its library, for
it brings sixty modules along; a program's first call would wait for them.  And llvmlite lets one
thread at a time into LLVM, which itself lets threads run side by side as long as each has a context
and a target machine of its own ("Threads and LLVM" in its programmer's manual).

So :class:`Library` finds the functions by name.  Their types are those that llvmlite declares,
which a test compares.  Long calls give Python's lock up; short ones keep it, for giving it up costs
more than they take.  What changes LLVM for the whole process (:meth:`Library.initialize`,
:meth:`Library.set_option`) takes llvmlite's lock where somebody else has imported llvmlite.

Start at :func:`library_file` and :class:`Library`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import ExitStack, nullcontext
from functools import cache, partial
from importlib.machinery import PathFinder
from types import SimpleNamespace
from typing import Any, Final

_P: Final = ctypes.c_void_p
_S: Final = ctypes.c_char_p
_I: Final = ctypes.c_int
_OUT: Final = ctypes.POINTER(ctypes.c_void_p)

#: Results and arguments of the functions that are used.
SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "LLVMPY_InitializeNativeTarget": (None,),
    "LLVMPY_InitializeNativeAsmPrinter": (None,),
    "LLVMPY_InitializeAllTargetInfos": (None,),
    "LLVMPY_InitializeAllTargets": (None,),
    "LLVMPY_InitializeAllTargetMCs": (None,),
    "LLVMPY_InitializeAllAsmPrinters": (None,),
    "LLVMPY_SetCommandLine": (None, _S, _S),
    "LLVMPY_GetVersionInfo": (ctypes.c_uint,),
    "LLVMPY_GetDefaultTargetTriple": (None, _OUT),
    "LLVMPY_GetHostCPUName": (None, _OUT),
    "LLVMPY_GetHostCPUFeatures": (_I, _OUT),
    "LLVMPY_GetTargetFromTriple": (_P, _S, _OUT),
    "LLVMPY_CreateTargetMachine": (_P, _P, _S, _S, _S, _I, _S, _S, _I, _I, _S),
    "LLVMPY_CreateTargetMachineData": (_P, _P),
    "LLVMPY_CopyStringRepOfTargetData": (None, _P, _OUT),
    "LLVMPY_DisposeTargetData": (None, _P),
    "LLVMPY_ContextCreate": (_P,),
    "LLVMPY_ContextDispose": (None, _P),
    "LLVMPY_ParseAssembly": (_P, _P, _S, _OUT),
    "LLVMPY_DisposeModule": (None, _P),
    "LLVMPY_TargetMachineEmitToMemory": (_P, _P, _P, _I, _OUT),
    "LLVMPY_GetBufferStart": (_P, _P),
    "LLVMPY_GetBufferSize": (ctypes.c_size_t, _P),
    "LLVMPY_DisposeMemoryBuffer": (None, _P),
    "LLVMPY_DisposeString": (None, _P),
}
_LONG: Final = (
    "LLVMPY_CreateTargetMachine",
    "LLVMPY_ParseAssembly",
    "LLVMPY_TargetMachineEmitToMemory",
)
_OF_THIS_KIND: Final = ("NativeTarget", "NativeAsmPrinter")
_OF_ALL_KINDS: Final = ("AllTargetInfos", "AllTargets", "AllTargetMCs", "AllAsmPrinters")


@cache
def folder() -> str | None:
    """Where the package llvmlite is, which is not imported; None if it is not installed."""
    loaded = sys.modules.get("llvmlite")
    found = PathFinder.find_spec("llvmlite") if loaded is None else loaded.__spec__
    if found is None or found.origin is None:
        return None
    return os.path.dirname(found.origin)


def library_file() -> str:
    """The path of llvmlite's library.

    Raises:
      ImportError: if llvmlite is not installed.
    """
    name = {"darwin": "libllvmlite.dylib", "win32": "llvmlite.dll"}.get(
        sys.platform, "libllvmlite.so"
    )
    path = os.path.join(folder() or "", "binding", name)
    if os.path.exists(path):
        return path
    from llvmlite.binding import ffi  # installed in an unusual way, or not at all

    return str(ffi.lib._name)


class Library:
    """Functions of LLVM.

    Machines, which :meth:`new_machine` makes, are addresses; they live as long as the process.

    Args:
      path: of the library.
    """

    def __init__(self, path: str) -> None:
        _open(path)
        long, short = ctypes.CDLL(path), ctypes.PyDLL(path)
        self._llvm: Any = SimpleNamespace()  # the functions, by their names without the prefix
        for name, (result, *arguments) in SIGNATURES.items():
            # An object of its own, by subscript: other users' have types of their own.
            function = (long if name in _LONG else short)[name]
            function.restype, function.argtypes = result, arguments
            setattr(self._llvm, name.removeprefix("LLVMPY_"), function)

    def initialize(self, all_kinds: bool = False) -> None:
        """Let LLVM know about this machine's kind of processor, or about all that it can."""
        with _others_lock():
            for name in _OF_ALL_KINDS if all_kinds else _OF_THIS_KIND:
                getattr(self._llvm, f"Initialize{name}")()

    def set_option(self, option: str) -> None:
        """Set one of LLVM's options, for the whole process."""
        with _others_lock():
            self._llvm.SetCommandLine(b"", option.encode())

    def version(self) -> str:
        """Of LLVM."""
        number, parts = self._llvm.GetVersionInfo(), []
        while number:
            parts.append(str(number & 0xFF))
            number >>= 8
        return ".".join(reversed(parts))

    def host(self) -> tuple[str, str]:
        """The name of this processor and its instruction sets, as LLVM knows them."""
        features = self._text(self._llvm.GetHostCPUFeatures).split(",")
        name = self._text(self._llvm.GetHostCPUName)
        return name, ",".join(sorted(features, key=lambda x: x[1:]))

    def new_machine(self, cpu: str, features: str, level: int, system: str = "") -> int:
        """A target machine, whose code may lie anywhere.

        Args:
          cpu: the name of a processor.
          features: its instruction sets.
          level: how well instructions are selected and scheduled, 0 to 3.
          system: LLVM's name for an architecture and its system; empty for this one's.

        Raises:
          RuntimeError: if LLVM makes none.
        """
        triple = (system or self._text(self._llvm.GetDefaultTargetTriple)).encode()
        target = self._made(self._llvm.GetTargetFromTriple, triple)
        machine: int | None = self._llvm.CreateTargetMachine(
            target, triple, cpu.encode(), features.encode(), level, b"pic", b"small", 0, 0, b""
        )
        if not machine:
            raise RuntimeError("LLVM makes no target machine")
        return machine

    def data_layout(self, machine: int) -> str:
        """How a machine's types lie in memory, as modules for it say that."""
        data = self._llvm.CreateTargetMachineData(machine)
        try:
            return self._text(partial(self._llvm.CopyStringRepOfTargetData, data))
        finally:
            self._llvm.DisposeTargetData(data)

    def compiled(self, machine: int, text: str, as_object: bool = True) -> bytes:
        """A module as an object file, or as assembly.

        Args:
          machine: a target machine that no other thread uses now.
          text: the module.
          as_object: which of them.

        Raises:
          RuntimeError: if LLVM refuses it.
        """
        llvm = self._llvm
        with ExitStack() as stack:
            context = llvm.ContextCreate()
            stack.callback(llvm.ContextDispose, context)
            module = self._made(llvm.ParseAssembly, context, text.encode(), what="IR parsing error")
            stack.callback(llvm.DisposeModule, module)
            buffer = self._made(llvm.TargetMachineEmitToMemory, machine, module, int(as_object))
            stack.callback(llvm.DisposeMemoryBuffer, buffer)
            return ctypes.string_at(llvm.GetBufferStart(buffer), llvm.GetBufferSize(buffer))

    def _made(self, function: Any, *arguments: Any, what: str = "") -> int:
        """What a function makes that may refuse with a message."""
        message = _P()
        found: int | None = function(*arguments, ctypes.byref(message))
        if not found:
            said = self._taken(message) if message.value else "without a message"
            raise RuntimeError(f"LLVM {what}\n{said}" if what else said)
        return found

    def _text(self, function: Any) -> str:
        """What a function says; nothing if it says nothing."""
        out = _P()
        function(ctypes.byref(out))
        return self._taken(out) if out.value else ""

    def _taken(self, message: Any) -> str:
        """A text of LLVM's, which is given back."""
        text = ctypes.string_at(message.value).decode("utf-8", "replace")
        self._llvm.DisposeString(message)
        return text


def _open(path: str) -> None:
    """Load a library while other threads go on: ctypes keeps Python's lock when it loads one."""
    function = getattr(ctypes.CDLL(None), "dlopen", None)
    if function is not None:
        function.restype, function.argtypes = _P, (_S, _I)
        function(os.fsencode(path), os.RTLD_NOW | os.RTLD_LOCAL)


def _others_lock() -> Any:
    """The lock that llvmlite takes around each call, if the process has imported llvmlite."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    lib = getattr(ffi, "lib", None)
    return nullcontext() if lib is None else lib._lock
