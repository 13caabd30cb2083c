"""A recording as a table: what took how long, the longest first.

Start at :func:`report_of`.
"""

from __future__ import annotations

from collections.abc import Iterable

from functrax.core.events.recorder import Recording, Span
from functrax.core.records import record
from functrax.profiler.instructions import instruction_events
from functrax.transforms.arguments.flat import name_of

#: Instructions that contain others, whose time is that of those.
CONTAINERS = frozenset({"loop", "branch"})
_MOST_ROWS, _MOST_LINES = 40, 3


@record
class Row:
    """One kernel, function or kind of work.

    Args:
      name: what it is called.
      kind: what it is.
      count: how often it ran.
      seconds: in all.
      lines: the user's lines that it computes.
      gigabytes_per_second: predicted bytes by time; None if not known.
      gigaflops_per_second: predicted operations by time; None if not known.
    """

    name: str
    kind: str
    count: int
    seconds: float
    lines: tuple[str, ...] = ()
    gigabytes_per_second: float | None = None
    gigaflops_per_second: float | None = None


@record
class Report:
    """What a recording shows.  Prints as tables.

    Args:
      seconds: how long the recording was.
      kernels: kernels, calls of Python functions and copies inside programs, the longest first.
      functions: calls of jitted functions, with all that is inside them.
      work: tracing, the stages of the compiler (``assemble`` has those inside it), fetches, copies
        from one device to another, the user's own blocks.
      left_out: how many events were too many to be kept.
    """

    seconds: float
    kernels: tuple[Row, ...]
    functions: tuple[Row, ...]
    work: tuple[Row, ...]
    left_out: int = 0

    def __str__(self) -> str:
        parts = [f"recorded {self.seconds * 1e3:.3f} ms"]
        for title, rows in (
            ("kernels", self.kernels),
            ("calls of jitted functions", self.functions),
            ("other work", self.work),
        ):
            if rows:
                parts.append(_table(title, rows, self.seconds))
        if self.left_out:
            parts.append(f"{self.left_out} events more were not kept")
        return "\n\n".join(parts)

    __repr__ = __str__


def report_of(recording: Recording) -> Report:
    """The report of a recording."""
    kernels: dict[tuple[str, str, tuple[str, ...]], list[float]] = {}
    for x, begin, end, _ in instruction_events(recording):
        if x.kind not in CONTAINERS:
            sums = kernels.setdefault((x.name, x.kind, x.lines), [0, 0, 0, 0])
            for k, more in enumerate((x.completes, (end - begin) / 1e9, x.nbytes, x.flops)):
                sums[k] += more
    calls = ((name_of(c.function), "function", c.begin, c.end) for c in recording.calls)
    spans = ((_title(s), s.kind, s.begin, s.end) for s in recording.spans)
    return Report(
        (recording.end - recording.begin) / 1e9,
        _sorted(
            Row(name, kind, int(count), seconds, lines, *rates(seconds, nbytes, flops))
            for (name, kind, lines), (count, seconds, nbytes, flops) in kernels.items()
        ),
        _summed(calls),
        _summed(spans),
        recording.left_out,
    )


def _title(span: Span) -> str:
    """What the work is summed up under: a compiler's stage for all kernels together."""
    if span.kind == "user":
        return span.name
    named = span.kind in ("trace", "fetch", "transfer", "passes")
    return f"{span.kind} {span.name}" if named else span.kind


def rates(seconds: float, nbytes: float, flops: float) -> tuple[float | None, float | None]:
    """GB/s and GFLOP/s; None where nothing is known."""
    if not seconds:
        return None, None
    return (nbytes / seconds / 1e9 if nbytes else None, flops / seconds / 1e9 if flops else None)


def _summed(pieces: Iterable[tuple[str, str, int, int]]) -> tuple[Row, ...]:
    found: dict[tuple[str, str], list[float]] = {}
    for name, kind, begin, end in pieces:
        sums = found.setdefault((name, kind), [0, 0])
        sums[0] += 1
        sums[1] += (end - begin) / 1e9
    return _sorted(Row(n, kind, int(c), s) for (n, kind), (c, s) in found.items())


def _sorted(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _table(title: str, rows: tuple[Row, ...], seconds: float) -> str:
    width = max(len(title), *(min(len(r.name), 48) for r in rows))
    head = f"{title:<{width}} {'count':>8} {'total ms':>10} {'mean us':>10} {'%':>5}"
    has_rates = any(r.gigabytes_per_second for r in rows)
    if has_rates:
        head += f" {'GB/s':>7} {'GFLOP/s':>8}  lines"
    lines = [head]
    for r in rows[:_MOST_ROWS]:
        share = 100 * r.seconds / seconds if seconds else 0.0
        mean = r.seconds / r.count * 1e6
        text = (
            f"{r.name[:48]:<{width}} {r.count:8} {r.seconds * 1e3:10.3f} {mean:10.2f} {share:5.1f}"
        )
        if has_rates:
            shown = ", ".join(r.lines[:_MOST_LINES]) + (", ..." if r.lines[_MOST_LINES:] else "")
            text += (
                f" {_rate(r.gigabytes_per_second):>7} {_rate(r.gigaflops_per_second):>8}  {shown}"
            )
        lines.append(text.rstrip())
    if len(rows) > _MOST_ROWS:
        lines.append(f"... and {len(rows) - _MOST_ROWS} more")
    return "\n".join(lines)


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
