"""What passes write alike: equations of other operands, programs of other equations.

Programs inside equations are treated as the program around them (:func:`with_programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any

from functrax.backends.passes.groups import contraction
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, all_eqns


def renamed(eqn: Eqn, env: Mapping[Atom, Atom]) -> Eqn:
    """The equation with what ``env`` has in place of operands; the same object if that is none."""
    if not env or env.keys().isdisjoint(eqn.invars):
        return eqn
    invars = [env.get(x, x) for x in eqn.invars]
    return Eqn(eqn.primitive, invars, eqn.outvars, eqn.params, eqn.source)


def with_programs(eqn: Eqn, function: Callable[[Jaxpr], Jaxpr]) -> Eqn:
    """The equation with ``function`` applied to each program that it holds.

    That returns the same object for no change; then so does this.
    """
    if not eqn.primitive.holds_programs:
        return eqn
    changed: dict[str, Any] = {}
    for key, value in eqn.params.items():
        if type(value) is Jaxpr:
            new: Any = function(value)
        elif type(value) is tuple and any(type(v) is Jaxpr for v in value):
            parts = [function(v) if type(v) is Jaxpr else v for v in value]
            same = all(a is b for a, b in zip(parts, value))
            new = value if same else tuple(parts)
        else:
            continue
        if new is not value:
            changed[key] = new
    if not changed:
        return eqn
    return Eqn(eqn.primitive, eqn.invars, eqn.outvars, {**eqn.params, **changed}, eqn.source)


def once_each(function: Callable[[Jaxpr], Jaxpr]) -> Callable[[Jaxpr], Jaxpr]:
    """A function of programs that is applied once to equal ones that stand for the same lines."""
    known: dict[Hashable, Jaxpr] = {}

    def apply(program: Jaxpr) -> Jaxpr:
        lines = [eqn.source and eqn.source.key for eqn in all_eqns(program)]
        key = program, tuple(lines)
        found = known.get(key)
        if found is None:
            found = known[key] = function(program)
        return found

    return apply


def with_bodies(eqns: Iterable[Eqn], function: Callable[[Jaxpr], Jaxpr]) -> list[Eqn]:
    """The equations with ``function`` applied to their programs, but for those of contractions."""
    return [
        with_programs(e, function)
        if e.primitive.holds_programs and e.primitive is not contraction
        else e
        for e in eqns
    ]


def with_eqns(jaxpr: Jaxpr, eqns: Sequence[Eqn], env: Mapping[Atom, Atom] | None = None) -> Jaxpr:
    """The program with other equations, and with what ``env`` has in place of results.

    It is the same object if nothing differs.
    """
    same = len(eqns) == len(jaxpr.eqns) and all(map(is_, eqns, jaxpr.eqns))
    if same and not env:
        return jaxpr
    outvars = [env.get(x, x) for x in jaxpr.outvars] if env else jaxpr.outvars
    return Jaxpr((), jaxpr.invars, outvars, eqns, jaxpr.name, jaxpr.arg_names)
