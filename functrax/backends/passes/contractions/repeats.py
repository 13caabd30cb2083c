"""Products with repeated elements: what multiplies one element is added up before.

An image that is enlarged repeats each row and each column ``r`` times.  A convolution of it, and
the gradients of that, multiply every element by ``r`` neighbours of the other side along each axis,
one by one.  What enters are ``contraction`` groups; those that do so leave with a side ``s`` of
sums of ``r`` neighbours, ``s[u] = y[u - r + 1] + ... + y[u]``, in place of ``y``:

- *within a sum*: ``sum over t of x[(k + t + c) // r] * y[t]`` is ``sum over q of x[q] * s[...]``,
  over all ``q``, or, where that are fewer, over those near ``k``, which is ``r p + m`` then.  So a
  3×3 convolution of an image of twice the size takes 4 of 9 products, the gradient of its weights
  one in four;
- *behind a sum*: where groups of ``r`` neighbours of a contraction's result are added up, which is
  how the gradient by what was repeated ends, one side has them added up already.

Each takes place where it saves more than it costs to add up.  Bounds stay as they were: what
is outside an array is zero.

Start at :func:`repeats`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.contractions.product_sums import (
    Shape,
    Side,
    Sum,
    coefficients_of,
    equation_of,
    sum_of,
)
from functrax.backends.passes.contractions.terms import Link, reindex_link, shape_after
from functrax.backends.passes.fusion.contraction_groups import LOOPED, contraction_kernels_take
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.errors.source import SourceLine
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import add
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import Reindexing, reshape
from functrax.core.records import replace
from functrax.core.types.aval import ShapedArray

#: Of how many neighbours sums are made, at most: each is one more read.
MOST = 8
#: How many products each addition of neighbours must save.
WORTH = 8


def repeats(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program in which no contraction multiplies an element by neighbours one by one."""
    eqns = with_bodies(jaxpr.eqns, lambda inner: repeats(inner, rewrites))
    work = _Repeats(eqns, jaxpr.outvars, rewrites)
    for eqn in eqns:
        work.write(eqn)
    return with_eqns(jaxpr, work.eqns)


