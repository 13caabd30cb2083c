"""From a fused group of equations to a kernel.

What enters: the group's program, whose equations satisfy the contract in
``backends/passes/groups.py``.  What leaves: a :class:`Kernel` without a schedule.

Every value is asked for at a *point*: a tuple of index expressions over the dims of the iteration
space (:class:`Lowering`).  An elementwise equation asks its operands at the same point, a reindex
at the point that its map gives, and an input of the group is loaded there.  So chains of reindexes
become one address, and what is read at two points is computed twice, by equal expressions once.

The iteration space is the shape of the group's results, or of its reductions' operands.  Where
an address divides an index by a constant (reshapes do), the dim is split in two so that the
division disappears (``_split_dims``).

Start at :func:`lower_group`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Kernel, Operand, Reduce, Stage, Store
from functrax.core.aval import ShapedArray
from functrax.core.index_bounds import bounds, simplify, simplify_condition
from functrax.core.index_expr import (
    Condition,
    Dim,
    FloorDiv,
    IndexExpr,
    Indicator,
    Mod,
    as_expr,
    linear,
)
from functrax.core.index_form import flatten
from functrax.core.index_map import IndexMap
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.lowering import Builder, Scalar
from functrax.core.prims.reduce import AxisReduce

Shape: TypeAlias = tuple[int, ...]
Point: TypeAlias = tuple[IndexExpr, ...]
_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)
_LIMIT = 2**31


class NotAKernelError(Exception):
    """A group that cannot be one kernel; its equations are run one by one."""


def lower_group(jaxpr: Jaxpr, name: str) -> Kernel:
    """The kernel of a group, without a schedule.

    Args:
      jaxpr: the group's program, without constants; no array in it has size 0.
      name: for people.

    Raises:
      NotAKernelError: the group does not fit the form of a kernel.
    """
    shape, axes = iteration_space(jaxpr)
    plain = Lowering(jaxpr, name, shape, axes, tuple((n,) for n in shape))
    kernel = plain.kernel()
    pieces = _split_dims(plain.divisors, shape)
    if pieces is None:
        return kernel
    return Lowering(jaxpr, name, shape, axes, pieces).kernel()


def iteration_space(jaxpr: Jaxpr) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape that a group's kernel runs over, and the axes that are reduced."""
    for eqn in jaxpr.eqns:
        axes = reduced_axes(eqn)
        if axes is not None:
            return eqn.invars[0].aval.shape, axes
        if eqn.primitive.name in ("reindex_reduce", "scatter"):
            return eqn.params["map"].domain, ()
    return jaxpr.outvars[0].aval.shape, ()


def reduced_axes(eqn: Eqn) -> tuple[int, ...] | None:
    """The axes that an equation reduces, or None if it reduces none."""
    if isinstance(eqn.primitive, AxisReduce):
        return tuple(sorted(eqn.params["axes"]))
    if eqn.primitive.name in ("argmax", "argmin"):
        return (eqn.params["axis"],)
    return None


