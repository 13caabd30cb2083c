"""Long rows are sorted by one digit of their keys after the other, the last one first.

Digits are bytes of unsigned integers that have the order of the keys.  A pass by one digit is
stable, so after the passes by all digits the rows are sorted.  A pass is three kernels:

1. Rows are cut into tiles.  The elements of each tile that have each digit are counted.
2. Running sums of the counts, by digit and then by tile, say where the elements of each tile with
   each digit begin.
3. Each element is written to its place: there, and after those of its tile that have the same digit
   and come earlier.  So runs of elements go to neighbouring places.

How a group of threads counts, and sorts a tile, is the schedule's affair
(``loops/rewrites/digits.py``).

The key is moved, and what goes along with it: a single other operand, if that is no wider than a
position, else the position.  Of several keys one after the other is moved, the last one first; each
is read by position first.  In the end a kernel reads by position what was not moved.

Start at :class:`RadixSort`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from functrax.backends.kernels.ir import Carry, Digits, LoopStage, Reduce
from functrax.backends.kernels.ordering.equation import (
    AFTER,
    BEFORE,
    BOOL,
    INDEX,
    SUM,
    WORD,
    Equation,
    KernelWriter,
    RowLayout,
)
from functrax.backends.targets import target
from functrax.core.index.expr import Dim, IndexExpr, as_expr
from functrax.core.prims.lowered_order import Words, ascending_words, total_order_words
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar

_BYTE: Final = np.dtype(np.uint8)
#: How many digits there are.
_DIGITS: Final = int(np.iinfo(_BYTE).max) + 1
_ELEMENT, _OTHER = Dim(3), Dim(4)


@record
class _Moved:
    """What a pass reads.

    Args:
      key: the number of the array that has the key.
      rows: how that lies.
      along: the number of the array that goes along with keys, if any does; None where it is the
        position of an element and that is where the element is.
      along_rows: how that lies.
      is_gathered: whether keys are where the position says.
    """

    key: int
    rows: RowLayout
    along: int | None
    along_rows: RowLayout
    is_gathered: bool


class RadixSort:
    """Writes the kernels of an equation."""

    def __init__(self, of: Equation) -> None:
        self.of = of
        self.words: Words = total_order_words if of.is_top else ascending_words
        others = [of.arrays[n].dtype.itemsize for n in of.others]
        #: Whether an operand goes along with keys, and not the position.
        self.moves_operand = of.num_keys == 1 and len(others) == 1 and others[0] <= WORD.itemsize
        self.moves_along = of.num_keys > 1 or of.moves_position
        self.tile = min(self._tile(n) for n in range(of.num_keys))
        self.tiles = -(-of.length // self.tile)

    def _tile(self, key: int) -> int:
        """How many elements a group sorts at once: a power of two that threads have room for,
        beside a word for each, the counters of all threads, and a sum of each warp.
        """
        machine = target()
        points = machine.sort_points * machine.block
        along = WORD.itemsize * self.moves_along
        counters = math.isqrt(_DIGITS) // 2 * machine.block + machine.block // machine.warp
        size = self.of.arrays[key].dtype.itemsize + along + WORD.itemsize
        while points * size > machine.shared_bytes - counters * WORD.itemsize:
            points //= 2
        return points

    def ns(self) -> float:
        """Nanoseconds that a GPU is predicted to take."""
        machine, of = target(), self.of
        passes = sum([of.arrays[n].dtype.itemsize for n in range(of.num_keys)])
        operations = passes * machine.digit_operations
        launches = 5 * passes  # the sums of many counts are three kernels
        return launches * machine.enqueue_ns + of.waves * operations * machine.wave_ns

    def write(self) -> None:
        """All kernels."""
        of = self.of
        along: int | None = of.others[0] if self.moves_operand else None
        along_rows, is_first = of.given, True
        for key in reversed(range(of.num_keys)):
            at = _Moved(key, of.given, along, along_rows, not is_first)
            digits = self._digits(key)
            for n, (part, digit) in enumerate(digits):
                is_last = n == len(digits) - 1
                at = self._pass(at, part, digit, is_last, key == 0 and is_last)
            along, along_rows, is_first = at.along, at.along_rows, False
        if along is not None and along not in of.outputs:
            self._gather(along, along_rows)

    def _digits(self, key: int) -> list[tuple[int, int]]:
        """The parts of a key and the digits of each, the least important first."""
        dtype = self.of.arrays[key].dtype
        parts = 2 if dtype.kind == "c" else 1
        return [(p, n) for p in reversed(range(parts)) for n in range(dtype.itemsize // parts)]

    # ---- a pass ----------------------------------------------------------------------------------

    def _pass(self, at: _Moved, part: int, digit: int, ends_key: bool, ends_all: bool) -> _Moved:
        """Rows are sorted by a digit.

        Args:
          at: what is read.
          part: of the key.
          digit: the number of the byte, from the lowest one on.
          ends_key: whether it is the last digit of the key.
          ends_all: whether it is the last one of all.
        """
        counts, starts = (self.of.temporary(WORD, _DIGITS * self.tiles) for _ in range(2))
        self._count(at, part, digit, counts)
        self._sum(counts, starts)
        to = self._next(at, ends_key, ends_all)
        self._move(at, to, part, digit, starts)
        return to

    def _next(self, at: _Moved, ends_key: bool, ends_all: bool) -> _Moved:
        of, key, along = self.of, -1, None
        rows, along_rows = (
            of.wanted if ends_all else RowLayout(of.length, False) for _ in range(2)
        )
        if ends_all:
            key = of.outputs[0]
        elif not ends_key:
            key = of.temporary(of.arrays[at.key].dtype, of.length)
        if self.moves_along and ends_all and (self.moves_operand or of.is_top):
            along = of.outputs[1]
        elif self.moves_along:
            dtype = of.arrays[of.others[0]].dtype if self.moves_operand else WORD
            along, along_rows = of.temporary(dtype, of.length), RowLayout(of.length, False)
        return _Moved(key, rows, along, along_rows, False)

    def _digit(
        self, w: KernelWriter, at: _Moved, part: int, digit: int, d: Dim
    ) -> tuple[Scalar, Scalar, Scalar]:
        """Of the element with an index in a tile the key, its digit, and whether there is one."""
        b, element = w.b, Dim(2) * self.tile + d
        inside = w.inside(element, self.of.length, self.tile)
        if at.is_gathered:
            key = w.read(at.key, at.rows, as_expr(0), self._along(w, at, element, inside), inside)
        else:
            key = w.read(at.key, at.rows, element, None, inside)
        word = self.words(b, key)[part]
        shifted = b.logic("shr", word, b.node("int", word.dtype, (), digit * 8 * _BYTE.itemsize))
        low = b.logic("and", b.convert(shifted, WORD), b.const(_DIGITS - 1, WORD))
        return key, low, inside

    def _along(self, w: KernelWriter, at: _Moved, element: IndexExpr, inside: Scalar) -> Scalar:
        """What goes along with an element."""
        if at.along is None:
            return w.word(element)
        return w.read(at.along, at.along_rows, element, None, inside)

    def _table(self) -> IndexExpr:
        """Where the counts of a row begin."""
        begin: IndexExpr = (BEFORE * self.of.after + AFTER) * (_DIGITS * self.tiles)
        return begin

    def _reads(self, at: _Moved, with_along: bool) -> tuple[int, ...]:
        return (at.key,) if at.along is None or not with_along else (at.key, at.along)

    def _count(self, at: _Moved, part: int, digit: int, counts: int) -> None:
        """The elements of each tile with each digit are counted."""
        w = KernelWriter(self.of, self._reads(at, at.is_gathered), (counts,))
        _, own, inside = self._digit(w, at, part, digit, _OTHER)
        count, result = w.counted(w.b.both(inside, w.b.compare("eq", own, w.word(_ELEMENT))))
        address = self._table() + Dim(3) * self.tiles + Dim(2)
        store = w.store_at(counts, address, result)
        how = Digits(target().block, _DIGITS, False)
        self.of.add(w, (self.tiles, _DIGITS, self.tile), [LoopStage([count])], [store], how)

    def _sum(self, counts: int, starts: int) -> None:
        """Counts become the sums of those before them in their row."""
        w = KernelWriter(self.of, (counts,), (starts,))
        b, address = w.b, self._table() + Dim(2)
        value = w.read_at(counts, address)
        acc = b.node("acc", WORD, (), ("running", 0, True))
        (new,) = SUM.combine(b, (acc,), (value,))
        (zero,) = SUM.empty(b)
        carry = Carry(zero, acc, new, b.node("result", WORD, (), acc.attr[:2]))
        scan = Reduce(SUM, (value,), (acc,), (new,))
        stage = LoopStage([], [w.store_at(starts, address, acc)], [carry], scan=scan)
        self.of.add(w, (_DIGITS * self.tiles,), [stage], [])

    def _move(self, at: _Moved, to: _Moved, part: int, digit: int, starts: int) -> None:
        """Each element is written to its place."""
        of = self.of
        keys = () if to.key < 0 else (to.key,)
        along = () if to.along is None else (to.along,)
        w = KernelWriter(of, (*self._reads(at, self.moves_along), starts), keys + along)
        b = w.b
        key, own, inside = self._digit(w, at, part, digit, _ELEMENT)
        _, other, is_other = self._digit(w, at, part, digit, _OTHER)
        earlier = b.compare("lt", w.word(_OTHER), w.word(_ELEMENT))
        same = b.compare("eq", own, other)
        count, result = w.counted(b.both(is_other, b.both(earlier, same)))
        column = b.convert(b.mul(own, w.size(self.tiles)), INDEX)
        place = b.add(w.read_at(starts, self._table() + Dim(2), column), result)
        zero, stores = as_expr(0), []
        is_kept = inside
        if to.rows.length < of.length:
            is_kept = b.both(inside, b.compare("lt", place, w.size(to.rows.length)))
        if keys:
            stores.append(w.store(to.key, to.rows, key, zero, place, is_kept))
        if to.along is not None:
            value = self._along(w, at, Dim(2) * self.tile + _ELEMENT, inside)
            value = b.convert(value, of.arrays[to.along].dtype)
            stores.append(w.store(to.along, to.along_rows, value, zero, place, is_kept))
        how = Digits(target().block, _DIGITS, True)
        self.of.add(w, (self.tiles, self.tile, self.tile), [LoopStage([count])], stores, how)

    def _gather(self, position: int, rows: RowLayout) -> None:
        """What was not moved is read by position."""
        of = self.of
        rest = range(1, len(of.outputs))
        w = KernelWriter(of, (*rest, position), [of.outputs[n] for n in rest])
        always, element = w.b.const(True, BOOL), Dim(2)
        place = w.read(position, rows, element, None, always)
        stores = []
        for n in rest:
            value = w.read(n, of.given, as_expr(0), place, always)
            stores.append(w.store(of.outputs[n], of.wanted, value, element, None, always))
        of.add(w, (of.length,), [], stores)
