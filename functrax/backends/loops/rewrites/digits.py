"""Tiles of rows are counted and sorted by a digit of their keys, by groups of threads.

A radix sort goes by one digit of the keys after the other, the last one first.  Two kernels of each
pass look at all elements, a tile at a time, and say in the plainest way what they do:

- one counts the elements of a tile that have each digit;
- one writes each element to its place, which is where the elements of its tile with its digit
  begin, and the number of those that have the same digit and come earlier.

To count these takes as many steps as there are pairs.  :class:`CountDigits` has the threads of a
group add to counters that they share.  :class:`SortByDigit` sorts the tile:

    for threads:
        shared = the elements, which the threads read together
        words = for each element its digit and its number in the tile
        for the lower half of the digit, then the upper one:
            each thread takes neighbouring words, and counts them by half digits of its own
            counts become running sums, by half digit, then by thread
            words = each word, at the sum before its half digit and thread + the earlier ones there
        begins = for each digit where its elements go, less the first word's place
        at each place of words: what is stored, of the element with that number

So neighbouring threads write neighbouring elements, as many as have a digit.  Only the words are
moved twice; an element is written to shared memory once and read once.  Every element keeps its
order among those with its digit, so passes by one digit after the other sort.

Start at :class:`SortByDigit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import ClassVar, Final

import numpy as np

from functrax.backends.kernels.ir import Reduce, Store, load, ordered
from functrax.backends.kernels.merge import Rewriting
from functrax.backends.loops.rewrites.grid import parallel_loops
from functrax.backends.loops.rewrites.members import WORD, GroupMembers
from functrax.backends.loops.rewrites.rewrite import Rewrite
from functrax.backends.loops.tree import (
    INDEX,
    Barrier,
    Body,
    Function,
    If,
    Let,
    Loop,
    Running,
    Statement,
    index,
)
from functrax.core.index.expr import as_expr
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Scalar

#: Where the digit begins in a word: below it is the number of an element in its tile.
_DIGIT: Final = np.dtype(np.uint16).itemsize * 8


@record
class CountDigits(Rewrite):
    """A group of threads counts the elements of a tile that have each digit.

    The tree has loops over tiles, over digits, and over the elements of a tile, which are counted
    where they have the digit.

    Args:
      group: how many threads.
    """

    kind: ClassVar[str] = "count"
    group: int

    @property
    def is_required(self) -> bool:
        """Always: the loops are those of a group of threads."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree of loops over tiles."""
        m, b = GroupMembers(tree, self.group), tree.builder
        of = _Counted(tree)
        *around, digits = of.loops
        count = tree.extents[digits.dim]
        counters = m.share(WORD, count)
        one, digit, how = b.const(1, WORD), of.digits[0], of.reduce.how
        added = Store(counters, as_expr(0), one, digit, of.inside, how, atomic=True)

        def zeroed(x: Scalar) -> Body:
            return (Store(counters, as_expr(0), b.const(0, WORD), x),)

        def counted(x: Scalar) -> Body:
            return m.bound([(of.others.dim, x)], (added,))

        def written(x: Scalar) -> Body:
            found = load(b, WORD, counters, (as_expr(0), x))
            return m.bound([(digits.dim, x)], (Let((of.count,), (found,)), *of.stores))

        elements = m.each(tree.extents[of.others.dim], counted)
        body = (m.each(count, zeroed), Barrier(), elements, Barrier(), m.each(count, written))
        return m.rewritten(around, body)


@record
class SortByDigit(Rewrite):
    """A group of threads sorts a tile by a digit, and writes each element to its place.

    The tree has loops over tiles, over the elements of a tile, and over those that may come before
    one, which are counted where they have its digit.

    Args:
      group: how many threads.
      warp: how many threads run in step, and how many banks the memory that they share has.
      digits: how many digits there are: an even power of two.
      resident: how many groups a multiprocessor has registers for at once.
    """

    kind: ClassVar[str] = "radix"
    group: int
    warp: int
    digits: int
    resident: int

    @property
    def is_required(self) -> bool:
        """Always: the loops are those of a group of threads."""
        return True

    def apply(self, tree: Function) -> Function:
        """The tree of loops over tiles."""
        return replace(_DigitSort(tree, self).tree(), resident=self.resident)


