"""What groups and loops are refused for that their lowering does not look at.

There may be no instructions for what a kernel computes, and a scatter may update an array that is
in no memory.  Start at :func:`without_instructions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Jaxpr, Literal
from functrax.core.prims.mapped import scatter
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.scalars.scalar import MATH
from functrax.core.types import dtypes


def without_instructions(kernels: Sequence[Kernel]) -> Refusal | None:
    """What of kernels there are no instructions for, if any."""
    for kernel in kernels:
        missing = {node.op for node in kernel.nodes()} & (MATH.keys() - EXPANSIONS.keys())
        if missing:
            return Refusal(f"no instructions for {sorted(missing)}")
        if not target().has_halves and any(x.dtype == dtypes.float16 for x in kernel.nodes()):
            return Refusal("this processor has no instructions for float16")
    return None


def updates_own_value(jaxpr: Jaxpr) -> bool:
    """Whether the last equation updates what others compute, which no memory holds."""
    last = jaxpr.eqns[-1]
    if last.primitive is not scatter or last.invars[0] in jaxpr.invars:
        return False
    return constant_of(jaxpr, last.invars[0]) is None


def constant_of(jaxpr: Jaxpr, x: Atom) -> Any | None:
    """The number that an array is full of, if it is a broadcast literal."""
    for eqn in jaxpr.eqns:
        if x in eqn.outvars and eqn.primitive is broadcast_in_dim:
            (source,) = eqn.invars
            return source.val if isinstance(source, Literal) else None
    return None
