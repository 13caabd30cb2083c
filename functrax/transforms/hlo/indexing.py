"""Index maps as gathers and scatters, with their index arithmetic as instructions.

The axes of the iteration space are of two kinds.  A *window* axis is a whole axis of the array,
read or written from its first element to its last.  The others make the *grid*, for whose points
indices are computed.

Start at :func:`gather` and :func:`scatter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from functrax.core.index.bounds import bounds
from functrax.core.index.expr import (
    Atom,
    Condition,
    Dim,
    Division,
    FloorDiv,
    IndexExpr,
    Indicator,
    Load,
    as_expr,
)
from functrax.core.index.map import IndexMap
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.computation import Computation, Node

_COMPARED: Final = {"==0": "EQ", "!=0": "NE", ">=0": "GE"}


def window_axes(index_map: IndexMap) -> dict[int, int]:
    """Whole axes of the array, and the axes of the iteration space that go along them."""
    uses: dict[int, int] = {}
    for expr in (*index_map.exprs, *(c.expr for c in index_map.conditions)):
        for d in expr.used_dims():
            uses[d] = uses.get(d, 0) + 1
    sizes = zip(index_map.exprs, index_map.codomain, strict=True)
    return {
        j: expr.number
        for j, (expr, size) in enumerate(sizes)
        if isinstance(expr, Dim)
        and uses[expr.number] == 1
        and index_map.domain[expr.number] == size
    }


class _Grid:
    """Values of index expressions at the points of a grid, and which points are valid."""

    def __init__(
        self, w: Computation, index_map: IndexMap, dims: Sequence[int], loads: Sequence[Node]
    ) -> None:
        self._w = w
        self._domain = index_map.domain
        self._place = {d: k for k, d in enumerate(dims)}
        self.shape = tuple(index_map.domain[d] for d in dims)
        self._loads = loads
        wide = any(x.dtype.itemsize > 4 or x.dtype == dtypes.uint32 for x in loads)
        big = max((*index_map.domain, *index_map.codomain), default=0) >= 2**31
        self.dtype = dtypes.int64 if wide or big else dtypes.int32
        self._values: dict[Atom, Node] = {}
        self._valid: Node | None = None

    def number(self, value: int) -> Node:
        return self._w.full(self.shape, value, self.dtype)

    def value(self, expr: IndexExpr) -> Node:
        total: Node | None = self.number(expr.const) if expr.const or not expr.terms else None
        for atom, coef in expr.terms:
            term = self._values.get(atom)
            if term is None:
                term = self._values[atom] = self._atom(atom)
            if coef != 1:
                term = self._w.elementwise("multiply", term, self.number(coef))
            total = term if total is None else self._w.elementwise("add", term, total)
        assert total is not None
        return total

    def _atom(self, atom: Atom) -> Node:
        w = self._w
        if isinstance(atom, Dim):
            return w.iota(self.shape, self._place[atom.number], self.dtype)
        if isinstance(atom, Division):
            return self._divided(atom)
        if isinstance(atom, Load):
            return self._load(atom)
        assert isinstance(atom, Indicator)
        return w.convert(self._holds(atom.condition), self.dtype)

    def _divided(self, atom: Division) -> Node:
        """Rounded down, where XLA rounds towards 0."""
        w, x, divisor = self._w, self.value(atom.expr), self.number(atom.divisor)
        interval = bounds(atom.expr, self._domain)
        quotient, rest = w.elementwise("divide", x, divisor), w.elementwise("remainder", x, divisor)
        if interval is None or interval[0] < 0:
            below = w.compare("LT", rest, self.number(0))
            quotient = w.elementwise("subtract", quotient, w.convert(below, self.dtype))
            rest = w.select(below, w.elementwise("add", rest, divisor), rest)
        return quotient if isinstance(atom, FloorDiv) else rest

    def _load(self, atom: Load) -> Node:
        """An index array's elements; out of its bounds the nearest ones, at points not valid."""
        w, array = self._w, self._loads[atom.operand]
        for expr, size in zip(atom.indices, array.shape, strict=True):
            self._require_range(expr, size)
        if 0 in array.shape:
            return self.number(0)
        order = sorted(self._place, key=self._place.__getitem__)
        seen = IndexMap(self._domain, array.shape, atom.indices).substitute(
            self.shape, {d: Dim(k) for k, d in enumerate(order)}
        )
        if seen.is_identity:
            return w.convert(array, self.dtype)
        return w.convert(_read(w, array, seen, self._loads)[0], self.dtype)

    def _holds(self, condition: Condition) -> Node:
        direction = _COMPARED[condition.kind]
        return self._w.compare(direction, self.value(condition.expr), self.number(0))

    def _require(self, holds: Node) -> None:
        valid = self._valid
        self._valid = holds if valid is None else self._w.elementwise("and", valid, holds)

    def _require_range(self, expr: IndexExpr, size: int) -> None:
        interval = bounds(expr, self._domain)
        index = self.value(expr)
        if interval is None or interval[0] < 0:
            self._require(self._w.compare("GE", index, self.number(0)))
        if interval is None or interval[1] >= size:
            self._require(self._w.compare("LT", index, self.number(size)))

    def valid(self, index_map: IndexMap, asked: Sequence[int]) -> Node | None:
        """Which points are valid; None if all are.

        Args:
          index_map: the map.
          asked: axes of the array whose indices must be in bounds.
        """
        for condition in index_map.conditions:
            self._require(self._holds(condition))
        for j in asked:
            self._require_range(index_map.exprs[j], index_map.codomain[j])
        return self._valid


