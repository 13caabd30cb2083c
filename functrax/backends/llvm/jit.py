"""From LLVM IR to machine code in this process, through llvmlite.

One target machine and one JIT serve the whole process; llvmlite is imported when the first kernel
is compiled.  Texts that were compiled before are not compiled again.

Start at :func:`compile_text`.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from functrax.backends.compile_log import found
from functrax.backends.llvm.emit import NAME


@dataclass(frozen=True)
class Compiled:
    """Machine code of a kernel.

    Args:
      address: of the function.
      symbol: its name, which follows from its text.
      library: keeps the code alive.
      milliseconds: that LLVM took.
    """

    address: int
    symbol: str
    library: Any
    milliseconds: float


class Machine:
    """The host's code generator and JIT."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.cpu = llvm.get_host_cpu_name()
        self.features = llvm.get_host_cpu_features().flatten()
        self._target = llvm.Target.from_default_triple()
        self._machine = self._target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=2, reloc="pic", codemodel="small"
        )
        self._jit = llvm.create_lljit_compiler(self._machine)
        self._compiled: dict[str, Compiled] = {}
        self._lock = threading.Lock()
        self.count = 0

    def symbol(self, text: str) -> str:
        """The name of the function that a text defines."""
        key = f"{self.cpu}\n{self.features}\n{text}"
        return "functrax_" + hashlib.sha256(key.encode()).hexdigest()[:32]

    def compile(self, text: str) -> Compiled:
        """The machine code of a module with one function."""
        with self._lock:
            known = self._compiled.get(text)
            found("compiled" if known is None else "memory")
            if known is None:
                known = self._compiled[text] = self._compile(text)
        return known

    def _compile(self, text: str) -> Compiled:
        begin = time.perf_counter()
        symbol = self.symbol(text)
        object_code = self.object_code(text.replace(NAME, symbol))
        builder = self._llvm.JITLibraryBuilder().add_object_img(object_code)
        library = builder.export_symbol(symbol).link(self._jit, symbol)
        self.count += 1
        took = (time.perf_counter() - begin) * 1e3
        return Compiled(library[symbol], symbol, library, took)

    def object_code(self, text: str) -> bytes:
        """A module as an object file."""
        module = self._llvm.parse_assembly(text)
        return self._machine.emit_object(module)  # type: ignore[no-any-return]

    def assembly(self, text: str) -> str:
        """A module as assembly, for people."""
        return self._machine.emit_assembly(self._llvm.parse_assembly(text))  # type: ignore[no-any-return]


@cache
def machine() -> Machine:
    """The one of this process."""
    return Machine()


def compile_text(text: str) -> Compiled:
    """The machine code of a kernel's text, compiled the first time."""
    return machine().compile(text)
