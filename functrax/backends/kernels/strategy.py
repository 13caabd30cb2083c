"""How a contraction is computed: which dims are tiled, how large tiles are, what is packed.

What enters: a contraction without a schedule and its two sides.  What leaves: a :class:`Plan`, the
one of all that are possible which the model below finds cheapest.  The model depends on shapes
alone, so neither the number of threads nor what ran before changes the bits of a result.

The unit is a cycle.  A step of a tile costs its multiply-adds, two a cycle, or what it reads, two a
cycle; then there are the tiles' stores, the packing, and what reading across memory costs.

Start at :func:`choose`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.schedule import Target, coefficient
from functrax.backends.kernels.sides import Side
from functrax.backends.kernels.values import NotAKernelError
from functrax.core.records import record

Way: TypeAlias = Literal["in place", "packed", "windows"]

#: Steps between rows that are written into the code, for they make addresses constant.
MOST_BAKED = 4
#: Cycles that a tile takes beyond its steps: its loops, and for each vector its stores.
_TILE, _VECTOR = 30.0, 4.0
#: Cycles to pack an element: along its order in memory, and across; and of a launch.
_PACK, _PACK_ACROSS, _LAUNCH = 0.6, 1.2, 2000.0
#: A side is not stored if that makes it so many times larger, and by so many elements.
_GROWTH, _SLACK = 2, 1 << 12
#: Neighbours this far apart in bytes meet in the same sets of a cache.
_CONFLICT = 1024


@record
class Plan:
    """What is chosen.

    Args:
      left: the side that is read element by element.
      right: the side that is read in vectors.
      rows: a dim of the left side alone.
      columns: a dim of the right side alone.
      height: rows of a tile.
      width: vectors of a tile.
      lanes: of a vector.
      ways: how the left and the right side are read: ``"in place"``; ``"packed"``, tile by tile;
        or as ``"windows"`` of an array that is stored once.
      cycles: estimated, without what comes before.
      cost: with it.
    """

    left: Side
    right: Side
    rows: int
    columns: int
    height: int
    width: int
    lanes: int
    ways: tuple[Way, Way]
    cycles: float
    cost: float


def choose(kernel: Kernel, first: Side, second: Side, target: Target) -> Plan:
    """The cheapest plan.

    Raises:
      NotAKernelError: there is none: a side has no dim of its own, or cannot be read.
    """
    plans = [*_plans(kernel, first, second, target), *_plans(kernel, second, first, target)]
    if not plans:
        raise NotAKernelError("no tiles: a side has no dim of its own")
    return min(plans, key=lambda plan: plan.cost)


def _plans(kernel: Kernel, left: Side, right: Side, target: Target) -> Iterator[Plan]:
    (reduction,) = kernel.stages[0].reductions
    size = reduction.how.carries[0].itemsize
    lanes = target.vector_bytes // size
    registers = 32 if target.vector_bytes == 64 else 16
    extents = kernel.extents
    steps = math.prod(extents[d] for d in kernel.inner)
    for rows in kernel.outer:
        if rows not in left.dims or rows in right.dims:
            continue
        for columns in kernel.outer:
            if columns not in right.dims or columns in left.dims:
                continue
            height, width = tile_of(extents[rows], extents[columns], steps, lanes, registers)
            others = math.prod(extents[d] for d in kernel.outer if d not in (rows, columns))
            tiles = others * -(-extents[rows] // height) * -(-extents[columns] // (width * lanes))
            stores = _VECTOR if _contiguous(kernel, columns) else 4 * _VECTOR
            plain = tiles * (_TILE + height * width * stores + steps * _step(height, width))
            for of_left in _ways(kernel, left, rows, height, size):
                for of_right in _ways(kernel, right, columns, width, size, True):
                    cycles = plain + (of_left.each + of_right.each) * tiles * steps
                    yield Plan(
                        left, right, rows, columns, height, width, lanes,
                        (of_left.way, of_right.way), cycles,
                        cycles + of_left.once + of_right.once,
                    )  # fmt: skip


class _Cost(NamedTuple):
    """What a way to read a side costs: once, and in each step of a tile."""

    way: Way
    once: float
    each: float


def _contiguous(kernel: Kernel, columns: int) -> bool:
    return all(coefficient(store.address, columns) == 1 for store in kernel.rows)


def _ways(
    kernel: Kernel, side: Side, dim: int, count: int, size: int, vectors: bool = False
) -> Iterator[_Cost]:
    """The ways in which a side can be read."""
    own = coefficient(side.place[1], dim) if side.place is not None else 0
    if side.place is not None and (own == 1 or not vectors):
        yield _Cost("in place", 0, _in_place(kernel, side, own, count, size, vectors))
    each = _PACK if own == 1 else _PACK_ACROSS
    total = math.prod(kernel.extents[d] for d in side.dims)
    if total <= _GROWTH * side.read:
        yield _Cost("packed", _LAUNCH + total * each, 0)
    if side.windows is not None:
        total = math.prod(side.windows.extents[d] for d in side.windows.dims)
        _, factor = side.windows.home(dim)
        if total <= _GROWTH * side.read + _SLACK and (factor == 1 or not vectors):
            yield _Cost("windows", _LAUNCH + total * each, 0 if 0 < factor <= MOST_BAKED else 0.2)


def _in_place(kernel: Kernel, side: Side, own: int, count: int, size: int, vectors: bool) -> float:
    """Cycles that a step costs more because it reads a side in place."""
    assert side.place is not None
    if vectors:
        pitch = max(size * abs(coefficient(side.place[1], d)) for d in kernel.inner)
        if pitch < 512:
            return 0.0
        return (1.5 if pitch % _CONFLICT == 0 else 0.5) * count
    if own <= MOST_BAKED:
        return 0.0
    return (1.0 if own * size % _CONFLICT == 0 else 0.2) * count


def _step(height: int, width: int) -> float:
    """Cycles of a step of a tile."""
    reads = height + width
    return max(height * width / 2, reads * 0.55, 4.0) + 0.05 * reads


@cache
def tile_of(rows: int, columns: int, steps: int, lanes: int, registers: int) -> tuple[int, int]:
    """The rows and the vectors of the tile that does the least work in vain."""
    best, least = (1, 1), math.inf
    for width in range(1, 5):
        if (width - 1) * lanes >= columns:
            break
        for height in range(1, min(rows, (registers - width - 1) // width) + 1):
            tiles = -(-rows // height) * -(-columns // (width * lanes))
            each = _TILE + height * width * _VECTOR + steps * _step(height, width)
            if tiles * each < least:
                best, least = (height, width), tiles * each
    return best
