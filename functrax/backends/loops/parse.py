"""The trees that texts say: what ``loops/text.py`` wrote.

Start at :func:`parse`.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Final, NoReturn

import numpy as np

from functrax.backends.kernels.ir import Operand
from functrax.backends.loops import tree as trees
from functrax.backends.loops.grammar import ADDRESS, KINDS, STATEMENTS, Form, address, how, number
from functrax.backends.loops.tree import (
    INDEX,
    Body,
    Carried,
    Function,
    If,
    Let,
    Statement,
    Tile,
    While,
)
from functrax.core.errors.typed import ArgumentError
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

_BOOL: Final = np.dtype(np.bool_)


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

    def _next(self, pattern: str) -> re.Match[str] | None:
        """The line that is next, if it is of a form; then it is done."""
        if self.at == len(self.lines):
            return None
        found = re.fullmatch(pattern, self.lines[self.at][1])
        self.at += found is not None
        return found

    def _next_of(self, form: Form) -> dict[str, Any] | None:
        """The fields of the statement whose line is next, if it is of this form."""
        found = form.read(self, self.lines[self.at][1]) if self.at < len(self.lines) else None
        self.at += found is not None
        return found

    def _need(self, pattern: str) -> re.Match[str]:
        return self._next(pattern) or self._wrong(self.lines[self.at][1])

    def function(self) -> Function:
        """The whole tree."""
        head = self._next(r"kernel (.*):") or self._wrong(self.lines[0][1])
        operands: list[Operand] = []
        updated: list[int] = []
        while found := self._next(
            r"(in|out|scratch|shared) b\d+: (\w+)\[(\d+)\](?: of b(\d+))?( updated)?"
        ):
            kind, dtype, size, alias, often = found.groups()
            if often:
                updated.append(len(operands))
            of = None if alias is None else int(alias)
            own, shared = kind == "scratch", kind == "shared"
            operand = Operand(dtypes.as_dtype(dtype), int(size), kind != "in", own, of, shared)
            operands.append(operand)
        extents = self._need(r"extents((?: \d+)*)")
        numbers = self._need(r"units (\d+), points (\d+), work (\d+)")
        units, points, work = map(int, numbers.groups())
        group = self._next(r"groups of (\d+) threads(?:, (\d+) at once)?")
        lanes = self._next(r"lanes (\d+) along d(\d+)")
        tile = self._next(r"tiles along d(\d+)")
        fetches = self._next(r"fetches") is not None
        return Function(
            head[1], self.b, operands, tuple(map(int, extents[1].split())), self._body(1), units,
            int(group[1]) if group else 0,
            int(group[2] or 1) if group else 1,
            int(lanes[2]) if lanes else None, int(lanes[1]) if lanes else 1,
            int(tile[1]) if tile else None, fetches, frozenset(updated), points, work,
            counter=self.counter,
        )  # fmt: skip

    # ---- statements -----------------------------------------------------------------------------

    def _body(self, depth: int) -> Body:
        """The statements of lines at a depth, until one is less deep."""
        found: list[Statement] = []
        while self._values(depth) and not self.lines[self.at][1].startswith("next "):
            found.append(self._statement(self.lines[self.at][1], depth))
        return tuple(found)

    def _statement(self, line: str, depth: int) -> Any:
        found = ((cls, form, self._next_of(form)) for cls, form in STATEMENTS.items())
        cls, form, fields = next((x for x in found if x[2] is not None), None) or self._wrong(line)
        assert fields is not None
        while cls is Let and fields["names"] and (more := self._next_of(form)):
            fields = {name: fields[name] + more[name] for name in fields}
        if fields.get("by") is not None:
            fields["step"] = fields["by"].attr[1]
        outer = dict(self.names)
        if cls is If:
            fields["body"] = self._body(depth + 1)
            self.names = dict(outer)
            is_here = self.at < len(self.lines) and self.lines[self.at][0] == depth
            has_more = is_here and self._next("else")
            fields["otherwise"] = self._body(depth + 1) if has_more else ()
            self.names = outer
        elif cls is Tile:
            fields["points"] = self._body(depth + 1)
            self.names = outer
        elif "body" in form.kinds:
            fields |= self._inside(cls, depth + 1)
        return cls(**fields)

    def _inside(self, cls: type, depth: int) -> dict[str, Any]:
        """What a loop carries, its condition, and its statements."""
        outer = dict(self.names)
        begun = []
        while found := self._next(
            r"carry (r\d+): (\w+)\[(\d+)\] = (.*) -> (r\d+)( for all lanes)?"
        ):
            name, dtype, lanes, first, result, alike = found.groups()
            acc = self._leaf("acc", name, dtype)
            begun.append((self.value(first), acc, f"{result}:{dtype}", int(lanes), not alike))
        fields: dict[str, Any] = {}
        if cls is While:
            self._values(depth)
            fields["condition"] = self.value(self._need(r"condition (.*)")[1])
        fields["body"] = self._body(depth)
        new = []
        for _ in begun:
            self._values(depth)
            new.append(self.value(self._need(r"next r\d+ = (.*)")[1]))
        self.names = outer
        fields["carries"] = tuple(
            [
                Carried(first, acc, value, self.defined(result), lanes, varies)
                for (first, acc, result, lanes, varies), value in zip(begun, new, strict=True)
            ]
        )
        return fields

    def _values(self, depth: int) -> bool:
        """Read lines of values; whether a line of this depth follows."""
        while self.at < len(self.lines) and self.lines[self.at][0] == depth:
            named = self._next(r"(v\d+):(\w+) = (.*)")
            if named is None:
                return True
            self.names[named[1]] = self._right(named[3], dtypes.as_dtype(named[2]))
        return False

    # ---- values ---------------------------------------------------------------------------------

    def _leaf(self, op: str, name: str, dtype: str) -> Scalar:
        found = self.names[name] = self.b.node(op, dtypes.as_dtype(dtype), (), name)
        return found

    def defined(self, text: str) -> Scalar:
        """The leaf that a name stands for from here on."""
        return self._leaf("result", *text.split(":"))

    def value(self, text: str) -> Scalar:
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
        if text in ("tail", "first"):
            return b.node(text, _BOOL)
        if re.fullmatch(r"\S+:\w+", text) is None:
            self._wrong(text)
        return b.const(number(text), dtypes.as_dtype(text.rpartition(":")[2]))

    def _right(self, text: str, dtype: np.dtype[Any]) -> Scalar:
        """What a line says that a value is."""
        if found := re.fullmatch(rf"b(\d+)\[({ADDRESS})(?: \+ (\S+))?\](?: if (\S+))?", text):
            places = [found[3], found[4]]
            args = tuple([self.value(x) for x in places if x is not None])
            attr = (int(found[1]), address(found[2]), *[x is not None for x in places])
            return self.b.node("load", dtype, args, attr)
        call = re.fullmatch(r"(\w+)(?:\[(.*)\])?\((.*)\)", text) or self._wrong(text)
        op, given, args = call[1], call[2], KINDS["tuple[Scalar, ...]"].read(self, call[3])
        return self.b.node(op, dtype, args, None if given is None else _attribute(op, given))


def _attribute(op: str, text: str) -> Any:
    parts = text.split("; ")
    if op == "across":
        return how(parts[0]), int(parts[1]), int(parts[2])
    if op == "together":
        return how(parts[0]), int(parts[1])
    if op == "line":
        return int(parts[0][1:]), address(parts[1]), int(parts[2][1:])
    if op == "lanes":
        return tuple([number(x) for x in parts])
    if op == "dot":
        return tuple(parts)
    if op in ("permute", "aligned"):
        return tuple(map(int, parts))
    return int(parts[0])
