"""What equations cost: bytes at the edge of a kernel, and operations.

The *cost* of a program of groups is the number of bytes that its kernels read and write: of each
operand the distinct elements that the kernel needs, once, and every result, once.  Operations are
counted by equation: an elementwise equation on numbers does one for each element of its result,
functions such as ``exp`` apart (``transcendentals``), ``fma`` two; a reduction does one for each
element that it takes in beyond the first of each result; reindexing, conversions and choices do
none.  So a matrix product of ``(m, k)`` and ``(k, n)`` does ``m * n * (2 * k - 1)``.

Start at :func:`traffic` and :func:`operations`.
"""

from __future__ import annotations

from functrax.backends.kernels.values import elements_of
from functrax.backends.passes.fusion.kernel_groups import nbytes
from functrax.backends.passes.groups import Group
from functrax.backends.passes.memory.distinct_reads import elements_read
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var, subjaxprs
from functrax.core.prims.fused import fma
from functrax.core.prims.mapped import reindex_reduce, scatter
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.records import record
from functrax.core.tracing.primitive import Elementwise


@record
class Operations:
    """How much is computed.

    Args:
      flops: operations on numbers, each counted once, whatever their dtype.
      transcendentals: values of functions such as ``exp``.
    """

    flops: int = 0
    transcendentals: int = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.flops + other.flops, self.transcendentals + other.transcendentals)


def traffic(eqn: Eqn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The bytes of each operand that an equation reads, and of each result that it writes."""
    if isinstance(eqn.primitive, Group):
        inner: Jaxpr = eqn.params["jaxpr"]
        counts = elements_read(inner)
    else:
        counts = [x.aval.size if isinstance(x, Var) else 0 for x in eqn.invars]
    reads = tuple(n * x.aval.dtype.itemsize for n, x in zip(counts, eqn.invars))
    return reads, tuple(nbytes(v) for v in eqn.outvars)


def operations(eqn: Eqn) -> Operations:
    """What an equation computes; of what is no meta-operator nothing is known.

    A loop counts as often as it runs, or once if that is not known; of branches all count.
    """
    inner = [operations(e) for program in subjaxprs(eqn) for e in program.eqns]
    if inner:
        once = sum(inner, Operations())
        times = int(eqn.params.get("length", 1))  # of a scan
        return Operations(once.flops * times, once.transcendentals * times)
    primitive = eqn.primitive
    size = sum(v.aval.size for v in eqn.outvars)
    if isinstance(primitive, Elementwise) and not primitive.computes_nothing:
        if primitive is fma:
            return Operations(2 * size)
        return Operations(0, size) if primitive.is_function else Operations(size)
    if isinstance(primitive, ReindexReduce):
        taken = eqn.invars[elements_of(eqn)].aval.size
        if primitive is scatter:
            return Operations(0 if eqn.params["op"] == "set" else taken)
        return Operations(taken if primitive is reindex_reduce else max(taken - size, 0))
    return Operations()
