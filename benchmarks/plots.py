"""Draw the tables of results, and write the page that shows them: ``python -m benchmarks.plots``.

Nothing is measured.  The tables of RESULTS*.md enter, each with the date, commit and machine that
stand above it; an SVG for each goes to docs/images, and docs/measured.md shows them.  A row that
misses a target is drawn as missed, and listed with what it reached.

Start at :func:`main`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
DOCS = FOLDER.parent / "docs"
#: By the files of results, the sections that are drawn, and what their figures are called.
DRAWN = {
    "RESULTS.md": {
        "Element-wise, reductions, normalisations": "elementwise",
        "Contractions and models": "contractions",
        "Control flow, random numbers, ordering": "control",
        "Call path, eager mode, compile time, size": "calls",
        "Rows measured again": "again",
    },
    "RESULTS_LIBRARIES.md": {
        "Libraries written for JAX": "libraries",
        "Operations at middle sizes": "operations",
    },
    "RESULTS_RESEARCH.md": {"Research programs against JAX": "research"},
    "RESULTS_GPU.md": {"Results on a GPU": "gpu"},
}
JAX = "JAX jit"
MARKERS = {JAX: "o", "JAX": "o", "PyTorch": "s", "torch.compile": "^", "NumPy": "v", "Dr.Jit": "D"}
COLOURS = {JAX: "tab:blue", "JAX": "tab:blue", "PyTorch": "tab:orange", "NumPy": "tab:gray"}
COLOURS |= {"torch.compile": "tab:purple", "Dr.Jit": "tab:green"}
TARGETS = "targets"  # the column of tables that say in it which targets are missed
LONG = 100  # a table of more rows is drawn as one curve


class Row(NamedTuple):
    """A row of a table.

    Attributes:
      name: what was measured.
      ratios: by the peers that ran it, their time over that of functrax.
      target: the ratio to JAX that was aimed at, or None.
      reached: all targets, with what was reached.
      missed: whether one of them was missed.
    """

    name: str
    ratios: dict[str, float]
    target: float | None
    reached: str
    missed: bool


class Table(NamedTuple):
    """A table, and what stands above it: its heading, the run, and how the machine measured."""

    heading: str
    figure: str
    run: str
    machine: str
    rows: list[Row]


def number(cell: str) -> float | None:
    """The number at the beginning of a cell, or None."""
    found = re.match(r"\d[\d,]*\.?\d*", cell)
    return float(found[0].replace(",", "")) if found else None


def row(header: list[str], cells: list[str]) -> Row:
    """A row of a table by the cells of its line: times, or ratios, which end with ``×``."""
    values = dict(zip(header, cells))
    mine = number(values[header[1]])
    found = {peer: number(values.get(peer, "")) for peer in MARKERS}
    ratios = {
        peer: x if values[peer].endswith("×") else x / mine
        for peer, x in found.items()
        if x and mine
    }
    if TARGETS in values:
        targets = values[TARGETS].removeprefix("missed: ")
        times = ", ".join(
            [values[header[1]] + " µs", *(f"{p} {r:.2f}×" for p, r in ratios.items())]
        )
        return Row(values["row"], ratios, None, f"{targets}: {times}", values[TARGETS] != targets)
    reached = values["target: reached"].replace("**", "")
    target = re.search(rf"≥ ([\d.]+)× {JAX}", reached)
    missed = "missed" in values["verdict"]
    return Row(values["row"], ratios, float(target[1]) if target else None, reached, missed)


def tables(text: str, drawn: dict[str, str]) -> Iterator[Table]:
    """The tables of a file that are drawn: of each heading the first one with verdicts."""
    heading = run = machine = ""
    header: list[str] = []
    rows: list[Row] = []
    left = dict(drawn)
    for line in [*text.splitlines(), ""]:
        if found := re.match(r"#+ (.*)", line):
            heading = found[1]
        elif re.match(r"\d{4}-\d\d-\d\d, commit ", line):
            run = line.rstrip(".")
        elif found := re.match(r"(Copy .*)\.$", line) or re.search(
            r"\((copy [^)]*GFLOP/s)\)", line
        ):
            machine = found[1][0].upper() + found[1][1:]
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not header:
                header = cells
            elif {"verdict", TARGETS} & set(header) and not cells[0].startswith("---"):
                rows.append(row(header, cells))
            continue
        if rows and heading in left:
            yield Table(heading, left.pop(heading), run, machine, rows)
        header, rows = [], []


def all_tables() -> list[Table]:
    """The tables of all files."""
    found = []
    for name, drawn in DRAWN.items():
        found += tables((FOLDER / name).read_text(encoding="utf-8"), drawn)
    assert [t.figure for t in found] == [f for drawn in DRAWN.values() for f in drawn.values()]
    return found


def when(table: Table) -> str:
    """The date, the commit, the machine and Python of a run."""
    return table.run.split(";")[0]


def draw(table: Table, path: Path) -> None:
    """Each row's ratios on a line, its target, and its name in red if a target is missed."""
    from matplotlib.figure import Figure

    rows = [r for r in table.rows if r.ratios][::-1]
    figure = Figure(figsize=(7, 0.9 + 0.2 * len(rows)), layout="constrained")
    ax = figure.subplots()
    for peer, marker in MARKERS.items():
        points = [(r.ratios[peer], n) for n, r in enumerate(rows) if peer in r.ratios]
        if points:
            ax.plot(*zip(*points), marker, color=COLOURS[peer], markersize=4, label=peer)
    goals = [(r.target, n) for n, r in enumerate(rows) if r.target]
    if goals:
        ax.plot(*zip(*goals), "|", color="black", markersize=9, label="target for JAX")
    ax.axvline(1, color="gray", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yticks(range(len(rows)), [r.name + " ✗" * r.missed for r in rows], fontsize=7)
    for label, r in zip(ax.get_yticklabels(), rows):
        label.set_color("tab:red" if r.missed else "black")
    ax.set(ylim=(-1, len(rows)), xlabel="time of the peer / time of functrax")
    figure.supxlabel(when(table), fontsize=7)
    ax.grid(axis="x", alpha=0.3)
    figure.legend(fontsize=7, loc="outside upper center", ncols=5)
    figure.savefig(path, metadata={"Date": None})


def draw_curve(table: Table, path: Path) -> None:
    """The ratios to JAX in order, those that miss a target marked and named."""
    from matplotlib.figure import Figure

    rows = sorted((r for r in table.rows if JAX in r.ratios), key=lambda r: r.ratios[JAX])
    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    ratios = [r.ratios[JAX] for r in rows]
    ax.plot(ratios, color=COLOURS[JAX], label=f"{len(rows)} operations in order")
    missed = [(n, r) for n, r in enumerate(rows) if r.missed]
    places = [n for n, _ in missed]
    ax.plot(places, [ratios[n] for n in places], "x", color="tab:red", label="target missed")
    for k, (n, r) in enumerate(missed):
        place = (10, 6 * (k - len(missed) / 2))
        options = {"textcoords": "offset points", "fontsize": 6, "color": "tab:red"}
        ax.annotate(r.name + " ✗", (n, ratios[n]), xytext=place, **options)
    ax.axhline(1, color="gray", linewidth=0.8)
    ax.set(yscale="log", ylabel="time of JAX / time of functrax", xlabel="operations")
    figure.supxlabel(when(table), fontsize=7)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})


