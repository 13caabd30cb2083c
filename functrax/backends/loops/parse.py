"""The trees that texts say: what ``loops/text.py`` wrote.

Start at :func:`parse`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn

import numpy as np

from functrax.backends.kernels.ir import Operand, Reduce, Store
from functrax.backends.kernels.tiling import Reading
from functrax.backends.loops import tree as trees
from functrax.backends.loops.tree import (
    INDEX,
    Bind,
    Body,
    Carried,
    Function,
    If,
    Let,
    Loop,
    Place,
    Poll,
    Prefetch,
    Running,
    Statement,
    Tile,
    TileSum,
    Touch,
    TurnTile,
    While,
)
from functrax.backends.loops.tree_verifier import KINDS
from functrax.core.errors.typed import ArgumentError
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.prims.lowered_reductions import ArgExtremum, Fold, Reduction
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

_BOOL: Final = np.dtype(np.bool_)
_HOW = r"\w+<[^>]+>"


def parse(text: str) -> Function:
    """The tree that a text says.

    Raises:
      ArgumentError: a line says nothing that is known.
    """
    return _Parser(text).function()


class _Parser:
    def __init__(self, text: str) -> None:
        lines = [line for line in text.splitlines() if line.strip()]
        dims = map(int, re.findall(r"\bd(\d+)\b", text))
        self.counter = itertools.count(1 + max(dims, default=0))
        self.lines = [((len(x) - len(x.lstrip())) // 2, x.strip()) for x in lines]
        self.at = 0
        self.b = Builder()
        self.names: dict[str, Scalar] = {}

    def _wrong(self, line: str) -> NoReturn:
        raise ArgumentError(
            "a kernel's text has a line that says nothing",
            got=line,
            fix="compare it with the text of a kernel, by FUNCTRAX_DUMP=kernels",
        )

    def _match(self, pattern: str, line: str) -> re.Match[str]:
        return re.fullmatch(pattern, line) or self._wrong(line)

    def _next(self, pattern: str) -> re.Match[str] | None:
        """The line that is next, if it is of a form; then it is done."""
        if self.at == len(self.lines):
            return None
        found = re.fullmatch(pattern, self.lines[self.at][1])
        self.at += found is not None
        return found

    def function(self) -> Function:
        """The whole tree."""
        head = self._next(r"kernel (.*):") or self._wrong(self.lines[0][1])
        operands: list[Operand] = []
        updated: list[int] = []
        while found := self._next(
            r"(in|out|scratch) b\d+: (\w+)\[(\d+)\](?: of b(\d+))?( updated)?"
        ):
            kind, dtype, size, alias, often = found.groups()
            if often:
                updated.append(len(operands))
            of = None if alias is None else int(alias)
            own = kind == "scratch"
            operands.append(Operand(dtypes.as_dtype(dtype), int(size), kind != "in", own, of))
        extents = self._need(r"extents((?: \d+)*)")
        numbers = self._need(r"units (\d+), points (\d+), work (\d+)")
        units, points, work = map(int, numbers.groups())
        lanes = self._next(r"lanes (\d+) along d(\d+)")
        tile = self._next(r"tiles along d(\d+)")
        fetches = self._next(r"fetches") is not None
        return Function(
            head[1], self.b, operands, tuple(map(int, extents[1].split())), self._body(1), units,
            int(lanes[2]) if lanes else None, int(lanes[1]) if lanes else 1,
            int(tile[1]) if tile else None, fetches, frozenset(updated), points, work,
            counter=self.counter,
        )  # fmt: skip

    def _need(self, pattern: str) -> re.Match[str]:
        return self._next(pattern) or self._wrong(self.lines[self.at][1])

    # ---- statements -----------------------------------------------------------------------------

    def _body(self, depth: int) -> Body:
        """The statements of lines at a depth, until one is less deep."""
        before = dict(self.names)
        found = tuple(self._statements(depth))
        self.names = before
        return found

    def _statements(self, depth: int) -> list[Statement]:
        found: list[Statement] = []
        while self._values(depth):
            line = self.lines[self.at][1]
            if line.startswith("next "):
                break
            self.at += 1
            rule = _RULES.get(line.split(" ", 1)[0], _Parser._store)
            found.append(rule(self, line, depth))
        return found

    def _values(self, depth: int) -> bool:
        """Read lines of values; whether a line of this depth follows."""
        while self.at < len(self.lines) and self.lines[self.at][0] == depth:
            named = self._next(r"(v\d+):(\w+) = (.*)")
            if named is None:
                return True
            self.names[named[1]] = self._right(named[3], dtypes.as_dtype(named[2]))
        return False

    def _inside(self, depth: int) -> tuple[tuple[Carried, ...], Scalar | None, Body]:
        """What a loop carries, its condition, and its statements."""
        outer = dict(self.names)
        begun, results = [], []
        while found := self._next(
            r"carry (r\d+): (\w+)\[(\d+)\] = (.*) -> (r\d+)( for all lanes)?"
        ):
            name, dtype, lanes, first, result, alike = found.groups()
            first_value = self._operand(first)
            acc = self._leaf("acc", name, dtype)
            begun.append((first_value, acc, int(lanes), not alike))
            results.append((result, dtype))
        self._values(depth)
        holds = self._next(r"condition (.*)")
        condition = None if holds is None else self._operand(holds[1])
        statements = self._statements(depth)
        new = []
        for _ in begun:
            self._values(depth)
            new.append(self._operand(self._need(r"next r\d+ = (.*)")[1]))
        self.names = outer
        carries = tuple(
            [
                Carried(first, acc, value, self._leaf("result", *result), lanes, varies)
                for (first, acc, lanes, varies), value, result in zip(
                    begun, new, results, strict=True
                )
            ]
        )
        return carries, condition, tuple(statements)

    def _leaf(self, op: str, name: str, dtype: str) -> Scalar:
        found = self.names[name] = self.b.node(op, dtypes.as_dtype(dtype), (), name)
        return found

    def _loop(self, line: str, depth: int) -> Loop:
        found = self._match(
            r"(\w+) d(\d+) in (.*):(\S*|extent\(.*\)) step (\S+)"
            r"( masked)?( maybe empty)?( peeled)?",
            line,
        )
        kind, dim, low, high, step, *marks = found.groups()
        begin, end = self._operand(low), self._operand(high)
        by = None if step.isdigit() else self._operand(step)
        size = int(step) if by is None else by.attr[1]
        carries, _, body = self._inside(depth + 1)
        masked, empty, peeled = map(bool, marks)
        return Loop(kind, int(dim), begin, end, size, body, carries, masked, empty, peeled, by)

    def _while(self, line: str, depth: int) -> While:
        dim = int(self._match(r"while d(\d+)", line)[1])
        carries, condition, body = self._inside(depth + 1)
        return While(dim, condition or self._wrong(line), body, carries)

    def _bind(self, line: str, depth: int) -> Bind:
        found = self._match(
            r"bind d(\d+) = (.*?)( vector)?(?: tile d(\d+) (\d+))?(?: if (\S+))?", line
        )
        index = self._operand(found[2])
        tile = None if found[4] is None else (int(found[4]), int(found[5]))
        inside = None if found[6] is None else self._operand(found[6])
        carries, _, body = self._inside(depth + 1)
        return Bind(int(found[1]), index, body, carries, bool(found[3]), inside, tile)

    def _if(self, line: str, depth: int) -> If:
        condition = self._operand(line.removeprefix("if "))
        body = self._body(depth + 1)
        return If(condition, body, self._body(depth + 1) if self._next("else") else ())

    def _rows(self, text: str) -> Place:
        """A place by its text."""
        found = self._match(r"b(\d+)\[(.*)\] pitch (\S+)", text)
        return Place(int(found[1]), *self._place(found[2]), self._operand(found[3]))

    def _to(self, text: str) -> tuple[Place, Scalar | None, Place | None]:
        """Where something goes, where that holds, and where it goes else."""
        first, _, rest = text.partition(" where ")
        if not rest:
            return self._rows(first), None, None
        whole, _, second = rest.partition(" else ")
        return self._rows(first), self._operand(whole), self._rows(second)

    def _side(self, text: str) -> Reading:
        found = self._match(r"b(\d+)\[(.*)\] by (-?\d+)( packed)?", text)
        return Reading(int(found[1]), _address(found[2]), int(found[3]), bool(found[4]))

    def _tile_sum(self, line: str, depth: int) -> TileSum:
        found = self._match(
            r"sum (\w+) (\d+) (\d+)x(\d+) (.*) times (.*) columns d(\d+) along (.*) length (\S+.*?)"
            r"(?: from d(\d+))? more (\S+) to (.*?)(?: dot (\S+))?(?: panel (.*) copies (\S+))?"
            r"(?: later (\S+) parts (\d+))?",
            line,
        )
        copies, later = (None if found[k] is None else self._operand(found[k]) for k in (15, 16))
        to, whole, instead = self._to(found[12])
        dot = () if found[13] is None else tuple(x.replace("-", " ") for x in found[13].split(","))
        return TileSum(
            dtypes.as_dtype(found[1]), int(found[2]), int(found[3]), int(found[4]),
            self._side(found[5]), self._side(found[6]), int(found[7]),
            tuple([int(d[1:]) for d in found[8].split()]), self._operand(found[9]),
            None if found[10] is None else int(found[10]), to, whole, instead,
            self._operand(found[11]), dot, None if found[14] is None else self._rows(found[14]),
            copies, later, int(found[17] or 1),
        )  # fmt: skip

    def _turn_tile(self, line: str, depth: int) -> TurnTile:
        found = self._match(r"turn (\w+) (\S+) by (\S+) from (.*?) to (.*?)( masked)?", line)
        return TurnTile(
            dtypes.as_dtype(found[1]), self._rows(found[4]), *self._to(found[5]),
            self._operand(found[2]), self._operand(found[3]), bool(found[6]),
        )  # fmt: skip

    def _touch(self, line: str, depth: int) -> Touch:
        found = self._match(r"touch b(\d+)\[(.*)\] count (-?\d+)( write)?", line)
        return Touch(int(found[1]), _address(found[2]), int(found[3]), bool(found[4]))

    def _tile(self, line: str, depth: int) -> Tile:
        corner = int(self._match(r"tile d(\d+)", line)[1])
        return Tile(corner, self._body(depth + 1))  # type: ignore[arg-type]

    def _let(self, line: str, depth: int) -> Let:
        names, values = [], []
        found: Any = self._match(r"let (r\d+):(\w+) = (.*)", line)
        while found:
            values.append(self._operand(found[3]))
            names.append((found[1], found[2]))
            found = self._next(r"let (r\d+):(\w+) = (.*)")
        return Let(tuple([self._leaf("result", *x) for x in names]), tuple(values))

    def _compute(self, line: str, depth: int) -> Let:
        return Let((), tuple(self._operands(line.removeprefix("compute "))))

    def _reduce(self, line: str, depth: int) -> Reduce:
        found = self._match(rf"reduce ({_HOW}) (.*) onto (.*) -> (.*)", line)
        values, accs = (tuple(self._operands(found[k])) for k in (2, 3))
        names = [x.split(":") for x in found[4].split(", ")]
        results = tuple([self._leaf("result", *x) for x in names])
        return Reduce(_how(found[1]), values, accs, results)

    def _running(self, line: str, depth: int) -> Running:
        found = self._match(rf"running ({_HOW}) (.*) after (.*) -> (.*) last (.*)", line)
        values, accs = (tuple(self._operands(found[k])) for k in (2, 3))
        results, last = (
            tuple([self._leaf("result", *x.split(":")) for x in found[k].split(", ")])
            for k in (4, 5)
        )
        return Running(Reduce(_how(found[1]), values, accs, results), last)

    def _prefetch(self, line: str, depth: int) -> Prefetch:
        found = self._match(r"prefetch b(\d+)\[(.*)\] along d(\d+)", line)
        return Prefetch(int(found[1]), _address(found[2]), int(found[3]))

    def _poll(self, line: str, depth: int) -> Poll:
        return Poll()

    def _store(self, line: str, depth: int) -> Store:
        found = self._match(
            rf"b(\d+)\[(.*?)\] ({_HOW})?= (\S+)(?: if (\S+))?"
            r"(?: once along\((.*)\))?( streams)?",
            line,
        )
        buffer, place, how, value, guard, along, streams = found.groups()
        address, offset = self._place(place)
        dims = None if along is None else frozenset(int(d[1:]) for d in along.split())
        return Store(
            int(buffer), address, self._operand(value), offset,
            None if guard is None else self._operand(guard),
            None if how is None else _how(how), dims, bool(streams),
        )  # fmt: skip

    # ---- values ---------------------------------------------------------------------------------

    def _place(self, text: str) -> tuple[IndexExpr, Scalar | None]:
        """An address, and what is added to it."""
        found = re.fullmatch(r"(.*) \+ ([vr]\d+|\S+:\w+)", text)
        if found is None:
            return _address(text), None
        return _address(found[1]), self._operand(found[2])

    def _operands(self, text: str) -> list[Scalar]:
        return [self._operand(x) for x in re.split(r", (?![^()]*\))", text)] if text else []

    def _operand(self, text: str) -> Scalar:
        """A value by its name, or what it is."""
        if text in self.names:
            return self.names[text]
        b = self.b
        if found := re.fullmatch(r"d(\d+)(?::(\w+))?", text):
            dtype = INDEX if found[2] is None else dtypes.as_dtype(found[2])
            return b.node("dim", dtype, (), int(found[1]))
        if found := re.fullmatch(r"#(-?\d+):(\w+)", text):
            return b.node("int", dtypes.as_dtype(found[2]), (), int(found[1]))
        if found := re.fullmatch(r"given\((-?\d+)\):(\w+)", text):
            return b.node("given", dtypes.as_dtype(found[2]), (), int(found[1]))
        if found := re.fullmatch(r"(\w+)\((-?\d+)\)", text):
            return trees.number(b, found[1], int(found[2]))
        if found := re.fullmatch(r"extent\(d(\d+), (\d+)\)", text):
            return trees.extent(b, int(found[1]), int(found[2]))
        if text in ("begin", "end"):
            return b.node("units", INDEX, (), text)
        if text == "tail":
            return b.node("tail", _BOOL)
        return self._number(text)

    def _number(self, text: str) -> Scalar:
        if re.fullmatch(r"\S+:\w+", text) is None:
            self._wrong(text)
        return self.b.const(number(text), dtypes.as_dtype(text.rpartition(":")[2]))

    def _right(self, text: str, dtype: np.dtype[Any]) -> Scalar:
        """What a line says that a value is."""
        if found := re.fullmatch(r"b(\d+)\[(.*)\](?: if (\S+))?", text):
            address, offset = self._place(found[2])
            guard = None if found[3] is None else self._operand(found[3])
            args = tuple([x for x in (offset, guard) if x is not None])
            attr = (int(found[1]), address, offset is not None, guard is not None)
            return self.b.node("load", dtype, args, attr)
        call = self._match(r"(\w+)(?:\[(.*)\])?\((.*)\)", text)
        op, given, args = call[1], call[2], tuple(self._operands(call[3]))
        return self.b.node(op, dtype, args, None if given is None else self._attribute(op, given))

    def _attribute(self, op: str, text: str) -> Any:
        parts = text.split("; ")
        if op == "across":
            return _how(parts[0]), int(parts[1]), int(parts[2])
        if op == "line":
            return int(parts[0][1:]), _address(parts[1]), int(parts[2][1:])
        if op == "lanes":
            return tuple([number(x) for x in parts])
        if op == "dot":
            return tuple(parts)
        if op == "permute":
            return tuple(map(int, parts))
        return int(parts[0])


_RULES: Final[dict[str, Callable[[_Parser, str, int], Statement]]] = {
    **dict.fromkeys(KINDS, _Parser._loop),
    "while": _Parser._while,
    "bind": _Parser._bind,
    "if": _Parser._if,
    "tile": _Parser._tile,
    "sum": _Parser._tile_sum,
    "turn": _Parser._turn_tile,
    "touch": _Parser._touch,
    "let": _Parser._let,
    "compute": _Parser._compute,
    "reduce": _Parser._reduce,
    "running": _Parser._running,
    "prefetch": _Parser._prefetch,
    "poll": _Parser._poll,
}


@cache
def _how(text: str) -> Reduction:
    """A way to put elements together by its text."""
    name, _, carries = text.removesuffix(">").partition("<")
    parts = carries.split()
    found = [dtypes.as_dtype(x.rpartition(":")[2]) for x in parts]
    identity = number(parts[0]) if ":" in parts[0] else None
    if name in ("argmax", "argmin"):
        wins, size = ("gt" if name == "argmax" else "lt"), np.iinfo(found[1]).max
        return ArgExtremum(wins, found[0], identity, size, found[1])
    dtype = found[0] if len(found) == 1 else dtypes.complex_dtype(found[0])
    return Fold(name, dtype, dtype, identity)


def number(text: str) -> Any:
    """A constant by its text, ``value:dtype``."""
    value, _, name = text.rpartition(":")
    dtype = dtypes.as_dtype(name)
    if bits := re.fullmatch(r"bits\((\d+)\)", value):
        return np.asarray(int(bits[1]), f"u{dtype.itemsize}").view(dtype)[()]
    if dtype == _BOOL:
        return dtype.type(value == "True")
    return np.asarray(int(value) if dtype.kind in "iu" else float(value)).astype(dtype)[()]


def _address(text: str) -> IndexExpr:
    """A sum of dims times strides."""
    const, terms = 0, []
    for sign, body in re.findall(r"([+-]?) ?([\d*d]+)", text):
        coef = -1 if sign == "-" else 1
        factor, _, dim = body.rpartition("d")
        if not dim or "d" not in body:
            const += coef * int(body)
        else:
            terms.append((Dim(int(dim)), coef * int(factor.rstrip("*") or 1)))
    return add_terms(const, terms)
