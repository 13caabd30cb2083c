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
from contextlib import nullcontext
from functools import cache
from importlib.machinery import PathFinder
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
        for name, (result, *arguments) in SIGNATURES.items():
            # An object of its own, by subscript: other users' have types of their own.
            function = (long if name in _LONG else short)[name]
            function.restype, function.argtypes = result, arguments
            setattr(self, f"_{name.removeprefix('LLVMPY_')}", function)

    _InitializeNativeTarget: Any
    _InitializeNativeAsmPrinter: Any
    _InitializeAllTargetInfos: Any
    _InitializeAllTargets: Any
    _InitializeAllTargetMCs: Any
    _InitializeAllAsmPrinters: Any
    _SetCommandLine: Any
    _GetVersionInfo: Any
    _GetDefaultTargetTriple: Any
    _GetHostCPUName: Any
    _GetHostCPUFeatures: Any
    _GetTargetFromTriple: Any
    _CreateTargetMachine: Any
    _ContextCreate: Any
    _ContextDispose: Any
    _ParseAssembly: Any
    _DisposeModule: Any
    _TargetMachineEmitToMemory: Any
    _GetBufferStart: Any
    _GetBufferSize: Any
    _DisposeMemoryBuffer: Any
    _DisposeString: Any

    def initialize(self, all_kinds: bool = False) -> None:
        """Let LLVM know about this machine's kind of processor, or about all that it can."""
        with _others_lock():
            if not all_kinds:
                self._InitializeNativeTarget()
                self._InitializeNativeAsmPrinter()
                return
            self._InitializeAllTargetInfos()
            self._InitializeAllTargets()
            self._InitializeAllTargetMCs()
            self._InitializeAllAsmPrinters()

    def set_option(self, option: str) -> None:
        """Set one of LLVM's options, for the whole process."""
        with _others_lock():
            self._SetCommandLine(b"", option.encode())

    def version(self) -> str:
        """Of LLVM."""
        number, parts = self._GetVersionInfo(), []
        while number:
            parts.append(str(number & 0xFF))
            number >>= 8
        return ".".join(reversed(parts))

    def host(self) -> tuple[str, str]:
        """The name of this processor and its instruction sets, as LLVM knows them."""
        features = self._text(self._GetHostCPUFeatures).split(",")
        return self._text(self._GetHostCPUName), ",".join(sorted(features, key=lambda x: x[1:]))

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
        triple = (system or self._text(self._GetDefaultTargetTriple)).encode()
        message = _P()
        target = self._GetTargetFromTriple(triple, ctypes.byref(message))
        if not target:
            raise RuntimeError(self._taken(message))
        machine: int | None = self._CreateTargetMachine(
            target, triple, cpu.encode(), features.encode(), level, b"pic", b"small", 0, 0, b""
        )
        if not machine:
            raise RuntimeError("LLVM makes no target machine")
        return machine

    def object_code(self, machine: int, text: bytes) -> bytes:
        """A module as an object file.

        Args:
          machine: a target machine that no other thread uses now.
          text: the module.

        Raises:
          RuntimeError: if LLVM refuses it.
        """
        return self._emitted(machine, text, 1)

    def assembly(self, machine: int, text: bytes) -> str:
        """A module as assembly; arguments and errors as :meth:`object_code` has them."""
        return self._emitted(machine, text, 0).decode()

    def _emitted(self, machine: int, text: bytes, as_object: int) -> bytes:
        context = self._ContextCreate()
        try:
            message = _P()
            module = self._ParseAssembly(context, text, ctypes.byref(message))
            if not module:
                raise RuntimeError(f"LLVM IR parsing error\n{self._taken(message)}")
            try:
                return self._in_memory(machine, module, as_object)
            finally:
                self._DisposeModule(module)
        finally:
            self._ContextDispose(context)

    def _in_memory(self, machine: int, module: int, as_object: int) -> bytes:
        message = _P()
        buffer = self._TargetMachineEmitToMemory(machine, module, as_object, ctypes.byref(message))
        if not buffer:
            raise RuntimeError(self._taken(message))
        try:
            return ctypes.string_at(self._GetBufferStart(buffer), self._GetBufferSize(buffer))
        finally:
            self._DisposeMemoryBuffer(buffer)

    def _text(self, function: Any) -> str:
        """What a function says; nothing if it says nothing."""
        out = _P()
        function(ctypes.byref(out))
        return self._taken(out) if out.value else ""

    def _taken(self, message: Any) -> str:
        """A text of LLVM's, which is given back."""
        if not message:
            return "without a message"
        text = ctypes.string_at(message.value).decode("utf-8", "replace")
        self._DisposeString(message)
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
