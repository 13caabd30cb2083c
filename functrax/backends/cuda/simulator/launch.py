"""Launches: a kernel's blocks, in batches of as many as fit the processor's cache.

``launch`` checks what a driver checks, makes the batches, and runs each (``scheduler.py``).  The
threads of a batch run as one NumPy array as long as they go the same way, whatever their block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.errors import KernelFault, LaunchError
from functrax.backends.cuda.simulator.memory import GLOBAL_START, DeviceMemory, Region
from functrax.backends.cuda.simulator.module import PtxKernel
from functrax.backends.cuda.simulator.races import RaceShadow, Ranges
from functrax.backends.cuda.simulator.scheduler import BlockBatch
from functrax.backends.cuda.simulator.syntax import Array, Instruction

#: Limits of all compute capabilities since 3.0 (CUDA C++ Programming Guide, 20.2).
_MOST_THREADS: Final = 1024
_MOST_BLOCK: Final = (1024, 1024, 64)
_MOST_GRID: Final = ((1 << 31) - 1, 65535, 65535)
#: What a block may ask for on the largest chips, 227 KiB.
_MOST_SHARED: Final = 232448
#: Lanes of a batch: a register of 8 bytes takes 64 KiB, so some stay in a core's cache.
_LANES: Final = 1 << 13
#: Bytes of shared and local memory of a batch.
_BATCH_BYTES: Final = 1 << 26


@dataclass
class Statistics:
    """What a launch did.

    Attributes:
      instructions: instructions, counted for each thread.
      steps: how often the interpreter ran a basic block, for however many threads.
      bytes_read, bytes_written: by loads and stores of all state spaces.
      barriers: how often a group of threads came to a barrier.
      divergent_branches: branches at which a group parted.
      read, written: where the allocations begin that were only read, and that were written.
      ranges: of each of these the bytes that were read and those that were written, from where it
        begins, if that was asked for.
      conditions: what ``cudaGraphSetConditional`` gave to handles.
    """

    instructions: int = 0
    steps: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    barriers: int = 0
    atomics: int = 0
    divergent_branches: int = 0
    read: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    ranges: dict[int, tuple[Ranges, Ranges]] = field(default_factory=dict)
    conditions: dict[int, int] = field(default_factory=dict)


class KernelLaunch:
    """A launch while it runs.

    Attributes:
      now: the time of the race detector.
      fences: the time of each block's last fence, or None.
      steps: how many more steps it may take.
      full_warps: whether blocks are whole warps.
    """

    def __init__(
        self,
        kernel: PtxKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        memory: DeviceMemory,
        dynamic: int,
        seed: int,
        checks: bool,
        step_limit: int,
        exact: bool,
    ) -> None:
        self.kernel, self.code, self.memory = kernel, kernel.code, memory
        self.grid, self.block, self.seed, self.checks = grid, block, seed, checks
        self.exact = exact
        self.threads, self.blocks = math.prod(block), math.prod(grid)
        self.dynamic = dynamic
        self.statistics = Statistics()
        self.step_limit = self.steps = step_limit
        self.now = 1
        self.fences: Array | None = None
        self.random = np.random.default_rng(seed) if seed else None
        self.touched: list[Region] = []
        self.params = Region(max(kernel.param_bytes, 1), name="the parameters")
        self.params.read_only = True
        self.params.all_written()
        self.full_warps = self.threads % 32 == 0

    def run(self) -> None:
        code, per_block = self.code, self.threads
        most = max(1, _LANES // per_block)
        room = self.shared_bytes + self.threads * code.local_bytes
        if room:
            most = max(1, min(most, _BATCH_BYTES // room))
        order = np.arange(self.blocks)
        if self.random is not None:
            self.random.shuffle(order)
        try:
            with np.errstate(all="ignore"):
                for start in range(0, self.blocks, most):
                    self.now += 1
                    BlockBatch(self, order[start : start + most]).run()
        finally:
            for region in self.touched:
                writes = region.races is not None and region.races.writes is not None
                where = self.statistics.written if writes else self.statistics.read
                where.add(region.start)
                if self.exact and region.races is not None:
                    self.statistics.ranges[region.start] = region.races.ranges()
                region.races = None
                region.settle()

    @property
    def shared_bytes(self) -> int:
        return self.code.shared_bytes + self.dynamic

    def shadow(self, region: Region) -> RaceShadow | None:
        """Who accessed a region; None if only one thread can."""
        if region.races is None:
            if region.start < GLOBAL_START or region.read_only:
                return None
            region.races = RaceShadow(region.size, self.threads, in_block=False)
            self.touched.append(region)
        return region.races

    def windows(self, batch: BlockBatch) -> dict[str, Any]:
        """Shared, local and parameter memory of a batch."""
        code = self.code
        stride = -(-self.shared_bytes // 64) * 64
        shared = Region(stride * batch.blocks_count, name="shared memory")
        shared.data.fill(0xCB)
        gaps = code.shared_gaps
        if gaps is not None:
            gaps = np.concatenate([gaps, np.zeros(self.dynamic, np.bool_)])
        if self.checks and stride:
            shared.races = RaceShadow(shared.size, self.threads, in_block=True)
            if shared.written is not None:  # what nobody may access needs no writing
                rows = shared.written[: shared.size].reshape(-1, stride)
                rows[:, self.shared_bytes :] = 1
                if gaps is not None:
                    rows[:, : self.shared_bytes] = gaps
        local = Region(code.local_bytes * batch.count, name="local memory")
        return {
            "shared": (shared, self.shared_bytes, stride, gaps),
            "local": (local, code.local_bytes, code.local_bytes, None),
            "param": (self.params, self.kernel.param_bytes, 0, None),
        }

    def initial(self, batch: BlockBatch) -> list[Any]:
        """The slots before the first instruction: constants, addresses, special registers."""
        code = self.code
        values = code.initial.copy()
        for (name, offset), slot in code.addresses.items():
            address = self.memory.symbols[self.kernel.module][name] + offset
            values[slot] = np.array([address], np.uint64)
        for name, slot in code.specials.items():
            values[slot] = self.special(name, batch)
        return values

    def special(self, name: str, batch: BlockBatch) -> Array:
        """PTX ISA 10, Special Registers."""
        base, _, axis = name[1:].partition(".")
        if axis:
            k = "xyz".index(axis)
            if base == "ntid":
                return np.array([self.block[k]], np.uint32)
            if base == "nctaid":
                return np.array([self.grid[k]], np.uint32)
            threads = base == "tid"
            shape = self.block if threads else self.grid
            if shape[k] == 1:
                return np.zeros(1, np.uint32)
            if threads:
                return np.tile(_coordinates(self.block, k), batch.blocks_count)
            number = (batch.numbers // math.prod(shape[:k]) % shape[k]).astype(np.uint32)
            return number if batch.blocks_count == 1 else np.repeat(number, self.threads)
        if base.startswith("lanemask_"):
            return _lanemask(base[9:], batch.lane_id)
        if base == "laneid":
            return batch.lane_id
        if base == "warpid":
            return (batch.lane_thread >> 5).astype(np.uint32)
        fixed = {
            "nwarpid": batch.warps_count,
            "smid": 0,
            "nsmid": 1,
            "gridid": 0,
            "total_smem_size": self.shared_bytes,
            "dynamic_smem_size": self.dynamic,
        }
        return np.array([fixed[base]], np.uint32)

    def fence(self, batch: BlockBatch, blocks: Array) -> None:
        """A fence of some blocks, for the race detector."""
        self.now += 1
        if self.fences is None:
            self.fences = np.zeros(self.blocks, np.int64)
        self.fences[batch.numbers[blocks]] = self.now

    def block_index(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def thread_index(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self.block
        return number % x, number // x % y, number // (x * y)

    def fault(
        self,
        error: type[KernelFault],
        message: str,
        at: Instruction,
        batch: BlockBatch,
        lane: int,
        address: int | None,
    ) -> KernelFault:
        block, thread = divmod(lane, self.threads)
        return error(
            message,
            kernel=self.kernel.name,
            line=at.line,
            source=at.source,
            instruction=at.text,
            block=self.block_index(int(batch.numbers[block])),
            thread=self.thread_index(thread),
            address=address,
        )


def launch(
    kernel: PtxKernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    arguments: Sequence[Any],
    memory: DeviceMemory,
    *,
    shared_bytes: int = 0,
    seed: int = 0,
    checks: bool = True,
    step_limit: int = 1_000_000,
    exact: bool = False,
) -> Statistics:
    """Runs a kernel.

    Args:
      kernel: of ``Module.kernels``.
      grid, block: blocks of the grid and threads of a block along x, y and z.
      arguments: a number for each parameter; bytes or an array for one that is an array.
      memory: the device's memory, which addresses among the arguments point into.
      shared_bytes: of dynamic shared memory.
      seed: if it is not 0, blocks run in an order drawn with it, and so do atomic operations that
        meet at an address.
      checks: whether races and reads of what nobody wrote are looked for.
      step_limit: how many basic blocks may be run, each for any number of threads.
      exact: whether to tell which bytes of allocations were read and written.

    A memory serves one launch at a time.

    Raises:
      LaunchError: a driver would refuse the launch.
      KernelFault: the kernel is wrong; the class says how.
    """
    grid, block = _three(grid), _three(block)
    _check(kernel, grid, block, shared_bytes)
    state = KernelLaunch(kernel, grid, block, memory, shared_bytes, seed, checks, step_limit, exact)
    kernel.write_arguments(arguments, state.params.data)
    kernel.module.place_variables(memory)
    state.run()
    return state.statistics


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = [*(int(s) for s in sizes), 1, 1][:3]
    return x, y, z


def _check(
    kernel: PtxKernel, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic: int
) -> None:
    """What a driver checks before a launch."""
    name = kernel.name
    for what, sizes, most in (("grid", grid, _MOST_GRID), ("block", block, _MOST_BLOCK)):
        if any(not 1 <= size <= limit for size, limit in zip(sizes, most)):
            raise LaunchError(f"kernel {name!r}: a {what} of {sizes}; the limits are {most}")
    threads = math.prod(block)
    if threads > _MOST_THREADS:
        raise LaunchError(f"kernel {name!r}: {threads} threads in a block, the limit is 1024")
    bound = kernel.maxntid
    if bound is not None and threads > math.prod(bound):
        raise LaunchError(f"kernel {name!r}: a block of {block}, but its .maxntid is {bound}")
    if kernel.reqntid is not None and block != kernel.reqntid:
        raise LaunchError(f"kernel {name!r}: a block of {block}, not its .reqntid {kernel.reqntid}")
    if math.prod(grid) * threads >= 1 << 30:
        raise LaunchError(f"kernel {name!r}: more threads than the simulator can number, 2**30")
    shared: int = kernel.shared_bytes + dynamic
    if dynamic < 0 or shared > _MOST_SHARED:
        raise LaunchError(f"kernel {name!r}: {shared} bytes of shared memory")


def _coordinates(shape: tuple[int, int, int], axis: int) -> Array:
    """A coordinate of each thread of a block."""
    number = np.arange(math.prod(shape))
    return (number // math.prod(shape[:axis]) % shape[axis]).astype(np.uint32)


def _lanemask(name: str, lane: Array) -> Array:
    bit = np.uint32(1) << lane
    below = bit - np.uint32(1)
    return {"eq": bit, "lt": below, "le": below | bit, "gt": ~(below | bit), "ge": ~below}[name]
