"""Kernels of a GPU, ready to be launched.

Start at :func:`device_kernel` and :func:`device_code`.
"""

from __future__ import annotations

import re
from typing import Final

from functrax.backends.disk_cache import content_key
from functrax.backends.loops.tree import Function
from functrax.backends.ptx.emit import DeviceKernel, emit_thread, module, renamed
from functrax.backends.ptx.modules import WaitingText, kernel_text
from functrax.backends.targets import Target
from functrax.backends.targets.nvptx import block_of
from functrax.core.records import record

#: Of the hash in a kernel's name: no two of 100,000 kernels have one name by chance.
_DIGITS: Final = 12


@record(eq=False)
class DeviceCode:
    """A kernel as PTX, and how it is launched.

    Args:
      name: of its function, which says what it does and is of no other text.
      text: its texts.
      group: how many threads a unit of work has.
      numbers: the run-time arguments.
    """

    name: str
    text: WaitingText
    group: int
    numbers: tuple[int, ...]

    @property
    def llvm(self) -> str:
        """A module with the kernel alone, as LLVM IR."""
        return self.text.llvm

    @property
    def own_ptx(self) -> str:
        """A module with the kernel alone, as PTX."""
        return self.text.made().own

    @property
    def ptx(self) -> str:
        """The module that it is loaded in: that of all kernels that a program brought."""
        return self.text.made().module

    @property
    def block(self) -> int:
        """How many threads a block has."""
        return block_of(self.group)

    def grid(self, units: int) -> int:
        """How many blocks so many units of work take."""
        return -(-units * self.group // self.block)


def device_kernel(tree: Function, contract: bool = True) -> DeviceKernel:
    """A kernel as LLVM IR, by a name that no other text has.

    Args:
      tree: the kernel, after its schedule.
      contract: whether operations may be rounded otherwise than one after the other.
    """
    name = "functrax_" + re.sub(r"\W", "_", tree.name)[:40]
    kernel = emit_thread(tree, name, contract)
    digest = content_key(module([kernel])).hex()[:_DIGITS]
    return renamed(kernel, f"{name}_{digest}")


def device_code(kernel: DeviceKernel, target: Target) -> DeviceCode:
    """The code of a kernel, which may be made later.

    Args:
      kernel: the kernel as LLVM IR.
      target: the GPU.
    """
    return DeviceCode(kernel.name, kernel_text(kernel, target), kernel.group, kernel.numbers)
