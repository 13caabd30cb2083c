"""Sums that scatter, as sums that gather: the gradient of a convolution as another convolution.

``reindex_reduce[add, f]`` adds the element at each point ``i`` to the result's element ``f(i)``.
Where ``f`` is affine, the points that meet in an element ``o`` can be listed: some dims of ``i``
follow from ``o`` and the others, which are then summed.  So the same sum is

    out[o] = sum over s of x[i(o, s)]        for the points i(o, s) that there are

over another iteration space, ``o`` first and then ``s``.  :class:`Inverse` is that space and the
expressions ``i(o, s)``.

Where the axis of the result is strided (``o = stride*place + tap``), most points ``(o, s)`` mean no
``i``: a condition says so, and kernels go over the remainders of ``o`` by the stride, to each of
which belong the taps of one remainder only.  An axis that no tap is added along is computed over
its places, and spread over the result afterwards: a place has one element at most.  Where most
places have none, for the array is read with holes or far beyond its ends, that would compute and
store much in vain; such an axis is computed over its elements, as one with taps is.

Start at :func:`inverse_of`.
"""

from __future__ import annotations

import functools
import itertools
import math

from functrax.backends.passes.contractions.layouts import Shape
from functrax.backends.reference import strided
from functrax.core.index.expr import Condition, Dim, IndexExpr, as_expr
from functrax.core.index.map import IndexMap
from functrax.core.records import record

#: The most places that are computed for an element of the result.
MOST_PLACES = 2


@record
class Inverse:
    """The iteration space of a sum that gathers.

    Args:
      domain: its shape: that of the result, then what is summed.
      kept: the number of dims of the result.
      exprs: for each dim of the scattering sum its index.
      conditions: for some of those, what must hold besides for there to be a point.
      limited: those whose index can lie outside, or that have conditions: where none of the
        product's factors depends on one of them, the product would not be zero there.
      after: from the result that is wanted to what is computed.
    """

    domain: Shape
    kept: int
    exprs: tuple[IndexExpr, ...]
    conditions: dict[int, tuple[Condition, ...]]
    limited: frozenset[int]
    after: IndexMap

    @property
    def divides(self) -> bool:
        """Whether an index is a quotient that most points leave a rest of."""
        return bool(self.conditions)


class _Work:
    """What is known so far of the new space; dims of the result are numbered before the others.

    Args:
      rank: how many dims of the result there will be.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.kept: list[int] = []  # sizes
        self.summed: list[int] = []
        self.exprs: dict[int, IndexExpr] = {}
        self.conditions: dict[int, tuple[Condition, ...]] = {}
        self.after: list[IndexExpr] = []
        self.after_conditions: list[Condition] = []

    def keep(self, size: int, place: IndexExpr) -> Dim:
        """A new dim of the result; ``place`` is where a result's element is found in it."""
        self.after.append(place)
        self.kept.append(size)
        return Dim(len(self.kept) - 1)

    def sum(self, size: int) -> Dim:
        """A new dim that is summed."""
        self.summed.append(size)
        return Dim(self.rank + len(self.summed) - 1)


