"""Whether a tree says something that can be done.

Start at :func:`verify`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Store
from functrax.backends.loops.bodies import Visitor
from functrax.backends.loops.tree import (
    Barrier,
    Bind,
    Body,
    Function,
    If,
    Let,
    Loop,
    Place,
    Prefetch,
    Running,
    Tile,
    TileSum,
    TurnTile,
    While,
    defined,
    used,
)
from functrax.core.errors.typed import VerificationError
from functrax.core.index.expr import IndexExpr
from functrax.core.scalars.scalar import Scalar

_BOOL: Final = np.dtype(np.bool_)
_WORD: Final = np.dtype(np.uint32)
#: The least and the largest of some integers.
Interval: TypeAlias = "tuple[int, int]"
#: Those that may carry something from step to step.
_CARRYING: Final = ("serial", "vector", "group")
#: Any index, where nothing is known of it.
_ANY: Final = (-(1 << 62), 1 << 62)
_LEAVES: Final = frozenset(("acc", "result"))
#: Kinds of loops.
KINDS: Final = ("parallel", "serial", "threads", "vector", "grid", "group", "wide", "member")


def verify(function: Function) -> None:
    """Check scopes, types, places and what loops write.

    Raises:
      VerificationError: an index or a carried value is used outside of its loop; types do not fit;
        an array is written that is not declared so; an element is read or written, without a guard,
        that may be outside of its array; or points that run at once write one element.
    """
    _Verifier(function).body(function.body)


class _Verifier(Visitor):
    def __init__(self, function: Function) -> None:
        self.function = function
        #: The indices that are known, and what they may be.
        self.dims: dict[int, Interval] = {}
        #: The leaves and values that are known, by open body.
        self.known: list[set[Scalar]] = [set()]
        #: Dims that are the first index of a tile, by the dim along which that is, and its points.
        self.tiles: dict[int, tuple[int, int]] = {}
        #: Of loops: where they begin, and the largest distance of an index from there.
        self.reach: dict[int, tuple[Scalar, int]] = {}
        self.in_masked = False
        #: The dims of units and of threads, and those that follow from them: several run at once.
        self.units: set[int] = set()
        #: Whether all threads of a group come here.
        self.all_meet = False
        self.in_group = False
        #: The dims of which several indices run at once.
        self.at_once: list[int] = []

    def check(self, holds: bool, what: str, got: object) -> None:
        """Raise what is wrong."""
        if not holds:
            raise VerificationError(
                f"kernel {self.function.name}: {what}",
                got=str(got),
                fix="report this: the compiler made a wrong kernel",
            )

    def body(self, body: Body) -> None:
        """Statements of a body of their own."""
        self.known.append(set())
        self.statements(body)
        self.known.pop()

    def statements(self, body: Body) -> None:
        """Check statements, and the values that each uses."""
        for statement in body:
            for x in used(statement):
                self.value(x)
            super().statements((statement,))
            self.known[-1].update(defined(statement))

    # ---- values ---------------------------------------------------------------------------------

    def value(self, root: Scalar) -> None:
        """Check what an expression needs."""
        stack = [root]
        while stack:
            node = stack.pop()
            if any(node in known for known in self.known):
                continue
            self.check(node.op not in _LEAVES, "a value is used outside of its loop", node)
            self._node(node)
            self.known[-1].add(node)
            stack += node.args

    def _node(self, node: Scalar) -> None:
        if node.op == "dim":
            self.check(node.attr in self.dims, "an index is used outside of its loop", node)
        elif node.op == "tail":
            self.check(self.in_masked, "a mask is used outside of a masked loop", node)
        elif node.op == "load":
            buffer, address, has_offset, has_guard = node.attr
            operand = self._operand(buffer)
            self.check(node.dtype == operand.dtype, "a load's dtype", node)
            self.check(len(node.args) == has_offset + has_guard, "a load's operands", node)
            if has_guard:
                self.check(node.args[-1].dtype == _BOOL, "a guard that is no bool", node)
            self._place(buffer, address, has_offset or has_guard)
        elif node.op == "select":
            same = node.args[1].dtype == node.args[2].dtype == node.dtype
            self.check(same and node.args[0].dtype == _BOOL, "a select's dtypes", node)

    def _operand(self, buffer: int) -> Any:
        self.check(0 <= buffer < len(self.function.operands), "an array that is not there", buffer)
        return self.function.operands[buffer]

    def _place(self, buffer: int, address: IndexExpr, is_open: bool) -> None:
        """Check an address; one with a guard or an offset may be anything."""
        terms = {getattr(atom, "number", -1): coef for atom, coef in address.terms}
        for d in terms:
            self.check(d in self.dims, "an address that is not affine in the indices", address)
        ends = [self._ends(address.const, terms), self._ends(address.const, terms, by_tiles=True)]
        low, high = max(x for x, _ in ends), min(x for _, x in ends)
        size = self._operand(buffer).size
        inside = is_open or (low >= 0 and high < size)
        self.check(inside, "an element that is not in its array", f"b{buffer}[{low}:{high + 1}]")

    def _ends(self, const: int, terms: dict[int, int], by_tiles: bool = False) -> Interval:
        """The least and the largest place of an affine address.

        An index in a tile is also that of the tile's first point and the place of a point in it.
        """
        terms = dict(terms)
        low = high = const
        for d, (first, points) in self.tiles.items():
            coef = terms.get(d, 0)
            if coef and (by_tiles or terms.get(first) == -coef):
                ends = [0, coef * (points - 1)]
                low, high = low + min(ends), high + max(ends)
                terms[first] = terms.get(first, 0) + terms.pop(d)
        for d, coef in terms.items():
            ends = [coef * x for x in self.dims[d]]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def range_of(self, node: Scalar) -> Interval:
        """What an index may be."""
        op, args = node.op, node.args
        if op == "const":
            return int(node.attr), int(node.attr)
        if op == "number":
            return node.attr[1], node.attr[1]
        if op == "dim":
            return self.dims.get(node.attr, _ANY)
        if op == "units":
            return 0, self.function.units
        if op == "line":
            return self.range_of(args[0])[0], _ANY[1]
        found = [self.range_of(x) for x in args]
        if op == "add":
            part = _part(args[1], args[0])
            if part is not None and part[1] <= 1:
                return found[0][0], max(self.range_of(part[0])[1], found[0][0])
            return found[0][0] + found[1][0], found[0][1] + found[1][1]
        if op == "sub" and args[0].op == "dim":
            begin, most = self.reach.get(args[0].attr, (None, 0))
            if begin is args[1]:
                return 0, most
        if op == "sub" and args[1].op == "rem" and args[1].args[0] is args[0]:
            size = self.range_of(args[1].args[1])[0]
            return 0, found[0][1] // size * size
        if op == "rem" and found[1][0] == found[1][1] > 0 and found[0][0] >= 0:
            return 0, found[1][0] - 1
        if op in ("convert", "turn"):
            return found[0]
        if op == "sub":
            return found[0][0] - found[1][1], found[0][1] - found[1][0]
        if op == "mul":
            ends = [x * y for x in found[0] for y in found[1]]
            return min(ends), max(ends)
        if op == "div" and found[1][0] == found[1][1] > 0 and found[0][0] >= 0:
            return found[0][0] // found[1][0], found[0][1] // found[1][0]
        if op == "and" and found[0][0] >= 0:
            return 0, found[0][1]
        if op == "select" and args[0].op == "lt" and args[0].args == args[1:]:  # the smaller one
            return min(found[1][0], found[2][0]), min(found[1][1], found[2][1])
        return _ANY

    # ---- loops ----------------------------------------------------------------------------------

    def _steps(
        self, s: Loop | While | Bind, low: int, high: int, at_once: bool, condition: Any = None
    ) -> None:
        """Check what is done with each index from one to another."""
        self.check(s.dim not in self.dims, "a dim is in two loops", s.dim)
        self.dims[s.dim] = low, max(low, high)
        if at_once:
            self.at_once.append(s.dim)
        for c in s.carries:
            self.value(c.first)
        self.known.append({c.acc for c in s.carries})
        if condition is not None:
            self.value(condition)
        self.statements(s.body)
        for c in s.carries:
            self.value(c.new)
            same = c.first.dtype == c.acc.dtype == c.new.dtype == c.result.dtype
            self.check(same, "what a loop carries changes its dtype", c.acc)
        self.known.pop()
        if at_once:
            self.at_once.pop()
        del self.dims[s.dim]

    def visit_Loop(self, s: Loop) -> None:
        self.check(s.kind in KINDS, "a kind of loop", s.kind)
        at_once = s.kind not in ("serial", "grid")
        if s.kind in ("grid", "member"):
            self.units.add(s.dim)
        meet, inside = self.all_meet, self.in_group
        if s.kind == "member":
            threads = self.range_of(s.begin)[0], self.range_of(s.end)[1]
            whole = not inside and threads == (0, self.function.group)
            self.check(whole, "a loop over other threads than those of a group", s.dim)
            self.all_meet = self.in_group = True
        elif s.kind != "serial":
            self.all_meet = False
        self.check(not s.carries or s.kind in _CARRYING, "a loop that carries", s.dim)
        self.reach[s.dim] = s.begin, self._reach(s)
        before = self.in_masked
        self.in_masked = before or s.masked
        self._steps(s, self.range_of(s.begin)[0], self.range_of(s.end)[1] - 1, at_once)
        self.in_masked, self.all_meet, self.in_group = before, meet, inside

    def _reach(self, s: Loop) -> int:
        """How far an index of a loop may be from its first one."""
        low, high = self.range_of(s.begin)[0], self.range_of(s.end)[1]
        found = high - low
        if s.end.op == "select":
            for end in s.end.args[1:]:
                if end.op == "add" and end.args[0] is s.begin:
                    found = min(found, self.range_of(end.args[1])[1])
        step = 1 if s.kind == "group" else s.step
        return max(-(-found // step) - 1, 0) * step

    def visit_While(self, s: While) -> None:
        self.check(s.condition.dtype == _BOOL, "a condition that is no bool", s.condition)
        self._steps(s, 0, _ANY[1], False, s.condition)

    def visit_Bind(self, s: Bind) -> None:
        low, high = self.range_of(s.index)
        if s.dim < len(self.function.extents):  # what goes beyond its extent is not done
            reach = self.function.lanes if s.vector else 1
            high = min(high + reach, self.function.extents[s.dim]) - 1
            low = max(min(low, high), 0)
        if s.tile is not None:
            self.tiles[s.tile[0]] = s.dim, s.tile[1]
        at_once = self._is_of_unit(s.index)
        if at_once:
            self.units.add(s.dim)
        meet = self.all_meet
        self.all_meet = meet and s.inside is None
        self._steps(s, low, high, s.vector or at_once)
        self.units.discard(s.dim)
        self.all_meet = meet
        if s.tile is not None:
            del self.tiles[s.tile[0]]

    def _is_of_unit(self, index: Scalar) -> bool:
        """Whether an index follows from the number of a unit, so that several run at once."""
        if index.op == "dim":
            return index.attr in self.units
        return any(self._is_of_unit(x) for x in index.args)

    def visit_If(self, s: If) -> None:
        self.check(s.condition.dtype == _BOOL, "a condition that is no bool", s.condition)
        meet, self.all_meet = self.all_meet, False
        self.body(s.body)
        self.body(s.otherwise)
        self.all_meet = meet

    def visit_Tile(self, s: Tile) -> None:
        self.check(s.corner in self.dims, "a tile outside of its loop", s.corner)
        self.statements(s.points)

    # ---- contractions ---------------------------------------------------------------------------

    def _rows(self, place: Place | None, dtype: np.dtype[Any]) -> None:
        """Check a place that rows are written to."""
        if place is None:
            return
        operand = self._operand(place.buffer)
        self.check(operand.written, "a store to an array that is only read", place.buffer)
        self.check(operand.dtype == dtype, "a store's dtype", dtype)
        self._place(place.buffer, place.address, True)

    def visit_TileSum(self, s: TileSum) -> None:
        for place in (s.to, s.instead, s.panel):
            self._rows(place, s.dtype)
        self.check((s.whole is None) == (s.instead is None), "a place without a choice", s.whole)
        own = {d for d in s.loops if d != s.begun}
        self.check(own.isdisjoint(self.dims), "a dim is in two loops", own)
        for d in own:
            self.dims[d] = 0, self.function.extents[d] - 1
        for side in (s.left, s.right):
            operand = self._operand(side.buffer)
            wanted = _WORD if s.dot else s.dtype
            self.check(operand.dtype == wanted, "a side's dtype", operand.dtype)
            self._place(side.buffer, side.address, side.packed)
        for d in own:
            del self.dims[d]

    def visit_TurnTile(self, s: TurnTile) -> None:
        for place in (s.tile, s.to, s.instead):
            self._rows(place, s.dtype)

    # ---- others ---------------------------------------------------------------------------------

    def visit_Barrier(self, s: Barrier) -> None:
        self.check(self.all_meet, "a barrier that not all threads of a group come to", s)

    def visit_Running(self, s: Running) -> None:
        meet = self.all_meet or not self.in_group
        self.check(meet, "running results that not all threads of a group come to", s)

    def visit_Let(self, s: Let) -> None:
        for name, value in zip(s.names, s.values):
            self.check(name.dtype == value.dtype, "a name of another dtype", name)

    def visit_Prefetch(self, s: Prefetch) -> None:
        self.check(s.dim is None or s.dim in self.dims, "a fetch along a dim in no loop", s.dim)
        self._place(s.buffer, s.address, True)

    def visit_Store(self, s: Store) -> None:
        operand = self._operand(s.buffer)
        self.check(operand.written, "a store to an array that is only read", s.buffer)
        self.check(s.value.dtype == operand.dtype, "a store's dtype", s.value.dtype)
        self._place(s.buffer, s.address, s.offset is not None or s.guard is not None)
        own = operand.scratch or operand.shared  # which a thread or a group has for itself
        if s.independent is None and s.offset is None and not own:
            self._check_once(s)

    def _check_once(self, s: Store) -> None:
        """Check that points that run at once write elements of their own."""
        steps = sorted(
            (abs(coef), getattr(atom, "number", 0)) for atom, coef in s.address.terms if coef
        )
        reach = 0
        for step, d in steps:
            low, high = self.dims[d]
            alone = step > reach or low == high or d not in self.at_once
            self.check(alone, "points that run at once write one element", s.address)
            reach += step * (high - low)


def _part(length: Scalar, low: Scalar) -> tuple[Scalar, Fraction] | None:
    """The end of a range from ``low`` on, and the part of it that a length is at most."""
    if length.op == "sub" and length.args[1] is low:
        return length.args[0], Fraction(1)
    if len(length.args) != 2 or not length.args[1].is_constant:
        return None
    count, found = int(length.args[1].attr), _part(length.args[0], low)
    if found is None or length.op not in ("and", "div", "mul"):
        return None
    if length.op == "and":  # a multiple of a power of two
        return found if count < 0 else None
    return found[0], found[1] * (count if length.op == "mul" else Fraction(1, count))