def _stacked(w: Computation, indices: Sequence[Node]) -> Node:
    """Index vectors along a last axis."""
    columns = [w.reshape(x, (*x.shape, 1)) for x in indices]
    if len(columns) == 1:
        return columns[0]
    type = ShapedArray((*indices[0].shape, len(columns)), columns[0].dtype)
    return w.op("concatenate", type, *columns, dimensions=(len(indices[0].shape),))


def _read(
    w: Computation, x: Node, index_map: IndexMap, loads: Sequence[Node]
) -> tuple[Node, Node | None]:
    """The elements that a map reads, the nearest ones out of bounds, and which points are valid."""
    windows = window_axes(index_map)
    along = set(windows.values())
    dims = [d for d in range(len(index_map.domain)) if d not in along]
    indexed = [j for j in range(len(index_map.codomain)) if j not in windows]
    grid = _Grid(w, index_map, dims, loads)
    sizes = tuple(index_map.codomain[j] for j in windows)
    shape = (*grid.shape, *sizes)
    if indexed:
        out = w.op(
            "gather",
            ShapedArray(shape, x.dtype),
            x,
            _stacked(w, [grid.value(index_map.exprs[j]) for j in indexed]),
            offset_dims=tuple(range(len(dims), len(shape))),
            collapsed_slice_dims=tuple(indexed),
            start_index_map=tuple(indexed),
            index_vector_dim=len(dims),
            slice_sizes=tuple(n if j in windows else 1 for j, n in enumerate(index_map.codomain)),
        )
    else:
        out = w.broadcast(x, shape, range(len(dims), len(shape)))
    order = [*dims, *windows.values()]
    out = w.transpose(out, [order.index(d) for d in range(len(order))])
    valid = grid.valid(index_map, indexed)
    return out, None if valid is None else w.broadcast(valid, index_map.domain, dims)


def gather(w: Computation, x: Node, index_map: IndexMap, loads: Sequence[Node], fill: Node) -> Node:
    """``O[o] = x[f(o)]``, or ``fill`` where the point ``o`` is not valid.

    Args:
      w: the computation to write in.
      x: an array of the shape of the map's codomain.
      index_map: the map.
      loads: the index arrays that it reads.
      fill: a scalar.
    """
    if 0 in (*index_map.domain, *index_map.codomain):
        return w.broadcast(fill, index_map.domain, ())
    out, valid = _read(w, x, index_map, loads)
    return out if valid is None else w.select(valid, out, w.spread(fill, index_map.domain))


def scatter(
    w: Computation,
    x: Node,
    updates: Node,
    index_map: IndexMap,
    loads: Sequence[Node],
    combiner: Computation,
) -> Node:
    """``O = x; O[f(i)] op= updates[i]`` for the valid points ``i``.

    Args:
      w: the computation to write in.
      x: an array of the shape of the map's codomain.
      updates: an array of the shape of its domain.
      index_map: the map.
      loads: the index arrays that it reads.
      combiner: the operation, of two scalars.
    """
    if 0 in (*index_map.domain, *index_map.codomain):
        return x
    if not x.shape:  # an index vector has a number at least
        one = IndexMap(index_map.domain, (1,), (as_expr(0),), index_map.conditions)
        return w.reshape(scatter(w, w.reshape(x, (1,)), updates, one, loads, combiner), ())
    windows = window_axes(index_map)
    if len(windows) == len(x.shape):
        windows.pop(0)
    dims = [d for d in range(len(index_map.domain)) if d not in set(windows.values())]
    indexed = [j for j in range(len(x.shape)) if j not in windows]
    grid = _Grid(w, index_map, dims, loads)
    indices = [grid.value(index_map.exprs[j]) for j in indexed]
    valid = grid.valid(index_map, ())
    if valid is not None:  # XLA leaves updates out whose index is out of bounds
        indices[0] = w.select(valid, indices[0], grid.number(-1))
    return w.op(
        "scatter",
        x.aval,
        x,
        _stacked(w, indices),
        w.transpose(updates, [*dims, *windows.values()]),
        update_window_dims=tuple(range(len(dims), len(index_map.domain))),
        inserted_window_dims=tuple(indexed),
        scatter_dims_to_operand_dims=tuple(indexed),
        index_vector_dim=len(dims),
        to_apply=combiner,
    )
