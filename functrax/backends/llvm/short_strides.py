"""Vectors of elements that are a few places apart in memory: every second one, or backwards.

A gather or a scatter takes a processor some cycles for each lane.  Where lanes are 2, 3 or 4
elements apart, or neighbours in reverse, the memory from the first lane to the last one is as many
vectors: these are read or written as rows, of which what is to be left alone is masked out, and
permutations of lanes do the rest.

Start at :func:`is_short`; :func:`read` and :func:`write` write the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.llvm.addresses import Memory, memory_type

#: Strides that this is done for.
STRIDES: Final = (-1, 2, 3, 4)
#: Bytes of the elements of which there are permutations everywhere.
_SIZES: Final = (4, 8)


def is_short(stride: int, dtype: np.dtype[Any], lanes: int) -> bool:
    """Whether lanes so far apart are read and written in rows."""
    return dtype.kind != "c" and dtype.itemsize in _SIZES and lanes >= 4 and stride in STRIDES


def read(
    memory: Memory, dtype: np.dtype[Any], pointer: str, stride: int, mask: str | None, level: int
) -> str:
    """A vector of the elements that begin at a pointer, those that are masked out arbitrary."""
    w = memory.writer
    lanes, type_ = w.lanes, memory_type(dtype, w.lanes)
    found = "poison"
    rows = list(_rows(memory, dtype, pointer, stride, level))
    for place, inside in rows:
        whole = mask is None and place != rows[-1][0]  # all of it is before the last lane
        chosen = None if whole else _mask(memory, inside, mask, level)
        row = memory.load_lanes(type_, dtype, place, chosen, level)
        order = [lanes + inside.index(k) if k in inside else k for k in range(lanes)]
        operands = f"{type_} {found}, {type_} {row}"
        found = w.line(f"shufflevector {operands}, {_order(order, 0)}", level)
    return found


def write(
    memory: Memory,
    dtype: np.dtype[Any],
    name: str,
    pointer: str,
    stride: int,
    mask: str | None,
    level: int,
) -> None:
    """Write a vector to the elements that begin at a pointer, but for those that are masked out."""
    w = memory.writer
    lanes, type_ = w.lanes, memory_type(dtype, w.lanes)
    for place, inside in _rows(memory, dtype, pointer, stride, level):
        row = w.line(f"shufflevector {type_} {name}, {type_} poison, {_order(inside, 0)}", level)
        chosen = _mask(memory, inside, mask, level)
        if chosen is None:
            w.levels[level].lines.append(
                f"  store {type_} {row}, ptr {place}, align {dtype.itemsize}"
            )
            continue
        w.levels[level].lines.append(
            f"  call void @llvm.masked.store.{memory.suffix(dtype)}.p0({type_} {row}, ptr {place}, "
            f"i32 {dtype.itemsize}, <{lanes} x i1> {chosen})"
        )


def _rows(
    memory: Memory, dtype: np.dtype[Any], pointer: str, stride: int, level: int
) -> Iterator[tuple[str, list[int]]]:
    """Pointers to the rows, and which lane each of their elements is; -1 for none."""
    w = memory.writer
    lanes, element = w.lanes, memory_type(dtype)
    if stride < 0:
        begin = w.line(f"getelementptr {element}, ptr {pointer}, i64 {1 - lanes}", level)
        yield begin, list(range(lanes))[::-1]
        return
    for first in range(0, stride * lanes, lanes):
        place = pointer
        if first:
            place = w.line(f"getelementptr {element}, ptr {pointer}, i64 {first}", level)
        yield place, [k // stride if k % stride == 0 else -1 for k in range(first, first + lanes)]


def _mask(memory: Memory, inside: Sequence[int], mask: str | None, level: int) -> str | None:
    """The elements of a row that may be touched, None for all of them."""
    lanes = memory.writer.lanes
    if mask is None:
        if -1 not in inside:
            return None
        return "<" + ", ".join(f"i1 {'false' if k < 0 else 'true'}" for k in inside) + ">"
    type_ = f"<{lanes} x i1>"
    text = f"shufflevector {type_} {mask}, {type_} zeroinitializer, {_order(inside, lanes)}"
    return memory.writer.line(text, level)


def _order(inside: Sequence[int], other: int) -> str:
    """The lanes of a row as a permutation's text, ``other`` where there is none."""
    places = ", ".join(f"i32 {other if k < 0 else k}" for k in inside)
    return f"<{len(inside)} x i32> <{places}>"
