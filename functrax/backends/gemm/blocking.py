"""How a contraction is computed: which dims are tiled, how large tiles are, what is packed.

What enters: a contraction without a schedule and its two sides.  What leaves: a :class:`Plan`, the
one of all that are possible which the model below finds cheapest.  The model depends on shapes
alone, so neither the number of threads nor what ran before changes the bits of a result.

What a plan costs, in nanoseconds, is counted in cycles.  A step of a tile costs its multiply-adds,
two a cycle, or what it reads, two a cycle; then there are the tiles' stores, the packing, and what
reading across memory costs.

Start at :func:`ranked`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from functrax.backends.cost import cycles_ns
from functrax.backends.gemm.sides import Side, stride
from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.tiling import lanes_of_columns, pitch_of_columns
from functrax.backends.targets import Target
from functrax.core.records import record, replace

Way: TypeAlias = Literal["in place", "packed", "windows", "rows"]

#: Steps between rows that are written into the code, for they make addresses constant.
MOST_BAKED = 4
#: How many tiles of rows share the cost of a copy, at most.
_READERS = 32
#: Steps that are done at a time, of a contraction that has many; and if the right side is copied.
DEPTH, COPIED_DEPTH = 512, 256
#: More rows than this are in tiles of these heights, with many registers and with few: another
#: number of rows shall seldom be another kernel.
_EXACT = 32
_MANY_REGISTERS, _HEIGHTS, _FEW_HEIGHTS = 32, (6, 8, 14), (4, 6)
#: A side is not stored if that makes it so many times larger, and larger than so many elements; as
#: windows it is where there are so many products for each element, and if it is no larger than all
#: arrays together.  What fills up panels counts too, where they are larger than twice all arrays.
_GROWTH, _SLACK, _WORTH = 2, 1 << 12, 16


@record
class Plan:
    """What is chosen.

    Args:
      left: the side that is read element by element.
      right: the side that is read in vectors.
      rows: a dim of the left side alone, if it has one.
      columns: a dim of the right side alone.
      height: rows of a tile.
      width: vectors of a tile.
      lanes: of a vector.
      ways: how the left and the right side are read: ``"in place"``; ``"packed"``, tile by tile;
        as ``"windows"`` of an array that is stored once; or as ``"rows"`` of a tile, for matrix
        units.
      copied: whether the first tile of rows copies what it reads of the right side for the others.
      block: see :class:`~functrax.backends.kernels.tiling.Tiling`.
      ns: nanoseconds on one thread, without what comes before.
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
    copied: bool
    block: tuple[int, int] | None
    ns: float
    cost: float

    def depth(self, extents: tuple[int, ...], inner: tuple[int, ...]) -> int:
        """How many steps are done at a time."""
        if self.block is None:
            return math.prod(extents[d] for d in inner)
        dim, size = self.block
        return size * math.prod(extents[d] for d in inner[inner.index(dim) + 1 :])


def ranked(kernel: Kernel, first: Side, second: Side, target: Target) -> list[Plan]:
    """The plans that there are, the cheapest one first; none if no side has a dim of its own."""
    plans = [*_plans(kernel, first, second, target), *_plans(kernel, second, first, target)]
    return sorted(plans, key=lambda plan: plan.cost)


