"""Common subexpressions: of equal equations without side effects the first one is kept.

Equal are a primitive, its parameters and its operands, in any order where it is commutative.  Equal
constants, full arrays and index ranges become one in the same way.
"""

from __future__ import annotations

from typing import Any

from functrax.backends.passes.inner import with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr
from functrax.core.tracing.primitive import Primitive


def cse(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with each value computed once."""
    known: dict[Any, Eqn] = {}
    renamed: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    changed = False
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        invars = eqn.invars
        if renamed and not renamed.keys().isdisjoint(invars):
            invars = tuple([renamed.get(x, x) for x in invars])
            eqn = Eqn(primitive, invars, eqn.outvars, eqn.params, eqn.source)
        if primitive.holds_programs:
            smaller = with_programs(eqn, lambda inner: cse(inner, rewrites))
            changed = changed or smaller is not eqn
            eqn = smaller
        if primitive.shareable and not (
            not primitive.pure and primitive.has_side_effects(eqn.params)
        ):
            key = (primitive, _ordered(primitive, invars), *eqn.params.items())
            first = known.setdefault(key, eqn)
            if first is not eqn and rewrites.allow("computed before", eqn):
                renamed.update(zip(eqn.outvars, first.outvars, strict=True))
                changed = True
                continue
        eqns.append(eqn)
    if not changed:
        return jaxpr
    outvars = [renamed.get(x, x) for x in jaxpr.outvars]
    return Jaxpr((), jaxpr.invars, outvars, eqns, jaxpr.name, jaxpr.arg_names)


def _ordered(primitive: Primitive, invars: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The operands in an order that does not depend on how they were written."""
    if not getattr(primitive, "commutative", False):
        return invars
    x, y = invars
    if id(x) <= id(y) or x.aval.dtype.kind == "c":
        return invars
    return y, x
