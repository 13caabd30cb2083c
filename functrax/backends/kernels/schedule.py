"""The schedule: in which order, how many at once, and by whom a kernel's points are computed.

What enters: a kernel as ``kernels/lower.py`` made it.  What leaves: one kernel or two, ready to be
written as LLVM IR.  In order:

1. ``_scatter_loops``: the dims along which a scatter may write one element twice become inner
   dims, which run in order.
2. ``collapse``: neighbouring dims become one where every address allows it.
3. ``_choose_vector``: the dim along which most of the memory is contiguous is computed in lanes.
   Arrays that are contiguous along another one are read in tiles (``kernels/tile_order.py``).
   What one stage computes at some cost and a later one needs again stays in a row of memory
   (``kernels/rows.py``).
4. ``_choose_shared``: the dim that threads share, in units of at least ``UNIT`` points.
5. ``_in_two``: a reduction with few results and long rows, with very long rows, or of long columns,
   is done in blocks, whose results a second kernel reduces.  The blocks follow from the shapes
   alone, so the bits of the result do not depend on the number of threads.

Where the target is *strict*, the order of a reduction follows from its shape and axes alone, not
from what shares its kernel: along the last dim, if that is reduced, in ``STRICT_LANES`` lanes, else
one element after the other; and dims that are reduced are not merged.

Start at :func:`schedule`.
"""

from __future__ import annotations

import math

from functrax.backends.kernels.accesses import (
    CACHE_LINE,
    accesses,
    coefficient,
    coefficients,
    first_rows,
    is_large,
    is_streamed,
    row_address,
)
from functrax.backends.kernels.ir import Kernel, Operand, Stage, Store, ordered
from functrax.backends.kernels.rows import keep_rows
from functrax.backends.kernels.scans import in_scans
from functrax.backends.kernels.tile_order import choose_tile, share_tiles
from functrax.core.dtypes import real_dtype
from functrax.core.index_expr import Dim, IndexExpr, add_terms
from functrax.core.lowering import MATH, Builder, Scalar
from functrax.core.records import record, replace

#: The least number of points in a unit of work: of one with functions such as ``exp`` a part of it.
UNIT, LEAST_UNIT = 4096, 512
#: A reduction is done in blocks when it has fewer rows than this, and longer ones than BLOCK.
FEW_ROWS = 8
BLOCK = 1 << 15
#: Longer rows are done in blocks whatever their number: one sum of so many is not accurate.
LONG = 1 << 20
#: Lanes of a reduction along the last dim, where its order must not depend on its kernel.
STRICT_LANES = 32
#: So is one along columns that reach over this many bytes: a block is so many rows, whose lines are
#: fetched ahead side by side (a processor follows about so many pages), more if they are short.
SPAN = 1 << 21
BLOCK_OF_ROWS = 32
LEAST_BLOCK = 1 << 16
#: Kernels with fewer nodes than this hide latencies by using more lanes.
LIGHT = 12
#: Columns are reduced in shorter vectors if there are fewer than this and the last one has a mask.
FEW_VECTORS = 3
#: Kernels that move at least so many bytes, and do little with them, read several pages at once: so
#: many of an array, and of all arrays.
FROM_MEMORY = 1 << 22
MOST_PIECES = 8
MOST_PAGES = 16
PAGE = 4096
#: Rows of fewer vectors are not worth a short one at their beginning.
LEAST_LINES = 16
#: In units that are pieces of one row, so long.
PIECE = 4 * PAGE
#: Bytes of rows for which it pays to fetch the next one.
LEAST_ROW, LONGEST_ROW = 512, 16384
#: Kernels of mathematical functions do, from this many points on, two vectors at a time.
MANY_POINTS = 1 << 18


