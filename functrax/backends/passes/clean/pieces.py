"""Sums of arrays that are padded with zeros become arrays that are put together.

The gradient of an array of which parts are used at several places (weights of layers that lie in
one array, the thirds of a projection) is a sum of as many arrays as there are parts, each as large
as the whole and 0 nearly everywhere.  Those that lie side by side along one axis are one
``concatenate``, which reads one part for each element instead of all.

The rest of a sum is added up in another order, and a zero may be -0 where it was 0, so strict mode
leaves them.

Start at :func:`pieces`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.prims.slicing import concatenate, pad


class Piece(NamedTuple):
    """What is padded with zeros along one axis.

    Args:
      axis: the axis.
      begin: where it begins on it.
      end: where it ends.
      part: it, without the zeros.
      term: it, with them.
    """

    axis: int
    begin: int
    end: int
    part: Atom
    term: Atom


def pieces(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with sums of padded arrays put together."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: pieces(inner, rewrites))
    found: dict[Atom, Piece] = {
        e.outvars[0]: p for e in eqns if e.primitive is pad and (p := _piece(e)) is not None
    }
    sums = sums_of(found, eqns) if len(found) > 1 else []
    if sums:
        used = uses(eqns, jaxpr.outvars)
        inner: dict[Atom, Eqn] = {e.outvars[0]: e for e in sums if used[e.outvars[0]] == 1}
        instead: dict[Eqn, list[Eqn]] = {}
        gone: set[Eqn] = set()  # additions inside of sums
        for eqn in reversed(sums):
            if eqn not in gone:
                terms = added_up(eqn, inner, gone)
                written = _put_together(eqn, terms, found, rewrites)
                if written:
                    instead[eqn] = written
        eqns = [new for eqn in eqns for new in instead.get(eqn, (eqn,))]
    return with_eqns(jaxpr, eqns)


def _piece(eqn: Eqn) -> Piece | None:
    """What an equation pads with zeros, if it does so along one axis."""
    low, high, fill = eqn.params["low"], eqn.params["high"], eqn.params["fill"].val
    axes = [d for d, both in enumerate(zip(low, high, strict=True)) if any(both)]
    if len(axes) != 1 or any(eqn.params["interior"]) or fill != 0 or np.signbit(fill.real):
        return None
    ((d,), (part,)) = axes, eqn.invars
    if low[d] < 0 or high[d] < 0 or isinstance(part, Literal):
        return None
    return Piece(d, low[d], low[d] + part.aval.shape[d], part, eqn.outvars[0])


def sums_of(found: Iterable[Atom], eqns: Sequence[Eqn]) -> list[Eqn]:
    """The additions, in order, of what was found and of what such additions give."""
    of: set[Atom] = {*found}
    sums = []
    for eqn in eqns:
        if eqn.primitive is add and not of.isdisjoint(eqn.invars):
            sums.append(eqn)
            of.update(eqn.outvars)
    return sums


def added_up(root: Eqn, inner: Mapping[Atom, Eqn], gone: set[Eqn]) -> list[Atom]:
    """What a sum adds up, in order, given its last addition; ``gone``: where additions go."""
    terms: list[Atom] = []
    stack: list[Atom] = [*reversed(root.invars)]
    while stack:
        x = stack.pop()
        eqn = inner.get(x)
        if eqn is None:
            terms.append(x)
        else:
            gone.add(eqn)
            stack += reversed(eqn.invars)
    return terms


def _put_together(
    root: Eqn, terms: list[Atom], padded: Mapping[Atom, Piece], rewrites: Rewrites
) -> list[Eqn]:
    """The equations of a sum whose pieces are put together; none if it has no two of them."""
    written: list[Eqn] = []
    while side_by_side := _side_by_side([padded[x] for x in terms if x in padded]):
        if not rewrites.allow(f"{len(side_by_side)} pieces put together", root):
            break
        for piece in side_by_side:  # once each: a sum may have a term several times
            terms.remove(piece.term)
        written += _concatenated(side_by_side, root)
        terms.append(written[-1].outvars[0])
    if not written:
        return []
    total, *rest = reversed(terms)
    for x in rest:
        written.append(Eqn(add, (total, x), (Var(root.outvars[0].aval),), {}, root.source))
        total = written[-1].outvars[0]
    last = written.pop()
    return [*written, Eqn(last.primitive, last.invars, root.outvars, last.params, root.source)]


def _side_by_side(among: Sequence[Piece]) -> list[Piece]:
    """Pieces of which none lies over another, in their order, along the axis that most have."""
    found: dict[int, list[Piece]] = {}
    for piece in sorted(among, key=lambda p: (p.begin, p.end)):
        row = found.setdefault(piece.axis, [])
        if not row or row[-1].end <= piece.begin:
            row.append(piece)
    most = max(found.values(), key=len, default=[])
    return most if len(most) > 1 else []


def _concatenated(row: Sequence[Piece], root: Eqn) -> list[Eqn]:
    """The equations that put pieces together, with zeros between them where there is room."""
    aval, axis, end = root.outvars[0].aval, row[0].axis, 0
    written: list[Eqn] = []
    parts: list[Atom] = []

    def zeros(count: int) -> None:
        shape = (*aval.shape[:axis], count, *aval.shape[axis + 1 :])
        zero = Literal(np.zeros((), aval.dtype), aval.update(shape=()))
        made, params = Var(aval.update(shape=shape)), {"shape": shape, "dims": ()}
        written.append(Eqn(broadcast_in_dim, (zero,), (made,), params, root.source))
        parts.append(made)

    for piece in row:
        if piece.begin > end:
            zeros(piece.begin - end)
        parts.append(piece.part)
        end = piece.end
    if end < aval.shape[axis]:
        zeros(aval.shape[axis] - end)
    whole = Eqn(concatenate, parts, (Var(aval),), {"axis": axis}, root.source)
    return [*written, whole]
