"""Running compiled programs: the Python twin of ``backends/native/executor.cpp``.

A :class:`~functrax.backends.executables.program.RuntimeProgram` enters; an :class:`Executable`
leaves, which takes one raw value for each input and returns a :class:`Buffer` for each result.  A
run has one *frame* per program, the list of the addresses of its slots, and one block of memory,
the arena.
 The programs inside loops and branches get their frames from the instruction that runs them.

Runs share nothing, so one executable may run in several threads at once.

Start at :meth:`Executable.__call__`, then :meth:`ProgramRun.program`.
"""

from __future__ import annotations

import ctypes
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.backends.executables.memory_plan import workspace
from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
    LoopInstruction,
    RuntimeProgram,
    ScanInstruction,
    Slot,
    WhileInstruction,
    all_programs,
    first_carry,
)
from functrax.backends.executables.program_inputs import adapter, dense_array, input_count_error
from functrax.backends.runtime.buffer import NOWHERE, Buffer, block_references, view_memory
from functrax.backends.runtime.pool import pool
from functrax.backends.runtime.subnormals import in_mode
from functrax.backends.threads import thread_pool
from functrax.core.events.recorder import Event, recorder

_KERNEL: Final = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_int64,
    ctypes.c_int64,
)
_BOOL: Final = np.dtype(np.bool_)
#: Addresses of a program's slots.
Frame = list[int]
#: Called in place of each instruction with views of what it reads and writes; the last argument
#: runs it.
Observer: TypeAlias = Callable[
    [Instruction, Sequence[Any], Sequence[Any], Callable[[], None]], None
]


class RecordedExecutable(ABC):
    """A program that can be called, and that tells when it ran where somebody records that."""

    __slots__ = ()

    program: RuntimeProgram

    def __call__(self, values: Sequence[Any], donated: Sequence[int] = ()) -> list[Any]:
        """Run the program.

        Args:
          values: a raw value for each input: a NumPy array, a NumPy scalar, a deferred value, or
            an array of the runtime.
          donated: numbers of inputs that nobody uses after the call.  The memory of such an array
            of the runtime is given to a result where the program allows it and nothing else refers
            to it: the sequence of values and one more owner may, views may not.

        Returns:
          An array of the runtime for each result; a result that is an input as it is, is that
          value.

        Raises:
          ArgumentError: if a value is not of the input's shape and dtype.
        """
        if not recorder.on:
            return self._run(values, donated, None)
        begin, events = time.perf_counter_ns(), list[Event]()
        try:
            return self._run(values, donated, events)
        finally:
            recorder.add_run(self.program, begin, events)

    def profile(self, values: Sequence[Any]) -> tuple[list[Any], list[Event]]:
        """Run the program, and tell when each instruction ran.

        Returns:
          The results, and for each instruction that was run, in the order in which they ended: the
          number of its program in ``all_programs``, its number in the program, and the nanoseconds
          of ``time.perf_counter_ns`` at which it began and ended.
        """
        events: list[Event] = []
        return self._run(values, (), events), events

    @abstractmethod
    def _run(
        self, values: Sequence[Any], donated: Sequence[int], events: list[Event] | None
    ) -> list[Any]:
        """Run the program, and write down when each instruction ran where events are wanted."""


class Executable(RecordedExecutable):
    """A program for the processor of the host.

    Args:
      program: the program.
      observer: looks at each instruction, those of loops and branches included.
    """

    __slots__ = ("observer", "program")

    def __init__(self, program: RuntimeProgram, observer: Observer | None = None) -> None:
        self.program = program
        self.observer = observer

    def _run(
        self, values: Sequence[Any], donated: Sequence[int], events: list[Event] | None
    ) -> list[Any]:
        program = self.program
        if len(values) != len(program.inputs):
            raise input_count_error(program.name, len(program.inputs), len(values))
        frame = [0] * len(program.slots)
        kept = _read_inputs(program, values, frame)
        results = _results(program, values, kept, donated, frame)
        arena = pool.allocate(program.arena) if program.arena else None
        run = ProgramRun((arena, kept, results), program, events, self.observer)
        run.prepare(program, frame, arena.address if arena else NOWHERE)
        run.program(program, frame)
        return results


