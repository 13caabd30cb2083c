"""From the tree of a kernel to LLVM IR for a GPU.

A kernel is a function of its arrays, whose memory is the device's, and of the numbers that depend
on sizes, which are in memory of parameters:

    ptx_kernel void name(ptr addrspace(1) a0, ..., [n x i64] numbers)

A thread computes one element at a time; everything else is as for other targets
(``backends/llvm``).  The kernels of a program are one module.

Start at :func:`emit_thread`; :func:`module` puts kernels together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from functrax.backends.llvm.addresses import Memory, memory_type
from functrax.backends.llvm.emit import definitions
from functrax.backends.llvm.loads import Loads
from functrax.backends.llvm.tile_rows import Tiles
from functrax.backends.loops.tree import Function
from functrax.backends.ptx.thread_stores import ThreadStores
from functrax.backends.ptx.threads import ThreadNodes, ThreadStatements, ThreadWriter
from functrax.backends.targets.nvptx import block_of
from functrax.core.errors.typed import VerificationError
from functrax.core.records import record, replace

#: Of each module.
_HEAD: Final = 'target triple = "nvptx64-nvidia-cuda"'


@record
class DeviceKernel:
    """A kernel of a GPU as text, and how it is launched.

    Args:
      name: of its function.
      text: the function.
      others: what else its module has, by name: functions that it calls, and shared memory.
      numbers: the run-time arguments.
      group: how many threads a unit has.
    """

    name: str
    text: str
    others: dict[str, str]
    numbers: tuple[int, ...]
    group: int


def emit_thread(tree: Function, name: str, contract: bool = True) -> DeviceKernel:
    """The LLVM IR of a kernel for a GPU.

    Args:
      tree: the kernel, with a loop of the kind ``grid`` outermost.
      name: of its function; letters, digits and ``_``.
      contract: whether operations may be rounded otherwise than one after the other.

    Raises:
      VerificationError: the kernel has memory of its own, which threads of a GPU have none of.
    """
    w = ThreadWriter(replace(tree, name=name))
    memory = Memory(w)
    tiles = Tiles(w, memory)
    loads = Loads(w, memory, tiles)
    nodes = ThreadNodes(w, loads, contract)
    stores = ThreadStores(w, memory, loads, nodes)
    taken = []
    for n, operand in enumerate(tree.operands):
        if operand.shared:
            array = w.shared_array(memory_type(operand.dtype), operand.size)
            w.header.append(f"  %b{n} = addrspacecast ptr addrspace(3) {array} to ptr")
            continue
        if operand.scratch:
            raise VerificationError(
                f"kernel {tree.name}: memory of its own",
                got=f"b{n}",
                fix="report this: the compiler made a kernel of a CPU for a GPU",
            )
        access = "" if operand.written or operand.alias is not None else "readonly "
        taken.append(f"ptr addrspace(1) {access}%a{n}")
        w.header.append(f"  %b{n} = addrspacecast ptr addrspace(1) %a{n} to ptr")
    ThreadStatements(w, memory, tiles, nodes, stores).write(tree.body)
    taken.append(f"ptr byval([{max(len(w.numbers), 1)} x i64]) align 8 %numbers")
    body = "\n".join([*w.header, *w.levels[0].lines])
    others = dict(nodes.calls.texts)
    called = "\n".join(others.values())
    others |= _by_name(definitions(body + called))
    others |= {line.partition(" ")[0]: line for line in w.shared}
    bounds = _bounds(block_of(tree.group), tree.resident)
    lines = [
        f"define ptx_kernel void @{name}({', '.join(taken)}) nounwind {bounds} {{",
        "entry:",
        body,
        "  ret void",
        "}",
    ]
    return DeviceKernel(name, "\n".join(lines), others, tuple(w.numbers), tree.group)


def _bounds(block: int, resident: int) -> str:
    """What a kernel says of its launches: how many threads a block has, and how many blocks have to
    fit on a multiprocessor: one, if the kernel does not ask for more.  Where nothing is said of
    that, NVIDIA's assembler keeps deep loops to 32 registers, and spills others to memory.
    """
    return f'"nvvm.maxntid"="{block}" "nvvm.minctasm"="{resident}"'


def module(kernels: Sequence[DeviceKernel]) -> str:
    """The text of a module with kernels."""
    others: dict[str, str] = {}
    for kernel in kernels:
        others |= kernel.others
    return "\n".join([_HEAD, *others.values(), *[k.text for k in kernels]]) + "\n"


def renamed(kernel: DeviceKernel, name: str) -> DeviceKernel:
    """The same kernel by another name, which its shared memory is named after, too."""
    own = re.compile(rf"@{kernel.name}(?=[.(])")

    def change(text: str) -> str:
        return own.sub(f"@{name}", text)

    others = {change(key): change(text) for key, text in kernel.others.items()}
    return replace(kernel, name=name, text=change(kernel.text), others=others)


def _by_name(texts: str) -> dict[str, str]:
    """Functions by their names."""
    found = re.findall(r"^define [^@]*@([\w.]+)\(.*?^}", texts, re.MULTILINE | re.DOTALL)
    bodies = re.findall(r"^define .*?^}", texts, re.MULTILINE | re.DOTALL)
    return dict(zip(found, bodies, strict=True))
