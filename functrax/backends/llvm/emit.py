"""From a scheduled kernel to LLVM IR.

The text is written already vectorised, so LLVM needs no passes over it.  A kernel is a function

    void kernel(void** buffers, const int64_t* numbers, int64_t begin, int64_t end)

that does the units of work from ``begin`` to ``end``.  What depends on sizes (extents, strides,
offsets) is read from ``numbers``: kernels that differ in those only have the same text, and are
compiled once.

Text is written loop by loop.  Each open loop is a :class:`_Level` with the lines of its body so
far; a node goes to the innermost level whose index it depends on, so what does not change in a
loop is computed before it.  A node is a vector if it depends on the vector dim, else a scalar,
which is copied into all lanes where a vector is wanted.

Start at :func:`emit_kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Carry, Kernel, Reduce, Stage, Store
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.kernels.schedule import coefficient
from functrax.backends.llvm.instructions import (
    OPERATIONS,
    constant,
    definitions,
    emit,
    llvm_type,
)
from functrax.core.errors import VerificationError
from functrax.core.index_expr import Dim, IndexExpr, add_terms
from functrax.core.lowering import Scalar

#: The name that every kernel has in its text; it gets one of its own when it is compiled.
NAME = "functrax_kernel"
#: The last vector of a row is computed apart from the others if it is one of this many, and if a
#: point has no more operations than this.
LEAST_VECTORS = 4
WORK_TWICE = 32
#: Arrays of this many bytes are written past the caches: they would only push out others.
STREAMED = 1 << 24
CACHE_LINE = 64
_BOOL = np.dtype(np.bool_)
_INT32 = np.dtype(np.int32)
_INT64 = np.dtype(np.int64)


@dataclass(frozen=True)
class Emitted:
    """A kernel as text.

    Args:
      text: LLVM IR of a module with one function, ``NAME``.
      numbers: the run-time arguments.
    """

    text: str
    numbers: tuple[int, ...]


class _Known:
    """The name of a node's value, whether it is a vector, and in which level it is."""

    __slots__ = ("level", "name", "vector")

    def __init__(self, name: str, vector: bool, level: int) -> None:
        self.name, self.vector, self.level = name, vector, level


@dataclass
class _Level:
    """An open loop."""

    lines: list[str] = field(default_factory=list)
    #: What is forgotten when the loop is closed.
    known: list[Any] = field(default_factory=list)
    #: The label of the block that its lines are in now.
    block: str = "entry"


Names: TypeAlias = list[str]


def emit_kernel(kernel: Kernel, contract: bool = True) -> Emitted:
    """The LLVM IR of a scheduled kernel.

    Args:
      kernel: with a schedule.
      contract: whether a product and a sum of different operations may become one fma.
    """
    return _Emitter(kernel, contract).run()


