"""Products that share an operand become one: the input products of an unrolled recurrent network.

What enters is a program with ``contraction`` groups; where several groups compute the same, differ
in one operand only, and none depends on another, what leaves has one group over the stacked
operands, and slices of its result.  So the operand that they share, the weights, is read once
instead of once for each step, and a few large products are faster than many small ones.  The sum
(``passes/contractions/product_sums.py``) has one more dim then, which is a dim of its result.

It pays where the stacked operand is not larger than the shared one, and for no fewer than
``MIN_PRODUCTS`` groups.  Steps of one array, ``xs[0] @ w``, ``xs[1] @ w``, ..., differ in nothing
but the constants of the indices that read ``xs``: they need not be stacked, for the new dim moves
these indices.  What the stacked operands need is computed before the first of the products;
programs with side effects, whose order counts, are left alone.

Start at :func:`batch`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from functrax.backends.passes.contractions.product_sums import (
    ProductSum,
    coefficients_of,
    equation_of,
    sum_of,
)
from functrax.backends.passes.contractions.writer import ViewWriter
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.index.expr import Dim
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.records import field, record, replace

#: Fewer products are not worth the copying.
MIN_PRODUCTS = 4


@record
class _Key:
    """What products have in common that may become one.

    Args:
      sum: it, with zeros for the operand that differs, or without the constants of its indices.
      varying: the number of the side that differs, or that is read in steps.
      steps: whether it is one array, read in steps.
    """

    sum: ProductSum
    varying: int
    steps: bool


@record(frozen=False)
class _Class:
    """Products that may become one.

    Args:
      key: what they have in common.
      bit: marks, in masks, what depends on one of the products.
      members: the products, and their sums.
    """

    key: _Key
    bit: int
    members: dict[Eqn, ProductSum] = field(default_factory=dict)

    @property
    def first(self) -> Eqn:
        """The product that comes first."""
        return next(iter(self.members))

    @property
    def stride(self) -> tuple[int, ...] | None:
        """How far each step's indices are behind those of the one before, if always the same."""
        sides = [found.sides[self.key.varying] for found in self.members.values()]
        offsets = [[expr.const for expr in side.exprs] for side in sides]
        strides = {tuple([b - a for a, b in zip(*two)]) for two in pairwise(offsets)}
        return strides.pop() if len(strides) == 1 else None

    @property
    def pays(self) -> bool:
        """Whether it is worth it and possible."""
        possible = not self.key.steps or self.stride is not None
        return possible and len(self.members) >= MIN_PRODUCTS


