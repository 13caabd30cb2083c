"""Memory that is kept and used again: the Python twin of ``backends/native/pool.cpp``.

A number of bytes enters, a :class:`Block` of at least as many leaves, aligned to 64 bytes.  When
nothing refers to a block any more its memory goes to the pool at once, which gives it to the next
one who asks for that size class; a program in its steady state asks the system for nothing.

Sizes come in eight steps per power of two.  What is cached never exceeds the limit, at first half
of the memory of the machine or the container; what is over it goes back to the system.  More than
a container may have is refused, for the system would end the process when the memory is written.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from functrax.core.process import cgroups
from functrax.core.process.locks import new_rlock

ALIGNMENT: Final = 64
_ANY: Final = 1 << 62  # bytes


def default_limits() -> tuple[int, int]:
    """The most bytes that are cached, and that there may be in all."""
    return cgroups.memory() // 2, cgroups.limits().memory_and_swap or _ANY


class PoolStats(NamedTuple):
    """What a pool holds and has done.

    Args:
      in_use: bytes in blocks that are alive.
      cached: bytes that wait to be used again.
      peak: the most bytes that were in use at one time.
      allocations: how often the system was asked for memory.
      hits: how often it was not.
    """

    in_use: int
    cached: int
    peak: int
    allocations: int
    hits: int


def size_class(nbytes: int) -> int:
    """The size that is given to one who asks for ``nbytes``.

    >>> size_class(1), size_class(1000), size_class(1025), size_class(5 << 20) >> 20
    (64, 1024, 1152, 5)
    """
    step = max(ALIGNMENT, 1 << max((max(nbytes, 1) - 1).bit_length() - 4, 0))
    return max(-(-nbytes // step), 1) * step


class Block:
    """Memory of a pool, given back when the last reference to it goes."""

    __slots__ = ("_memory", "_pool", "address", "size")

    def __init__(self, pool: Pool, memory: np.ndarray[Any, Any], size: int) -> None:
        self._pool = pool
        self._memory = memory
        self.size = size
        self.address = -(-memory.ctypes.data // ALIGNMENT) * ALIGNMENT

    def __del__(self) -> None:
        self._pool.give_back(self._memory, self.size)


class Pool:
    """A caching allocator; any thread may use it.

    Args:
      limit: the most bytes that are cached.
      most: the most bytes that there may be, in use and cached.
    """

    def __init__(self, limit: int, most: int = _ANY) -> None:
        self._lock = new_rlock()
        self._free: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._in_use = self._cached = self._peak = self._allocations = self._hits = 0
        self._limit = limit
        self._most = most

    def allocate(self, nbytes: int) -> Block:
        """A block of at least ``nbytes`` bytes, with any content.

        Raises:
          MemoryError: if there is no more memory.
        """
        size = size_class(nbytes)
        with self._lock:
            waiting = self._free.get(size)
            if not waiting:
                self._make_room(size)
            if waiting:
                memory = waiting.pop()
                self._hits += 1
                self._cached -= size
            else:
                memory = np.empty(size + ALIGNMENT, np.uint8)
                self._allocations += 1
            self._in_use += size
            self._peak = max(self._peak, self._in_use)
        return Block(self, memory, size)

    def _make_room(self, size: int) -> None:
        """Let memory go that waits, where that and a new block would be too much."""
        room = self._most - self._in_use - size
        if room < 0:
            raise MemoryError(f"{size} bytes: {self._in_use} of {self._most} are in use")
        if self._cached > room:
            self.trim(room)

    def give_back(self, memory: np.ndarray[Any, Any], size: int) -> None:
        """Keep the memory of a block that died, or return it to the system."""
        with self._lock:
            self._in_use -= size
            if self._cached + size <= self._limit:
                self._cached += size
                self._free.setdefault(size, []).append(memory)

    def stats(self) -> PoolStats:
        """What the pool holds and has done."""
        with self._lock:
            return PoolStats(self._in_use, self._cached, self._peak, self._allocations, self._hits)

    def reset_peak(self) -> None:
        """Let the peak begin anew with what is in use."""
        with self._lock:
            self._peak = self._in_use

    def trim(self, keep: int = 0) -> None:
        """Return cached memory to the system, the largest first, down to ``keep`` bytes."""
        with self._lock:
            for size in sorted(self._free, reverse=True):
                while self._free[size] and self._cached > keep:
                    self._free[size].pop()
                    self._cached -= size

    def limit(self, nbytes: int | None = None) -> int:
        """The most bytes that are cached; set to ``nbytes`` if that is given."""
        if nbytes is not None:
            self._limit = nbytes
            self.trim(nbytes)
        return self._limit

    def most(self, nbytes: int | None = None) -> int:
        """The most bytes that there may be; set to ``nbytes`` if that is given."""
        if nbytes is not None:
            self._most = nbytes
        return self._most


pool: Final = Pool(*default_limits())
