"""A recording as one page: time line, kernels with their equations and code, the user's lines.

Start at :func:`recording_page`.
"""

from __future__ import annotations

from html import escape

from functrax.core.events.recorder import Recording
from functrax.core.records import field, record
from functrax.explanation.page.document import Document, html_table
from functrax.explanation.page.kernels import KernelPages, Sources
from functrax.explanation.page.time_line import TimelineEvent, about_left_out, timeline_data
from functrax.explanation.record import Explanation, KernelFacts
from functrax.explanation.tables import TextTable, count, seconds
from functrax.profiler.chrome import TimedWork, pieces
from functrax.profiler.instructions import InstructionFacts
from functrax.profiler.tables import CONTAINERS, Report, Row, rates

#: A kernel: the number of its program on the page, and its number in the program; or what an
#: instruction is called that is in no explained program.
_Key = tuple[int, int] | str


@record(frozen=False, eq=False)
class _Totals:
    """What the runs of a kernel took together."""

    facts: InstructionFacts
    count: int = 0
    seconds: float = 0.0
    nbytes: int = 0
    flops: int = 0


@record(frozen=False, eq=False)
class _Programs:
    """The programs of a recording, numbered in the order in which they are met."""

    numbers: dict[int, int] = field(default_factory=dict)
    explanations: list[Explanation] = field(default_factory=list)

    def key(self, x: InstructionFacts) -> _Key:
        """What tells the kernel of an instruction from others."""
        if x.explanation is None or x.explained is None:
            return f"{x.kind} {x.name}"
        number = self.numbers.setdefault(id(x.explanation), len(self.explanations))
        if number == len(self.explanations):
            self.explanations.append(x.explanation)
        return number, x.explained.number


def recording_page(recording: Recording, report: Report) -> str:
    """The text of the page of a recording, whose report is known."""
    programs = _Programs()
    totals: dict[_Key, _Totals] = {}
    events = []
    for piece in pieces(recording):
        key: _Key = ""
        if piece.instruction is not None and piece.instruction.kind not in CONTAINERS:
            key = programs.key(piece.instruction)
            _add(totals.setdefault(key, _Totals(piece.instruction)), piece)
        events.append(_event(piece, recording.begin, key))
    data = timeline_data(events, recording.threads)
    document = Document("Recording", _facts(report, programs))
    document.timeline(data, "A row for each thread, and below it what lies inside."
                      + about_left_out(data))  # fmt: skip
    sources = Sources()
    kernels = KernelPages(document, sources)
    for n, e in enumerate(programs.explanations):
        kernels.add_lines(e, f"p{n}-", f"{e.name} ")
    if totals:
        document.section(
            "kernels", "Kernels", _kernel_table(totals, programs, report.seconds, sources)
        )
    for name, title, rows in (
        ("functions", "Calls of jitted functions", report.functions),
        ("work", "Other work", report.work),
    ):
        if rows:
            document.section(name, title, html_table(_row_table(name, title, rows, report.seconds)))
    if programs.explanations:
        document.section("details", "Each kernel", *_details(programs, totals, kernels))
        document.section("lines", "Lines", *sources.html())
    return document.html()


def _facts(report: Report, programs: _Programs) -> list[str]:
    known = count(len(programs.explanations), "program")
    facts = [f"Recorded {report.seconds * 1e3:.3f} ms: {known}."]
    if report.left_out:
        facts.append(f"{report.left_out} events more were not kept.")
    return facts


def _add(totals: _Totals, piece: TimedWork) -> None:
    x = piece.instruction
    assert x is not None
    totals.count += x.completes
    totals.seconds += (piece.end - piece.begin) / 1e9
    totals.nbytes += x.nbytes
    totals.flops += x.flops


def _event(piece: TimedWork, begin: int, key: _Key) -> TimelineEvent:
    took = (piece.end - piece.begin) / 1e3
    at = (piece.begin - begin) / 1e3
    about = _anchor(key)
    return TimelineEvent(piece.name, piece.kind, at, took, piece.thread, piece.facts, about)


def _anchor(key: _Key) -> str:
    return "" if isinstance(key, str) else f"p{key[0]}-kernel-{key[1]}"


def _kernel_table(
    totals: dict[_Key, _Totals], programs: _Programs, whole: float, sources: Sources
) -> str:
    """Each kernel of each program, the longest first."""
    order = sorted(totals, key=lambda key: -totals[key].seconds)
    head = ["kernel", "program", "count", "total", "mean", "%", "GB/s", "GFLOP/s", "lines"]
    rows = [head]
    for key in order:
        x = totals[key]
        program = "" if isinstance(key, str) else programs.explanations[key[0]].name
        rows.append(
            [
                x.facts.name if isinstance(key, str) else f"#{key[1]} {x.facts.name}",
                program,
                *_times(x.count, x.seconds, whole),
                *("" if r is None else f"{r:.2f}" for r in rates(x.seconds, x.nbytes, x.flops)),
                ", ".join(x.facts.lines),
            ]
        )

    def cell(row: int, column: int, text: str) -> str:
        if column == 0 and _anchor(order[row]):
            return f'<a href="#{_anchor(order[row])}">{escape(text)}</a>'
        if column == len(head) - 1:
            return ", ".join(map(sources.link, totals[order[row]].facts.lines))
        return escape(text)

    return html_table(TextTable("kernels", "Kernels", rows, frozenset({0, 1, len(head) - 1})), cell)


def _row_table(name: str, title: str, rows: tuple[Row, ...], whole: float) -> TextTable:
    cells = [[row.name, *_times(row.count, row.seconds, whole)] for row in rows]
    return TextTable(name, title, [["name", "count", "total", "mean", "%"], *cells], frozenset({0}))


def _times(times: int, took: float, whole: float) -> list[str]:
    mean = took / times if times else 0.0
    share = 100 * took / whole if whole else 0.0
    return [str(times), seconds(took), seconds(mean), f"{share:.1f}"]


def _details(programs: _Programs, totals: dict[_Key, _Totals], kernels: KernelPages) -> list[str]:
    parts = []
    for n, e in enumerate(programs.explanations):

        def facts(k: KernelFacts, n: int = n) -> str:
            x = totals.get((n, k.number))
            return "" if x is None else f"ran {count(x.count, 'time')}, {seconds(x.seconds)} in all"

        parts += [f"<h3>{escape(e.name)}</h3>", kernels.html(e, f"p{n}-", facts)]
    return parts
