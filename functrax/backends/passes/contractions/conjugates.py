"""Conjugates, signs and conversions of complex operands become part of the contraction.

Contractions of complex numbers are those of real ones, whose sides are evaluated part
by part (``gemm/complex_parts.py``).  So ``x.conj() @ y``, and the transposes of such a product,
are one kernel, where fusion would leave a call of the reference for the conjugate.

What enters is a program with ``contraction`` groups of complex numbers.  What leaves has groups
that read what such an equation reads; the equation is dead code if nothing else needs it.

Start at :func:`absorb`.
"""

from __future__ import annotations

from functrax.backends.passes.fusion.contraction_groups import flat
from functrax.backends.passes.groups import contraction, grouped
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.types import dtypes


def absorb(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with conjugates in its contractions."""
    made: dict[Atom, Eqn] = {}
    eqns: list[Eqn] = []
    for eqn in with_bodies(jaxpr.eqns, lambda inner: absorb(inner, rewrites)):
        if eqn.primitive is contraction and dtypes.is_complex(eqn.outvars[0].aval.dtype):
            eqn = _absorbed(eqn, made, rewrites)
        eqns.append(eqn)
        if _is_absorbed(eqn):
            made[eqn.outvars[0]] = eqn
    return with_eqns(jaxpr, eqns)


def _is_absorbed(eqn: Eqn) -> bool:
    by_parts = eqn.primitive.by_parts and type(eqn.invars[0]) is Var
    return by_parts and dtypes.is_complex(eqn.outvars[0].aval.dtype)


def _absorbed(eqn: Eqn, made: dict[Atom, Eqn], rewrites: Rewrites) -> Eqn:
    """A contraction with what its operands are made by, as far back as that goes."""
    chain: dict[Eqn, None] = {}
    left = [x for x in eqn.invars if x in made]
    while left:
        before = made[left.pop()]
        chain.pop(before, None)  # it stands before all that reads it
        chain[before] = None
        left += [x for x in before.invars if x in made]
    if not chain or not rewrites.allow(f"{len(chain)} conjugates or conversions", eqn):
        return eqn
    whole = flat([*reversed(chain), eqn])
    return grouped(contraction, whole, eqn.outvars, eqn.params["name"], eqn.source)
