"""Kernels of a GPU, ready to be launched.

Start at :func:`device_code`.
"""

from __future__ import annotations

import hashlib
import re

from functrax.backends.loops.tree import Function
from functrax.backends.ptx.assemble import ptx
from functrax.backends.ptx.emit import emit_thread, module
from functrax.backends.targets import Target
from functrax.backends.targets.nvptx import block_of
from functrax.core.records import record

#: The texts that were made, by the LLVM IR that they were made from, and the target.
_texts: dict[tuple[str, str], str] = {}


@record(eq=False)
class DeviceCode:
    """A kernel as PTX, and how it is launched.

    Args:
      name: of its function.
      llvm: its module as LLVM IR.
      ptx: its module as PTX.
      group: how many threads a unit of work has.
      numbers: the run-time arguments.
    """

    name: str
    llvm: str
    ptx: str
    group: int
    numbers: tuple[int, ...]

    @property
    def block(self) -> int:
        """How many threads a block has."""
        return block_of(self.group)

    def grid(self, units: int) -> int:
        """How many blocks so many units of work take."""
        return -(-units * self.group // self.block)


def device_code(tree: Function, target: Target, contract: bool = True) -> DeviceCode:
    """The code of a kernel.

    Args:
      tree: the kernel, after its schedule.
      target: the GPU.
      contract: whether operations may be rounded otherwise than one after the other.
    """
    name = "functrax_" + re.sub(r"\W", "_", tree.name)[:40]
    emitted = emit_thread(tree, name, contract)
    text = module([emitted])
    key = hashlib.sha256(text.encode()).hexdigest(), target.name
    found = _texts.get(key)
    if found is None:
        found = _texts[key] = ptx(text, target)
    return DeviceCode(name, text, found, emitted.group, emitted.numbers)
