"""Reductions of what a broadcast repeats: one of the copies is reduced, and the result repeated.

The product of a matrix with ones is one: ``sum_k a[k, i] 1[k, j]`` is the same for every ``j``.
Sums of fewer dimensions may be added up in another order, so strict mode leaves them.

Start at :func:`spread`.
"""

from __future__ import annotations

from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reduce import AxisReduce, kept_axes
from functrax.core.prims.reindex import broadcast_in_dim


def spread(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with each reduction of repeated rows before what repeats them."""
    made: dict[Atom, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in with_bodies(jaxpr.eqns, lambda inner: spread(inner, rewrites)):
        if eqn.primitive is broadcast_in_dim:
            made[eqn.outvars[0]] = eqn
        elif isinstance(eqn.primitive, AxisReduce) and eqn.invars[0] in made:
            copies = made[eqn.invars[0]]
            if _repeats_rows(eqn, copies) and rewrites.allow("repeated after it", eqn):
                eqns += _reduced_before(eqn, copies)
                continue
        eqns.append(eqn)
    return with_eqns(jaxpr, eqns)


def _repeats_rows(eqn: Eqn, copies: Eqn) -> bool:
    """Whether a broadcast repeats along axes that are kept, and along none that is reduced."""
    (source,), axes = copies.invars, eqn.params["axes"]
    if isinstance(source, Literal):
        return False
    own = dict(zip(copies.params["dims"], source.aval.shape))
    repeated = [d for d, n in enumerate(copies.params["shape"]) if n != 1 and own.get(d, 1) == 1]
    return bool(repeated) and not any(d in axes for d in repeated)


def _reduced_before(eqn: Eqn, copies: Eqn) -> list[Eqn]:
    """The reduction of what is repeated, and its result repeated."""
    (source,), dims, axes = copies.invars, copies.params["dims"], eqn.params["axes"]
    out = eqn.outvars[0]
    left = [k for k, d in enumerate(dims) if d not in axes]
    row = Var(out.aval.update(shape=tuple([source.aval.shape[k] for k in left])))
    reduced = tuple([k for k, d in enumerate(dims) if d in axes])
    kept = kept_axes(len(copies.params["shape"]), axes)
    params = {"shape": out.aval.shape, "dims": tuple([kept.index(dims[k]) for k in left])}
    return [
        Eqn(eqn.primitive, (source,), (row,), {**eqn.params, "axes": reduced}, eqn.source),
        Eqn(broadcast_in_dim, (row,), (out,), params, eqn.source),
    ]
