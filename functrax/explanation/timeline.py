"""Time lines in Chrome's trace format: compilation, then the launches of one run.

The format is Google's "Trace Event Format": a JSON object whose ``traceEvents`` have a name, a
category, a begin and a duration in microseconds.  Start at :func:`write_trace`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from functrax.explanation.record import Explanation, KernelFacts


def write_trace(e: Explanation, path: str | os.PathLike[str]) -> None:
    """Write the time line of an explanation to a file."""
    text = json.dumps({"traceEvents": trace_events(e), "displayTimeUnit": "ms"}, indent=1)
    Path(path).write_text(text + "\n", encoding="utf-8")


def trace_events(e: Explanation) -> list[dict[str, Any]]:
    """The events: one thread for compilation, one for the run behind it."""
    events = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}
        for tid, name in ((1, "compilation"), (2, "run"))
    ]
    end = _compilation(e, events)
    _run(e, events, end)
    return events


def _compilation(e: Explanation, events: list[dict[str, Any]]) -> float:
    """Tracing first, then what the compiler logged; returns where it ends."""
    log = e.compiled.log.events
    traced = e.compile_ms["trace"] * 1e3
    events.append(_event(f"trace {e.name}", "trace", 0.0, traced, 1, {}))
    begin = min((x.begin for x in log), default=0.0)
    end = traced
    for x in log:
        start = traced + (x.begin - begin) * 1e6
        name = f"{x.stage} {x.name}" if x.name else x.stage
        events.append(_event(name, x.stage, start, x.span * 1e3, 1, {}))
        end = max(end, start + x.span * 1e3)
    return end


def _run(e: Explanation, events: list[dict[str, Any]], begin: float) -> None:
    now = begin
    for number in e.timeline or [k.number for k in e.kernels]:
        kernel = e.kernels[number]
        took = _microseconds(kernel)
        category = "estimate" if kernel.measured is None else "measured"
        events.append(_event(kernel.name, category, now, took, 2, _facts(kernel)))
        now += took


def _microseconds(kernel: KernelFacts) -> float:
    if kernel.measured is not None:
        return kernel.measured.seconds * 1e6
    return (kernel.predicted or 0.0) * 1e6


def _facts(kernel: KernelFacts) -> dict[str, Any]:
    return {
        "number": kernel.number,
        "bytes read": kernel.bytes_read,
        "bytes written": kernel.bytes_written,
        "flops": kernel.flops,
        "transcendentals": kernel.transcendentals,
        "lines": [str(line) for line in kernel.lines],
    }


def _event(
    name: str, category: str, begin: float, took: float, thread: int, facts: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name, "cat": category, "ph": "X", "ts": round(begin, 3), "dur": round(took, 3),
        "pid": 1, "tid": thread, "args": facts,
    }  # fmt: skip
