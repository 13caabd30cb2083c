"""Schedules for groups of threads that keep tiles in memory that they share.

- Where results are contiguous along one dim and reads along another one, tiles are read along the
  latter and written along the former (:func:`staged_reads`).
- Sums of products of two sides are done in tiles of the result, of which both sides are read once
  (:func:`product_tiles`).  Where few tiles have long sums, these are done in blocks first
  (:func:`block_of_products`).

Tiles follow from shapes and from the target's warp, so the order of sums does, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from functrax.backends.kernels.accesses import coefficient
from functrax.backends.kernels.ir import Kernel, Store, ordered
from functrax.backends.loops.rewrites.grid import Grid
from functrax.backends.loops.rewrites.product_tiles import ProductTiles, Roles, roles
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.rewrites.staged_reads import StageReads, distance, reads_along
from functrax.backends.loops.strategies.group_sizes import MOST, is_wide
from functrax.backends.loops.strategies.reduction_blocks import BLOCK
from functrax.backends.targets import Target


def staged_reads(kernel: Kernel, target: Target) -> list[Rewrite]:
    """The rewrites of a kernel that reads along another dim than it writes along; none for others.

    A tile has a warp's points along each of the two dims, so that a warp reads and writes in rows.
    """
    edge = target.warp
    if kernel.inner or kernel.stages or max(kernel.extents, default=1) > MOST:
        return []
    if any(s.serial or s.offset is not None for s in kernel.rows):
        return []
    rows = [d for d in kernel.outer if all(_steps(s, d) == 1 for s in kernel.rows)]
    if not rows:
        return []
    v = max(rows, key=lambda d: kernel.extents[d])
    values = [x for s in kernel.rows for x in s.values]
    along = {d: reads_along(values, v, d) for d in kernel.outer if d != v}
    long = {d: reads for d, reads in along.items() if reads and _is_long(kernel, (v, d), target)}
    if not long:
        return []
    best = max(long, key=lambda d: (len(long[d]), -sum(distance(x, d) for x in long[d])))
    if not all(coefficient(s.address, d) for s in kernel.rows for d in (v, best)):
        return []
    sizes = accumulate(edge * (edge + 1) * x.dtype.itemsize for x in long[best])
    count = sum(size <= target.shared_bytes for size in sizes)
    group = target.block // 2  # smaller blocks wait less for their barriers
    return [StageReads(group, edge, count, v, best), Grid(group, is_wide(kernel))]


def _steps(store: Store, d: int) -> int:
    return abs(coefficient(store.address, d))


def _is_long(kernel: Kernel, dims: Sequence[int], target: Target) -> bool:
    return min(kernel.extents[d] for d in dims) > _least(target)


def product_tiles(kernel: Kernel, target: Target) -> list[Rewrite]:
    """The rewrites of a sum of products; none for other kernels."""
    found = _tiles(kernel, target)
    return [] if found is None else [found, Grid(target.block, False)]


def block_of_products(kernel: Kernel, target: Target) -> int | None:
    """How many points of the longest inner dim make a block of a sum of products.

    None to sum in one piece.  There are as many blocks as keep a GPU busy, but in each as much is
    read of the longer side of a tile as there is in a block of another sum.
    """
    dims, tiles = _roles(kernel), _tiles(kernel, target)
    assert dims is not None and tiles is not None
    read = _points(kernel, dims.steps) * max(tiles.height, tiles.width)
    wanted = target.busy_threads // (target.block * _units(kernel, dims, tiles))
    blocks = min(wanted, read // BLOCK)
    return -(-max(kernel.extents[d] for d in kernel.inner) // blocks) if blocks > 1 else None


def _tiles(kernel: Kernel, target: Target) -> ProductTiles | None:
    """The tiles of a sum of products; None for other kernels, and where most of a tile is empty."""
    dims = _roles(kernel)
    if dims is None:
        return None
    sizes = [_points(kernel, x) for x in (dims.rows, dims.columns, dims.steps)]
    if min(sizes) < _least(target):
        return None
    warps = _least(target)
    rows = _parts(sizes[0], warps, 2 * target.warp)
    columns = _parts(sizes[1], target.warp, 2 * target.warp)
    found = ProductTiles(target.warp, warps, rows, columns)
    is_numbered = max(*sizes, _units(kernel, dims, found)) <= MOST
    return found if is_numbered else None


def _units(kernel: Kernel, dims: Roles, tiles: ProductTiles) -> int:
    """How many tiles there are."""
    sides = (dims.rows, tiles.height), (dims.columns, tiles.width)
    return math.prod([-(-_points(kernel, d) // n) for d, n in sides]) * _points(kernel, dims.around)


def _least(target: Target) -> int:
    """As many points along a dim fill a part of a tile that is worth it: a row for each warp."""
    return target.block // target.warp


def _parts(points: int, threads: int, most: int) -> int:
    """How many points each of some threads has along a side of a tile, which is a power of two."""
    parts = 1
    while parts * threads < min(points, most):
        parts *= 2
    return parts


def _points(kernel: Kernel, dims: Sequence[int]) -> int:
    return math.prod([kernel.steps(d) for d in dims])


def _roles(kernel: Kernel) -> Roles | None:
    """The dims of a sum of products, if a kernel is one and results for each of them."""
    if len(kernel.stages) != 1 or not kernel.rows or any(s.serial for s in kernel.rows):
        return None
    (stage,) = kernel.stages
    if len(stage.reductions) != 1 or stage.stores or stage.ordered or stage.scan is not None:
        return None
    (reduction,) = stage.reductions
    product = reduction.values[0]
    if reduction.how.name != "add" or len(reduction.values) != 1 or product.op != "mul":
        return None
    found = roles(product, kernel.outer, kernel.inner)
    own = (*found.rows, *found.columns)
    if not all(coefficient(s.address, d) for s in kernel.rows for d in own):
        return None
    return found if _is_summed_alone(kernel) else None


def _is_summed_alone(kernel: Kernel) -> bool:
    """Whether what follows the sums needs no index of theirs."""
    inner = set(kernel.inner)
    values = ordered([x for s in kernel.rows for x in s.values])
    return not any(x.op == "dim" and x.attr in inner for x in values)
