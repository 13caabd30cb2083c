"""The choice between an array and the same array with some elements updated.

A batched loop or branch leaves alone what is finished: ``where(which, updated, x)`` with ``updated
= x.at[p].set(u)``.  Elements other than those at ``p`` are those of ``x`` in either case, so it is
``x.at[p].set(where(which[p], u, x[p]))``, which looks at the updated elements alone, and can be
done in place.

Programs that do this themselves read ``x[p]`` with ``p`` in range, and write where it is: what is
read elsewhere is not written, so both may name the same element (:func:`read_where_written`), and a
kernel that reads what it writes over needs no copy.

Start at :func:`choice_of_update`, which is a row of ``passes/algebra/rule_table.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.backends.passes.algebra.rule import Made, New
from functrax.backends.passes.rewrites import EFFORT
from functrax.core.index.expr import Load
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.prims.arithmetic import clamp, select_n
from functrax.core.prims.mapped import reindex, scatter
from functrax.core.prims.reduce import op_identity
from functrax.core.prims.reindex import reshape
from functrax.core.types import dtypes


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
    for _ in range(EFFORT):
        eqn = made.by(scatter, updated)
        if eqn is None or _unchanging(eqn) is None:
            return False
        written = eqn.params["map"]
        if 2 * math.prod(written.domain) > math.prod(written.codomain):
            return False
        updated = eqn.invars[0]
        if updated is x:
            return True
    return False


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


def read_where_written(eqn: Eqn, made: Made) -> Any:
    """``x.at[p].set(where(which, u, x[clamp(p)]))``, which reads at ``p`` instead.

    An update at a place that is out of range is dropped, whatever it is.
    """
    x, update, *indices = eqn.invars
    if eqn.params["op"] != "set" or not indices:
        return None
    shaped = made.by(reshape, update)
    chosen = made.by(select_n, shaped.invars[0] if shaped is not None else update)
    if chosen is None or len(chosen.invars) != 3:
        return None
    cases: list[Any] = list(chosen.invars[1:])
    for k, case in enumerate(cases):
        read = made.by(reindex, case)
        if read is not None and read.invars[0] is x and _reads_there(eqn, read, made):
            cases[k] = New(reindex, (x, *indices), read.params)
            value: Any = New(select_n, (chosen.invars[0], *cases))
            if shaped is not None:
                value = New(reshape, (value,), shaped.params)
            return New(scatter, (x, value, *indices), eqn.params)
    return None


def _reads_there(write: Eqn, read: Eqn, made: Made) -> bool:
    """Whether what is read, at other indices than are written, is the same where both are valid."""
    there, here = write.params["map"], read.params["map"]
    own = tuple([n for n in there.domain if n != 1])
    if own != tuple([n for n in here.domain if n != 1]) or there.domain[: len(own)] != own:
        return False
    if (there.exprs, there.conditions) != (here.exprs, here.conditions):
        return False
    differ = False
    for k, (a, b) in enumerate(zip(write.invars[2:], read.invars[1:], strict=True)):
        if a is b:
            continue
        clamped = made.by(clamp, b)
        if clamped is None or clamped.invars[1] is not a:
            return False
        low, high = clamped.invars[0], clamped.invars[2]
        if type(low) is not Literal or type(high) is not Literal:
            return False
        by_index = [d for d, e in enumerate(there.exprs) if e.loads_mask >> k & 1]
        plain = all(isinstance(there.exprs[d], Load) for d in by_index)
        sizes = {there.codomain[d] for d in by_index}
        if not plain or low.val != 0 or sizes != {int(high.val) + 1}:
            return False
        differ = True
    return differ


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