def batch(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with independent products that share an operand as one."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: batch(inner, rewrites))
    merged = [] if jaxpr.effects else _classes(eqns)
    merged = [
        c for c in merged if rewrites.allow(f"{len(c.members)} products", next(iter(c.members)))
    ]
    if merged:
        eqns = _Schedule(eqns, merged).eqns
    return with_eqns(jaxpr, eqns)


def _classes(eqns: Sequence[Eqn]) -> list[_Class]:
    """The products that become one, each product in one class at most."""
    products = [e for e in eqns if e.primitive is contraction]
    if len(products) < MIN_PRODUCTS:
        return []
    reads = Counter((x, e.outvars[0].aval) for e in products for x in {*e.invars})
    often = [x for (x, _), times in reads.items() if times >= MIN_PRODUCTS]
    products = [e for e in products if not {*e.invars}.isdisjoint(often)]
    sums = {e: found for e in products if (found := sum_of(e)) is not None}
    numbers: dict[_Key, int] = {}  # keys take long to hash
    keys = {
        e: {numbers.setdefault(key, len(numbers)): key for key in _keys(found)}
        for e, found in sums.items()
    }
    counts = Counter(number for found in keys.values() for number in found)
    if max(counts.values(), default=0) < MIN_PRODUCTS:
        return []
    classes: dict[int, _Class] = {}
    depends: dict[Atom, int] = {}  # on which classes' products a value depends
    for eqn in eqns:
        mask = 0
        for x in eqn.invars:
            mask |= depends.get(x, 0)
        shared = [number for number in keys.get(eqn, ()) if counts[number] >= MIN_PRODUCTS]
        if shared:
            best = max(shared, key=counts.__getitem__)
            mine = classes.setdefault(best, _Class(keys[eqn][best], 1 << len(classes)))
            if not mask & mine.bit:
                mine.members[eqn] = sums[eqn]
                mask |= mine.bit
        if mask:
            depends.update(dict.fromkeys(eqn.outvars, mask))
    return [c for c in classes.values() if c.pays]


def _keys(found: ProductSum) -> list[_Key]:
    """Keys that sums share which differ in one side, where to stack it pays."""
    keys = []
    for k, side in enumerate(found.sides):
        largest = max([s.value.aval.size for n, s in enumerate(found.sides) if n != k], default=0)
        if largest >= side.value.aval.size:
            any_such = replace(side, value=Literal(0, side.value.aval))
            keys.append(_Key(found.with_side(k, any_such), k, False))
        if side.conditions or any(coefficients_of(expr) is None for expr in side.exprs):
            continue
        dims = {d for expr in side.exprs for d in expr.used_dims()}
        if largest >= math.prod([found.extents[d] for d in dims]):
            bare = tuple([expr - expr.const for expr in side.exprs])
            keys.append(_Key(found.with_side(k, replace(side, exprs=bare)), k, True))
    return keys


class _Schedule:
    """Writes the equations anew, each behind what it needs.

    Attributes:
      eqns: in their new order.
    """

    def __init__(self, eqns: Sequence[Eqn], classes: Sequence[_Class]) -> None:
        self.eqns: list[Eqn] = []
        self._producer: dict[Atom, Eqn] = {v: e for e in eqns for v in e.outvars}
        self._class: dict[Eqn, _Class] = {e: c for c in classes for e in c.members}
        self._done: set[Eqn] = set()
        for eqn in eqns:
            self._emit(eqn)

    def _emit(self, last: Eqn) -> None:
        left = [last]
        while left:
            eqn = left[-1]
            if eqn in self._done:
                left.pop()
                continue
            mine = self._class.get(eqn)
            needed = eqn.invars if mine is None else [x for e in mine.members for x in e.invars]
            producers = (self._producer.get(x) for x in needed)
            missing = [p for p in producers if p is not None and p not in self._done]
            if missing:
                left.extend(missing)
                continue
            left.pop()
            self.eqns.extend([eqn] if mine is None else _merged(mine))
            self._done.update([eqn] if mine is None else mine.members)


def _merged(mine: _Class) -> list[Eqn]:
    """One product with a dim for the products, and its parts."""
    first, number, k = mine.first, len(mine.members), mine.key.varying
    writer = ViewWriter(first.source)
    found, d = mine.members[first].with_dim(number)
    side = found.sides[k]
    if mine.stride is not None and mine.key.steps:
        moved = [expr + Dim(d) * by for expr, by in zip(side.exprs, mine.stride, strict=True)]
        side = replace(side, exprs=tuple(moved))
    else:
        values = [found.sides[k].value for found in mine.members.values()]
        lifted = [writer.new(reshape, x, shape=(1, *x.aval.shape)) for x in values]
        stacked = writer.new(concatenate, *lifted, axis=0)
        side = replace(side, value=stacked, exprs=(Dim(d), *side.exprs))
    out = first.outvars[0].aval
    whole = Var(out.update(shape=(number, *out.shape)))
    found = replace(found.with_side(k, side), kept=((d,), *found.kept))
    eqns = [*writer.eqns, equation_of(found, whole, first.params["name"], first.source)]
    for i, eqn in enumerate(mine.members):
        part = ViewWriter(first.source)
        start, limit = (i, *[0] * out.ndim), (i + 1, *out.shape)
        row = part.new(slice_, whole, start=start, limit=limit, strides=(1,) * whole.aval.ndim)
        part.new(reshape, row, shape=out.shape)
        eqns += part.giving(eqn.outvars[0])
    return eqns
