"""The record of what the compiler asks of a machine.

Numbers that are not of one machine have their values here.  They were measured on the machines that
docs/kernels.md names, and are round: a choice between two schedules seldom hangs on less than a
third.  A folder of a target may set each of them.

Start at :class:`Target`.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Final

from functrax.core.records import record

if TYPE_CHECKING:
    from functrax.backends.targets.dialect import Dialect

#: Bytes of the second cache that a thread has, where the system does not tell.
SECOND_CACHE: Final = 1 << 20


@record
class Facts:
    """What a system tells of the processor that it runs on.

    Args:
      machine: its architecture, as the system calls it.
      identity: equal for equal processors; empty if the system does not tell.
      flags: the instruction sets that it has, in the system's words.
      second_cache: bytes of the second cache, or of a thread's part of it if several share it.
      kind: the kind of processor that was asked for, if it has to be a lesser one than this.
    """

    machine: str
    identity: str
    flags: frozenset[str]
    second_cache: int = SECOND_CACHE
    kind: str = ""


@record
class Target:
    """A machine, as far as it decides which code is made.

    Args:
      name: for people.
      folder: the module of the folder that knows it; empty where there is none, which is a machine
        that LLVM makes code for and nobody else knows.
      identity: equal for equal processors, and part of the keys of machine code; empty if the
        system does not tell, so that LLVM is asked.
      flags: the instruction sets that it has, in the system's words.
      cpu: what LLVM calls the processor; empty for the one that this process runs on.
      triple: what LLVM calls the architecture and the system; empty for those of this process.
      strict: whether it stands for all machines, so that the order of reductions follows from
        shapes alone.
      warp: how many threads run in step and can give each other values, where threads work in
        groups; 0 where threads are the system's.
      largest_group: how many threads a group has at most.
      row_points: how many points of a long row each thread of a group has at least.
      sort_points: how many elements each thread of a block sorts in shared memory at most.
      busy_threads: how many threads keep a GPU busy.
      resident: how many threads keep a multiprocessor busy.
      search_operations: how many instructions a thread takes to look at an element that it sorts by
        bisection.
      digit_operations: how many it takes to sort an element by one digit of eight bits.
      wave_ns: nanoseconds in which the threads that keep a GPU busy do an instruction each.
      access_bytes: the most bytes that a thread reads or writes at once.
      block: how many threads a group has that keeps tiles in shared memory, or that is put together
        of threads or of warps with work of their own.
      shared_bytes: bytes of memory that the threads of a group can share.
      vector_bytes: bytes of a vector register.
      registers: how many vector registers there are.
      shuffled_bytes: bytes of the parts of a vector register inside which elements change places in
        one cycle; from part to part it takes three.
      cache_line: bytes of a line of a cache, which is what memory is read and written in.
      fetched_ahead: how many bytes before it is read or copied a row is asked for, so that it is in
        the first cache by then: measured with rows that are read at once with many others.
      page: bytes of a page.  A processor fetches ahead inside of one.
      first_cache: bytes of the first cache that a tile of a contraction reads again and again.
      second_cache: bytes of the second cache that a thread has.
      streamed_bytes: arrays of so many bytes are written past the caches: they would only push out
        others.
      row_bytes: the most bytes of rows that a kernel keeps for itself, which is on the stack of a
        thread: what it computed with functions such as ``exp`` and needs again.
      several_pages: whether memory is read faster from several pages at once than from one after
        the other.
      streams: from how many pages at once memory comes fastest there.  Powers of two were timed, of
        maps and sums of 64 MiB (docs/decisions/0010).
      scattered_lines: how many lines, each in another page, are written in turn before those beside
        them: so few that they are in a cache still, and past the caches.  Powers of two were timed,
        of transposes (the same).
      unit_points: how many points without functions such as ``exp`` a unit of work has at least, so
        that threads take units at little cost.
      least_lanes: vectors of fewer elements are not worth making.
      functions: which operations of scalar expressions are instructions of its own: ``fma``, a
        product and a sum that are rounded once; ``ldexp``, of vectors; ``float16``, conversions.
        Others are written with what all machines have.
      dots: kinds of instructions that add up products of narrow numbers, which are faster than to
        convert and to multiply (``gemm/packed_dtypes.py``).
      divides_fast: whether a vector of float32 is divided as fast as it is multiplied in float64;
        not where one of 64 bytes takes 16 cycles.
      cycle_ns: nanoseconds of a cycle.
      operation_cycles: cycles of an operation on a vector register, a load and a store among them.
      sum_cycles: cycles until a sum can be added to: in so many parts, which need not wait for one
        another, vectors of small arrays are added up.  It decides the order of these sums.
      scalar_cycles: cycles of one on a single element, which are done beside those on vectors.
      division_cycles: cycles of a quotient or a square root.
      remainder_cycles: cycles of a remainder.
      reverse_cycles: cycles to read or write a vector register backwards.
      turn_cycles: cycles for an element of a vector that is read or written in other rows of a
        square, or at every second place or so of a line.
      stride_cycles: cycles for an element of a vector whose elements are each in another line.
      gather_cycles: cycles for an element that is read at a place that is data.
      scatter_cycles: cycles for one that is written there.
      step_cycles: cycles of a step of an innermost loop besides what is done in it.
      scan_cycles: cycles of a step of running results along a vector: one waits for the other.
      launch_ns: nanoseconds to start a kernel.
      enqueue_ns: nanoseconds that the host takes to ask a GPU's driver for a launch or a copy.
      graph_ns: nanoseconds that the host takes to ask it for a graph of these.
      graph_node_ns: nanoseconds that it takes for a node of the graph, if that has got other
        addresses.
      node_ns: nanoseconds that a GPU takes for a node of a graph that waits for another.
      branch_ns: nanoseconds that it takes for a node that decides between others.
      moved_byte_ns: nanoseconds that it takes to copy a byte from one place to another.
      graph_nodes: how many nodes a graph has at most: each takes memory of the driver, and time to
        make.
      exposed: how much of the shorter one of computing and moving is not hidden behind the other.
      cache_byte_ns: nanoseconds to move a byte between the second cache and a thread: 70 GB/s.
      byte_ns: nanoseconds to move a byte between memory and one thread: 32 GB/s.
      second_cache_rate: bytes that the second cache gives in a cycle.
      launch_cycles: cycles to start a kernel that stores a side of a contraction.
      tile_start_cycles: cycles that a tile of a contraction takes beyond its steps, for its loops.
      tile_store_cycles: cycles that it takes to store a vector of results.
      turned_stores: how many times these a vector takes whose results are contiguous along the
        rows, so that the tile is turned.
      scattered_stores: the same where they are nowhere: on a few cache lines, and on many.
      pack_cycles: cycles to pack an element of a side: along its order in memory, and across.
      pack_word_cycles: the same of a word of several narrow numbers, put together where these are
        not neighbours.
      copy_cycles: cycles more to read a vector and copy it to a panel: in rows that are near, in
        others, and where the array is larger than the second cache.
      far_stride: steps so many bytes apart are not fetched ahead.
      colliding_stride: steps that are a multiple of so many bytes apart meet in a cache's sets.
      colliding_rows: and so do rows of a side that is read element by element.
      kernel_ns: nanoseconds that a program of one kernel more takes longer, by its start and by the
        ends of its loops.
      split_ns: nanoseconds that each kernel must save that a kernel is split into more: to compile
        it takes a thousand times as long.
      element_ns: nanoseconds of one more operation on an element, in a kernel that moves data.
      function_ns: nanoseconds of a function such as ``exp`` there.
      reread_ns: nanoseconds to read a byte once more, from a cache.
      reread_bytes: bytes of a row up to which a kernel that goes over it again finds it in a cache,
        beside what else is there: a quarter of the usual second cache.
      tile_cycles: cycles of a matrix unit: to multiply two matrices, to load one, and to go on.
      wake_ns: nanoseconds of work below which it does not pay to wake another thread: copies and
        products that take 7 to 9 µs alone take 4.5 to 6 with two.
      share_ns: nanoseconds of work of several kernels below which one thread does them: another
        thread's caches are some microseconds away, and it may sleep.
      libraries: whether libraries of NVIDIA's compute what has no kernel.
      library_call_ns: nanoseconds to call a function of LAPACK for a matrix.
      lock_ns: nanoseconds of a call of a library with a lock below which threads that share calls
        wait for one another longer than they gain.
      program_ns: nanoseconds to run a program of one operation.
      compile_ns: nanoseconds to compile a small program: what takes longer in all, again and
        again, is compiled.
      numpy_ns: nanoseconds that an operation takes in NumPy to begin with.
      numpy_element_ns: nanoseconds that it takes there for an element.
    """

    name: str = ""
    folder: str = ""
    identity: str = ""
    flags: frozenset[str] = frozenset()
    cpu: str = ""
    triple: str = ""
    strict: bool = False
    warp: int = 0
    largest_group: int = 0
    row_points: int = 0
    sort_points: int = 0
    busy_threads: int = 0
    resident: int = 0
    search_operations: int = 0
    digit_operations: int = 0
    wave_ns: float = 0.0
    access_bytes: int = 0
    block: int = 0
    shared_bytes: int = 0
    vector_bytes: int = 16
    registers: int = 16
    shuffled_bytes: int = 16
    cache_line: int = 64
    fetched_ahead: int = 1024
    page: int = 4096
    first_cache: int = 32 << 10
    second_cache: int = SECOND_CACHE
    streamed_bytes: int = 1 << 24
    row_bytes: int = 128 << 10
    several_pages: bool = True
    streams: int = 16
    scattered_lines: tuple[int, int] = (128, 2048)
    unit_points: int = 4096
    least_lanes: int = 4
    functions: frozenset[str] = frozenset({"fma", "float16"})
    dots: frozenset[str] = frozenset()
    divides_fast: bool = True
    cycle_ns: float = 0.4
    operation_cycles: float = 0.6
    sum_cycles: int = 4
    scalar_cycles: float = 0.25
    division_cycles: float = 8.0
    remainder_cycles: float = 50.0
    reverse_cycles: float = 4.0
    turn_cycles: float = 0.25
    stride_cycles: float = 2.8
    gather_cycles: float = 0.6
    scatter_cycles: float = 4.0
    step_cycles: float = 0.8
    scan_cycles: float = 9.0
    launch_ns: float = 60.0
    enqueue_ns: float = 0.0
    graph_ns: float = 0.0
    graph_node_ns: float = 0.0
    node_ns: float = 0.0
    branch_ns: float = 0.0
    moved_byte_ns: float = 0.0
    graph_nodes: int = 0
    exposed: float = 0.4
    cache_byte_ns: float = 0.014
    byte_ns: float = 1 / 32
    second_cache_rate: float = 20.0
    launch_cycles: float = 2000.0
    tile_start_cycles: float = 30.0
    tile_store_cycles: float = 4.0
    turned_stores: float = 4.0
    scattered_stores: tuple[float, float] = (6.0, 24.0)
    pack_cycles: tuple[float, float] = (0.8, 1.6)
    pack_word_cycles: tuple[float, float] = (1.6, 6.4)
    copy_cycles: tuple[float, float, float] = (1.0, 4.0, 11.0)
    far_stride: int = 512
    colliding_stride: int = 1024
    colliding_rows: int = 4096
    kernel_ns: float = 128.0
    split_ns: float = 5000.0
    element_ns: float = 1 / 128
    function_ns: float = 3 / 16
    reread_ns: float = 1 / 128
    reread_bytes: int = 256 << 10
    tile_cycles: tuple[float, float, float] = (16.0, 12.0, 8.0)
    wake_ns: int = 7_000
    share_ns: int = 25_000
    libraries: bool = False
    library_call_ns: int = 150
    lock_ns: int = 5000
    program_ns: int = 20_000
    compile_ns: int = 2_000_000
    numpy_ns: int = 4000
    numpy_element_ns: int = 1

    @property
    def has_fma(self) -> bool:
        """Whether an instruction multiplies and adds, and rounds once.

        Where it is not known, it is not used: LLVM would call a library for it.
        """
        return "fma" in self.functions

    @property
    def has_halves(self) -> bool:
        """Whether an instruction converts float16."""
        return "float16" in self.functions

    @property
    def has_scaling(self) -> bool:
        """Whether an instruction multiplies vectors of floats by powers of two."""
        return "ldexp" in self.functions

    @property
    def has_near(self) -> bool:
        """Whether instructions give powers of two, reciprocals and roots of float32 nearly, and
        programs may use them.
        """
        return "near" in self.functions

    @property
    def has_extremum(self) -> bool:
        """Whether one instruction gives the larger of two float32, and NaN if one is NaN."""
        return "extremum" in self.functions

    @property
    def least_graph_nodes(self) -> int:
        """From how many nodes on a graph takes the host less time than launches one by one."""
        saved = self.enqueue_ns - self.graph_node_ns
        return math.floor(self.graph_ns / saved) + 1 if saved > 0 else self.graph_nodes + 1

    @property
    def dialect(self) -> Dialect:
        """How code for it is written and loaded, as far as that is not alike everywhere."""
        if not self.folder:
            from functrax.backends.targets.dialect import UNKNOWN

            return UNKNOWN
        dialect: Dialect = import_module(f"{self.folder}.dialect").DIALECT
        return dialect


#: What schedules are made for in strict mode, whatever the machine.
PORTABLE: Final = Target(
    "every machine", strict=True, vector_bytes=64, registers=32, second_cache=2 << 20
)
