"""An explanation as one page: picture, tables, kernels, the user's lines, time line.

Start at :func:`explanation_page`.
"""

from __future__ import annotations

from html import escape

from functrax.explanation.drawing import edge_anchor, explanation_svg
from functrax.explanation.page.document import Document, html_table
from functrax.explanation.page.kernels import KernelPages, Sources
from functrax.explanation.page.time_line import TimelineEvent, about_left_out, timeline_data
from functrax.explanation.record import Explanation
from functrax.explanation.tables import (
    TextTable,
    compile_text,
    count,
    explanation_tables,
    head_lines,
    memory_text,
)
from functrax.explanation.timeline import trace_events


def explanation_page(e: Explanation) -> str:
    """The text of the page of an explanation."""
    document = Document(e.name, head_lines(e))
    sources = Sources()
    kernels = KernelPages(document, sources)
    kernels.add_lines(e)
    document.section(
        "picture",
        "Plan",
        '<div class="scroll plan" tabindex="0" role="region" aria-label="Plan">',
        explanation_svg(e, linked=True),
        "</div>",
    )
    for table in explanation_tables(e):
        document.section(table.name, table.title, _linked_table(e, table, sources))
    document.section("details", "Each kernel", kernels.html(e))
    document.section("lines", "Lines", *sources.html())
    _timeline(document, e)
    document.section("programs", "Programs", *_programs(document, e))
    document.section("memory", "Memory", f"<p>{escape(memory_text(e))}</p>", _memory(document, e))
    document.section("compilation", "Compilation", _compilation(e))
    return document.html()


def _linked_table(e: Explanation, table: TextTable, sources: Sources) -> str:
    """A table whose numbers of kernels and whose lines lead to them."""
    first: dict[str, int] = {}  # the first row of each pair of ends
    for k, edge in enumerate(e.edges):
        first.setdefault(edge_anchor(edge), k)
    rows_of_edges = {k: anchor for anchor, k in first.items()}
    ends = {"edges": 2, "refused": 0}.get(table.name, 1)  # columns that number kernels
    ends = 0 if table.name == "transfers" else ends
    last = len(table.rows[0]) - 1

    def cell(row: int, column: int, text: str) -> str:
        if column < ends and text.isdigit():
            return f'<a href="#kernel-{text}">#{text}</a>'
        if column == last and table.name == "kernels":
            return ", ".join(sources.link(str(line)) for line in e.kernels[row].lines)
        if column == last:
            return sources.link(text)
        return escape(text)

    def anchor(row: int) -> str:
        if table.name == "kernels":
            return f"row-{row}"
        return rows_of_edges.get(row, "") if table.name == "edges" else ""

    return html_table(table, cell, anchor)


def _timeline(document: Document, e: Explanation) -> None:
    events = trace_events(e)
    threads = {x["tid"]: x["args"]["name"] for x in events if x["ph"] == "M"}
    data = timeline_data(
        (
            TimelineEvent(
                x["name"],
                x["cat"],
                x["ts"],
                x["dur"],
                x["tid"],
                {k: v for k, v in x["args"].items() if k != "number"},
                f"kernel-{x['args']['number']}" if "number" in x["args"] else "",
            )
            for x in events
            if x["ph"] == "X"
        ),
        threads,
    )
    measured = any(k.measured for k in e.kernels)
    known = "measured" if measured else "predicted"
    about = f"How this program was compiled, and a run of its kernels with {known} times."
    document.timeline(data, about + about_left_out(data))


def _programs(document: Document, e: Explanation) -> list[str]:
    parts = [document.unfolded("As traced", str(e.source))]
    for step in e.passes:
        if step.after is not step.before:
            title = (
                f"After {step.name}: {count(step.rewrites, 'rewrite')}, {step.milliseconds:.2f} ms"
            )
            parts.append(document.unfolded(title, str(step.after)))
    return parts


def _memory(document: Document, e: Explanation) -> str:
    return document.unfolded("Where each value lies, and when", e.memory_plan)


def _compilation(e: Explanation) -> str:
    rows = [["stage", "milliseconds"], *([k, f"{ms:.2f}"] for k, ms in e.compile_ms.items())]
    table = TextTable("compilation", "Stages of compilation", rows, frozenset({0}))
    made = compile_text(e).splitlines()[-1]
    return f"<p>{escape(made)}</p>" + html_table(table)
