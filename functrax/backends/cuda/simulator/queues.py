"""Streams and events: work that is asked for now and done later, in any order that is allowed.

Work on one stream is done in order.  Work on another one comes later only where an event says so,
or where the host has waited in between.  Which of the work that may go on does go on is drawn, so
what is right by luck fails for some seed.  Besides, each operation has a *vector clock*: for each
stream how much of its work comes before.  Two operations that touch an allocation, one of them
writing, of which neither comes before the other, are a :class:`StreamRace`, in whatever order they
were run.

Start at :class:`Queues`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from functrax.backends.cuda.simulator.memory import DeviceMemory

#: How much of each stream's work, by the stream's number.
Clock: TypeAlias = dict[int, int]
#: Does an operation; the starts of the allocations that it read, and that it wrote.
Work: TypeAlias = Callable[[], "tuple[set[int], set[int]]"]


class StreamRace(RuntimeError):  # noqa: N818 - it is the program that has one
    """Two operations on an allocation, one of which writes, with nothing that orders them."""


class PendingFree(RuntimeError):  # noqa: N818
    """Memory was freed that work may still use."""


def _merge(into: Clock, other: Clock) -> None:
    for stream, count in other.items():
        into[stream] = max(into.get(stream, 0), count)


@dataclass
class StreamEvent:
    """A mark in a stream: the work that it stands for, as it was recorded last."""

    clock: Clock = field(default_factory=dict)


@dataclass
class Operation:
    """Something that a stream does."""

    name: str
    stream: int
    number: int
    clock: Clock
    work: Work
    uses: frozenset[int]
    group: int


class QueuedAccess(NamedTuple):
    """What is remembered of an operation that touched an allocation."""

    name: str
    stream: int
    number: int
    group: int = 0


@dataclass
class _History:
    """Who touched an allocation last."""

    write: QueuedAccess | None = None
    reads: dict[int, QueuedAccess] = field(default_factory=dict)

    def all(self) -> list[QueuedAccess]:
        return [*([self.write] if self.write else []), *self.reads.values()]


class Queues:
    """The streams of a device.

    Args:
      memory: of the device.
      seed: for the order of work.
    """

    def __init__(self, memory: DeviceMemory, seed: int = 0) -> None:
        self.memory = memory
        self._random = random.Random(seed)
        self._waiting: list[deque[Operation]] = []
        self._clocks: list[Clock] = []
        self._done: Clock = {}
        self._host: Clock = {}
        self._histories: dict[int, _History] = {}

    def stream(self) -> int:
        """A new stream."""
        self._waiting.append(deque())
        self._clocks.append({})
        return len(self._clocks) - 1

    def ask(
        self,
        stream: int,
        name: str,
        work: Work,
        uses: frozenset[int] = frozenset(),
        group: int = 0,
    ) -> None:
        """Ask for work.

        Args:
          stream: that does it.
          name: for messages.
          work: does it.
          uses: allocations that it may touch, by their starts.
          group: work of one group, if that is not 0, is checked by those who ask for it.
        """
        clock = self._clocks[stream]
        _merge(clock, self._host)
        clock[stream] = clock.get(stream, 0) + 1
        operation = Operation(name, stream, clock[stream], dict(clock), work, uses, group)
        self._waiting[stream].append(operation)
        while self._random.random() < 0.5 and self._step():
            pass

    def drawn(self, some: Sequence[int]) -> int:
        """One of some numbers."""
        return self._random.choice(some)

    def record(self, event: StreamEvent, stream: int) -> None:
        """Let an event stand for all that a stream was asked for."""
        event.clock = dict(self._clocks[stream])

    def wait(self, stream: int, event: StreamEvent) -> None:
        """Let later work of a stream come after an event."""
        _merge(self._clocks[stream], event.clock)

    def is_done(self, event: StreamEvent) -> bool:
        """Whether an event has come to pass; work goes on meanwhile."""
        if not self._has_come(event.clock):
            self._step()
        if not self._has_come(event.clock):
            return False
        _merge(self._host, event.clock)
        return True

    def finish(self, stream: int) -> None:
        """Let the host wait for all that a stream was asked for."""
        mark = StreamEvent()
        self.record(mark, stream)
        while not self.is_done(mark):
            pass

    def free(self, start: int) -> None:
        """Free an allocation, which no work may use that the host has not seen done."""
        users = self._histories.pop(start, _History()).all()
        waiting = [x for queue in self._waiting for x in queue if start in x.uses]
        for x in (*users, *[QueuedAccess(x.name, x.stream, x.number) for x in waiting]):
            if self._host.get(x.stream, 0) < x.number:
                raise PendingFree(f"memory is freed that {x.name} may still use")
        self.memory.free(start)

    def _has_come(self, clock: Clock) -> bool:
        return all(self._done.get(stream, 0) >= count for stream, count in clock.items())

    def _step(self) -> bool:
        """Do some work that may be done now; whether there was any."""
        ready = [queue for queue in self._waiting if queue and self._may_run(queue[0])]
        if not ready:
            return False
        operation = self._random.choice(ready).popleft()
        read, written = operation.work()
        for start in read | written:
            self._check(operation, start, start in written)
        self._done[operation.stream] = operation.number
        return True

    def _may_run(self, x: Operation) -> bool:
        before = {**x.clock, x.stream: x.number - 1}
        return self._has_come(before)

    def _check(self, x: Operation, start: int, writes: bool) -> None:
        history = self._histories.setdefault(start, _History())
        others = history.all() if writes else [history.write] if history.write else []
        for other in others:
            if x.group and x.group == other.group:
                continue
            if x.clock.get(other.stream, 0) < other.number:
                raise StreamRace(
                    f"{x.name} and {other.name} use the allocation at {start:#x}, on streams "
                    f"{x.stream} and {other.stream}, in no order"
                )
        access = QueuedAccess(x.name, x.stream, x.number, x.group)
        if writes:
            history.write, history.reads = access, {}
        else:
            history.reads[x.stream] = access