def _read_inputs(program: RuntimeProgram, values: Sequence[Any], frame: Frame) -> list[Any]:
    """Fill in the addresses of the inputs; returns what keeps them there."""
    kept = []
    for place, value in zip(program.inputs, values):
        slot, owner = program.slots[place], value
        if type(value) is Buffer and value.shape == slot.shape and value.dtype == slot.dtype:
            frame[place] = value.address
        else:
            owner = dense_array(value, slot.number, slot.shape, slot.dtype)
            frame[place] = owner.ctypes.data if owner.size else NOWHERE
        kept.append(owner)
    return kept


def _references(values: Sequence[Any], number: int) -> int:
    return block_references(values[number])


_OWNED: Final = _references([object()], 0) + 1  # by the values, and by one array


def _results(
    program: RuntimeProgram,
    values: Sequence[Any],
    kept: list[Any],
    donated: Sequence[int],
    frame: Frame,
) -> list[Any]:
    """Memory for the results: of donated inputs, or new."""
    sources = {j: i for j, i in program.aliases if i in donated}
    results: list[Any] = []
    for number, place in enumerate(program.outputs):
        slot = program.slots[place]
        if slot.kind == "input":
            value = values[slot.number]
            given = type(value) is Buffer or type(value) is np.ndarray
            results.append(value if given else kept[slot.number])
        elif slot.kind == "const":
            results.append(slot.value)
        elif slot.number != number:
            results.append(results[slot.number])
        else:
            block = None
            if number in sources and type(values[sources[number]]) is Buffer:
                kept[sources[number]] = None
                if _references(values, sources[number]) <= _OWNED:
                    block = values[sources[number]].take_block()
                kept[sources[number]] = values[sources[number]]
            results.append(Buffer(slot.shape, slot.dtype, block))
            frame[place] = results[-1].address
    return results


def bound_kernel(x: Launch, places: Sequence[int], flushes: bool) -> Callable[[int, int], None]:
    """A launch as a function of the range of its units, for arrays at these addresses.

    Args:
      x: the launch.
      places: the addresses of the arrays that it reads, then of those that it writes.
      flushes: whether a thread flushes subnormal numbers to zero while it runs the kernel.
    """
    if x.begins:
        places = [place + begin for place, begin in zip(places, x.begins, strict=True)]
    buffers = (ctypes.c_void_p * (1 + len(places)))(None, *places)  # a long one asks nobody
    first = ctypes.byref(buffers, ctypes.sizeof(ctypes.c_void_p))
    params = (ctypes.c_int64 * len(x.params))(*x.params)
    function = _KERNEL(x.function)
    return lambda begin, end: in_mode(flushes, function, first, params, begin, end)


def workspace_of(program: RuntimeProgram, frame: Frame, n: int) -> int:
    """Where the part of the arena is that an instruction has, by its number."""
    return frame[-1] + max(program.workspaces[n], 0)


