"""Who accessed which bytes: finds two threads that do so with nothing to order them.

Time is a counter that each barrier, warp barrier and fence increases.  Every granule of a region
(as many bytes as the narrowest access so far) has two tags of 64 bits: its last plain write, and
its last access of any kind.  A tag holds the time, and who it was: a thread, several threads of one
block, or threads of several blocks.  Accesses of one block are ordered if the block's last barrier
is later than the first of them; those of one warp also by a warp barrier; those of two blocks if
the first block made a fence after its access and the second one since then.

Reads are kept in a list until a plain write follows, so memory that is only read costs little, and
a barrier that all blocks reach together empties the list of shared memory.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.cuda.simulator.errors import DataRace
from functrax.backends.cuda.simulator.syntax import Array

# The fields of a tag: time from bit 32, kind at bits 30 and 31, and a thread's or block's number.
_TIME: Final = 32
_KIND: Final = 30
_ID: Final = (1 << 30) - 1
_THREAD, _ONE_BLOCK, _BLOCKS = 1, 2, 3
#: Where ranges of bytes begin, and where they end; in order and disjoint.
Ranges: TypeAlias = tuple[Array, Array]
#: How many reads are kept before they are entered into the tags.
_PENDING: Final = 64


class RaceShadow:
    """The tags of a region.

    Args:
      nbytes: the region's bytes.
      threads: threads of a block.
      in_block: whether it belongs to blocks, as shared memory does, so that only threads of one
        block can meet.
    """

    def __init__(self, nbytes: int, threads: int, *, in_block: bool) -> None:
        self.nbytes, self.threads, self.in_block = nbytes, threads, in_block
        self.shift = -1
        self.writes: Array | None = None
        self.accesses: Array | None = None
        #: What was read by ``.nc``.
        self.constant: Array | None = None
        self.pending: list[tuple[Array, int, Array, Any]] = []
        #: Whether a plain write may be newer than the last barrier of all blocks.
        self.dirty = False
        #: The end of what was written by plain writes.
        self.end = 0

    def synchronized(self) -> None:
        """All blocks passed a barrier together."""
        if self.in_block:
            self.pending.clear()
            self.dirty = False

    def read(self, g: Any, offsets: Array, nbytes: int) -> None:
        """An access that is no plain write: a read, or an atomic or volatile access."""
        if self.dirty:
            assert self.writes is not None
            self.refine(nbytes)
            for index in self.indices(offsets, nbytes):
                self.check(g, self.writes, index, "reads what", "wrote")
        self.pending.append((offsets, nbytes, g.tags(), g.since()))
        if len(self.pending) > _PENDING:
            self.enter()

    def read_constant(self, g: Any, offsets: Array, nbytes: int) -> None:
        """A read of what the program says that the kernel does not write (``.nc``)."""
        self.refine(nbytes)
        if self.constant is None:
            self.constant = np.zeros((self.nbytes >> self.shift) + 1, np.bool_)
        for index in self.indices(offsets, nbytes):
            self.constant[index] = True
            if self.writes is not None and self.writes[index].any():
                g.fault(DataRace, "a read by .nc of what the kernel wrote", self.writes[index] != 0)

    def write(self, g: Any, offsets: Array, nbytes: int) -> None:
        """A plain write."""
        self.enter()
        self.refine(nbytes)
        if self.constant is not None:
            for index in self.indices(offsets, nbytes):
                if self.constant[index].any():
                    message = "a write to what the kernel reads by .nc"
                    g.fault(DataRace, message, self.constant[index])
        if self.writes is None:
            self.writes = np.zeros((self.nbytes >> self.shift) + 1, np.int64)
        tags = g.tags()
        rising = bool((offsets[1:] - offsets[:-1] >= nbytes).all())
        # Most kernels write one element after the other, where nobody was before.
        fresh = rising and self.accesses is None and int(offsets[0]) >= self.end
        for index in self.indices(offsets, nbytes):
            if self.dirty and not fresh:
                self.check(g, self.writes, index, "writes what", "wrote")
            if self.accesses is not None:
                self.check(g, self.accesses, index, "writes what", "accesses")
            self.writes[index] = tags
            if not rising:
                twice = self.writes[index] != tags
                if twice.any():
                    g.fault(DataRace, "two threads write the same byte in one instruction", twice)
        self.end = max(self.end, int(offsets[-1] if rising else offsets.max()) + nbytes)
        self.dirty = True

    def ranges(self) -> tuple[Ranges, Ranges]:
        """The bytes that were read, or accessed in another way, and those of plain writes."""
        self.enter()
        seen = [x for x in (self.accesses, self.constant) if x is not None]
        read = np.logical_or.reduce([x != 0 for x in seen]) if seen else None
        return self._ranges(read), self._ranges(self.writes)

    def _ranges(self, table: Array | None) -> Ranges:
        at = np.flatnonzero(table) if table is not None else np.zeros(0, np.int64)
        apart = np.flatnonzero(np.diff(at) > 1)
        first, last = np.append(-1, apart)[: len(at)] + 1, np.append(apart, len(at) - 1)[: len(at)]
        return at[first] << self.shift, (at[last] + 1) << self.shift

    # Granules

    def refine(self, nbytes: int) -> None:
        """Makes granules as small as an access."""
        shift = nbytes.bit_length() - 1
        if self.shift < 0:
            self.shift = shift
        elif shift < self.shift:
            times = 1 << (self.shift - shift)
            if self.writes is not None:
                self.writes = np.repeat(self.writes, times)
            if self.accesses is not None:
                self.accesses = np.repeat(self.accesses, times)
            if self.constant is not None:
                self.constant = np.repeat(self.constant, times)
            self.shift = shift

    def indices(self, offsets: Array, nbytes: int) -> list[Array]:
        first = offsets >> self.shift
        count = nbytes >> self.shift
        return [first] if count <= 1 else [first + k for k in range(count)]

    def enter(self) -> None:
        """Enters the accesses that are kept into the tags."""
        pending, self.pending = self.pending, []
        for offsets, nbytes, tags, since in pending:
            self.refine(nbytes)
            if self.accesses is None:
                self.accesses = np.zeros((self.nbytes >> self.shift) + 1, np.int64)
            for index in self.indices(offsets, nbytes):
                self.enter_one(np.broadcast_to(index, tags.shape), tags, since)

    def enter_one(self, index: Array, tags: Array, since: Any) -> None:
        accesses = self.accesses
        assert accesses is not None
        before = accesses[index]
        new = tags
        if before.any():
            new = np.where(self.apart(before, tags, since), self.joined(before, tags), tags)
        accesses[index] = new
        # Several threads of this instruction may access one granule: the last of them is entered.
        # Of tags of one time, that of more threads is the greater number.
        last = accesses[index]
        several = last != new
        if several.any():
            np.maximum.at(accesses, index[several], self.joined(last[several], new[several]))

    def joined(self, before: Array, tags: Array) -> Array:
        """The tags of two accesses by different threads."""
        kind = (before >> _KIND) & 3
        block, mine = self.block_of(before, kind), self.block_of(tags, (tags >> _KIND) & 3)
        time = np.maximum(before, tags) >> _TIME
        one = (block == mine) & (kind != _BLOCKS)
        who = np.where(one, (_ONE_BLOCK << _KIND) | mine, _BLOCKS << _KIND)
        return (time << _TIME) | who

    def block_of(self, tags: Array, kind: Any) -> Array:
        number = tags & _ID
        return np.where(kind == _THREAD, number // self.threads, number)

    def apart(self, before: Array, tags: Array, since: Any) -> Array:
        """Whether what was there before is by others, and no barrier is between."""
        kind = (before >> _KIND) & 3
        other = (before != 0) & ((kind != _THREAD) | ((before ^ tags) & _ID != 0))
        time = before >> _TIME
        same = self.in_block or (
            (kind != _BLOCKS) & (self.block_of(before, kind) == self.block_of(tags, _THREAD))
        )
        result: Array = other & ~(same & (time < since))
        return result

    def check(self, g: Any, table: Array, index: Array, does: str, did: str) -> None:
        before = table[index]
        if not before.any():
            return
        since = g.since()
        if self.in_block and int(before.max()) >> _TIME < np.min(since):
            return
        apart = self.apart(before, g.tags(), since)
        if apart.any():
            apart = np.broadcast_to(apart, (g.count,)) & ~g.ordered(before, apart)
            if apart.any():
                k = int(np.argmax(apart))
                who = self.described(int(np.broadcast_to(before, (g.count,))[k]), g)
                g.fault(DataRace, f"a thread {does} {who} {did}, with no barrier between", apart)

    def described(self, tag: int, g: Any) -> str:
        kind, number = tag >> _KIND & 3, tag & _ID
        if kind == _BLOCKS:
            return "threads of several blocks"
        if kind == _ONE_BLOCK:
            return f"another thread of block {g.batch.launch.block_index(number)}"
        block, thread = divmod(number, self.threads)
        launch = g.batch.launch
        return f"thread {launch.thread_index(thread)} of block {launch.block_index(block)}"
