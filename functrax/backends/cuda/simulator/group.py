"""Threads that run together, and what they ask of memory.

A *batch* is the blocks that run at once; its threads are numbered block by block, and such a number
is a *lane*.  A *group* is the lanes that are at one place of the program.  It has its own list of
slots, so its values are dense, and instructions need no masks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from functrax.backends.cuda.simulator.errors import (
    KernelFault,
    LocalOutOfBounds,
    Misaligned,
    OutOfBounds,
    ReadOnlyWrite,
    SharedOutOfBounds,
    UninitializedRead,
    UseAfterFree,
)
from functrax.backends.cuda.simulator.memory import GLOBAL_START, Region
from functrax.backends.cuda.simulator.syntax import UNSIGNED, Array, DType, Instruction

if TYPE_CHECKING:
    from functrax.backends.cuda.simulator.scheduler import BlockBatch

#: Generic addresses of the other spaces: each has a window below the global space.
WINDOWS: Final = {
    "shared": 0x1000_0000_0000,
    "local": 0x2000_0000_0000,
    "param": 0x3000_0000_0000,
}
_WINDOW_BITS: Final = 44
_ALL_WRITTEN: Final = {1: 1, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


class ThreadGroup:
    """Lanes at one place of the program.

    Attributes:
      lanes: the lanes, in order.
      count: how many they are.
      r: the slots' values.
      at: the instruction that runs, for those that can fail.
      loops: how often it went back in the program.
    """

    __slots__ = ("_tags", "_tags_time", "at", "batch", "count", "lanes", "loops", "r")

    def __init__(self, batch: BlockBatch, lanes: Array, r: list[Any]) -> None:
        self.batch, self.lanes, self.r = batch, lanes, r
        self.count = len(lanes)
        self.loops = 0
        self.at: Instruction
        self._tags: Array | None = None
        self._tags_time = -1

    @property
    def is_full(self) -> bool:
        return self.count == self.batch.count

    @property
    def blocks(self) -> Array:
        """The block of each lane, counted within the batch."""
        x = self.batch.lane_block
        return x if self.is_full else x[self.lanes]

    @property
    def warps(self) -> Array:
        """The warp of each lane, counted within the batch."""
        x = self.batch.lane_warp
        return x if self.is_full else x[self.lanes]

    @property
    def lane_ids(self) -> Array:
        """The place of each lane in its warp."""
        x = self.batch.lane_id
        return x if self.is_full else x[self.lanes]

    def part(self, index: Array, live: tuple[int, ...] = ()) -> ThreadGroup:
        """Some of the lanes, with the slots that are live."""
        values, r = self.r, self.batch.initial.copy()
        for slot in live:
            x = values[slot]
            r[slot] = x if x is None or len(x) == 1 else x[index]
        part = ThreadGroup(self.batch, self.lanes[index], r)
        part.loops = self.loops
        if hasattr(self, "at"):
            part.at = self.at
        return part

    # Times of the race detector

    def tags(self) -> Array:
        """Who accesses now (``races.py``)."""
        batch = self.batch
        if self._tags is None or self._tags_time != batch.launch.now:
            threads = batch.lane_tag if self.is_full else batch.lane_tag[self.lanes]
            self._tags = threads | (batch.launch.now << 32)
            self._tags_time = batch.launch.now
        return self._tags

    def since(self) -> Any:
        """The time of the last barrier of each lane's block."""
        batch = self.batch
        return batch.since_all if batch.since_all is not None else batch.since[self.blocks]

    def ordered(self, before: Array, apart: Array) -> Array:
        """Whether warp barriers or fences order earlier accesses before those of now."""
        return self.batch.ordered(self, np.broadcast_to(before, apart.shape))

    # Faults

    def fault(self, error: type[KernelFault], message: str, mask: Any, address: Any = None) -> None:
        """Raises a fault of the first lane of a mask."""
        k = int(np.argmax(np.broadcast_to(mask, (self.count,))))
        place = None if address is None else int(np.broadcast_to(address, (self.count,))[k])
        lane = int(self.lanes[k])
        raise self.batch.launch.fault(error, message, self.at, self.batch, lane, place)

    # Memory

    def resolve(
        self, space: str, address: Array, nbytes: int
    ) -> list[tuple[Array | None, Region, Array]]:
        """Where addresses lie: which lanes (None: all), in which region, at which bytes."""
        if nbytes > 1 and int(np.bitwise_or.reduce(address)) & (nbytes - 1):
            wrong = (address & (nbytes - 1)) != 0
            message = f"an access of {nbytes} bytes at an address that is no multiple of {nbytes}"
            self.fault(Misaligned, message, wrong, address)
        low, high = int(address.min()), int(address.max())
        if space == "global":
            region = self.batch.memory.region(low)
            if region is not None and high + nbytes <= region.start + region.size:
                return [(None, region, address - region.start)]
            return self.several_regions(address, nbytes)
        if space == "generic":
            return self.generic(address, nbytes, low, high)
        return [(None, *self.window(space, address, nbytes, low, high))]

    def generic(
        self, address: Array, nbytes: int, low: int, high: int
    ) -> list[tuple[Array | None, Region, Array]]:
        if low >= GLOBAL_START:
            return self.resolve("global", address, nbytes)
        for space, base in WINDOWS.items():
            if low >> _WINDOW_BITS == high >> _WINDOW_BITS == base >> _WINDOW_BITS:
                return self.resolve(space, address - base, nbytes)
        found: list[tuple[Array | None, Region, Array]] = []
        every = np.broadcast_to(address, (self.count,))
        windows = np.minimum(every >> _WINDOW_BITS, GLOBAL_START >> _WINDOW_BITS)
        spaces = {base >> _WINDOW_BITS: space for space, base in WINDOWS.items()}
        for window in np.unique(windows).tolist():
            index = np.flatnonzero(windows == window)
            space = spaces.get(window, "global")
            inner = every[index] - WINDOWS.get(space, 0)
            for select, region, offsets in self.part(index).resolve(space, inner, nbytes):
                found.append((index if select is None else index[select], region, offsets))
        return found

    def several_regions(
        self, address: Array, nbytes: int
    ) -> list[tuple[Array | None, Region, Array]]:
        """Accesses of one instruction to several allocations, or outside of any."""
        memory, found = self.batch.memory, []
        address = np.broadcast_to(address, (self.count,))
        left = np.ones(self.count, np.bool_)
        while left.any():
            k = int(np.argmax(left))
            place = int(address[k])
            region = memory.region(place)
            only = np.zeros(self.count, np.bool_)
            only[k] = True
            if region is None:
                if memory.was_freed(place):
                    self.fault(UseAfterFree, "an access to memory that was freed", only, address)
                self.fault(OutOfBounds, _distance(memory.nearest(place), place), only, address)
                raise AssertionError
            end = region.start + region.size
            inside = left & (address >= region.start) & (address < end)
            over = inside & (address + nbytes > end)
            if over.any():
                message = f"an access of {nbytes} bytes over the end of {_named(region)}"
                self.fault(OutOfBounds, message, over, address)
            index = np.flatnonzero(inside)
            found.append((index, region, address[index] - region.start))
            left &= ~inside
        return [*found]

    def window(
        self, space: str, address: Array, nbytes: int, low: int, high: int
    ) -> tuple[Region, Array]:
        """Shared, local and parameter memory, whose addresses begin at 0."""
        batch = self.batch
        region, size, stride, gaps = batch.windows[space]
        if low < 0 or high + nbytes > size:
            wrong = (address < 0) | (address + nbytes > size)
            error = {"shared": SharedOutOfBounds, "local": LocalOutOfBounds}.get(space, OutOfBounds)
            message = f"an access of {nbytes} bytes outside of the {size} bytes of {space} memory"
            self.fault(error, message, wrong, address)
        if gaps is not None and gaps[low : high + nbytes].any():
            wrong = gaps[address] | gaps[address + nbytes - 1]
            if wrong.any():
                message = f"an access of {nbytes} bytes to {space} memory between two variables"
                self.fault(SharedOutOfBounds, message, wrong, address)
        if stride == 0:
            return region, address
        if space == "local":
            return region, address + self.lanes * stride
        return region, address if batch.blocks_count == 1 else address + self.blocks * stride

    def load(
        self, space: str, address: Array, dtype: DType, count: int, *, constant: bool = False
    ) -> list[Array]:
        """Loads ``count`` elements at each address.

        Args:
          constant: whether the program promises that nobody writes there (``.nc``).
        """
        if address.dtype != np.int64:
            address = address.astype(np.int64)
        nbytes = dtype.itemsize * count
        parts = self.resolve(space, address, nbytes)
        if len(parts) == 1 and parts[0][0] is None:
            return self.load_part(parts[0][1], parts[0][2], dtype, count, nbytes, constant)
        results = [np.empty(self.count, dtype) for _ in range(count)]
        for index, region, offsets in parts:
            assert index is not None
            group = self.part(index)
            values = group.load_part(region, offsets, dtype, count, nbytes, constant)
            for result, value in zip(results, values):
                result[index] = value
        return results

    def load_part(
        self, region: Region, offsets: Array, dtype: DType, count: int, nbytes: int, constant: bool
    ) -> list[Array]:
        launch = self.batch.launch
        launch.statistics.bytes_read += nbytes * self.count
        index = offsets >> (nbytes.bit_length() - 1)
        if launch.checks:
            if region.written is not None:
                full = region.mask(nbytes).take(index, axis=0) == _ALL_WRITTEN[min(nbytes, 8)]
                if not full.all():
                    wrong = ~full if full.ndim == 1 else ~full.all(axis=1)
                    message = f"a read of {nbytes} bytes of {_named(region)} that nobody wrote"
                    self.fault(UninitializedRead, message, wrong, offsets + region.start)
            races = launch.shadow(region)
            if races is not None:
                (races.read_constant if constant else races.read)(self, offsets, nbytes)
        values = region.view(dtype, count).take(index, axis=0)
        if count == 1:
            return [values]
        return list(np.ascontiguousarray(values.T))

    def store(
        self,
        space: str,
        address: Array,
        values: list[Array],
        dtype: DType,
        *,
        plain: bool = True,
    ) -> None:
        """Stores an element of each array, one after the other, at each address."""
        if address.dtype != np.int64:
            address = address.astype(np.int64)
        nbytes = dtype.itemsize * len(values)
        for index, region, offsets in self.resolve(space, address, nbytes):
            group = self if index is None else self.part(index)
            cut = [x if index is None or len(x) == 1 else x[index] for x in values]
            group.store_part(region, offsets, cut, dtype, nbytes, plain)

    def store_part(
        self,
        region: Region,
        offsets: Array,
        values: list[Array],
        dtype: DType,
        nbytes: int,
        plain: bool,
    ) -> None:
        launch = self.batch.launch
        launch.statistics.bytes_written += nbytes * self.count
        if region.read_only:
            message = f"a write to {_named(region)}, which kernels only read"
            self.fault(ReadOnlyWrite, message, True, offsets + region.start)
        if len(offsets) != self.count:
            offsets = np.broadcast_to(offsets, (self.count,))
        index = offsets >> (nbytes.bit_length() - 1)
        if launch.checks:
            races = launch.shadow(region)
            if races is not None:
                (races.write if plain else races.read)(self, offsets, nbytes)
        if region.written is not None:
            region.mask(nbytes)[index] = _ALL_WRITTEN[min(nbytes, 8)]
        view = region.view(dtype, len(values))
        if len(values) == 1:
            view[index] = values[0] if values[0].dtype is dtype else values[0].view(dtype)
        else:
            for k, value in enumerate(values):
                view[:, k][index] = value if value.dtype is dtype else value.view(dtype)

    def atomic_places(
        self, space: str, address: Array, nbytes: int
    ) -> list[tuple[Array | None, Region, Array]]:
        """Where an atomic operation is, after the checks of reading and writing there."""
        if address.dtype != np.int64:
            address = address.astype(np.int64)
        launch, places = self.batch.launch, []
        for index, region, offsets in self.resolve(space, address, nbytes):
            group = self if index is None else self.part(index)
            if region.read_only:
                group.fault(ReadOnlyWrite, f"an atomic on {_named(region)}", True, offsets)
            offsets = np.broadcast_to(offsets, (group.count,))
            if launch.checks:
                place = offsets >> (nbytes.bit_length() - 1)
                if region.written is not None:
                    wrong = region.mask(nbytes)[place] != _ALL_WRITTEN[nbytes]
                    if wrong.any():
                        message = f"an atomic on bytes of {_named(region)} that nobody wrote"
                        group.fault(UninitializedRead, message, wrong, offsets + region.start)
                races = launch.shadow(region)
                if races is not None:
                    races.read(group, offsets, nbytes)
            places.append((index, region, offsets))
        return places


