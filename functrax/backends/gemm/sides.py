"""The sides of a contraction's product: what they depend on, and whether they are in memory.

Start at :meth:`Side.of`.
"""

from __future__ import annotations

import math

from functrax.backends.gemm.sliding_windows import Windows, merged
from functrax.backends.kernels.accesses import coefficient, dims_of
from functrax.backends.kernels.ir import Kernel, ordered
from functrax.core.index.expr import IndexExpr
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar


@record
class Side:
    """One of the two factors.

    Args:
      value: its expression.
      dims: that it depends on.
      place: the array and the address where it is in memory as it is; None if it is computed.
      points: how many there are of its dims.
      read: how many elements the arrays that it reads have.
      windows: the side over merged dims, if there are any.
    """

    value: Scalar
    dims: frozenset[int]
    place: tuple[int, IndexExpr] | None
    points: int
    read: int
    windows: Windows | None

    @classmethod
    def of(cls, kernel: Kernel, value: Scalar) -> Side:
        """The facts about an expression of a kernel."""
        dims = dims_of(value)
        loads = (node.attr[0] for node in ordered((value,)) if node.op == "load")
        arrays = {k: kernel.operands[k].size for k in loads}
        place = None
        if value.op == "load" and not value.args:
            place = value.attr[0], value.attr[1]
        windows = merged(kernel.builder, value, dims, kernel.extents)
        points = math.prod(kernel.extents[d] for d in dims)
        return cls(value, dims, place, points, sum(arrays.values()), windows)


def stride(value: Scalar, dim: int) -> int:
    """How far apart in memory neighbours along a dim are, where an expression reads most."""
    loads = [node for node in ordered((value,)) if node.op == "load"]
    steps = [coefficient(node.attr[1], dim) for node in loads]
    return max(steps, key=abs, default=0)
