"""The choice between an array and the same array with some elements updated.

A batched loop or branch leaves alone what is finished: ``where(which, updated, x)`` with ``updated
= x.at[p].set(u)``.  Elements other than those at ``p`` are those of ``x`` in either case, so it is
``x.at[p].set(where(which[p], u, x[p]))``, which looks at the updated elements alone, and can be
done in place.

Start at :func:`choice_of_update`, which is a row of ``passes/rules.py``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.backends.passes.rule import Made, New
from functrax.core import dtypes
from functrax.core.jaxpr import Atom, Eqn, Literal
from functrax.core.prims.arithmetic import select_n
from functrax.core.prims.mapped import reindex, scatter
from functrax.core.prims.reduce import op_identity

#: How many updates after one another are looked at.
_MOST: Final = 3


def choice_of_update(eqn: Eqn, made: Made) -> Any:
    """A choice by truth values between ``x`` and updates of ``x``, as updates that choose."""
    which, *cases = eqn.invars
    if len(cases) != 2 or which.aval.dtype != dtypes.bool_:
        return None
    if type(which) is Literal or which.aval.shape != eqn.outvars[0].aval.shape:
        return None
    for updated_if in (True, False):
        x, updated = cases if updated_if else reversed(cases)
        if _are_updates(x, updated, made):
            return _chosen(which, updated_if, x, updated, made)
    return None


def _are_updates(x: Atom, updated: Atom, made: Made) -> bool:
    """Whether an array is ``x`` with few of its elements updated."""
    for _ in range(_MOST):
        eqn = made.by(scatter, updated)
        if eqn is None or not _is_small(eqn) or _unchanging(eqn) is None:
            return False
        updated = eqn.invars[0]
        if updated is x:
            return True
    return False


def _is_small(eqn: Eqn) -> bool:
    index_map = eqn.params["map"]
    return 2 * int(np.prod(index_map.domain)) <= int(np.prod(index_map.codomain))


def _unchanging(eqn: Eqn) -> Literal | str | None:
    """The update that changes no bit of an element; ``"read"`` for the element itself."""
    op, aval = eqn.params["op"], eqn.outvars[0].aval
    if op == "set":
        return "read"
    if op != "add" and aval.dtype in dtypes.COMPLEX:
        return None  # inf * (1 + 0j) has a NaN
    number = op_identity(op, aval.dtype)
    if op == "add" and dtypes.is_inexact(aval.dtype):
        number = complex(-0.0, -0.0) if aval.dtype in dtypes.COMPLEX else -0.0
    return Literal(np.asarray(number, aval.dtype), aval.update(shape=()))


def _chosen(which: Atom, updated_if: bool, x: Atom, updated: Atom, made: Made) -> Any:
    if updated is x:
        return x
    eqn = made[updated]
    before, update, *indices = eqn.invars
    base = _chosen(which, updated_if, x, before, made)
    index_map = eqn.params["map"]

    def at(array: Any, aval: Any) -> New:
        fill = Literal(np.zeros((), aval.dtype), aval.update(shape=(), weak_type=False))
        return New(reindex, (array, *indices), {"map": index_map, "fill": fill})

    unchanging = _unchanging(eqn)
    kept = at(base, x.aval) if unchanging == "read" else unchanging
    cases = (kept, update) if updated_if else (update, kept)
    return New(
        scatter, (base, New(select_n, (at(which, which.aval), *cases)), *indices), eqn.params
    )
