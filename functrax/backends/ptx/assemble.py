"""From LLVM IR to PTX, which the driver of a GPU compiles.

LLVM ends the process where it meets an operation that it has no instructions for, so
:func:`ptx` lets none pass that is not known to be taken (``whitelist.py``).

Start at :func:`ptx`.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from functrax.backends.machine_code.code_generator import left_out
from functrax.backends.machine_code.llvm_bindings import Library, library_file
from functrax.backends.ptx.whitelist import check
from functrax.backends.targets import Target
from functrax.backends.targets.nvptx import OPTIMIZATION
from functrax.core.process.locks import new_lock

_one_at_a_time: Final = new_lock()


def ptx(text: str, target: Target) -> str:
    """The PTX of a module.

    Args:
      text: its LLVM IR.
      target: the GPU.

    Raises:
      VerificationError: an operation that there are no instructions for.
      RuntimeError: LLVM does not take the text.
    """
    check(text)
    with left_out, _one_at_a_time:  # a fork waits for the end of such blocks
        llvm, machine = _machine(target.cpu, target.triple)
        head = f'target datalayout = "{llvm.data_layout(machine)}"\n'
        return llvm.compiled(machine, head + text, as_object=False).decode()


@cache
def _machine(cpu: str, triple: str) -> tuple[Library, int]:
    llvm = Library(library_file())
    llvm.initialize(all_kinds=True)
    return llvm, llvm.new_machine(cpu, "", OPTIMIZATION, triple)
