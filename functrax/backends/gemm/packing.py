"""From a plan of a contraction to its kernels: those that pack its sides, then its own.

A packed side is an array of panels: for each tile along its dim, for each step the elements of the
tile side by side, zeros where the tile reaches beyond the dim.  Its kernel is an ordinary one that
evaluates the side's expression, so whatever stands before the product is computed there.

Start at :func:`staged`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.backends import targets
from functrax.backends.gemm.blocking import Plan
from functrax.backends.gemm.sides import Side, stride
from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Kernel, Operand, Stage, Store
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
from functrax.core.scalars.scalar import Builder, Scalar

#: The part of the second cache that a unit keeps for the left side.
BLOCK_PART = 4
#: Bytes of sums that wait in scratch memory, which is on the stack.
SUMS_BYTES = 1 << 18
#: Units are made smaller until there are so many, or one takes so many nanoseconds.  Where rows
#: that share a copy would be parted, which copies once more, fewer must do.
UNITS, FEW_UNITS, UNIT_NS = 16, 8, 16_000


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
        stage = {"windows": _windows, "rows": _in_rows}.get(way, _packed)
        before, reading, total = stage(kernel, side, dim, size, len(operands))
        operands.append(Operand(side.value.dtype, total, True))
        kernels.append(before)
        readings.append(reading)
    fetches = "prefetch" not in kernel.off
    kernels = [replace(k, operands=list(operands), fetches=fetches) for k in kernels]
    whole = replace(kernel, operands=operands)
    return [*kernels, _main(whole, plan, target, readings[0], readings[1])]


def _dtype(kernel: Kernel) -> np.dtype[Any]:
    (reduction,) = kernel.stages[0].reductions
    return reduction.how.carries[0]


# ---- windows ------------------------------------------------------------------------------------


def _windows(
    kernel: Kernel, side: Side, dim: int, size: int, buffer: int
) -> tuple[Kernel, Reading, int]:
    """The kernel that stores a side over its merged dims, and how that is read."""
    windows = side.windows
    assert windows is not None
    home, step = windows.home(dim)
    order: list[int] = []  # as the loops go, so that what is read together is together
    for d in (*kernel.outer, *kernel.inner):
        place = windows.home(d)[0]
        if d in side.dims and place != home:
            order = [*(x for x in order if x != place), place]
    order.append(home)
    pitches, pitch = {}, 1
    for d in reversed(order):
        pitches[d] = pitch
        pitch *= windows.extents[d]
    terms = []
    for d in side.dims:
        place, factor = windows.home(d)
        terms.append((Dim(d), factor * pitches[place]))
    const = sum(begin * pitches[d] for d, begin in windows.least.items())
    stored = Kernel(
        f"{kernel.name}.windows",
        kernel.builder,
        kernel.operands,
        windows.extents,
        _as_read(windows.value, order),
        (),
        [],
        [Store(buffer, add_terms(0, [(Dim(d), p) for d, p in pitches.items()]), windows.value)],
    )
    return stored, Reading(buffer, add_terms(const, terms), step, False), pitch


def _as_read(value: Scalar, order: list[int]) -> tuple[int, ...]:
    """The dims as what is read goes through memory, rows of what is written inside.

    Where it is read from, a processor fetches ahead then; where it is written to are whole rows.
    """
    return (*sorted(order[:-1], key=lambda d: -abs(stride(value, d))), order[-1])


# ---- packing ------------------------------------------------------------------------------------


def _packed(
    kernel: Kernel, side: Side, dim: int, size: int, buffer: int
) -> tuple[Kernel, Reading, int]:
    """The kernel that packs a side, and how that is read."""
    order = _order(kernel, side, dim)
    total = size * math.prod(_extents(kernel, order, dim, size))
    return (
        _packing(kernel, side, order, dim, size, buffer),
        _panels(kernel, order, dim, size, buffer),
        total,
    )


def _in_rows(
    kernel: Kernel, side: Side, dim: int, size: int, buffer: int
) -> tuple[Kernel, Reading, int]:
    """The kernel that packs a side row by row, its steps side by side, and how that is read."""
    order = _order(kernel, side, dim)
    inner = [d for d in order if d in kernel.inner]
    step = math.prod(kernel.extents[d] for d in inner)
    total = size * math.prod(_extents(kernel, order, dim, size))
    terms = []
    pitch = 1
    for d in reversed(order):
        terms.append((Dim(d), pitch))
        pitch *= kernel.extents[d] if d != dim else -(-kernel.extents[d] // size) * size
    before = _packing(kernel, side, order, dim, size, buffer, by_rows=True)
    return before, Reading(buffer, add_terms(0, terms), step, True), total


def _order(kernel: Kernel, side: Side, dim: int) -> tuple[int, ...]:
    """The dims of a side in the order in which it is packed; its tiled dim stands for panels."""
    others = [d for d in kernel.outer if d in side.dims and d != dim]
    return (*others, dim, *(d for d in kernel.inner if d in side.dims))


def _extents(kernel: Kernel, order: tuple[int, ...], dim: int, size: int) -> list[int]:
    return [-(-kernel.extents[d] // size) if d == dim else kernel.extents[d] for d in order]


def _panels(kernel: Kernel, order: tuple[int, ...], dim: int, size: int, buffer: int) -> Reading:
    """How the packed array is read."""
    terms = []
    pitch = size
    for d, extent in zip(reversed(order), reversed(_extents(kernel, order, dim, size))):
        terms.append((Dim(d), pitch // size if d == dim else pitch))
        pitch *= extent
    return Reading(buffer, add_terms(0, terms), 1, True)


def _packing(
    kernel: Kernel,
    side: Side,
    order: tuple[int, ...],
    dim: int,
    size: int,
    buffer: int,
    by_rows: bool = False,
) -> Kernel:
    """The kernel that packs a side: its steps in turn, the tile side by side in each; or by rows
    of the tile, the steps side by side in each.
    """
    panel = len(kernel.extents)
    count = -(-kernel.extents[dim] // size)
    extents = (*kernel.extents[:dim], size, *kernel.extents[dim + 1 :], count)
    b = kernel.builder
    inside = None
    if kernel.extents[dim] % size:
        position = Dim(panel) * size + Dim(dim)
        inside = Indices(b, extents).both(None, position < kernel.extents[dim])
    value = _Panels(b, dim, panel, size, inside).scalar(side.value)
    if inside is not None:
        value = b.select(inside, value, b.const(0, value.dtype))
    place: IndexExpr = add_terms(0, ())
    dims = [panel if d == dim else d for d in order]
    dims.insert(dims.index(panel) + 1 if by_rows else len(dims), dim)
    for d in dims:
        place = place * extents[d] + Dim(d)
    line = size * side.value.dtype.itemsize >= targets.target().cache_line
    if stride(side.value, dim) == 1 and line and not by_rows:
        # As the side is in memory: its rows, from panel to panel.  Where panels are narrower than a
        # line that would write a part of each line at a time.
        dims = [*(d for d in dims[:-1] if d != panel), panel, dim]
    return Kernel(
        f"{kernel.name}.pack",
        b,
        kernel.operands,
        extents,
        tuple(dims),
        (),
        [],
        [Store(buffer, place, value)],
    )


class _Panels(Rewriting):
    """Expressions in which a dim is the place in a panel, and another one counts panels."""

    def __init__(
        self, builder: Builder, dim: int, panel: int, size: int, inside: Scalar | None
    ) -> None:
        super().__init__(builder, {})
        self.dim, self.panel, self.size, self.inside = dim, panel, size, inside

    def address(self, expr: IndexExpr) -> IndexExpr:
        """An address, of which nothing is read beyond the last panel."""
        factor = coefficient(expr, self.dim)
        return expr + Dim(self.panel) * (factor * self.size)

    def _node(self, node: Scalar) -> Scalar:
        b = self.builder
        args = tuple(self.new[id(x)] for x in node.args)
        if node.op == "dim" and node.attr == self.dim:
            panel = b.node("dim", node.dtype, (), self.panel)
            return b.add(b.mul(panel, b.const(self.size, node.dtype)), node)
        if node.op != "load":
            same = all(x is y for x, y in zip(args, node.args, strict=True))
            return node if same else b.node(node.op, node.dtype, args, node.attr)
        buffer, address, has_offset, has_guard = node.attr
        if self.inside is not None:
            guard = b.both(args[-1], self.inside) if has_guard else self.inside
            args = (*(args[:1] if has_offset else ()), guard)
            has_guard = True
        attr = (buffer, self.address(address), has_offset, has_guard)
        return b.node("load", node.dtype, args, attr)


# ---- the contraction itself ---------------------------------------------------------------------


def _main(kernel: Kernel, plan: Plan, target: Target, left: Reading, right: Reading) -> Kernel:
    """The kernel that adds up products."""
    extents = kernel.extents
    rows, columns = plan.rows, plan.columns
    others = tuple(d for d in kernel.outer if d not in (rows, columns))
    row_tiles, column_tiles = _blocks(kernel, plan, target, others)
    first = len(extents)
    scratch = len(kernel.operands)
    width = plan.width * plan.lanes
    dtype = _dtype(kernel)
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
    (reduction,) = kernel.stages[0].reductions
    results = Rewriting(kernel.builder, {d: d for d in range(first)})
    results.new[id(reduction.results[0])] = total
    starts = {rows: first, columns: first + 1}
    left = replace(left, address=_renamed(left.address, starts))
    right = replace(right, address=_renamed(right.address, starts))
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
        row_tiles, column_tiles, block, others,
        tuple(d for d in kernel.outer if d in plan.left.dims and d in plan.right.dims),
        math.trunc(plan.ns), dot,
    )  # fmt: skip
    return replace(
        kernel,
        operands=[*kernel.operands, tile],
        extents=(*extents, extents[rows], extents[columns], sums),
        stages=[Stage([replace(reduction, values=(product,))])],
        rows=[results.store(store) for store in kernel.rows],
        vector=vector,
        lanes=lanes,
        tiling=tiling,
    )


def _renamed(address: IndexExpr, names: dict[int, int]) -> IndexExpr:
    return address.substitute({d: Dim(name) for d, name in names.items()})


def _along_rows(kernel: Kernel, plan: Plan) -> bool:
    """Whether most results are nearer to one another along the rows than along the columns."""
    nearer = 0
    for store in kernel.rows:
        rows, columns = (abs(coefficient(store.address, d)) for d in (plan.rows, plan.columns))
        nearer += 1 if 0 < rows < columns else -1
    return nearer > 0


def _blocks(kernel: Kernel, plan: Plan, target: Target, others: tuple[int, ...]) -> tuple[int, int]:
    """How many tiles of rows, and of columns, make a unit."""
    extents = kernel.extents
    row = -(-extents[plan.rows] // plan.height)
    column = -(-extents[plan.columns] // (plan.width * plan.lanes))
    count = math.prod(extents[d] for d in others)
    each = plan.ns / (count * row * column)
    depth = plan.depth(extents, kernel.inner)
    size = int(_dtype(kernel).itemsize)
    rows = max(1, min(row, target.second_cache // BLOCK_PART // (depth * plan.height * size)))
    columns = column
    if plan.block is not None:
        tile = plan.height * plan.width * plan.lanes * size
        rows = min(rows, SUMS_BYTES // tile)
        columns = max(1, min(column, SUMS_BYTES // (tile * rows)))

    def units() -> int:
        return count * -(-row // rows) * -(-column // columns)

    while rows * columns * each > UNIT_NS and rows * columns > 1:
        along_columns = columns > (1 if plan.copied else rows)
        if units() >= (FEW_UNITS if plan.copied and not along_columns else UNITS):
            break
        if along_columns:
            columns = -(-columns // 2)
        else:
            rows = -(-rows // 2)
    return -(-row // -(-row // rows)), -(-column // -(-column // columns))
