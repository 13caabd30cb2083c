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

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.llvm.templates import lane_numbers, lane_order, llvm_type, suffix
from functrax.backends.llvm.writer import Known, Writer
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar
from functrax.core.types.symbolic_sizes import is_symbolic_dim

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


@record
class MemoryAccess:
    """An element that is read or written, or a vector of them.

    Args:
      buffer: the array.
      dtype: of its elements.
      pointer: to the first element, without the offset.
      stride: elements between lanes.
      offset: added to the address; None for nothing.
      guard: where it is false nothing is touched; None for always.
      level: in which it is done.
      scattered: whether offsets differ between lanes.
    """

    buffer: int
    dtype: np.dtype[Any]
    pointer: str
    stride: int
    offset: Scalar | None
    guard: Scalar | None
    level: int
    scattered: bool

    @property
    def is_row(self) -> bool:
        """Whether lanes are neighbours."""
        return self.stride == 1 and not self.scattered


class Memory:
    """What reads and writes have in common."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def stride(self, address: IndexExpr) -> int:
        """How many elements lanes are apart."""
        return coefficient(address, self.writer.kernel.vector) if self.writer.lanes > 1 else 0

    def access(
        self,
        buffer: int,
        address: IndexExpr,
        offset: Scalar | None,
        guard: Scalar | None,
        lowest: int,
    ) -> MemoryAccess:
        """A read or a write at a level not below ``lowest``."""
        w = self.writer
        pointer = self.pointer(buffer, address)
        parts = [w.operand(x) for x in (offset, guard) if x is not None]
        level = max([pointer.level, lowest, *(p.level for p in parts)])
        dtype, stride = w.kernel.operands[buffer].dtype, self.stride(address)
        scattered = offset is not None and parts[0].vector
        return MemoryAccess(buffer, dtype, pointer.name, stride, offset, guard, level, scattered)

    def pointer(self, buffer: int, address: IndexExpr, general: bool = False) -> Known:
        """A pointer to the scalar part of an address.

        A stride of 1 is part of the code, unless the code is to be ``general``.
        """
        w = self.writer
        element = memory_type(w.kernel.operands[buffer].dtype)
        terms = []
        for atom, coef in address.terms:
            assert isinstance(atom, Dim)
            terms.append((w.level_of_dim[atom.number], atom.number, coef))
        terms.sort()
        key: Any = ("pointer", buffer, address.const)
        found = w.known.get(key)
        if found is None:
            name = f"%b{buffer}"
            if address.const:
                if is_symbolic_dim(address.const) or abs(address.const) > 4:
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
        return found

    def mask(self, a: MemoryAccess) -> str | None:
        """The lanes that may be touched, or None for all."""
        w = self.writer
        tail = w.tail if w.masked and a.level >= w.vector_level > 0 else None
        if tail is None:
            return None if a.guard is None else w.as_vector(a.guard)
        if a.guard is None:
            return w.known[id(tail)].name
        both = f"{w.known[id(tail)].name}, {w.as_vector(a.guard)}"
        return w.line(f"and <{w.lanes} x i1> {both}", a.level)

    def first(self, a: MemoryAccess) -> str:
        """A pointer to the first element, with an offset that all lanes share."""
        w = self.writer
        if a.offset is None:
            return a.pointer
        name = w.operand(a.offset).name
        if a.offset.dtype != _INT64:
            name = w.line(f"sext {llvm_type(a.offset.dtype, 1)} {name} to i64", a.level)
        return w.line(f"getelementptr {memory_type(a.dtype)}, ptr {a.pointer}, i64 {name}", a.level)

    def _lane_pointers(self, a: MemoryAccess) -> str:
        """A vector of pointers, one for each lane."""
        w = self.writer
        type_ = f"<{w.lanes} x i64>"
        steps: str | None = None
        if a.stride:
            key = ("lanes", a.buffer, a.stride)
            found = w.known.get(key)
            if found is None:
                number = w.number(a.stride, ("stride", a.buffer, w.kernel.vector, a.stride))
                wide = w.splat(number, _INT64, 0)
                name = w.line(f"mul nsw {type_} {wide}, {lane_numbers(range(w.lanes), 'i64')}", 0)
                found = w.know(key, name, True, 0)
            steps = found.name
        if a.offset is not None:
            index = w.as_vector(a.offset)
            if a.offset.dtype != _INT64:
                narrow = llvm_type(a.offset.dtype, w.lanes)
                index = w.line(f"sext {narrow} {index} to {type_}", a.level)
            if steps is not None:
                index = w.line(f"add {type_} {index}, {steps}", a.level)
            steps = index
        if steps is None:
            steps = "zeroinitializer"
        element = memory_type(a.dtype)
        return w.line(f"getelementptr {element}, ptr {a.pointer}, {type_} {steps}", a.level)

    def scattered(self, a: MemoryAccess, mask: str | None) -> tuple[str, str, str]:
        """Of a gather or a scatter: what its name says, the pointers, the mask, with types."""
        w, words = self.writer, words_of(a.dtype)
        pointers, count = self._lane_pointers(a), w.lanes * words
        inside = self._lanes_of(a.dtype, mask, a.level)
        if words > 1:
            name = self._by_words(a.dtype, "ptr", pointers, a.level)
            steps = lane_numbers([0, 8] * w.lanes, "i64")
            text = f"getelementptr i8, <{count} x ptr> {name}, <{count} x i64> {steps}"
            pointers = w.line(text, a.level)
        return f"{self._suffix(a.dtype)}.v{count}p0", f"<{count} x ptr> {pointers}", inside

    def _lanes_of(self, dtype: np.dtype[Any], mask: str | None, level: int) -> str:
        """A mask of elements of a dtype with its type, of true lanes if there is none."""
        name = "splat (i1 true)" if mask is None else self._by_words(dtype, "i1", mask, level)
        return f"<{self.writer.lanes * words_of(dtype)} x i1> {name}"

    def _by_words(self, dtype: np.dtype[Any], element: str, name: str, level: int) -> str:
        """A lane for each word of an element."""
        lanes, words = self.writer.lanes, words_of(dtype)
        if words == 1:
            return name
        order = lane_order([k for k in range(lanes) for _ in range(words)])
        type_ = f"<{lanes} x {element}>"
        return self.writer.line(f"shufflevector {type_} {name}, {type_} poison, {order}", level)

    def _suffix(self, dtype: np.dtype[Any]) -> str:
        """What the names of intrinsics say of a vector of a dtype."""
        if dtype.kind == "c":
            return suffix("i64", self.writer.lanes * words_of(dtype))
        return suffix(memory_type(dtype), self.writer.lanes)

    def load_lanes(self, dtype: np.dtype[Any], pointer: str, mask: str | None, level: int) -> str:
        """A vector of neighbours, those that are masked out zero."""
        w, size = self.writer, dtype.itemsize
        type_ = memory_type(dtype, w.lanes)
        if mask is None:
            return w.line(f"load {type_}, ptr {pointer}, align {size}", level)
        name = f"llvm.masked.load.{self._suffix(dtype)}.p0"
        inside = self._lanes_of(dtype, mask, level)
        operands = f"ptr {pointer}, i32 {size}, {inside}, {type_} zeroinitializer"
        return w.line(f"call {type_} @{name}({operands})", level)

    def store_lanes(
        self, name: str, dtype: np.dtype[Any], pointer: str, mask: str | None, level: int
    ) -> None:
        """Write a vector to neighbours, but for those that are masked out."""
        w, size = self.writer, dtype.itemsize
        value = f"{memory_type(dtype, w.lanes)} {name}"
        if mask is None:
            w.do(f"store {value}, ptr {pointer}, align {size}", level)
            return
        inside = self._lanes_of(dtype, mask, level)
        call = f"llvm.masked.store.{self._suffix(dtype)}.p0"
        w.do(f"call void @{call}({value}, ptr {pointer}, i32 {size}, {inside})", level)

    def prefetch_bytes(self, pointer: str, distance: int, level: int, write: bool) -> None:
        """Ask for what is so many bytes after a pointer."""
        w = self.writer
        ahead = w.line(f"getelementptr i8, ptr {pointer}, i64 {distance}", level)
        w.do(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 {int(write)}, i32 3, i32 1)", level)

    def first_line(self, buffer: int, address: IndexExpr, dim: int, low: str) -> str:
        """The first index of a dim, from one on, at whose address a cache line begins."""
        w = self.writer
        dtype = w.kernel.operands[buffer].dtype
        others = [(a, c) for a, c in address.terms if a != Dim(dim)]
        row = self.pointer(buffer, add_terms(address.const, others)).name
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
        lanes = self.writer.lanes if vector else 1
        if dtype.kind == "c" and lanes > 1:
            text = f"bitcast {memory_type(dtype, lanes)} {name} to {llvm_type(dtype, lanes)}"
        elif dtype == _BOOL:
            zero = "zeroinitializer" if vector else "0"
            text = f"icmp ne {memory_type(dtype, lanes)} {name}, {zero}"
        else:
            return name
        return self.writer.line(text, level)

    def to_memory(self, name: str, dtype: np.dtype[Any], lanes: int, level: int) -> str:
        """A value as memory has it."""
        if dtype != _BOOL and (dtype.kind != "c" or lanes == 1):
            return name
        how = "zext" if dtype == _BOOL else "bitcast"
        text = f"{how} {llvm_type(dtype, lanes)} {name} to {memory_type(dtype, lanes)}"
        return self.writer.line(text, level)
