"""A recording in Chrome's trace format, which Perfetto reads too.

A JSON object whose ``traceEvents`` have a name, a category, a begin and a duration in microseconds;
those of one thread lie inside one another.  Start at :func:`write`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from functrax.core.events.recorder import Recording
from functrax.profiler.instructions import InstructionFacts, facts_of
from functrax.transforms.arguments.flat import name_of


def write(recording: Recording, path: Path) -> None:
    """Write a recording to a file."""
    document = {"traceEvents": trace_events(recording), "displayTimeUnit": "ms"}
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


def trace_events(recording: Recording) -> list[dict[str, Any]]:
    """The events of a recording, outer ones before those inside them."""
    events = []
    for span in recording.spans:
        name = f"{span.kind} {span.name}" if span.kind != "user" else span.name
        events.append(_event(name, span.kind, span.begin, span.end, span.thread, span.facts))
    for call in recording.calls:
        name = name_of(call.function)
        events.append(_event(name, "python call", call.begin, call.end, call.thread, {}))
    known: dict[int, dict[tuple[int, int], InstructionFacts]] = {}
    for run in recording.runs:
        program = run.program
        events.append(_event(f"run {program.name}", "run", run.begin, run.end, run.thread, {}))
        facts = known.get(id(program))
        if facts is None:
            facts = known[id(program)] = facts_of(program)
        for number, place, begin, end in run.events:
            x = facts[number, place]
            events.append(_event(x.name, x.kind, begin, end, run.thread, _args(x)))
    for event in events:
        event["ts"] = (event["ts"] - recording.begin) / 1e3
        event["dur"] /= 1e3
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


def _event(
    name: str, category: str, begin: int, end: int, thread: int, facts: dict[str, Any]
) -> dict[str, Any]:
    args = {k: v if isinstance(v, (int, float, str, list)) else str(v) for k, v in facts.items()}
    return {
        "name": name, "cat": category, "ph": "X", "ts": begin, "dur": end - begin,
        "pid": os.getpid(), "tid": thread, "args": args,
    }  # fmt: skip
