"""Which dim threads share, and in units of how many points.

Start at :func:`share`.
"""

from __future__ import annotations

from typing import Final

from functrax.backends.kernels.ir import Kernel
from functrax.backends.loops.rewrites.parallelize import Parallelize
from functrax.backends.targets import Target
from functrax.core.scalars.scalar import MATH
from functrax.core.types.size_bounds import clipped, roughly
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: Fewer steps than this do not keep threads busy; twice as many are shared evenly.
FEW: Final = 8


def share(kernel: Kernel, target: Target) -> list[Parallelize]:
    """Share the outermost outer dim that is long enough, else the longest one.

    Units of work have fewer points where functions such as ``exp`` are computed.
    """
    if not kernel.outer:
        return []
    long_enough = [d for d in kernel.outer if roughly(kernel.extents[d]) >= 2 * FEW]
    if long_enough:
        shared = long_enough[0]
    else:
        shared = max(kernel.outer, key=lambda d: roughly(kernel.extents[d]))
    per_point = max(roughly(kernel.points) // roughly(kernel.extents[shared]), 1)
    functions = sum(1 for node in kernel.nodes() if node.op in MATH)
    grain = -(-target.unit_points // (1 + functions) // per_point)
    if shared == kernel.vector:
        grain = -(-grain // kernel.lanes) * kernel.lanes
    if not is_symbolic_dim(kernel.extents[shared]):
        grain = clipped(grain, 1, kernel.extents[shared])
    return [Parallelize(shared, grain)]
