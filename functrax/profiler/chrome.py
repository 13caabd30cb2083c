"""A recording in Chrome's trace format, which Perfetto reads too.

A JSON object whose ``traceEvents`` have a name, a category, a begin and a duration in microseconds;
those of one thread lie inside one another.  Start at :func:`write`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from functrax.core.events.recorder import Recording
from functrax.profiler.instructions import InstructionFacts, instruction_events
from functrax.transforms.arguments.flat import name_of


def write(recording: Recording, path: Path) -> None:
    """Write a recording to a file."""
    document = {"traceEvents": trace_events(recording), "displayTimeUnit": "ms"}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


class TimedWork(NamedTuple):
    """A piece of work, as a time line shows it.

    Args:
      name: what is written on it.
      kind: what it is.
      begin: nanoseconds of ``time.perf_counter_ns``.
      end: the same.
      thread: ``threading.get_ident()``.
      facts: what else is known.
      instruction: what it is if it is an instruction of a program.
    """

    name: str
    kind: str
    begin: int
    end: int
    thread: int
    facts: dict[str, Any]
    instruction: InstructionFacts | None = None


def pieces(recording: Recording) -> Iterator[TimedWork]:
    """All work of a recording, in no particular order."""
    for span in recording.spans:
        name = f"{span.kind} {span.name}" if span.kind != "user" else span.name
        yield TimedWork(name, span.kind, span.begin, span.end, span.thread, span.facts)
    for call in recording.calls:
        yield TimedWork(
            name_of(call.function), "python call", call.begin, call.end, call.thread, {}
        )
    for run in recording.runs:
        yield TimedWork(f"run {run.program.name}", "run", run.begin, run.end, run.thread, {})
    for x, begin, end, thread in instruction_events(recording):
        yield TimedWork(x.name, x.kind, begin, end, thread, _args(x), x)


def trace_events(recording: Recording) -> list[dict[str, Any]]:
    """The events of a recording, outer ones before those inside them."""
    events = [_event(piece, recording.begin) for piece in pieces(recording)]
    events.sort(key=lambda e: (e["ts"], -e["dur"]))
    return [*_names(recording), *events]


def _names(recording: Recording) -> list[dict[str, Any]]:
    used = {x.thread for x in recording.spans}
    used |= {x.thread for x in recording.calls} | {x.thread for x in recording.runs}
    return [
        {
            "name": "thread_name", "ph": "M", "pid": os.getpid(), "tid": thread,
            "args": {"name": recording.threads.get(thread, "thread")},
        }
        for thread in sorted(used)
    ]  # fmt: skip


def _args(facts: InstructionFacts) -> dict[str, Any]:
    known = {
        "lines": list(facts.lines),
        "bytes": facts.nbytes,
        "operations": facts.flops,
        "CUDA graph": facts.graph,
    }
    return {key: value for key, value in known.items() if value}


def _event(piece: TimedWork, begin: int) -> dict[str, Any]:
    args = {
        k: v if isinstance(v, (int, float, str, list)) else str(v) for k, v in piece.facts.items()
    }
    return {
        "name": piece.name, "cat": piece.kind, "ph": "X", "ts": (piece.begin - begin) / 1e3,
        "dur": (piece.end - piece.begin) / 1e3, "pid": os.getpid(), "tid": piece.thread,
        "args": args,
    }  # fmt: skip