@record
class Target:
    """What a schedule depends on of the machine.

    Args:
      vector_bytes: size of a vector register.
      strict: whether the order of reductions follows from shapes alone.
      off: decisions that are not made (the option ``schedule_off``).
      dots: kinds of instructions that add up products of narrow numbers (``kernels/words.py``).
      second_cache: bytes of it that a thread has.
      several_pages: whether memory is read faster from several pages at once.
    """

    vector_bytes: int = 64
    strict: bool = False
    off: frozenset[str] = frozenset()
    dots: frozenset[str] = frozenset()
    second_cache: int = 2 << 20
    several_pages: bool = True


def schedule(kernel: Kernel, target: Target) -> list[Kernel]:
    """The kernels that run one after the other.

    The second one reads what the first one writes to the operands that were appended.
    """
    kernel.off = target.off
    _scatter_loops(kernel)
    if target.strict and any(s.reductions for s in kernel.stages):
        along_row = _ends_in_row(kernel)
        kernel = collapse(kernel, merge_inner=False)
        kernel.vector = max(kernel.inner) if along_row else _choose_vector(kernel, kernel.outer)
    else:
        kernel = collapse(kernel)
        kernel.vector = _choose_vector(kernel)
    if "vector" in target.off:
        kernel.vector = None
    _vector_innermost(kernel)
    _choose_lanes(kernel, target)
    choose_tile(kernel, target.vector_bytes)
    if "rows" not in target.off:
        keep_rows(kernel)
    if kernel.stages and kernel.stages[0].scan is not None:
        return _scans(kernel)
    grain = None if "blocks" in target.off else _block_of_reduction(kernel, target.strict)
    if grain is not None:
        return _in_two(kernel, target, grain)
    _choose_shared(kernel)
    _align_stores(kernel)
    _choose_pieces(kernel, target)
    _choose_ahead(kernel)
    return [kernel]


# ---- scatters -----------------------------------------------------------------------------------


def _scatter_loops(kernel: Kernel) -> None:
    """Make inner dims of those along which a scatter may meet an element again."""
    updates = [s for s in kernel.rows if s.serial]
    if not updates:
        return
    (store,) = updates
    free = tuple(d for d in kernel.outer if d in (store.independent or ()))
    kernel.inner = tuple(d for d in kernel.outer if d not in free)
    kernel.outer = free
    if kernel.inner:
        kernel.stages, kernel.rows = [Stage([], kernel.rows)], []


# ---- collapsing ---------------------------------------------------------------------------------


def collapse(kernel: Kernel, merge_inner: bool = True) -> Kernel:
    """The kernel with neighbouring dims merged, and dims of size 1 left out."""
    rank = len(kernel.extents)
    rows = [coefficients(address, rank) for address, _, _ in accesses(kernel)]
    fixed = {node.attr for node in kernel.nodes() if node.op == "dim"}
    groups = [
        _merged([d for d in dims if kernel.extents[d] > 1], rows, fixed, kernel.extents)
        for dims in (kernel.outer, kernel.inner)
    ]
    if "merge" in kernel.off:
        groups = [
            [[d] for d in dims if kernel.extents[d] > 1] for dims in (kernel.outer, kernel.inner)
        ]
    if not merge_inner:
        groups[1] = [[d] for d in kernel.inner if kernel.extents[d] > 1]
    if kernel.inner and not groups[1]:
        groups[1] = [[kernel.inner[0]]]  # rows of one element: the stages still need a loop
    merged = [*groups[0], *groups[1]]
    if all(len(g) == 1 for g in merged) and len(merged) == len((*kernel.outer, *kernel.inner)):
        return kernel
    number = {g[-1]: k for k, g in enumerate(merged)}
    rewritten = Rewriting(kernel.builder, number)
    return replace(
        rewritten.kernel(kernel),
        extents=tuple(math.prod(kernel.extents[d] for d in g) for g in merged),
        outer=tuple(range(len(groups[0]))),
        inner=tuple(range(len(groups[0]), len(merged))),
    )


