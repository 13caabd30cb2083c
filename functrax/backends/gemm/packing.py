"""From a plan of a contraction to its kernels: those that pack its sides, then its own.

A packed side is an array of panels: for each tile along its dim, for each step the elements of the
tile side by side, zeros where the tile reaches beyond the dim.  Its kernel is an ordinary one that
evaluates the side's expression, so whatever stands before the product is computed there.

Start at :func:`staged`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import eq
from typing import Any, Final, NamedTuple

from functrax.backends.gemm.blocking import Plan, rounded
from functrax.backends.gemm.replaced_dims import Replaced
from functrax.backends.gemm.sides import Side, stride
from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Kernel, LoopStage, Operand, Store
from functrax.backends.kernels.merge import Rewriting
from functrax.backends.kernels.tiling import (
    Reading,
    Tiling,
    lanes_of_columns,
    pitch_of_columns,
)
from functrax.backends.targets import Target
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.records import replace
from functrax.core.types.size_bounds import choice, roughly, surely
from functrax.core.types.symbolic_sizes import applied, decided

#: The part of the second cache that a unit keeps for the left side.
BLOCK_PART = 4
#: Bytes of sums that wait in scratch memory, which is on the stack.
SUMS_BYTES = 1 << 18
#: Units are made smaller until there are so many, or one takes no longer than it pays to wake a
#: thread for.  Where rows that share a copy would be parted, which copies once more, half as many
#: must do.
UNITS = 16
#: Of so many tiles of rows each asks for a part of what the next tile of columns reads.
FETCHING: Final = 4


def staged(kernel: Kernel, plan: Plan, target: Target) -> list[Kernel]:
    """The kernels of a contraction; all have the same operands, but for scratch."""
    operands = list(kernel.operands)
    kernels = []
    readings = []
    sizes = plan.height, plan.width * plan.lanes
    for side, dim, size, way in zip(
        (plan.left, plan.right), (plan.rows, plan.columns), sizes, plan.ways, strict=True
    ):
        if way == "in place":
            assert side.place is not None
            buffer, address = side.place
            readings.append(Reading(buffer, address, coefficient(address, dim), False))
            continue
        if way == "windows":
            stored = _windows(kernel, side, dim, len(operands))
        else:
            stored = _panels(kernel, side, dim, size, len(operands), way == "rows", target)
        before, reading, total = stored
        operands.append(Operand(side.value.dtype, total, True))
        kernels.append(before)
        readings.append(reading)
    fetches = "prefetch" not in kernel.off
    kernels = [replace(k, operands=list(operands), fetches=fetches) for k in kernels]
    whole = replace(kernel, operands=operands)
    return [*kernels, _main(whole, plan, target, readings[0], readings[1])]


def _pitches(order: Sequence[int], extents: Sequence[int]) -> tuple[dict[int, int], int]:
    """How far apart neighbours along each dim of a new array are, and its size."""
    pitches, pitch = {}, 1
    for d in reversed(order):
        pitches[d] = pitch
        pitch *= extents[d]
    return pitches, pitch


def _address(pitches: Mapping[int, int], const: int = 0) -> IndexExpr:
    return add_terms(const, [(Dim(d), pitch) for d, pitch in pitches.items()])


def _windows(kernel: Kernel, side: Side, dim: int, buffer: int) -> tuple[Kernel, Reading, int]:
    """The kernel that stores a side over its merged dims, how that is read, and its size."""
    windows = side.windows
    assert windows is not None
    home, step = windows.home(dim)
    order: list[int] = []  # as the loops go, so that what is read together is together
    for d in (*kernel.outer, *kernel.inner):
        place = windows.home(d)[0]
        if d in side.dims and place != home:
            order = [*(x for x in order if x != place), place]
    # What is read is gone through as it is in memory, for a processor fetches ahead then; what is
    # written are whole rows.
    loops = (*sorted(order, key=lambda d: -abs(stride(windows.value, d))), home)
    pitches, size = _pitches((*order, home), windows.extents)
    homes = {d: windows.home(d) for d in side.dims}
    terms = {d: factor * pitches[place] for d, (place, factor) in homes.items()}
    const = sum(begin * pitches[d] for d, begin in windows.least.items())
    store = Store(buffer, _address(pitches), windows.value)
    name, extents = f"{kernel.name}.windows", windows.extents
    before = Kernel(name, kernel.builder, kernel.operands, extents, loops, (), [], [store])
    return before, Reading(buffer, _address(terms, const), step, False), size


def _panels(
    kernel: Kernel, side: Side, dim: int, height: int, buffer: int, in_rows: bool, target: Target
) -> tuple[Kernel, Reading, int]:
    """The kernel that packs a side, how that is read, and its size.

    A panel has its steps in turn, the tile side by side in each; or the rows of the tile, the steps
    side by side in each.
    """
    b, panel = kernel.builder, len(kernel.extents)
    count = -(-kernel.extents[dim] // height)
    extents = (*kernel.extents[:dim], height, *kernel.extents[dim + 1 :], count)
    place = Dim(panel) * height + Dim(dim)
    inside = None
    if not surely(eq, kernel.extents[dim] % height, 0):
        inside = Indices(b, extents).both(None, place < kernel.extents[dim])
    value = Replaced(b, dim, place, inside).zero_outside(side.value)
    outer = [d for d in kernel.outer if d in side.dims and d != dim]
    inner = [d for d in kernel.inner if d in side.dims]
    order = (*outer, panel, dim, *inner) if in_rows else (*outer, panel, *inner, dim)
    pitches, size = _pitches(order, extents)
    loops = order
    if stride(side.value, dim) == 1 and not in_rows:
        # As the side is in memory: its rows, from panel to panel.  Where panels are narrower than a
        # line that would write a part of each line at a time.
        if height * side.value.dtype.itemsize >= target.cache_line:
            loops = (*outer, *inner, panel, dim)
    store = Store(buffer, _address(pitches), value)
    name = f"{kernel.name}.pack"
    before = Kernel(name, b, kernel.operands, extents, loops, (), [], [store])
    rows = {d: pitches[d] for d in (*outer, *inner)} | {dim: pitches[panel] // height}
    return before, Reading(buffer, _address(rows), pitches[dim], True), size


# ---- the contraction itself ---------------------------------------------------------------------


def _main(kernel: Kernel, plan: Plan, target: Target, left: Reading, right: Reading) -> Kernel:
    """The kernel that adds up products."""
    extents = kernel.extents
    rows, columns = plan.rows, plan.columns
    others = tuple(d for d in kernel.outer if d not in (rows, columns))
    (reduction,) = kernel.stages[0].reductions
    dtype = reduction.how.carries[0]
    row_tiles, column_tiles, many = _units(kernel, plan, target, others, dtype.itemsize)
    first = len(extents)
    scratch = len(kernel.operands)
    width = plan.width * plan.lanes
    block = plan.block
    tiles = 1 if block is None else row_tiles * column_tiles
    sums = tiles * plan.height * width
    panel = plan.depth(extents, kernel.inner) * width if plan.copied else 0
    row, column = Dim(rows) - Dim(first), Dim(columns) - Dim(first + 1)
    turned, size = None, sums + panel
    lanes, vector = plan.lanes, columns
    if _along_rows(kernel, plan):
        turned, lanes, vector = size, lanes_of_columns(plan.height, lanes), rows
        pitch = pitch_of_columns(plan.height, lanes)
        size += width * pitch
        place = column * pitch + row + turned
    else:
        place = row * width + column
        if block is not None:
            place = place + Dim(first + 2)
    of_sum = place
    tile = Operand(dtype, size, True, scratch=True)
    total = kernel.builder.node("load", dtype, (), (scratch, place, False, False))
    results = Rewriting(kernel.builder, {d: d for d in range(first)})
    results.new[id(reduction.results[0])] = total
    starts = {rows: first, columns: first + 1}
    begins = {d: Dim(name) for d, name in starts.items()}
    left, right = [replace(x, address=x.address.substitute(begins)) for x in (left, right)]
    factors = []
    for side, dim in ((left, rows), (right, columns)):
        place = side.address + (Dim(dim) - Dim(starts[dim])) * side.step
        attr = (side.buffer, place, False, False)
        read = kernel.operands[side.buffer].dtype
        factors.append(kernel.builder.node("load", read, (), attr))
    (known,) = reduction.values
    dot = known.attr or ()
    if dot and plan.left.value is not known.args[0]:
        dot = (dot[0], dot[2], dot[1])
    product = kernel.builder.node(known.op, dtype, tuple(factors), known.attr)
    tiling = Tiling(
        rows, columns, plan.height, plan.width, plan.lanes, left, right,
        first, first + 1, scratch, of_sum, sums if plan.copied else None, turned,
        row_tiles, column_tiles, many, block, others,
        tuple(d for d in kernel.outer if d in plan.left.dims and d in plan.right.dims),
        math.trunc(plan.ns), dot,
    )  # fmt: skip
    return replace(
        kernel,
        operands=[*kernel.operands, tile],
        extents=(*extents, extents[rows], extents[columns], sums),
        stages=[LoopStage([replace(reduction, values=(product,))])],
        rows=[results.store(store) for store in kernel.rows],
        vector=vector,
        lanes=lanes,
        tiling=tiling,
    )


def _along_rows(kernel: Kernel, plan: Plan) -> bool:
    """Whether most results are nearer to one another along the rows than along the columns."""
    nearer = 0
    for store in kernel.rows:
        rows, columns = (
            roughly(abs(coefficient(store.address, d))) for d in (plan.rows, plan.columns)
        )
        nearer += 1 if 0 < rows < columns else -1
    return nearer > 0


class _Units(NamedTuple):
    """How many tiles make a unit: of rows, and of columns; and whether those of rows are many."""

    rows: int
    columns: int
    many: bool


def _units(
    kernel: Kernel, plan: Plan, target: Target, others: tuple[int, ...], size: int
) -> _Units:
    high = plan.depth(kernel.extents, kernel.inner) * plan.height * size
    high = target.second_cache // BLOCK_PART // high
    tile = plan.height * plan.width * plan.lanes * size
    most = None if plan.block is None else SUMS_BYTES // tile

    def numbers(extents: Sequence[int]) -> tuple[Any, ...]:
        row = -(-extents[plan.rows] // plan.height)
        column = -(-extents[plan.columns] // (plan.width * plan.lanes))
        count = math.prod(extents[d] for d in others)
        each = plan.ns / (count * row * column)
        return row, column, count, each, high, most, plan.copied, target.wake_ns

    # Sizes may be numbers that are not known yet: what is chosen among them is one, too.  What is
    # a part of the code follows from sizes as plans see them.
    exact = numbers(kernel.extents)
    about = numbers([applied(rounded, n) for n in kernel.extents])
    many = decided(_has_many_rows, *about)
    return _Units(applied(_unit_rows, *exact), applied(_unit_columns, *exact), many)


@choice
def _unit_rows(*numbers: Any) -> int:
    return _unit(*numbers)[0]


@choice
def _unit_columns(*numbers: Any) -> int:
    return _unit(*numbers)[1]


def _has_many_rows(*numbers: Any) -> bool:
    return _unit(*numbers)[0] >= FETCHING


def _unit(
    row: int,
    column: int,
    count: int,
    each: float,
    high: int,
    most: int | None,
    copied: bool,
    wake_ns: float,
) -> tuple[int, int]:
    """How many tiles of rows, and of columns, make a unit.

    Args:
      row: how many tiles of rows there are.
      column: how many tiles of columns.
      count: how many products.
      each: nanoseconds of a tile.
      high: how many tiles of rows the left side's part of the second cache holds.
      most: how many tiles' sums may wait; None if none does.
      copied: whether the first tile of rows copies what it reads for the others.
      wake_ns: what it pays to wake a thread for.
    """
    rows, columns = max(1, min(row, high)), column
    if most is not None:
        rows = min(rows, most)
        columns = max(1, min(column, most // rows))
    while rows * columns * each > wake_ns and rows * columns > 1:
        along_columns = columns > (1 if copied else rows)
        units = count * -(-row // rows) * -(-column // columns)
        if units >= (UNITS // 2 if copied and not along_columns else UNITS):
            break
        if along_columns:
            columns = -(-columns // 2)
        else:
            rows = -(-rows // 2)
    return -(-row // -(-row // rows)), -(-column // -(-column // columns))
