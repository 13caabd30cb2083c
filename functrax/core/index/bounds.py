"""Interval analysis of index expressions, and the simplification that known ranges allow.

What enters: an expression (:mod:`functrax.core.index.expr`), the extents of the iteration space
(``0 <= Dim(k) < extents[k]``), and optionally the ranges of the extra operands' values.  What
leaves: bounds that hold at every point, or a smaller expression that is equal at every point.

Nothing can be said of a :class:`Load` whose range is not given: :func:`bounds` answers None.  On
an empty iteration space every statement is true; an extent of 0 is treated as 1.

Start at :func:`bounds`; :func:`simplify` asks it whether a quotient is constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import ge, gt, le, lt
from typing import TypeAlias

from functrax.core.index.comparisons import compare
from functrax.core.index.expr import (
    Atom,
    Condition,
    Dim,
    Division,
    FloorDiv,
    IndexExpr,
    Indicator,
    Load,
    Mod,
    add_terms,
    as_expr,
    indicator,
    linear,
)
from functrax.core.types.size_bounds import surely
from functrax.core.types.symbolic_sizes import gcd

Extents: TypeAlias = tuple[int, ...]
Interval: TypeAlias = tuple[int, int]
LoadBounds: TypeAlias = Mapping[int, Interval]
_NO_BOUNDS: LoadBounds = {}


def bounds(
    expr: IndexExpr, extents: Extents, load_bounds: LoadBounds = _NO_BOUNDS
) -> Interval | None:
    """The least and the greatest value that interval arithmetic allows, both included.

    Args:
      expr: the expression.
      extents: the size of every dimension of the iteration space.
      load_bounds: for an extra operand's number, the interval that its values lie in.

    Returns:
      ``(low, high)`` with ``low <= expr <= high`` at every point, or None where an extra operand
      of unknown range is read.

    Example:
      >>> bounds((Dim(0) - 2) // 3 + Dim(1) % 4, (9, 100))
      (-1, 5)
      >>> bounds(Load(0, [Dim(0)]), (9,)) is None
      True
    """
    low = high = expr.const
    for atom, coef in expr.terms:
        if type(atom) is Dim:
            interval: Interval | None = (0, max(extents[atom.number] - 1, 0))
        else:
            interval = _atom_bounds(atom, extents, load_bounds)
        if interval is None:
            return None
        first, last = interval if coef > 0 else (interval[1], interval[0])
        low += coef * first
        high += coef * last
    return low, high


def _atom_bounds(atom: Atom, extents: Extents, load_bounds: LoadBounds) -> Interval | None:
    if isinstance(atom, Load):
        return load_bounds.get(atom.operand)
    if isinstance(atom, Indicator):
        known = decide(atom.condition, extents, load_bounds)
        return (0, 1) if known is None else (int(known), int(known))
    assert isinstance(atom, Division)
    inner = bounds(atom.expr, extents, load_bounds)
    if isinstance(atom, FloorDiv):
        return inner and (inner[0] // atom.divisor, inner[1] // atom.divisor)
    quotient = _common_quotient(inner, atom.divisor)
    if inner is None or quotient is None:
        return 0, atom.divisor - 1
    return inner[0] - quotient * atom.divisor, inner[1] - quotient * atom.divisor


def decide(
    condition: Condition, extents: Extents, load_bounds: LoadBounds = _NO_BOUNDS
) -> bool | None:
    """True where the condition is proven to hold everywhere, False for nowhere, else None.

    Example:
      >>> decide(Dim(0) < 5, (5,)), decide(Dim(0) > 7, (5,)), decide(Dim(0) < 4, (5,))
      (True, False, None)
    """
    interval = bounds(condition.expr, extents, load_bounds)
    if interval is None:
        return None
    low, high = interval
    if low == high:
        return compare(low, condition.kind)
    if condition.kind == ">=0":
        return True if surely(ge, low, 0) else False if surely(lt, high, 0) else None
    if surely(gt, low, 0) or surely(lt, high, 0):
        return condition.kind == "!=0"
    return None


def simplify(expr: IndexExpr, extents: Extents, load_bounds: LoadBounds = _NO_BOUNDS) -> IndexExpr:
    """An expression that is equal at every point of the iteration space, and mostly smaller.

    Quotients and remainders whose value the ranges decide disappear; dimensions of extent 1
    become 0.

    Example:
      >>> position = 12 * Dim(0) + 4 * Dim(1) + Dim(2)
      >>> str(simplify(position // 4 % 3, (7, 3, 4))), str(simplify(position % 4, (7, 3, 4)))
      ('d1', 'd2')
    """
    if expr.size == 0:
        return expr
    const = expr.const
    terms: list[tuple[Atom, int]] = []
    changed = False
    for atom, coef in expr.terms:
        new = _simplify_atom(atom, extents, load_bounds)
        changed = changed or new != atom
        const += coef * new.const
        terms.extend((inner, coef * factor) for inner, factor in new.terms)
    return add_terms(const, terms) if changed else expr


def simplify_condition(
    condition: Condition, extents: Extents, load_bounds: LoadBounds = _NO_BOUNDS
) -> Condition:
    """An equivalent condition; a constant one when the ranges decide it."""
    known = decide(condition, extents, load_bounds)
    if known is not None:
        return Condition(0 if known else 1, "==0")
    expr = simplify(condition.expr, extents, load_bounds)
    while condition.kind == ">=0" and len(expr.terms) == 1:
        ((atom, sign),) = expr.terms
        if not isinstance(atom, FloorDiv) or abs(sign) != 1:
            break
        # e//d + c >= 0 where e >= -c*d, and -(e//d) + c >= 0 where e < (c + 1)*d
        low = expr.const * atom.divisor
        expr = atom.expr + low if sign > 0 else low + atom.divisor - 1 - atom.expr
    return Condition(expr, condition.kind)


def _simplify_atom(atom: Atom, extents: Extents, load_bounds: LoadBounds) -> IndexExpr:
    if isinstance(atom, Dim):
        return as_expr(0) if surely(le, extents[atom.number], 1) else atom
    if isinstance(atom, FloorDiv):
        inner = simplify(atom.expr, extents, load_bounds)
        return _quotient(inner, atom.divisor, extents, load_bounds)
    if isinstance(atom, Mod):
        inner = simplify(atom.expr, extents, load_bounds)
        return _modulo(inner, atom.divisor, extents, load_bounds)
    if isinstance(atom, Load):
        indices = tuple(simplify(index, extents, load_bounds) for index in atom.indices)
        return atom if indices == atom.indices else Load(atom.operand, indices)
    assert isinstance(atom, Indicator)
    return indicator(simplify_condition(atom.condition, extents, load_bounds))


def _quotient(
    expr: IndexExpr, divisor: int, extents: Extents, load_bounds: LoadBounds
) -> IndexExpr:
    """``expr // divisor``, using ``(g*a + r) // (g*b) == (a + r//g) // b`` where r//g is known."""
    known = _common_quotient(bounds(expr, extents, load_bounds), divisor)
    if known is not None:
        return as_expr(known)
    for factor in _factors(expr, divisor):
        high, low = _split(expr, factor)
        carry = _common_quotient(bounds(low, extents, load_bounds), factor)
        if carry is not None:
            if factor == divisor:
                return high + carry
            return _quotient(high + carry, divisor // factor, extents, load_bounds)
    return expr // divisor


def _modulo(expr: IndexExpr, divisor: int, extents: Extents, load_bounds: LoadBounds) -> IndexExpr:
    """``expr % divisor``, using ``(g*a + r) % (g*b) == g*((a + r//g) % b) + r%g``."""
    known = _common_quotient(bounds(expr, extents, load_bounds), divisor)
    if known is not None:
        return expr - known * divisor
    for factor in _factors(expr, divisor):
        high, low = _split(expr, factor)
        carry = _common_quotient(bounds(low, extents, load_bounds), factor)
        if carry is not None:
            rest = low - carry * factor
            if factor == divisor:
                return rest
            return factor * _modulo(high + carry, divisor // factor, extents, load_bounds) + rest
    return expr % divisor


def _factors(expr: IndexExpr, divisor: int) -> list[int]:
    """The factors of the divisor that some coefficients share, greatest first, without 1."""
    common = {gcd(coef, divisor) for _, coef in expr.terms}
    return sorted([factor for factor in common if factor != 1], reverse=True)


def _split(expr: IndexExpr, factor: int) -> tuple[IndexExpr, IndexExpr]:
    """``(high, low)`` with ``expr == factor * high + low`` and the constant in ``low``."""
    high = {atom: coef // factor for atom, coef in expr.terms if coef % factor == 0}
    low = {atom: coef for atom, coef in expr.terms if coef % factor}
    return linear(0, high), linear(expr.const, low)


def _common_quotient(interval: Interval | None, divisor: int) -> int | None:
    """The quotient of every number in the interval, when they all have the same."""
    if interval is None:
        return None
    quotient = interval[0] // divisor
    return quotient if quotient == interval[1] // divisor else None
