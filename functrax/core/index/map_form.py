"""The data of an index map, checked: two shapes, one expression per codomain dimension, conditions.

:class:`MapForm` is what the functions on maps read (:mod:`functrax.core.index.proofs`,
:mod:`functrax.core.index.in_numpy`); the map that users and the compiler hold is a subclass,
:class:`functrax.core.index.map.IndexMap`, with constructors and the algebra.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.index.bounds import simplify, simplify_condition
from functrax.core.index.expr import Condition, Dim, IndexExpr, add_terms, as_expr
from functrax.core.records import record
from functrax.core.types.symbolic_sizes import integer

Shape = tuple[int, ...]


@record
class MapForm:
    """The four fields of an index map (abstract).

    Attributes:
      domain: the shape of the iteration space.
      codomain: the shape of the array that is read, or written.
      exprs: one expression per codomain dimension; integers become expressions.
      conditions: all must hold for a point to be valid; sorted, without repeats.

    Expressions and conditions are simplified under ``0 <= Dim(k) < domain[k]``, so that maps that
    simplify alike are ``==``.
    """

    domain: Shape
    codomain: Shape
    exprs: tuple[IndexExpr, ...]
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", check_shape(self.domain, "domain"))
        object.__setattr__(self, "codomain", check_shape(self.codomain, "codomain"))
        exprs = tuple(as_expr(expr) for expr in self.exprs)
        conditions = _check_conditions(self.conditions)
        if len(exprs) != len(self.codomain):
            raise ArgumentError(
                "IndexMap: one expression per codomain dimension is needed",
                got=f"{len(exprs)} expressions ({', '.join(map(str, exprs))}) for the "
                f"codomain {list(self.codomain)} of rank {len(self.codomain)}",
                fix="give as many expressions as the codomain has dimensions",
            )
        for expr in (*exprs, *(condition.expr for condition in conditions)):
            self._check_dims(expr)
        simple = tuple(simplify(expr, self.domain) for expr in exprs)
        object.__setattr__(self, "exprs", simple)
        object.__setattr__(self, "conditions", _normal_conditions(conditions, self.domain))

    def _check_dims(self, expr: IndexExpr) -> None:
        rank = len(self.domain)
        if expr.dims_mask >> rank:
            raise ArgumentError(
                f"IndexMap: dimension d{max(expr.used_dims())} is not one of the domain's",
                got=f"the expression {expr} and the domain {list(self.domain)} of rank {rank}",
                fix=f"use dimensions d0 to d{rank - 1}"
                if rank
                else "a map with a domain of rank 0 has constant expressions only",
            )

    @property
    def num_loads(self) -> int:
        """One more than the greatest number of an extra operand that is read; 0 for none."""
        return self.loads_mask().bit_length()

    def loads_mask(self) -> int:
        """A bit for each extra operand that is read."""
        mask = 0
        for expr in self.exprs:
            mask |= expr.loads_mask
        for condition in self.conditions:
            mask |= condition.expr.loads_mask
        return mask

    def used_dims(self) -> frozenset[int]:
        """The domain dimensions that an expression or a condition depends on."""
        parts = [expr.used_dims() for expr in self.exprs]
        parts += [condition.expr.used_dims() for condition in self.conditions]
        return frozenset().union(*parts)

    def as_affine(self) -> tuple[Shape, tuple[Shape, ...]] | None:
        """``(offset, matrix)`` when every expression is an affine sum of dimensions, else None.

        The index into codomain dimension ``j`` is ``offset[j] + Σ_k matrix[j][k] * d_k``.
        Conditions are not looked at.
        """
        rows = []
        for expr in self.exprs:
            row = affine_row(expr, len(self.domain))
            if row is None:
                return None
            rows.append(row)
        return tuple(expr.const for expr in self.exprs), tuple(rows)

    def address(self) -> IndexExpr:
        """The row-major position in the codomain that a point maps to."""
        return flatten(self.exprs, self.codomain)

    def __str__(self) -> str:
        exprs = ", ".join(map(str, self.exprs))
        conditions = " & ".join(map(str, self.conditions))
        body = f"({exprs} | {conditions})" if conditions else f"({exprs})"
        return f"{{{_shape_text(self.domain)} -> {_shape_text(self.codomain)}: {body}}}"


def check_shape(shape: Iterable[int], name: str) -> Shape:
    """The shape as a tuple of Python integers, none negative."""
    try:
        sizes = tuple(map(integer, shape))
    except TypeError:
        raise ShapeError(
            f"IndexMap: the {name} is not a shape", got=repr(shape), fix="give a tuple of integers"
        ) from None
    if any(n < 0 for n in sizes):
        raise ShapeError(
            f"IndexMap: the {name} has a negative size", got=repr(sizes), fix="sizes of 0 or more"
        )
    return sizes


def affine_row(expr: IndexExpr, rank: int) -> Shape | None:
    """The coefficient of each dimension, or None when the expression has another atom."""
    row = [0] * rank
    for atom, coef in expr.terms:
        if not isinstance(atom, Dim):
            return None
        row[atom.number] = coef
    return tuple(row)


def strides_of(shape: Shape) -> Shape:
    """How far apart neighbours along each dimension are in row-major order, in elements.

    Example:
      >>> strides_of((2, 3, 4))
      (12, 4, 1)
    """
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * shape[k + 1]
    return tuple(strides)


def flatten(exprs: Iterable[IndexExpr], shape: Shape) -> IndexExpr:
    """The row-major position of the point ``exprs`` in an array of the shape."""
    pairs = list(zip(exprs, strides_of(shape), strict=True))
    const = sum(expr.const * stride for expr, stride in pairs)
    return add_terms(
        const, [(atom, coef * stride) for expr, stride in pairs for atom, coef in expr.terms]
    )


def unflatten(position: IndexExpr, shape: Shape) -> tuple[IndexExpr, ...]:
    """The point of an array of the shape that is at a row-major position."""
    parts = [
        (position // stride, size) for stride, size in zip(strides_of(shape), shape, strict=True)
    ]
    return tuple(part % size if k else part for k, (part, size) in enumerate(parts))


def pad_parts(low: Shape, interior: Shape) -> tuple[tuple[IndexExpr, ...], tuple[Condition, ...]]:
    """The expressions and conditions of a padding."""
    places = [
        (Dim(k) - before, gap + 1)
        for k, (before, gap) in enumerate(zip(low, interior, strict=True))
    ]
    return (
        tuple(place // step for place, step in places),
        tuple((place % step).eq(0) for place, step in places),
    )


def size_of(shape: Shape) -> int:
    """The number of elements."""
    return math.prod(shape)


def _check_conditions(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    given = tuple(conditions)
    for condition in given:
        if not isinstance(condition, Condition):
            raise ArgumentError(
                "IndexMap: the conditions are a tuple of Condition",
                got=repr(condition),
                fix="compare expressions with < <= > >= or .eq() and .ne()",
            )
    return given


def _normal_conditions(conditions: tuple[Condition, ...], domain: Shape) -> tuple[Condition, ...]:
    """Simplified, sorted, without repeats; of ``e >= a`` and ``e >= b`` the narrower."""
    kept: dict[object, Condition] = {}
    for condition in conditions:
        simple = simplify_condition(condition, domain)
        if simple.as_bool() is False:
            return (simple,)
        if simple.as_bool() is True:
            continue
        key = (simple.expr - simple.expr.const) if simple.kind == ">=0" else simple
        other = kept.get(key)
        if other is None or simple.expr.const < other.expr.const:
            kept[key] = simple
    return tuple(sorted(kept.values(), key=Condition.sort_key))


def _shape_text(shape: Shape) -> str:
    return f"[{','.join(map(str, shape))}]"