def _merged(
    dims: list[int], rows: list[list[int]], fixed: set[int], extents: tuple[int, ...]
) -> list[list[int]]:
    """Runs of neighbouring dims that every access walks through as if they were one."""
    groups: list[list[int]] = []
    for d in dims:
        if groups and d not in fixed:
            last = groups[-1][-1]
            if last not in fixed and all(row[last] == row[d] * extents[d] for row in rows):
                groups[-1].append(d)
                continue
        groups.append([d])
    return groups


class Rewriting:
    """Expressions with other numbers of dims; dims without a new number are left out."""

    def __init__(self, builder: Builder, number: dict[int, int]) -> None:
        self.builder = builder
        self.number = number
        self.new: dict[int, Scalar] = {}

    def address(self, expr: IndexExpr) -> IndexExpr:
        """An address in the new dims."""
        terms = []
        for atom, coef in expr.terms:
            assert isinstance(atom, Dim)
            if atom.number in self.number:
                terms.append((Dim(self.number[atom.number]), coef))
        return add_terms(expr.const, terms)

    def scalar(self, root: Scalar) -> Scalar:
        """An expression in the new dims."""
        new = self.new
        for node in ordered((root,)):
            if id(node) not in new:
                new[id(node)] = self._node(node)
        return new[id(root)]

    def _node(self, node: Scalar) -> Scalar:
        args = tuple(self.new[id(x)] for x in node.args)
        attr = node.attr
        if node.op == "load":
            attr = (attr[0], self.address(attr[1]), *attr[2:])
        elif node.op == "dim":
            if attr not in self.number:
                return self.builder.const(0, node.dtype)
            attr = self.number[attr]
        elif all(x is y for x, y in zip(args, node.args, strict=True)):
            return node
        return self.builder.node(node.op, node.dtype, args, attr)

    def store(self, store: Store) -> Store:
        """A store in the new dims."""

        def maybe(x: Scalar | None) -> Scalar | None:
            return None if x is None else self.scalar(x)

        return replace(
            store,
            address=self.address(store.address),
            value=self.scalar(store.value),
            offset=maybe(store.offset),
            guard=maybe(store.guard),
        )

    def kernel(self, kernel: Kernel) -> Kernel:
        """All expressions of a kernel in the new dims."""
        stages = []
        for stage in kernel.stages:
            reductions = [
                replace(r, values=tuple(map(self.scalar, r.values))) for r in stage.reductions
            ]
            carries = [
                replace(c, initial=self.scalar(c.initial), new=self.scalar(c.new))
                for c in stage.carries
            ]
            condition = None if stage.condition is None else self.scalar(stage.condition)
            stores = [self.store(s) for s in stage.stores]
            scan = stage.scan
            if scan is not None:
                values, new = (tuple(map(self.scalar, x)) for x in (scan.values, scan.results))
                scan = replace(scan, values=values, results=new)
            stages.append(Stage(reductions, stores, carries, condition, scan))
        return replace(kernel, stages=stages, rows=[self.store(s) for s in kernel.rows])


# ---- lanes --------------------------------------------------------------------------------------


def _ends_in_row(kernel: Kernel) -> bool:
    """Whether the last dim is one that is reduced."""
    dims = [d for d in (*kernel.outer, *kernel.inner) if kernel.extents[d] > 1]
    return not dims or max(dims) in kernel.inner


