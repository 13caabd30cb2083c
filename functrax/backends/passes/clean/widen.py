"""Narrow floats where they are added up in memory: scatters of float16 and bfloat16 in float32.

A kernel adds to an array element by element, and rounds each time to what the array holds.  Sums
of narrow floats are carried in float32 and rounded once, so what enters, ``scatter`` and
``reindex_reduce`` of narrow floats, leaves as the same of float32, between conversions.  ``set``
adds nothing and stays.

Start at :func:`widen`.
"""

from __future__ import annotations

import numpy as np

from functrax.backends.kernels.values import elements_of, is_update
from functrax.backends.passes.inner import with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.types import dtypes


def widen(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with its scatters of narrow floats in float32."""
    eqns: list[Eqn] = []
    filled: dict[Atom, Eqn] = {}  # arrays full of one number, and what makes them
    for old in jaxpr.eqns:
        eqn = with_programs(old, lambda program: widen(program, rewrites))
        if _is_narrow(eqn) and rewrites.allow("in float32", eqn):
            eqns += _widened(eqn, filled)
            continue
        eqns.append(eqn)
        if eqn.primitive is broadcast_in_dim and isinstance(eqn.invars[0], Literal):
            filled[eqn.outvars[0]] = eqn
    return with_eqns(jaxpr, eqns)


def _is_narrow(eqn: Eqn) -> bool:
    """Whether an equation adds up narrow floats where they are, in memory."""
    narrow = is_update(eqn) and eqn.outvars[0].aval.dtype in dtypes.HALF
    return narrow and eqn.params["op"] != "set"


def _widened(eqn: Eqn, filled: dict[Atom, Eqn]) -> list[Eqn]:
    """A scatter in float32, between conversions."""
    (out,) = eqn.outvars
    eqns: list[Eqn] = []
    count = 1 + elements_of(eqn)  # the others are indices
    operands: list[Atom] = []
    for x in eqn.invars[:count]:
        if isinstance(x, Literal):
            operands.append(_number(x))
            continue
        wide = Var(x.aval.update(dtype=dtypes.float32))
        operands.append(wide)
        fill = filled.get(x)
        if fill is not None:  # which a scatter starts from without reading it
            number = fill.invars[0]
            assert isinstance(number, Literal)
            eqns.append(Eqn(fill.primitive, (_number(number),), (wide,), fill.params, fill.source))
        else:
            eqns.append(_conversion(x, wide, eqn))
    total = Var(out.aval.update(dtype=dtypes.float32))
    invars = (*operands, *eqn.invars[count:])
    eqns.append(Eqn(eqn.primitive, invars, (total,), eqn.params, eqn.source))
    eqns.append(_conversion(total, out, eqn))
    return eqns


def _number(x: Literal) -> Literal:
    return Literal(np.asarray(x.val, dtypes.float32), x.aval.update(dtype=dtypes.float32))


def _conversion(x: Atom, y: Var, eqn: Eqn) -> Eqn:
    params = {"dtype": y.aval.dtype, "weak_type": False}
    return Eqn(convert_element_type, (x,), (y,), params, eqn.source)
