"""``sort`` and ``top_k`` as kernels, for threads that work in groups.

What enters is an equation of ``sort`` or ``top_k``; what leaves are kernels without a schedule,
which run one after the other:

1. Rows are cut into pieces, each of which a group sorts.  The kernel says so in the plainest way:
   an element's place is the number of elements of its piece that come before it.  How a group finds
   these numbers is the schedule's affair (``loops/rewrites/sort_rows.py``).
2. Sorted pieces are merged two by two, until a row is one.  An element's place is the number of
   elements before it in its own piece, which is its index, and in the other one, which a binary
   search finds.  So each element is the work of a thread that waits for nobody.

Of ``top_k`` where ``k`` is small each piece gives its first ``k`` elements, and what all pieces
give is cut into pieces again, until there is one.

Keys are moved at each step.  Other operands are not: the position of an element goes along with its
keys, and the last kernel reads them by it.  Elements that are equal stay in order, as every piece
before another one has the earlier elements.

Start at :func:`lower_ordering`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.kernels.ir import (
    Carry,
    Kernel,
    LoopStage,
    Operand,
    Reduce,
    Sorting,
    Store,
    load,
)
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.ir.jaxpr import Eqn
from functrax.core.prims import ordering
from functrax.core.prims.lowered_order import Precedes, sorts_before, total_order_before
from functrax.core.prims.lowered_reductions import Fold
from functrax.core.records import record
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

INDEX: Final = np.dtype(np.int64)
#: Of indices in a row, and of the positions that go along with keys.
WORD: Final = np.dtype(np.uint32)
BOOL: Final = np.dtype(np.bool_)
_MOST: Final = int(np.iinfo(np.int32).max)
#: The dims of a kernel: axes before the one that is sorted along, and those after it.
_BEFORE, _AFTER = Dim(0), Dim(1)


@record
class OrderingKernels:
    """The kernels of an equation.

    Args:
      kernels: what runs, in order.
      arrays: for each the numbers of the arrays that it reads and writes: operands of the equation,
        its results, then temporaries.
      temporaries: arrays between the kernels.
    """

    kernels: Sequence[Kernel]
    arrays: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    temporaries: tuple[Operand, ...]


@record
class _Rows:
    """Rows of keys in arrays.

    Args:
      keys: the numbers of the arrays that have them.
      position: that of the array that says where in the row of the operand each element is; None
        where it is, or where nobody asks.
      length: elements of a row.
      strided: whether the axes after the sorted one come after it in memory, too; else all rows
        are contiguous.
    """

    keys: tuple[int, ...]
    position: int | None
    length: int
    strided: bool


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
    lowering = _Lowering(eqn)
    if max(lowering.points, 1) < target().block:
        return Refusal("elements of more bytes than threads can share")
    if lowering.length > _MOST or lowering.before * lowering.after > _MOST:
        return Refusal("rows that are too long or too many for numbers of 32 bits")
    return lowering.lowered()


def points_at_once(nbytes: int) -> int:
    """How many elements a group sorts at once, a power of two: two copies of them are shared, and
    a thread has few.  0 if not even one fits.
    """
    machine = target()
    fit = machine.shared_bytes // (2 * nbytes)
    most = machine.sort_points * machine.block
    return min(1 << fit.bit_length() >> 1, most)


class _Lowering:
    """Writes the kernels of one equation."""

    def __init__(self, eqn: Eqn) -> None:
        params = eqn.params
        self.name = eqn.primitive.name
        self.is_top = eqn.primitive is ordering.top_k
        self.num_keys = 1 if self.is_top else params["num_keys"]
        axis = params["axis" if self.is_top else "dimension"]
        shape = eqn.invars[0].aval.shape
        self.length = shape[axis]
        self.kept = params["k"] if self.is_top else self.length
        self.before, self.after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        self.arrays = [
            Operand(v.aval.dtype, v.aval.size, n >= len(eqn.invars))
            for n, v in enumerate((*eqn.invars, *eqn.outvars))
        ]
        self.outputs = tuple(range(len(eqn.invars), len(self.arrays)))
        self.known = len(self.arrays)
        self.others = () if self.is_top else tuple(range(self.num_keys, len(eqn.invars)))
        self.moves_position = self.is_top or bool(self.others)
        self.precedes: Precedes = total_order_before if self.is_top else sorts_before
        sizes = [self.arrays[n].dtype.itemsize for n in range(self.num_keys)]
        sizes += [WORD.itemsize] * self.moves_position
        #: Of what is moved of an element; registers hold no less than a word.
        self.nbytes = sum([max(size, WORD.itemsize) for size in sizes])
        self.points = points_at_once(self.nbytes)
        self.kernels: list[Kernel] = []
        self.taken: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def lowered(self) -> OrderingKernels:
        """All kernels."""
        rows = _Rows(tuple(range(self.num_keys)), None, self.length, True)
        piece = self.points
        while rows.length > piece and 2 * self.kept <= piece:  # half of the elements go, or more
            rows = self._pieces(rows, piece, self.kept)
        if rows.length <= piece:
            self._pieces(rows, 1 << (rows.length - 1).bit_length(), self.kept)
        else:
            rows = self._pieces(rows, piece, piece)
            while piece < rows.length:
                rows = self._merged(rows, piece)
                piece *= 2
        return OrderingKernels(self.kernels, self.taken, tuple(self.arrays[self.known :]))

    # ---- arrays ----------------------------------------------------------------------------------

    def _temporary(self, dtype: np.dtype[Any], length: int) -> int:
        self.arrays.append(Operand(dtype, self.before * self.after * length, True))
        return len(self.arrays) - 1

    def _next(self, length: int, is_last: bool) -> _Rows:
        """Where the results of a kernel go."""
        if is_last:
            return _Rows(self.outputs[: self.num_keys], None, self.kept, True)
        keys = tuple([self._temporary(self.arrays[n].dtype, length) for n in range(self.num_keys)])
        position = self._temporary(WORD, length) if self.moves_position else None
        return _Rows(keys, position, length, False)

    def address(self, rows: _Rows) -> tuple[IndexExpr, int]:
        """Where a row begins, and how far apart its elements are."""
        if rows.strided:
            return _BEFORE * (rows.length * self.after) + _AFTER, self.after
        return (_BEFORE * self.after + _AFTER) * rows.length, 1

    # ---- kernels ---------------------------------------------------------------------------------

    def _pieces(self, rows: _Rows, piece: int, kept: int) -> _Rows:
        """Pieces of rows are sorted; the first elements of each are kept."""
        whole, left = divmod(rows.length, piece)
        pieces = whole + (left > 0)
        is_last = pieces == 1
        to = self._next(whole * min(kept, piece) + min(kept, left), is_last)
        w = _KernelWriter(self, rows, to, is_last)
        b = w.b
        w.extents += (pieces, piece, piece)
        begin = Dim(2) * piece

        def inside(d: int) -> Scalar:
            if not left:
                return b.const(True, BOOL)
            return b.compare("lt", w.word(begin + Dim(d)), w.size(rows.length))

        own, other = (w.keys(begin + Dim(d), None, inside(d)) for d in (3, 4))
        earlier = b.compare("lt", w.word(Dim(4)), w.word(Dim(3)))
        counts = b.both(inside(4), self.precedes(b, other, own, earlier))
        value = b.select(counts, b.const(1, WORD), b.const(0, WORD))
        acc = b.node("acc", WORD, (), ("rank", 0))
        rank = b.node("result", WORD, (), ("rank", 0))
        count = Reduce(Fold("add", WORD, WORD, 0), (value,), (acc,), (rank,))
        is_kept = inside(3)
        is_all = kept >= min(piece, rows.length)
        if not is_all:
            is_kept = b.both(is_kept, b.compare("lt", rank, w.size(kept)))
        place = Dim(2) * min(kept, piece), rank
        stores = w.stores(own, begin + Dim(3), place, is_kept)
        sorting = self._sorting(piece, pieces, piece if is_all else kept)
        self._add(w, [LoopStage([count])], stores, sorting)
        return to

    def _sorting(self, piece: int, pieces: int, kept: int) -> Sorting:
        """How many pieces a group sorts at once: all that it has room for, if there are many.

        A group has more threads than others if there are few groups, and threads keep few words.
        """
        machine, rows = target(), self.points // piece
        group, units = machine.block, self.before * self.after * pieces
        least = max(group // piece, 1)
        while rows > least and units * group < rows * machine.busy_threads:
            rows //= 2
        words = 2 * self.nbytes // machine.vector_bytes  # of an element and of one beside it
        most = machine.largest_group if words <= machine.sort_points else group
        while group < min(most, rows * piece) and units * group < rows * machine.busy_threads:
            group *= 2
        return Sorting(group, rows, kept)

    def _merged(self, rows: _Rows, piece: int) -> _Rows:
        """Neighbouring sorted pieces become one."""
        is_last = 2 * piece >= rows.length
        to = self._next(rows.length, is_last)
        w = _KernelWriter(self, rows, to, is_last)
        b = w.b
        steps = piece.bit_length()
        w.extents += (rows.length, steps)
        here, width, one = w.word(Dim(2)), w.size(piece), b.const(1, WORD)
        below = b.sub(width, one)
        always = b.const(True, BOOL)
        own, is_second = w.keys(Dim(2), None, always), b.logic("and", here, width)
        found, step = (b.node("acc", WORD, (), ("merge", n, True)) for n in range(2))
        # pieces begin at multiples of the width, a power of two
        other = b.logic("and", b.logic("xor", here, width), b.logic("not", below))
        there = b.add(other, b.sub(b.add(found, step), one))
        is_element = b.compare("lt", there, w.size(rows.length))
        keys = w.keys(as_expr(0), there, is_element)
        comes_before = self.precedes(b, keys, own, b.compare("ne", is_second, b.const(0, WORD)))
        moved = b.select(b.both(is_element, comes_before), b.add(found, step), found)
        new = moved, b.max(b.logic("shr", step, one), one)
        # half the width, a quarter, ... 1, and 1 again: the width in all
        first = b.const(0, WORD), b.node("int", WORD, (), max(piece // 2, 1))
        last = b.node("result", WORD, (), found.attr[:2])
        ends = last, b.node("result", WORD, (), step.attr[:2])
        carries = list(map(Carry, first, (found, step), new, ends))
        # an element's index without the bit of its piece, and how many of the other one precede it
        rank = b.add(b.sub(here, is_second), last)
        is_all = to.length == rows.length
        is_kept = always if is_all else b.compare("lt", rank, w.size(to.length))
        stores = w.stores(own, Dim(2), (as_expr(0), rank), is_kept)
        self._add(w, [LoopStage(carries=carries)], stores)
        return to

    def _add(
        self,
        w: _KernelWriter,
        stages: list[LoopStage],
        stores: list[Store],
        sorting: Sorting | None = None,
    ) -> None:
        extents = (self.before, self.after, *w.extents)
        inner = len(extents) - 1
        operands = [Operand(x.dtype, x.size, n >= len(w.reads)) for n, x in enumerate(w.operands)]
        kernel = Kernel(
            self.name, w.b, operands, extents, tuple(range(inner)), (inner,), stages, stores,
            sorting=sorting,
        )  # fmt: skip
        self.kernels.append(kernel)
        self.taken.append((w.reads, w.writes))


class _KernelWriter:
    """Writes the reads and stores of one kernel.

    Args:
      lowering: of the equation.
      rows: what is read.
      to: where the results go.
      is_last: whether they are those of the equation.
    """

    def __init__(self, lowering: _Lowering, rows: _Rows, to: _Rows, is_last: bool) -> None:
        self.of, self.rows, self.to, self.is_last = lowering, rows, to, is_last
        self.b = Builder()
        self.extents: tuple[int, ...] = ()
        self.reads = rows.keys
        if rows.position is not None:
            self.reads += (rows.position,)
        if is_last:
            self.reads += lowering.others
            self.writes = lowering.outputs
        else:
            self.writes = to.keys if to.position is None else (*to.keys, to.position)
        self.operands = [lowering.arrays[n] for n in (*self.reads, *self.writes)]

    # ---- indices ---------------------------------------------------------------------------------

    def size(self, value: int) -> Scalar:
        """A number that depends on sizes."""
        return self.b.node("int", WORD, (), value)

    def word(self, index: IndexExpr) -> Scalar:
        """An index in a row."""
        b, found = self.b, self.b.const(index.const, WORD)
        for atom, coef in index.terms:
            assert isinstance(atom, Dim)
            term = b.convert(b.node("dim", INDEX, (), atom.number), WORD)
            term = term if coef == 1 else b.mul(term, b.const(coef, WORD))
            found = term if found.is_constant and not found.attr else b.add(found, term)
        return found

    # ---- memory ----------------------------------------------------------------------------------

    def _offset(self, index: Scalar | None, stride: int) -> Scalar | None:
        if index is None:
            return None
        b, found = self.b, self.b.convert(index, INDEX)
        return found if stride == 1 else b.mul(found, b.node("int", INDEX, (), stride))

    def _read(
        self,
        number: int,
        rows: _Rows,
        element: IndexExpr,
        index: Scalar | None,
        inside: Scalar,
    ) -> Scalar:
        """What an array has at an element of a row: an affine index, and a further one."""
        begin, stride = self.of.address(rows)
        place = begin + element * stride, self._offset(index, stride)
        buffer = self.reads.index(number)
        return load(self.b, self.operands[buffer].dtype, buffer, place, _guard(inside))

    def keys(self, element: IndexExpr, index: Scalar | None, inside: Scalar) -> list[Scalar]:
        """The keys of an element; anything where it is not inside."""
        return [self._read(n, self.rows, element, index, inside) for n in self.rows.keys]

    def stores(
        self,
        keys: Sequence[Scalar],
        element: IndexExpr,
        place: tuple[IndexExpr, Scalar],
        guard: Scalar,
    ) -> list[Store]:
        """Keys, and what goes along with them, are written at a place of the row.

        Args:
          keys: of the element.
          element: its index in the rows that are read.
          place: an affine index in the rows that are written, and a further one.
          guard: where it is false nothing is written.
        """
        b, moved = self.b, list(keys)
        if self.of.moves_position:
            position = self._position(element, guard)
            if not self.is_last:
                moved.append(b.convert(position, WORD))
            elif self.of.is_top:
                moved.append(b.convert(position, dtypes.int32))
            else:
                moved += self._others(element, guard)
        begin, stride = self.of.address(self.to)
        offset = self._offset(place[1], stride)
        return [
            Store(len(self.reads) + n, begin + place[0] * stride, x, offset, _guard(guard))
            for n, x in enumerate(moved)
        ]

    def _position(self, element: IndexExpr, guard: Scalar) -> Scalar:
        if self.rows.position is None:
            return self.word(element)
        return self._read(self.rows.position, self.rows, element, None, guard)

    def _others(self, element: IndexExpr, guard: Scalar) -> list[Scalar]:
        """What the operands that are no keys have at the position of an element."""
        rows = _Rows(self.of.others, None, self.of.length, True)
        index = None
        if self.rows.position is not None:
            index, element = self._position(element, guard), as_expr(0)
        return [self._read(n, rows, element, index, guard) for n in self.of.others]


def _guard(inside: Scalar) -> Scalar | None:
    """Where something is read or written; None for always."""
    return None if inside.is_constant else inside