def _named(region: Region) -> str:
    if region.start < GLOBAL_START:
        return region.name
    name = f" {region.name!r}" if region.name else ""
    return f"the allocation{name} of {region.size} bytes at {region.start:#x}"


def _distance(region: Region | None, address: int) -> str:
    """The message for an address that is in no allocation."""
    if region is None:
        return "an access outside of every allocation"
    over = address - region.start - region.size
    return f"an access {over} bytes past the end of {_named(region)}"


def bits_of(x: Array) -> Array:
    """An array's bits as unsigned integers; predicates stay as they are."""
    return x if x.dtype == np.bool_ else x.view(UNSIGNED[x.dtype.itemsize])


def merge(groups: list[ThreadGroup], live: tuple[int, ...]) -> ThreadGroup:
    """One group of the lanes of several."""
    if len(groups) == 1:
        return groups[0]
    batch = groups[0].batch
    count = sum(g.count for g in groups)
    lanes, places = batch.lanes, [g.lanes for g in groups]
    if count < batch.count:
        present = np.zeros(batch.count, np.bool_)
        for g in groups:
            present[g.lanes] = True
        lanes = np.flatnonzero(present)
        rank = np.cumsum(present) - 1
        places = [rank[x] for x in places]
    r = batch.initial.copy()
    for slot in live:
        values = [g.r[slot] for g in groups]
        known = [bits_of(x) for x in values if x is not None]
        if not known:
            continue
        first = known[0]
        if len(known) == len(values) and all(len(x) == 1 and x[0] == first[0] for x in known):
            r[slot] = first
            continue
        whole = np.zeros(count, first.dtype)
        for x, place in zip(values, places):
            if x is not None:
                whole[place] = bits_of(x)
        r[slot] = whole
    merged = ThreadGroup(batch, lanes, r)
    merged.loops = max(g.loops for g in groups)
    return merged
