"""Runs a batch of blocks: which group of lanes goes next, and how lanes wait for each other.

The group at the lowest place of the program goes first, and groups that meet become one, so lanes
that part at a branch meet again where its ways join.  Before instructions of a warp (shuffles,
votes) lanes wait for those that the mask names, as on Volta and later; at barriers for the block.
If nobody can go on, the wait is in vain, which is a fault.  A group that loops while others are
ready gives way after some rounds: it may wait for what they do.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from functrax.backends.cuda.simulator.decode import BarrierOp
from functrax.backends.cuda.simulator.errors import (
    DivergentBarrier,
    DivergentWarp,
    EndlessLoop,
    Trap,
)
from functrax.backends.cuda.simulator.flow import BasicBlock
from functrax.backends.cuda.simulator.group import ThreadGroup, merge
from functrax.backends.cuda.simulator.memory import DeviceMemory, Region
from functrax.backends.cuda.simulator.syntax import Array

if TYPE_CHECKING:
    from functrax.backends.cuda.simulator.launch import KernelLaunch

#: How often a group goes back in the program before it gives way to others.
_ROUNDS: Final = 1000
_FULL_WARP: Final = 0xFFFFFFFF


@dataclass
class Waiting:
    """Lanes that arrived at a barrier."""

    group: ThreadGroup
    place: int
    barrier: BarrierOp
    number: int
    #: How many threads it waits for; None for all.
    expected: int | None
    #: Whether the lanes went on, as after ``barrier.arrive``.
    gone: bool = False


class LaneSet(NamedTuple):
    """Of each lane of a batch its number, block, warp, thread, place in the warp and bit there.

    ``live`` holds the lanes of each warp, as bits.
    """

    number: Array
    block: Array
    warp: Array
    thread: Array
    id: Array
    bit: Array
    live: Array


@functools.lru_cache(maxsize=32)
def lanes_of(threads: int, blocks: int) -> LaneSet:
    """The lanes of a batch, which nobody may change."""
    warps = -(-threads // 32)
    thread = np.tile(np.arange(threads), blocks)
    block = np.repeat(np.arange(blocks), threads)
    place = (thread & 31).astype(np.uint32)
    warp = block * warps + (thread >> 5)
    bit = np.uint32(1) << place
    live = _masks(warp, bit, blocks * warps)
    return LaneSet(np.arange(threads * blocks), block, warp, thread, place, bit, live)


def _masks(warps: Array, bits: Array, count: int) -> Array:
    # Sums of different powers of two below 2**32 are exact in float64.
    return np.bincount(warps, weights=bits, minlength=count).astype(np.uint32)


class BlockBatch:
    """Blocks that run at once.

    Attributes:
      numbers: the blocks' numbers in the grid.
      count: how many lanes there are.
      lane_block, lane_warp, lane_id: of each lane its block and warp, counted within the batch, and
        its place in the warp.
      lane_tag: who a lane is for the race detector.
      initial: the slots before the first instruction.
      windows: of shared, local and parameter memory the region, the bytes, from one block or lane
        to the next, and which bytes lie between variables (None: no two variables).
      live: of each warp the lanes that did not exit, as bits.
      since, since_all: the time of each block's last barrier; of all, if it is the same.
    """

    def __init__(self, launch: KernelLaunch, numbers: Array) -> None:
        self.launch, self.numbers = launch, numbers
        self.memory: DeviceMemory = launch.memory
        self.blocks_count = len(numbers)
        threads = launch.threads
        self.count = threads * len(numbers)
        self.warps_count = -(-threads // 32)
        lanes = lanes_of(threads, len(numbers))
        self.lanes, self.lane_block, self.lane_warp = lanes.number, lanes.block, lanes.warp
        self.lane_thread, self.lane_id, self.lane_bit = lanes.thread, lanes.id, lanes.bit
        self.lane_tag = np.repeat(numbers * threads | (1 << 30), threads) + lanes.thread
        self.live = lanes.live
        self.alive = np.full(len(numbers), threads)
        self.since = np.full(len(numbers), launch.now)
        self.since_all: int | None = launch.now
        self.warp_since: Array | None = None
        self.windows = launch.windows(self)
        self.initial = launch.initial(self)
        self.blocks: list[BasicBlock] = launch.code.blocks
        self.ready: dict[int, list[ThreadGroup]] = {}
        self.aside: list[tuple[int, ThreadGroup]] = []
        self.parked: dict[int, list[ThreadGroup]] = {}
        self.waiting: list[Waiting] = []
        #: Copies that ``cp.async`` began, and how many groups of them each lane closed.
        self.copies: list[Any] = []
        self.copy_groups: Array | None = None

    def masks(self, warps: Array, bits: Array) -> Array:
        """Of each warp the given lanes, as bits."""
        return _masks(warps, bits, self.blocks_count * self.warps_count)

    # The loop

    def run(self) -> None:
        g: ThreadGroup | None = ThreadGroup(self, self.lanes, self.initial.copy())
        index = 0
        launch, blocks = self.launch, self.blocks
        statistics = launch.statistics
        while True:
            if g is None or self.ready:
                chosen = self.choose(g, index)
                if chosen is None:
                    return
                g, index = chosen
            block = blocks[index]
            if block.wait is not None:
                chosen = self.wait(g, block)
                if chosen is None:
                    g = None
                    continue
                g, index = chosen
                if block.wait.kind == "barrier":
                    continue
            launch.steps -= 1
            if launch.steps < 0:
                g.at = block.first
                g.fault(EndlessLoop, f"more than {launch.step_limit} steps", True)
            statistics.steps += 1
            statistics.instructions += block.count * g.count
            r = g.r
            for run in block.runs:
                run(r, g)
            end = block.end
            if end is None:
                index += 1
            elif end.kind == "branch":
                g, index = self.branch(g, block)
            elif end.kind == "exit":
                self.leave(g)
                g = None
            elif end.kind == "switch":
                self.switch(g, block)
                g = None
            else:
                g.at = block.last
                g.fault(Trap, "the kernel trapped", True)

    def push(self, index: int, g: ThreadGroup) -> None:
        self.ready.setdefault(index, []).append(g)

    def choose(self, g: ThreadGroup | None, index: int) -> tuple[ThreadGroup, int] | None:
        """The group that goes next, and where; None at the end."""
        if g is not None:
            self.push(index, g)
        elif not self.ready and not self.unblock():
            return None
        lowest = min(self.ready)
        groups = self.ready.pop(lowest)
        return merge(groups, self.blocks[lowest].live), lowest

    def unblock(self) -> bool:
        """Lets lanes go on that waited, when nobody else can; False at the end of all."""
        for index, g in self.aside:
            self.push(index, g)
        self.aside.clear()
        if not self.ready and self.waiting:
            self.release()
        if not self.ready:
            for index in list(self.parked):
                group = merge(self.parked.pop(index), self.blocks[index].live)
                free = self.converged(group, self.blocks[index])
                if free is not None:
                    self.resume(index, free)
        if not self.ready and (self.waiting or self.parked):
            self.deadlock()
        return bool(self.ready)

    def resume(self, index: int, g: ThreadGroup) -> None:
        """Runs the first instruction of a block, for which all are there."""
        g.r[self.launch.code.passed] = _PASSED
        self.push(index, g)

    # Branches and exits

    def branch(self, g: ThreadGroup, block: BasicBlock) -> tuple[ThreadGroup | None, int]:
        end = block.end
        assert end is not None
        target = block.targets[0]
        if end.slot < 0:
            return self.went(g, block, target)
        predicate = g.r[end.slot]
        if len(predicate) == 1:
            taken = bool(predicate[0]) != end.negated
            return self.went(g, block, target if taken else block.index + 1)
        if end.negated:
            predicate = ~predicate
        taken_count = int(np.count_nonzero(predicate))
        if taken_count == g.count:
            return self.went(g, block, target)
        if taken_count == 0:
            return g, block.index + 1
        self.launch.statistics.divergent_branches += 1
        away = g.part(np.flatnonzero(predicate), self.blocks[target].live)
        stay = g.part(np.flatnonzero(~predicate), self.blocks[block.index + 1].live)
        self.push(block.index + 1, stay)
        gone, index = self.went(away, block, target)
        if gone is not None:
            self.push(index, gone)
        return None, 0

    def went(
        self, g: ThreadGroup, block: BasicBlock, target: int
    ) -> tuple[ThreadGroup | None, int]:
        """Where a group goes on after a branch; one that looped for long gives way."""
        if target <= block.index:
            g.loops += 1
            if g.loops % _ROUNDS == 0:
                if self.waiting:
                    self.release()
                if self.ready:
                    for index, other in self.aside:
                        self.push(index, other)
                    self.aside = [(target, g)]
                    return None, 0
        return g, target

    def switch(self, g: ThreadGroup, block: BasicBlock) -> None:
        """PTX ISA 9.7.12, Control Flow Instructions: brx.idx."""
        end = block.end
        assert end is not None
        index = np.broadcast_to(g.r[end.slot], (g.count,)).view(np.uint32)
        if int(index.max()) >= len(block.targets):
            g.at = block.last
            g.fault(Trap, "an index past the end of the targets", index >= len(block.targets))
        for k in np.unique(index).tolist():
            target = block.targets[k]
            self.push(target, g.part(np.flatnonzero(index == k), self.blocks[target].live))

    def leave(self, g: ThreadGroup) -> None:
        """Lanes exit."""
        if g.is_full:
            return
        self.live = self.live & ~self.masks(g.warps, self.lane_bit[g.lanes])
        self.alive = self.alive - np.bincount(g.blocks, minlength=self.blocks_count)

    # Waiting

    def wait(self, g: ThreadGroup, block: BasicBlock) -> tuple[ThreadGroup, int] | None:
        """A group comes to a place where lanes wait; who goes on, and where."""
        control = block.wait
        assert control is not None
        if control.barrier is not None:
            return self.arrive(g, block, control.barrier)
        passed = self.launch.code.passed
        if g.r[passed] is not None:
            g.r[passed] = None
            return g, block.index
        here = self.parked.pop(block.index, [])
        group = merge([*here, g], block.live)
        free = self.converged(group, block)
        return None if free is None else (free, block.index)

    def converged(self, g: ThreadGroup, block: BasicBlock) -> ThreadGroup | None:
        """The lanes whose partners are all there; the others are parked."""
        control = block.wait
        assert control is not None
        if control.slot < 0:
            named: Any = self.live[g.warps]
        else:
            named = g.r[control.slot]
            named = named if named.dtype == np.uint32 else named.view(np.uint32)
        if g.is_full and self.launch.full_warps and len(named) == 1 and int(named[0]) == _FULL_WARP:
            return g
        g.at = block.first
        bits = self.lane_bit[g.lanes]
        unnamed = (named & bits) == 0
        if unnamed.any():
            message = "a thread takes part that the mask does not name"
            g.fault(DivergentWarp, message, unnamed)
        warps = g.warps
        active = self.masks(warps, bits)
        missing = (named & self.live[warps] & ~active[warps]) != 0
        if not missing.any():
            return g
        held = np.bincount(warps[missing], minlength=len(active)) > 0
        wait = held[warps]
        self.parked[block.index] = [g.part(np.flatnonzero(wait), block.live)]
        if wait.all():
            return None
        return g.part(np.flatnonzero(~wait), block.live)

    def arrive(
        self, g: ThreadGroup, block: BasicBlock, barrier: BarrierOp
    ) -> tuple[ThreadGroup, int] | None:
        g.at = block.first
        for run in block.runs:
            run(g.r, g)
        numbers = g.r[barrier.number].view(np.uint32)
        counts = None if barrier.threads < 0 else g.r[barrier.threads].view(np.uint32)
        self.launch.statistics.barriers += 1
        for x in (numbers, counts):
            if x is not None and len(x) > 1 and (x != x[0]).any():
                g.fault(DivergentBarrier, "threads of a warp name different barriers", x != x[0])
        expected = None if counts is None else int(counts[0])
        whole = expected is None or expected == self.launch.threads
        if whole and g.count == self.alive.sum() and not self.waiting and barrier.kind == "sync":
            self.synchronize(None)
            return g, block.index + 1
        entry = Waiting(g, block.index, barrier, int(numbers[0]), expected)
        self.waiting.append(entry)
        if barrier.kind == "arrive":
            entry.gone = True
            self.push(block.index + 1, g)
        self.release()
        return None

    def release(self) -> None:
        """Lets the blocks go on whose threads all arrived at a barrier."""
        for number in sorted({w.number for w in self.waiting}):
            entries = [w for w in self.waiting if w.number == number]
            arrived = np.zeros(self.blocks_count, np.int64)
            expected = self.alive.copy()
            for w in entries:
                arrived += np.bincount(w.group.blocks, minlength=self.blocks_count)
                if w.expected is not None:
                    expected = np.full_like(expected, w.expected)
            complete = (arrived > 0) & (arrived >= expected)
            if complete.any():
                self.complete(entries, complete)

    def complete(self, entries: list[Waiting], complete: Array) -> None:
        finished: dict[int, list[ThreadGroup]] = {}
        barriers: dict[int, BarrierOp] = {}
        for w in entries:
            leaves = complete[w.group.blocks]
            if not leaves.any():
                continue
            live = self.blocks[w.place + 1].live
            barrier = w.barrier
            live = (*live, barrier.source) if barrier.source >= 0 else live
            going = w.group.part(np.flatnonzero(leaves), live)
            going.at = w.group.at
            if w.expected is None and any(
                k != w.place and np.isin(np.unique(going.blocks), x[0].blocks).any()
                for k, x in finished.items()
            ):
                message = f"threads of a block wait at different barriers (line {w.group.at.line})"
                going.fault(DivergentBarrier, message, True)
            if not w.gone:
                finished.setdefault(w.place, []).append(going)
                barriers[w.place] = barrier
            w.group = w.group.part(np.flatnonzero(~leaves), live)
        self.waiting = [w for w in self.waiting if w.group.count]
        self.synchronize(complete)
        for place, groups in finished.items():
            barrier = barriers[place]
            live = self.blocks[place + 1].live
            live = (*live, barrier.source) if barrier.source >= 0 else live
            g = merge(groups, live)
            if barrier.target >= 0:
                g.r[barrier.target] = self.reduced(g, barrier)
            self.push(place + 1, g)

    def reduced(self, g: ThreadGroup, barrier: BarrierOp) -> Array:
        """PTX ISA 9.7.13: barrier.red, over the threads of each block."""
        predicate = np.broadcast_to(g.r[barrier.source], (g.count,))
        blocks = g.blocks
        count = np.bincount(blocks, weights=predicate, minlength=self.blocks_count)[blocks]
        if barrier.kind == "popc":
            return count.astype(np.uint32)
        if barrier.kind == "or":
            return count > 0
        result: Array = count == np.bincount(blocks, minlength=self.blocks_count)[blocks]
        return result

    def synchronize(self, blocks: Array | None) -> None:
        """A barrier of some blocks, or of all, is a new time for the race detector."""
        launch = self.launch
        launch.now += 1
        if blocks is None or blocks.all():
            self.since = np.full(self.blocks_count, launch.now)
            self.since_all = launch.now
            shared: Region = self.windows["shared"][0]
            shared.settle()
            if shared.races is not None:
                shared.races.synchronized()
        else:
            self.since = np.where(blocks, launch.now, self.since)
            self.since_all = None

    def deadlock(self) -> None:
        """Nobody can go on."""
        for index, groups in self.parked.items():
            g = merge(groups, self.blocks[index].live)
            g.at = self.blocks[index].first
            message = "threads wait for others that the mask names and that do not come here"
            g.fault(DivergentWarp, message, True)
        w = self.waiting[0]
        blocks = w.group.blocks
        arrived = int(np.count_nonzero(blocks == blocks[0]))
        expected = self.alive[blocks[0]] if w.expected is None else w.expected
        message = f"{arrived} of {expected} threads of a block reach a barrier, the others do not"
        w.group.fault(DivergentBarrier, message, True)

    # Order without barriers of blocks

    def synchronize_warps(self, g: ThreadGroup) -> None:
        """PTX ISA 9.7.13: bar.warp.sync orders accesses of the lanes of a warp."""
        self.launch.now += 1
        if self.warp_since is None:
            self.warp_since = np.zeros(self.blocks_count * self.warps_count, np.int64)
        self.warp_since[g.warps] = self.launch.now

    def ordered(self, g: ThreadGroup, before: Array) -> Array:
        time, kind, number = before >> 32, before >> 30 & 3, before & ((1 << 30) - 1)
        threads = self.launch.threads
        result = np.zeros(len(before), np.bool_)
        block, thread = np.divmod(number, threads)
        if self.warp_since is not None:
            same = (self.numbers[g.blocks] == block) & (kind == 1)
            same &= thread >> 5 == (self.lane_thread[g.lanes] >> 5)
            result |= same & (time < self.warp_since[g.warps])
        fences = self.launch.fences
        if fences is not None:
            block = np.where(kind == 1, block, number)
            mine = self.numbers[g.blocks]
            known = (kind < 3) & (block < len(fences))
            theirs = fences[np.where(known, block, 0)]
            result |= known & (theirs > time) & ((fences[mine] > theirs) | (block == mine))
        return result


_PASSED: Final = np.array([True])
