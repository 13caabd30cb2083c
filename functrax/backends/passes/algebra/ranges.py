"""Ranges of integers: comparisons whose answer is known, and clamps that change nothing.

Indices are counted from the end where they are negative, and clamped; those of ``argmax``, ``iota``
and ``x % n`` never need it.  What is known of a value follows from the equations that make it.
Where arithmetic might wrap around nothing is known but the dtype.

Start at :func:`range_of`; the rules are rows of ``passes/algebra/rule_table.py``.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Final, NamedTuple

from functrax.backends.passes.algebra.rule import Made
from functrax.backends.passes.rewrites import EFFORT
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.prims.arithmetic import add, clamp, max_, min_, rem, select_n, sub
from functrax.core.prims.comparisons import and_, eq, ge, gt, le, lt, ne
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import argmax, argmin
from functrax.core.prims.reindex import Reindex, iota
from functrax.core.tracing.primitive import Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import Recorded


class Range(NamedTuple):
    """The least and the largest number that a value can be."""

    least: int
    most: int

    def holds(self, o: Range) -> bool:
        """Whether another one is inside."""
        return self.least <= o.least and o.most <= self.most

    def both(self, o: Range) -> Range:
        """What is in both, or this where nothing is."""
        least, most = max(self.least, o.least), min(self.most, o.most)
        return Range(least, most) if least <= most else self

    def either(self, o: Range) -> Range:
        """What holds both."""
        return Range(min(self.least, o.least), max(self.most, o.most))


def range_of(x: Atom, made: Made, depth: int = EFFORT) -> Range | None:
    """The range of an integer or truth value; None of other dtypes.

    At most ``depth`` equations are looked at, one behind the other.
    """
    whole = _range_of_dtype(x.aval)
    if whole is not None and isinstance(x, Literal):
        return None if isinstance(x.val, Recorded) else Range(int(x.val), int(x.val))
    eqn = made.get(x)
    if whole is None or eqn is None or depth == 0:
        return whole
    known: Range | None = made.ranges.get((x, depth))
    if known is None:
        found = _computed(eqn, made, depth - 1)
        # What leaves the dtype has wrapped around.
        known = found if found is not None and whole.holds(found) else whole
        made.ranges[x, depth] = known
    return known


def _range_of_dtype(aval: ShapedArray) -> Range | None:
    if aval.dtype == dtypes.bool_:
        return Range(0, 1)
    if aval.dtype.kind not in "iu" or aval.dtype.itemsize < 2:
        return None
    info = dtypes.iinfo(aval.dtype)
    return Range(int(info.min), int(info.max))


def _indices(size: Any) -> Range | None:
    """The indices of an axis, whose size must be a number."""
    return Range(0, max(size - 1, 0)) if type(size) is int else None


def _computed(eqn: Eqn, made: Made, depth: int) -> Range | None:
    """The range of an equation's result, by those of its operands."""
    primitive = eqn.primitive
    if primitive is iota:
        return _indices(eqn.outvars[0].aval.shape[eqn.params["axis"]])
    if primitive is argmax or primitive is argmin:
        return _indices(eqn.invars[0].aval.shape[eqn.params["axis"]])
    if primitive is select_n:
        return _of_choice(eqn, made, depth)
    moved = isinstance(primitive, Reindex) and not primitive.has_fill
    if moved or primitive is convert_element_type:
        return range_of(eqn.invars[0], made, depth)
    rule = _RULES.get(primitive)
    if rule is None:
        return None
    operands = [range_of(x, made, depth) for x in eqn.invars]
    return None if None in operands else rule(*operands)


def _of_choice(eqn: Eqn, made: Made, depth: int) -> Range | None:
    """Of a choice by ``x < 0`` each case is that with such an ``x``."""
    which, *cases = eqn.invars
    found = [range_of(case, made, depth) for case in cases]
    test = made.by(lt, which)
    if test is not None and len(cases) == 2:
        found = [_where(test, bool(k), x, found[k], made, depth) for k, x in enumerate(cases)]
    known = [r for r in found if r is not None]
    return reduce(Range.either, known) if len(known) == len(cases) else None


def _where(
    test: Eqn, holds: bool, case: Atom, known: Range | None, made: Made, depth: int
) -> Range | None:
    """The range of a case where ``x < limit`` holds, or does not: of ``x``, or ``x + number``."""
    x, limit = test.invars
    bounds, limits = range_of(x, made, depth), range_of(limit, made, depth)
    if known is None or bounds is None or limits is None:
        return known
    least, most = (bounds.least, limits.most - 1) if holds else (limits.least, bounds.most)
    narrowed = bounds.both(Range(least, most))
    if case is x:
        return narrowed
    moved = made.by(add, case)
    if moved is None or moved.invars[0] is not x:
        return known
    by, whole = range_of(moved.invars[1], made, depth), _range_of_dtype(case.aval)
    if by is None or whole is None:
        return known
    there = _sum(narrowed, by)
    return there if whole.holds(there) else known


def _sum(x: Range, y: Range) -> Range:
    return Range(x.least + y.least, x.most + y.most)


def _remainder(x: Range, y: Range) -> Range:
    """It has the sign of ``x``, and is no farther from 0; and nearer than ``y``, but by 0."""
    toward = x.either(Range(0, 0))
    if y.least <= 0 <= y.most:
        return toward
    most = max(abs(y.least), abs(y.most)) - 1
    return toward.both(Range(-most, most))


def _common_bits(x: Range, y: Range) -> Range | None:
    known = [r.most for r in (x, y) if r.least >= 0]
    return Range(0, min(known)) if known else None


_RULES: Final[dict[Primitive, Any]] = {
    add: _sum,
    sub: lambda x, y: Range(x.least - y.most, x.most - y.least),
    rem: _remainder,
    and_: _common_bits,
    max_: lambda x, y: Range(*map(max, x, y)),
    min_: lambda x, y: Range(*map(min, x, y)),
    clamp: lambda low, x, high: Range(*map(min, map(max, low, x), high)),
}


# ---- rules --------------------------------------------------------------------------------------


def known_comparison(eqn: Eqn, made: Made) -> Any:
    """A comparison of integers that holds, or does not, whatever they are."""
    x, y = (range_of(operand, made) for operand in eqn.invars)
    if x is None or y is None:
        return None
    below, not_above = x.most < y.least, x.most <= y.least
    above, not_below = x.least > y.most, x.least >= y.most
    known: dict[Primitive, tuple[bool, bool]] = {
        lt: (below, not_below),
        le: (not_above, above),
        gt: (above, not_above),
        ge: (not_below, below),
        eq: (x == y and x.least == x.most, below or above),
        ne: (below or above, x == y and x.least == x.most),
    }
    holds, fails = known[eqn.primitive]
    if not holds and not fails:
        return None
    return Literal(holds, eqn.outvars[0].aval.update(shape=()))


def clamped_inside(eqn: Eqn, made: Made) -> Any:
    """``clamp(low, x, high)`` of an ``x`` that is between them."""
    low, x, high = (range_of(operand, made) for operand in eqn.invars)
    if low is None or x is None or high is None or eqn.invars[1].aval is not eqn.outvars[0].aval:
        return None
    return eqn.invars[1] if Range(low.most, high.least).holds(x) else None
