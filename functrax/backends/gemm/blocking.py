"""How a contraction is computed: which dims are tiled, how large tiles are, what is packed.

What enters: a contraction without a schedule and its two sides.  What leaves: a :class:`Plan`, the
one of all that are possible which the model below finds cheapest.  The model depends on shapes
alone, so neither the number of threads nor what ran before changes the bits of a result.

What a plan costs, in nanoseconds, is counted in cycles.  A step of a tile costs its multiply-adds,
two a cycle, or what it reads, two a cycle; then there are the tiles' stores, the packing, and what
reading across memory costs.

A matrix unit has a few registers that are matrices: one instruction multiplies 16 rows of 16 words
by 16 rows of 16 words, as many as 32 vector instructions for bfloat16, and adds the product to 16
rows of 16 sums.  Its tiles are one or two matrices high, and one or two wide.  The right side is
read as for vectors: packed, or as windows.  Of the left side a matrix is 16 rows of 16 neighbours
along the dim of words, so it is read in place where these are neighbours in memory, else stored so
(``"rows"``).

Start at :func:`ranked`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

from functrax.backends.cost import cycles_ns, least
from functrax.backends.gemm.sides import Side, stride
from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel
from functrax.backends.kernels.tiling import (
    BAKED,
    is_of_unit,
    lanes_of_columns,
    pitch_of_columns,
)
from functrax.backends.targets import Target
from functrax.core.records import record
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import choice, roughly
from functrax.core.types.symbolic_sizes import applied, decided, recording_of

Way: TypeAlias = Literal["in place", "packed", "windows", "rows"]

#: Larger counts are rounded, for another one shall seldom be another kernel: extents, heights of
#: tiles, and how many tiles of rows share the cost of a copy.
_EXACT: Final = 32
#: A side is not stored if that makes it so many times larger than what it reads, or than all arrays
#: if panels are filled up; as windows it is also where there are so many products for each element,
#: and no more elements than in all arrays.
GROWTH, _WORTH = 2, 16


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


def ranked(
    kernel: Kernel, first: Side, second: Side, target: Target, needed: bool = False
) -> list[Plan]:
    """The plans that there are, the cheapest one first; none if no side has a dim of its own.

    For a size-generic program the cheapest one alone.  ``needed``: nothing else computes it in
    loops, so a side that is much larger than what it is computed from (an outer product, numbers of
    classes as vectors of 0 and 1) is stored all the same where there are no other plans.
    """
    model = _Model(kernel, (first, second), target)
    plans = [*model.plans(first, second), *model.plans(second, first)]
    if needed and not plans:
        model.grows = True
        plans = [*model.plans(first, second), *model.plans(second, first)]
    costs = [plan.cost for plan in plans]
    if plans and recording_of(costs) is not None:  # which of them is the cheapest is one answer
        return [plans[decided(least, *costs)]]
    return sorted(plans, key=lambda plan: plan.cost)


class _Cost(NamedTuple):
    """What a way to read a side costs: once, and in each step of a tile."""

    way: Way
    once: float
    each: float
    copied: bool = False


class _Model:
    """What the plans of a contraction cost.

    Attributes:
      kernel: the contraction.
      extents: of its dims, as plans see them.
      words: the dim of words, the innermost one, if a matrix unit multiplies; else None.
      blocks: what is done at a time: as it is, and if the right side is copied.
      arrays: how many elements all arrays have.
      few: so many elements of a side may be stored whatever is read for them.
      grows: whether any number of them may.
    """

    def __init__(self, kernel: Kernel, sides: tuple[Side, Side], target: Target) -> None:
        (reduction,) = kernel.stages[0].reductions
        (product,) = reduction.values
        self.kernel, self.target = kernel, target
        self.size = reduction.how.carries[0].itemsize
        self.lanes = target.vector_bytes // self.size
        self.words: int | None = kernel.inner[-1] if is_of_unit(product.attr) else None
        depth = _depth(target)
        if self.words is not None:
            self.extents = kernel.extents
            # What is read of both sides stays in the second cache.
            self.blocks = (_blocks(kernel, 2 * depth, self.lanes),) * 2
        else:
            merges = [m for side in sides if side.windows for m in side.windows.merges]
            images = {d for m in merges for d in (m.first, m.second)}
            sizes = enumerate(kernel.extents)
            self.extents = tuple([applied(rounded, n, d in images) for d, n in sizes])
            self.blocks = _blocks(kernel, depth), _blocks(kernel, depth // 2)
        self.steps = math.prod(self.extents[d] for d in kernel.inner)
        self.arrays = roughly(sum(operand.size for operand in kernel.operands))
        self.few = target.first_cache // dtypes.float64.itemsize
        self.grows = False

    def plans(self, left: Side, right: Side) -> Iterator[Plan]:
        """The plans with one of the sides as the left one."""
        kernel, extents, lanes, target = self.kernel, self.extents, self.lanes, self.target
        own = [d for d in kernel.outer if d in left.dims and d not in right.dims]
        for columns in kernel.outer:
            if columns not in right.dims or columns in left.dims:
                continue
            # Without a dim of its own the left side has tiles of one row, along any dim.
            rest = [] if self.words is not None else [d for d in kernel.outer if d != columns]
            for rows in own or rest:
                others = math.prod(extents[d] for d in kernel.outer if d not in (rows, columns))
                for height, width in self._tiles(extents[rows] if own else 1, extents[columns]):
                    high = -(-extents[rows] // height)
                    tiles = others * high * -(-extents[columns] // (width * lanes))
                    stores = target.tile_store_cycles * _stores(
                        kernel, rows, columns, height, lanes, target
                    )
                    each = target.tile_start_cycles + height * width * stores
                    plain = tiles * (each + self.steps * self._step(height, width))
                    readers = high if own else 1
                    for of_left in self._left_ways(left, rows, height):
                        for of_right in self.right_ways(right, columns, width, readers):
                            cycles = plain + (of_left.each + of_right.each) * tiles * self.steps
                            yield Plan(
                                left, right, rows, columns, height, width, lanes,
                                (of_left.way, of_right.way), of_right.copied,
                                self.blocks[of_right.copied], cycles_ns(cycles, target),
                                cycles_ns(cycles + of_left.once + of_right.once, target),
                            )  # fmt: skip

    def _tiles(self, rows: int, columns: int) -> Iterable[tuple[int, int]]:
        """The sizes of tiles that are tried: how many rows and vectors they have."""
        if self.words is None:
            return (decided(tile_of, rows, columns, self.steps, self.lanes, self.target),)
        return [(high * self.lanes, wide) for high in (1, 2) for wide in (1, 2)]

    def _step(self, height: int, width: int) -> float:
        """Cycles of a step of a tile."""
        if self.words is None:
            return _step(height, width, self.lanes, self.steps, self.target)
        multiply, load, go_on = self.target.tile_cycles
        high = height // self.lanes
        return (max(high * width * multiply, (high + width) * load) + go_on) / self.lanes

    # ---- the ways in which a side can be read ---------------------------------------------------

    def _left_ways(self, side: Side, rows: int, height: int) -> Iterator[_Cost]:
        """Of the left side, for tiles of so many rows."""
        if self.words is None:
            yield from self._ways(side, rows, height, False)
            return
        in_rows = side.place is not None and coefficient(side.place[1], self.words) == 1
        if in_rows and self.extents[rows] >= height:
            yield _Cost("in place", 0, 0)
        total = self._filled(side, rows, height)
        yield _Cost("rows", self._storing(total, stride(side.value, self.words) == 1), 0)

    def right_ways(self, side: Side, columns: int, width: int, readers: int) -> Iterator[_Cost]:
        """Of the right side, for so many vectors, which so many tiles of rows read."""
        target = self.target
        step = roughly(abs(stride(side.value, self.kernel.inner[-1])) * self.size)
        beyond = roughly(side.read) * self.size > target.second_cache
        for way in self._ways(side, columns, width, True):
            yield way
            if way.way == "packed" or readers == 1 or self.words is not None:
                continue
            far = 0 if step < target.far_stride else 1 + (way.way == "in place" and beyond)
            each = target.copy_cycles[far] * width / min(readers, _EXACT)
            yield way._replace(each=each, copied=True)

    def _ways(self, side: Side, dim: int, count: int, in_vectors: bool) -> Iterator[_Cost]:
        """Of a side, so many elements or vectors of it along a dim."""
        for_unit, windows = self.words is not None, side.windows
        own = roughly(stride(side.value, dim))
        if side.place is not None and not for_unit and (own == 1 or not in_vectors):
            yield _Cost("in place", 0, self._in_place(side, own, count, in_vectors))
        panel = count * (self.lanes if in_vectors else 1)
        fits = (self.grows and windows is None) or not self._grows(side, dim, panel)
        if for_unit or fits:
            yield _Cost("packed", self._storing(self._filled(side, dim, panel), own == 1), 0)
        if windows is None:
            return
        home, factor = windows.home(dim)
        total = roughly(math.prod(windows.extents[d] for d in windows.dims))
        if for_unit:
            pays = self.extents[dim] >= panel
        else:
            products = self.steps * math.prod(self.extents[d] for d in self.kernel.outer)
            worth = min(products / _WORTH, self.arrays)
            pays = total <= max(GROWTH * roughly(side.read) + self.few, worth)
        if pays and (factor == 1 or not in_vectors):
            later = 0.15 * count if in_vectors and not for_unit else 0.0  # they begin anywhere
            yield _Cost("windows", self._storing(total, stride(windows.value, home) == 1), later)

    def _grows(self, side: Side, dim: int, panel: int) -> bool:
        """Whether a side is too large if it is stored in panels of a size."""
        own, read = roughly(side.points), roughly(side.read)
        too_large = max(GROWTH * max(own, self.arrays), self.few)
        return own > GROWTH * read or own * self._filling(dim, panel) > too_large

    def _filling(self, dim: int, panel: int) -> float:
        """How much longer a dim is that is filled up to whole panels."""
        return -(-self.extents[dim] // panel) * panel / self.extents[dim]

    def _filled(self, side: Side, dim: int, panel: int) -> float:
        """How many elements of a side are stored in panels."""
        return self._filling(dim, panel) * math.prod(self.extents[d] for d in side.dims)

    def _storing(self, total: float, along: bool) -> float:
        """Cycles to store so many elements: along their order in memory, or across it."""
        target = self.target
        each = target.pack_cycles if self.words is None else target.pack_word_cycles
        return target.launch_cycles + total * each[not along]

    def _in_place(self, side: Side, own: int, count: int, in_vectors: bool) -> float:
        """Cycles that a step costs more because it reads a side in place."""
        assert side.place is not None
        target = self.target
        pitch = roughly(self.size * abs(coefficient(side.place[1], self.kernel.inner[-1])))
        if in_vectors:
            kinds = (0.3, 2.0, 5.5)
        elif own <= BAKED:
            kinds = (0.0, 0.15, 0.4)
        else:
            least = 0.6 if own * self.size % target.colliding_rows == 0 else 0.15
            kinds = (least, least, max(least, 0.4))
        if pitch < target.far_stride:
            return kinds[0] * count
        return kinds[2 if pitch % target.colliding_stride == 0 else 1] * count


@choice
def rounded(extent: int, of_image: bool = False) -> int:
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


def _depth(target: Target) -> int:
    """How many steps are done at a time, of a contraction that has many.

    Each reads a line of the right side at least, and so many fit the first cache.  If they are
    copied it holds each twice.
    """
    return target.first_cache // target.cache_line


def _blocks(kernel: Kernel, depth: int, multiple: int = 1) -> tuple[int, int] | None:
    """Which inner dim is done in blocks, and their size; None if there are few steps.

    Args:
      kernel: a contraction.
      depth: about how many steps a block has.
      multiple: what the size of blocks of the innermost dim is a multiple of.
    """
    extents, inner = tuple(map(roughly, kernel.extents)), kernel.inner
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


def _stores(
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
        across, along = (roughly(abs(coefficient(store.address, d))) for d in (rows, columns))
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


def _step(height: int, width: int, lanes: int, steps: int, target: Target) -> float:
    """Cycles of a step of a tile."""
    reads = height + width
    vector = 64 if lanes > 4 else 32
    far = height * vector / lanes
    if min(steps, _depth(target)) * width * vector > target.first_cache:
        far += width * vector
    fetched = far / target.second_cache_rate
    return max(height * width / 2, reads * 0.55, 4.0, fetched) + 0.15 * (reads + 4)


@cache
def tile_of(rows: int, columns: int, steps: int, lanes: int, target: Target) -> tuple[int, int]:
    """The rows and the vectors of the tile that does the least work in vain."""
    best, least = (1, 1), math.inf
    heights: Iterable[int]
    if rows > _EXACT:  # as many as registers allow beside 4, 3 and 2 vectors, and even
        heights = [(target.registers - 1 - width) // width // 2 * 2 for width in (4, 3, 2)]
    else:
        heights = range(1, rows + 1)
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