class _Repeats:
    """The work on one program.

    Attributes:
      eqns: what was written so far.
      made: of each value the equation that defines it.
      uses: how often each value is used.
    """

    def __init__(self, eqns: Sequence[Eqn], outvars: Sequence[Atom], rewrites: Rewrites) -> None:
        self.rewrites = rewrites
        self.eqns: list[Eqn] = []
        self.made: dict[Atom, Eqn] = {}
        self.uses = uses(eqns, outvars)
        self._sums: dict[tuple[Atom, int, int], Var] = {}

    def write(self, eqn: Eqn) -> None:
        """Write an equation, or what computes the same with fewer products."""
        before = after = None
        if eqn.primitive is contraction:
            before = sum_of(eqn) if any(map(self._grows, eqn.invars)) else None
            after = None if before is None else self._within(before)
        elif eqn.primitive is reduce_sum:
            before = self._added_up(eqn)
            after = None if before is None else _behind(before, eqn, self.made)
        if before is None or after is None or not self._replaced(eqn, before, after):
            self._add(eqn)

    def _add(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        self.made.update(dict.fromkeys(eqn.outvars, eqn))

    # ---- what there is --------------------------------------------------------------------------

    def _within(self, found: Sum) -> Sum | None:
        """A contraction whose sides repeat elements, without that."""
        after = found
        for n in (0, 1):
            repeated = self._repeated(found.sides[n].value)
            if repeated is not None and max(after.sides[n].times) == 1:
                after = _once(after, n, *repeated) or after
        return None if after is found else after

    def _grows(self, x: Atom) -> bool:
        """Whether one of the views through which a value is read is larger than what it views."""
        while x in self.made and isinstance(self.made[x].primitive, Reindexing):
            (y, *_) = self.made[x].invars or (x,)
            if y.aval.size < x.aval.size:
                return True
            if y is x:
                break
            x = y
        return False

    def _repeated(self, x: Atom) -> tuple[Atom, Shape] | None:
        """What a value repeats, and how often along each axis; None if it repeats nothing."""
        index_map = IndexMap.identity(x.aval.shape)
        found = None
        while x in self.made:
            eqn = self.made[x]
            if (
                not isinstance(eqn.primitive, Reindexing)
                or len(eqn.invars) != 1
                or "fill" in eqn.params
            ):
                break
            x = eqn.invars[0]
            if type(x) is Literal:
                break
            step: IndexMap = eqn.primitive.index_map(x.aval, **eqn.params)  # type: ignore[attr-defined]
            index_map = index_map.compose(step)
            times = _times(index_map)
            if times is not None:
                found = x, times
        return found

    def _added_up(self, eqn: Eqn) -> Sum | None:
        """The contraction of whose result, reshaped, a sum is, if nothing else needs it."""
        split = self.made.get(eqn.invars[0])
        if split is None or split.primitive is not reshape:
            return None
        x = split.invars[0]
        product = self.made.get(x)
        if product is None or product.primitive is not contraction:
            return None
        return sum_of(product) if self.uses[eqn.invars[0]] == self.uses[x] == 1 else None

    # ---- writing --------------------------------------------------------------------------------

    def _replaced(self, eqn: Eqn, before: Sum, after: Sum) -> bool:
        """Write what gives the same as an equation, if it is worth it."""
        sums = sum(s.value.aval.size * r for s in after.sides for r in s.times if r > 1)
        if before.products <= LOOPED or before.products - after.products <= WORTH * sums:
            return False
        planned = equation_of(after, [Var(_aval(s)) for s in after.sides], eqn)
        if not contraction_kernels_take(planned.params["jaxpr"]):
            return False
        if not self.rewrites.allow("neighbours are added up before they are multiplied", eqn):
            return False
        values = [self._added(s, eqn.source) for s in after.sides]
        self._add(equation_of(after, values, eqn))
        return True

    def _added(self, side: Side, source: SourceLine | None) -> Atom:
        """The sums of neighbours that a side reads."""
        x = side.value
        for axis, r in reversed(list(enumerate(side.times))):
            if r > 1:
                x = self._added_along(x, axis, r, source)
        return x

    def _added_along(self, x: Atom, axis: int, r: int, source: SourceLine | None) -> Var:
        found = self._sums.get((x, axis, r))
        if found is not None:
            return found
        shape = x.aval.shape
        longer = (*shape[:axis], shape[axis] + r - 1, *shape[axis + 1 :])
        for k in range(r):
            exprs = tuple([Dim(d) - (k if d == axis else 0) for d in range(len(shape))])
            link = reindex_link(IndexMap(longer, shape, exprs), x.aval.dtype)
            assert link is not None
            part = self._new(link, (x,), source)
            found = part if found is None else self._new((add, ()), (found, part), source)
        assert found is not None
        self._sums[x, axis, r] = found
        return found

    def _new(self, step: Link, operands: tuple[Atom, ...], source: SourceLine | None) -> Var:
        aval = operands[0].aval
        if isinstance(step[0], Reindexing):
            aval = aval.update(shape=shape_after(aval, step))
        out = Var(aval)
        self._add(Eqn(step[0], operands, (out,), dict(step[1]), source))
        return out


def _aval(side: Side) -> ShapedArray:
    return side.value.aval.update(shape=side.shape)


def _times(index_map: IndexMap) -> Shape | None:
    """How often a map that only repeats elements repeats them along each axis."""
    domain, codomain = index_map.domain, index_map.codomain
    if len(domain) != len(codomain) or index_map.conditions or 0 in domain:
        return None
    times = tuple([n // m for n, m in zip(domain, codomain, strict=True)])
    wanted = tuple([Dim(k) // r if r > 1 else Dim(k) for k, r in enumerate(times)])
    plain = [n == 1 or a == b for n, a, b in zip(domain, wanted, index_map.exprs, strict=True)]
    whole = all(n == m * r for n, m, r in zip(domain, codomain, times, strict=True))
    return times if all(plain) and whole and 1 < max(times) <= MOST else None


# ---- within a sum -------------------------------------------------------------------------------


def _once(found: Sum, n: int, source: Atom, times: Shape) -> Sum | None:
    """A contraction of what one of its sides repeats; None if an axis is not summed along."""
    for axis, r in enumerate(times):
        if r > 1:
            step = _along(found, n, axis, r, source.aval.shape[axis])
            if step is None:
                return None
            found = step
    return found.with_side(n, replace(found.sides[n], value=source))


def _along(found: Sum, n: int, axis: int, r: int, size: int) -> Sum | None:
    """The contraction that reads the elements that a side repeats along an axis.

    Args:
      found: the contraction.
      n: the number of the side.
      axis: the axis.
      r: how often each element is repeated.
      size: how many elements there are.
    """
    mine, other = found.sides[n], found.sides[1 - n]
    terms = coefficients_of(mine.exprs[axis])
    for t in found.summed:
        sign = (terms or {}).get(t, 0)
        place = other.axis_of(t)
        if sign not in (1, -1) or mine.axis_of(t) is None or place is None:
            continue
        count = found.extents[t]
        if other.exprs[place] != Dim(t) or other.shape[place] != count or other.times[place] > 1:
            continue
        rest = mine.exprs[axis] - Dim(t) * sign
        near = _near(found, n, axis, (t, place), r) if sign == 1 else None
        if size < count and (near is None or size <= near.extents[t]):
            last = Dim(t) * r + (r - 1) - rest if sign == 1 else rest - Dim(t) * r
            everywhere = found.with_extent(t, size).with_side(n, mine.at(axis, Dim(t)))
            return everywhere.with_side(1 - n, other.at(place, last, r))
        return near
    return None


def _near(found: Sum, n: int, axis: int, of_sum: tuple[int, int], r: int) -> Sum | None:
    """The same, where a point of the result needs a few elements that are near.

    The dim ``k`` of the result becomes ``r p + m``; those near are ``p + (m + c) // r + s``.
    """
    mine, other = found.sides[n], found.sides[1 - n]
    t, place = of_sum
    rest = mine.exprs[axis] - Dim(t)
    terms = coefficients_of(rest) or {}
    if len(terms) != 1:
        return None
    ((k, factor),) = terms.items()
    count, c = found.extents[t], rest.const
    steps = (r + count - 2) // r + 1
    alone = mine.axis_of(k) == axis and not any(k in e.used_dims() for e in other.exprs)
    # Each sum has an element at least, so that nothing meets what it did not meet before.
    fits = factor == 1 and (k,) in found.kept and found.extents[k] % r == 0 and alone
    if not fits or steps >= count or (steps - 1) * r >= count or (c % r and r != 2):
        return None
    m = len(found.extents)
    first, left = (c // r, Dim(m)) if c % r == 0 else (Dim(m) + c // r, 1 - Dim(m))
    kept = tuple([(k, m) if dims == (k,) else dims for dims in found.kept])
    split = replace(found, extents=(*found.extents, r), kept=kept)
    split = split.with_extent(k, found.extents[k] // r).with_extent(t, steps)
    split = split.with_side(n, mine.at(axis, Dim(k) + Dim(t) + first))
    return split.with_side(1 - n, other.at(place, Dim(t) * r + (r - 1) - left, r))


# ---- behind a sum -------------------------------------------------------------------------------


def _behind(found: Sum, eqn: Eqn, made: dict[Atom, Eqn]) -> Sum | None:
    """The contraction that gives sums of neighbours of what one gives."""
    split = made[eqn.invars[0]]
    groups = _groups(split.invars[0].aval.shape, split.outvars[0].aval.shape, eqn.params["axes"])
    if groups is None:
        return None
    after: Sum | None = found
    for k, r in groups:
        after = None if after is None else _added_before(after, found.kept[k], r)
    return after


def _groups(before: Shape, after: Shape, axes: Sequence[int]) -> list[tuple[int, int]] | None:
    """The axes that a reshape splits so that the sums along ``axes`` are of neighbours."""
    found: list[tuple[int, int]] = []
    place = 0
    for k, n in enumerate(before):
        part = after[place : place + 2]
        if place + 1 in axes and len(part) == 2 and math.prod(part) == n and 1 < part[1] <= MOST:
            found.append((k, part[1]))
            place += 2
        elif part[:1] == (n,) and place not in axes:
            place += 1
        else:
            return None
    return found if place == len(after) and len(found) == len(axes) else None


def _added_before(found: Sum, dims: Shape, r: int) -> Sum | None:
    """The contraction in which one side has neighbours along a dim of the result added up."""
    (k,) = dims
    sides = [n for n in (0, 1) if any(k in e.used_dims() for e in found.sides[n].exprs)]
    if len(sides) != 1:
        return None
    (n,) = sides
    side = found.sides[n]
    axis = side.axis_of(k)
    factor = 0 if axis is None else (coefficients_of(side.exprs[axis]) or {}).get(k, 0)
    if axis is None or factor not in (1, -1) or side.times[axis] > 1:
        return None
    rest = side.exprs[axis] - Dim(k) * factor
    last = rest + Dim(k) * r + (r - 1) if factor == 1 else rest - Dim(k) * r
    fewer = found.with_extent(k, found.extents[k] // r)
    return fewer.with_side(n, side.at(axis, last, r))
