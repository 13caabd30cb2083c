"""Tiles: arrays that are contiguous along another dim than the vector dim.

A tile is as many points of the tile dim as a vector has lanes.  Its rows are read along the tile
dim, each as one vector, and the square of elements is transposed in registers: then there is a
vector along the vector dim for each point of the tile.

Start at :meth:`Tiles.rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from functrax.backends.kernels.accesses import coefficient, dims_of
from functrax.backends.llvm.addresses import Memory, memory_type
from functrax.backends.llvm.templates import below, lane_order
from functrax.backends.llvm.writer import Names, Writer
from functrax.backends.targets import target
from functrax.core.index.expr import IndexExpr, add_terms
from functrax.core.scalars.scalar import Scalar

#: Bytes of the largest element that shuffles know.
_LARGEST = 8


class Tiles:
    """The tiles that have been read."""

    def __init__(self, writer: Writer, memory: Memory) -> None:
        self.writer = writer
        self.memory = memory
        #: Where in the tile dim the tile begins, and the point of it that is computed now.
        self.begin = ""
        self.lane = 0
        #: For each array, address and guard the loop in which its tile was read, and its rows.
        self._found: dict[tuple[int, IndexExpr, int], tuple[str, Names]] = {}

    def is_tiled(self, address: IndexExpr, offset: Scalar | None, guard: Scalar | None) -> bool:
        """Whether an array is read in tiles: it is contiguous along the tile dim."""
        w = self.writer
        if w.kernel.tile is None or offset is not None:
            return False
        if guard is not None and w.kernel.tile in dims_of(guard):
            return False
        across = coefficient(address, w.kernel.vector) not in (0, 1)
        return across and coefficient(address, w.kernel.tile) == 1

    def rows(self, buffer: int, address: IndexExpr, guard: Scalar | None) -> Names:
        """A tile of an array that is contiguous along the tile dim: a vector for each point of it.

        Rows along the tile dim are read, and transposed in registers.  Instead of a row that is not
        to be read the first elements of the array are.
        """
        w = self.writer
        level = len(w.levels) - 2  # once for all points of the tile
        key = (buffer, address, id(guard))
        found = self._found.get(key)
        if found is not None and found[0] == w.open[-1]:
            return found[1]
        dtype = w.kernel.operands[buffer].dtype
        element, stride = memory_type(dtype), self.memory.stride(address)
        others = [(a, c) for a, c in address.terms if a.dims_mask != 1 << (w.kernel.tile or 0)]
        base = self.memory.pointer(buffer, add_terms(address.const, others)).name
        base = w.line(f"getelementptr {element}, ptr {base}, i64 {self.begin}", level)
        step = w.number(stride, ("stride", buffer, w.kernel.vector, stride))
        mask = self._mask(level)
        guards = "" if guard is None else w.as_vector(guard)
        rows = []
        for k in range(w.lanes):
            offset = w.line(f"mul nsw i64 {step}, {self._row(k, level)}", level)
            pointer = w.line(f"getelementptr {element}, ptr {base}, i64 {offset}", level)
            if guard is not None:
                inside = w.line(f"extractelement <{w.lanes} x i1> {guards}, i64 {k}", level)
                pointer = w.line(f"select i1 {inside}, ptr {pointer}, ptr %b{buffer}", level)
            rows.append(self.memory.load_lanes(dtype, pointer, mask, level))
        type_ = memory_type(dtype, w.lanes)
        rows = transposed(lambda x: w.line(x, level), type_, w.lanes, dtype.itemsize, rows)
        self._found[key] = (w.open[-1], rows)
        return rows

    def _row(self, k: int, level: int) -> str:
        """The number of a lane of the vector dim, or of the last one inside its extent."""
        w = self.writer
        if not w.masked or k == 0:
            return str(k)
        key = ("tile row", k)
        found = w.known.get(key)
        if found is None:
            count = w.known["inside"].name
            last = w.line(f"sub i64 {count}, 1", level)
            more = w.line(f"icmp slt i64 {k}, {count}", level)
            name = w.line(f"select i1 {more}, i64 {k}, i64 {last}", level)
            found = w.know(key, name, False, level)
        return found.name

    def _mask(self, level: int) -> str | None:
        """The points of a tile that are inside the extent of the tile dim; None for all."""
        w = self.writer
        tile = w.kernel.tile
        assert tile is not None
        if w.kernel.extents[tile] % w.lanes == 0:
            return None
        extent = w.kernel.extents[tile]
        whole = w.number(extent, ("extent", tile))
        left = w.line(f"sub i64 {whole}, {self.begin}", level)
        return below(lambda x: w.line(x, level), left, w.lanes, extent)


def transposed(line: Callable[[str], str], type_: str, lanes: int, size: int, rows: Names) -> Names:
    """A square of elements of ``size`` bytes in registers, its rows as columns.

    Args:
      line: writes an instruction and gives the name of what it computes.
      type_: of a row.
      lanes: of a row, and how many rows there are.
      size: bytes of an element.
      rows: their names.
    """
    exchanges, order = _exchanges(lanes, size, target().shuffled_bytes)
    rows, now = list(rows), type_
    for first, second, together, masks in exchanges:
        wanted, bits = type_, 8 * size * together
        if together > 1:  # elements that are so many of another one's
            element = "double" if bits == 64 and type_.endswith("float>") else f"i{bits}"
            wanted = f"<{lanes // together} x {element}>"
        if wanted != now:
            rows = [line(f"bitcast {now} {x} to {wanted}") for x in rows]
            now = wanted
        rows[first], rows[second] = [
            line(f"shufflevector {now} {rows[first]}, {now} {rows[second]}, {mask}")
            for mask in masks
        ]
    if now != type_:
        rows = [line(f"bitcast {now} {x} to {type_}") for x in rows]
    return [rows[k] for k in order]


@cache
def _exchanges(
    lanes: int, size: int, shuffled: int
) -> tuple[list[tuple[int, int, int, tuple[str, str]]], list[int]]:
    """How to transpose a square: pairs of vectors that are shuffled in turn, and the columns.

    Each shuffle is one instruction, and needs no table of places: first in blocks of ``shuffled``
    bytes, of which halves are interleaved by ever larger groups, then whole blocks, of which every
    other one comes from each vector.  Groups are moved as elements of up to 8 bytes: LLVM takes
    half the time to find the same instructions.

    Args:
      lanes: of each vector, and how many there are.
      size: bytes of an element.
      shuffled: bytes inside which shuffles are cheapest.

    Returns:
      Numbers of vectors, how many elements are one, and the two masks, in order; then for each
      column its vector.
    """
    block = max(1, min(lanes, shuffled // size))
    content = [[(row, column) for column in range(lanes)] for row in range(lanes)]
    exchanges = []
    distance = 1
    while distance < lanes:
        together = max(1, min(distance, _LARGEST // size))
        masks = _masks(lanes // together, max(1, block // together), distance // together)
        texts = (lane_order(masks[0]), lane_order(masks[1]))
        for first in range(lanes):
            if first & distance:
                continue
            second = first + distance
            exchanges.append((first, second, together, texts))
            both = content[first] + content[second]
            content[first], content[second] = [
                [both[m * together + k] for m in mask for k in range(together)] for mask in masks
            ]
        distance *= 2
    columns = {vector[0][1]: k for k, vector in enumerate(content)}
    return exchanges, [columns[k] for k in range(lanes)]


def _masks(lanes: int, block: int, distance: int) -> tuple[list[int], list[int]]:
    """Which elements of two vectors are in the first one after an exchange, and in the second."""
    if distance < block:  # groups of ``distance`` elements, from either vector in turn
        half = range(0, block // 2, distance)
        found = []
        for skipped in (0, block // 2):
            starts = [b + skipped + g for b in range(0, lanes, block) for g in half]
            found.append([s + k + v for s in starts for v in (0, lanes) for k in range(distance)])
        return found[0], found[1]
    even = [b + k for b in range(0, 2 * lanes, 2 * block) for k in range(block)]
    return even, [m + block for m in even]