class ProgramRun:
    """One run of a program; ``owner`` keeps all of its memory alive.

    What it does with memory are methods, for programs of other devices.
    """

    __slots__ = ("_events", "_flushes", "_numbers", "_observer", "_owner")

    #: Whether a run is only written down, and a ``While`` is decided later: its carry is in its
    #: first place before it begins.
    decides_later = False

    def __init__(
        self,
        owner: Any,
        program: RuntimeProgram,
        events: list[Event] | None,
        observer: Observer | None,
    ) -> None:
        self._owner = owner
        self._flushes = program.flushes
        self._events = events
        self._observer = observer
        counted = () if events is None else all_programs(program)
        self._numbers = {p: n for n, p in enumerate(counted)}

    def prepare(self, program: RuntimeProgram, frame: Frame, arena: int) -> None:
        """Fill in the addresses of what stays where it is: temporaries and constants."""
        frame.append(arena)
        for n, slot in enumerate(program.slots):
            if slot.offset >= 0:
                frame[n] = arena + slot.offset
            elif slot.value is not None:
                frame[n] = self.constant(slot)

    def constant(self, slot: Slot) -> int:
        """Where a constant is."""
        assert slot.value is not None
        return slot.value.ctypes.data if slot.nbytes else NOWHERE

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy memory."""
        if target != source and nbytes:
            ctypes.memmove(target, source, nbytes)

    def number(self, address: int, dtype: np.dtype[Any]) -> Any:
        """A number that decides what is done next."""
        return view_memory(address, (), dtype, self)[()]

    def goes_on(self, cell: int, loop: LoopRun) -> bool:
        """Whether a loop goes on, as its condition has left it in a cell."""
        return bool(self.number(cell, _BOOL))

    def program(self, program: RuntimeProgram, frame: Frame) -> None:
        """Run a program whose inputs and outputs have got their addresses."""
        for n, slot in enumerate(program.slots):
            if slot.shares >= 0:
                frame[n] = frame[slot.shares]
        self.instructions(program, frame)

    def instructions(self, program: RuntimeProgram, frame: Frame) -> None:
        """Run the instructions of a program whose slots have addresses."""
        each = self._observer is not None or self._events is not None
        ends = range(1, len(program.instructions) + 1)
        for step in [range(n - 1, n) for n in ends] if each else program.steps:
            run, n = program.instructions[step.start : step.stop], step.start
            place = workspace_of(program, frame, n)
            begin = time.perf_counter_ns() if each else 0
            if self._observer is not None:
                self._observed(self._observer, run[0], program.slots, frame, place)
            elif len(run) > 1:
                self.launches(run, frame)
            else:
                self._instruction(run[0], program.slots, frame, place)
            if self._events is not None:
                self._events.append((self._numbers[program], n, begin, time.perf_counter_ns()))

    def _observed(
        self, observer: Observer, x: Instruction, slots: Sequence[Slot], frame: Frame, place: int
    ) -> None:
        inputs = self._views(x.inputs, slots, frame, readonly=True)
        outputs = self._views(x.outputs, slots, frame, readonly=False)
        observer(x, inputs, outputs, lambda: self._instruction(x, slots, frame, place))

    def _views(
        self, numbers: Sequence[int], slots: Sequence[Slot], frame: Frame, readonly: bool
    ) -> list[Any]:
        return [
            view_memory(frame[s], slots[s].shape, slots[s].dtype, self, readonly=readonly)
            for s in numbers
        ]

    def _instruction(self, x: Instruction, slots: Sequence[Slot], frame: Frame, place: int) -> None:
        match x:
            case Launch():
                self.launches([x], frame)
            case HostCall():
                self.host_call(x, slots, frame)
            case CopyInstruction():
                self.copy(frame[x.target], frame[x.source], slots[x.source].nbytes)
            case CondInstruction():
                self._cond(x, slots, frame, place)
            case _:
                LoopRun(self, x, slots, frame, place).run()

    def host_call(self, x: HostCall, slots: Sequence[Slot], frame: Frame) -> None:
        """Call a function of NumPy arrays."""
        inputs = self._views(x.inputs, slots, frame, readonly=True)
        adapter(x)(inputs, self._views(x.outputs, slots, frame, readonly=False))

    def launches(self, run: Sequence[Any], frame: Frame) -> None:
        """The launches of a run, whose units threads share: of several by estimated time."""
        kernels = [
            bound_kernel(
                x, [frame[s] for s in (*x.inputs, *x.outputs)], self._flushes and not x.foreign
            )
            for x in run
        ]
        if len(run) == 1:
            (x,) = run
            if x.foreign:
                kernels[0](0, x.units)
                x.owner.calls[0][1].check()
                return
            thread_pool.parallel_for(kernels[0], x.units, x.grain, x.cost)
            return
        parts, cost = [], 0
        for x, kernel in zip(run, kernels, strict=True):
            parts.append((kernel, x.units, cost, max(x.cost, 1)))
            cost += max(x.cost, 1)

        def some(begin: int, end: int) -> None:
            for kernel, units, first, length in parts:
                low, high = (
                    units * min(max(at - first, 0), length) // length for at in (begin, end)
                )
                if low < high:
                    kernel(low, high)

        thread_pool.parallel_for(some, cost, 1, cost)

    def _cond(self, x: CondInstruction, slots: Sequence[Slot], frame: Frame, place: int) -> None:
        index = int(self.number(frame[x.index], slots[x.index].dtype))
        self._branch(x, min(max(index, 0), len(x.branches) - 1), frame, place)

    def _branch(self, x: CondInstruction, number: int, frame: Frame, place: int) -> None:
        branch = x.branches[number]
        inner = self.inner_frame(branch, [frame[s] for s in x.operands], place)
        self.inner(branch, inner, [frame[s] for s in x.outputs])

    def inner_frame(self, program: RuntimeProgram, inputs: Sequence[int], arena: int) -> Frame:
        """A frame with these addresses for the first inputs."""
        frame = [0] * len(program.slots)
        self.prepare(program, frame, arena)
        for slot, address in zip(program.inputs, inputs):
            frame[slot] = address
        return frame

    def inner(self, program: RuntimeProgram, frame: Frame, targets: Sequence[int]) -> None:
        """Run a program inside an instruction; its results go to ``targets``."""
        slots = program.slots
        for n, place in enumerate(program.outputs):
            if slots[place].kind == "output" and slots[place].number == n:
                frame[place] = targets[n]
        self.program(program, frame)
        for n, place in enumerate(program.outputs):
            self.copy(targets[n], frame[place], slots[place].nbytes)


class LoopRun:
    """A run of a loop: where the parts of its carry are now, and where they go next."""

    def __init__(
        self, run: ProgramRun, x: LoopInstruction, slots: Sequence[Slot], frame: Frame, place: int
    ) -> None:
        self._run, self._x, self._slots, self._frame = run, x, slots, frame
        space, count = workspace(x, slots), len(x.carry)
        self._sizes = [slots[s].nbytes for s in x.carry]
        self._cell, self._arena = place + space.cell, place + space.arena
        self._first = [frame[s] for s in x.outputs[:count]]  # where the last carry must be
        places = zip(self._first, space.carry, strict=True)
        self._second = [a if second < 0 else place + second for a, second in places]
        self._now = [frame[s] for s in x.carry]
        begins_there = run.decides_later and isinstance(x, WhileInstruction)
        for k, second in enumerate(space.carry):
            if second < 0 or begins_there:  # updated where it is, or read from there
                self._move(k, self._first[k])

    def _move(self, k: int, target: int) -> None:
        self._run.copy(target, self._now[k], self._sizes[k])
        self._now[k] = target

    def run(self) -> None:
        """Run the loop to its end."""
        if isinstance(self._x, WhileInstruction):
            self._while(self._x)
        else:
            self._scan(self._x)
        for k, place in enumerate(self._first):
            self._move(k, place)

    def moved(self) -> list[int]:
        """The bytes of each part of the carry that has two places."""
        places = zip(self._first, self._second, self._sizes)
        return [size for first, second, size in places if first != second]

    def copy_back(self) -> None:
        """Copy the carry to its first place from where a step has left it."""
        for first, now, size in zip(self._first, self._now, self._sizes):
            self._run.copy(first, now, size)

    def came_back(self) -> None:
        """Let the carry count as being in its first place."""
        self._now = [*self._first]

    def _while(self, x: WhileInstruction) -> None:
        run, frame = self._run, self._frame
        test = run.inner_frame(x.cond, [frame[s] for s in x.cond_consts], self._arena)
        body = run.inner_frame(x.body, [frame[s] for s in x.body_consts], self._arena)
        while True:
            for slot, address in zip(x.cond.inputs[len(x.cond_consts) :], self._now):
                test[slot] = address
            run.inner(x.cond, test, [self._cell])
            if not run.goes_on(self._cell, self):
                return
            places = zip(self._first, self._second, self._now)
            self._step(body, [b if now == a else a for a, b, now in places])

    def _scan(self, x: ScanInstruction) -> None:
        """Run the body, such that the last time writes the carry to its place."""
        frame, slots, count = self._frame, self._slots, x.length
        inner = self._run.inner_frame(x.body, [frame[s] for s in x.consts], self._arena)
        stacked = x.body.inputs[first_carry(x) + len(x.carry) :]
        for k, (first, second) in enumerate(zip(self._first, self._second)):
            if count % 2 and first != second and self._now[k] == first:
                self._move(k, second)
        rows = [
            (frame[s], slots[s].nbytes // max(count, 1))
            for s in (*x.xs, *x.outputs[len(x.carry) :])
        ]
        for t in range(count):
            element = count - 1 - t if x.reverse else t
            places = [address + element * size for address, size in rows]
            for slot, address in zip(stacked, places):
                inner[slot] = address
            targets = self._first if (count - t) % 2 else self._second
            self._step(inner, [*targets, *places[len(stacked) :]])

    def _step(self, inner: Frame, targets: list[int]) -> None:
        body, begin = self._x.body, first_carry(self._x)
        for slot, address in zip(body.inputs[begin:], self._now):
            inner[slot] = address
        self._run.inner(body, inner, targets)
        self._now = targets[: len(self._now)]