class _Counted:
    """What a plain tree that counts elements says.

    Attributes:
      loops: the parallel ones, outermost first.
      others: the loop over the elements that are counted.
      digits: the two numbers that are equal where an element is counted.
      count: how many there are.
      stores: what is written.
    """

    def __init__(self, tree: Function) -> None:
        self.loops, (others, *stores) = parallel_loops(tree.body)
        assert type(others) is Loop
        (counted,) = others.body
        assert type(counted) is Reduce
        self.others, self.reduce = others, counted
        self.count = others.carries[0].result
        self.stores = [s for s in stores if type(s) is Store]
        same = counted.values[0].args[0]
        while same.op == "and":  # of an element that is there, and comes earlier
            same = same.args[1]
        self.digits = same.args

    @property
    def inside(self) -> Scalar | None:
        """Whether there is an element, of which the first digit is: its key is read there; None
        where there always is.
        """
        loads = [x for x in ordered((self.digits[0],)) if x.op == "load"]
        return loads[0].args[-1] if loads[0].attr[3] else None


class _Words:
    """Words in shared memory, of which threads take some neighbouring ones each, or each thread
    the one beside that of the thread before it.

    In both ways the threads of a warp meet no bank: the words that threads take first are side by
    side, then those that they take second, and so on, each time with the threads in another order.

    Args:
      m: the threads.
      warp: how many banks there are.
      per: how many words a thread takes.
      size: of the array, if it is more than all threads take.
    """

    def __init__(self, m: GroupMembers, warp: int, per: int, size: int = 0) -> None:
        assert m.group % (per * warp) == 0, "threads of a warp would meet"
        self.b, self.m, self.per, self.turn = m.b, m, per, warp // per
        self.buffer = m.share(WORD, max(per * m.group, size))
        #: Of the word with the number of the thread.
        self.own = self.place(m.thread)

    def _word(self, value: int) -> Scalar:
        return self.b.const(value, WORD)

    def place(self, x: Scalar) -> Scalar:
        """Where the word with a number is."""
        b = self.b
        first = b.logic("shr", x, self._word(self.per.bit_length() - 1))
        which = b.logic("and", x, self._word(self.per - 1))
        turned = b.logic("xor", first, b.mul(which, self._word(self.turn)))
        return b.add(b.mul(which, self._word(self.m.group)), turned)

    def beside(self, step: Scalar) -> Scalar:
        """Where the word is whose number is that of the thread and a multiple of their count."""
        return self.b.add(self.own, self.b.mul(step, self._word(self.m.group // self.per)))

    def mine(self, n: int) -> tuple[int, Scalar]:
        """Where the n-th of a thread's neighbouring words is: two parts of its place."""
        turned = self.b.logic("xor", self.m.thread, self._word(n * self.turn))
        return n * self.m.group, turned

    def get(self, place: Scalar, more: int = 0) -> Scalar:
        """What is read at a place."""
        return load(self.b, WORD, self.buffer, (as_expr(more), place))

    def put(self, value: Scalar, place: Scalar, more: int = 0) -> Store:
        """A word is written to a place."""
        return Store(self.buffer, as_expr(more), value, place)


class _DigitSort:
    """Makes the loops of one kernel."""

    def __init__(self, tree: Function, rewrite: SortByDigit) -> None:
        self.of, self.b = tree, tree.builder
        self.m = GroupMembers(tree, rewrite.group)
        self.group, self.digits = rewrite.group, rewrite.digits
        counted = _Counted(tree)
        *self.around, elements = counted.loops
        self.reduce, self.stores, self.own = counted.reduce, counted.stores, elements.dim
        self.digit, _ = counted.digits
        self.inside = counted.inside
        self.size = tree.extents[self.own]
        #: Bits of half a digit.
        self.bits = (rewrite.digits.bit_length() - 1) // 2
        #: Where an element goes: where those with its digit begin, and how many precede it.
        offset = self.stores[0].offset
        assert offset is not None
        nodes = ordered((offset,))
        (self.place,) = [x for x in nodes if x.op == "add" and counted.count in x.args]
        (self.begin,) = [x for x in self.place.args if x is not counted.count]
        self.values = [self.m.share(s.value.dtype, self.size) for s in self.stores]
        self.words = _Words(self.m, rewrite.warp, self.size // self.group)
        # Two counters are in one word: of half digits that differ in the highest bit.  In the end
        # there is for each digit where its elements go.
        self.counters = _Words(self.m, rewrite.warp, 1 << (self.bits - 1), self.digits)

    def tree(self) -> Function:
        """The tree of loops over tiles."""
        b = self.b
        half = self.of.new_dim()
        shift = b.mul(b.convert(index(b, half), WORD), self._word(self.bits))
        shift = b.add(shift, self._word(_DIGIT))
        ends = b.const(0, INDEX), b.const(2, INDEX)
        halves = Loop("serial", half, *ends, 1, self._by_half(shift))
        read, begun, written = map(self._each, (self._read, self._begun, self._written))
        body = (read, Barrier(), halves, begun, Barrier(), written)
        return self.m.rewritten(self.around, body)

    def _each(self, body: Callable[[Scalar, Scalar], Body]) -> Statement:
        """What is done with the number of each element, and where the word with it is."""
        d, b = self.of.new_dim(), self.b
        step = b.convert(index(b, d), WORD)
        here = b.add(self.m.thread, b.mul(step, self._word(self.group)))
        ends = b.const(0, INDEX), b.const(self.words.per, INDEX)
        return Loop("serial", d, *ends, 1, body(here, self.words.beside(step)))

    # ---- numbers ---------------------------------------------------------------------------------

    def _word(self, value: int) -> Scalar:
        return self.b.const(value, WORD)

    def _low(self, x: Scalar, bits: int) -> Scalar:
        return self.b.logic("and", x, self._word((1 << bits) - 1))

    def _digit_of(self, word: Scalar) -> Scalar:
        return self.b.logic("shr", word, self._word(_DIGIT))

    def _named(self, *values: Scalar) -> tuple[Let, list[Scalar]]:
        """Values that are computed here."""
        names = [self.of.leaf("result", x.dtype) for x in values]
        return Let(tuple(names), values), names

    def _with(self, new: dict[Scalar, Scalar]) -> Rewriting:
        """The same expressions, with others in the place of some."""
        same = {d: d for d in range(len(self.of.extents))}
        return Rewriting(self.b, same, {id(x): y for x, y in new.items()})

    # ---- what threads do -------------------------------------------------------------------------

    def _read(self, x: Scalar, place: Scalar) -> Body:
        """An element; one that is not there comes last."""
        b, digit = self.b, self.digit
        if self.inside is not None:
            digit = b.select(self.inside, digit, self._word(self.digits - 1))
        word = b.logic("or", b.logic("shl", digit, self._word(_DIGIT)), x)
        each = zip(self.values, self.stores, strict=True)
        puts = [Store(n, as_expr(0), s.value, x) for n, s in each]
        return self.m.bound([(self.own, x)], (*puts, self.words.put(word, place)))

    def _by_half(self, shift: Scalar) -> Body:
        """Words are sorted by half of their digits."""
        b, counters = self.b, self.counters
        zero, top = self._word(0), _DIGIT + 2 * self.bits
        rows = [counters.beside(self._word(n)) for n in range(counters.per)]
        counting: list[Statement] = [counters.put(zero, place) for place in rows]
        placing: list[Statement] = []
        for k in range(self.words.per):
            more, first = self.words.mine(k)
            let, (word,) = self._named(self.words.get(first, more))
            half, upper = self._half(word, shift)
            known, (place,) = self._named(counters.beside(self._low(half, self.bits - 1)))
            counted, (count,) = self._named(counters.get(place))
            added = b.add(count, b.logic("shl", self._word(1), upper))
            # how many of the thread's words precede it: in the same register
            rank = self._low(b.logic("shr", count, upper), self.words.per.bit_length() - 1)
            ranked = b.logic("or", word, b.logic("shl", rank, self._word(top)))
            kept, (ranked,) = self._named(ranked)
            counting += [let, known, counted, counters.put(added, place), kept]
            # by another name, for what is read there is another value by then
            again, (place,) = self._named(place)
            _, upper = self._half(ranked, shift)
            before = b.logic("shr", counters.get(place), upper)
            to = self._low(b.add(before, b.logic("shr", ranked, self._word(top))), _DIGIT)
            placing += [again, self.words.put(self._low(ranked, top), self.words.place(to))]
        return (*counting, Barrier(), *self._summed(), Barrier(), *placing, Barrier())

    def _half(self, word: Scalar, shift: Scalar) -> tuple[Scalar, Scalar]:
        """Half of the digit of a word, and where its counter begins in the word that has it."""
        b = self.b
        half = self._low(b.logic("shr", word, shift), self.bits)
        upper = b.logic("shr", half, self._word(self.bits - 1))
        return half, b.mul(upper, self._word(_DIGIT))

    def _summed(self) -> Body:
        """Each counter becomes the sum of those before it: of lower half digits, and of its own in
        the threads before.
        """
        b, counters = self.b, self.counters
        mine = [counters.mine(n) for n in range(counters.per)]
        let, counts = self._named(*[counters.get(place, more) for more, place in mine])
        total = reduce(b.add, counts)
        until, last = (self.of.leaf("result", WORD) for _ in range(2))
        scan = Reduce(self.reduce.how, (total,), (self._word(0),), (until,))
        # before those in the upper parts of words are all in the lower ones
        before = b.add(b.sub(until, total), b.logic("shl", last, self._word(_DIGIT)))
        stores = []
        for (more, place), count in zip(mine, counts, strict=True):
            stores.append(counters.put(before, place, more))
            before = b.add(before, count)
        return (let, Running(scan, (last,)), *stores)

    def _begun(self, x: Scalar, place: Scalar) -> Body:
        """Where the elements with a digit go, less the place of the first one in the tile."""
        b = self.b
        is_later = b.compare("gt", x, self._word(0))
        before = self.words.place(b.select(is_later, b.sub(x, self._word(1)), x))
        let, (digit, other) = self._named(
            *[self._digit_of(self.words.get(n)) for n in (place, before)]
        )
        is_first = b.logic("or", b.logic("not", is_later), b.compare("ne", digit, other))
        begin = self._with({self.digit: digit}).scalar(self.begin)
        return (let, If(is_first, (self.counters.put(b.sub(begin, x), digit),)))

    def _written(self, x: Scalar, place: Scalar) -> Body:
        """What is stored, of the element whose word is at a place."""
        b = self.b
        let, (word,) = self._named(self.words.get(place))
        begin, number = self.counters.get(self._digit_of(word)), self._low(word, _DIGIT)
        new = {self.place: b.add(begin, x)}
        for n, s in zip(self.values, self.stores, strict=True):
            new[s.value] = load(b, s.value.dtype, n, (as_expr(0), number))
        same = self._with(new)
        # elements that are not there are the last ones after the sort, too
        return (let, *self.m.bound([(self.own, x)], tuple([same.store(s) for s in self.stores])))
