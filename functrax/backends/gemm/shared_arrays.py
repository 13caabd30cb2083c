"""The arrays of a kernel, in an order that kernels of the same form share.

The kernels of a contraction are made with all the arrays of their group.  What enters is one of
them; what leaves is the kernel with those arrays alone that it touches: first those that it reads,
as it comes to them, then those that it writes, then its scratch memory.  So a side is packed, or a
product summed, by the same machine code whatever else belongs to the group.

Start at :func:`with_own_arrays`.
"""

from __future__ import annotations

from typing import TypeAlias

from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.merge import Rewriting
from functrax.core.records import replace

#: The numbers of arrays of a group: those that a kernel reads, and those that it writes.
Arrays: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


def with_own_arrays(kernel: Kernel) -> tuple[Kernel, Arrays]:
    """A kernel that has its own arrays alone, and which they are in its group."""
    written = dict.fromkeys(store.buffer for store in kernel.stores())
    loaded = dict.fromkeys(node.attr[0] for node in kernel.nodes() if node.op == "load")
    scratch = [n for n, operand in enumerate(kernel.operands) if operand.scratch]
    read = [n for n in loaded if n not in written and n not in scratch]
    write = [n for n in written if n not in scratch]
    order = [*read, *write, *scratch]
    new = {old: n for n, old in enumerate(order)}
    operands = [
        replace(kernel.operands[old], written=n >= len(read)) for n, old in enumerate(order)
    ]
    tiling = kernel.tiling
    if tiling is not None:
        tiling = replace(
            tiling,
            left=replace(tiling.left, buffer=new[tiling.left.buffer]),
            right=replace(tiling.right, buffer=new[tiling.right.buffer]),
            scratch=new[tiling.scratch],
        )
    renamed = _Renamed(kernel, new).kernel(kernel)
    renamed = replace(renamed, operands=operands, tiling=tiling)
    aliased = [kernel.operands[n].alias for n in read]
    arrays = tuple([n if alias is None else alias for n, alias in zip(read, aliased, strict=True)])
    return renamed, (arrays, tuple(write))


class _Renamed(Rewriting):
    """Expressions and stores with other numbers of arrays."""

    def __init__(self, kernel: Kernel, new: dict[int, int]) -> None:
        super().__init__(kernel.builder, {d: d for d in range(len(kernel.extents))})
        self.arrays = new

    def array(self, number: int) -> int:
        """The new number of an array."""
        return self.arrays[number]
