"""Contractions in the order of axes that is wanted: a transpose of a sum of products vanishes.

The derivative of a matrix product is often the transpose of what is wanted, or a part of what is
transposed once all parts of a gradient are added up.  What enters is a program with
``contraction`` groups; what leaves has no transpose of a *turnable* value: of a contraction, or of
what elementwise equations make of turnable values, numbers and broadcasts, all of them used for
nothing else.  A contraction's iteration space is permuted instead (every broadcast goes to other
axes, every general reindex has other dimensions), and it gives the transposed result at once.

The sums are of the same products; a library of matrix products may add them up in another order.

Start at :func:`orient`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import kept_axes, reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim, transpose
from functrax.core.tracing.primitive import Elementwise

Shape = tuple[int, ...]

#: The most equations that are turned for one transpose.
MAX_TURNED = 32


def orient(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with transposes of contractions made part of them."""
    turning = _Turning(jaxpr)
    for eqn in jaxpr.eqns:
        if eqn.primitive is transpose:
            turning.try_to_remove(eqn, rewrites)
    eqns: list[Eqn] = []
    changed = False
    for eqn in jaxpr.eqns:
        new = turning.written(eqn)
        if new == [eqn] and eqn.primitive is not contraction:
            new = [with_programs(eqn, lambda inner: orient(inner, rewrites))]
        changed = changed or new != [eqn]
        eqns += new
    if not changed:
        return jaxpr
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns, jaxpr.name, jaxpr.arg_names)


class _Turning:
    """Which equations of a program give a transposed result instead of their own.

    Attributes:
      turned: for each value that is wanted transposed, how, and the value that is it.
      kept: values that are needed as they are, too.
      gone: the transposes that vanish.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.turned: dict[Atom, tuple[Shape, Atom]] = {}
        self.kept: set[Atom] = set()
        self.gone: set[Eqn] = set()
        self._transposes = any(e.primitive is transpose for e in jaxpr.eqns)
        self._producer: dict[Atom, Eqn] = {}
        self._uses: Counter[Atom] = Counter()
        if self._transposes:
            self._producer = {v: e for e in jaxpr.eqns for v in e.outvars}
            self._uses.update([*jaxpr.outvars, *(x for e in jaxpr.eqns for x in e.invars)])

    def try_to_remove(self, use: Eqn, rewrites: Rewrites) -> None:
        """Let a transpose vanish, if what it reads is turnable."""
        (x,), perm = use.invars, tuple(use.params["perm"])
        found: dict[Atom, tuple[Shape, Atom]] = {}
        if not self._collect(x, perm, found) or len(found) > MAX_TURNED:
            return
        products = [v for v in found if self._producer[v].primitive is contraction]
        if products and rewrites.allow("done by the contraction before", use):
            found[x] = perm, use.outvars[0]
            self.turned.update(found)
            self.gone.add(use)

    def _collect(self, x: Atom, perm: Shape, found: dict[Atom, tuple[Shape, Atom]]) -> bool:
        """Find what must be turned to have ``x`` transposed; whether all of it can be."""
        eqn = self._producer.get(x)
        if eqn is None or x in self.turned or len(eqn.outvars) > 1:
            return False
        if x in found:
            return found[x][0] == perm
        if eqn.primitive is broadcast_in_dim:
            if self._uses[x] > 1:
                self.kept.add(x)
        elif self._uses[x] > 1 or not self._can_turn(eqn, perm, found):
            return False
        aval = x.aval
        found[x] = perm, Var(aval.update(shape=tuple([aval.shape[p] for p in perm])))
        return True

    def _can_turn(self, eqn: Eqn, perm: Shape, found: dict[Atom, tuple[Shape, Atom]]) -> bool:
        if eqn.primitive is contraction:
            return _turned(eqn.params["jaxpr"], perm) is not None
        if not isinstance(eqn.primitive, Elementwise):
            return False
        return all(self._collect(y, perm, found) for y in _arrays(eqn))

    def written(self, eqn: Eqn) -> list[Eqn]:
        """What stands in the place of an equation."""
        if eqn in self.gone:
            return []
        (x, *_) = eqn.outvars or (None,)
        if x not in self.turned:
            return [eqn]
        perm, out = self.turned[x]
        assert isinstance(out, Var)
        invars, params = eqn.invars, eqn.params
        if eqn.primitive is broadcast_in_dim:
            params = _turned_broadcast(params, perm)
        elif eqn.primitive is contraction:
            params = {**params, "jaxpr": _turned(params["jaxpr"], perm)}
        else:
            invars = tuple([self.turned[y][1] if y in self.turned else y for y in invars])
        new = Eqn(eqn.primitive, invars, (out,), params, eqn.source)
        return [eqn, new] if x in self.kept else [new]


def _arrays(eqn: Eqn) -> list[Atom]:
    """The operands that are no numbers."""
    return [y for y in eqn.invars if y.aval.ndim]


def _turned_broadcast(params: Mapping[str, Any], perm: Shape) -> dict[str, Any]:
    shape, dims = params["shape"], params["dims"]
    return {
        "shape": tuple([shape[p] for p in perm]),
        "dims": tuple([perm.index(d) for d in dims]),
    }


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
        elif isinstance(eqn.primitive, Elementwise):
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
        params = _turned_broadcast(params, order)
    elif eqn.primitive is reindex:
        params = {**params, "map": params["map"].permute_domain(order)}
    new = env[out] = Var(out.aval.update(shape=shape))
    return Eqn(eqn.primitive, [env.get(x, x) for x in eqn.invars], (new,), params, eqn.source)