def _choose_vector(kernel: Kernel, dims: tuple[int, ...] | None = None) -> int | None:
    """The dim, of some or of all, along which most accesses are contiguous.

    Stores count twice, what is read at several places of one array once, and what is read or
    written once for each row as much less as there are points in it.
    """
    if dims is None:
        dims = (*kernel.outer, *kernel.inner)
    if any(s.scan is not None for s in kernel.stages) and not _in_order(kernel):
        dims = kernel.outer
    if not dims:
        return None
    in_order = any(s.serial for s in kernel.stores()) or any(s.ordered for s in kernel.stages)
    candidates = kernel.outer if in_order else dims
    best, best_score = None, (0.0, 0)
    rank = len(kernel.extents)
    rows = {
        (number, *coefficients(address, rank)): 2.0 if stored else 1.0
        for address, number, stored in accesses(kernel)
    }
    length = math.prod(kernel.extents[d] for d in kernel.inner)
    for row in rows:
        if not any(row[d + 1] for d in kernel.inner):
            rows[row] /= length
    for d in candidates:
        if kernel.extents[d] < 2:
            continue
        steps = [(row[d + 1], weight) for row, weight in rows.items()]
        contiguous = sum(weight for step, weight in steps if step == 1)
        strided = sum(weight for step, weight in steps if step not in (0, 1))
        full = min(kernel.extents[d] / 16, 1.0)
        score = (full * (1 + contiguous) / (1 + strided), kernel.extents[d])
        if score > best_score:
            best, best_score = d, score
    return best


def _in_order(kernel: Kernel) -> bool:
    """Whether a running result goes through memory as it lies there."""
    (d,) = kernel.inner
    return all(coefficient(address, d) == 1 for address, _, _ in accesses(kernel))


def _vector_innermost(kernel: Kernel) -> None:
    v = kernel.vector
    if v in kernel.outer:
        kernel.outer = (*(d for d in kernel.outer if d != v), v)
    elif v in kernel.inner:
        kernel.inner = (*(d for d in kernel.inner if d != v), v)


def _choose_lanes(kernel: Kernel, target: Target) -> None:
    v = kernel.vector
    if v is None:
        return
    touched = {number for _, number, _ in accesses(kernel)}
    widest = max(real_dtype(kernel.operands[k].dtype).itemsize for k in touched)
    lanes = vector = target.vector_bytes // max(widest, 2)
    work = kernel.work
    if target.strict and v in kernel.inner:
        lanes = STRICT_LANES
    elif v in kernel.inner and any(s.scan is not None for s in kernel.stages):
        pass  # what goes from step to step is short
    elif kernel.inner:
        if v in kernel.inner:  # vectors are added up before they are widened: two at least
            lanes *= 4 if work <= 2 * LIGHT else 2
        else:
            lanes *= 4 if work <= LIGHT else 2 if work <= 2 * LIGHT else 1
        if work <= LIGHT and _is_column_sum(kernel) and target.vector_bytes >= 64:
            lanes *= 2  # there are registers for it, and memory is read in longer pieces
        while (
            v in kernel.outer and lanes > 2 * vector and _is_mostly_tail(kernel.extents[v], lanes)
        ):
            lanes //= 2
    elif any(n.op in MATH for n in kernel.nodes()) and kernel.points >= MANY_POINTS:
        lanes *= 2  # two chains of dependent operations at a time
    elif work <= 2 * LIGHT:
        lanes = max(lanes, _lanes_of_a_line(kernel))
    while lanes // 2 >= kernel.extents[v]:
        lanes //= 2
    kernel.lanes = lanes


def _is_mostly_tail(extent: int, lanes: int) -> bool:
    """Whether the last vector of a row, of which a part is masked out, is one of few."""
    return extent % lanes != 0 and extent < FEW_VECTORS * lanes


def _lanes_of_a_line(kernel: Kernel) -> int:
    """How many lanes it takes to write whole cache lines, which go past the caches; else 0."""
    sizes = [
        kernel.operands[s.buffer].dtype.itemsize
        for s in kernel.stores()
        if is_large(kernel, s) and coefficient(s.address, kernel.vector) == 1
    ]
    return CACHE_LINE // max(sizes) if sizes else 0


def _is_column_sum(kernel: Kernel) -> bool:
    """Whether a kernel does one reduction, along columns."""
    across = kernel.vector in kernel.outer and len(kernel.stages) == 1
    return across and len(kernel.stages[0].reductions) == 1 and not kernel.stages[0].stores


# ---- threads ------------------------------------------------------------------------------------


