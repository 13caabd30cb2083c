"""Index expressions as scalar expressions: addresses, conditions, the numbers of a kernel.

What enters: expressions over the dims of a kernel (``core/index/expr.py``).  What leaves: scalars
of int32 where that is enough, else of int64, and addresses as a part that is affine in the dims,
which loops step through, and a rest.

An index that is read from an array becomes a dim beyond those of the kernel
(:meth:`Indices.dynamic`), so that expressions of it are handled like all others.

Start at :class:`Indices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.core.index.bounds import bounds, simplify, simplify_condition
from functrax.core.index.expr import Condition, Dim, FloorDiv, IndexExpr, Indicator, Mod, linear
from functrax.core.index.map_form import flatten
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: What indices are computed in where it is enough, and the first number that it does not hold.
NARROW = np.dtype(np.int32)
LIMIT = 2**31
_INT64 = np.dtype(np.int64)
#: An address that is affine in the dims, and what is added to it.
Place: TypeAlias = "tuple[IndexExpr, Scalar | None]"


class Indices:
    """Integer expressions over the dims of one kernel.

    Args:
      builder: makes the scalars.
      extents: the sizes of the dims.

    Attributes:
      divisors: for each dim what it was divided by.
      breaks: for each dim the indices from which on a condition holds, or holds no more.
      turns: for each dim the indices from which on another row of an array is read.
      strides: what is asked to be divisible, and by what.
    """

    def __init__(self, builder: Builder, extents: tuple[int, ...]) -> None:
        self.builder = builder
        self.extents = extents
        self.divisors: dict[int, set[int]] = {}
        self.breaks: dict[int, set[int]] = {}
        self.turns: dict[int, set[int]] = {}
        self.strides: dict[tuple[IndexExpr, int], None] = {}
        self._dynamic: dict[Scalar, int] = {}

    def dynamic(self, value: Scalar) -> IndexExpr:
        """A dim that stands for a scalar: an index read from an array."""
        return Dim(len(self.extents) + self._dynamic.setdefault(value, len(self._dynamic)))

    def is_dynamic(self, expr: IndexExpr) -> bool:
        """Whether an expression depends on what is read from an array."""
        return bool(expr.dims_mask >> len(self.extents))

    def simplify(self, expr: IndexExpr) -> IndexExpr:
        """An equal expression, smaller where the extents allow it."""
        return expr if self.is_dynamic(expr) else simplify(expr, self.extents)

    def both(self, guard: Scalar | None, condition: Condition) -> Scalar | None:
        """A guard and a condition, of which only what is not proven remains."""
        if guard is not None and guard.is_constant and not guard.attr:
            return guard
        if not self.is_dynamic(condition.expr):
            condition = simplify_condition(condition, self.extents)
            holds_always = condition.as_bool()
            if holds_always is not None:
                return guard if holds_always else self.builder.const(False, np.dtype(np.bool_))
            self._note_break(condition)
        b = self.builder
        value = self.scalar(condition.expr)
        kind = {"==0": "eq", "!=0": "ne", ">=0": "ge"}[condition.kind]
        holds = b.compare(kind, value, b.const(0, value.dtype))
        return holds if guard is None else b.both(guard, holds)

    def within(self, guard: Scalar | None, expr: IndexExpr, size: int) -> Scalar | None:
        """A guard, and that an expression is at least 0 and less than a size.

        Of what is read from an array nothing is proven: there it is one comparison without sign.
        """
        if not self.is_dynamic(expr):
            return self.both(self.both(guard, expr >= 0), expr < size)
        b = self.builder
        dtype = NARROW if size < LIMIT and self._fits_dynamic(expr) else _INT64
        unsigned = _unsigned(dtype)
        value = b.convert(self.integer(expr, dtype), unsigned)
        holds = b.compare("lt", value, self._number(size, unsigned))
        return holds if guard is None else b.both(guard, holds)

    def may_meet(self, expr: IndexExpr, begin: int, end: int) -> bool:
        """Whether an expression may be at least ``begin`` and less than ``end`` somewhere."""
        interval = None if self.is_dynamic(expr) else bounds(expr, self.extents)
        return interval is None or (interval[1] >= begin and interval[0] < end)

    def is_inside(self, address: IndexExpr, size: int) -> bool:
        """Whether an address is proven to be at least 0 and less than a size."""
        interval = None if self.is_dynamic(address) else bounds(address, self.extents)
        return interval is not None and interval[0] >= 0 and interval[1] < size

    def _note_break(self, condition: Condition) -> None:
        """Remember where a condition on one dim changes, so that loops can be split there."""
        atoms = [atom for atom, _ in condition.expr.terms]
        if condition.kind == "==0" and len(atoms) == 1 and isinstance(atoms[0], Mod):
            if condition.expr.const == 0:
                self.strides[atoms[0].expr, atoms[0].divisor] = None
        place = _place_of(condition)
        if place is not None:
            dim, index, _ = place
            self.breaks.setdefault(dim, set()).add(index)

    def _indicator(self, condition: Condition, dtype: np.dtype[Any]) -> Scalar:
        """1 where a condition holds, else 0."""
        b = self.builder
        place = None if self.is_dynamic(condition.expr) else _place_of(condition)
        if place is None:
            holds = self.both(None, condition)
            return b.const(1, dtype) if holds is None else b.convert(holds, dtype)
        # Which row is read: the same text wherever that changes.
        dim, index, from_there = place
        self.turns.setdefault(dim, set()).add(index)
        here, there = b.node("dim", dtype, (), dim), b.node("int", dtype, (), index)
        return b.convert(b.compare("ge" if from_there else "lt", here, there), dtype)

    def scalar(self, expr: IndexExpr) -> Scalar:
        """An index expression as a scalar, of int32 where all its parts fit."""
        return self.integer(expr, NARROW if self._fits(expr) else _INT64)

    def _fits(self, expr: IndexExpr) -> bool:
        """Whether 32 bits are enough for an expression and its parts."""
        if self.is_dynamic(expr):
            return self._fits_dynamic(expr)
        interval = bounds(expr, self.extents)
        if interval is None or not -LIMIT <= interval[0] <= interval[1] < LIMIT:
            return False
        return all(self._fits(part) for atom, _ in expr.terms for part in _parts_of(atom))

    def _fits_dynamic(self, expr: IndexExpr) -> bool:
        """Whether comparisons with 0, or with a size without sign, are right in 32 bits: those of
        ``+-e + c`` with a 32-bit ``e``.

        ``c - e`` wraps for a very negative ``e`` only: ``e >= 0`` refuses it, and what has wrapped
        is negative, which is larger than any size without sign.
        """
        if len(expr.terms) != 1:
            return False
        ((atom, coef),) = expr.terms
        if not isinstance(atom, Dim) or abs(coef) != 1:
            return False
        value = self._dynamic_value(atom)
        small = value.dtype.kind in "iu" and np.can_cast(value.dtype, NARROW)
        return small and (expr.const == 0 if coef > 0 else 0 <= expr.const < LIMIT)

    def _is_small(self, expr: IndexExpr) -> bool:
        """Whether an expression and its parts are right in 32 bits, whatever is read."""
        if not self.is_dynamic(expr):
            return self._fits(expr)
        low = high = expr.const
        for atom, coef in expr.terms:
            interval = self._range_of(atom)
            if interval is None:
                return False
            ends = sorted((coef * interval[0], coef * interval[1]))
            low, high = low + ends[0], high + ends[1]
        return low >= -LIMIT and high < LIMIT

    def _range_of(self, atom: IndexExpr) -> tuple[int, int] | None:
        """The least and the largest value of an atom; None if 32 bits are too few for its parts."""
        if isinstance(atom, Dim) and atom.number >= len(self.extents):
            info = np.iinfo(self._dynamic_value(atom).dtype)
            return int(info.min), int(info.max)
        if self.is_dynamic(atom) and isinstance(atom, FloorDiv | Mod):
            if atom.divisor >= LIMIT or not self._is_small(atom.expr):
                return None
            return (0, atom.divisor - 1) if isinstance(atom, Mod) else (-LIMIT, LIMIT - 1)
        return bounds(atom, self.extents) if self._fits(atom) else None

    def _dynamic_value(self, dim: Dim) -> Scalar:
        return list(self._dynamic)[dim.number - len(self.extents)]

    def integer(self, expr: IndexExpr, dtype: np.dtype[Any]) -> Scalar:
        """An index expression as a scalar of a dtype, in which it must fit."""
        b = self.builder
        total: Scalar | None = None
        for atom, coef in expr.terms:
            term = self._atom(atom, dtype)
            if coef == -1 and total is not None:
                total = b.sub(total, term)
                continue
            if coef != 1:
                term = b.neg(term) if coef == -1 else b.mul(term, self._number(coef, dtype))
            total = term if total is None else b.add(total, term)
        if total is None:
            return self._number(expr.const, dtype)
        return total if expr.const == 0 else b.add(total, self._number(expr.const, dtype))

    def _number(self, value: int, dtype: np.dtype[Any]) -> Scalar:
        """An integer: written into the kernel if it is tiny, else given when it runs."""
        if not is_symbolic_dim(value) and abs(value) <= 8:
            return self.builder.const(value, dtype)
        return self.builder.node("int", dtype, (), value)

    def _atom(self, atom: IndexExpr, dtype: np.dtype[Any]) -> Scalar:
        b = self.builder
        if isinstance(atom, Dim):
            if atom.number >= len(self.extents):
                return b.convert(self._dynamic_value(atom), dtype)
            return b.node("dim", dtype, (), atom.number)
        if isinstance(atom, Indicator):
            return self._indicator(atom.condition, dtype)
        assert isinstance(atom, FloorDiv | Mod), "loads have been replaced"
        self._note_divisor(atom)
        x, divisor = self.integer(atom.expr, dtype), b.const(atom.divisor, dtype)
        interval = None if self.is_dynamic(atom.expr) else bounds(atom.expr, self.extents)
        if interval is not None and interval[0] >= 0:
            unsigned = _unsigned(dtype)
            x, divisor = b.convert(x, unsigned), b.convert(divisor, unsigned)
            out = b.div(x, divisor) if isinstance(atom, FloorDiv) else b.rem(x, divisor)
            return b.convert(out, dtype)
        remainder = b.rem(x, divisor)
        negative = b.compare("lt", remainder, b.const(0, dtype))
        remainder = b.select(negative, b.add(remainder, divisor), remainder)
        if isinstance(atom, Mod):
            return remainder
        return b.div(b.sub(x, remainder), divisor)

    def _note_divisor(self, atom: FloorDiv | Mod) -> None:
        """Remember what a dim is divided by, so that it can be split there."""
        for inner, coef in atom.expr.terms:
            if not isinstance(inner, Dim) or coef <= 0 or atom.divisor % coef:
                continue
            if inner.number < len(self.extents):
                self.divisors.setdefault(inner.number, set()).add(atom.divisor // coef)

    def divisors_but_of_holes(self, dim: int) -> dict[int, set[int]]:
        """What dims were divided by, without that by which elements of an array are set apart along
        one of them: what else is read along it stays contiguous, and the holes are masked lanes.
        """
        holes = {
            divisor // coef
            for expr, divisor in self.strides
            for atom, coef in expr.terms
            if isinstance(atom, Dim) and atom.number == dim and coef > 0
        }
        return {d: found - holes if d == dim else found for d, found in self.divisors.items()}

    def place(self, point: Sequence[IndexExpr], aval: ShapedArray) -> Place:
        """Where the element of an array is that belongs to a point: see :meth:`affine_part`."""
        return self.affine_part(self.simplify(flatten(point, aval.shape)), aval.size)

    def affine_part(self, address: IndexExpr, size: int) -> Place:
        """An address as a part affine in the dims, and the rest.

        The rest is computed in 32 bits where these hold how far it can be from the affine part, for
        what is read or written is inside the array: sums and products may wrap, but nothing that is
        divided.
        """
        known: dict[Any, int] = {}
        rest: dict[Any, int] = {}
        for atom, coef in address.terms:
            affine = isinstance(atom, Dim) and atom.number < len(self.extents)
            (known if affine else rest)[atom] = coef
        if not rest:
            return address, None
        affine_part = linear(address.const, known)
        interval = bounds(affine_part, self.extents)
        near = interval is not None and interval[1] <= LIMIT and size - interval[0] <= LIMIT
        divided = [part for atom in rest for part in _parts_of(atom)]
        dtype = NARROW if near and all(map(self._is_small, divided)) else _INT64
        return affine_part, self.integer(linear(0, rest), dtype)


def _place_of(condition: Condition) -> tuple[int, int, bool] | None:
    """The dim and the index from which on a condition holds (else: holds no more), if it is of the
    dim alone.
    """
    if condition.kind != ">=0" or len(condition.expr.terms) != 1:
        return None
    ((atom, coef),) = condition.expr.terms
    if not isinstance(atom, Dim) or abs(coef) != 1:
        return None
    const = condition.expr.const
    return atom.number, (-const if coef > 0 else const + 1), coef > 0


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


def _parts_of(atom: IndexExpr) -> tuple[IndexExpr, ...]:
    if isinstance(atom, FloorDiv | Mod):
        return (atom.expr,)
    return (atom.condition.expr,) if isinstance(atom, Indicator) else ()