def _split_dims(
    divisors: dict[int, set[int]], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], ...] | None:
    """Sizes of the dims that each dimension is split into, or None if none should be.

    Dim ``d`` of size ``n`` divided by ``a`` and by ``b``, where ``a | b | n``, becomes dims of
    sizes ``n/b, b/a, a``.
    """
    pieces = []
    for d, size in enumerate(shape):
        bounds_ = [1]
        for divisor in sorted(divisors.get(d, ())):
            if divisor % bounds_[-1] == 0 and size % divisor == 0 and 1 < divisor < size:
                bounds_.append(divisor)
        bounds_.append(size)
        steps = [b // a for a, b in itertools.pairwise(bounds_)]
        pieces.append(tuple(reversed(steps)))
    return tuple(pieces) if any(len(p) > 1 for p in pieces) else None


class Lowering:
    """Builds the expressions of one group.

    Args:
      jaxpr: the group's program.
      name: for people.
      shape: of the iteration space.
      axes: of it that are reduced.
      pieces: for each axis the sizes of the dims that it is made of, outermost first.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        name: str,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        pieces: tuple[tuple[int, ...], ...],
    ) -> None:
        self.jaxpr, self.name = jaxpr, name
        self.builder = Builder()
        self.extents = tuple(size for sizes in pieces for size in sizes)
        self.point, dims_of = _points(pieces)
        self.full_shape = shape
        kept = [d for d in range(len(shape)) if d not in axes]
        self.row_point = tuple(self.point[d] for d in kept)
        self.row_shape = tuple(shape[d] for d in kept)
        self.outer = tuple(k for d in kept for k in dims_of[d])
        self.inner = tuple(k for d in axes for k in dims_of[d])
        self.defs: dict[Var, Eqn] = {v: e for e in jaxpr.eqns for v in e.outvars}
        self.inputs = {v: k for k, v in enumerate(jaxpr.invars)}
        self.values: dict[Any, tuple[Scalar, ...]] = {}
        self.reductions: dict[int, Reduce] = {}
        self.stage_of: dict[int, int] = {}  # id of a node -> the first stage that can compute it
        self.dynamic: dict[Scalar, int] = {}
        self.reduced: dict[Eqn, Scalar] = {}
        #: For each axis of the iteration space (of dims not split), what it was divided by.
        self.divisors: dict[int, set[int]] = {}

    # ---- the kernel ---------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """Lower all results, and sort reductions and stores into stages."""
        operands = [Operand(v.aval.dtype, v.aval.size, False) for v in self.jaxpr.invars]
        stores: list[tuple[Store, bool]] = []
        for out in self.jaxpr.outvars:
            buffer = len(operands)
            operands.append(Operand(out.aval.dtype, out.aval.size, True))
            stores.append(self._store(out, buffer))
        stages = [Stage() for _ in range(self._num_stages(stores))]
        for reduction in self.reductions.values():
            stages[self._reduction_stage(reduction)].reductions.append(reduction)
        rows = []
        for store, in_full in stores:
            if in_full and self.inner:
                roots = [x for x in (store.value, store.offset, store.guard) if x is not None]
                stages[max(map(self._stage, roots))].stores.append(store)
            else:
                rows.append(store)
        return Kernel(
            self.name, self.builder, operands, self.extents, self.outer, self.inner, stages, rows
        )

    def _num_stages(self, stores: list[tuple[Store, bool]]) -> int:
        numbers = [self._reduction_stage(r) for r in self.reductions.values()]
        if self.inner:
            numbers += [self._stage(s.value) for s, in_full in stores if in_full]
        return max(numbers, default=-1) + 1

    def _store(self, out: Atom, buffer: int) -> tuple[Store, bool]:
        """The store of a result, and whether it is one of the whole space (else of rows)."""
        eqn = self.defs.get(out) if isinstance(out, Var) else None
        if eqn is not None and eqn.primitive.name in ("reindex_reduce", "scatter"):
            return self._update(eqn, buffer), True
        shape = out.aval.shape
        in_full = True
        point = _point_of(shape, self.full_shape, self.point)
        if point is None:
            in_full = False
            point = _point_of(shape, self.row_shape, self.row_point)
        if point is None:
            raise NotAKernelError(f"a result of shape {shape} in a space of {self.full_shape}")
        value = self._value(out, point, None)[0]
        return Store(buffer, flatten(point, shape), value), in_full

    def _update(self, eqn: Eqn, buffer: int) -> Store:
        """The store of a scatter or reindex_reduce."""
        index_map: IndexMap = eqn.params["map"]
        first = 1 if eqn.primitive.name == "scatter" else 0
        loads = eqn.invars[first + 1 :]
        exprs, guard = self._image(index_map, self.point, loads, None)
        value = self._value(eqn.invars[first], self.point, guard)[0]
        place, offset = self._address(exprs, eqn.outvars[0].aval)
        free = frozenset(range(len(self.extents)))
        if not eqn.params.get("unique") and not index_map.injective():
            free = self._independent(exprs)
        how = eqn.primitive.reduction(eqn.invars[first].aval, **eqn.params)  # type: ignore[attr-defined]
        combine = None if eqn.params["op"] == "set" else how
        return Store(buffer, place, value, offset, guard, combine, free)

    def _independent(self, exprs: Point) -> frozenset[int]:
        """Dims along which the image moves on by itself, so that no two points meet."""
        alone = {}
        for expr in exprs:
            if isinstance(expr, Dim) and expr.number < len(self.extents):
                alone[expr.number] = expr
        return frozenset(alone)

    def _reduction_stage(self, reduction: Reduce) -> int:
        return max(self._stage(v) for v in reduction.values)

    def _stage(self, root: Scalar) -> int:
        """The first stage in which a node can be computed."""
        known = self.stage_of
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in known:
                stack.pop()
                continue
            if node.op == "result":
                reduction = self.reductions[node.attr[0]]
                missing = [v for v in reduction.values if id(v) not in known]
                if not missing:
                    known[id(node)] = 1 + max(known[id(v)] for v in reduction.values)
            else:
                missing = [x for x in node.args if id(x) not in known]
                if not missing:
                    known[id(node)] = max((known[id(x)] for x in node.args), default=0)
            stack.extend(missing)
        return known[id(root)]

    # ---- values at points ---------------------------------------------------------------------

    def _value(self, x: Atom, point: Point, guard: Scalar | None) -> tuple[Scalar, ...]:
        """The results of the equation that defines ``x`` (or ``x`` alone) at a point.

        Iterative, for groups may be deep: what an equation needs is computed before it.
        """
        key = (x, point, guard)
        stack = [key]
        while stack:
            top = stack[-1]
            if top in self.values:
                stack.pop()
                continue
            needed = self._needs(*top)
            missing = [k for k in needed if k not in self.values]
            if missing:
                stack.extend(missing)
                continue
            self.values[top] = self._compute(*top)
            stack.pop()
        found = self.values[key]
        return found if len(found) == 1 else (found[self._position(x)],)

    def _position(self, x: Atom) -> int:
        assert isinstance(x, Var)
        return self.defs[x].outvars.index(x)

    def _one(self, x: Atom, point: Point, guard: Scalar | None) -> Scalar:
        """A value that was computed before."""
        found = self.values[x, point, guard]
        return found[0] if len(found) == 1 else found[self._position(x)]

    def _needs(self, x: Atom, point: Point, guard: Scalar | None) -> list[Any]:
        if isinstance(x, Literal) or x in self.inputs:
            return []
        eqn = self.defs[x]
        family = eqn.primitive.family
        if family == "elementwise":
            return [(y, point, guard) for y in eqn.invars]
        if reduced_axes(eqn) is not None:
            return [(eqn.invars[0], self.point, None)]
        if eqn.primitive.name == "concatenate":
            return [(y, p, g) for y, p, g, _ in self._parts(eqn, point, guard)]
        if eqn.primitive.name == "iota":
            return []
        if family == "reindex":
            source, inner, _ = self._reindexed(eqn, point, guard)
            return [(eqn.invars[0], source, inner)]
        raise NotAKernelError(f"{eqn.primitive.name} inside a kernel")

    def _compute(self, x: Atom, point: Point, guard: Scalar | None) -> tuple[Scalar, ...]:
        b = self.builder
        if isinstance(x, Literal):
            return (b.const(x.val, x.aval.dtype),)
        if x in self.inputs:
            return (self._load(x, point, guard),)
        eqn = self.defs[x]
        if eqn.primitive.family == "elementwise":
            args = [self._one(y, point, guard) for y in eqn.invars]
            out = eqn.primitive.lower(b, *args, **eqn.params)
            return tuple(out) if eqn.primitive.multiple_results else (out,)
        if reduced_axes(eqn) is not None:
            return (self._reduction_result(eqn, point),)
        if eqn.primitive.name == "concatenate":
            return (self._concatenated(eqn, point, guard),)
        if eqn.primitive.name == "iota":
            expr = point[eqn.params["axis"]]
            return (b.convert(self._index(expr), x.aval.dtype),)
        source, inner, inside = self._reindexed(eqn, point, guard)
        value = self._one(eqn.invars[0], source, inner)
        if inside is None:
            return (value,)
        fill = eqn.params["fill"]
        return (b.select(inside, value, b.const(fill.val, fill.aval.dtype)),)

    def _load(self, x: Var, point: Point, guard: Scalar | None) -> Scalar:
        address, offset = self._address(point, x.aval)
        args = tuple(a for a in (offset, guard) if a is not None)
        attr = (self.inputs[x], address, offset is not None, guard is not None)
        return self.builder.node("load", x.aval.dtype, args, attr)

    def _address(self, point: Point, aval: ShapedArray) -> tuple[IndexExpr, Scalar | None]:
        return self._affine_part(self._simplify(flatten(point, aval.shape)), aval.size)

    def _reduction_result(self, eqn: Eqn, point: Point) -> Scalar:
        """The value of a reduction in the row of this point."""
        if point != self.row_point:
            raise NotAKernelError("a reduction is used at another row than its own")
        if eqn in self.reduced:
            return self.reduced[eqn]
        b = self.builder
        value = self._one(eqn.invars[0], self.point, None)
        how = eqn.primitive.reduction(eqn.invars[0].aval, **eqn.params)  # type: ignore[attr-defined]
        place = b.const(0, how.place)
        if eqn.primitive.name in ("argmax", "argmin"):
            place = self._integer(self.point[eqn.params["axis"]], how.place)
        values = how.start(b, value, place)
        number = len(self.reductions)
        accs = tuple(b.node("acc", v.dtype, (), (number, k)) for k, v in enumerate(values))
        results = tuple(b.node("result", v.dtype, (), (number, k)) for k, v in enumerate(values))
        self.reductions[number] = Reduce(how, values, accs, results)
        result: Scalar = how.finish(b, results)
        self.reduced[eqn] = result
        return result

    def _parts(
        self, eqn: Eqn, point: Point, guard: Scalar | None
    ) -> list[tuple[Atom, Point, Scalar | None, Scalar | None]]:
        """For each operand of a concatenation where it is read, the guard there, and whether the
        element is before its end.
        """
        axis, position, out = eqn.params["axis"], point[eqn.params["axis"]], []
        begin = 0
        for x in eqn.invars:
            end = begin + x.aval.shape[axis]
            inside = self._and(self._and(guard, position >= begin), position < end)
            before = self._and(None, position < end)
            at = (*point[:axis], self._simplify(position - begin), *point[axis + 1 :])
            out.append((x, at, inside, before))
            begin = end
        return out

    def _concatenated(self, eqn: Eqn, point: Point, guard: Scalar | None) -> Scalar:
        parts = self._parts(eqn, point, guard)
        x, at, inside, _ = parts[-1]
        value = self._one(x, at, inside)
        for x, at, inside, before in reversed(parts[:-1]):
            part = self._one(x, at, inside)
            value = part if before is None else self.builder.select(before, part, value)
        return value

    # ---- reindexes ----------------------------------------------------------------------------

    def _reindexed(
        self, eqn: Eqn, point: Point, guard: Scalar | None
    ) -> tuple[Point, Scalar | None, Scalar | None]:
        """Where a reindex reads: the point, the guard there, and whether it is inside."""
        avals = [v.aval for v in eqn.invars]
        index_map = eqn.primitive.index_map(*avals, **eqn.params)  # type: ignore[attr-defined]
        if "fill" not in eqn.params:  # a map that is inside everywhere
            dims = dict(enumerate(point))
            return tuple(self._simplify(e.substitute(dims)) for e in index_map.exprs), guard, None
        exprs, inside = self._image(index_map, point, eqn.invars[1:], guard)
        return exprs, inside, None if inside is guard else inside

    def _image(
        self, index_map: IndexMap, point: Point, loads: Sequence[Atom], guard: Scalar | None
    ) -> tuple[Point, Scalar | None]:
        """The point that a map gives, and the guard inside which it is valid (as it was if equal).

        What the map reads from index arrays becomes a dim beyond those of the iteration space
        (:meth:`_dynamic_dim`).
        """
        dims = dict(enumerate(point))
        inside = guard

        def load(operand: int, indices: Point) -> IndexExpr:
            nonlocal inside
            array = loads[operand]
            for expr, size in zip(indices, array.aval.shape, strict=True):
                inside = self._and(self._and(inside, expr >= 0), expr < size)
            where = tuple(map(self._simplify, indices))
            return self._dynamic_dim(self._value(array, where, inside)[0])

        exprs = tuple(self._simplify(e.substitute(dims, load)) for e in index_map.exprs)
        for condition in index_map.conditions:
            inside = self._and(inside, condition.substitute(dims, load))
        for expr, size in zip(exprs, index_map.codomain, strict=True):
            inside = self._and(self._and(inside, expr >= 0), expr < size)
        return exprs, inside

    def _dynamic_dim(self, value: Scalar) -> IndexExpr:
        """A dim that stands for a scalar: an index read from an array."""
        return Dim(len(self.extents) + self.dynamic.setdefault(value, len(self.dynamic)))

    def _is_dynamic(self, expr: IndexExpr) -> bool:
        return bool(expr.dims_mask >> len(self.extents))

    def _simplify(self, expr: IndexExpr) -> IndexExpr:
        return expr if self._is_dynamic(expr) else simplify(expr, self.extents)

    def _and(self, guard: Scalar | None, condition: Condition) -> Scalar | None:
        """A guard and a condition, of which only what is not proven remains."""
        if not self._is_dynamic(condition.expr):
            condition = simplify_condition(condition, self.extents)
            if condition.as_bool():
                return guard
        b = self.builder
        value = self._index(condition.expr)
        kind = {"==0": "eq", "!=0": "ne", ">=0": "ge"}[condition.kind]
        holds = b.compare(kind, value, b.const(0, value.dtype))
        return holds if guard is None else b.both(guard, holds)

    # ---- integers -----------------------------------------------------------------------------

    def _index(self, expr: IndexExpr) -> Scalar:
        """An index expression as a scalar, of int32 where all its parts fit."""
        return self._integer(expr, _INT32 if self._fits(expr) else _INT64)

    def _fits(self, expr: IndexExpr) -> bool:
        """Whether 32 bits are enough for an expression and its parts."""
        if self._is_dynamic(expr):
            return self._fits_dynamic(expr)
        interval = bounds(expr, self.extents)
        if interval is None or not -_LIMIT <= interval[0] <= interval[1] < _LIMIT:
            return False
        return all(self._fits(part) for atom, _ in expr.terms for part in _parts_of(atom))

    def _fits_dynamic(self, expr: IndexExpr) -> bool:
        """Whether a comparison with 0 is right in 32 bits: ``+-e + c`` of a 32-bit ``e``.

        ``size - 1 - e`` wraps for a very negative ``e`` only, which ``e >= 0`` refuses.
        """
        if len(expr.terms) != 1:
            return False
        ((atom, coef),) = expr.terms
        if not isinstance(atom, Dim) or abs(coef) != 1:
            return False
        value = self._dynamic_value(atom)
        small = value.dtype.kind in "iu" and np.can_cast(value.dtype, _INT32)
        return small and (expr.const == 0 if coef > 0 else 0 <= expr.const < _LIMIT)

    def _dynamic_value(self, dim: Dim) -> Scalar:
        return list(self.dynamic)[dim.number - len(self.extents)]

    def _integer(self, expr: IndexExpr, dtype: np.dtype[Any]) -> Scalar:
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
        if abs(value) <= 8:
            return self.builder.const(value, dtype)
        return self.builder.node("int", dtype, (), value)

    def _atom(self, atom: IndexExpr, dtype: np.dtype[Any]) -> Scalar:
        b = self.builder
        if isinstance(atom, Dim):
            if atom.number >= len(self.extents):
                return b.convert(self._dynamic_value(atom), dtype)
            return b.node("dim", dtype, (), atom.number)
        if isinstance(atom, Indicator):
            holds = self._and(None, atom.condition)
            return b.const(1, dtype) if holds is None else b.convert(holds, dtype)
        assert isinstance(atom, FloorDiv | Mod), "loads have been replaced"
        self._note_divisor(atom)
        x, divisor = self._integer(atom.expr, dtype), b.const(atom.divisor, dtype)
        interval = None if self._is_dynamic(atom.expr) else bounds(atom.expr, self.extents)
        if interval is not None and interval[0] >= 0:
            unsigned = np.dtype(np.uint32 if dtype == _INT32 else np.uint64)
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

    def _affine_part(self, address: IndexExpr, size: int) -> tuple[IndexExpr, Scalar | None]:
        """An address as a part affine in the dims, and the rest.

        The rest is computed in 32 bits where the array is small enough, for what is read or
        written is inside the array.
        """
        known: dict[Any, int] = {}
        rest: dict[Any, int] = {}
        for atom, coef in address.terms:
            affine = isinstance(atom, Dim) and atom.number < len(self.extents)
            (known if affine else rest)[atom] = coef
        if not rest:
            return address, None
        dtype = _INT32 if size < _LIMIT else _INT64
        return linear(address.const, known), self._integer(linear(0, rest), dtype)


def _point_of(shape: Shape, space: Shape, point: Point) -> Point | None:
    """The point of an array that differs from a space in dimensions of size 1 only."""
    sizes = [(n, expr) for n, expr in zip(space, point, strict=True) if n != 1]
    if [n for n, _ in sizes] != [n for n in shape if n != 1]:
        return None
    exprs = iter(expr for _, expr in sizes)
    return tuple(as_expr(0) if n == 1 else next(exprs) for n in shape)


def _parts_of(atom: IndexExpr) -> tuple[IndexExpr, ...]:
    if isinstance(atom, FloorDiv | Mod):
        return (atom.expr,)
    return (atom.condition.expr,) if isinstance(atom, Indicator) else ()


def _points(
    pieces: tuple[tuple[int, ...], ...],
) -> tuple[Point, tuple[tuple[int, ...], ...]]:
    """For each axis its index in terms of the dims that it is made of, and their numbers."""
    point, dims_of, number = [], [], 0
    for sizes in pieces:
        expr = as_expr(0)
        numbers = tuple(range(number, number + len(sizes)))
        for k, size in zip(numbers, sizes, strict=True):
            expr = expr * size + (Dim(k) if size > 1 else 0)
        point.append(expr)
        dims_of.append(numbers)
        number += len(sizes)
    return tuple(point), tuple(dims_of)
