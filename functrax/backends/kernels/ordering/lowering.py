"""``sort`` and ``top_k`` as kernels, for threads that work in groups.

What enters is an equation of ``sort`` or ``top_k``; what leaves are kernels without a schedule,
which run one after the other:

1. Rows are cut into pieces, each of which a group sorts.  The kernel says so in the plainest way:
   an element's place is the number of elements of its piece that come before it.  How a group finds
   these numbers is the schedule's affair (``loops/rewrites/sort_rows.py``).
2. Sorted pieces are merged two by two, until a row is one.  An element's place is the number of
   elements before it in its own piece, which is its index, and in the other one, which a binary
   search finds.  So each element is the work of a thread that waits for nobody.

Long rows are sorted by one digit after the other instead where that is less work (``radix``).

Of ``top_k`` where ``k`` is small each piece gives its first ``k`` elements, and what all pieces
give is cut into pieces again, until there is one.

Keys are moved at each step.  Other operands are not: the position of an element goes along with its
keys, and the last kernel reads them by it.  Elements that are equal stay in order, as every piece
before another one has the earlier elements.

Start at :func:`lower_ordering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from functrax.backends.kernels.ir import Carry, LoopStage, Sorting, Store
from functrax.backends.kernels.ordering.equation import (
    BOOL,
    WORD,
    Equation,
    KernelWriter,
    OrderingKernels,
    RowLayout,
)
from functrax.backends.kernels.ordering.radix import RadixSort
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims.lowered_order import Precedes, sorts_before, total_order_before
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar
from functrax.core.types import dtypes

_MOST: Final = int(np.iinfo(np.int32).max)


@record
class _Sorted:
    """Where keys are between kernels.

    Args:
      keys: the numbers of the arrays that have them.
      position: that of the array that says where in the row of the operand each element is; None
        where it is, or where nobody asks.
      rows: how they lie.
      is_result: whether it is where the results are.
    """

    keys: tuple[int, ...]
    position: int | None
    rows: RowLayout
    is_result: bool = False


def lower_ordering(eqn: Eqn) -> OrderingKernels | Refusal:
    """The kernels of a ``sort`` or ``top_k``.

    It is refused for empty arrays and types that are only stored, and if elements have more bytes
    than threads can share, or are too many for numbers of 32 bits.
    """
    avals = [x.aval for x in eqn.invars]
    if any(x.dtype in dtypes.STORED for x in avals):
        return Refusal("types that are only stored")
    if any(v.aval.size == 0 for v in eqn.outvars):
        return Refusal("there are no elements")
    of = Equation(eqn)
    merging = _Merging(of)
    if max(merging.points, 1) < target().block:
        return Refusal("elements of more bytes than threads can share")
    if of.length > _MOST or of.before * of.after > _MOST:
        return Refusal("rows that are too long or too many for numbers of 32 bits")
    radix = RadixSort(of)
    how = radix if is_by_digits(merging, radix) else merging
    how.write()
    return of.lowered()


def is_by_digits(merging: _Merging, radix: RadixSort) -> bool:
    """Whether rows are longer than what a group sorts, and sorting by digits is less work."""
    if merging.selects or merging.of.length <= merging.points:
        return False
    return radix.ns() < merging.ns()


def points_at_once(nbytes: int) -> int:
    """How many elements a group sorts at once, a power of two: two copies of them are shared, and
    a thread has few.  0 if not even one fits.
    """
    machine = target()
    fit = machine.shared_bytes // (2 * nbytes)
    most = machine.sort_points * machine.block
    return min(1 << fit.bit_length() >> 1, most)


class _Merging:
    """Writes kernels that sort pieces, and merge them."""

    def __init__(self, of: Equation) -> None:
        self.of = of
        self.precedes: Precedes = total_order_before if of.is_top else sorts_before
        sizes = [of.arrays[n].dtype.itemsize for n in range(of.num_keys)]
        sizes += [WORD.itemsize] * of.moves_position
        #: Of what is moved of an element; registers hold no less than a word.
        self.nbytes = sum([max(size, WORD.itemsize) for size in sizes])
        self.points = points_at_once(self.nbytes)
        #: Whether half of the elements of each piece go, or more.
        self.selects: bool = 2 * of.kept <= self.points

    def ns(self) -> float:
        """Nanoseconds that a GPU is predicted to take: each element looks at others, by bisection
        of runs of 1, 2, 4, ... elements up to half the row.
        """
        widths = range((self.of.length - 1).bit_length())
        launches = len(widths) - self.points.bit_length() + 2
        steps = sum([width + 1 for width in widths])
        operations = steps * target().search_operations
        return launches * target().enqueue_ns + self.of.waves * operations * target().wave_ns

    def write(self) -> None:
        """All kernels."""
        of = self.of
        keys = _Sorted(tuple(range(of.num_keys)), None, of.given)
        piece = self.points
        while keys.rows.length > piece and self.selects:
            keys = self._pieces(keys, piece, of.kept)
        length = keys.rows.length
        if length <= piece:
            self._pieces(keys, 1 << (length - 1).bit_length(), of.kept)
            return
        keys = self._pieces(keys, piece, piece)
        while piece < length:
            keys = self._merged(keys, piece)
            piece *= 2

    def _next(self, length: int, is_last: bool) -> _Sorted:
        """Where the results of a kernel go."""
        of = self.of
        if is_last:
            return _Sorted(of.outputs[: of.num_keys], None, of.wanted, True)
        keys = [of.temporary(of.arrays[n].dtype, length) for n in range(of.num_keys)]
        position = of.temporary(WORD, length) if of.moves_position else None
        return _Sorted(tuple(keys), position, RowLayout(length, False))

    # ---- kernels ---------------------------------------------------------------------------------

    def _pieces(self, keys: _Sorted, piece: int, kept: int) -> _Sorted:
        """Pieces of rows are sorted; the first elements of each are kept."""
        length = keys.rows.length
        whole, left = divmod(length, piece)
        pieces = whole + (left > 0)
        to = self._next(whole * min(kept, piece) + min(kept, left), pieces == 1)
        w = self._writer(keys, to)
        b = w.b
        begin = Dim(2) * piece
        inside, is_other = (w.inside(begin + Dim(d), length, piece) for d in (3, 4))
        own = _read(w, keys, begin + Dim(3), None, inside)
        other = _read(w, keys, begin + Dim(4), None, is_other)
        earlier = b.compare("lt", w.word(Dim(4)), w.word(Dim(3)))
        count, rank = w.counted(b.both(is_other, self.precedes(b, other, own, earlier)))
        is_kept = inside
        is_all = kept >= min(piece, length)
        if not is_all:
            is_kept = b.both(is_kept, b.compare("lt", rank, w.size(kept)))
        place = Dim(2) * min(kept, piece), rank
        stores = self._stores(w, (keys, to), own, begin + Dim(3), place, is_kept)
        sorting = self._sorting(piece, pieces, piece if is_all else kept)
        self.of.add(w, (pieces, piece, piece), [LoopStage([count])], stores, sorting)
        return to

    def _sorting(self, piece: int, pieces: int, kept: int) -> Sorting:
        """How many pieces a group sorts at once: all that it has room for, if there are many.

        A group has more threads than others if there are few groups, and threads keep few words.
        """
        machine, rows = target(), self.points // piece
        group, units = machine.block, self.of.before * self.of.after * pieces
        least = max(group // piece, 1)
        while rows > least and units * group < rows * machine.busy_threads:
            rows //= 2
        words = 2 * self.nbytes // machine.vector_bytes  # of an element and of one beside it
        most = machine.largest_group if words <= machine.sort_points else group
        while group < min(most, rows * piece) and units * group < rows * machine.busy_threads:
            group *= 2
        return Sorting(group, rows, kept)

    def _merged(self, keys: _Sorted, piece: int) -> _Sorted:
        """Neighbouring sorted pieces become one."""
        length = keys.rows.length
        is_last = 2 * piece >= length
        to = self._next(length, is_last)
        w = self._writer(keys, to)
        b = w.b
        here, width, one = w.word(Dim(2)), w.size(piece), b.const(1, WORD)
        below = b.sub(width, one)
        always = b.const(True, BOOL)
        own, is_second = _read(w, keys, Dim(2), None, always), b.logic("and", here, width)
        found, step = (b.node("acc", WORD, (), ("merge", n, True)) for n in range(2))
        # pieces begin at multiples of the width, a power of two
        other = b.logic("and", b.logic("xor", here, width), b.logic("not", below))
        there = b.add(other, b.sub(b.add(found, step), one))
        is_element = b.compare("lt", there, w.size(length))
        others = _read(w, keys, as_expr(0), there, is_element)
        comes_before = self.precedes(b, others, own, b.compare("ne", is_second, b.const(0, WORD)))
        moved = b.select(b.both(is_element, comes_before), b.add(found, step), found)
        new = moved, b.max(b.logic("shr", step, one), one)
        # half the width, a quarter, ... 1, and 1 again: the width in all
        first = b.const(0, WORD), b.node("int", WORD, (), max(piece // 2, 1))
        last = b.node("result", WORD, (), found.attr[:2])
        ends = last, b.node("result", WORD, (), step.attr[:2])
        carries = list(map(Carry, first, (found, step), new, ends))
        # an element's index without the bit of its piece, and how many of the other one precede it
        rank = b.add(b.sub(here, is_second), last)
        is_all = to.rows.length == length
        is_kept = always if is_all else b.compare("lt", rank, w.size(to.rows.length))
        stores = self._stores(w, (keys, to), own, Dim(2), (as_expr(0), rank), is_kept)
        self.of.add(w, (length, piece.bit_length()), [LoopStage(carries=carries)], stores)
        return to

    # ---- what is moved ---------------------------------------------------------------------------

    def _writer(self, keys: _Sorted, to: _Sorted) -> KernelWriter:
        """Writes a kernel that moves keys, and what goes along with them."""
        reads, writes = keys.keys, to.keys
        if keys.position is not None:
            reads += (keys.position,)
        if to.is_result:
            return KernelWriter(self.of, reads + self.of.others, self.of.outputs)
        if to.position is not None:
            writes += (to.position,)
        return KernelWriter(self.of, reads, writes)

    def _stores(
        self,
        w: KernelWriter,
        moved: tuple[_Sorted, _Sorted],
        own: Sequence[Scalar],
        element: IndexExpr,
        place: tuple[IndexExpr, Scalar],
        guard: Scalar,
    ) -> list[Store]:
        """Keys, and what goes along with them, are written at a place of the row.

        Args:
          w: writes the kernel.
          moved: from where to where.
          own: the keys of the element.
          element: its index in the rows that are read.
          place: an affine index in the rows that are written, and a further one.
          guard: where it is false nothing is written.
        """
        b, values, (keys, to) = w.b, list(own), moved
        if self.of.moves_position:
            position = w.word(element)
            if keys.position is not None:
                position = w.read(keys.position, keys.rows, element, None, guard)
            if not to.is_result:
                values.append(b.convert(position, WORD))
            elif self.of.is_top:
                values.append(b.convert(position, dtypes.int32))
            elif keys.position is None:
                values += [w.read(n, self.of.given, element, None, guard) for n in self.of.others]
            else:
                begin = as_expr(0)
                values += [w.read(n, self.of.given, begin, position, guard) for n in self.of.others]
        each = zip(w.writes, values, strict=True)
        return [w.store(n, to.rows, x, *place, guard) for n, x in each]


def _read(
    w: KernelWriter, keys: _Sorted, element: IndexExpr, index: Scalar | None, inside: Scalar
) -> list[Scalar]:
    """The keys of an element at an affine index and a further one; anything if there is none."""
    return [w.read(n, keys.rows, element, index, inside) for n in keys.keys]
