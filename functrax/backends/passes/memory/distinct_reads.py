"""How many distinct elements of its inputs a program reads.

A value that is only sliced is not read whole.  What enters is a program of a group; what leaves is
a number for each of its inputs.  In between stand *regions*: boxes of an array, each a ``range``
for each dimension.  Where a region is not a union of boxes (a gather, a reshape of a part), the
answer is an upper bound.

Start at :func:`elements_read`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.core.index.bounds import bounds
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reindex import broadcast_in_dim, reshape, rev, transpose
from functrax.core.prims.slicing import concatenate, pad, slice_
from functrax.core.tracing.primitive import Elementwise, Primitive

#: For each dimension which indices are read.
Box: TypeAlias = tuple[range, ...]

_COUNTED = 1 << 22  # elements up to which overlapping boxes are counted exactly
_MOST_BOXES = 64


def elements_read(jaxpr: Jaxpr) -> list[int]:
    """For each input of a program, how many of its elements the results depend on."""
    regions = _Regions(jaxpr)
    return [regions.count(v) for v in jaxpr.invars]


class _Regions:
    """The regions of a program's values that are read; found from the last equation backwards."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._boxes: dict[Var, list[Box]] = {}
        self._others: dict[Var, int] = {}  # elements that are read at unknown places
        for x in jaxpr.outvars:
            self._read_all(x)
        for eqn in reversed(jaxpr.eqns):
            if any(self.count(v) for v in eqn.outvars):
                self._equation(eqn)

    def count(self, v: Var) -> int:
        """How many elements of a value are read, at most."""
        size = v.aval.size
        boxes = list(dict.fromkeys(self._boxes.get(v, ())))
        total = sum(_volume(b) for b in boxes)
        if len(boxes) > 1 and size <= _COUNTED:
            mask = np.zeros(v.aval.shape, np.bool_)
            for box in boxes:
                mask[np.ix_(*map(list, box))] = True
            total = int(mask.sum())
        return min(size, total + self._others.get(v, 0))

    def _read_all(self, x: Any) -> None:
        if isinstance(x, Var):
            self._boxes[x] = [tuple(map(range, x.aval.shape))]

    def _read(self, x: Any, boxes: Sequence[Box]) -> None:
        if not isinstance(x, Var):
            return
        known = self._boxes.setdefault(x, [])
        known.extend(b for b in boxes if _volume(b))
        if len(known) > _MOST_BOXES:
            self._read_all(x)

    def _equation(self, eqn: Eqn) -> None:
        rule = _RULES.get(eqn.primitive)
        (out, *rest) = eqn.outvars
        if eqn.primitive is reindex and not rest:
            self._gather(eqn)
        elif isinstance(eqn.primitive, Elementwise):
            for x in eqn.invars:  # computed where it is needed
                self._read(x, self._boxes.get(out, []))
                self._read_somewhere(x, self._others.get(out, 0))
        elif rule is None:
            for x in eqn.invars:
                self._read_all(x)
        else:
            for x, boxes in zip(eqn.invars, rule(eqn, self._boxes.get(out, []))):
                self._read(x, boxes)
                self._read_somewhere(x, self._others.get(out, 0))

    def _read_somewhere(self, x: Any, count: int) -> None:
        """Note elements at unknown places: of an operand at most as many as of the result."""
        if isinstance(x, Var) and count:
            self._others[x] = self._others.get(x, 0) + count

    def _gather(self, eqn: Eqn) -> None:
        """What an affine map can meet; of others at most one element for each of the result.

        Indices are read whole.
        """
        x, *indices = eqn.invars
        for index in indices:
            self._read_all(index)
        count = self.count(eqn.outvars[0])
        box = None if indices else _met(eqn.params["map"], x.aval.shape)
        if box is None or _volume(box) > count:
            self._read_somewhere(x, count)
        else:
            self._read(x, [box])


