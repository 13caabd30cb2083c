"""Tiles of sums that are turned: a function that puts the columns of one side by side.

Sums are added up row by row (``llvm/functions/tile_sums.py``).  Where the results of a contraction
are contiguous along the rows of its tiles, what follows the sums reads them column by column.  So a
tile is transposed on its way from one part of scratch memory to another, square by square in
registers.  As sums are, this is a function that contractions share:

    void turn(tile, turned, height, width, row_pitch, pitch)

where ``tile`` points to ``height`` rows of ``width`` elements, ``turned`` to where the columns go,
and rows and columns begin so many bytes apart.  Squares that reach beyond the last row repeat it;
a function that is *masked* writes nothing there.

Start at :func:`turn_text`.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

import numpy as np

from functrax.backends.llvm.templates import below, llvm_type, suffix
from functrax.backends.llvm.tile_rows import transposed


@cache
def turn_text(dtype: np.dtype[Any], lanes: int, masked: bool, name: str) -> str:
    """The function as a module of LLVM IR, for squares of so many lanes."""
    element, vector, size = llvm_type(dtype, 1), llvm_type(dtype, lanes), dtype.itemsize
    numbers = count()
    lines = [
        f"define void @{name}(ptr %tile, ptr %turned, i64 %height, i64 %width, "
        "i64 %row_pitch, i64 %pitch) nounwind {",
        "entry:",
        "  %last = sub i64 %height, 1",
        "  br label %rows",
        "rows:",
        "  %row = phi i64 [ 0, %entry ], [ %row.next, %columns.exit ]",
        "  %row.to = phi ptr [ %turned, %entry ], [ %row.to.next, %columns.exit ]",
    ]

    def line(right: str) -> str:
        lines.append(f"  %v{(n := next(numbers))} = {right}")
        return f"%v{n}"

    begins = []
    for k in range(lanes):
        number = line(f"add i64 %row, {k}") if k else "%row"
        inside = line(f"icmp slt i64 {number}, %last")
        number = line(f"select i1 {inside}, i64 {number}, i64 %last")
        offset = line(f"mul i64 {number}, %row_pitch")
        begins.append(line(f"getelementptr i8, ptr %tile, i64 {offset}"))
    mask = below(line, line("sub i64 %height, %row"), lanes) if masked else ""
    lines += [
        "  br label %columns",
        "columns:",
        "  %column = phi i64 [ 0, %rows ], [ %column.next, %columns ]",
        "  %to = phi ptr [ %row.to, %rows ], [ %to.next, %columns ]",
    ]
    places = [line(f"getelementptr {element}, ptr {x}, i64 %column") for x in begins]
    rows = [line(f"load {vector}, ptr {x}, align {size}") for x in places]
    place = "%to"
    for k, column in enumerate(transposed(line, vector, lanes, size, rows)):
        place = line(f"getelementptr i8, ptr {place}, i64 %pitch") if k else place
        store = f"store {vector} {column}, ptr {place}, align {size}"
        if masked:
            call = f"llvm.masked.store.{suffix(element, lanes)}.p0"
            inside = f"i32 {size}, <{lanes} x i1> {mask}"
            store = f"call void @{call}({vector} {column}, ptr {place}, {inside})"
        lines.append(f"  {store}")
    lines += [
        f"  %to.next = getelementptr i8, ptr {place}, i64 %pitch",
        f"  %column.next = add i64 %column, {lanes}",
        "  %columns.more = icmp slt i64 %column.next, %width",
        "  br i1 %columns.more, label %columns, label %columns.exit",
        "columns.exit:",
        f"  %row.to.next = getelementptr {element}, ptr %row.to, i64 {lanes}",
        f"  %row.next = add i64 %row, {lanes}",
        "  %rows.more = icmp slt i64 %row.next, %height",
        "  br i1 %rows.more, label %rows, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"
