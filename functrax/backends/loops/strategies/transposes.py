"""Tiles: the schedule of kernels that read along another dim than the one that they write along.

A tile is ``lanes`` points of the *tile* dim, along which an array is contiguous, by as many of the
vector dim, along which results are: its rows are read, transposed in registers, and written as
columns (``rewrites/turn.py``).  This file says in which order the tiles are visited.

Memory is read well in long rows, from a few places at once, and written well in whole lines.  So
the tiles of a *stripe*, ``lanes`` rows of what is read, come one after the other.  Each writes
``lanes`` lines somewhere; the next stripe writes those beside them.  Where lines go past the
caches, that is all: stripes may be long.  Elsewhere (results that fit the caches, or are not whole
lines, or kernels that read other arrays along the vector dim) the lines must still be in the cache
when the next stripe comes, so stripes are short, and blocks of them side by side.

Lines that are a multiple of 1 KiB apart share few sets of a cache and few banks of memory, which
take one line after the other.  There each place of a stripe has two or four tiles, of rows one
below the other, which write lines side by side.

Start at :func:`choose_tile`.
"""

from __future__ import annotations

import math
from operator import le
from typing import Final

from functrax.backends.kernels.accesses import accesses, coefficient, coefficients, is_streamed
from functrax.backends.kernels.ir import Kernel
from functrax.backends.loops.rewrites.order import Reorder, Split
from functrax.backends.loops.rewrites.parallelize import Parallelize
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.rewrites.turn import Turn
from functrax.backends.loops.strategies.lanes import reorder
from functrax.backends.loops.strategies.parallel import FEW
from functrax.backends.loops.strategies.rows import streams
from functrax.backends.targets import Target
from functrax.core.types.size_bounds import roughly, surely
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: How many tiles write side by side where lines collide: half as many if no two of the rows that
#: are read share a page.
MOST_BESIDE: Final = 4
#: Tiles of fewer points along a dim do not pay.
LEAST_LANES: Final = 4
#: Bytes of the largest element that is read in tiles.
LARGEST: Final = 8