def _met(m: IndexMap, shape: tuple[int, ...]) -> Box | None:
    """The smallest box that a map's places lie in; None if one of them is no affine index."""
    found = []
    for expr, size in zip(m.exprs, shape, strict=True):
        if not all(isinstance(atom, Dim) for atom, _ in expr.terms):
            return None
        interval = bounds(expr, m.domain)
        if interval is None:
            return None
        low, high = interval
        step = math.gcd(*(c for _, c in expr.terms)) or 1
        first = low if low >= 0 else low % step
        found.append(range(first, min(high + 1, size), step))
    return tuple(found)


def _volume(box: Box) -> int:
    return math.prod(map(len, box))


def _slice(eqn: Eqn, boxes: Sequence[Box]) -> list[list[Box]]:
    p = eqn.params
    found = [
        tuple(
            range(start + r.start * step, start + r.stop * step, r.step * step)
            for r, start, step in zip(box, p["start"], p["strides"])
        )
        for box in boxes
    ]
    return [found]


def _transpose(eqn: Eqn, boxes: Sequence[Box]) -> list[list[Box]]:
    places = np.argsort(eqn.params["perm"])
    return [[tuple(box[int(k)] for k in places) for box in boxes]]


def _rev(eqn: Eqn, boxes: Sequence[Box]) -> list[list[Box]]:
    axes, shape = eqn.params["axes"], eqn.invars[0].aval.shape

    def mirrored(d: int, r: range) -> range:
        if d not in axes or not r:
            return r
        return range(shape[d] - 1 - r[-1], shape[d] - r[0], r.step)

    return [[tuple(mirrored(d, r) for d, r in enumerate(box)) for box in boxes]]


def _broadcast(eqn: Eqn, boxes: Sequence[Box]) -> list[list[Box]]:
    dims, shape = eqn.params["dims"], eqn.invars[0].aval.shape
    return [
        [
            tuple(range(1) if n == 1 and box[d] else box[d] for d, n in zip(dims, shape))
            for box in boxes
            if _volume(box)
        ]
    ]


def _reshape(eqn: Eqn, boxes: Sequence[Box]) -> list[list[Box]]:
    """Exact where the whole is read, or where only dimensions of size 1 come or go."""
    before, after = eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    kept = [d for d, n in enumerate(after) if n != 1]
    if [after[d] for d in kept] != [n for n in before if n != 1]:
        return [[tuple(map(range, before))] if any(_volume(b) for b in boxes) else []]
    found = []
    for box in boxes:
        ranges = iter([box[d] for d in kept])
        found.append(tuple(range(1) if n == 1 else next(ranges) for n in before))
    return [found]


def _pad(eqn: Eqn, boxes: Sequence[Box]) -> list[list[Box]]:
    """What of the operand a padded array shows; exact unless elements are spread."""
    p, shape = eqn.params, eqn.invars[0].aval.shape
    if any(p["interior"]):
        return [[tuple(map(range, shape))]]
    found = []
    for box in boxes:
        ranges = []
        for r, low, n in zip(box, p["low"], shape):
            inside = [k - low for k in (r[0], r[-1])] if r else [0, -1]
            first = max(inside[0], inside[0] % r.step if inside[0] < 0 else 0)
            ranges.append(range(first, min(inside[1] + 1, n), r.step))
        found.append(tuple(ranges))
    return [found]


def _concatenate(eqn: Eqn, boxes: Sequence[Box]) -> list[list[Box]]:
    axis, begin, found = eqn.params["axis"], 0, []
    for x in eqn.invars:
        size = x.aval.shape[axis]
        part = []
        for box in boxes:
            r = box[axis]
            inside = [k - begin for k in r if begin <= k < begin + size]
            cut = range(inside[0], inside[-1] + 1, r.step) if inside else range(0)
            part.append((*box[:axis], cut, *box[axis + 1 :]))
        found.append(part)
        begin += size
    return found


_RULES: dict[Primitive, Callable[[Eqn, Sequence[Box]], list[list[Box]]]] = {
    slice_: _slice,
    transpose: _transpose,
    rev: _rev,
    broadcast_in_dim: _broadcast,
    reshape: _reshape,
    pad: _pad,
    concatenate: _concatenate,
}
