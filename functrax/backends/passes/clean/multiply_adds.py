"""Products that are added once: the processor multiplies and adds in one step, rounded once.

What enters is a program; what leaves is one in which a product that a single sum or difference
uses, and nothing else, is a part of it (``fma``).  It is done before equations share kernels, so
that a value is rounded alike wherever it is computed: a kernel that reads the product and one that
computes it again give the same bits, and an element is equal to the maximum that another kernel
found among its like.  For this reason kernels form none by themselves.

Start at :func:`multiply_adds`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import state as options
from functrax.core.prims.arithmetic import add, mul, neg, sub
from functrax.core.prims.fused import fma

_SUMS: Final = frozenset({add, sub})


def multiply_adds(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with ``fma`` for products that are added once; in strict mode as it was."""
    if options.strict or not target().has_fma:
        return jaxpr
    return _with_fmas(jaxpr, rewrites)


def _with_fmas(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    eqns = with_bodies(jaxpr.eqns, lambda inner: _with_fmas(inner, rewrites))
    if not any(eqn.primitive in _SUMS for eqn in eqns):
        return with_eqns(jaxpr, eqns)
    count = uses(eqns, jaxpr.outvars)
    products: dict[Atom, tuple[int, Sequence[Atom]]] = {}  # where they are, and the factors
    new: list[list[Eqn]] = []
    for eqn in eqns:
        found = None
        if eqn.primitive in _SUMS:
            found = next((k for k, x in enumerate(eqn.invars) if _joins(eqn, x, products)), None)
        elif eqn.primitive is mul and eqn.outvars[0].aval.dtype in fma.accepts:
            if count[eqn.outvars[0]] == 1:
                products[eqn.outvars[0]] = len(new), eqn.invars
        if found is not None and rewrites.allow("x * y + z, rounded once", eqn):
            place, factors = products[eqn.invars[found]]
            new[place] = []
            new.append(_rounded_once(eqn, found, factors))
        else:
            new.append([eqn])
    return with_eqns(jaxpr, [eqn for part in new for eqn in part])


def _joins(eqn: Eqn, x: Atom, products: Container[Atom]) -> bool:
    """Whether an operand of a sum is a product of its shape; a smaller one is computed once."""
    return x in products and x.aval.shape == eqn.outvars[0].aval.shape


def _rounded_once(eqn: Eqn, number: int, factors: Sequence[Atom]) -> list[Eqn]:
    """A sum whose operand of this number is a product, with the negation that it needs."""
    (x, y), z = factors, eqn.invars[1 - number]
    signs: list[Eqn] = []
    if eqn.primitive is sub and number == 0:
        z = _negated(z, eqn, signs)
    elif eqn.primitive is sub:
        x, y = (y, x) if isinstance(y, Literal) else (x, y)
        x = _negated(x, eqn, signs)
    return [*signs, Eqn(fma, (x, y, z), eqn.outvars, {}, eqn.source)]


def _negated(x: Atom, eqn: Eqn, made: list[Eqn]) -> Atom:
    if isinstance(x, Literal):
        return Literal(-x.val, x.aval)
    negative = Var(x.aval)
    made.append(Eqn(neg, (x,), (negative,), {}, eqn.source))
    return negative
