"""Trees as text.

A text says all that a tree is: it can be read back.  A value that is
used more than once has a line of its own, before its first use in each body; what is read or made
outside stays known inside.

    kernel softmax_row:
      in b0: float32[512]
      ...
      vector d1 in 0:extent(d1, 512) step 16
        carry r0: float32[16] = -inf:float32 -> r1
        v0:float32 = b0[d1]
        v1:float32 = max(r0, v0)
        next r0 = v1

Start at :func:`text`; ``loops/parse.py`` reads texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.kernels.ir import Reduce, Store
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
    Tile,
    TileSum,
    Touch,
    TurnTile,
    While,
)
from functrax.core.prims.lowered_reductions import Reduction
from functrax.core.scalars.scalar import Scalar

#: Leaves that are named where they are bound.
NAMED: Final = frozenset(("acc", "result"))


def text(function: Function) -> str:
    """A tree as text."""
    return _Text(function).all()


def number_text(value: Any, dtype: np.dtype[Any]) -> str:
    """A constant, so that it reads back to the bit."""
    found = str(np.asarray(value, dtype)[()])
    if dtype.kind in "biu":
        return f"{found}:{dtype}"
    again = np.asarray(float(found)).astype(dtype)
    if again.tobytes() != np.asarray(value, dtype).tobytes():
        found = f"bits({np.asarray(value, dtype).view(f'u{dtype.itemsize}')})"
    return f"{found}:{dtype}"


def how_text(how: Reduction) -> str:
    """A way to put elements together: its name, and the types and numbers of no elements."""
    if how.identity is None:
        return f"{how.name}<{' '.join(map(str, how.carries))}>"
    empty = zip(how.identity, how.carries, strict=True)
    return f"{how.name}<{' '.join([number_text(x, d) for x, d in empty])}>"


class _Text:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Scalar, str] = {}
        #: The values that have a line in a body that is open.
        self.known: set[Scalar] = set()

    def all(self) -> str:
        f = self.function
        self.lines.append(f"kernel {f.name}:")
        for n, x in enumerate(f.operands):
            kind = "scratch" if x.scratch else "out" if x.written else "in"
            alias = "" if x.alias is None else f" of b{x.alias}"
            updated = " updated" if n in f.updated else ""
            self._line(f"{kind} b{n}: {x.dtype}[{x.size}]{alias}{updated}")
        self._line(f"extents {' '.join(map(str, f.extents))}")
        self._line(f"units {f.units}, points {f.points}, work {f.work}")
        if f.vector is not None:
            self._line(f"lanes {f.lanes} along d{f.vector}")
        if f.tile is not None:
            self._line(f"tiles along d{f.tile}")
        if f.fetches:
            self._line("fetches")
        self.depth -= 1
        self._body(f.body)
        return "\n".join(self.lines) + "\n"

    def _line(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    # ---- values ---------------------------------------------------------------------------------

    def _value(self, root: Scalar) -> str:
        """The name of a value, which has a line from here on; or what it is, if that is short."""
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.known or _short(node) is not None or node.op in NAMED:
                stack.pop()
                continue
            waiting = len(stack)
            for x in node.args[::-1]:
                if x not in self.known and _short(x) is None and x.op not in NAMED:
                    stack.append(x)
            if len(stack) == waiting:
                stack.pop()
                self.known.add(node)
                right = self._right(node)
                self._line(f"{self._name(node)}:{node.dtype} = {right}")
        return _short(root) or self._name(root)

    def _name(self, node: Scalar) -> str:
        return self.names.setdefault(node, f"{'r' if node.op in NAMED else 'v'}{len(self.names)}")

    def _right(self, node: Scalar) -> str:
        args = [_short(x) or self._name(x) for x in node.args]
        if node.op == "load":
            buffer, address, has_offset, has_guard = node.attr
            place = str(address) + (f" + {args[0]}" if has_offset else "")
            return f"b{buffer}[{place}]" + (f" if {args[-1]}" if has_guard else "")
        return f"{node.op}{_attribute(node)}({', '.join(args)})"

    # ---- statements -----------------------------------------------------------------------------

    def _body(self, body: Body) -> None:
        before, self.known = self.known, set(self.known)
        self._inside(body)
        self.known = before

    def _carrying(self, carries: Sequence[Carried], inside: Callable[[], None]) -> None:
        """What a loop carries, what is in it, and what that makes of what it carries."""
        before, self.known = self.known, set(self.known)
        self.depth += 1
        for c in carries:
            acc, result = self._name(c.acc), self._name(c.result)
            self._line(
                f"carry {acc}: {c.acc.dtype}[{c.lanes}] = {_short(c.first) or self._name(c.first)}"
                f" -> {result}{'' if c.varies else ' for all lanes'}"
            )
        self.depth -= 1
        inside()
        self.depth += 1
        for c in carries:
            self._line(f"next {self._name(c.acc)} = {self._value(c.new)}")
        self.depth -= 1
        self.known = before

    def _inside(self, body: Body) -> None:
        """Statements of a body; what they know is known to what follows in it."""
        self.depth += 1
        for statement in body:
            _WRITTEN[type(statement)](self, statement)
        self.depth -= 1

    def _firsts(self, carries: Sequence[Carried]) -> None:
        for c in carries:
            self._value(c.first)

    def _loop(self, s: Loop) -> None:
        self._firsts(s.carries)
        low, high = self._value(s.begin), self._value(s.end)
        marks = (" masked" if s.masked else "") + (" maybe empty" if s.maybe_empty else "")
        marks += " peeled" if s.peeled else ""
        step = s.step if s.by is None else self._value(s.by)
        self._line(f"{s.kind} d{s.dim} in {low}:{high} step {step}{marks}")
        self._carrying(s.carries, lambda: self._inside(s.body))

    def _while(self, s: While) -> None:
        self._firsts(s.carries)
        self._line(f"while d{s.dim}")

        def inside() -> None:
            self.depth += 1
            self._line(f"condition {self._value(s.condition)}")
            self.depth -= 1
            self._inside(s.body)

        self._carrying(s.carries, inside)

    def _bind(self, s: Bind) -> None:
        self._firsts(s.carries)
        index = self._value(s.index)
        inside = "" if s.inside is None else f" if {self._value(s.inside)}"
        tile = "" if s.tile is None else f" tile d{s.tile[0]} {s.tile[1]}"
        self._line(f"bind d{s.dim} = {index}{' vector' if s.vector else ''}{tile}{inside}")
        self._carrying(s.carries, lambda: self._inside(s.body))

    def _if(self, s: If) -> None:
        self._line(f"if {self._value(s.condition)}")
        self._body(s.body)
        if s.otherwise:
            self._line("else")
            self._body(s.otherwise)

    def _offset(self, offset: Scalar) -> str:
        """What is added to an address; an index with its dtype, for it is no part of that."""
        found = self._value(offset)
        return (
            f" + {found}:{INDEX}" if offset.op == "dim" and offset.dtype == INDEX else f" + {found}"
        )

    def _place(self, s: Place) -> str:
        place = str(s.address) + ("" if s.offset is None else self._offset(s.offset))
        return f"b{s.buffer}[{place}] pitch {self._value(s.pitch)}"

    def _to(self, s: TileSum | TurnTile) -> str:
        found = f"to {self._place(s.to)}"
        if s.whole is not None and s.instead is not None:
            found += f" where {self._value(s.whole)} else {self._place(s.instead)}"
        return found

    def _tile_sum(self, s: TileSum) -> None:
        sides = [
            f"b{x.buffer}[{x.address}] by {x.step}{' packed' if x.packed else ''}"
            for x in (s.left, s.right)
        ]
        parts = [f"sum {s.dtype} {s.height} {s.width}x{s.lanes} {' times '.join(sides)}"]
        parts.append(f"columns d{s.columns} along {' '.join([f'd{d}' for d in s.loops])}")
        parts.append(f"length {self._value(s.length)}")
        if s.begun is not None:
            parts.append(f"from d{s.begun}")
        parts.append(f"more {self._value(s.more)} {self._to(s)}")
        if s.dot:
            parts.append(f"dot {','.join(x.replace(' ', '-') for x in s.dot)}")
        if s.panel is not None and s.copies is not None:
            parts.append(f"panel {self._place(s.panel)} copies {self._value(s.copies)}")
        if s.later is not None:
            parts.append(f"later {self._value(s.later)} parts {s.parts}")
        self._line(" ".join(parts))

    def _turn_tile(self, s: TurnTile) -> None:
        size = f"{self._value(s.height)} by {self._value(s.width)}"
        masked = " masked" if s.masked else ""
        self._line(f"turn {s.dtype} {size} from {self._place(s.tile)} {self._to(s)}{masked}")

    def _touch(self, s: Touch) -> None:
        self._line(f"touch b{s.buffer}[{s.address}] count {s.count}{' write' if s.write else ''}")

    def _tile(self, s: Tile) -> None:
        self._line(f"tile d{s.corner}")
        self._body(s.points)

    def _let(self, s: Let) -> None:
        values = [self._value(x) for x in s.values]
        if not s.names:
            self._line(f"compute {', '.join(values)}")
        for name, value in zip(s.names, values):
            self._line(f"let {self._name(name)}:{name.dtype} = {value}")

    def _reduce(self, s: Reduce) -> None:
        values = ", ".join([self._value(x) for x in s.values])
        accs = ", ".join(map(self._name, s.accs))
        results = ", ".join([f"{self._name(x)}:{x.dtype}" for x in s.results])
        self._line(f"reduce {how_text(s.how)} {values} onto {accs} -> {results}")

    def _running(self, s: Running) -> None:
        values = ", ".join([self._value(x) for x in s.scan.values])
        accs = ", ".join(map(self._name, s.scan.accs))
        for x in s.scan.results:  # which are known from here on, whatever they are made of
            self.names.setdefault(x, f"r{len(self.names)}")
        results = ", ".join([f"{self._name(x)}:{x.dtype}" for x in s.scan.results])
        last = ", ".join([f"{self._name(x)}:{x.dtype}" for x in s.last])
        self.known |= set(s.scan.results)
        self._line(f"running {how_text(s.scan.how)} {values} after {accs} -> {results} last {last}")

    def _prefetch(self, s: Prefetch) -> None:
        self._line(f"prefetch b{s.buffer}[{s.address}] along d{s.dim}")

    def _poll(self, s: Poll) -> None:
        self._line("poll")

    def _store(self, s: Store) -> None:
        value = self._value(s.value)
        place = str(s.address) + ("" if s.offset is None else self._offset(s.offset))
        sign = f"{how_text(s.combine)}=" if s.combine else "="
        line = f"b{s.buffer}[{place}] {sign} {value}"
        if s.guard is not None:
            line += f" if {self._value(s.guard)}"
        if s.independent is not None:
            line += f" once along({' '.join(f'd{d}' for d in sorted(s.independent))})"
        self._line(line + (" streams" if s.streams else ""))


_WRITTEN: Final[dict[type, Callable[[_Text, Any], None]]] = {
    Loop: _Text._loop,
    While: _Text._while,
    Bind: _Text._bind,
    If: _Text._if,
    Tile: _Text._tile,
    TileSum: _Text._tile_sum,
    TurnTile: _Text._turn_tile,
    Touch: _Text._touch,
    Let: _Text._let,
    Reduce: _Text._reduce,
    Running: _Text._running,
    Prefetch: _Text._prefetch,
    Poll: _Text._poll,
    Store: _Text._store,
}


def _short(node: Scalar) -> str | None:
    """What needs no line of its own."""
    op, attr = node.op, node.attr
    if op == "const":
        return number_text(attr, node.dtype)
    if op == "dim":
        return f"d{attr}" if node.dtype == INDEX else f"d{attr}:{node.dtype}"
    if op == "int":
        return f"#{attr}:{node.dtype}"
    if op == "given":
        return f"given({attr}):{node.dtype}"
    if op == "number":
        key, value = attr
        return f"{key}({value})" if type(key) is str else f"extent(d{key[1]}, {value})"
    if op == "units":
        return str(attr)
    return "tail" if op == "tail" else None


def _attribute(node: Scalar) -> str:
    op, attr = node.op, node.attr
    if attr is None:
        return ""
    if op == "across":
        how, n, lanes = attr
        return f"[{how_text(how)}; {n}; {lanes}]"
    if op == "line":
        buffer, address, dim = attr
        return f"[b{buffer}; {address}; d{dim}]"
    if op == "lanes":
        return f"[{'; '.join([number_text(x, node.dtype) for x in attr])}]"
    return f"[{'; '.join(map(str, attr)) if isinstance(attr, tuple) else attr}]"
