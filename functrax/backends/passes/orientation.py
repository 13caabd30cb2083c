"""Contractions in the order of axes that is wanted: a transpose of a sum of products vanishes.

The derivative of a matrix product is often the transpose of what is wanted.  What enters is a
program with ``contraction`` groups; what leaves has none that only a transpose uses: the iteration
space is permuted instead (every broadcast goes to other axes, every general reindex has other
dimensions), and the group gives the transposed result at once.

The sums are of the same products; a library of matrix products may add them up in another order.

Start at :func:`orient`.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import kept_axes, reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, transpose

Shape = tuple[int, ...]


def orient(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with transposes of contractions made part of them."""
    uses = _transposes(jaxpr)
    gone: set[Eqn] = set()
    eqns: list[Eqn] = []
    changed = False
    for eqn in jaxpr.eqns:
        if eqn in gone:
            continue
        new = eqn
        if eqn.primitive is not contraction:
            new = with_programs(eqn, lambda inner: orient(inner, rewrites))
        elif eqn.outvars[0] in uses:
            use = uses[eqn.outvars[0]]
            turned = _turned(eqn.params["jaxpr"], use.params["perm"])
            if turned is not None and rewrites.allow("done by the contraction before", use):
                params = {**eqn.params, "jaxpr": turned}
                new = Eqn(contraction, eqn.invars, use.outvars, params, eqn.source)
                gone.add(use)
        changed = changed or new is not eqn
        eqns.append(new)
    if not changed:
        return jaxpr
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name, jaxpr.arg_names)


def _transposes(jaxpr: Jaxpr) -> dict[Atom, Eqn]:
    """Values that nothing but a transpose uses, with that transpose."""
    found = {e.invars[0]: e for e in jaxpr.eqns if e.primitive is transpose}
    if not found:
        return {}
    uses: dict[Atom, int] = dict.fromkeys(found, 0)
    for eqn in jaxpr.eqns:
        for x in eqn.invars:
            if x in uses:
                uses[x] += 1
    return {x: e for x, e in found.items() if uses[x] == 1 and x not in jaxpr.outvars}


def _turned(jaxpr: Jaxpr, perm: Shape) -> Jaxpr | None:
    """The program of a contraction that gives the transposed result; remembered on the program."""
    key = ("turned", perm)
    if key not in jaxpr.memo:
        eqns = _permuted(jaxpr.eqns, perm)
        outvars = () if eqns is None else eqns[-1].outvars
        jaxpr.memo[key] = eqns and Jaxpr((), jaxpr.invars, outvars, eqns, jaxpr.name)
    return jaxpr.memo[key]  # type: ignore[no-any-return]


def _permuted(eqns: Sequence[Eqn], perm: Shape) -> list[Eqn] | None:
    """The equations of a contraction over a permuted iteration space.

    Args:
      eqns: in order; the last one is the sum.
      perm: how its result is transposed.

    Returns:
      None where one of the equations is over the iteration space and cannot be permuted.
    """
    *body, total = eqns
    if total.primitive is not reduce_sum:
        return None
    order = _order(total, perm)
    space: set[Atom] = {total.invars[0]}  # the values over the iteration space
    for eqn in reversed(body):
        if eqn.outvars[0] not in space:
            if not space.isdisjoint(eqn.invars):
                return None  # a reindex from the iteration space into another one
        elif eqn.primitive.family == "elementwise":
            space.update(x for x in eqn.invars if type(x) is Var)
        elif eqn.primitive not in (broadcast_in_dim, reindex) or eqn.invars[0] in space:
            return None
    env: dict[Atom, Atom] = {}
    new = [_moved(eqn, order, env) if eqn.outvars[0] in space else eqn for eqn in body]
    old = total.outvars[0].aval
    result = Var(old.update(shape=tuple([old.shape[p] for p in perm])))
    new.append(Eqn(reduce_sum, (env[total.invars[0]],), (result,), total.params, total.source))
    return new


def _order(total: Eqn, perm: Shape) -> Shape:
    """For each axis of the new iteration space the old one: kept axes change places."""
    rank, axes = total.invars[0].aval.ndim, total.params["axes"]
    kept = kept_axes(rank, axes)
    order = list(range(rank))
    for place, p in zip(kept, perm, strict=True):
        order[place] = kept[p]
    return tuple(order)


def _moved(eqn: Eqn, order: Shape, env: dict[Atom, Atom]) -> Eqn:
    out = eqn.outvars[0]
    shape = tuple([out.aval.shape[k] for k in order])
    params = eqn.params
    if eqn.primitive is broadcast_in_dim:
        params = {"shape": shape, "dims": tuple([order.index(d) for d in params["dims"]])}
    elif eqn.primitive is reindex:
        params = {**params, "map": params["map"].permute_domain(order)}
    new = env[out] = Var(out.aval.update(shape=shape))
    return Eqn(eqn.primitive, [env.get(x, x) for x in eqn.invars], (new,), params, eqn.source)
