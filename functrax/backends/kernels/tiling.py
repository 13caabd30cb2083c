"""The schedule of a contraction: which dims make a tile, and how its sides are read.

A contraction adds up products of a *left* and a *right* side.  A tile of its result is ``height``
neighbours along the dim ``rows``, which only the left side depends on, times ``width`` vectors
along ``columns``, which only the right side depends on.  The tile stays in registers while the
inner dims (K) are summed: in each step ``width`` vectors of the right side are read, and ``height``
elements of the left one, each into all lanes.

    for unit in begin, end:          (blocks of columns in blocks of rows in the other outer dims)
        for tiles of the block of columns:
            for tiles of the block of rows:
                for inner dims:
                    accumulators += left * right
                for rows and columns of the tile:
                    do the row stores, which read the sum from a tile of scratch memory

Many steps are done in *blocks*, so that what the tiles of a unit read again is in a cache.  Between
blocks the sums of all tiles of the unit wait in scratch memory:

        for blocks of the inner dims:
            for tiles of columns, of rows:
                accumulators = sums so far; for inner dims: ...
        for tiles of columns, of rows:
            do the row stores

Where it is worth it, the first tile of rows of a unit copies the vectors that it reads of the right
side to a *panel* in scratch memory, and the others read them there: side by side, aligned, and in
few pages, however they are in the array.

Where the results are contiguous along the rows, not the columns, a tile of sums is *turned* on its
way to the row stores: they read it column by column, in vectors along the rows.

A tile at the end of a dim is moved back, so that it is inside, and what it has in common with the
one before is not stored again.  Sides that were *packed* have tiles of their own for that, filled
up with zeros.

Start at :class:`Tiling`.
"""

from __future__ import annotations

import math

from functrax.backends.targets import target
from functrax.core.index.expr import IndexExpr
from functrax.core.records import record


@record
class Reading:
    """How a tile reads a side of the product.

    Args:
      buffer: the array.
      address: of the tile's first element, affine in the dims; the dim of the tile counts from its
        begin.
      step: how far apart neighbours of the tile are.
      packed: whether the array was made for these tiles.
    """

    buffer: int
    address: IndexExpr
    step: int
    packed: bool


#: Steps between rows of the left side up to this are part of the addresses in the code.
BAKED = 4


def lanes_of_columns(height: int, lanes: int) -> int:
    """The lanes of vectors along the rows of a tile: no more than fit into that many rows."""
    return min(lanes, max(target().least_lanes, 1 << (height - 1).bit_length()))


def pitch_of_columns(height: int, lanes: int) -> int:
    """How far apart the columns of a turned tile are, which are whole vectors."""
    return -(-height // lanes) * lanes


def is_of_unit(dot: tuple[str, ...] | None) -> bool:
    """Whether a matrix unit multiplies: by a kind of instruction and dtypes, as ``Tiling`` has."""
    return bool(dot and dot[0].startswith("tile "))


@record
class Tiling:
    """The schedule of a contraction.

    Args:
      rows: the dim along which elements of the left side are neighbours in a tile.
      columns: the dim along which vectors of the right side are.
      height: how many rows a tile has.
      width: how many vectors.
      lanes: of a vector.
      left: how the left side is read.
      right: how the right side is read; its step is 1.
      first_row: the number of a dim that stands for the first row of a tile.
      first_column: the same of columns.
      scratch: the number of the operand that holds a tile, or all of a unit.
      place: of the sum of a point in it, as the row stores read it.
      panel: where in scratch memory the first tile of rows of a unit copies what it reads of the
        right side, from where the others read it; None if each reads it for itself.
      block: how many points of an inner dim are done at a time; that dim and those after it are
        inside the loops over tiles, those before it outside.  None to do all steps of a tile.
      turned: where in scratch memory the columns of a tile are side by side for the row stores;
        None if these go along its rows.
      row_tiles: how many tiles of rows make a unit.
      column_tiles: how many of columns.
      fetches: whether tiles ask for what later ones read of the right side, where they can.
      others: the outer dims that are not in a tile.
      batch: the outer dims that both sides depend on.
      ns: estimated nanoseconds of the whole kernel on one thread.
      dot: of a contraction over words the kind of instruction, and the dtypes in the words of the
        left and of the right side (``gemm/packed_dtypes.py``); else empty.
    """

    rows: int
    columns: int
    height: int
    width: int
    lanes: int
    left: Reading
    right: Reading
    first_row: int
    first_column: int
    scratch: int
    place: IndexExpr
    panel: int | None
    turned: int | None
    row_tiles: int
    column_tiles: int
    fetches: bool
    block: tuple[int, int] | None
    others: tuple[int, ...]
    batch: tuple[int, ...]
    ns: int
    dot: tuple[str, ...] = ()

    @property
    def on_unit(self) -> bool:
        """Whether a matrix unit multiplies its tiles."""
        return is_of_unit(self.dot)

    def units(self, extents: tuple[int, ...]) -> int:
        """How many units of work threads share."""
        blocks = self.blocks_of_rows(extents) * self.blocks_of_columns(extents)
        return math.prod([extents[d] for d in self.others], start=blocks)

    def blocks_of_rows(self, extents: tuple[int, ...]) -> int:
        """How many blocks of tiles the rows are cut into."""
        return -(-extents[self.rows] // (self.height * self.row_tiles))

    def blocks_of_columns(self, extents: tuple[int, ...]) -> int:
        """How many blocks of tiles the columns are cut into."""
        return -(-extents[self.columns] // (self.width * self.lanes * self.column_tiles))

    def __str__(self) -> str:
        copied = "" if self.panel is None else ", copied by the first rows"
        sides = [
            f"{name} {'packed' if side.packed else 'in place'}"
            for name, side in (("left", self.left), ("right", self.right))
        ]
        sides[1] += copied
        tile = f"d{self.rows} {self.height} x d{self.columns} {self.width}*{self.lanes}"
        batch = f"batch {', '.join(f'd{d}' for d in self.batch)}; " if self.batch else ""
        steps = f"; d{self.block[0]} in blocks of {self.block[1]}" if self.block else ""
        words = f"; {' '.join(self.dot)} words" if self.dot else ""
        turned = "" if self.turned is None else "; sums turned"
        return f"{batch}tile {tile}; {'; '.join(sides)}{steps}{words}{turned}"
