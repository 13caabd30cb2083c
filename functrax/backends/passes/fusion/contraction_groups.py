"""Contractions in fusion: what may be part of a contraction's kernel.

A contraction's kernel has the form

    prologue of each side -> mul -> sum -> epilogue -> results of the sum's shape

An *epilogue* is elementwise and uses the sum at its own points: a bias, an activation, a residual.
It saves writing the sum, and reading it again; a sum that something else needs as well is one more
result.  A *prologue* is computed while a side is packed, more than once perhaps, so it is a few
cheap operations that read no more than they give, and of which nothing else needs the result: a
conversion, a scaling.  Functions such as ``exp`` stay in kernels of their own.

Which kernels there are for contractions, :func:`contraction_kernels_take` knows; others take no
part in fusion.

Start at :func:`joined`.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.backends.cost import about, memory_ns
from functrax.backends.passes.fusion.kernel_groups import KernelGroup, nbytes
from functrax.backends.passes.groups import contraction, copied
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.types import dtypes

#: A contraction of at most so many products is a kernel as all others: it is done before a call of
#: the reference has begun.
LOOPED = 1 << 18
#: The most steps of a sum of complex numbers that is such a loop whatever its tiles would be.
FEW_PARTS = 4
#: Reasons that hold whatever two groups hold besides.
ONE_CONTRACTION = "contraction: a kernel holds one"
NO_REDUCTION = "contraction: a reduction has a kernel of its own"


def contraction_kernels_take(jaxpr: Jaxpr) -> bool:
    """Whether there are kernels for a contraction, whatever its sides and what follows its sum."""
    from functrax.backends.gemm.lower_contraction import takes  # which few programs need

    return is_small(jaxpr) or takes(jaxpr)


def is_small(jaxpr: Jaxpr) -> bool:
    """Whether a contraction is a kernel like others, a loop over its products.

    A loop rounds each product to its dtype, which narrow floats must not be.
    """
    avals = [v.aval for eqn in jaxpr.eqns for v in eqn.outvars]
    avals += [v.aval for v in jaxpr.invars]
    if any(a.dtype not in dtypes.ALL or not a.size for a in avals):
        return False
    sums = [e.invars[0].aval for e in jaxpr.eqns if isinstance(e.primitive, ReindexReduce)]
    return len(sums) == 1 and about(sums[0].shape) <= LOOPED and sums[0].dtype not in dtypes.HALF


def has_few_parts(jaxpr: Jaxpr) -> bool:
    """Whether sums of complex numbers are so short that tiles, which sum parts, cost more.

    A gate of a quantum circuit, say: its two steps would be four of parts, packed before.
    """
    if not is_small(jaxpr) or not dtypes.is_complex(jaxpr.outvars[0].aval.dtype):
        return False
    (total,) = (e for e in jaxpr.eqns if isinstance(e.primitive, ReindexReduce))
    return total.invars[0].aval.size <= FEW_PARTS * total.outvars[0].aval.size


def joined(
    a: KernelGroup, b: KernelGroup, through: Sequence[Var], written: set[Var], jaxpr: Jaxpr
) -> str:
    """Why two groups, one of them a contraction, are not one kernel; "" if they are.

    ``b`` reads the values ``through`` of ``a``; what the two write together is ``written``, and
    ``jaxpr`` is the contraction's program.
    """
    if not through:
        return "contraction: nothing shares its kernel but what uses its result"
    if a.center is not None and b.center is not None:
        return ONE_CONTRACTION
    other = b if a.center is not None else a
    if a.center is not None and a.in_parts:
        return "contraction: its result comes in parts, of which elements are not neighbours"
    if other.update or other.space.row is not None:
        return NO_REDUCTION
    if all(b.reads[v] for v in through) and a.space.full == b.space.full:
        same = len({v.aval.shape for v in written}) == 1
        return "" if same else "contraction: its results are of one shape"
    if a.center is not None:
        return "contraction: its result is used at other points than its own"
    if written != b.writes:
        return "contraction: what its sides read is also needed elsewhere"
    if a.dear or a.work > memory_ns(sum(v.aval.dtype.itemsize for v in through), target()):
        return "contraction: a side is packed more than once, and this is dear"
    read, given = (sum(map(nbytes, values)) for values in (a.reads, through))
    if read > given:
        return "contraction: to compute a side while it is packed reads more"
    if not is_small(jaxpr) and _is_too_large(given, read):
        return "contraction: a side is many times larger than what it is computed of"
    return ""


def _is_too_large(given: int, read: int) -> bool:
    """Whether tiles do not store a side of so many bytes that is computed of so many."""
    from functrax.backends.gemm.blocking import GROWTH  # which few programs need

    return given > GROWTH * read


def flat(eqns: Sequence[Eqn]) -> list[Eqn]:
    """The equations, those of contractions among them in place of these."""
    found: list[Eqn] = []
    for eqn in eqns:
        if eqn.primitive is not contraction:
            found.append(eqn)
            continue
        inner: Jaxpr = eqn.params["jaxpr"]
        env: dict[Atom, Atom] = dict(zip(inner.invars, eqn.invars, strict=True))
        env.update(zip(inner.outvars, eqn.outvars, strict=True))
        found += copied(inner.eqns, env)
    return found
