"""What happens when, while somebody records it for ``functrax.profiler``.

Pieces of work come in as :class:`Span`: tracing, the compiler's stages, fetches, the user's own.
Calls of jitted functions and runs of programs are recorded by the runtime, in C++
(``backends/native/recorder.cpp``) or here.  While nobody records, all of it costs one look at
:attr:`Recorder.on`.

Start at :data:`recorder`.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final, NamedTuple

from functrax.core import native
from functrax.core.errors.source import user_line
from functrax.core.records import field, record

#: Program, instruction, and the nanoseconds at which it began and ended.
Event = tuple[int, int, int, int]
_MOST: Final = 2_000_000


class Span(NamedTuple):
    """A piece of work of one thread.

    Args:
      kind: ``"trace"``, a stage of the compiler, ``"fetch"``, ``"transfer"`` or ``"user"``.
      name: what was worked on.
      begin: nanoseconds of ``time.perf_counter_ns``.
      end: the same.
      thread: ``threading.get_ident()``.
      facts: what else is known.
    """

    kind: str
    name: str
    begin: int
    end: int
    thread: int
    facts: dict[str, Any]


class CallEvent(NamedTuple):
    """A call of a jitted function, from the arguments to the results."""

    function: Any
    thread: int
    begin: int
    end: int


class Run(NamedTuple):
    """A run of a program; events are those of its instructions, in the order in which they end."""

    program: Any
    thread: int
    begin: int
    end: int
    events: list[Event]


@record(frozen=False)
class Recording:
    """All that was recorded.

    Args:
      spans: pieces of work.
      calls: of jitted functions.
      runs: of programs.
      begin: nanoseconds at which the recording began.
      end: and ended.
      threads: the names of the threads by number.
      left_out: how many events were not kept, since there were too many.
    """

    spans: list[Span] = field(default_factory=list)
    calls: list[CallEvent] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    threads: dict[int, str] = field(default_factory=dict)
    left_out: int = 0


class Recorder:
    """Collects what happens, in all threads.

    Attributes:
      on: whether it does.
    """

    def __init__(self) -> None:
        self.on = False
        self._recording = Recording()

    def start(self) -> None:
        """Begin to record."""
        self._recording = Recording(begin=time.perf_counter_ns())
        if native.extension is not None:
            native.extension.recorder_start()
        self.on = True

    def stop(self) -> Recording:
        """End; returns what happened since the start."""
        self.on = False
        found, self._recording = self._recording, Recording()
        if native.extension is not None:
            calls, runs, left_out = native.extension.recorder_stop()
            found.calls += map(CallEvent._make, calls)
            found.runs += map(Run._make, runs)
            found.left_out += left_out
        found.end = time.perf_counter_ns()
        found.threads = {t.ident: t.name for t in threading.enumerate() if t.ident is not None}
        return found

    def add(self, kind: str, name: str, begin: int, end: int, **facts: Any) -> None:
        """A piece of work that this thread has done."""
        spans = self._recording.spans
        if len(spans) < _MOST:
            spans.append(Span(kind, name, begin, end, threading.get_ident(), facts))
        else:
            self._recording.left_out += 1

    def add_call(self, function: Any, begin: int) -> None:
        """A call of a jitted function by this thread that ends now."""
        if len(self._recording.calls) < _MOST:
            self._recording.calls.append(
                CallEvent(function, threading.get_ident(), begin, time.perf_counter_ns())
            )

    def add_run(self, program: Any, begin: int, events: list[Event]) -> None:
        """A run of a program in this thread that ends now."""
        runs = self._recording.runs
        if len(runs) < _MOST:
            now = time.perf_counter_ns()
            runs.append(Run(program, threading.get_ident(), begin, now, events))

    def span(self, kind: str, name: str, **facts: Any) -> SpanContext:
        """Records a block, with the user's line that it was entered from."""
        return SpanContext(self, kind, name, facts)


class SpanContext:
    """See :meth:`Recorder.span`."""

    def __init__(self, recorder: Recorder, kind: str, name: str, facts: dict[str, Any]) -> None:
        self._recorder = recorder
        self._kind = kind
        self._name = name
        self._facts = facts
        self._begin: int | None = None

    def __enter__(self) -> None:
        if self._recorder.on:
            line = user_line()
            if line is not None:
                self._facts["line"] = str(line)
            self._begin = time.perf_counter_ns()

    def __exit__(self, *error: object) -> None:
        if self._begin is not None and self._recorder.on:
            now = time.perf_counter_ns()
            self._recorder.add(self._kind, self._name, self._begin, now, **self._facts)


recorder: Final = Recorder()
"""The one recorder of the process."""
