"""LLVM's two long calls, without the lock that llvmlite puts around every call.

llvmlite lets one thread at a time into LLVM.  LLVM itself lets threads run side by side as long as
each has a context and a target machine of its own ("Threads and LLVM" in its programmer's manual),
and that is what happens here: :meth:`Calls.object_code` makes a context, reads a module into it,
emits it with a target machine that nobody else uses meanwhile, and gives all of it back.  The
short calls in between keep Python's lock, for giving it up costs more than they take.

Nothing of llvmlite's own state is touched: the functions are found again by name, in the library
that it has loaded.
"""

from __future__ import annotations

import ctypes
from typing import Any

_P = ctypes.c_void_p


class Calls:
    """Functions of libllvmlite.

    Args:
      name: the path of the library.
    """

    def __init__(self, name: str) -> None:
        long, short = ctypes.CDLL(name), ctypes.PyDLL(name)

        def function(library: Any, symbol: str, result: Any, *types: Any) -> Any:
            found = library[symbol]  # an object of its own: llvmlite's keeps its types
            found.restype, found.argtypes = result, types
            return found

        self._parse = function(
            long, "LLVMPY_ParseAssembly", _P, _P, ctypes.c_char_p, ctypes.POINTER(_P)
        )
        self._emit = function(
            long, "LLVMPY_TargetMachineEmitToMemory", _P, _P, _P, ctypes.c_int, ctypes.POINTER(_P)
        )
        self._new_context = function(short, "LLVMPY_ContextCreate", _P)
        self._free_context = function(short, "LLVMPY_ContextDispose", None, _P)
        self._free_module = function(short, "LLVMPY_DisposeModule", None, _P)
        self._start = function(short, "LLVMPY_GetBufferStart", _P, _P)
        self._size = function(short, "LLVMPY_GetBufferSize", ctypes.c_size_t, _P)
        self._free_buffer = function(short, "LLVMPY_DisposeMemoryBuffer", None, _P)
        self._free_text = function(short, "LLVMPY_DisposeString", None, _P)

    def object_code(self, machine: int, text: bytes) -> bytes:
        """A module as an object file.

        Args:
          machine: the address of a target machine that no other thread uses now.
          text: the module.

        Raises:
          RuntimeError: if LLVM refuses it.
        """
        context = self._new_context()
        try:
            message = _P()
            module = self._parse(context, text, ctypes.byref(message))
            if not module:
                raise RuntimeError(f"LLVM IR parsing error\n{self._taken(message)}")
            try:
                return self._emitted(machine, module)
            finally:
                self._free_module(module)
        finally:
            self._free_context(context)

    def _emitted(self, machine: int, module: int) -> bytes:
        message = _P()
        buffer = self._emit(machine, module, 1, ctypes.byref(message))
        if not buffer:
            raise RuntimeError(self._taken(message))
        try:
            return ctypes.string_at(self._start(buffer), self._size(buffer))
        finally:
            self._free_buffer(buffer)

    def _taken(self, message: Any) -> str:
        """An error's text, which is given back."""
        if not message:
            return "without a message"
        text = ctypes.string_at(message.value).decode("utf-8", "replace")
        self._free_text(message)
        return text
