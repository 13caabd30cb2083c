"""Lines of LLVM IR, loop by loop: what every part of the emitter writes to.

Each open loop is a :class:`Level` with the lines of its body so far.  A node goes to the innermost
level whose index it depends on, so what does not change in a loop is computed before it; what has
been computed is :class:`Known` by its node's identity (or by a key of its own) until the level is
closed.  What depends on sizes is a number that is given when the kernel runs
(:meth:`Writer.number`) and is read at the top of the function, in the header.

Start at :meth:`Writer.line` and :meth:`Writer.open_loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.llvm.templates import below, constant, lane_order, llvm_type, splat
from functrax.backends.loops.tree import Function
from functrax.core.scalars.scalar import Scalar

#: The name that every kernel has in its text; it gets one of its own when it is compiled.
NAME: Final = "functrax_kernel"
_BOOL: Final = np.dtype(np.bool_)

#: A loop is asked to end after about 2 to this power of operations, a power of two of steps.
WORK_BETWEEN: Final = 17


class Known:
    """The name of a node's value, whether it is a vector, in which level it is, and its lanes."""

    __slots__ = ("lanes", "level", "name", "vector")

    def __init__(self, name: str, vector: bool, level: int, lanes: int = 1) -> None:
        self.name, self.vector, self.level, self.lanes = name, vector, level, lanes


class Level:
    """An open loop.

    Attributes:
      lines: of its body so far.
      known: what is forgotten when the loop is closed.
      block: the label of the block that its lines are in now.
    """

    __slots__ = ("block", "known", "lines")

    def __init__(self, block: str = "entry") -> None:
        self.lines: list[str] = []
        self.known: list[Any] = []
        self.block = block


Names: TypeAlias = list[str]
#: The types and first names of what a loop carries.
Carried: TypeAlias = list[tuple[str, str]]


