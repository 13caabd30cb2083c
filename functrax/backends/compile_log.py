"""What the compiler did for one program, and when.

:class:`CompileLog` collects it: :func:`step` is put around each stage of the work, and
:func:`found` says where a kernel's machine code came from.  The recorder of
``functrax.profiler`` gets the same, and :data:`watchers` hear of each stage while it works.  While
there is none of these, both do nothing.

Start at :func:`step`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, Protocol, TypeAlias

from functrax.core.events.recorder import recorder
from functrax.core.records import field, record

#: Where machine code came from: LLVM, the cache of this process, the cache on disk.
Origin: TypeAlias = Literal["llvm", "memory", "disk"]


@record
class Event:
    """One piece of work.

    Args:
      stage: which stage of the compiler.
      name: of the pass, the group or the kernel that it worked on.
      begin: seconds, by ``time.perf_counter``.
      milliseconds: how long it took, pieces of work inside it left out.
      span: how long it took with them, in milliseconds.
    """

    stage: str
    name: str
    begin: float
    milliseconds: float
    span: float


@record(frozen=False)
class CompileLog:
    """The work on one program.

    Args:
      events: the pieces of work, in the order in which they ended.
      origins: how many kernels came from where.
    """

    events: list[Event] = field(default_factory=list)
    origins: Counter[Origin] = field(default_factory=Counter)

    def milliseconds(self) -> dict[str, float]:
        """The time that each stage took, in the order in which they ended first."""
        total: dict[str, float] = {}
        for event in self.events:
            total[event.stage] = total.get(event.stage, 0.0) + event.milliseconds
        return total


class _Open(threading.local):
    """The log that is open in this thread, and the time spent in finished inner steps."""

    log: CompileLog | None = None
    inside: float = 0.0


_open: Final = _Open()


class Watcher(Protocol):
    """Hears of the work while it is done, in any thread."""

    def begin(self, stage: str, name: str) -> None:
        """A stage begins its work on something."""

    def end(self) -> None:
        """The work that began last in this thread ends."""


watchers: Final[list[Watcher]] = []
"""Who hears of the work."""


@contextmanager
def logged(log: CompileLog) -> Iterator[CompileLog]:
    """Collect what the compiler does in this block."""
    before, _open.log = _open.log, log
    try:
        yield log
    finally:
        _open.log = before


@contextmanager
def step(stage: str, name: str = "") -> Iterator[None]:
    """Put around a piece of work, so that the open log knows of it.

    >>> with logged(CompileLog()) as log:
    ...     with step("lower", "add"):
    ...         pass
    >>> [(event.stage, event.name) for event in log.events]
    [('lower', 'add')]
    """
    log = _open.log
    watching = tuple(watchers)
    if log is None and not recorder.on and not watching:
        yield
        return
    outer, _open.inside = _open.inside, 0.0
    begin = time.perf_counter()
    for watcher in watching:
        watcher.begin(stage, name)
    try:
        yield
    finally:
        for watcher in watching:
            watcher.end()
        took = time.perf_counter() - begin
        own = took - _open.inside
        if log is not None:
            log.events.append(Event(stage, name, begin, own * 1e3, took * 1e3))
        if recorder.on:
            recorder.add(stage, name, round(begin * 1e9), round((begin + took) * 1e9))
        _open.inside = outer + took


def found(origin: Origin) -> None:
    """Say where a kernel's machine code came from."""
    if _open.log is not None:
        _open.log.origins[origin] += 1
