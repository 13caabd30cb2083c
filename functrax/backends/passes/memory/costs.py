"""What equations cost: bytes at the edge of a kernel, and operations.

The *cost* of a program of groups is the number of bytes that its kernels read and write: of each
operand the distinct elements that the kernel needs, once, and every result, once.  A value that is
only sliced is not read whole: what is read of it are *boxes*, each a ``range`` for each dimension,
which are followed backwards through the index maps of reindexes.  Where that is not a union of
boxes (a gather, a reshape of a part), the number is an upper bound.

Operations are counted by equation: an elementwise equation on numbers does one for each element of
its result, functions such as ``exp`` apart (``transcendentals``), ``fma`` two; a reduction does one
for each element that it takes in beyond the first of each result; reindexing, conversions and
choices do none.  So a matrix product of ``(m, k)`` and ``(k, n)`` does ``m * n * (2 * k - 1)``.

Start at :func:`traffic` and :func:`operations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeAlias

from functrax.backends.kernels.values import elements_of
from functrax.backends.passes.fusion.kernel_groups import nbytes
from functrax.backends.passes.groups import Group
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var, subjaxprs
from functrax.core.prims.fused import fma
from functrax.core.prims.mapped import reindex_reduce, scatter
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindex
from functrax.core.prims.slicing import concatenate
from functrax.core.records import record
from functrax.core.tracing.primitive import Elementwise

#: For each dimension which indices are read.
Box: TypeAlias = tuple[range, ...]


@record
class Operations:
    """How much is computed.

    Args:
      flops: operations on numbers, each counted once, whatever their dtype.
      transcendentals: values of functions such as ``exp``.
    """

    flops: int = 0
    transcendentals: int = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.flops + other.flops, self.transcendentals + other.transcendentals)


def traffic(eqn: Eqn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The bytes of each operand that an equation reads, and of each result that it writes."""
    if isinstance(eqn.primitive, Group):
        inner: Jaxpr = eqn.params["jaxpr"]
        counts = elements_read(inner)
    else:
        counts = [x.aval.size if isinstance(x, Var) else 0 for x in eqn.invars]
    reads = tuple(n * x.aval.dtype.itemsize for n, x in zip(counts, eqn.invars))
    return reads, tuple(nbytes(v) for v in eqn.outvars)


def operations(eqn: Eqn) -> Operations:
    """What an equation computes; of what is no meta-operator nothing is known.

    A loop counts as often as it runs, or once if that is not known; of branches all count.
    """
    inner = [operations(e) for program in subjaxprs(eqn) for e in program.eqns]
    if inner:
        once = sum(inner, Operations())
        times = int(eqn.params.get("length", 1))  # of a scan
        return Operations(once.flops * times, once.transcendentals * times)
    primitive = eqn.primitive
    size = sum(v.aval.size for v in eqn.outvars)
    if isinstance(primitive, Elementwise) and not primitive.computes_nothing:
        if primitive is fma:
            return Operations(2 * size)
        return Operations(0, size) if primitive.is_function else Operations(size)
    if isinstance(primitive, ReindexReduce):
        taken = eqn.invars[elements_of(eqn)].aval.size
        if primitive is scatter:
            return Operations(0 if eqn.params["op"] == "set" else taken)
        return Operations(taken if primitive is reindex_reduce else max(taken - size, 0))
    return Operations()


# ---- distinct elements --------------------------------------------------------------------------


def elements_read(jaxpr: Jaxpr) -> list[int]:
    """For each input of a program, how many of its elements the results depend on."""
    regions = _Regions(jaxpr)
    return [regions.count(v) for v in jaxpr.invars]


