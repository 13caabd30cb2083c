"""Vectors of elements that are a few places apart in memory: every second one, or backwards.

A gather or a scatter takes a processor some cycles for each lane.  Where lanes are 2, 3 or 4
elements apart, or neighbours in reverse, the memory from the first lane to the last one is as many
vectors: these are read or written as rows, of which what is to be left alone is masked out, and
permutations of lanes do the rest.

Start at :func:`is_short`; :func:`read` and :func:`write` write the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from functrax.backends.llvm.addresses import Memory, MemoryAccess, memory_type
from functrax.backends.llvm.templates import lane_order

#: Strides that this is done for.
STRIDES: Final = (-1, 2, 3, 4)
#: Bytes of the elements of which there are permutations everywhere.
_SIZES: Final = (4, 8)


def is_short(a: MemoryAccess, lanes: int) -> bool:
    """Whether lanes so far apart are read and written in rows."""
    if a.scattered or lanes < 4 or a.stride not in STRIDES:
        return False
    return a.dtype.kind != "c" and a.dtype.itemsize in _SIZES


def read(memory: Memory, a: MemoryAccess, mask: str | None) -> str:
    """A vector of the elements of an access, those that are masked out arbitrary."""
    w = memory.writer
    lanes, type_ = w.lanes, memory_type(a.dtype, w.lanes)
    found = "poison"
    rows = list(_rows(memory, a))
    for place, inside in rows:
        whole = mask is None and place != rows[-1][0]  # all of it is before the last lane
        chosen = None if whole else _mask(memory, inside, mask, a.level)
        row = memory.load_lanes(a.dtype, place, chosen, a.level)
        order = lane_order([lanes + inside.index(k) if k in inside else k for k in range(lanes)])
        found = w.line(f"shufflevector {type_} {found}, {type_} {row}, {order}", a.level)
    return found


def write(memory: Memory, a: MemoryAccess, name: str, mask: str | None) -> None:
    """Write a vector to the elements of an access, but for those that are masked out."""
    w = memory.writer
    type_ = memory_type(a.dtype, w.lanes)
    for place, inside in _rows(memory, a):
        order = lane_order([max(k, 0) for k in inside])
        row = w.line(f"shufflevector {type_} {name}, {type_} poison, {order}", a.level)
        chosen = _mask(memory, inside, mask, a.level)
        memory.store_lanes(row, a.dtype, place, chosen, a.level)


def _rows(memory: Memory, a: MemoryAccess) -> Iterator[tuple[str, list[int]]]:
    """Pointers to the rows, and which lane each of their elements is; -1 for none."""
    w, pointer = memory.writer, memory.first(a)
    lanes, element = w.lanes, memory_type(a.dtype)
    if a.stride < 0:
        begin = w.line(f"getelementptr {element}, ptr {pointer}, i64 {1 - lanes}", a.level)
        yield begin, list(range(lanes))[::-1]
        return
    for first in range(0, a.stride * lanes, lanes):
        place = pointer
        if first:
            place = w.line(f"getelementptr {element}, ptr {pointer}, i64 {first}", a.level)
        yield place, [-1 if k % a.stride else k // a.stride for k in range(first, first + lanes)]


def _mask(memory: Memory, inside: Sequence[int], mask: str | None, level: int) -> str | None:
    """The elements of a row that may be touched, None for all of them."""
    lanes = memory.writer.lanes
    if mask is None:
        if -1 not in inside:
            return None
        return "<" + ", ".join(f"i1 {'false' if k < 0 else 'true'}" for k in inside) + ">"
    order, type_ = lane_order([lanes if k < 0 else k for k in inside]), f"<{lanes} x i1>"
    text = f"shufflevector {type_} {mask}, {type_} zeroinitializer, {order}"
    return memory.writer.line(text, level)