def _choose_shared(kernel: Kernel) -> None:
    """Share the outermost outer dim that is long enough, else the longest one."""
    if not kernel.outer or "threads" in kernel.off:
        return
    if kernel.tile is not None:
        share_tiles(kernel)
        return
    total = kernel.points
    long_enough = [d for d in kernel.outer if kernel.extents[d] >= 2 * FEW_ROWS]
    if long_enough:
        shared = long_enough[0]
    else:
        shared = max(kernel.outer, key=lambda d: kernel.extents[d])
    kernel.shared = shared
    per_point = max(total // kernel.extents[shared], 1)
    functions = sum(1 for node in kernel.nodes() if node.op in MATH)
    grain = -(-max(UNIT // (1 + functions), LEAST_UNIT) // per_point)
    if shared == kernel.vector:
        grain = -(-grain // kernel.lanes) * kernel.lanes
    kernel.grain = max(1, min(grain, kernel.extents[shared]))


# ---- pieces -------------------------------------------------------------------------------------


def _align_stores(kernel: Kernel) -> None:
    """Begin each row with a short vector where its results are no whole lines, but are many."""
    v = kernel.vector
    if v is None or kernel.inner or kernel.tile is not None or kernel.lanes == 1:
        return
    stores = list(kernel.stores())
    if len(stores) != 1 or any(s.serial or not is_large(kernel, s) for s in stores):
        return
    (store,) = stores
    size = kernel.operands[store.buffer].dtype.itemsize
    length = kernel.grain if v == kernel.shared else kernel.extents[v]
    whole = size * kernel.lanes % CACHE_LINE == 0 and length >= LEAST_LINES * kernel.lanes
    if whole and coefficient(store.address, v) == 1 and not is_streamed(kernel, store):
        kernel.aligned = store


def _choose_pieces(kernel: Kernel, target: Target) -> None:
    """Go through long rows in pieces side by side, each of which begins in a page of its own.

    Some processors fetch ahead within a page, and a few lines only: what they read from several
    pages at once comes faster.  It does not matter to results but for the order of sums.
    """
    if not target.several_pages:
        return
    v = kernel.vector
    if v is None or kernel.lanes == 1 or kernel.tile is not None or "pieces" in kernel.off:
        return
    if (kernel.inner and v not in kernel.inner) or (kernel.inner and target.strict):
        return
    if any(s.serial for s in kernel.stores()) or any(s.ordered for s in kernel.stages):
        return
    if not all(is_streamed(kernel, s) for s in kernel.stores() if coefficient(s.address, v) == 1):
        return
    arrays: dict[int, int] = {}
    for address, number, _ in accesses(kernel):
        if coefficient(address, v) == 1 and not kernel.operands[number].scratch:
            arrays[number] = kernel.operands[number].dtype.itemsize
    size = sum(kernel.operands[k].size * n for k, n in arrays.items())
    has_functions = any(n.op in MATH for n in kernel.nodes())
    if size < FROM_MEMORY or kernel.work > LIGHT or has_functions:
        return
    if not arrays:
        return
    itemsize = min(arrays.values())
    pieces = MOST_PIECES
    while pieces * len(arrays) > MOST_PAGES:
        pieces //= 2
    if v == kernel.shared and v in kernel.outer:
        kernel.grain = min(max(kernel.grain, pieces * PIECE // itemsize), kernel.extents[v])
    length = kernel.grain if v == kernel.shared else kernel.extents[v]
    while length * itemsize < pieces * PAGE:
        pieces //= 2
    kernel.pieces = max(pieces, 1)


def _choose_ahead(kernel: Kernel) -> None:
    """Ask for the next row where a row is gone through several times.

    While a row is read for the first time nothing is computed, and later nothing is fetched: a
    processor fetches ahead within a page, so hardly beyond the end of a row.
    """
    v = kernel.vector
    if v not in kernel.inner or not kernel.outer or kernel.pieces > 1 or "ahead" in kernel.off:
        return
    if len(kernel.stages) + bool(kernel.rows) < 2 or any(s.ordered for s in kernel.stages):
        return
    d = kernel.outer[-1]
    size = sum(
        kernel.operands[buffer].dtype.itemsize * kernel.points
        for buffer, address in first_rows(kernel)
        if coefficient(address, d)
    )
    row = size // math.prod(kernel.extents[n] for n in kernel.outer)
    if size >= FROM_MEMORY and LEAST_ROW <= row <= LONGEST_ROW:
        kernel.ahead = d


# ---- long reductions ----------------------------------------------------------------------------


def _block_of_reduction(kernel: Kernel, strict: bool) -> int | None:
    """How many points of the longest inner dim make a block; None to reduce rows in one piece."""
    rows = math.prod(kernel.extents[d] for d in kernel.outer)
    length = math.prod(kernel.extents[d] for d in kernel.inner)
    simple = len(kernel.stages) == 1 and not kernel.stages[0].carries
    if not simple or not kernel.stages[0].reductions:
        return None
    shared = _longest_inner(kernel)
    if in_blocks(rows, length):
        grain = -(-BLOCK * kernel.extents[shared] // length)
        return -(-grain // kernel.lanes) * kernel.lanes if shared == kernel.vector else grain
    step = max(
        coefficient(address, shared) * kernel.operands[k].dtype.itemsize
        for address, k, _ in accesses(kernel)
    )
    if strict or kernel.vector in kernel.inner or step * kernel.extents[shared] < SPAN:
        return None
    return max(LEAST_BLOCK // step, BLOCK_OF_ROWS)


def in_blocks(rows: int, length: int) -> bool:
    """Whether rows of this length are reduced in blocks."""
    return length > LONG or (rows < FEW_ROWS and length > BLOCK)


def _scans(kernel: Kernel) -> list[Kernel]:
    """A running result, in blocks if rows are few and long."""
    rows = math.prod(kernel.extents[d] for d in kernel.outer)
    (d,) = kernel.inner
    if kernel.vector != d or "blocks" in kernel.off or not in_blocks(rows, kernel.extents[d]):
        _choose_shared(kernel)
        return [kernel]
    return in_scans(kernel, BLOCK)


def _longest_inner(kernel: Kernel) -> int:
    return max(kernel.inner, key=lambda d: kernel.extents[d])


def _in_two(kernel: Kernel, target: Target, grain: int) -> list[Kernel]:
    """Blocks of the longest inner dim by themselves, then all blocks of a row together."""
    (stage,) = kernel.stages
    b = kernel.builder
    shared = _longest_inner(kernel)
    units = -(-kernel.extents[shared] // grain)
    unit = len(kernel.extents)  # a dim: the number of the block
    row, rows = row_address(kernel)
    across = kernel.vector in kernel.outer
    operands = list(kernel.operands)
    partial_stores, reductions = [], []
    for reduction in stage.reductions:
        values = []
        for result in reduction.results:
            number = len(operands)
            operands.append(Operand(result.dtype, units * rows, True))
            place = row + Dim(unit) * rows if across else row * units + Dim(unit)
            partial_stores.append(Store(number, place, result))
            values.append(b.node("load", result.dtype, (), (number, place, False, False)))
        reductions.append(replace(reduction, values=tuple(values)))
    extents = (*kernel.extents, units)
    blocks = replace(
        kernel,
        name=f"{kernel.name}.blocks",
        operands=operands,
        extents=extents,
        rows=partial_stores,
        shared=shared,
        grain=grain,
        unit=unit,
    )
    final = replace(
        kernel,
        operands=operands,
        extents=extents,
        inner=(unit,),
        stages=[Stage(reductions, [])],
        vector=kernel.vector if across or kernel.vector is None else unit,
    )
    _choose_lanes(final, target)
    _choose_shared(final)
    _choose_pieces(blocks, target)
    return [blocks, final]