class _Regions:
    """What of a program's values is read; found from the last equation backwards."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._boxes: dict[Atom, set[Box]] = {}
        self._others: dict[Atom, int] = {}  # elements that are read at unknown places
        for x in jaxpr.outvars:
            self._read(x, [_whole(x)])
        for eqn in reversed(jaxpr.eqns):
            if any(self.count(v) for v in eqn.outvars):
                self._equation(eqn)

    def count(self, v: Atom) -> int:
        """How many elements of a value are read, at most."""
        found = _held_together(self._boxes.get(v, set())) + self._others.get(v, 0)
        return min(int(v.aval.size), found)

    def _read(self, x: Atom, boxes: Iterable[Box], others: int = 0) -> None:
        if isinstance(x, Var):
            self._boxes.setdefault(x, set()).update(b for b in boxes if _volume(b))
            self._others[x] = self._others.get(x, 0) + others

    def _equation(self, eqn: Eqn) -> None:
        out = eqn.outvars[0]
        boxes, others = self._boxes.get(out, set()), self._others.get(out, 0)
        if isinstance(eqn.primitive, Elementwise):
            for x in eqn.invars:  # computed where it is needed
                self._read(x, boxes, others)
        elif isinstance(eqn.primitive, Reindex):
            self._through_map(eqn, eqn.primitive.index_map, boxes, others)
        elif eqn.primitive is concatenate:
            self._concatenate(eqn, boxes, others)
        else:
            for x in eqn.invars:
                self._read(x, [_whole(x)])

    def _through_map(
        self, eqn: Eqn, index_map: Callable[..., IndexMap], boxes: set[Box], others: int
    ) -> None:
        """Of places that the map does not bound at most one for each element of the result.

        Indices are read whole.
        """
        x, *indices = eqn.invars
        for index in indices:
            self._read(index, [_whole(index)])
        if indices:
            self._read(x, (), self.count(eqn.outvars[0]))
            return
        way = index_map(x.aval, **eqn.params)
        for box in boxes:
            there = _met(way, box)
            if _volume(there) <= _volume(box):
                self._read(x, [there])
            else:
                self._read(x, (), _volume(box))
        self._read(x, (), others)

    def _concatenate(self, eqn: Eqn, boxes: set[Box], others: int) -> None:
        axis, begin = eqn.params["axis"], 0
        for x in eqn.invars:
            size = x.aval.shape[axis]
            part = []
            for box in boxes:
                r = box[axis]
                cut = _inside(r[0] - begin, r[-1] - begin, r.step, size)
                part.append((*box[:axis], cut, *box[axis + 1 :]))
            self._read(x, part, others)
            begin += size


def _whole(x: Atom) -> Box:
    return tuple(map(range, x.aval.shape))


def _volume(box: Box) -> int:
    return math.prod(map(len, box))


def _inside(first: int, last: int, step: int, size: int) -> range:
    """What of the indices ``first, first + step, ... last`` an axis of this size has."""
    first = first if first >= 0 else first % step
    last = min(last, first + (size - 1 - first) // step * step)
    return range(first, last + 1, step if last > first else 1)


def _met(m: IndexMap, box: Box) -> Box:
    """The smallest box that a map leads a box to; whole axes where an index is not affine."""
    return tuple([_indices(expr, box, size) for expr, size in zip(m.exprs, m.codomain)])


def _indices(expr: IndexExpr, box: Box, size: int) -> range:
    low = high = expr.const
    step = 0
    for atom, c in expr.terms:
        if not isinstance(atom, Dim):
            return range(size)
        r = box[atom.number]
        low += min(c * r[0], c * r[-1])
        high += max(c * r[0], c * r[-1])
        step = math.gcd(step, c * r.step if len(r) > 1 else 0)
    return _inside(low, high, step or 1, size)


def _held_together(boxes: set[Box]) -> int:
    """How many elements are in some of the boxes; at most, where their steps differ.

    An axis is cut where ranges begin and end: in between, the same boxes hold all indices.
    """
    if len(boxes) < 2 or len({box[0].step for box in boxes if box}) != 1:
        return sum(map(_volume, boxes))
    total = 0
    step = next(iter(boxes))[0].step
    for phase in {box[0].start % step for box in boxes}:
        ends = [(b[0].start, b[0].start + len(b[0]) * step, b) for b in boxes]
        ends = [each for each in ends if each[0] % step == phase]
        edges = sorted({edge for low, high, _ in ends for edge in (low, high)})
        for here, beyond in pairwise(edges):
            rest = {b[1:] for low, high, b in ends if low <= here < high}
            total += (beyond - here) // step * _held_together(rest)
    return total
