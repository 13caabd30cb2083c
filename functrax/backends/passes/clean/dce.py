"""Dead code: equations that nothing needs go; those with side effects stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress

from functrax.backends.passes.inner import with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr


def dce(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program without what its results and its effects do not need."""
    needed: set[Atom] = set(jaxpr.outvars)
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        dead = needed.isdisjoint(eqn.outvars) and not eqn.primitive.has_side_effects(eqn.params)
        if dead and rewrites.allow("nothing needs it", eqn):
            continue
        needed.update(eqn.invars)
        fewer = _of_what_is_used(eqn, needed, rewrites)
        kept.append(with_programs(fewer, lambda inner: dce(inner, rewrites)))
    kept.reverse()
    return with_eqns(jaxpr, kept)


def uses(eqns: Sequence[Eqn], outvars: Sequence[Atom]) -> Counter[Atom]:
    """How often each value is used by results, and by equations that are needed."""
    found: Counter[Atom] = Counter(outvars)
    for eqn in reversed(eqns):
        is_needed = not found.keys().isdisjoint(eqn.outvars)
        if is_needed or eqn.primitive.has_side_effects(eqn.params):
            for x in eqn.invars:
                found[x] += 1
    return found


def _of_what_is_used(eqn: Eqn, needed: set[Atom], rewrites: Rewrites) -> Eqn:
    """The equation with the results alone that are used, where its primitive can leave some out."""
    used = [v in needed for v in eqn.outvars]
    params = None if all(used) else eqn.primitive.fewer(used, dict(eqn.params))
    if params is None or not rewrites.allow("a result that nothing needs", eqn):
        return eqn
    outvars = tuple(compress(eqn.outvars, used))
    return Eqn(eqn.primitive, eqn.invars, outvars, params, eqn.source)
