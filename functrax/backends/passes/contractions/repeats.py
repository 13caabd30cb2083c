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

from functrax.backends.cost import products_ns
from functrax.backends.passes.clean.dce import uses
from functrax.backends.passes.contractions.layouts import Shape, identity
from functrax.backends.passes.contractions.product_sums import (
    ProductSum,
    coefficients_of,
    equation_of,
    sum_of,
)
from functrax.backends.passes.contractions.terms import composed
from functrax.backends.passes.contractions.writer import ViewWriter
from functrax.backends.passes.fusion.contraction_groups import LOOPED, contraction_kernels_take
from functrax.backends.passes.fusion.kernel_groups import moved_ns
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.inner import with_bodies, with_eqns
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.targets import target
from functrax.core.errors.source import SourceLine
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from functrax.core.prims.arithmetic import add
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import Reindex, map_of, reshape
from functrax.core.records import replace
from functrax.core.types import dtypes

#: Of how many neighbours sums are made, at most: each is one more equation.
MOST = 8


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
            before = _product_of(eqn) if any(map(self._is_view, eqn.invars)) else None
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

    def _within(self, found: ProductSum) -> ProductSum | None:
        """A contraction whose sides repeat elements, without that."""
        after = found
        for n in (0, 1):
            repeated = self._repeated(found.sides[n].value)
            if repeated is not None and not _neighbours(after, found):
                after = _once(after, n, *repeated) or after
        return None if after is found else after

    def _is_view(self, x: Atom) -> bool:
        """Whether a value is elements of one array, without zeros between."""
        eqn = self.made.get(x)
        if eqn is None or not isinstance(eqn.primitive, Reindex) or len(eqn.invars) > 1:
            return False
        return "fill" not in eqn.params and type(eqn.invars[0]) is Var

    def _repeated(self, x: Atom) -> tuple[Atom, Shape] | None:
        """What a value repeats, and how often along each axis; None if it repeats nothing."""
        view, found = identity(x.aval.shape), None
        while self._is_view(x):
            view, x = composed(view, map_of(self.made[x])), self.made[x].invars[0]
            times = _times(view)
            if times is not None:
                found = x, times
        return found

    def _added_up(self, eqn: Eqn) -> ProductSum | None:
        """The contraction of whose result, reshaped, a sum is, if nothing else needs it."""
        split = self.made.get(eqn.invars[0])
        if split is None or split.primitive is not reshape:
            return None
        x = split.invars[0]
        product = self.made.get(x)
        if product is None or product.primitive is not contraction:
            return None
        return _product_of(product) if self.uses[eqn.invars[0]] == self.uses[x] == 1 else None

    # ---- writing --------------------------------------------------------------------------------

    def _replaced(self, eqn: Eqn, before: ProductSum, after: ProductSum) -> bool:
        """Write what gives the same as an equation, if it is worth it."""
        (out,), dtype = eqn.outvars, before.steps[0].aval.dtype
        sums: dict[Var, tuple[Atom, int, int]] = {}
        for d in reversed(_neighbours(after, before)):
            after = self._added_before(after, d, sums)
        saved = products_ns(before.points - after.points, dtype.itemsize, target())
        if before.points <= LOOPED or saved <= sum(moved_ns((x,) * r) for x, _, r in sums.values()):
            return False
        written = equation_of(after, out, "sum_of_products", eqn.source)
        if not contraction_kernels_take(written.params["jaxpr"]):
            return False
        if not self.rewrites.allow("neighbours are added up before they are multiplied", eqn):
            return False
        for total, of_what in sums.items():
            if total not in self.made:
                self._add_up(total, *of_what, eqn.source)
        self._add(written)
        return True

    def _added_before(
        self, found: ProductSum, d: int, sums: dict[Var, tuple[Atom, int, int]]
    ) -> ProductSum:
        """A sum that reads what has neighbours along a dim added up; ``sums`` notes that."""
        (n,) = [n for n in (0, 1) if found.sides[n].axis_of(d) is not None]
        side, r = found.sides[n], found.extents[d]
        x, axis = side.value, side.axis_of(d)
        assert axis is not None, "one axis has neighbours"
        shape = x.aval.shape
        longer = (*shape[:axis], shape[axis] + r - 1, *shape[axis + 1 :])
        total = self._sums.get((x, axis, r)) or Var(x.aval.update(shape=longer))
        sums[total] = x, axis, r
        side = replace(side.at(axis, side.exprs[axis] + Dim(d)), value=total)
        left = tuple([other for other in found.summed if other != d])
        return replace(found.with_side(n, side), summed=left)

    def _add_up(self, total: Var, x: Atom, axis: int, r: int, source: SourceLine | None) -> None:
        """Write the sums of ``r`` neighbours along an axis."""
        writer = ViewWriter(source)
        value: Atom | None = None
        for k in range(r):
            exprs = tuple([Dim(d) - (k if d == axis else 0) for d in range(x.aval.ndim)])
            part = writer.view(x, IndexMap(total.aval.shape, x.aval.shape, exprs))
            value = part if value is None else writer.new(add, value, part)
        for eqn in writer.giving(total):
            self._add(eqn)
        self._sums[x, axis, r] = total


