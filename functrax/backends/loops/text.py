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

Start at :func:`text`; ``loops/grammar.py`` has the lines of statements, ``loops/parse.py`` reads.
"""

from __future__ import annotations

from typing import Any, Final

from functrax.backends.kernels.ir import Kernel, Store
from functrax.backends.loops.build import build
from functrax.backends.loops.grammar import STATEMENTS, how_text, number_text
from functrax.backends.loops.tree import INDEX, Body, Function, If, Let, Tile, While
from functrax.core.records import replace
from functrax.core.scalars.scalar import Scalar

#: Leaves that are named where they are bound.
_NAMED: Final = frozenset(("acc", "result"))


def text(function: Function) -> str:
    """A tree as text."""
    return _Text(function).all()


def kernel_text(kernel: Kernel) -> str:
    """A kernel as text: its plain tree, and what was done and will be done to it."""
    lines = [text(build(kernel)).rstrip()]
    if kernel.tiling is not None:
        lines.append(f"  {kernel.tiling}")
    if kernel.rewrites or kernel.schedule:
        lines.append("  schedule:")
        lines += [f"    {x}" for x in (*kernel.rewrites, *kernel.schedule)]
    return "\n".join(lines)


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
            kind = (
                "shared" if x.shared else "scratch" if x.scratch else "out" if x.written else "in"
            )
            alias = "" if x.alias is None else f" of b{x.alias}"
            updated = " updated" if n in f.updated else ""
            self._line(f"{kind} b{n}: {x.dtype}[{x.size}]{alias}{updated}")
        self._line(f"extents {' '.join(map(str, f.extents))}")
        self._line(f"units {f.units}, points {f.points}, work {f.work}")
        if f.group:
            resident = f", {f.resident} at once" if f.resident > 1 else ""
            self._line(f"groups of {f.group} threads{resident}")
        if f.vector is not None:
            self._line(f"lanes {f.lanes} along d{f.vector}")
        if f.tile is not None:
            self._line(f"tiles along d{f.tile}")
        if f.fetches:
            self._line("fetches")
        self._statements(f.body)
        return "\n".join(self.lines) + "\n"

    def _line(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    # ---- values ---------------------------------------------------------------------------------

    def value(self, root: Scalar) -> str:
        """The name of a value, which has a line from here on; or what it is, if that is short."""
        stack = [root]
        while stack:
            node = stack[-1]
            is_missing = self._is_missing(node)
            before = [x for x in node.args[::-1] if is_missing and self._is_missing(x)]
            stack += before
            if before:
                continue
            stack.pop()
            if is_missing:
                self.known.add(node)
                right = self._right(node)
                self._line(f"{self._name(node)}:{node.dtype} = {right}")
        return self._shown(root)

    def _is_missing(self, node: Scalar) -> bool:
        """Whether a value has to have a line before it is used."""
        return node not in self.known and _short(node) is None and node.op not in _NAMED

    def offset(self, x: Scalar) -> str:
        """What is added to an address; an index with its dtype, for it is no part of that."""
        is_index = x.op == "dim" and x.dtype == INDEX
        return f"{self.value(x)}:{INDEX}" if is_index else self.value(x)

    def defined(self, x: Scalar) -> str:
        """The name of a leaf that stands for something from here on, and its dtype."""
        self.known.add(x)
        return f"{self.names.setdefault(x, f'r{len(self.names)}')}:{x.dtype}"

    def _shown(self, node: Scalar) -> str:
        return _short(node) or self._name(node)

    def _name(self, node: Scalar) -> str:
        return self.names.setdefault(node, f"{'r' if node.op in _NAMED else 'v'}{len(self.names)}")

    def _right(self, node: Scalar) -> str:
        args = [self._shown(x) for x in node.args]
        if node.op == "load":
            buffer, address, has_offset, has_guard = node.attr
            place = str(address) + (f" + {args[0]}" if has_offset else "")
            return f"b{buffer}[{place}]" + (f" if {args[-1]}" if has_guard else "")
        return f"{node.op}{_attribute(node)}({', '.join(args)})"

    # ---- statements -----------------------------------------------------------------------------

    def _statements(self, body: Body) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, s: Any) -> None:
        for c in getattr(s, "carries", ()):
            self.value(c.first)
        if type(s) is Store:
            self.value(s.value)
        lines = [s]
        if type(s) is Let and s.names:
            for x in s.values:
                self.value(x)
            lines = [replace(s, names=(x,), values=(y,)) for x, y in zip(s.names, s.values)]
        for x in lines:
            self._line(STATEMENTS[type(x)].write(self, x))
        if type(s) is If:
            self._block(s, s.body)
            if s.otherwise:
                self._line("else")
                self._block(s, s.otherwise)
        elif type(s) is Tile or hasattr(s, "body"):
            self._block(s, s.points if type(s) is Tile else s.body)

    def _block(self, s: Any, body: Body) -> None:
        """What a loop carries, what is in it, and what that makes of what it carries."""
        before, self.known = self.known, set(self.known)
        carries = getattr(s, "carries", ())
        self.depth += 1
        for c in carries:
            acc, result = self._name(c.acc), self._name(c.result)
            self._line(
                f"carry {acc}: {c.acc.dtype}[{c.lanes}] = {self._shown(c.first)}"
                f" -> {result}{'' if c.varies else ' for all lanes'}"
            )
        if type(s) is While:
            self._line(f"condition {self.value(s.condition)}")
        self._statements(body)
        for c in carries:
            self._line(f"next {self._name(c.acc)} = {self.value(c.new)}")
        self.depth -= 1
        self.known = before


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
    return op if op in ("tail", "first") else None


def _attribute(node: Scalar) -> str:
    op, attr = node.op, node.attr
    if attr is None:
        return ""
    if op == "across":
        how, n, lanes = attr
        return f"[{how_text(how)}; {n}; {lanes}]"
    if op == "together":
        how, n = attr
        return f"[{how_text(how)}; {n}]"
    if op == "line":
        buffer, address, dim = attr
        return f"[b{buffer}; {address}; d{dim}]"
    if op == "lanes":
        return f"[{'; '.join([number_text(x, node.dtype) for x in attr])}]"
    return f"[{'; '.join(map(str, attr)) if isinstance(attr, tuple) else attr}]"
