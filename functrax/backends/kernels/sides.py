"""The sides of a contraction's product: what they depend on, and whether they are in memory.

Start at :meth:`Side.of`.
"""

from __future__ import annotations

from functrax.backends.kernels.ir import Kernel, ordered
from functrax.backends.kernels.windows import Windows, merged
from functrax.core.index_expr import IndexExpr
from functrax.core.lowering import Scalar
from functrax.core.records import record


@record
class Side:
    """One of the two factors.

    Args:
      value: its expression.
      dims: that it depends on.
      place: the array and the address where it is in memory as it is; None if it is computed.
      read: how many elements the arrays that it reads have.
      windows: the side over merged dims, if there are any.
    """

    value: Scalar
    dims: frozenset[int]
    place: tuple[int, IndexExpr] | None
    read: int
    windows: Windows | None

    @classmethod
    def of(cls, kernel: Kernel, value: Scalar) -> Side:
        """The facts about an expression of a kernel."""
        dims = dims_of(value)
        loads = (node.attr[0] for node in ordered(iter((value,))) if node.op == "load")
        arrays = {k: kernel.operands[k].size for k in loads}
        place = None
        if value.op == "load" and not value.args:
            place = value.attr[0], value.attr[1]
        windows = merged(kernel.builder, value, dims, kernel.extents)
        return cls(value, dims, place, sum(arrays.values()), windows)


def dims_of(value: Scalar) -> frozenset[int]:
    """The dims that an expression depends on."""
    dims: set[int] = set()
    for node in ordered(iter((value,))):
        if node.op == "load":
            dims |= node.attr[1].used_dims()
        elif node.op == "dim":
            dims.add(node.attr)
    return frozenset(dims)
