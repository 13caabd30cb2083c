"""Common subexpressions: of equal equations without side effects the first one is kept.

Equal are a primitive, its parameters and its operands, in any order where it is commutative.  Equal
constants, full arrays and index ranges become one in the same way.
"""

from __future__ import annotations

from typing import Any

from functrax.backends.passes.inner import renamed, with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr
from functrax.core.tracing.primitive import Primitive


def cse(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with each value computed once."""
    known: dict[Any, Eqn] = {}
    env: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    for old in jaxpr.eqns:
        eqn = with_programs(renamed(old, env), lambda inner: cse(inner, rewrites))
        primitive = eqn.primitive
        if primitive.shareable and (primitive.pure or not primitive.has_side_effects(eqn.params)):
            key = (primitive, _ordered(primitive, eqn.invars), *eqn.params.items())
            first = known.setdefault(key, eqn)
            if first is not eqn and rewrites.allow("computed before", eqn):
                env.update(zip(eqn.outvars, first.outvars, strict=True))
                continue
        eqns.append(eqn)
    return with_eqns(jaxpr, eqns, env)


def _ordered(primitive: Primitive, invars: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """The operands in an order that does not depend on how they were written."""
    if not getattr(primitive, "commutative", False):
        return invars
    x, y = invars
    if id(x) <= id(y) or x.aval.dtype.kind == "c":
        return invars
    return y, x
