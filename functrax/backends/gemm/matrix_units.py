"""Plans for matrix units: contractions over words as products of small matrices.

A matrix unit has a few registers that are matrices: one instruction multiplies 16 rows of 16 words
by 16 rows of 16 words, as many as 32 vector instructions for bfloat16, and adds the product to 16
rows of 16 sums.  A tile of a contraction is one or two such matrices high, and one or two wide.

What enters is a contraction, what leaves are its forms over words (``gemm/packed_dtypes.py``) with
their :class:`Plan` s, whose costs are as ``gemm/blocking.py`` has them.  The right side is read as
for
vectors: packed, or as windows.  Of the left side a matrix is 16 rows of 16 neighbours along the dim
of words, so it is read in place where these are neighbours in memory, else stored so (``"rows"``).

Start at :func:`over_words`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from functrax.backends.cost import cycles_ns
from functrax.backends.gemm.blocking import Plan, Way, blocks_of, cost_of_stores, ranked
from functrax.backends.gemm.packed_dtypes import DOTS, Words, in_words
from functrax.backends.gemm.sides import Side, stride
from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel
from functrax.backends.targets import Target
from functrax.core.records import replace

#: Rows of a matrix, words in one, and sums in a row.
ROWS: Final = 16
#: Words that are done at a time: what is read of both sides stays in the second cache.
DEPTH: Final = 1024
#: How many times longer than along its order it takes to pack what is put together of parts that
#: are nowhere neighbours.
_APART: Final = 4.0


def over_words(kernel: Kernel, target: Target) -> list[tuple[Kernel, list[Plan]]]:
    """The forms of a contraction for instructions of words, each with plans, the cheapest first.

    Args:
      kernel: a contraction without a schedule.
      target: has some of these instructions.
    """
    forms = []
    for kind in sorted(target.dots):
        words = in_words(kernel, DOTS[kind])
        if words is not None:
            forms.append(_plans(words, target))
    return forms


def _plans(words: Words, target: Target) -> tuple[Kernel, list[Plan]]:
    kernel, dim = words.kernel, words.dim
    if words.dot.unit:  # its dim of words is the innermost one
        kernel = replace(kernel, inner=(*(d for d in kernel.inner if d != dim), dim))
    first, second = (Side.of(kernel, x) for x in words.product.args)
    if not words.dot.unit:
        return kernel, ranked(kernel, first, second, target)
    sides = ((first, second), (second, first))
    plans = [plan for pair in sides for plan in unit_plans(kernel, dim, *pair, target)]
    return kernel, sorted(plans, key=lambda plan: plan.cost)


def unit_plans(kernel: Kernel, dim: int, left: Side, right: Side, target: Target) -> Iterator[Plan]:
    """The ways to compute a contraction with a matrix unit, one side being the left one.

    Args:
      kernel: over words, the dim of which is the innermost one.
      dim: that dim.
      left: the side of which rows are read.
      right: the side of which vectors are read.
      target: has a matrix unit.
    """
    extents = kernel.extents
    steps = math.prod(extents[d] for d in kernel.inner)
    block = blocks_of(kernel, DEPTH, ROWS)
    for columns in kernel.outer:
        if columns not in right.dims or columns in left.dims:
            continue
        for rows in kernel.outer:
            if rows not in left.dims or rows in right.dims:
                continue
            others = math.prod(extents[d] for d in kernel.outer if d not in (rows, columns))
            for high, wide in ((1, 1), (1, 2), (2, 1), (2, 2)):
                tiles = others * -(-extents[rows] // (ROWS * high))
                tiles *= -(-extents[columns] // (ROWS * wide))
                stores = target.tile_store_cycles * cost_of_stores(
                    kernel, rows, columns, ROWS, ROWS, target
                )
                each = target.tile_start_cycles + ROWS * high * wide * stores
                each += steps / ROWS * _step(high, wide, target)
                for of_left in _left_ways(kernel, left, rows, dim, ROWS * high, target):
                    for of_right in _right_ways(kernel, right, columns, ROWS * wide, target):
                        yield Plan(
                            left, right, rows, columns, ROWS * high, wide, ROWS,
                            (of_left[0], of_right[0]), False, block,
                            cycles_ns(tiles * each, target),
                            cycles_ns(tiles * each + of_left[1] + of_right[1], target),
                        )  # fmt: skip


def _step(high: int, wide: int, target: Target) -> float:
    multiply, load, go_on = target.tile_cycles
    return max(high * wide * multiply, (high + wide) * load) + go_on


def _left_ways(
    kernel: Kernel, side: Side, rows: int, dim: int, height: int, target: Target
) -> Iterator[tuple[Way, float]]:
    if side.place is not None and coefficient(side.place[1], dim) == 1:
        if kernel.extents[rows] >= height:
            yield "in place", 0.0
    neighbours = stride(side.value, dim) == 1
    yield "rows", target.launch_cycles + _packing(kernel, side, rows, height, neighbours, target)


def _right_ways(
    kernel: Kernel, side: Side, columns: int, width: int, target: Target
) -> Iterator[tuple[Way, float]]:
    neighbours = stride(side.value, columns) == 1
    yield (
        "packed",
        target.launch_cycles + _packing(kernel, side, columns, width, neighbours, target),
    )
    windows = side.windows
    if windows is None or kernel.extents[columns] < width:
        return
    home, factor = windows.home(columns)
    if factor == 1:
        total = math.prod(windows.extents[d] for d in windows.dims)
        along, across = target.pack_cycles
        each = along if stride(windows.value, home) == 1 else _APART * across
        yield "windows", target.launch_cycles + total * each


def _packing(
    kernel: Kernel, side: Side, dim: int, size: int, neighbours: bool, target: Target
) -> float:
    extents = kernel.extents
    filled = -(-extents[dim] // size) * size / extents[dim]
    total = filled * math.prod(extents[d] for d in side.dims)
    along, across = target.pack_cycles
    return total * (2 * along if neighbours else _APART * across)