def _product_of(eqn: Eqn) -> ProductSum | None:
    """A contraction as a product of two arrays whose indices are affine, or None."""
    found = sum_of(eqn)
    if found is None or not found.is_product:
        return None
    plain = all(
        not side.conditions and all(coefficients_of(expr) is not None for expr in side.exprs)
        for side in found.sides
    )
    is_float = found.steps[0].aval.dtype in (dtypes.float32, dtypes.float64)
    return found if plain and is_float else None


def _neighbours(after: ProductSum, before: ProductSum) -> list[int]:
    """The dims along which a sum adds up neighbours of one side that another one does not."""
    return [d for d in after.summed if d not in before.summed]


def _of_neighbours(found: ProductSum, n: int, axis: int, last: IndexExpr, r: int) -> ProductSum:
    """A sum that reads along an axis of a side ``r`` neighbours, with a dim for them."""
    found, m = found.with_dim(r)
    side = found.sides[n].at(axis, last - Dim(m))
    return replace(found.with_side(n, side), summed=(*found.summed, m))


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


def _once(found: ProductSum, n: int, source: Atom, times: Shape) -> ProductSum | None:
    """A contraction of what one of its sides repeats; None if an axis is not summed along."""
    for axis, r in enumerate(times):
        if r > 1:
            step = _along(found, n, axis, r, source.aval.shape[axis])
            if step is None:
                return None
            found = step
    return found.with_side(n, replace(found.sides[n], value=source))


def _along(found: ProductSum, n: int, axis: int, r: int, size: int) -> ProductSum | None:
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
        if other.exprs[place] != Dim(t) or other.value.aval.shape[place] != count:
            continue
        rest = mine.exprs[axis] - Dim(t) * sign
        near = _near(found, n, axis, (t, place), r) if sign == 1 else None
        if size < count and (near is None or size <= near.extents[t]):
            last = Dim(t) * r + (r - 1) - rest if sign == 1 else rest - Dim(t) * r
            everywhere = found.with_extent(t, size).with_side(n, mine.at(axis, Dim(t)))
            return _of_neighbours(everywhere, 1 - n, place, last, r)
        return near
    return None


def _near(
    found: ProductSum, n: int, axis: int, of_sum: tuple[int, int], r: int
) -> ProductSum | None:
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
    split, m = found.with_dim(r)
    first, left = (c // r, Dim(m)) if c % r == 0 else (Dim(m) + c // r, 1 - Dim(m))
    kept = tuple([(k, m) if dims == (k,) else dims for dims in found.kept])
    split = replace(split.with_extent(k, found.extents[k] // r).with_extent(t, steps), kept=kept)
    split = split.with_side(n, mine.at(axis, Dim(k) + Dim(t) + first))
    return _of_neighbours(split, 1 - n, place, Dim(t) * r + (r - 1) - left, r)


# ---- behind a sum -------------------------------------------------------------------------------


def _behind(found: ProductSum, eqn: Eqn, made: dict[Atom, Eqn]) -> ProductSum | None:
    """The contraction that gives sums of neighbours of what one gives."""
    split = made[eqn.invars[0]]
    groups = _groups(split.invars[0].aval.shape, split.outvars[0].aval.shape, eqn.params["axes"])
    if groups is None:
        return None
    after: ProductSum | None = found
    for k, r in groups:
        after = None if after is None else _added_along(after, found.kept[k], r)
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


def _added_along(found: ProductSum, dims: Shape, r: int) -> ProductSum | None:
    """The contraction in which one side has neighbours along a dim of the result added up."""
    (k,) = dims
    sides = [n for n in (0, 1) if any(k in e.used_dims() for e in found.sides[n].exprs)]
    if len(sides) != 1:
        return None
    (n,) = sides
    side = found.sides[n]
    axis = side.axis_of(k)
    factor = 0 if axis is None else (coefficients_of(side.exprs[axis]) or {}).get(k, 0)
    if axis is None or factor not in (1, -1):
        return None
    rest = side.exprs[axis] - Dim(k) * factor
    last = rest + Dim(k) * r + (r - 1) if factor == 1 else rest - Dim(k) * r
    fewer = found.with_extent(k, found.extents[k] // r)
    return _of_neighbours(fewer, n, axis, last, r)
