"""Turns rows into Markdown: figures, ratios against targets, verdicts, first calls, problems.

``verdict`` judges one target of a row; ``table`` writes the rows of one table; ``document`` puts it
all together, and ``write`` into RESULTS.md, beside the sections that other programs wrote.
"""

from __future__ import annotations

import datetime
import platform
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.frameworks import version
from benchmarks.machine import Machine
from benchmarks.runner import Row
from benchmarks.workload import FRAMEWORKS, NAMES, UNITS, Target

RESULTS = Path(__file__).parent / "RESULTS.md"
MARK = "## The suite"
PEERS = FRAMEWORKS[1:]


def verdict(row: Row, target: Target, machine: Machine) -> tuple[str, bool | None]:
    """A target with what was reached, and whether it holds (None: cannot be said)."""
    mine = row.median("functrax")
    if target.kind == "ratio":
        return ratio_verdict(row, target, mine)
    if target.kind in ("time", "excess"):
        base = row.median("numpy") if target.kind == "excess" else 0.0
        reached = mine - base if mine is not None and base is not None else None
        unit = UNITS.get(row.workload.mode, "µs")
        text = f"≤ {amount(target.value, unit)}" + (" over NumPy" if base else "")
        met = reached is not None and reached <= target.value
        return outcome(text, reached, unit, met)
    return share_verdict(row, target, machine, mine)


def ratio_verdict(row: Row, target: Target, mine: float | None) -> tuple[str, bool | None]:
    """A target that is a ratio; a peer ended at its time limit gives a lower bound of it."""
    text = f"≥ {target.value:.3g}× {NAMES[target.peer]}"
    theirs = best_peer(row) if target.peer == "best" else row.median(target.peer)
    peer = row.measurements.get(target.peer)
    if mine and theirs is None and peer is not None and peer.at_least is not None:
        reached = peer.at_least / row.workload.per / mine
        said, met = outcome(text, reached, "× or more", reached >= target.value)
        return said, met or None
    reached = theirs / mine if mine and theirs is not None else None
    return outcome(text, reached, "×", reached is not None and reached >= target.value)


def share_verdict(
    row: Row, target: Target, machine: Machine, mine: float | None
) -> tuple[str, bool | None]:
    """A target that is a share of what the machine can do."""
    workload = row.workload
    floors = {
        "copy": (workload.bytes / machine.copy, "of copy speed"),
        "read": (workload.bytes / machine.read, "of read speed"),
        "flops": (workload.flops / machine.flops, "of fma peak"),
    }
    seconds, name = floors[target.kind]
    reached = seconds * 1e6 / (mine * workload.per) if mine else None
    text = f"≥ {target.value:.2f} {name}"
    return outcome(text, reached, "", reached is not None and reached >= target.value)


def outcome(text: str, reached: float | None, unit: str, met: bool) -> tuple[str, bool | None]:
    """A target's text with what was reached."""
    if reached is None:
        return f"{text}: –", None
    shown = amount(reached, unit) if unit in ("µs", "bytes") else f"{reached:.2f}{unit}"
    return f"{text}: **{shown}**", met


def best_peer(row: Row) -> float | None:
    """The best figure of any peer."""
    figures = [f for f in (row.median(name) for name in PEERS) if f is not None]
    return min(figures) if figures else None


def amount(value: float | None, unit: str = "µs") -> str:
    """A figure with three digits, in its unit; µs are the default and are not named."""
    if value is None:
        return "–"
    if unit == "bytes":
        return f"{value / 1e6:,.0f} MB"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def judge(row: Row, machine: Machine) -> tuple[list[str], str]:
    """The texts of a row's targets, and the row's verdict in one word."""
    results = [verdict(row, target, machine) for target in row.workload.targets]
    judged = [met for _, met in results]
    functrax = row.measurements.get("functrax")
    failed = functrax is not None and functrax.problem
    if failed or any(met is False for met in judged):
        word = "**missed**"
    elif None in judged:
        word = "met as far as measured" if True in judged else "not measured"
    elif not judged:
        word = "no target"
    else:
        word = "met"
    return [text for text, _ in results], word


def table(rows: Sequence[Row], machine: Machine) -> str:
    """The rows of one table, with a column for each framework that some row has."""
    columns = [n for n in FRAMEWORKS if any(r.median(n) is not None for r in rows)]
    head = ["row", *(NAMES[n] for n in columns), "floor", "target: reached", "verdict"]
    lines = [markdown_line(head), markdown_line(["---"] * len(head))]
    for row in rows:
        work, unit = row.workload, UNITS.get(row.workload.mode, "µs")
        floor = machine.floor(work.bytes, work.flops, work.read_only) / work.per
        texts, word = judge(row, machine)
        name = work.name + (f" ({work.note})" if work.note else "")
        figures = [amount(row.median(n), unit) for n in columns]
        shown = amount(floor) if floor else "–"
        lines.append(markdown_line([name, *figures, shown, "; ".join(texts) or "–", word]))
    return "\n".join([*lines, *in_the_mean(rows)])


