"""The innermost loops of contractions: a function that adds up the products of one tile.

It is a kernel's text of its own, for most contractions need the same few of them: it depends on the
size of a tile, on how many loops there are, and on whether rows are at constant places.  Those that
use it get its address as a run-time argument.  It is

    void sums(left, right, tile, numbers, count, more, panel, later, pitch)

where ``left`` and ``right`` point to the first element of each side, ``tile`` to the sums (which
are added to if ``more`` is not 0, else begin at 0), whose rows are ``pitch`` bytes apart, and
``count`` is the extent of the outermost loop.  A function that *copies* also writes the vectors
that it reads of the right side to ``panel``.  ``numbers`` are, in elements: the step between rows
of the left side, the number of columns that are inside, then for each loop the steps of the left
side, of the right side and, if it copies, of the panel, then the extents of the loops but the
outermost.

A function that *fetches* asks for what other tiles will read of the right side: at each step whose
number from the end is a multiple of a power of two, the lines of a tile's row, from ``later`` on.
The last numbers are that power less one, and how far apart these rows are.  Memory beyond the
second cache answers slowly, and a processor waits for few lines at a time: so these are asked for
while all tiles are computed, not when the first one needs them.

Start at :func:`sums_text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import count
from typing import Final

import numpy as np

from functrax.backends.llvm.templates import constant, lane_numbers, llvm_type, splat, suffix
from functrax.backends.targets import target
from functrax.backends.targets.sums import Sums
from functrax.core.types import dtypes

#: Rows at other steps are reached from a pointer of their own to every third one.
_ROWS_OF_POINTER = 3

_WORD: Final = np.dtype(np.uint32)


@cache
def sums_text(what: Sums, name: str) -> str:
    """The function as a module of LLVM IR."""
    if what.dot and what.dot[0].startswith("tile "):
        return target().dialect.matrix_unit().sums(what, name)
    return _Text(what, name).module()


class _Text:
    """Writes the function.

    Attributes:
      vector: the type of the sums; ``side`` and ``element`` are those of what is read.
      steps: of each loop, in bytes: those of the left side's pointers, the right side, the panel.
      extents: of each loop.
      rows: how far rows are from their pointer.
      masks: of each vector the lanes that are inside, if not all are.
    """

    def __init__(self, what: Sums, name: str) -> None:
        self.what, self.name = what, name
        self.vector = llvm_type(what.dtype, what.lanes)
        read = _WORD if what.dot else what.dtype
        self.side, self.element = llvm_type(read, what.lanes), llvm_type(read, 1)
        #: Bytes of an element and of a vector, of the sums and of what is read.
        self.size, self.vector_size = what.dtype.itemsize, what.lanes * what.dtype.itemsize
        self.lines: list[str] = []
        self.numbers = count()
        self.suffix = suffix(self.element, what.lanes)

    def line(self, right: str) -> str:
        """Write an instruction; the name of what it computes."""
        name = f"%v{next(self.numbers)}"
        self.lines.append(f"  {name} = {right}")
        return name

    def module(self) -> str:
        """The whole text."""
        what, loops = self.what, self.what.loops
        each = 3 if what.copies else 2  # steps of a loop among the numbers
        self.steps = [[self._bytes(2 + each * k + j) for j in range(each)] for k in range(loops)]
        after = 2 + each * loops
        self.extents = ["%count", *(self._number(after + k) for k in range(loops - 1))]
        self.rows = self._row_places()
        if what.copies:
            # Each step copies a row; so many steps before it is brought to the first cache.
            ahead = target().fetched_ahead // target().cache_line
            self.ahead = self.line(f"mul i64 {self.steps[-1][1]}, {ahead}")
        if what.fetches:
            first = after + loops - 1
            self.rare, self.row = self._number(first), self._bytes(first + 1)
        self.masks = self._masks()
        pointers = ["%left"]
        if what.step is None:
            for _ in range(_ROWS_OF_POINTER, what.height, _ROWS_OF_POINTER):
                pointers.append(self._moved(pointers[-1], self.rows[_ROWS_OF_POINTER]))
        self.steps = [[of[0]] * len(pointers) + of[1:] for of in self.steps]
        pointers += ["%right", "%panel"] if what.copies else ["%right"]
        zero = constant(0, what.dtype, what.lanes)
        self._store(self._loop(0, "entry", pointers, [zero] * (what.height * what.width)))
        head = (
            f"define void @{self.name}(ptr %left, ptr %right, ptr %tile, ptr %numbers, "
            "i64 %count, i64 %more, ptr %panel, ptr %later, i64 %pitch) nounwind {"
        )
        return "\n".join([head, "entry:", *self.lines, "  ret void", "}"]) + "\n"

    # ---- what is known before the loops ---------------------------------------------------------

    def _number(self, n: int) -> str:
        return self.line(f"load i64, ptr {self.line(f'getelementptr i64, ptr %numbers, i64 {n}')}")

    def _bytes(self, n: int) -> str:
        return self.line(f"shl i64 {self._number(n)}, {self.size.bit_length() - 1}")

    def _row_places(self) -> list[str]:
        """How far rows are from their pointer."""
        height, baked = self.what.height, self.what.step
        if baked is not None:
            return [str(baked * self.size * k) for k in range(height)]
        rows = ["0"]
        if height > 1:
            rows.append(self._bytes(0))
        for _ in range(2, min(_ROWS_OF_POINTER + 1, height)):
            rows.append(self.line(f"add i64 {rows[-1]}, {rows[1]}"))
        return rows

    def _masks(self) -> list[str]:
        """Which lanes of each vector are inside."""
        what = self.what
        if not what.masked:
            return []
        columns = self.line(f"trunc i64 {self._number(1)} to i32")
        inside = splat(self.line, columns, "i32", what.lanes)
        masks = []
        for first in range(0, what.width * what.lanes, what.lanes):
            numbers = lane_numbers(range(first, first + what.lanes))
            masks.append(self.line(f"icmp slt <{what.lanes} x i32> {numbers}, {inside}"))
        return masks

    def _moved(self, pointer: str, offset: str) -> str:
        return self.line(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _vectors_from(self, pointer: str) -> Iterator[str]:
        """Pointers to the vectors of a row, each written when it is asked for."""
        for j in range(self.what.width):
            yield self._moved(pointer, str(j * self.vector_size))

    def _write(self, type_: str, values: list[str], places: Iterable[str]) -> None:
        for value, place in zip(values, places, strict=True):
            self.lines.append(f"  store {type_} {value}, ptr {place}, align {self.size}")

    def _store(self, sums: list[str]) -> None:
        """Write the sums, added to those of the blocks of steps before.

        These are read last, so that the first products do not wait for them.
        """
        add = "fadd" if dtypes.is_float(self.what.dtype) else "add"
        row, places = "%tile", [*self._vectors_from("%tile")]
        for _ in range(1, self.what.height):
            row = self._moved(row, "%pitch")
            places += self._vectors_from(row)
        goes_on = self.line("icmp ne i64 %more, 0")
        self.lines += [f"  br i1 {goes_on}, label %further, label %first", "further:"]
        before = [self.line(f"load {self.vector}, ptr {x}, align {self.size}") for x in places]
        totals = [
            self.line(f"{add} {self.vector} {x}, {y}") for x, y in zip(before, sums, strict=True)
        ]
        self._write(self.vector, totals, places)
        self.lines += ["  ret void", "first:"]
        self._write(self.vector, sums, places)

    # ---- loops ----------------------------------------------------------------------------------

    def _loop(self, depth: int, before: str, pointers: list[str], sums: list[str]) -> list[str]:
        """The loop at a depth, and those in it; the sums after it."""
        label = f"loop{depth}"
        self.lines += [f"  br label %{label}", f"{label}:"]
        first = len(self.lines)
        places = [self.line(f"phi ptr [ {p}, %{before} ], ") for p in pointers]
        left = self.line(f"phi i64 [ {self.extents[depth]}, %{before} ], ")
        accs = [self.line(f"phi {self.vector} [ {x}, %{before} ], ") for x in sums]
        later = []
        if depth + 1 < self.what.loops:
            new = self._loop(depth + 1, label, places, accs)
        else:
            later = [self._fetch(label, before, left)] if self.what.fetches else []
            new = self._step(places, accs)
        end = f"{label}.end"
        self.lines += [f"  br label %{end}", f"{end}:"]
        moved = [self._moved(p, step) for p, step in zip(places, self.steps[depth], strict=True)]
        fewer = self.line(f"add i64 {left}, -1")
        for k, value in enumerate([*moved, fewer, *new, *later], first):
            self.lines[k] += f"[ {value}, %{end} ]"
        more = self.line(f"icmp ne i64 {fewer}, 0")
        self.lines += [f"  br i1 {more}, label %{label}, label %{label}.exit", f"{label}.exit:"]
        return new

    def _fetch(self, label: str, before: str, left: str) -> str:
        """Ask for a row of what is read later, at some steps; where the next one is."""
        place = self.line(f"phi ptr [ %later, %{before} ], ")
        due = self.line(f"icmp eq i64 {self.line(f'and i64 {left}, {self.rare}')}, 0")
        self.lines += [
            f"  br i1 {due}, label %{label}.fetch, label %{label}.step",
            f"{label}.fetch:",
        ]
        self._prefetch(place)
        next_place = self._moved(place, self.row)
        self.lines += [f"  br label %{label}.step", f"{label}.step:"]
        return self.line(f"phi ptr [ {place}, %{label} ], [ {next_place}, %{label}.fetch ]")

    def _prefetch(self, pointer: str) -> None:
        """Ask for the vectors of a row of the right side."""
        for place in self._vectors_from(pointer):
            self.lines.append(f"  call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")

    def _step(self, pointers: list[str], sums: list[str]) -> list[str]:
        """One step: every element of the left side times every vector of the right one."""
        what = self.what
        right = pointers[-2 if what.copies else -1]
        vectors = [self._vector(place, j) for j, place in enumerate(self._vectors_from(right))]
        if what.copies:
            self._prefetch(self._moved(right, self.ahead))
            self._write(self.side, vectors, self._vectors_from(pointers[-1]))
        out = []
        for k in range(what.height):
            pointer, offset = pointers[0], k
            if what.step is None:
                pointer, offset = pointers[k // _ROWS_OF_POINTER], k % _ROWS_OF_POINTER
            place = self._moved(pointer, self.rows[offset])
            value = self.line(f"load {self.element}, ptr {place}")
            vector = splat(self.line, value, self.element, what.lanes)
            for j, other in enumerate(vectors):
                out.append(self._added(vector, other, sums[k * what.width + j]))
        return out

    def _vector(self, place: str, j: int) -> str:
        """A vector of the right side."""
        if not self.masks:
            return self.line(f"load {self.side}, ptr {place}, align {self.size}")
        return self.line(
            f"call {self.side} @llvm.masked.load.{self.suffix}.p0(ptr {place}, i32 {self.size}, "
            f"<{self.what.lanes} x i1> {self.masks[j]}, {self.side} zeroinitializer)"
        )

    def _added(self, x: str, y: str, total: str) -> str:
        vector = self.vector
        if self.what.dot:
            return self._dot(x, y, total)
        if dtypes.is_float(self.what.dtype):
            if not target().has_fma:
                product = self.line(f"fmul {vector} {x}, {y}")
                return self.line(f"fadd {vector} {total}, {product}")
            operands = ", ".join(f"{vector} {name}" for name in (x, y, total))
            return self.line(f"call {vector} @llvm.fma.{self.suffix}({operands})")
        product = self.line(f"mul {vector} {x}, {y}")
        return self.line(f"add {vector} {total}, {product}")

    def _dot(self, x: str, y: str, total: str) -> str:
        """The products of the numbers in words, added to a sum."""
        what = self.what
        part = "bfloat" if what.dot[0] == "bf16" else "i16"
        parts = f"<{2 * what.lanes} x {part}>"
        x, y = (self.line(f"bitcast {self.side} {name} to {parts}") for name in (x, y))
        dot = target().dialect.product(what.dot[0], what.lanes)
        factors = f"{parts} {x}, {parts} {y}"
        if dot.adds:
            return self.line(
                f"call {self.vector} @{dot.intrinsic}({self.vector} {total}, {factors})"
            )
        product = self.line(f"call {self.vector} @{dot.intrinsic}({factors})")
        return self.line(f"add {self.vector} {total}, {product}")
