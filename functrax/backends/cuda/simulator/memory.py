"""A device's memory: allocations with addresses, what is written in them, and what was freed.

Addresses are never used again, and there is a gap after each allocation, so a pointer that is
freed or runs over an end is found.  Each allocation is a NumPy array of its own.
"""

from __future__ import annotations

import bisect
import weakref
from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.errors import MemoryLimitError
from functrax.backends.cuda.simulator.races import RaceShadow
from functrax.backends.cuda.simulator.syntax import Array, DType

#: Allocations begin at multiples of it (CUDA's own granularity), a gap of it lies between them.
ALIGNMENT: Final = 256
#: Where generic addresses of the global space begin; windows of other spaces lie below.
GLOBAL_START: Final = 0x7000_0000_0000
#: How many freed allocations are remembered, to tell a freed one from an address that never was.
_REMEMBERED: Final = 1 << 16


class Region:
    """Bytes that a kernel can access: an allocation, or a batch's shared or local memory.

    Attributes:
      data: the bytes, padded to a multiple of 64.
      size: how many bytes there are.
      written: for each byte whether it was written, or None if all were.
      races: who accessed it in the present launch, or None.
      read_only: whether kernels may only read it.
    """

    __slots__ = (
        "_masks",
        "_views",
        "data",
        "name",
        "races",
        "read_only",
        "size",
        "start",
        "written",
    )

    def __init__(self, size: int, start: int = 0, name: str = "") -> None:
        padded = -(-max(size, 1) // 64) * 64
        self.data: Array = np.zeros(padded, np.uint8)
        self.size, self.start, self.name = size, start, name
        self.written: Array | None = np.zeros(padded, np.uint8)
        self.races: RaceShadow | None = None
        self.read_only = False
        self._views: dict[Any, Array] = {}
        self._masks: dict[Any, Array] = {}

    def view(self, dtype: DType, count: int) -> Array:
        """The bytes as elements, or as rows of ``count`` elements."""
        found = self._views.get((dtype, count))
        if found is None:
            found = self.data.view(dtype)
            if count > 1:
                found = found[: len(found) // count * count].reshape(-1, count)
            self._views[dtype, count] = found
        return found

    def mask(self, nbytes: int) -> Array:
        """``written`` as rows of ``nbytes`` bytes, a power of two up to 64; not if it is None."""
        found = self._masks.get(nbytes)
        if found is None:
            assert self.written is not None
            width = min(nbytes, 8)
            found = self.written.view(f"u{width}")
            if nbytes > width:
                found = found.reshape(-1, nbytes // width)
            self._masks[nbytes] = found
        return found

    def none_written(self, index: Array, nbytes: int) -> None:
        """Says of places, counted in ``nbytes``, that nobody wrote them yet."""
        if self.written is None:
            self.written = np.ones(len(self.data), np.uint8)
        self.mask(nbytes)[index] = 0

    def all_written(self) -> None:
        """Says that all bytes were written."""
        self.written, self._masks = None, {}

    def settle(self) -> None:
        """Forgets what was written if everything was."""
        if self.written is not None and self.written[: self.size].all():
            self.all_written()


class DeviceMemory:
    """The memory of a device.

    Args:
      limit: the bytes that may be allocated at once.
    """

    def __init__(self, limit: int = 1 << 34) -> None:
        self.limit = limit
        self.used = 0
        self._next = GLOBAL_START
        self._starts: list[int] = []
        self._regions: list[Region] = []
        self._freed: list[tuple[int, int]] = []
        #: The addresses of modules' variables, by module and name.
        self.symbols: weakref.WeakKeyDictionary[Any, dict[str, int]] = weakref.WeakKeyDictionary()

    def allocate(self, nbytes: int, name: str = "") -> int:
        """Allocates bytes, which nobody wrote yet; their address."""
        if nbytes < 0:
            raise ValueError(f"an allocation of {nbytes} bytes")
        if self.used + nbytes > self.limit:
            raise MemoryLimitError(
                f"{nbytes} bytes do not fit: {self.used} of {self.limit} bytes are in use"
            )
        address = self._next
        region = Region(nbytes, address, name)
        self._starts.append(address)
        self._regions.append(region)
        self._next += -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        self.used += nbytes
        return address

    def free(self, address: int) -> None:
        """Frees an allocation; one that is none, or is freed already, raises ValueError."""
        k = bisect.bisect_left(self._starts, address)
        if k == len(self._starts) or self._starts[k] != address:
            why = "was freed before" if self.was_freed(address) else "is no allocation's"
            raise ValueError(f"free of {address:#x}, which {why}")
        region = self._regions.pop(k)
        self._starts.pop(k)
        self.used -= region.size
        bisect.insort(self._freed, (address, address + max(region.size, 1)))
        del self._freed[:-_REMEMBERED]

    def region(self, address: int) -> Region | None:
        """The allocation that holds an address, or None."""
        k = bisect.bisect_right(self._starts, address) - 1
        if k < 0:
            return None
        region = self._regions[k]
        return region if address < region.start + region.size else None

    def nearest(self, address: int) -> Region | None:
        """The last allocation that begins at or before an address."""
        k = bisect.bisect_right(self._starts, address) - 1
        return self._regions[k] if k >= 0 else None

    def was_freed(self, address: int) -> bool:
        k = bisect.bisect_right(self._freed, (address, 1 << 63)) - 1
        return k >= 0 and address < self._freed[k][1]

    def _range(self, address: int, nbytes: int) -> tuple[Region, int]:
        region = self.region(address)
        if region is None and nbytes == 0:
            region = self.nearest(address)
        if region is None or address + nbytes > region.start + region.size:
            why = "were freed" if self.was_freed(address) else "are in no allocation"
            raise ValueError(f"{nbytes} bytes at {address:#x} {why}")
        return region, address - region.start

    def read(self, address: int, nbytes: int, *, written: bool = True) -> Array:
        """A copy of bytes.

        Args:
          written: whether bytes that nobody wrote raise ValueError.
        """
        region, at = self._range(address, nbytes)
        if written and region.written is not None and not region.written[at : at + nbytes].all():
            first = int(np.argmin(region.written[at : at + nbytes])) + address
            raise ValueError(f"a read of {nbytes} bytes at {address:#x}: nobody wrote {first:#x}")
        return region.data[at : at + nbytes].copy()

    def write(self, address: int, array: Any) -> None:
        """Writes the bytes of an array."""
        if isinstance(array, (bytes, bytearray, memoryview)):
            array = np.frombuffer(array, np.uint8)
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        region, at = self._range(address, content.size)
        region.data[at : at + content.size] = content
        self._wrote(region, at, content.size)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copies bytes within the device, those that nobody wrote as such."""
        region, at = self._range(source, nbytes)
        into, to = self._range(target, nbytes)
        into.data[to : to + nbytes] = region.data[at : at + nbytes].copy()
        if region.written is None:
            self._wrote(into, to, nbytes)
            return
        if into.written is None:
            into.written = np.ones(len(into.data), np.uint8)
        into.written[to : to + nbytes] = region.written[at : at + nbytes].copy()
        into.settle()

    def _wrote(self, region: Region, at: int, nbytes: int) -> None:
        if region.written is None:
            return
        if nbytes == region.size:
            region.all_written()
        else:
            region.written[at : at + nbytes] = 1