@functools.lru_cache(maxsize=1024)
def inverse_of(index_map: IndexMap, compact: bool = True) -> Inverse | None:
    """The gathering form of ``reindex_reduce[add, map]``, if the map has one.

    Args:
      index_map: the map.
      compact: whether axes most places of which have no element are computed over their elements.
    """
    rows = None if index_map.num_loads else strided.rows_of(index_map)
    domain, codomain = index_map.domain, index_map.codomain
    if rows is None or 0 in domain or 0 in codomain:
        return None
    dims = [[d for d, c in enumerate(row) if c and domain[d] != 1] for _, _, row in rows]
    flat = [d for found in dims for d in found]
    if len(set(flat)) != len(flat):
        return None  # two axes of the result depend on one dim
    coefs = [{d: row[d] for d in found} for (_, _, row), found in zip(rows, dims)]
    digits = _axes_of_places(coefs, index_map, compact)
    work = _Work(sum(len(coefs[o]) if o in digits else bool(coefs[o]) for o in range(len(rows))))
    for o, (step, const, _) in enumerate(rows):
        spot = Dim(o) * step - const
        if not coefs[o]:
            work.after_conditions.append(spot.eq(0))
        elif o in digits:
            _digits(work, spot, coefs[o], domain)
        else:
            _window(work, o, codomain[o], (step, const), coefs[o], domain)
    for d, size in enumerate(domain):
        if d not in work.exprs:
            work.exprs[d] = as_expr(0) if size == 1 else work.sum(size)
    exprs = tuple([work.exprs[d] for d in range(len(domain))])
    space, kept = (*work.kept, *work.summed), tuple(work.kept)
    outside = [
        d
        for d, (expr, size) in enumerate(zip(exprs, domain, strict=True))
        if IndexMap(space, (size,), (expr,)).bounds_conditions()
    ]
    limited = frozenset([*outside, *work.conditions])
    after = IndexMap(codomain, kept, tuple(work.after), tuple(work.after_conditions))
    return Inverse(space, len(kept), exprs, work.conditions, limited, after)


def _axes_of_places(
    coefs: list[dict[int, int]], index_map: IndexMap, compact: bool
) -> dict[int, float]:
    """The axes that are computed over their places, and how many of these an element has."""
    domain, codomain = index_map.domain, index_map.codomain
    found = {
        o: math.prod(domain[d] for d in taken) / codomain[o]
        for o, taken in enumerate(coefs)
        if taken and _are_digits(taken, domain)
    }
    for o in sorted(found, key=lambda o: -found[o]) if compact else ():
        free = [abs(c) for c in coefs[o].values()] == [1]  # no division tells the place
        if found[o] > 1 and (free or math.prod(found.values()) > MOST_PLACES):
            del found[o]
    return found


def _are_digits(coefs: dict[int, int], domain: Shape) -> bool:
    """Whether an axis's index is a number with the dims as digits: an element meets one point."""
    order = sorted(coefs, key=lambda d: -abs(coefs[d]))
    if len(order) > 1 and min(coefs.values()) < 0:
        return False
    return all(coefs[high] == coefs[low] * domain[low] for high, low in itertools.pairwise(order))


def _digits(work: _Work, spot: IndexExpr, coefs: dict[int, int], domain: Shape) -> None:
    """An axis that is computed over its places."""
    order = sorted(coefs, key=lambda d: -abs(coefs[d]))
    unit = coefs[order[-1]]
    if unit < 0:
        spot, unit = -spot, -unit
    if unit > 1:
        work.after_conditions.append((spot % unit).eq(0))
    number = spot // unit
    place = 1
    found = []
    for d in reversed(order):
        digit = number // place
        found.append((d, digit if d == order[0] else digit % domain[d]))
        place *= domain[d]
    for d, digit in reversed(found):
        work.exprs[d] = work.keep(domain[d], digit)


def _window(
    work: _Work,
    o: int,
    size: int,
    offset: tuple[int, int],
    coefs: dict[int, int],
    domain: Shape,
) -> None:
    """An axis along which windows overlap: the place follows from the element and the taps.

    The place is the dim that reaches furthest, so that least is summed in vain.
    """
    step, const = offset
    place = max(coefs, key=lambda d: (domain[d] * abs(coefs[d]), -d))
    taps = [d for d in coefs if d != place]
    stride, sign = abs(coefs[place]), 1 if coefs[place] > 0 else -1
    element = work.keep(size, Dim(o))
    spot = element * step - const
    for d in taps:
        work.exprs[d] = work.sum(domain[d])
        spot = spot - work.exprs[d] * coefs[d]
    spot = spot * sign
    work.exprs[place] = spot // stride
    if stride > 1:
        work.conditions[place] = ((spot % stride).eq(0),)