class Writer:
    """The text of one kernel so far.

    Args:
      kernel: its tree; of a contraction without statements.
    """

    def __init__(self, kernel: Function) -> None:
        self.kernel = kernel
        self.builder = kernel.builder
        self.levels = [Level()]
        self.known: dict[Any, Known] = {}
        self.level_of_dim: dict[int, int] = {}
        #: The run-time arguments.
        self.numbers: list[int] = []
        #: The modules whose functions it calls, by the arguments that are their addresses.
        self.functions: dict[int, str] = {}
        #: The lines at the top of the function.
        self.header: list[str] = []
        #: The labels of the open loops.
        self.open: list[str] = []
        self._begun: list[tuple[str, str, Carried]] = []
        #: The lanes of a vector; fewer while the lanes of one are added up.
        self.lanes = kernel.lanes if kernel.vector is not None else 1
        #: Whether a vector may reach past the extent; the mask of the lanes that do not.
        self.masked = False
        self.tail: Scalar | None = None
        #: The level of the loop over the vector dim while that is open, else -1.
        self.vector_level = -1
        #: Whether a long loop looks now and then whether it is to end.
        self.looks = False
        self._counter = 0
        self._number_of: dict[Any, str] = {}

    def count(self) -> int:
        """The next number, for a label or a key that no other has."""
        self._counter += 1
        return self._counter

    def fresh(self) -> str:
        """A name that no other value has."""
        self._counter += 1
        return f"%v{self._counter}"

    def line(self, right: str, level: int = -1) -> str:
        """Write an instruction in a level, else the innermost; the name of what it computes."""
        name = self.fresh()
        self.levels[level].lines.append(f"  {name} = {right}")
        return name

    def do(self, text: str, level: int = -1) -> None:
        """Write an instruction that gives no value."""
        self.levels[level].lines.append(f"  {text}")

    def know(
        self, key: Any, name: str, vector: bool, level: int, lanes: int | None = None
    ) -> Known:
        """Remember a name until its level is closed; a vector has all lanes, or those given."""
        if lanes is None:
            lanes = self.lanes if vector else 1
        found = self.known[key] = Known(name, vector, level, lanes)
        self.levels[level].known.append(key)
        return found

    def same(self, node: Scalar, found: Known, level: int) -> None:
        """Remember that a node has a value that is known."""
        self.know(id(node), found.name, found.vector, level, found.lanes)

    def number(self, value: int, key: Any) -> str:
        """The name of a run-time argument; the same key, the same argument."""
        name = self._number_of.get(key)
        if name is None:
            n = len(self.numbers)
            self.numbers.append(value)
            name = self._number_of[key] = f"%n{n}"
            self.header.append(f"  %np{n} = getelementptr i64, ptr %numbers, i64 {n}")
            self.header.append(f"  {name} = load i64, ptr %np{n}")
        return name

    def table(self, values: Sequence[int]) -> str:
        """A pointer to run-time arguments that are side by side."""
        begin = len(self.numbers)
        self.numbers += values
        self.header.append(f"  %table{begin} = getelementptr i64, ptr %numbers, i64 {begin}")
        return f"%table{begin}"

    def function(self, text: str) -> str:
        """A pointer to a function that has a module of its own; its address is an argument."""
        name = self.number(0, ("function", text))
        if int(name[2:]) not in self.functions:
            self.header.append(f"  {name}.function = inttoptr i64 {name} to ptr")
        self.functions[int(name[2:])] = text
        return f"{name}.function"

    def narrow(self, name: str, type_: str = "i32") -> str:
        """A run-time argument as a narrower integer."""
        narrow = f"{name}.{type_}"
        if (type_, name) not in self._number_of:
            self._number_of[type_, name] = narrow
            self.header.append(f"  {narrow} = trunc i64 {name} to {type_}")
        return narrow

    def splat(self, name: str, dtype: np.dtype[Any], level: int, lanes: int | None = None) -> str:
        """A scalar in every lane."""
        lanes = self.lanes if lanes is None else lanes
        element = llvm_type(dtype, 1)
        if dtype.kind == "c":
            mask = lane_order([0, 1] * lanes)
            return self.line(f"shufflevector {element} {name}, {element} poison, {mask}", level)
        return splat(lambda x: self.line(x, level), name, element, lanes)

    def operand(self, node: Scalar) -> Known:
        """What is known of a computed node."""
        if node.op == "const":
            return Known(constant(node.attr, node.dtype, 1), False, 0)
        return self.known[id(node)]

    def as_vector(self, node: Scalar, lanes: int | None = None) -> str:
        """The value of a computed node in all lanes, or in so many."""
        lanes = self.lanes if lanes is None else lanes
        if node.op == "const":
            return constant(node.attr, node.dtype, lanes)
        found = self.known[id(node)]
        if found.vector:
            return found.name
        key = ("splat", id(node), lanes)
        splat = self.known.get(key)
        if splat is None:
            name = self.splat(found.name, node.dtype, found.level, lanes)
            splat = self.know(key, name, True, found.level, lanes)
        return splat.name

    def in_lanes(self, node: Scalar, lanes: int) -> str:
        """The value of a computed node in so many lanes, which may be one."""
        return self.operand(node).name if lanes == 1 else self.as_vector(node, lanes)

    def define_tail(self, dim: int, index: str, high: str) -> None:
        """A mask of the lanes that are inside the extent of a dim."""
        left = self.line(f"sub i64 {high}, {index}")
        self.know("inside", left, False, len(self.levels) - 1)
        name = below(self.line, left, self.lanes, self.kernel.extents[dim])
        self.tail = self.builder.node("tail", _BOOL)
        self.know(id(self.tail), name, True, len(self.levels) - 1)

    def define_dim(self, d: int, index: str) -> None:
        """Give a dim its index in the innermost level."""
        self.level_of_dim[d] = len(self.levels) - 1
        self.know(("dim", d), index, False, len(self.levels) - 1)

    def loop_index(self) -> str:
        """The index of the innermost loop."""
        return f"%{self.open[-1]}.i"

    def look(self) -> None:
        """Ask once in many steps of the innermost loop whether the kernel is to end now.

        What is asked stands in front of the addresses of the arrays: null, or a pointer to
        something whose first word is a function of that pointer.
        """
        self.looks = True
        steps = 1 << max(0, WORK_BETWEEN - self.kernel.work.bit_length())
        label, level = self.open[-1], self.levels[-1]
        level.lines += [
            f"  %{label}.seldom = and i64 {self.loop_index()}, {steps - 1}",
            f"  %{label}.now = icmp eq i64 %{label}.seldom, {steps - 1}",
            f"  br i1 %{label}.now, label %{label}.look, label %{label}.step, !prof !1",
            f"{label}.look:",
            f"  %{label}.place = getelementptr ptr, ptr %buffers, i64 -1",
            f"  %{label}.asked = load ptr, ptr %{label}.place",
            f"  %{label}.nobody = icmp eq ptr %{label}.asked, null",
            f"  br i1 %{label}.nobody, label %{label}.step, label %{label}.ask",
            f"{label}.ask:",
            f"  %{label}.function = load ptr, ptr %{label}.asked",
            f"  %{label}.answer = call i32 %{label}.function(ptr %{label}.asked)",
            f"  %{label}.ends = icmp ne i32 %{label}.answer, 0",
            f"  br i1 %{label}.ends, label %stopped, label %{label}.step",
            f"{label}.step:",
        ]
        level.block = f"{label}.step"

    def open_level(self, block: str) -> str:
        """Begin a level, whose first lines are in a block; that block."""
        self.levels.append(Level(block))
        return block

    def close_level(self) -> list[str]:
        """End the innermost level and forget what is known in it; its lines."""
        level = self.levels.pop()
        for key in level.known:
            self.known.pop(key, None)
        return level.lines

    def join_level(self) -> None:
        """End the innermost level, whose lines are done in the level around it in any case."""
        block, lines = self.levels[-1].block, self.close_level()
        self.levels[-1].lines += lines
        self.levels[-1].block = block

    def open_branch(self) -> str:
        """Begin a level that is done only where a condition of the level around it holds, or only
        where it does not; its label.
        """
        label = f"if{self.count()}"
        self.open_level(f"{label}.then")
        return label

    def close_branch(self, label: str, holds: str, negated: bool = False) -> None:
        """End the level of a label, which is done where a bool holds, or where it does not."""
        lines = self.close_level()
        outer = self.levels[-1]
        ways = [f"label %{label}.then", f"label %{label}"]
        first, second = reversed(ways) if negated else ways
        outer.lines += [f"  br i1 {holds}, {first}, {second}", f"{label}.then:", *lines]
        outer.lines += [f"  br label %{label}", f"{label}:"]
        outer.block = label

    def open_loop(self, low: str, carried: Carried) -> Names:
        """Begin a loop from ``low`` on; the names in it of what it carries."""
        before = self.levels[-1].block
        label = f"loop{self.count()}"
        self.open_level(label)
        lines = self.levels[-1].lines
        index = f"phi i64 [ {low}, %{before} ], [ %{label}.next, %{label}.end ]"
        lines += [f"{label}:", f"  %{label}.i = {index}"]
        self.open.append(label)
        self._begun.append((before, low, carried))
        # What comes from the end of the body is known then, and written by `close_loop`.
        return [self.line(f"phi {type_} [ {name}, %{before} ], ") for type_, name in carried]

    def leave_unless(self, holds: str) -> None:
        """End the innermost loop here where a bool does not hold."""
        label, level = self.open[-1], self.levels[-1]
        level.lines.append(f"  br i1 {holds}, label %{label}.body, label %{label}.exit")
        level.lines.append(f"{label}.body:")
        level.block = f"{label}.body"

    def close_loop(
        self, step: str, high: str | None, new: Names, maybe_empty: bool = False
    ) -> Names:
        """End the body; without ``high`` the loop itself says when it ends."""
        label, (before, low, first) = self.open.pop(), self._begun.pop()
        lines = self.close_level()
        lines += [f"  br label %{label}.end", f"{label}.end:"]
        for k, value in enumerate(new, 2):  # after the label and the index
            lines[k] += f"[ {value}, %{label}.end ]"
        lines.append(f"  %{label}.next = add nsw i64 %{label}.i, {step}")
        if high is None:
            lines.append(f"  br label %{label}")
        else:
            lines.append(f"  %{label}.more = icmp slt i64 %{label}.next, {high}")
            lines.append(f"  br i1 %{label}.more, label %{label}, label %{label}.exit")
        lines.append(f"{label}.exit:")
        outer = self.levels[-1]
        results = new
        if not maybe_empty:
            outer.lines.append(f"  br label %{label}")
        else:
            outer.lines.append(f"  %{label}.any = icmp slt i64 {low}, {high}")
            outer.lines.append(f"  br i1 %{label}.any, label %{label}, label %{label}.exit")
            results = [self.fresh() for _ in new]
            for (type_, start), value, out in zip(first, new, results, strict=True):
                sources = f"[ {start}, %{before} ], [ {value}, %{label}.end ]"
                lines.append(f"  {out} = phi {type_} {sources}")
        outer.lines.extend(lines)
        outer.block = f"{label}.exit"
        return results