def _plans(kernel: Kernel, left: Side, right: Side, target: Target) -> Iterator[Plan]:
    (reduction,) = kernel.stages[0].reductions
    size = reduction.how.carries[0].itemsize
    lanes = target.vector_bytes // size
    merges = [m for side in (left, right) if side.windows for m in side.windows.merges]
    images = {d for m in merges for d in (m.first, m.second)}
    extents = tuple(_rounded(n, d in images) for d, n in enumerate(kernel.extents))
    blocks = {depth: blocks_of(kernel, depth) for depth in (DEPTH, COPIED_DEPTH)}
    kernel = replace(kernel, extents=extents)
    steps = math.prod(extents[d] for d in kernel.inner)
    own = [d for d in kernel.outer if d in left.dims and d not in right.dims]
    for columns in kernel.outer:
        if columns not in right.dims or columns in left.dims:
            continue
        # Without a dim of its own the left side has tiles of one row, along any dim.
        for rows in own or [d for d in kernel.outer if d != columns]:
            count = extents[rows] if own else 1
            height, width = tile_of(count, extents[columns], steps, lanes, target)
            others = math.prod(extents[d] for d in kernel.outer if d not in (rows, columns))
            tiles = others * -(-extents[rows] // height) * -(-extents[columns] // (width * lanes))
            stores = target.tile_store_cycles * cost_of_stores(
                kernel, rows, columns, height, lanes, target
            )
            plain = tiles * (
                target.tile_start_cycles
                + height * width * stores
                + steps * _step(height, width, lanes, steps, target)
            )
            for of_left in _ways(kernel, left, rows, height, size, target):
                readers = -(-extents[rows] // height) if own else 1
                for of_right in _right_ways(
                    kernel, right, columns, (width, lanes), size, readers, target
                ):
                    cycles = plain + (of_left.each + of_right.each) * tiles * steps
                    block = blocks[COPIED_DEPTH if of_right.copied else DEPTH]
                    yield Plan(
                        left, right, rows, columns, height, width, lanes,
                        (of_left.way, of_right.way), of_right.copied, block,
                        cycles_ns(cycles, target),
                        cycles_ns(cycles + of_left.once + of_right.once, target),
                    )  # fmt: skip


class _Cost(NamedTuple):
    """What a way to read a side costs: once, and in each step of a tile."""

    way: Way
    once: float
    each: float
    copied: bool = False


def _rounded(extent: int, of_image: bool) -> int:
    """An extent as plans see it: where it is not short, the next power of two.

    So contractions of about the same size have one plan, and with it the same machine code.  Those
    that are three quarters of one, as numbers of channels often are, stay as they are, and where
    windows move along a dim seven eighths, as sizes of images often are.
    """
    if extent <= _EXACT:
        return extent
    power = 1 << (extent - 1).bit_length()
    exact = extent == power // 4 * 3 or (of_image and extent == power // 8 * 7)
    return extent if exact else power


def blocks_of(kernel: Kernel, depth: int = DEPTH, multiple: int = 1) -> tuple[int, int] | None:
    """Which inner dim is done in blocks, and their size; None if there are few steps.

    Args:
      kernel: a contraction.
      depth: about how many steps a block has.
      multiple: what the size of blocks of the innermost dim is a multiple of.
    """
    extents, inner = kernel.extents, kernel.inner
    if math.prod(extents[d] for d in inner) <= 2 * depth:
        return None
    inside = 1
    for d in reversed(inner):
        if inside * extents[d] > depth:
            blocks = max(2, round(inside * extents[d] / depth))
            size = -(-extents[d] // min(blocks, extents[d]))
            return d, -(-size // multiple) * multiple if d == inner[-1] else size
        inside *= extents[d]
    raise AssertionError("a product is larger than a bound, so some part of it is")


def cost_of_stores(
    kernel: Kernel, rows: int, columns: int, height: int, lanes: int, target: Target
) -> float:
    """How many times longer than a vector of neighbours the results of a vector take.

    Along the rows of a tile not all lanes are rows, and short vectors take as long as long ones
    where lanes are not neighbours.
    """
    turned = pitch_of_columns(height, lanes_of_columns(height, lanes)) / height
    unused = pitch_of_columns(height, lanes) / height
    worst = 1.0
    for store in kernel.rows:
        across, along = (abs(coefficient(store.address, d)) for d in (rows, columns))
        if along == 1:
            continue
        size = kernel.operands[store.buffer].dtype.itemsize
        if 0 < across < along:
            far = across * size > target.cache_line
            scattered = target.scattered_stores[far] * unused
            worst = max(worst, target.turned_stores * turned if across == 1 else scattered)
        else:
            worst = max(worst, target.scattered_stores[along * size > target.cache_line])
    return worst


def _ways(
    kernel: Kernel,
    side: Side,
    dim: int,
    count: int,
    size: int,
    target: Target,
    vectors: int = 0,
) -> Iterator[_Cost]:
    """The ways in which a side can be read: element by element, or in vectors of so many lanes."""
    own = stride(side.value, dim)
    if side.place is not None and (own == 1 or not vectors):
        yield _Cost("in place", 0, _in_place(kernel, side, own, count, size, vectors > 0, target))
    each = target.pack_cycles[own != 1]
    arrays = sum(o.size for o in kernel.operands)
    if side.points <= _GROWTH * side.read:
        panel, extent = count * max(vectors, 1), kernel.extents[dim]
        filled = -(-extent // panel) * panel / extent
        if side.points * filled <= max(_GROWTH * max(side.points, arrays), _SLACK):
            total = filled * math.prod(kernel.extents[d] for d in side.dims)
            yield _Cost("packed", target.launch_cycles + total * each, 0)
    if side.windows is not None:
        products = math.prod(kernel.extents[d] for d in (*kernel.outer, *kernel.inner))
        total = math.prod(side.windows.extents[d] for d in side.windows.dims)
        home, factor = side.windows.home(dim)
        each = target.pack_cycles[stride(side.windows.value, home) != 1]
        worth = min(products / _WORTH, arrays)
        if total <= max(_GROWTH * side.read + _SLACK, worth) and (factor == 1 or not vectors):
            later = 0.15 * count if vectors else 0.0  # vectors that begin anywhere
            yield _Cost("windows", target.launch_cycles + total * each, later)


def _right_ways(
    kernel: Kernel,
    side: Side,
    dim: int,
    vectors: tuple[int, int],
    size: int,
    readers: int,
    target: Target,
) -> Iterator[_Cost]:
    """The ways in which the right side, vectors of lanes, can be read by so many tiles of rows."""
    count, lanes = vectors
    for way in _ways(kernel, side, dim, count, size, target, lanes):
        yield way
        if way.way == "packed" or readers == 1:
            continue
        step = abs(stride(side.value, kernel.inner[-1])) * size
        beyond = side.read * size > target.second_cache
        far = 0 if step < target.far_stride else 1 + (way.way == "in place" and beyond)
        each = target.copy_cycles[far] * count / min(readers, _READERS)
        yield way._replace(each=each, copied=True)


def _in_place(
    kernel: Kernel, side: Side, own: int, count: int, size: int, vectors: bool, target: Target
) -> float:
    """Cycles that a step costs more because it reads a side in place."""
    assert side.place is not None
    pitch = size * abs(coefficient(side.place[1], kernel.inner[-1]))
    if vectors:
        kinds = (0.3, 2.0, 5.5)
    elif own <= MOST_BAKED:
        kinds = (0.0, 0.15, 0.4)
    else:
        least = 0.6 if own * size % target.colliding_rows == 0 else 0.15
        kinds = (least, least, max(least, 0.4))
    if pitch < target.far_stride:
        return kinds[0] * count
    return kinds[2 if pitch % target.colliding_stride == 0 else 1] * count


def _step(height: int, width: int, lanes: int, steps: int, target: Target) -> float:
    """Cycles of a step of a tile."""
    reads = height + width
    vector = 64 if lanes > 4 else 32
    far = height * vector / lanes
    if min(steps, DEPTH) * width * vector > target.first_cache:
        far += width * vector
    fetched = far / target.second_cache_rate
    return max(height * width / 2, reads * 0.55, 4.0, fetched) + 0.15 * (reads + 4)


@cache
def tile_of(rows: int, columns: int, steps: int, lanes: int, target: Target) -> tuple[int, int]:
    """The rows and the vectors of the tile that does the least work in vain."""
    best, least = (1, 1), math.inf
    heights: Sequence[int] = range(1, rows + 1)
    if rows > _EXACT:
        heights = _HEIGHTS if target.registers >= _MANY_REGISTERS else _FEW_HEIGHTS
    for width in range(1, 5):
        if (width - 1) * lanes >= columns:
            break
        for height in heights:
            if height * width + width + 1 > target.registers:
                continue
            tiles = -(-rows // height) * -(-columns // (width * lanes))
            each = target.tile_start_cycles + height * width * target.tile_store_cycles
            each += steps * _step(height, width, lanes, steps, target)
            if tiles * each < least:
                best, least = (height, width), tiles * each
    return best
