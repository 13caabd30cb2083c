"""Proofs about index maps: in bounds, injective, surjective, contiguous, and how to invert.

What enters: a map's data (:class:`functrax.core.index.map_form.MapForm`).  What leaves: facts.
Every proof is **sound and incomplete**: True means proven, False means not known.

Injectivity and inversion are one computation, :func:`solve`.  Suppose that ``f(o) = m`` is known
for a valid point ``o``.  Each expression and each ``== 0`` condition is then an equation
``Σ coef * atom = known value``, and :class:`_Solver` deduces atoms from equations until every
dimension is an expression of ``m``, or nothing follows any more:

- *mixed radix*: if the upper coefficients have the common divisor ``g`` and the lower part takes
  fewer than ``g`` consecutive values, the equation splits in two (a number in base ``g`` has one
  digit and one rest);
- *elimination*: linear combinations of equations that leave one atom;
- *quotient and remainder*: ``e//d`` and ``e%d`` together give ``e``.

Start at :func:`solve`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from functrax.core.index.bounds import Interval, LoadBounds, bounds, decide, simplify
from functrax.core.index.expr import (
    Atom,
    Dim,
    Division,
    FloorDiv,
    IndexExpr,
    Indicator,
    Load,
    as_expr,
    linear,
)
from functrax.core.index.map_form import MapForm, Shape, size_of, strides_of
from functrax.core.types.symbolic_sizes import gcd

Window: TypeAlias = tuple[tuple[int, int], ...]
_Equation: TypeAlias = "tuple[dict[Atom, int], IndexExpr]"


def in_bounds(
    form: MapForm,
    load_bounds: LoadBounds | None = None,
    load_shapes: Mapping[int, Shape] | None = None,
) -> bool:
    """Whether every index, those into the extra operands too, is proven in range everywhere.

    Conditions are not looked at: see :func:`total`.

    Args:
      form: the map.
      load_bounds: for an extra operand's number, the interval that its values lie in.
      load_shapes: for an extra operand's number, its shape.
    """
    ranges, shapes = load_bounds or {}, load_shapes or {}
    if not all(
        _inside(expr, form.domain, size, ranges)
        for expr, size in zip(form.exprs, form.codomain, strict=True)
    ):
        return False
    exprs = (*form.exprs, *(condition.expr for condition in form.conditions))
    return all(
        load.operand in shapes
        and len(shapes[load.operand]) == len(load.indices)
        and all(
            _inside(index, form.domain, size, ranges)
            for index, size in zip(load.indices, shapes[load.operand], strict=True)
        )
        for expr in exprs
        for load in loads_of(expr)
    )


def total(
    form: MapForm,
    load_bounds: LoadBounds | None = None,
    load_shapes: Mapping[int, Shape] | None = None,
) -> bool:
    """Whether every point is proven valid: in bounds, and all conditions hold."""
    return in_bounds(form, load_bounds, load_shapes) and all(
        decide(condition, form.domain, load_bounds or {}) for condition in form.conditions
    )


def injective(form: MapForm) -> bool:
    """Whether no two valid points are proven to have the same image."""
    never = any(condition.as_bool() is False for condition in form.conditions)
    return never or size_of(form.domain) <= 1 or solve(form) is not None


def covers(form: MapForm) -> bool:
    """Whether every codomain element is proven to be the image of a valid point.

    Needs expressions that share no dimension, each of which takes every value of a range.
    """
    if form.conditions or size_of(form.domain) == 0 or _overlap(form.exprs):
        return False
    ranges = [_all_values(expr, form.domain) for expr in form.exprs]
    return all(
        found is not None and found[0] <= 0 and found[1] >= size - 1
        for found, size in zip(ranges, form.codomain, strict=True)
    )


def _all_values(expr: IndexExpr, extents: Shape) -> Interval | None:
    """``(low, high)`` when the expression is proven to take exactly the values between them.

    A sum of parts that share no dimension leaves no gap when, from the smallest coefficient up,
    each is at most one more than what the parts before it span.
    """
    if _overlap([atom for atom, _ in expr.terms]):
        return None
    low, span = expr.const, 0
    for atom, coef in sorted(expr.terms, key=lambda term: abs(term[1])):
        found = _all_atom_values(atom, extents)
        if found is None or abs(coef) > span + 1:
            return None
        low += min(coef * found[0], coef * found[1])
        span += abs(coef) * (found[1] - found[0])
    return low, low + span


def _all_atom_values(atom: Atom, extents: Shape) -> Interval | None:
    if isinstance(atom, Dim):
        return 0, extents[atom.number] - 1
    found = _all_values(atom.expr, extents) if isinstance(atom, Division) else None
    if found is None or not isinstance(atom, Division):
        return None
    if isinstance(atom, FloorDiv):
        return found[0] // atom.divisor, found[1] // atom.divisor
    return (0, atom.divisor - 1) if found[1] - found[0] >= atom.divisor - 1 else None


def _overlap(exprs: Iterable[IndexExpr]) -> bool:
    """Whether two of the expressions use the same dimension, or one reads an extra operand."""
    seen = 0
    for expr in exprs:
        if seen & expr.dims_mask or expr.loads_mask:
            return True
        seen |= expr.dims_mask
    return False


def contiguous(form: MapForm) -> bool:
    """Whether address = base + row-major position is proven, with every point valid."""
    if size_of(form.domain) == 0:
        return True
    position = linear(
        0,
        {
            Dim(k): stride
            for k, (stride, extent) in enumerate(
                zip(strides_of(form.domain), form.domain, strict=True)
            )
            if extent > 1
        },
    )
    difference = simplify(form.address(), form.domain) - position
    return difference.as_int() is not None and total(form)


def box(form: MapForm) -> Window | None:
    """The valid points of an affine map without conditions, if they are proven to be a box.

    Returns:
      ``(start, stop)`` for every domain dimension, or None.
    """
    affine = None if form.conditions else form.as_affine()
    if affine is None:
        return None
    window = [(0, extent) for extent in form.domain]
    for expr, const, row, size in zip(form.exprs, *affine, form.codomain, strict=True):
        if _inside(expr, form.domain, size, {}):
            continue
        used = [k for k, coef in enumerate(row) if coef]
        if len(used) > 1:
            return None
        if not used:  # a constant that is out of bounds
            return ((0, 0),) * len(form.domain) if form.domain else None
        start, stop = _valid_range(const, row[used[0]], size)
        low, high = window[used[0]]
        window[used[0]] = max(low, start), min(high, stop)
    return tuple((low, max(low, high)) for low, high in window)


@lru_cache(maxsize=4096)
def solve(form: MapForm) -> tuple[IndexExpr, ...] | None:
    """The valid point ``o`` with ``f(o) = m``, as expressions of ``m``; None where not unique.

    The expressions (one per domain dimension, in the codomain's dimensions) are right for those
    ``m`` that some valid ``o`` maps to, and mean nothing for others.
    """
    return _Solver(form).run()


def loads_of(expr: IndexExpr) -> Iterator[Load]:
    """Every read of an extra operand in the expression, nested ones too."""
    if not expr.loads_mask:
        return
    for atom, _ in expr.terms:
        if isinstance(atom, Load):
            yield atom
        for inner in parts_of(atom):
            yield from loads_of(inner)


def parts_of(atom: Atom) -> tuple[IndexExpr, ...]:
    """The expressions inside an atom."""
    if isinstance(atom, Division):
        return (atom.expr,)
    if isinstance(atom, Load):
        return atom.indices
    return (atom.condition.expr,) if isinstance(atom, Indicator) else ()


class _Solver:
    """Deduces atoms from equations; see the head of this file."""

    def __init__(self, form: MapForm) -> None:
        self.extents = form.domain
        self.known: dict[Atom, IndexExpr] = {
            Dim(k): as_expr(low) for k, (low, high) in enumerate(_ranges(form)) if low >= high
        }
        self.equations: list[_Equation] = []
        self.joined: set[Atom] = set()
        for j, expr in enumerate(form.exprs):
            self._learn(expr, Dim(j))
        for condition in form.conditions:
            if condition.kind == "==0":
                self._learn(condition.expr, as_expr(0))

    def run(self) -> tuple[IndexExpr, ...] | None:
        dims = [Dim(k) for k in range(len(self.extents))]
        while not all(dim in self.known for dim in dims):
            before = len(self.known), len(self.joined)
            self._split_all()
            self._join_quotients()
            if before == (len(self.known), len(self.joined)):
                self._eliminate()
            if before == (len(self.known), len(self.joined)):
                return None
        return tuple(self.known[dim] for dim in dims)

    def _learn(self, expr: IndexExpr, value: IndexExpr) -> None:
        """Note that ``expr`` has the value."""
        self.equations.append((dict(expr.terms), value - expr.const))

    def _split_all(self) -> None:
        """Take the known atoms out of the equations and split what is left."""
        todo, self.equations = self.equations[::-1], []
        while todo:
            terms, value = self._without_known(*todo.pop())
            if len(terms) == 1:
                ((atom, coef),) = terms.items()
                self.known[atom] = value // coef
                continue
            parts = self._split(terms, value)
            if parts:
                todo.extend(parts)
            elif terms:
                self.equations.append((terms, value))

    def _without_known(self, terms: dict[Atom, int], value: IndexExpr) -> _Equation:
        left: dict[Atom, int] = {}
        for atom, coef in terms.items():
            inner = self._value(atom)
            if inner is None:
                left[atom] = coef
            else:
                value = value - inner * coef
        return left, value

    def _value(self, atom: Atom) -> IndexExpr | None:
        """The atom's value, when it is known or all the dimensions in it are."""
        if atom not in self.known and not isinstance(atom, Dim):
            dims = {k: self.known.get(Dim(k)) for k in atom.used_dims()}
            given = {k: value for k, value in dims.items() if value is not None}
            if len(given) == len(dims):
                self.known[atom] = atom.substitute(given)
        return self.known.get(atom)

    def _split(self, terms: dict[Atom, int], value: IndexExpr) -> list[_Equation]:
        """The two equations that the mixed radix argument gives, or none."""
        items = sorted(terms.items(), key=lambda item: -abs(item[1]))
        for cut in range(1, len(items)):
            upper, lower = items[:cut], items[cut:]
            factor = gcd(*(coef for _, coef in upper))
            interval = bounds(linear(0, dict(lower)), self.extents)
            if interval is None or interval[1] - interval[0] >= factor:
                continue
            shifted = value - interval[0]
            high = {atom: coef // factor for atom, coef in upper}
            return [(high, shifted // factor), (dict(lower), shifted % factor + interval[0])]
        return []

    def _join_quotients(self) -> None:
        """Learn ``e`` where both ``e//d`` and ``e%d`` are known."""
        for atom in list(self.known):
            if not isinstance(atom, Division) or atom in self.joined:
                continue
            quotient = simplify(atom.expr // atom.divisor, self.extents) * atom.divisor
            value: IndexExpr | None = as_expr(0)
            for part in (quotient, atom.expr % atom.divisor):
                left, minus = self._without_known(dict(part.terms), as_expr(-part.const))
                value = None if left or value is None else value - minus
            if value is not None:
                self.joined.add(atom)
                self._learn(atom.expr, value)

    def _eliminate(self) -> None:
        """Gauss-Jordan elimination over the integers; rows with one atom left are answers."""
        rows = list(self.equations)
        used: set[int] = set()
        for pivot in {atom: None for terms, _ in rows for atom in terms}:
            chosen = next(
                (k for k, row in enumerate(rows) if pivot in row[0] and k not in used), None
            )
            if chosen is None:
                continue
            used.add(chosen)
            rows = [
                row if k == chosen or pivot not in row[0] else _combine(row, rows[chosen], pivot)
                for k, row in enumerate(rows)
            ]
        for terms, value in rows:
            if len(terms) == 1:
                ((atom, coef),) = terms.items()
                self.known.setdefault(atom, value // coef)


def _ranges(form: MapForm) -> list[Interval]:
    """The values of each dimension at valid points, as far as conditions on it alone tell."""
    ranges = [(0, extent - 1) for extent in form.domain]
    for condition in form.conditions:
        if condition.kind != ">=0" or len(condition.expr.terms) != 1:
            continue
        ((atom, sign),) = condition.expr.terms
        if isinstance(atom, Dim):  # the coefficient is 1 or -1: common factors are divided out
            low, high = ranges[atom.number]
            bound = condition.expr.const
            low, high = (max(low, -bound), high) if sign > 0 else (low, min(high, bound))
            ranges[atom.number] = low, high
    return ranges


def _combine(row: _Equation, other: _Equation, pivot: Atom) -> _Equation:
    """``row`` times a constant minus ``other`` times a constant, without the pivot."""
    mine, theirs = row[0][pivot], other[0][pivot]
    common = gcd(mine, theirs)
    scale, times = theirs // common, mine // common
    terms = {atom: coef * scale for atom, coef in row[0].items()}
    for atom, coef in other[0].items():
        terms[atom] = terms.get(atom, 0) - coef * times
    terms = {atom: coef for atom, coef in terms.items() if coef}
    return terms, row[1] * scale - other[1] * times


def _inside(expr: IndexExpr, domain: Shape, size: int, load_bounds: LoadBounds) -> bool:
    interval = bounds(expr, domain, load_bounds)
    return interval is not None and interval[0] >= 0 and interval[1] < size


def _valid_range(const: int, coef: int, size: int) -> tuple[int, int]:
    """The ``d`` with ``0 <= const + coef * d < size``, as ``(start, stop)``."""
    if coef > 0:
        return -(const // coef), (size - 1 - const) // coef + 1
    return -((size - 1 - const) // -coef), const // -coef + 1
