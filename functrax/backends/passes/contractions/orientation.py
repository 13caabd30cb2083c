"""Contractions in the order of axes that is wanted: a transpose of a sum of products vanishes.

The derivative of a matrix product is often the transpose of what is wanted, or a part of what is
transposed once all parts of a gradient are added up.  What enters is a program with
``contraction`` groups; what leaves has no transpose of a *turnable* value: of a contraction, or of
what elementwise equations make of turnable values, numbers and broadcasts, all of them used for
nothing else.  A contraction gives the transposed result at once: its sum has its dims in another
order (``passes/contractions/product_sums.py``).

The sums are of the same products; a library of matrix products may add them up in another order.

Start at :func:`orient`.
"""

from __future__ import annotations

from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.contractions.layouts import Shape
from functrax.backends.passes.contractions.product_sums import equation_of, sum_of
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.reindex import broadcast_in_dim, transpose
from functrax.core.records import replace
from functrax.core.tracing.primitive import Elementwise


def orient(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with transposes of contractions made part of them."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: orient(inner, rewrites))
    transposing = [(eqn, perm) for eqn in eqns if (perm := _order(eqn)) is not None]
    if transposing:
        turning = _Turning(Jaxpr((), jaxpr.invars, jaxpr.outvars, eqns))
        for eqn, perm in transposing:
            turning.try_to_remove(eqn, perm, rewrites)
        eqns = [new for eqn in eqns for new in turning.written(eqn)]
    return with_eqns(jaxpr, eqns)


def _order(eqn: Eqn) -> Shape | None:
    """In which order an equation has the axes of what it transposes; None if it does not.

    A broadcast that repeats nothing inserts axes of size 1, and may transpose the others.
    """
    if eqn.primitive is transpose:
        return tuple(eqn.params["perm"])
    if eqn.primitive is not broadcast_in_dim or not isinstance(eqn.invars[0], Var):
        return None
    dims, size = eqn.params["dims"], eqn.invars[0].aval.size
    if size != eqn.outvars[0].aval.size or tuple(sorted(dims)) == tuple(dims):
        return None
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


class _Turning:
    """Which equations of a program give a transposed result instead of their own.

    Attributes:
      turned: for each value that is wanted transposed, how, and the value that is it.
      kept: values that are needed as they are, too.
      instead: what stands in the place of transposes that vanish: nothing, or the axes of size 1
        that they insert.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.turned: dict[Atom, tuple[Shape, Var]] = {}
        self.kept: set[Atom] = set()
        self.instead: dict[Eqn, list[Eqn]] = {}
        self._producer: dict[Atom, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
        self._uses = uses(jaxpr.eqns, jaxpr.outvars)

    def try_to_remove(self, use: Eqn, perm: Shape, rewrites: Rewrites) -> None:
        """Let a transpose that is needed vanish, if what it reads is turnable."""
        (x,) = use.invars
        if not self._uses[use.outvars[0]]:
            return
        found: dict[Atom, tuple[Shape, Var]] = {}
        left = [x]
        while left:
            y = left.pop()
            if y in found:
                continue
            needed = self._needed(y)
            if needed is None:
                return
            left += needed
            found[y] = perm, Var(y.aval.update(shape=tuple([y.aval.shape[p] for p in perm])))
        producers = {y: self._producer[y] for y in found}
        products = any(eqn.primitive is contraction for eqn in producers.values())
        if products and rewrites.allow("done by the contraction before", use):
            self.instead[use] = []
            if use.primitive is transpose:
                found[x] = perm, use.outvars[0]
            else:
                params = {**use.params, "dims": tuple(sorted(use.params["dims"]))}
                inserted = Eqn(use.primitive, (found[x][1],), use.outvars, params, use.source)
                self.instead[use].append(inserted)
            self.turned.update(found)
            broadcasts = [y for y, e in producers.items() if e.primitive is broadcast_in_dim]
            self.kept.update(y for y in broadcasts if self._uses[y] > 1)

    def _needed(self, x: Atom) -> list[Atom] | None:
        """What must be turned besides to have ``x`` transposed; None if it cannot be."""
        eqn = self._producer.get(x)
        if eqn is None or x in self.turned or len(eqn.outvars) > 1:
            return None
        if eqn.primitive is broadcast_in_dim:
            return []
        if self._uses[x] > 1:
            return None
        if eqn.primitive is contraction:
            return None if sum_of(eqn) is None else []
        if not isinstance(eqn.primitive, Elementwise):
            return None
        return [y for y in eqn.invars if y.aval.ndim]

    def written(self, eqn: Eqn) -> list[Eqn]:
        """What stands in the place of an equation."""
        if eqn in self.instead:
            return self.instead[eqn]
        (x, *_) = eqn.outvars or (None,)
        if x not in self.turned:
            return [eqn]
        perm, out = self.turned[x]
        if eqn.primitive is contraction:
            return [_turned(eqn, perm, out)]
        invars, params = eqn.invars, eqn.params
        if eqn.primitive is broadcast_in_dim:
            shape, dims = params["shape"], params["dims"]
            params = {
                "shape": tuple([shape[p] for p in perm]),
                "dims": tuple([perm.index(d) for d in dims]),
            }
        else:
            invars = tuple([self.turned[y][1] if y in self.turned else y for y in invars])
        new = Eqn(eqn.primitive, invars, (out,), params, eqn.source)
        return [eqn, new] if x in self.kept else [new]


def _turned(eqn: Eqn, perm: Shape, out: Var) -> Eqn:
    """A contraction that gives the transposed result; its program is remembered on its own."""
    program: Jaxpr = eqn.params["jaxpr"]
    key = ("turned", perm)
    new: Eqn | None = program.memo.get(key)
    if new is None:
        found = sum_of(Eqn(contraction, program.invars, (), eqn.params))
        assert found is not None, "it was turnable"
        found = replace(found, kept=tuple([found.kept[p] for p in perm]))
        new = program.memo[key] = equation_of(found, out, eqn.params["name"], eqn.source)
    outside = dict(zip(program.invars, eqn.invars, strict=True))
    invars = [outside[x] for x in new.invars]  # type: ignore[index]
    return Eqn(contraction, invars, (out,), new.params, eqn.source)