def section(table: Table) -> Iterator[str]:
    """A table's part of the page."""
    missed = [r for r in table.rows if r.missed]
    yield f"## {table.heading}\n"
    misses = f"{len(missed)} misses" if len(missed) == 1 else f"{len(missed)} miss"
    yield f"{table.run}. {len(table.rows)} rows, of which {misses} a target.\n"
    if table.machine:
        yield f"{table.machine}.\n"
    yield f"![The ratios of the rows below]({image(table)})\n"
    if missed:
        yield "| missed | target: reached |\n|---|---|"
        yield "\n".join(f"| {r.name} | {r.reached} |" for r in missed) + "\n"


def image(table: Table) -> str:
    return f"images/measured_{table.figure}.svg"


def page(found: Iterable[Table]) -> str:
    """The text of docs/measured.md."""
    return "\n".join([ABOUT, *[part for table in found for part in section(table)]])


ABOUT = """# Measured

Times of other libraries over times of functrax, same program, same run: to the right of 1, functrax
is faster. A black bar is the target for JAX's ratio. A row in red with ✗ misses a target, that one
or another; these rows are listed with what they reached, and `benchmarks/misses.md` says why.
Machines are shared, so single rows vary by a tenth between runs. `benchmarks/README.md` says how
rows are measured.

`python -m benchmarks.plots` makes this page of the tables in `benchmarks/RESULTS*.md`, and
`bash scripts/benchmark.sh` measures them.
"""


def main() -> None:
    """Draw all tables and write the page."""
    import matplotlib

    from scripts.make_figures import STYLE, cleaned

    matplotlib.rcParams.update(STYLE)
    found = all_tables()
    for table in found:
        path = DOCS / image(table)
        (draw_curve if len(table.rows) > LONG else draw)(table, path)
        path.write_text(cleaned(path.read_text(encoding="utf-8")), encoding="utf-8")
    (DOCS / "measured.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