class _Emitter:
    def __init__(self, kernel: Kernel, contract: bool) -> None:
        self.kernel = kernel
        self.contract = contract
        self.b = kernel.builder
        self.levels = [_Level()]
        self.known: dict[Any, _Known] = {}
        self.level_of_dim: dict[int, int] = {}
        self.counter = 0
        self.numbers: list[int] = []
        self.number_of: dict[Any, str] = {}
        self.header: list[str] = []
        #: The labels of the open loops.
        self.open: list[str] = []
        self.shared_range = ("", "")
        self.tile_lane = 0
        #: For each array and address the loop in which its tile was read, and its rows.
        self.tiles: dict[tuple[int, IndexExpr], tuple[str, Names]] = {}
        self.lanes = kernel.lanes if kernel.vector is not None else 1
        self.masked = self._needs_mask()
        self.tail: Scalar | None = None
        self.vector_level = -1
        #: Whether anything is stored past the caches, which needs a fence in the end.
        self.streams = False

    def _needs_mask(self) -> bool:
        k = self.kernel
        if k.vector is None or self.lanes == 1:
            return False
        if k.extents[k.vector] % self.lanes:
            return True
        return k.vector == k.shared and k.grain % self.lanes != 0

    # ---- the function -------------------------------------------------------------------------

    def run(self) -> Emitted:
        k = self.kernel
        for n, operand in enumerate(k.operands):
            if operand.scratch:
                size = self._number(operand.size, ("scratch", n))
                element = self._memory_type(operand.dtype)
                self.header.append(f"  %b{n} = alloca {element}, i64 {size}, align 64")
                continue
            self.header.append(f"  %bp{n} = getelementptr ptr, ptr %buffers, i64 {n}")
            self.header.append(f"  %b{n} = load ptr, ptr %bp{n}")
        if k.shared is None:
            self._nest(k.outer, [], self._row)
        else:
            self._units()
        body = self.levels[0].lines
        text = "\n".join([*self.header, *body])
        parts = [
            definitions(text),
            f"define void @{NAME}(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) {{",
            "entry:",
            text,
            *(["  fence seq_cst"] if self.streams else []),
            "  ret void",
            "}",
            *(["!0 = !{i32 1}"] if self.streams else []),
        ]
        return Emitted("\n".join(p for p in parts if p) + "\n", tuple(self.numbers))

    def _units(self) -> None:
        """The loop over units, which gives the shared dim its range."""
        grain = self._number(self.kernel.grain, "grain")
        self._open_loop("%begin", [])
        unit = self._loop_index()
        if self.kernel.unit is not None:
            self._define_dim(self.kernel.unit, unit)
        low = self._line(f"mul i64 {unit}, {grain}")
        high = self._line(f"add i64 {low}, {grain}")
        extent = self._extent(self.kernel.shared)
        below = self._line(f"icmp slt i64 {high}, {extent}")
        high = self._line(f"select i1 {below}, i64 {high}, i64 {extent}")
        self.shared_range = (low, high)
        self._nest(self.kernel.outer, [], self._row)
        self._close_loop("1", "%end", [])

    def _row(self, carried: Names) -> Names:
        """Everything inside the outer loops."""
        for stage in self.kernel.stages:
            self._stage(stage)
        if self.kernel.tile is not None:
            self._tile()
        else:
            for store in self.kernel.rows:
                self._store(store)
        return carried

    def _tile(self) -> None:
        """The stores for each of ``lanes`` points of the tile dim."""
        tile, index = self.kernel.tile, self._loop_index()
        assert tile is not None
        whole = self.kernel.extents[tile] % self.lanes == 0
        high = self._extent(tile)
        for k in range(self.lanes):
            self.levels.append(_Level(block=self.levels[-1].block))
            self.tile_lane = k
            here = self._line(f"add i64 {index}, {k}")
            self._define_dim(tile, here)
            label = f"tile{self._count()}"
            if not whole:
                inside = self._line(f"icmp slt i64 {here}, {high}")
                level = self.levels[-1]
                level.lines.append(f"  br i1 {inside}, label %{label}, label %{label}.end")
                level.lines.append(f"{label}:")
            for store in self.kernel.rows:
                self._store(store)
            closed = self.levels.pop()
            for key in closed.known:
                self.known.pop(key, None)
            outer = self.levels[-1]
            outer.lines.extend(closed.lines)
            if not whole:
                outer.lines += [f"  br label %{label}.end", f"{label}.end:"]
                outer.block = f"{label}.end"

    def _tile_rows(self, buffer: int, address: IndexExpr, stride: int) -> Names:
        """A tile of an array that is contiguous along the tile dim: a vector for each point of it.

        Rows along the tile dim are read, and transposed in registers.
        """
        level = len(self.levels) - 2  # once for all points of the tile
        found = self.tiles.get((buffer, address))
        if found is not None and found[0] == self.open[-1]:
            return found[1]
        dtype = self.kernel.operands[buffer].dtype
        type_ = self._memory_type(dtype, self.lanes)
        others = [(a, c) for a, c in address.terms if a.dims_mask != 1 << (self.kernel.tile or 0)]
        base, _, _ = self._pointer(buffer, add_terms(address.const, others))
        element = self._memory_type(dtype)
        base = self._line(f"getelementptr {element}, ptr {base}, i64 {self._loop_index()}", level)
        step = self._number(stride, ("stride", buffer, self.kernel.vector, stride))
        mask = self._tile_mask(level)
        rows = []
        for k in range(self.lanes):
            offset = self._line(f"mul nsw i64 {step}, {self._tile_row(k, level)}", level)
            pointer = self._line(f"getelementptr {element}, ptr {base}, i64 {offset}", level)
            rows.append(self._load_lanes(type_, dtype, pointer, mask, level))
        rows = self._transposed(type_, rows, level)
        self.tiles[buffer, address] = (self.open[-1], rows)
        return rows

    def _tile_row(self, k: int, level: int) -> str:
        """The number of a lane of the vector dim, or of the last one inside its extent."""
        if not self.masked or k == 0:
            return str(k)
        key = ("tile row", k)
        found = self.known.get(key)
        if found is None:
            count = self.known["inside"].name
            last = self._line(f"sub i64 {count}, 1", level)
            more = self._line(f"icmp slt i64 {k}, {count}", level)
            name = self._line(f"select i1 {more}, i64 {k}, i64 {last}", level)
            found = self._know(key, name, False, level)
        return found.name

    def _tile_mask(self, level: int) -> str | None:
        """The points of a tile that are inside the extent of the tile dim; None for all."""
        tile = self.kernel.tile
        assert tile is not None
        if self.kernel.extents[tile] % self.lanes == 0:
            return None
        left = self._line(f"sub i64 {self._extent(tile)}, {self._loop_index()}", level)
        narrow = self._line(f"trunc i64 {left} to i32", level)
        count = self._splat(narrow, _INT32, self.levels[level].lines)
        iota = self._iota(_INT32)
        return self._line(f"icmp slt <{self.lanes} x i32> {iota}, {count}", level)

    def _transposed(self, type_: str, rows: Names, level: int) -> Names:
        """A square of elements, its rows as columns, by exchanging ever larger blocks."""
        lanes = self.lanes
        distance = 1
        while distance < lanes:
            new = list(rows)
            for i in range(lanes):
                if i & distance:
                    continue
                a, b = rows[i], rows[i + distance]
                low = [k if not k & distance else lanes + k - distance for k in range(lanes)]
                high = [k + distance if not k & distance else lanes + k for k in range(lanes)]
                for place, mask in ((i, low), (i + distance, high)):
                    text = ", ".join(f"i32 {m}" for m in mask)
                    new[place] = self._line(
                        f"shufflevector {type_} {a}, {type_} {b}, <{lanes} x i32> <{text}>", level
                    )
            rows = new
            distance *= 2
        return rows

    # ---- loops --------------------------------------------------------------------------------

    def _nest(
        self,
        dims: Sequence[int],
        carried: list[tuple[str, str]],
        body: Callable[[Names], Names],
    ) -> Names:
        """Loops over dims, which carry values of ``(type, name)``; returns their last names."""
        if not dims:
            return body([name for _, name in carried])
        d = dims[0]
        low, high = "0", self._extent(d)
        if d == self.kernel.shared:
            low, high = self.shared_range
        if d != self.kernel.vector or not self._has_own_tail():
            return self._loop(dims, low, high, carried, body)
        length = self._line(f"sub i64 {high}, {low}")
        whole = self._line(f"and i64 {length}, {-self.lanes}")
        middle = self._line(f"add i64 {low}, {whole}")
        perhaps = d == self.kernel.shared  # a unit may have whole vectors only, or none
        self.masked = False
        names = self._loop(dims, low, middle, carried, body, perhaps)
        self.masked = True
        types = [type_ for type_, _ in carried]
        rest = list(zip(types, names, strict=True))
        return self._loop(dims, middle, high, rest, body, perhaps)

    def _has_own_tail(self) -> bool:
        """Whether the last vector of a row has a loop of its own, so that others need no mask."""
        k = self.kernel
        if not self.masked or k.tile is not None or k.vector is None:
            return False
        work = sum(1 for node in k.nodes() if node.args or node.op == "load")
        return work <= WORK_TWICE and k.extents[k.vector] >= LEAST_VECTORS * self.lanes

    def _loop(
        self,
        dims: Sequence[int],
        low: str,
        high: str,
        carried: list[tuple[str, str]],
        body: Callable[[Names], Names],
        perhaps: bool = False,
    ) -> Names:
        """The loop over the first of the dims; ``perhaps`` it has no steps."""
        d = dims[0]
        types = [type_ for type_, _ in carried]
        skipped = (self.levels[-1].block, low, carried) if perhaps else None
        names = self._open_loop(low, carried)
        index = self._loop_index()
        self._define_dim(d, index)
        step = "1"
        if d == self.kernel.tile:
            step = str(self.lanes)
        elif d == self.kernel.vector and self.lanes > 1:
            step = str(self.lanes)
            self.vector_level = len(self.levels) - 1
            if self.masked:
                self._define_tail(index, high)
        new = self._nest(dims[1:], list(zip(types, names, strict=True)), body)
        if d == self.kernel.vector:
            self.vector_level = -1
        return self._close_loop(step, high, new, skipped)

    def _open_loop(self, low: str, carried: list[tuple[str, str]]) -> Names:
        before = self.levels[-1].block
        label = f"loop{self._count()}"
        self.levels.append(_Level(block=label))
        names = []
        lines = self.levels[-1].lines
        lines.append(f"{label}:")
        index = f"%{label}.i"
        lines.append(f"  {index} = phi i64 [ {low}, %{before} ], [ %{label}.next, %{label}.end ]")
        for type_, name in carried:
            fresh = self._fresh()
            # What comes from the end of the body is known then, and written by `_close_loop`.
            lines.append(f"  {fresh} = phi {type_} [ {name}, %{before} ], ")
            names.append(fresh)
        self.open.append(label)
        return names

    def _loop_index(self) -> str:
        return f"%{self.open[-1]}.i"

    def _close_loop(
        self,
        step: str,
        high: str | None,
        new: Names,
        skipped: tuple[str, str, list[tuple[str, str]]] | None = None,
    ) -> Names:
        """End the body; without ``high`` the loop itself says when it ends.

        A loop that may have no steps comes with the block before it, where it begins, and the types
        and names of what it carries at first.
        """
        label = self.open.pop()
        level = self.levels.pop()
        lines = level.lines
        lines.append(f"  br label %{label}.end")
        lines.append(f"{label}.end:")
        for k, value in enumerate(new, 2):  # after the label and the index
            lines[k] += f"[ {value}, %{label}.end ]"
        lines.append(f"  %{label}.next = add nsw i64 %{label}.i, {step}")
        if high is None:
            lines.append(f"  br label %{label}")
        else:
            lines.append(f"  %{label}.more = icmp slt i64 %{label}.next, {high}")
            lines.append(f"  br i1 %{label}.more, label %{label}, label %{label}.exit")
        lines.append(f"{label}.exit:")
        for key in level.known:
            self.known.pop(key, None)
        outer = self.levels[-1]
        results = new
        if skipped is None:
            outer.lines.append(f"  br label %{label}")
        else:
            before, low, first = skipped
            outer.lines.append(f"  %{label}.any = icmp slt i64 {low}, {high}")
            outer.lines.append(f"  br i1 %{label}.any, label %{label}, label %{label}.exit")
            results = [self._fresh() for _ in new]
            for (type_, start), value, out in zip(first, new, results, strict=True):
                sources = f"[ {start}, %{before} ], [ {value}, %{label}.end ]"
                lines.append(f"  {out} = phi {type_} {sources}")
        outer.lines.extend(lines)
        outer.block = f"{label}.exit"
        return results

    def _define_dim(self, d: int, index: str) -> None:
        self.level_of_dim[d] = len(self.levels) - 1
        self._know(("dim", d), index, False, len(self.levels) - 1)

    def _define_tail(self, index: str, high: str) -> None:
        """A mask of the lanes that are inside the extent."""
        left = self._line(f"sub i64 {high}, {index}")
        self._know("inside", left, False, len(self.levels) - 1)
        narrow = self._line(f"trunc i64 {left} to i32")
        count = self._splat(narrow, _INT32, self.levels[-1].lines)
        name = self._line(f"icmp slt <{self.lanes} x i32> {self._iota(_INT32)}, {count}")
        self.tail = self.b.node("tail", _BOOL)
        self._know(id(self.tail), name, True, len(self.levels) - 1)

    # ---- names and lines ----------------------------------------------------------------------

    def _count(self) -> int:
        self.counter += 1
        return self.counter

    def _fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def _line(self, right: str, level: int = -1) -> str:
        name = self._fresh()
        self.levels[level].lines.append(f"  {name} = {right}")
        return name

    def _know(self, key: Any, name: str, vector: bool, level: int) -> _Known:
        found = self.known[key] = _Known(name, vector, level)
        self.levels[level].known.append(key)
        return found

    def _number(self, value: int, key: Any) -> str:
        """A run-time argument."""
        name = self.number_of.get(key)
        if name is None:
            n = len(self.numbers)
            self.numbers.append(value)
            name = self.number_of[key] = f"%n{n}"
            self.header.append(f"  %np{n} = getelementptr i64, ptr %numbers, i64 {n}")
            self.header.append(f"  {name} = load i64, ptr %np{n}")
        return name

    def _extent(self, d: int | None) -> str:
        assert d is not None
        return self._number(self.kernel.extents[d], ("extent", d))

    def _iota(self, dtype: np.dtype[Any]) -> str:
        element = llvm_type(dtype, 1)
        return "<" + ", ".join(f"{element} {k}" for k in range(self.lanes)) + ">"

    def _splat(self, name: str, dtype: np.dtype[Any], lines: list[str]) -> str:
        """A scalar in every lane."""
        vector, element = llvm_type(dtype, self.lanes), llvm_type(dtype, 1)
        one, all_ = self._fresh(), self._fresh()
        lines.append(f"  {one} = insertelement {vector} poison, {element} {name}, i64 0")
        zero = f"<{self.lanes} x i32> zeroinitializer"
        lines.append(f"  {all_} = shufflevector {vector} {one}, {vector} poison, {zero}")
        return all_

    # ---- nodes --------------------------------------------------------------------------------

    def _value(self, root: Scalar) -> _Known:
        """The name of a node, whose instructions are written if they are not yet."""
        stack = [root]
        known = self.known
        while stack:
            node = stack[-1]
            if id(node) in known or node.op == "const":
                stack.pop()
                continue
            expansion = EXPANSIONS.get(node.op)
            args = (expansion(self.b, *node.args),) if expansion is not None else node.args
            missing = [x for x in args if id(x) not in known and x.op != "const"]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if expansion is not None:
                same = self._operand(args[0])
                self._know(id(node), same.name, same.vector, same.level)
            else:
                self._compute(node)
        return self._operand(root)

    def _operand(self, node: Scalar) -> _Known:
        if node.op == "const":
            return _Known(constant(node.attr, node.dtype, 1), False, 0)
        return self.known[id(node)]

    def _as_vector(self, node: Scalar) -> str:
        """The value of a computed node in all lanes."""
        if node.op == "const":
            return constant(node.attr, node.dtype, self.lanes)
        found = self.known[id(node)]
        if found.vector:
            return found.name
        key = ("splat", id(node))
        splat = self.known.get(key)
        if splat is None:
            name = self._splat(found.name, node.dtype, self.levels[found.level].lines)
            splat = self._know(key, name, True, found.level)
        return splat.name

    def _compute(self, node: Scalar) -> None:
        if node.op == "load":
            self._load(node)
        elif node.op == "dim":
            self._dim(node)
        elif node.op == "int":
            name = self._number(node.attr, ("int", node.attr))
            if node.dtype == _INT32:
                name = self._narrow(name)
            self._know(id(node), name, False, 0)
        elif node.op == "given":
            self._know(id(node), self._given(node), False, 0)
        else:
            self._operation(node)

    def _given(self, node: Scalar) -> str:
        """A float among the run-time arguments."""
        name = self._number(node.attr, ("given", node.dtype, node.attr))
        if node.dtype.itemsize == 4:
            name = self._narrow(name)
        found, bits = f"{name}.given", f"i{8 * node.dtype.itemsize}"
        self.header.append(f"  {found} = bitcast {bits} {name} to {llvm_type(node.dtype, 1)}")
        return found

    def _narrow(self, name: str) -> str:
        narrow = f"{name}.i32"
        if ("i32", name) not in self.number_of:
            self.number_of["i32", name] = narrow
            self.header.append(f"  {narrow} = trunc i64 {name} to i32")
        return narrow

    def _dim(self, node: Scalar) -> None:
        index = self.known["dim", node.attr]
        level = index.level
        lines = self.levels[level].lines
        name = index.name
        if node.dtype == _INT32:
            name = self._line(f"trunc i64 {index.name} to i32", level)
        vector = node.attr == self.kernel.vector and self.lanes > 1
        if vector:
            type_ = llvm_type(node.dtype, self.lanes)
            base = self._splat(name, node.dtype, lines)
            name = self._line(f"add {type_} {base}, {self._iota(node.dtype)}", level)
        self._know(id(node), name, vector, level)

    def _operation(self, node: Scalar) -> None:
        if node.op not in OPERATIONS:
            raise VerificationError(
                f"kernel {self.kernel.name}: an operation that no instruction does",
                got=repr(node.op),
                fix="report this: the compiler wrote a kernel that it cannot emit",
            )
        found = [self._operand(x) for x in node.args]
        vector = any(f.vector for f in found)
        level = max(f.level for f in found)
        names = [self._as_vector(x) for x in node.args] if vector else [f.name for f in found]
        lanes = self.lanes if vector else 1
        lines = self.levels[level].lines
        name = emit(node, names, lanes, self._fresh, lines, self.contract)
        self._know(id(node), name, vector, level)

    # ---- memory -------------------------------------------------------------------------------

    def _pointer(self, buffer: int, address: IndexExpr) -> tuple[str, int, int]:
        """A pointer to the scalar part of an address: its name, its level, the vector stride."""
        element = self._memory_type(self.kernel.operands[buffer].dtype)
        terms = []
        stride = 0
        for atom, coef in address.terms:
            assert isinstance(atom, Dim)
            terms.append((self.level_of_dim[atom.number], atom.number, coef))
            if atom.number == self.kernel.vector and self.lanes > 1:
                stride = coef
        terms.sort()
        key: Any = ("pointer", buffer, address.const)
        found = self.known.get(key)
        if found is None:
            name = f"%b{buffer}"
            if address.const:
                offset = str(address.const)
                if abs(address.const) > 4:
                    offset = self._number(address.const, ("const", buffer, address.const))
                name = self._line(f"getelementptr {element}, ptr {name}, i64 {offset}", 0)
            found = self._know(key, name, False, 0)
        for level, d, coef in terms:
            key = (*key, d, coef)
            following = self.known.get(key)
            if following is None:
                index = self.known["dim", d].name
                if coef != 1:
                    factor = self._number(coef, ("stride", buffer, d, coef))
                    index = self._line(f"mul nsw i64 {index}, {factor}", level)
                text = f"getelementptr {element}, ptr {found.name}, i64 {index}"
                following = self._know(key, self._line(text, level), False, level)
            found = following
        return found.name, found.level, stride

    @staticmethod
    def _memory_type(dtype: np.dtype[Any], lanes: int = 1) -> str:
        element = "i8" if dtype == _BOOL else llvm_type(dtype, 1)
        return element if lanes == 1 else f"<{lanes} x {element}>"

    def _from_memory(self, name: str, dtype: np.dtype[Any], vector: bool, level: int) -> str:
        if dtype != _BOOL:
            return name
        type_ = self._memory_type(dtype, self.lanes if vector else 1)
        return self._line(
            f"icmp ne {type_} {name}, zeroinitializer" if vector else f"icmp ne i8 {name}, 0", level
        )

    def _load(self, node: Scalar) -> None:
        buffer, address, has_offset, has_guard = node.attr
        offset = node.args[0] if has_offset else None
        guard = node.args[-1] if has_guard else None
        self._read(id(node), buffer, address, offset, guard)

    def _read(
        self,
        key: Any,
        buffer: int,
        address: IndexExpr,
        offset: Scalar | None,
        guard: Scalar | None,
        lowest: int = 0,
    ) -> None:
        """Read an element, or a vector of them, at a level not below ``lowest``."""
        dtype = self.kernel.operands[buffer].dtype
        if self._is_tiled(address, offset, guard):
            stride = coefficient(address, self.kernel.vector)
            name = self._tile_rows(buffer, address, stride)[self.tile_lane]
            level = len(self.levels) - 1
            self._know(key, self._from_memory(name, dtype, True, level), True, level)
            return
        pointer, level, stride = self._pointer(buffer, address)
        parts = [self._operand(x) for x in (offset, guard) if x is not None]
        level = max([level, lowest, *(p.level for p in parts)])
        scattered = offset is not None and self._operand(offset).vector
        vector = stride != 0 or scattered
        if guard is not None and self._operand(guard).vector:
            vector = True  # a mask of lanes, so an access of lanes
        if not vector:
            name = self._read_scalar(buffer, pointer, offset, guard, level)
        elif stride == 1 and not scattered:
            name = self._read_row(buffer, pointer, offset, guard, level)
        else:
            name = self._gather(buffer, pointer, stride, offset, guard, level)
        self._know(key, self._from_memory(name, dtype, vector, level), vector, level)

    def _is_tiled(self, address: IndexExpr, offset: Scalar | None, guard: Scalar | None) -> bool:
        """Whether an array is read in tiles: it is contiguous along the tile dim."""
        if self.kernel.tile is None or offset is not None or guard is not None:
            return False
        across = coefficient(address, self.kernel.vector) not in (0, 1)
        return across and coefficient(address, self.kernel.tile) == 1

    def _mask(self, guard: Scalar | None, level: int) -> str | None:
        """The lanes that may be touched at a level, or None for all."""
        tail = self.tail if self.masked and level >= self.vector_level > 0 else None
        if tail is None:
            return None if guard is None else self._as_vector(guard)
        if guard is None:
            return self.known[id(tail)].name
        both = f"{self.known[id(tail)].name}, {self._as_vector(guard)}"
        return self._line(f"and <{self.lanes} x i1> {both}", level)

    def _offset_pointer(
        self, dtype: np.dtype[Any], pointer: str, offset: Scalar | None, level: int
    ) -> str:
        if offset is None:
            return pointer
        name = self._wide(self._operand(offset).name, offset.dtype, level)
        return self._line(
            f"getelementptr {self._memory_type(dtype)}, ptr {pointer}, i64 {name}", level
        )

    def _wide(self, name: str, dtype: np.dtype[Any], level: int) -> str:
        return name if dtype == _INT64 else self._line(f"sext i32 {name} to i64", level)

    def _read_scalar(
        self, buffer: int, pointer: str, offset: Scalar | None, guard: Scalar | None, level: int
    ) -> str:
        dtype = self.kernel.operands[buffer].dtype
        pointer = self._offset_pointer(dtype, pointer, offset, level)
        if guard is not None:  # outside, any element will do
            inside = self._operand(guard).name
            pointer = self._line(f"select i1 {inside}, ptr {pointer}, ptr %b{buffer}", level)
        return self._line(f"load {self._memory_type(dtype)}, ptr {pointer}", level)

    def _read_row(
        self,
        buffer: int,
        pointer: str,
        offset: Scalar | None,
        guard: Scalar | None,
        level: int,
    ) -> str:
        dtype = self.kernel.operands[buffer].dtype
        type_ = self._memory_type(dtype, self.lanes)
        pointer = self._offset_pointer(dtype, pointer, offset, level)
        if guard is not None and not self._operand(guard).vector:
            # Nothing is read where it is false, but the address must be one that could be.
            inside = self._operand(guard).name
            pointer = self._line(f"select i1 {inside}, ptr {pointer}, ptr %b{buffer}", level)
        return self._load_lanes(type_, dtype, pointer, self._mask(guard, level), level)

    def _load_lanes(
        self, type_: str, dtype: np.dtype[Any], pointer: str, mask: str | None, level: int
    ) -> str:
        size = dtype.itemsize
        if mask is None:
            return self._line(f"load {type_}, ptr {pointer}, align {size}", level)
        name = f"llvm.masked.load.{self._suffix(dtype)}.p0"
        return self._line(
            f"call {type_} @{name}(ptr {pointer}, i32 {size}, <{self.lanes} x i1> {mask}, "
            f"{type_} zeroinitializer)",
            level,
        )

    def _suffix(self, dtype: np.dtype[Any]) -> str:
        element = self._memory_type(dtype)
        return f"v{self.lanes}" + {"float": "f32", "double": "f64"}.get(element, element)

    def _lane_pointers(
        self, buffer: int, pointer: str, stride: int, offset: Scalar | None, level: int
    ) -> str:
        """A vector of pointers, one for each lane."""
        dtype = self.kernel.operands[buffer].dtype
        steps: str | None = None
        if stride:
            key = ("lanes", buffer, stride)
            found = self.known.get(key)
            if found is None:
                number = self._number(stride, ("stride", buffer, self.kernel.vector, stride))
                wide = self._splat(number, _INT64, self.levels[0].lines)
                text = f"mul nsw <{self.lanes} x i64> {wide}, {self._iota(_INT64)}"
                found = self._know(key, self._line(text, 0), True, 0)
            steps = found.name
        if offset is not None:
            index = self._as_vector(offset)
            if offset.dtype != _INT64:
                type_ = f"<{self.lanes} x i32>"
                index = self._line(f"sext {type_} {index} to <{self.lanes} x i64>", level)
            if steps is not None:
                index = self._line(f"add <{self.lanes} x i64> {index}, {steps}", level)
            steps = index
        if steps is None:
            steps = "zeroinitializer"
        element = self._memory_type(dtype)
        return self._line(
            f"getelementptr {element}, ptr {pointer}, <{self.lanes} x i64> {steps}", level
        )

    def _all_lanes(self, mask: str | None) -> str:
        return "splat (i1 true)" if mask is None else mask

    def _gather(
        self,
        buffer: int,
        pointer: str,
        stride: int,
        offset: Scalar | None,
        guard: Scalar | None,
        level: int,
    ) -> str:
        dtype = self.kernel.operands[buffer].dtype
        type_ = self._memory_type(dtype, self.lanes)
        pointers = self._lane_pointers(buffer, pointer, stride, offset, level)
        mask = self._all_lanes(self._mask(guard, level))
        name = f"llvm.masked.gather.{self._suffix(dtype)}.v{self.lanes}p0"
        lanes = self.lanes
        return self._line(
            f"call {type_} @{name}(<{lanes} x ptr> {pointers}, i32 {dtype.itemsize}, "
            f"<{lanes} x i1> {mask}, {type_} zeroinitializer)",
            level,
        )

    # ---- stores -------------------------------------------------------------------------------

    def _store(self, store: Store) -> None:
        value = store.value
        for x in (store.value, store.offset, store.guard):
            if x is not None:
                self._value(x)
        if store.combine is not None:
            old = self.b.node("acc", value.dtype, (), ("store", store.buffer))
            here = len(self.levels) - 1  # it changes from one point to the next
            self._read(id(old), store.buffer, store.address, store.offset, store.guard, here)
            (value,) = store.combine.combine(self.b, (old,), (value,))
            self._value(value)
        self._write(store, value)

    def _write(self, store: Store, value: Scalar) -> None:
        dtype = self.kernel.operands[store.buffer].dtype
        pointer, _, stride = self._pointer(store.buffer, store.address)
        inside_vector = self.vector_level > 0 and self.lanes > 1
        level = len(self.levels) - 1
        scattered = store.offset is not None and self._operand(store.offset).vector
        alone = stride == 0 and not scattered and not self._operand(value).vector
        if not inside_vector or alone:  # a value that all lanes share is written once
            self._write_scalar(store, value, pointer, level)
            return
        if stride == 0 and not scattered:
            raise VerificationError(
                f"kernel {self.kernel.name}: all lanes write one element",
                got=str(store.address),
                fix="report this: the compiler vectorised a loop that it must not",
            )
        name = self._to_memory(self._as_vector(value), dtype, self.lanes, level)
        mask = self._mask(store.guard, level)
        type_ = self._memory_type(dtype, self.lanes)
        lines = self.levels[level].lines
        size, lanes = dtype.itemsize, self.lanes
        if stride == 1 and not scattered:
            pointer = self._offset_pointer(dtype, pointer, store.offset, level)
            if mask is None and self._streams(store):
                self._stream(f"store {type_} {name}, ptr {pointer}", size, level)
                return
            if mask is None:
                lines.append(f"  store {type_} {name}, ptr {pointer}, align {size}")
                return
            call = f"llvm.masked.store.{self._suffix(dtype)}.p0"
            lines.append(
                f"  call void @{call}({type_} {name}, ptr {pointer}, i32 {size}, "
                f"<{lanes} x i1> {mask})"
            )
            return
        pointers = self._lane_pointers(store.buffer, pointer, stride, store.offset, level)
        call = f"llvm.masked.scatter.{self._suffix(dtype)}.v{lanes}p0"
        lines.append(
            f"  call void @{call}({type_} {name}, <{lanes} x ptr> {pointers}, i32 {size}, "
            f"<{lanes} x i1> {self._all_lanes(mask)})"
        )

    def _streams(self, store: Store) -> bool:
        """Whether a store of whole vectors goes past the caches: to a large array, in lines."""
        operand = self.kernel.operands[store.buffer]
        size = operand.dtype.itemsize
        if size * operand.size < STREAMED or operand.scratch or store.offset or store.combine:
            return False
        vector = size * self.lanes
        steps = [c for a, c in store.address.terms if a.dims_mask != 1 << (self.kernel.vector or 0)]
        whole = all(step * size % vector == 0 for step in (*steps, store.address.const))
        return vector % CACHE_LINE == 0 and whole

    def _stream(self, text: str, size: int, level: int) -> None:
        """A store past the caches if the array begins at a cache line, else an ordinary one."""
        pointer = text.rsplit(maxsplit=1)[-1]
        self.streams = True
        label = f"if{self._count()}"
        lines = self.levels[level].lines
        low = self._line(f"ptrtoint ptr {pointer} to i64", level)
        low = self._line(f"and i64 {low}, {CACHE_LINE - 1}", level)
        aligned = self._line(f"icmp eq i64 {low}, 0", level)
        lines.append(f"  br i1 {aligned}, label %{label}.then, label %{label}.else")
        lines += [f"{label}.then:", f"  {text}, align {CACHE_LINE}, !nontemporal !0"]
        lines += [f"  br label %{label}", f"{label}.else:", f"  {text}, align {size}"]
        lines += [f"  br label %{label}", f"{label}:"]
        self.levels[level].block = label

    def _to_memory(self, name: str, dtype: np.dtype[Any], lanes: int, level: int) -> str:
        if dtype != _BOOL:
            return name
        return self._line(
            f"zext {llvm_type(_BOOL, lanes)} {name} to {self._memory_type(dtype, lanes)}", level
        )

    def _write_scalar(self, store: Store, value: Scalar, pointer: str, level: int) -> None:
        dtype = self.kernel.operands[store.buffer].dtype
        name = self._to_memory(self._operand(value).name, dtype, 1, level)
        pointer = self._offset_pointer(dtype, pointer, store.offset, level)
        write = f"  store {self._memory_type(dtype)} {name}, ptr {pointer}"
        lines = self.levels[level].lines
        if store.guard is None:
            lines.append(write)
            return
        label = f"if{self._count()}"
        inside = self._operand(store.guard).name
        lines.append(f"  br i1 {inside}, label %{label}.then, label %{label}")
        lines += [f"{label}.then:", write, f"  br label %{label}", f"{label}:"]
        self.levels[level].block = label

    # ---- reductions ---------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> None:
        carried = self._starts(stage)

        def body(names: Names) -> Names:
            self._know_carries(stage, names[len(names) - len(stage.carries) :])
            out = []
            position = 0
            for reduction in stage.reductions:
                width = len(reduction.values)
                out += self._accumulate(reduction, names[position : position + width])
                position += width
            for store in stage.stores:
                self._store(store)
            return out + [self._new(carry) for carry in stage.carries]

        if stage.condition is None:
            final = self._nest(self.kernel.inner, carried, body)
        else:
            final = self._while(stage, carried, body)
        self._know_results(stage, final)

    def _starts(self, stage: Stage) -> list[tuple[str, str]]:
        """The types and first values of what a stage carries."""
        in_lanes = self.kernel.vector is not None and self.lanes > 1
        lanes = self.lanes if in_lanes else 1
        carried = []
        for reduction in stage.reductions:
            for start in reduction.how.empty(self.b):
                text = constant(start.attr, start.dtype, lanes)
                carried.append((llvm_type(start.dtype, lanes), text))
        for carry in stage.carries:
            self._value(carry.initial)
            if in_lanes and carry.acc.attr[2]:
                text = self._as_vector(carry.initial)
                carried.append((llvm_type(carry.initial.dtype, lanes), text))
            else:
                text = self._operand(carry.initial).name
                carried.append((llvm_type(carry.initial.dtype, 1), text))
        return carried

    def _know_carries(self, stage: Stage, names: Names) -> None:
        for carry, name in zip(stage.carries, names, strict=True):
            vector = carry.acc.attr[2] and self.lanes > 1
            self._know(id(carry.acc), name, vector, len(self.levels) - 1)

    def _new(self, carry: Carry) -> str:
        """What a step makes of a carried value."""
        found = self._value(carry.new)
        if carry.acc.attr[2] and self.lanes > 1:
            return self._as_vector(carry.new)
        return found.name

    def _while(
        self, stage: Stage, carried: list[tuple[str, str]], body: Callable[[Names], Names]
    ) -> Names:
        """Steps as long as a condition of what is carried holds; what is carried in the end."""
        assert stage.condition is not None
        names = self._open_loop("0", carried)
        label = self.open[-1]
        self._know_carries(stage, names)
        holds = self._value(stage.condition).name
        level = self.levels[-1]
        level.lines.append(f"  br i1 {holds}, label %{label}.body, label %{label}.exit")
        level.lines.append(f"{label}.body:")
        new = body(names)
        self._close_loop("1", None, new)
        return names

    def _know_results(self, stage: Stage, final: Names) -> None:
        in_lanes = self.kernel.vector is not None and self.lanes > 1
        horizontal = in_lanes and self.kernel.vector in self.kernel.inner
        level = len(self.levels) - 1
        position = 0
        for reduction in stage.reductions:
            width = len(reduction.values)
            names = final[position : position + width]
            position += width
            if horizontal:
                names = self._across_lanes(reduction, names)
            for result, name in zip(reduction.results, names, strict=True):
                self._know(id(result), name, in_lanes and not horizontal, level)
        for carry, name in zip(stage.carries, final[position:], strict=True):
            self._know(id(carry.result), name, in_lanes and carry.acc.attr[2], level)

    def _accumulate(self, reduction: Reduce, names: Names) -> Names:
        """One point (or one vector of points) more."""
        level = len(self.levels) - 1
        in_lanes = self.kernel.vector is not None and self.lanes > 1
        values = reduction.values
        if self.masked and self.tail is not None and self.kernel.vector in self.kernel.inner:
            starts = reduction.how.empty(self.b)
            pairs = zip(values, starts, strict=True)
            values = tuple(self.b.select(self.tail, v, start) for v, start in pairs)
        for acc, name in zip(reduction.accs, names, strict=True):
            self._know(id(acc), name, in_lanes, level)
        out = []
        for node in reduction.how.combine(self.b, reduction.accs, values):
            self._value(node)
            out.append(self._as_vector(node) if in_lanes else self._operand(node).name)
        return out

    def _across_lanes(self, reduction: Reduce, names: Names) -> Names:
        """The lanes of a vector as one value, by halves: in an order that sizes alone decide."""
        lanes = self.lanes
        level = len(self.levels) - 1
        values = reduction.values
        while lanes > 1:
            half = lanes // 2
            parts = [
                [self._half(v.dtype, name, lanes, first, level) for v, name in zip(values, names)]
                for first in (0, half)
            ]
            names = self._combined_halves(reduction, parts, half, level)
            lanes = half
        return names

    def _half(self, dtype: np.dtype[Any], name: str, lanes: int, first: int, level: int) -> str:
        """The lanes of a vector from ``first`` on, half of them."""
        type_, half = llvm_type(dtype, lanes), lanes // 2
        if half == 1:
            return self._line(f"extractelement {type_} {name}, i64 {first}", level)
        mask = ", ".join(f"i32 {first + k}" for k in range(half))
        text = f"shufflevector {type_} {name}, {type_} poison, <{half} x i32> <{mask}>"
        return self._line(text, level)

    def _combined_halves(
        self, reduction: Reduce, parts: list[Names], lanes: int, level: int
    ) -> Names:
        all_lanes, self.lanes = self.lanes, lanes
        leaves = []
        for side, names in zip(("low", "high"), parts, strict=True):
            nodes = []
            for k, (value, name) in enumerate(zip(reduction.values, names, strict=True)):
                leaf = self.b.node("acc", value.dtype, (), (side, lanes, k, self._count()))
                self._know(id(leaf), name, True, level)
                nodes.append(leaf)
            leaves.append(tuple(nodes))
        out = []
        for node in reduction.how.combine(self.b, leaves[0], leaves[1]):
            self._value(node)
            out.append(self._as_vector(node))
        self.lanes = all_lanes
        return out
