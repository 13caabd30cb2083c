"""Addresses: pointers, vectors of pointers, and the masks of the lanes that may be touched.

An address is a sum of dims times strides.  Its pointer is computed dim by dim, outermost loop
first, so that each step is in the loop that it depends on and is shared with other addresses; the
vector dim is the stride between lanes.  An offset that depends on data is added last.  A bool is a
byte in memory and ``i1`` in a register.  A complex number is one element of 8 or 16 bytes in
memory, of which the latter moves as two words, and two floats in a register.

Start at :meth:`Memory.pointer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.backends.llvm.templates import lane_numbers, llvm_type
from functrax.backends.llvm.writer import Writer
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.scalars.scalar import Scalar

_BOOL = np.dtype(np.bool_)
_INT64 = np.dtype(np.int64)


def memory_type(dtype: np.dtype[Any], lanes: int = 1) -> str:
    """The type of ``lanes`` elements of a dtype in memory; of one lane no vector."""
    if dtype.kind == "c":
        words = lanes * words_of(dtype)
        return llvm_type(dtype, 1) if lanes == 1 else f"<{words} x i64>"
    element = "i8" if dtype == _BOOL else llvm_type(dtype, 1)
    return element if lanes == 1 else f"<{lanes} x {element}>"


def alignment(dtype: np.dtype[Any]) -> str:
    """What to say of an access of one element: complex numbers are as aligned as their parts."""
    return f", align {dtype.itemsize // 2}" if dtype.kind == "c" else ""


def words_of(dtype: np.dtype[Any]) -> int:
    """How many elements of the type in memory one of a dtype is."""
    return 2 if dtype.itemsize == 16 else 1


class Memory:
    """What reads and writes have in common."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def pointer(
        self, buffer: int, address: IndexExpr, general: bool = False
    ) -> tuple[str, int, int]:
        """A pointer to the scalar part of an address: its name, its level, the vector stride.

        A stride of 1 is part of the code, unless the code is to be ``general``.
        """
        w = self.writer
        element = memory_type(w.kernel.operands[buffer].dtype)
        terms = []
        stride = 0
        for atom, coef in address.terms:
            assert isinstance(atom, Dim)
            terms.append((w.level_of_dim[atom.number], atom.number, coef))
            if atom.number == w.kernel.vector and w.lanes > 1:
                stride = coef
        terms.sort()
        key: Any = ("pointer", buffer, address.const)
        found = w.known.get(key)
        if found is None:
            name = f"%b{buffer}"
            if address.const:
                if abs(address.const) > 4:
                    offset = w.number(address.const, ("const", buffer, address.const))
                else:
                    offset = str(address.const)
                name = w.line(f"getelementptr {element}, ptr {name}, i64 {offset}", 0)
            found = w.know(key, name, False, 0)
        for level, d, coef in terms:
            key = (*key, d, coef, general)
            following = w.known.get(key)
            if following is None:
                index = w.known["dim", d].name
                if coef != 1 or general:
                    factor = w.number(coef, ("stride", buffer, d, coef))
                    index = w.line(f"mul nsw i64 {index}, {factor}", level)
                text = f"getelementptr {element}, ptr {found.name}, i64 {index}"
                following = w.know(key, w.line(text, level), False, level)
            found = following
        return found.name, found.level, stride

    def mask(self, guard: Scalar | None, level: int) -> str | None:
        """The lanes that may be touched at a level, or None for all."""
        w = self.writer
        tail = w.tail if w.masked and level >= w.vector_level > 0 else None
        if tail is None:
            return None if guard is None else w.as_vector(guard)
        if guard is None:
            return w.known[id(tail)].name
        both = f"{w.known[id(tail)].name}, {w.as_vector(guard)}"
        return w.line(f"and <{w.lanes} x i1> {both}", level)

    def offset_pointer(
        self, dtype: np.dtype[Any], pointer: str, offset: Scalar | None, level: int
    ) -> str:
        """A pointer moved by an offset that all lanes share."""
        w = self.writer
        if offset is None:
            return pointer
        name = self._wide(w.operand(offset).name, offset.dtype, level)
        return w.line(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {name}", level)

    def _wide(self, name: str, dtype: np.dtype[Any], level: int) -> str:
        return name if dtype == _INT64 else self.writer.line(f"sext i32 {name} to i64", level)

    def lane_pointers(
        self, buffer: int, pointer: str, stride: int, offset: Scalar | None, level: int
    ) -> str:
        """A vector of pointers, one for each lane."""
        w = self.writer
        dtype = w.kernel.operands[buffer].dtype
        steps: str | None = None
        if stride:
            key = ("lanes", buffer, stride)
            found = w.known.get(key)
            if found is None:
                number = w.number(stride, ("stride", buffer, w.kernel.vector, stride))
                wide = w.splat(number, _INT64, 0)
                iota = lane_numbers(range(w.lanes), "i64")
                name = w.line(f"mul nsw <{w.lanes} x i64> {wide}, {iota}", 0)
                found = w.know(key, name, True, 0)
            steps = found.name
        if offset is not None:
            index = w.as_vector(offset)
            if offset.dtype != _INT64:
                type_ = f"<{w.lanes} x i32>"
                index = w.line(f"sext {type_} {index} to <{w.lanes} x i64>", level)
            if steps is not None:
                index = w.line(f"add <{w.lanes} x i64> {index}, {steps}", level)
            steps = index
        if steps is None:
            steps = "zeroinitializer"
        element = memory_type(dtype)
        return w.line(f"getelementptr {element}, ptr {pointer}, <{w.lanes} x i64> {steps}", level)

    def lanes_of(self, dtype: np.dtype[Any], mask: str | None, level: int) -> str:
        """A mask of elements of a dtype with its type, of true lanes if there is none."""
        count = self.writer.lanes * words_of(dtype)
        if mask is None:
            return f"<{count} x i1> splat (i1 true)"
        return f"<{count} x i1> {self._by_words(dtype, 'i1', mask, level)}"

    def places_of(self, dtype: np.dtype[Any], pointers: str, level: int) -> str:
        """A vector of pointers to elements of a dtype, with its type."""
        count = self.writer.lanes * words_of(dtype)
        if words_of(dtype) > 1:
            name = self._by_words(dtype, "ptr", pointers, level)
            steps = ", ".join(["i64 0, i64 8"] * self.writer.lanes)
            text = f"getelementptr i8, <{count} x ptr> {name}, <{count} x i64> <{steps}>"
            pointers = self.writer.line(text, level)
        return f"<{count} x ptr> {pointers}"

    def _by_words(self, dtype: np.dtype[Any], element: str, name: str, level: int) -> str:
        """A lane for each word of an element."""
        lanes, words = self.writer.lanes, words_of(dtype)
        if words == 1:
            return name
        places = ", ".join(f"i32 {k}, i32 {k}" for k in range(lanes))
        type_ = f"<{lanes} x {element}>"
        mask = f"<{words * lanes} x i32> <{places}>"
        return self.writer.line(f"shufflevector {type_} {name}, {type_} poison, {mask}", level)

    def suffix(self, dtype: np.dtype[Any]) -> str:
        """What the names of intrinsics say of a vector of a dtype."""
        if dtype.kind == "c":
            return f"v{self.writer.lanes * words_of(dtype)}i64"
        element = memory_type(dtype)
        return f"v{self.writer.lanes}" + {"float": "f32", "double": "f64"}.get(element, element)

    def load_lanes(
        self, type_: str, dtype: np.dtype[Any], pointer: str, mask: str | None, level: int
    ) -> str:
        """A vector of neighbours, those that are masked out zero."""
        w = self.writer
        size = dtype.itemsize
        if mask is None:
            return w.line(f"load {type_}, ptr {pointer}, align {size}", level)
        name = f"llvm.masked.load.{self.suffix(dtype)}.p0"
        return w.line(
            f"call {type_} @{name}(ptr {pointer}, i32 {size}, "
            f"{self.lanes_of(dtype, mask, level)}, {type_} zeroinitializer)",
            level,
        )

    def prefetch(self, dtype: np.dtype[Any], pointer: str, level: int, write: bool = False) -> None:
        """Ask for the vector after the one at a pointer."""
        self.prefetch_bytes(pointer, self.writer.lanes * dtype.itemsize, level, write)

    def prefetch_bytes(self, pointer: str, distance: int, level: int, write: bool) -> None:
        """Ask for what is so many bytes after a pointer."""
        w = self.writer
        ahead = w.line(f"getelementptr i8, ptr {pointer}, i64 {distance}", level)
        w.levels[level].lines.append(
            f"  call void @llvm.prefetch.p0(ptr {ahead}, i32 {int(write)}, i32 3, i32 1)"
        )

    def first_line(self, buffer: int, address: IndexExpr, dim: int, low: str) -> str:
        """The first index of a dim, from one on, at whose address a cache line begins."""
        w = self.writer
        dtype = w.kernel.operands[buffer].dtype
        others = [(a, c) for a, c in address.terms if a != Dim(dim)]
        row, _, _ = self.pointer(buffer, add_terms(address.const, others))
        start = w.line(f"getelementptr {memory_type(dtype)}, ptr {row}, i64 {low}")
        place = w.line(f"ptrtoint ptr {start} to i64")
        missing = w.line(f"sub i64 0, {place}")
        missing = w.line(f"and i64 {missing}, {target().cache_line - 1}")
        missing = w.line(f"lshr i64 {missing}, {dtype.itemsize.bit_length() - 1}")
        return w.line(f"add i64 {low}, {missing}")

    def prefetch_lines(self, pointer: str, size: int, level: int, write: bool) -> None:
        """Ask for the cache lines of so many bytes from a pointer on."""
        for place in range(0, size, target().cache_line):
            self.prefetch_bytes(pointer, place, level, write)

    def from_memory(self, name: str, dtype: np.dtype[Any], vector: bool, level: int) -> str:
        """A value as registers have it."""
        w = self.writer
        type_ = memory_type(dtype, w.lanes if vector else 1)
        if dtype.kind == "c" and vector and w.lanes > 1:
            return w.line(f"bitcast {type_} {name} to {llvm_type(dtype, w.lanes)}", level)
        if dtype != _BOOL:
            return name
        return w.line(
            f"icmp ne {type_} {name}, zeroinitializer" if vector else f"icmp ne i8 {name}, 0", level
        )

    def to_memory(self, name: str, dtype: np.dtype[Any], lanes: int, level: int) -> str:
        """A value as memory has it."""
        if dtype.kind == "c" and lanes > 1:
            text = f"bitcast {llvm_type(dtype, lanes)} {name} to {memory_type(dtype, lanes)}"
            return self.writer.line(text, level)
        if dtype != _BOOL:
            return name
        return self.writer.line(
            f"zext {llvm_type(_BOOL, lanes)} {name} to {memory_type(dtype, lanes)}", level
        )