def in_the_mean(rows: Sequence[Row]) -> list[str]:
    """Lines with the geometric mean, the median and the least of the ratios to JAX, if any."""
    ratios = []
    for row in rows:
        mine, theirs = row.median("functrax"), row.median("jax")
        if mine and theirs is not None and row.workload.mode not in UNITS:
            ratios.append(theirs / mine)
    if not ratios:
        return []
    text = (
        f"JAX / functrax over {len(ratios)} rows: geometric mean "
        f"{statistics.geometric_mean(ratios):.2f}, median {statistics.median(ratios):.2f}, "
        f"least {min(ratios):.2f}."
    )
    return ["", text]


def markdown_line(cells: Sequence[str]) -> str:
    """One line of a table; bars within cells are escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def first_calls(rows: Sequence[Row]) -> str:
    """Milliseconds of the first call of each steady row, in a process that had run others."""
    measured = [r for r in rows if any(m.first for m in r.measurements.values())]
    columns = [n for n in FRAMEWORKS if any(n in r.measurements for r in measured)]
    if not measured:
        return ""
    head = ["row", *(NAMES[n] for n in columns)]
    lines = [markdown_line(head), markdown_line(["---"] * len(head))]
    for row in measured:
        firsts = [getattr(row.measurements.get(n), "first", None) for n in columns]
        cells = [amount(first / 1e3 if first else None) for first in firsts]
        lines.append(markdown_line([row.workload.name, *cells]))
    return "\n".join(lines)


def problems(rows: Sequence[Row]) -> list[str]:
    """What went wrong, one line for each framework and row; what is not installed is left out."""
    return [
        f"- {row.workload.name}, {NAMES[name]}: {m.problem}"
        for row in rows
        for name, m in row.measurements.items()
        if m.problem and m.problem != "not installed"
    ]


def heading(machine: Machine, command: str) -> str:
    """Date, commit, machine and versions."""
    installed = [
        f"{NAMES.get(name, name).removesuffix(' jit')} {version(name)}"
        for name in ("functrax", "jax", "torch", "numpy", "drjit", "numba")
        if version(name) is not None
    ]
    return "\n".join(
        [
            f"{datetime.date.today()}, commit {commit()}, {machine.name}, {machine.threads} "
            f"threads, Python {platform.python_version()}; {', '.join(installed)}.",
            "",
            f"Copy {machine.copy / 1e9:.1f} GB/s (read and written), read {machine.read / 1e9:.1f} "
            f"GB/s, multiply-add peak {machine.flops / 1e9:.0f} GFLOP/s in float32.",
            "",
            f"`{command}`; medians in µs where no unit is given, alternating, blocking on results; "
            "ratios are peer / functrax.",
        ]
    )


def commit() -> str:
    """The commit that was measured, with a mark if files differ from it, where git can tell."""
    if shutil.which("git") is None:
        return "unknown"
    command = ["git", "describe", "--always", "--dirty"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=RESULTS.parent)
    return result.stdout.strip() or "unknown"


def document(tables: Mapping[str, Sequence[Row]], machine: Machine, command: str) -> str:
    """The whole section of RESULTS.md."""
    rows = [row for group in tables.values() for row in group]
    words = [judge(row, machine)[1] for row in rows]
    missed = sum("missed" in word for word in words)
    parts = [MARK, heading(machine, command)]
    parts.append(f"{len(rows)} rows: {words.count('met')} met, {missed} missed.")
    for title, group in tables.items():
        parts += [f"### {title}", table(group, machine)]
    firsts = first_calls(rows)
    if firsts:
        parts += ["### First calls, ms", firsts]
    wrong = problems(rows)
    if wrong:
        parts += ["### What did not run", "\n".join(wrong)]
    return "\n\n".join(parts) + "\n"


def write(text: str, path: Path = RESULTS) -> None:
    """Put the section into the file, in place of its older self; other sections stay."""
    before = path.read_text() if path.exists() else "# Results\n"
    head, _, rest = before.partition(MARK)
    _, more, after = rest.partition("\n## ")
    tail = f"\n## {after}" if more else ""
    path.write_text(head.rstrip("\n") + "\n\n" + text + tail)
