"""Packing, in strict mode: operands of sums of products in the order in which they are read.

In strict mode a matrix product is a loop whose lanes run along what is summed, for the order of a
sum must not depend on what is added up.  An operand that lies across is read element by element
then, again for every row.  What enters is a program with such broadcasts, which repeat their
operand many times and turn it; what leaves has a transposed copy of it, made once, in its place.
Where products are computed by tiles all the same (``strict_tiles``), these read any order.

Start at :func:`pack`.
"""

from __future__ import annotations

from functrax.backends.passes.inner import with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.options.config import strict_was_chosen
from functrax.core.prims.identity import optimization_barrier
from functrax.core.prims.reindex import broadcast_in_dim, transpose
from functrax.core.types.size_bounds import roughly

#: An operand is copied if it is read more often than this.
TIMES = 16


def pack(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with transposed copies, if sums of products are strict."""
    if not strict_was_chosen():
        return jaxpr
    eqns: list[Eqn] = []
    copies: dict[tuple[Atom, tuple[int, ...]], Var] = {}
    for eqn in jaxpr.eqns:
        inner = with_programs(eqn, lambda program: pack(program, rewrites))
        if not _turns(inner) or not rewrites.allow("a transposed copy", inner):
            eqns.append(inner)
            continue
        (x,), dims = inner.invars, inner.params["dims"]
        perm = tuple(sorted(range(len(dims)), key=dims.__getitem__))
        copy = copies.get((x, perm))
        if copy is None:
            shape = tuple([x.aval.shape[d] for d in perm])
            turned = Var(x.aval.update(shape=shape))
            copy = copies[x, perm] = Var(turned.aval)
            eqns.append(Eqn(transpose, (x,), (turned,), {"perm": perm}, inner.source))
            eqns.append(Eqn(optimization_barrier, (turned,), (copy,), {}, inner.source))
        params = {**inner.params, "dims": tuple(sorted(dims))}
        eqns.append(Eqn(broadcast_in_dim, (copy,), inner.outvars, params, inner.source))
    return with_eqns(jaxpr, eqns)


def _turns(eqn: Eqn) -> bool:
    """Whether an equation repeats its operand many times, and lays it out along another axis."""
    if eqn.primitive is not broadcast_in_dim or not isinstance(eqn.invars[0], Var):
        return False
    dims, aval = eqn.params["dims"], eqn.outvars[0].aval
    size = roughly(eqn.invars[0].aval.size)
    return tuple(sorted(dims)) != tuple(dims) and roughly(aval.size) >= TIMES * size > 0