def choose_tile(kernel: Kernel, target: Target) -> int | None:
    """The dim along which to read in rows what neighbouring lanes would read across rows."""
    v = kernel.vector
    if v is None or v not in kernel.outer or kernel.inner:
        return None
    if any(s.serial for s in kernel.stores()):
        return None
    rank = len(kernel.extents)
    rows = [(coefficients(address, rank), stored) for address, _, stored in accesses(kernel)]
    if any(stored and row[v] != 1 for row, stored in rows):
        return None
    widest = max(kernel.operands[k].dtype.itemsize for _, k, _ in accesses(kernel))
    if widest > LARGEST:
        return None
    across = [row for row, _ in rows if row[v] not in (0, 1)]
    dims = [d for d in kernel.outer if d != v and any(row[d] == 1 for row in across)]
    if not dims:
        return None
    w = max(dims, key=lambda d: (sum(row[d] == 1 for row in across), kernel.extents[d]))
    least = min(kernel.extents[v], kernel.extents[w])
    if least < LEAST_LANES:
        return None
    lanes = min(target.vector_bytes // max(widest, 4), 16)
    while 2 * least <= lanes:  # one tile of more lanes is less work than two of fewer
        lanes //= 2
    kernel.lanes = lanes
    _order_as_read(kernel, w, across)
    return w


def _order_as_read(kernel: Kernel, tile: int, across: list[list[int]]) -> None:
    """Go through the dims as an array that is read in tiles has them in memory.

    Its rows are read from end to end then, a vector's lanes of them at once.  What is written are
    whole lines wherever they are.
    """
    source = max(across, key=lambda row: sum(1 for n in row if n))
    others = [d for d in kernel.outer if d != tile]
    others.sort(key=lambda d: -abs(source[d]))
    reorder(kernel, "outer", (*others, tile))


def transposes(kernel: Kernel, target: Target, tile: int) -> list[Rewrite]:
    """The rewrites that choose the stripes, which dim threads share, and tiles side by side.

    A stripe that is too long is cut along one of its dims, whose blocks are the units of work.
    """
    v = kernel.vector
    assert v is not None
    stripe = kernel.outer[kernel.outer.index(v) + 1 :]
    beside, units = _share_tiles(kernel, target, tile, stripe)
    found: list[Rewrite] = [*units]
    if beside > 1 and stripe:
        found += [Split(v, beside * kernel.lanes), Reorder((*stripe, v))]
    return [*found, Turn(tile), *streams(kernel)]


def _share_tiles(
    kernel: Kernel, target: Target, tile: int, stripe: tuple[int, ...]
) -> tuple[int, list[Parallelize]]:
    """How many tiles are side by side, and what threads share."""
    v = kernel.vector
    assert v is not None
    only_streams = _only_streams(kernel)
    limit = target.scattered_lines[only_streams]
    lines = 1
    alone = surely(le, kernel.extents[v], kernel.lanes)  # no other stripe writes beside this one
    length = math.prod(kernel.extents[d] for d in stripe)
    beside = _side_by_side(kernel, target, tile, only_streams, length)

    def shared(d: int, grain: int) -> tuple[int, list[Parallelize]]:
        """Share a dim in blocks of at least ``grain`` points, in whole tiles."""
        if d in (v, tile):
            whole = kernel.lanes * (beside if d == v else 1)
            grain = -(-grain // whole) * whole
        grain = grain if is_symbolic_dim(kernel.extents[d]) else min(grain, kernel.extents[d])
        return beside, [Parallelize(d, roughly(grain))]

    for d in reversed(stripe):
        if roughly(lines * kernel.extents[d]) > 2 * limit and not alone:
            return shared(d, -(-limit // lines))
        lines *= kernel.extents[d]
    around = [d for d in kernel.outer if d not in stripe and d != v]
    steps = -(-kernel.extents[v] // kernel.lanes)
    points = math.prod(kernel.extents[d] for d in kernel.outer)
    for d in around:
        if roughly(kernel.extents[d]) >= 2 * FEW or roughly(kernel.extents[d] - steps) > 0:
            return shared(d, -(-target.unit_points * kernel.extents[d] // points))
    longest = max(stripe, key=lambda d: roughly(kernel.extents[d]))
    if roughly(steps) < FEW and roughly(kernel.extents[longest] - kernel.extents[v]) > 0:
        return shared(longest, -(-target.unit_points * kernel.extents[longest] // points))
    while beside > 1 and roughly(steps) < FEW * beside:
        beside //= 2
    return shared(v, -(-target.unit_points // lines))


def _side_by_side(kernel: Kernel, target: Target, tile: int, only_streams: bool, lines: int) -> int:
    """How many tiles along the vector dim come one after the other, in a stripe of so many lines.

    More rows are read side by side then, which costs where nothing collides.
    """
    v = kernel.vector
    written, read = [], []
    for address, k, stored in accesses(kernel):
        size = kernel.operands[k].dtype.itemsize
        if stored:
            written.append(abs(coefficient(address, tile)) * size)
        elif coefficient(address, v) not in (0, 1):
            read.append(abs(coefficient(address, v)) * size)
    colliding = target.colliding_stride
    if min(written) < colliding or all(step % colliding for step in (*written, *read)):
        return 1
    if not only_streams:
        return MOST_BESIDE
    if lines <= target.scattered_lines[0]:
        return 1
    return MOST_BESIDE if 2 * max(read) <= target.page else MOST_BESIDE // 2


def _only_streams(kernel: Kernel) -> bool:
    """Whether results go past the caches, and nothing is read along the vector dim."""
    rows = [
        (coefficient(address, kernel.vector), stored) for address, _, stored in accesses(kernel)
    ]
    alone = all(stored or step != 1 for step, stored in rows)
    return alone and all(is_streamed(kernel, store) for store in kernel.stores())
