"""The values of a program at single points, as scalar expressions.

A *point* is a tuple of index expressions, one for each axis of a value.  An elementwise equation
asks its operands at the same point, a reindex at the point that its map gives; so chains of
reindexes become one address, and what is read at two points is computed twice, by equal expressions
once.  A *guard* is a bool outside which the value does not matter, so that nothing must be read.

What an input is at a point, and what a reduction is, the caller says (:class:`Source`): they differ
between the kernels of groups (``kernels/lowering.py``) and of loops
(``kernels/interchanged_loops.py``).

Start at :class:`Values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.refusal import refuse
from functrax.backends.targets import target
from functrax.core.index.expr import IndexExpr, indicator
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Atom, Eqn, Literal, Var
from functrax.core.prims.mapped import Update
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindex, iota, map_of
from functrax.core.prims.slicing import concatenate
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.tracing.primitive import Elementwise
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.size_bounds import emitted, whole
from functrax.core.types.symbolic_sizes import applied, asked, is_symbolic_dim

Shape: TypeAlias = tuple[int, ...]
Point: TypeAlias = tuple[IndexExpr, ...]
#: The most values in one kernel: views of views of both halves of an array can have exponentially
#: many, and machine code takes as long to make as there are.
MOST_VALUES = 4096
#: The most parts that indices of views of views have: where the parts of different reshapes do not
#: divide one another, each view makes them longer by a factor.
MAX_INDICES = 64
_SIZE: Final = attrgetter("size")
_Key: TypeAlias = "tuple[Atom, Point, Scalar | None]"
#: What a value is made of, and what makes it: a value for each result of its equation.
_Step: TypeAlias = "tuple[Sequence[_Key], Callable[[list[Scalar]], tuple[Scalar, ...]]]"
#: An operand of a concatenation, where it is read, and where it begins and ends.
_Piece: TypeAlias = "tuple[Atom, Point, int, int]"


class Source(Protocol):
    """Where values come from that no elementwise equation or reindex makes."""

    def read(self, x: Var, point: Point, guard: Scalar | None) -> Scalar:
        """An input of the program."""

    def reduced_points(self, eqn: Eqn, point: Point) -> list[Point]:
        """Where the operand of a reduction is needed for its result at a point."""

    def reduced(self, eqn: Eqn, point: Point, operands: list[Scalar]) -> Scalar:
        """The result of a reduction, from its operand at those points."""


def reduced_axes(eqn: Eqn) -> tuple[int, ...] | None:
    """The axes that an equation reduces, or None if it reduces none."""
    if not isinstance(eqn.primitive, ReindexReduce) or is_update(eqn):
        return None
    axes = eqn.params.get("axes")
    return (eqn.params["axis"],) if axes is None else tuple(sorted(axes))


def is_update(eqn: Eqn) -> bool:
    """Whether an equation scatters: what it writes where depends on values or on a map."""
    return isinstance(eqn.primitive, Update)


def elements_of(eqn: Eqn) -> int:
    """Which operand of an equation has the elements that it writes; the first, but in a scatter."""
    return eqn.primitive.elements if isinstance(eqn.primitive, Update) else 0


#: Numbers that are written into machine code; others are given to it when it runs, for many
#: follow from sizes (the divisor of a mean), or change from one program to the next.
_WRITTEN = frozenset({0.0, 0.5, 1.0, 2.0, math.inf})
_GIVEN = frozenset({dtypes.float32, dtypes.float64})


def number(b: Builder, x: Literal) -> Scalar:
    """A number of a program."""
    dtype, value = x.aval.dtype, x.val
    if dtypes.is_complex(dtype):
        kind = ShapedArray((), dtypes.real_dtype(dtype))
        parts = [Literal(applied(part, value), kind) for part in (np.real, np.imag)]
        return b.complex(number(b, parts[0]), number(b, parts[1]))
    if is_symbolic_dim(value) and dtype.kind in "iu":
        return b.node("int", dtype, (), applied(whole, value))
    if dtype not in _GIVEN or asked(_is_written, value):
        return b.const(value, dtype)
    return b.node("given", dtype, (), applied(bits_of, value))


def _is_written(value: Any) -> bool:
    return abs(float(value)) in _WRITTEN or math.isnan(value)


@emitted
def bits_of(value: Any) -> int:
    """The bits of a float, as an integer."""
    return int(value.view(f"i{value.dtype.itemsize}"))


class Values:
    """Evaluates one program at points.

    Args:
      builder: makes the expressions.
      indices: makes those of integers.
      defs: the equation that defines each value; what has none is an input.
      source: where inputs and reductions come from.
      chooses: whether the row of an array is chosen that is read, where it does, rather than one
        of several values: see :meth:`_chosen_row`.
    """

    def __init__(
        self,
        builder: Builder,
        indices: Indices,
        defs: Mapping[Var, Eqn],
        source: Source,
        chooses: bool = False,
    ) -> None:
        self.builder = builder
        self.indices = indices
        self.defs = defs
        self.source = source
        self.chooses = chooses
        self._known: dict[_Key, tuple[Scalar, ...]] = {}
        self._composed: dict[tuple[Point, Point], Point] = {}

    def at(self, x: Atom, point: Point, guard: Scalar | None = None) -> Scalar:
        """A value at a point.

        Refused if it depends on an equation that has no scalar expression, or on too many values.
        """
        known = self._known
        steps: dict[_Key, _Step] = {}
        stack: list[_Key] = [(x, point, guard)]  # iterative, for programs may be deep
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            if top not in steps:
                steps[top] = self._step(*top)
            needs, compute = steps[top]
            missing = [k for k in needs if k not in known]
            if len(known) + len(stack) > MOST_VALUES:
                refuse("views of views, so many that each element is computed often")
            if missing:
                stack.extend(missing)
                continue
            known[top] = compute([self._one(*k) for k in needs])
            stack.pop()
        return self._one(x, point, guard)

    def _one(self, x: Atom, point: Point, guard: Scalar | None) -> Scalar:
        """A value that was computed before."""
        found = self._known[x, point, guard]
        if len(found) == 1:
            return found[0]
        assert isinstance(x, Var)
        return found[self.defs[x].outvars.index(x)]

    def _step(self, x: Atom, point: Point, guard: Scalar | None) -> _Step:
        """Which values a value is made of, and how."""
        b = self.builder
        if isinstance(x, Literal):
            return _known(number(b, x))
        if x not in self.defs:
            return _known(self.source.read(x, point, guard))
        eqn = self.defs[x]
        if isinstance(eqn.primitive, Elementwise):
            return [(y, point, guard) for y in eqn.invars], partial(_elementwise, b, eqn)
        if reduced_axes(eqn) is not None:
            points = self.source.reduced_points(eqn, point)
            needs: list[_Key] = [(eqn.invars[0], p, None) for p in points]
            return needs, lambda values: (self.source.reduced(eqn, point, values),)
        if eqn.primitive is concatenate:
            return self._concatenated(eqn, point, guard)
        if eqn.primitive is iota:
            return _known(b.convert(self.indices.scalar(point[eqn.params["axis"]]), x.aval.dtype))
        if isinstance(eqn.primitive, Reindex):
            source, inner, inside = self._reindexed(eqn, point, guard)
            if inside is None:
                return [(eqn.invars[0], source, inner)], tuple
            fill = eqn.params["fill"]
            other = b.const(fill.val, fill.aval.dtype)
            return [(eqn.invars[0], source, inner)], lambda v: (b.select(inside, v[0], other),)
        refuse(f"{eqn.primitive.name} inside a kernel")

    def _concatenated(self, eqn: Eqn, point: Point, guard: Scalar | None) -> _Step:
        """Each operand where it is read, with a guard that it is there; the first that has it.

        Operands that are nowhere at these points are left out.
        """
        axis, begin = eqn.params["axis"], 0
        position = point[axis]
        pieces: list[_Piece] = []
        for x in eqn.invars:
            end = begin + x.aval.shape[axis]
            if self.indices.may_meet(position, begin, end):
                at = (*point[:axis], self.indices.simplify(position - begin), *point[axis + 1 :])
                pieces.append((x, at, begin, end))
            begin = end
        if not pieces:  # outside of it, where the value does not matter
            return _known(self.builder.const(0, eqn.outvars[0].aval.dtype))
        row = self._chosen_row(pieces, position) if self.chooses else None
        if row is not None:
            return [(*row, guard)], tuple
        needs: list[_Key] = []
        ends: list[Scalar | None] = []
        for x, at, begin, end in pieces:
            inside = self.indices.both(self.indices.both(guard, position >= begin), position < end)
            ends.append(self.indices.both(None, position < end))
            needs.append((x, at, inside))

        def chosen(parts: list[Scalar]) -> tuple[Scalar, ...]:
            value = parts[-1]
            for part, before in zip(parts[-2::-1], ends[-2::-1]):
                value = part if before is None else self.builder.select(before, part, value)
            return (value,)

        return needs, chosen

    def _chosen_row(
        self, pieces: Sequence[_Piece], position: IndexExpr
    ) -> tuple[Atom, Point] | None:
        """What all operands of a concatenation are views of, and where that is read.

        A row that is rolled is read as a row: at which index it begins is chosen once for all of
        it.  None if they are views of several arrays, or neighbours would be no neighbours.
        """
        roots = [self._seen_through(x, at) for x, at, _, _ in pieces]
        x, first = roots[0]
        if any(y is not x for y, _ in roots):
            return None
        if len(roots) == 1:
            return x, first
        if len(self.indices.extents) - 1 in position.used_dims():
            return None
        longest = max(range(len(pieces)), key=lambda k: pieces[k][3] - pieces[k][2])
        where, itemsize = [], x.aval.dtype.itemsize
        for d, pattern in enumerate(roots[longest][1]):
            steps = []
            for (_, at), (_, _, begin, end) in zip(roots, pieces):
                step = at[d] - pattern
                if step.terms and end - begin == 1:  # one row is also one of rows in either order
                    step = min(step + (position - begin), step - (position - begin), key=_SIZE)
                if step.terms:
                    return None
                steps.append(step.const)
            if any(steps) and math.prod(x.aval.shape[d + 1 :]) * itemsize < target().vector_bytes:
                return None  # so short a row is none to be read by itself
            index = pattern + steps[0]
            for before, after, (_, _, begin, _) in zip(steps, steps[1:], pieces[1:]):
                if after != before:
                    index += (after - before) * indicator(position >= begin)
            if index.size > MAX_INDICES:  # as rolls of rolls along one axis have them
                return None
            where.append(index)
        return x, tuple(where)

    def _seen_through(self, x: Atom, point: Point) -> tuple[Atom, Point]:
        """The array that views show at a point, and where; views that are inside everywhere."""
        while isinstance(x, Var) and x in self.defs:
            eqn = self.defs[x]
            if not isinstance(eqn.primitive, Reindex) or not self._is_total(eqn):
                break
            x, point = eqn.invars[0], self._composition(map_of(eqn), point)
        return x, point

    def _is_total(self, eqn: Eqn) -> bool:
        """Whether a reindex needs no fill value: it can have none, or its map is inside."""
        if "fill" not in eqn.params:
            return True
        return self.chooses and len(eqn.invars) == 1 and map_of(eqn).total()

    def moved(self, eqn: Eqn, point: Point) -> Point:
        """Where a reindex that is inside everywhere reads its operand; refused if it is not."""
        if not isinstance(eqn.primitive, Reindex):
            refuse(f"{eqn.primitive.name} moves nothing")
        source, _, inside = self._reindexed(eqn, point, None)
        if inside is not None:
            refuse("a reindex that is outside somewhere")
        return source

    def _reindexed(
        self, eqn: Eqn, point: Point, guard: Scalar | None
    ) -> tuple[Point, Scalar | None, Scalar | None]:
        """Where a reindex reads: the point, the guard there, and whether it is inside."""
        index_map = map_of(eqn)
        if self._is_total(eqn):
            return self._composition(index_map, point), guard, None
        exprs, inside = self.image(index_map, point, eqn.invars[1:], guard)
        return exprs, inside, None if inside is guard else inside

    def _composition(self, index_map: IndexMap, point: Point) -> Point:
        """A map of a point; the maps of repeated steps are equal, and composed once."""
        key = (index_map.exprs, point)
        found = self._composed.get(key)
        if found is None:
            dims = dict(enumerate(point))
            found = tuple(self.indices.simplify(e.substitute(dims)) for e in index_map.exprs)
            _check_length(found, index_map)
            self._composed[key] = found
        return found

    def image(
        self, index_map: IndexMap, point: Point, loads: Sequence[Atom], guard: Scalar | None
    ) -> tuple[Point, Scalar | None]:
        """The point that a map gives, and the guard inside which it is valid (as it was if equal).

        What the map reads from index arrays becomes a dim beyond those of the iteration space
        (:meth:`Indices.dynamic`).
        """
        dims = dict(enumerate(point))
        inside = guard

        def load(operand: int, indices: Point) -> IndexExpr:
            nonlocal inside
            array = loads[operand]
            for expr, size in zip(indices, array.aval.shape, strict=True):
                inside = self.indices.within(inside, expr, size)
            where = tuple(map(self.indices.simplify, indices))
            return self.indices.dynamic(self.at(array, where, inside))

        exprs = tuple(self.indices.simplify(e.substitute(dims, load)) for e in index_map.exprs)
        _check_length(exprs, index_map)
        for condition in index_map.conditions:
            holds = condition.substitute(dims, load)  # which adds to what is inside
            inside = self.indices.both(inside, holds)
        for expr, size in zip(exprs, index_map.codomain, strict=True):
            inside = self.indices.within(inside, expr, size)
        return exprs, inside


def _known(value: Scalar) -> _Step:
    return (), lambda _: (value,)


def _elementwise(b: Builder, eqn: Eqn, args: list[Scalar]) -> tuple[Scalar, ...]:
    out = eqn.primitive.lower(b, *args, **eqn.params)
    return tuple(out) if eqn.primitive.multiple_results else (out,)


def _check_length(exprs: Point, index_map: IndexMap) -> None:
    """Refuse indices that views of views have made much longer than those of one view."""
    length = sum([expr.size for expr in exprs])
    if length > MAX_INDICES and length > 2 * sum([expr.size for expr in index_map.exprs]):
        refuse("views of views, so many that indices are long")
