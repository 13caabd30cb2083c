"""Explanations as text.  Start at :func:`explanation_text`."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet

from functrax.core.records import record
from functrax.explanation.gpu_launches import GpuGraph, GpuLaunch, calls_of, graphs_of, launches_of
from functrax.explanation.record import Explanation, KernelFacts, ProgramLevel, Recomputed

_MOST_LINES = 3  # of the user's program, for each kernel


def explanation_text(e: Explanation) -> str:
    """The tables of an explanation: kernels, edges, refusals, memory, compilation."""
    parts = ["\n".join(head_lines(e))]
    for t in explanation_tables(e):
        parts.append("\n".join([table(t.rows, t.left), *t.notes]))
    parts.append(memory_text(e))
    parts.append(compile_text(e))
    return "\n\n".join(parts)


@record
class TextTable:
    """Rows of cells, the first row as a head.

    Args:
      name: which one it is, in a word.
      title: what it shows.
      rows: the cells.
      left: the columns that begin at the left.
      notes: what stands beneath it.
    """

    name: str
    title: str
    rows: Sequence[Sequence[str]]
    left: frozenset[int]
    notes: tuple[str, ...] = ()


def explanation_tables(e: Explanation) -> list[TextTable]:
    """The tables of an explanation that have rows, as text and pages show them."""
    tables = [_kernel_table(e)]
    launches = launches_of(e)
    if launches:
        tables.append(_launch_table(launches, tuple(map(_graph_text, graphs_of(e)))))
    if e.transfers:
        tables.append(_transfer_table(e))
    if e.edges:
        tables.append(_edge_table(e))
    if any(k.recomputed for k in e.kernels):
        tables.append(_recomputed_table(e))
    if e.compiled.refused:
        tables.append(_refusal_table(e))
    return tables


def memory_text(e: Explanation) -> str:
    """How much memory the values between kernels take."""
    return f"memory: arena {size(e.arena_bytes)}, at most {size(e.peak_bytes)} alive"


def head_lines(e: Explanation) -> tuple[str, str]:
    """The program with its types, and what a run of it does."""
    source = e.levels[0].jaxpr
    inputs = ", ".join(a.str_short() for a in source.in_avals)
    outputs = ", ".join(a.str_short() for a in source.out_avals)
    kernels = sum(k.kind == "kernel" for k in e.kernels)
    counts = count(kernels, "kernel")
    if kernels < len(e.kernels):
        counts += f", {count(len(e.kernels) - kernels, 'call')}"
    staged = f", stages {size(e.bytes_staged)}" if e.bytes_staged else ""
    return (
        f"{e.name}({inputs}) -> ({outputs})",
        f"{counts}; cost {size(e.cost)}: reads {size(e.bytes_read)}, "
        f"writes {size(e.bytes_written)}{staged}; {quantity(e.flops + e.transcendentals)}flop, "
        f"{quantity(e.transcendentals).strip()} of them transcendental",
    )


def _kernel_table(e: Explanation) -> TextTable:
    measured, stages = any(k.measured for k in e.kernels), bool(e.bytes_staged)
    head = ["#", "kernel", "eqns", "calls", "reads", "writes", "flop"]
    head[-1:-1] = ["stages"] if stages else []
    predicts = any(k.predicted is not None for k in e.kernels)
    rates = [*(["predicted"] if predicts else []), "time", "GB/s", "GFLOP/s"]
    head += rates if measured else []
    rows = [[*head, "lines"]]
    for k in e.kernels:
        calls = "?" if k.calls is None else str(k.calls)
        name = k.name if k.kind == "kernel" else f"{k.name} (call)"
        flop = quantity(k.flops + k.transcendentals).strip()
        row = [
            str(k.number),
            name + _inside(e.levels[k.level]),
            str(len(k.eqns)),
            calls,
            size(k.bytes_read),
            size(k.bytes_written),
            *([size(k.bytes_staged)] if stages else []),
            flop,
        ]
        row += _rates(k)[-len(rates) :] if measured else []
        rows.append([*row, _lines(k)])
    return TextTable("kernels", "Kernels", rows, frozenset({1, len(rows[0]) - 1}), calls_of(e))


def _launch_table(launches: Sequence[GpuLaunch], notes: tuple[str, ...]) -> TextTable:
    """What is launched on a GPU; what is not known there is left out."""
    head = ["#", "grid", "block", "unit", "shared"]
    known = all(x.registers is not None for x in launches)
    rows = [[*head, *(["registers", "local", "occupancy"] if known else []), "function"]]
    for x in launches:
        unit = "thread" if x.group == 1 else f"{x.group} threads"
        row = [str(x.number), str(x.grid), str(x.block), unit, size(x.shared)]
        if known:
            row += [f"{x.registers}", size(x.local or 0), f"{x.occupancy or 0:.0%}"]
        rows.append([*row, x.name])
    return TextTable("launches", "Launches on the GPU", rows, frozenset({len(rows[0]) - 1}), notes)


def _graph_text(graph: GpuGraph) -> str:
    numbers = ", ".join(f"#{n}" for n in graph.numbers)
    return f"one CUDA graph of {count(graph.nodes, 'node')} from the second run on: {numbers}"


def _inside(level: ProgramLevel) -> str:
    return f" in {level.title}" if level.title else ""


def _rates(k: KernelFacts) -> list[str]:
    predicted = "" if k.predicted is None else seconds(k.predicted)
    if k.measured is None:
        return [predicted, "", "", ""]
    rates = [
        "" if r is None else f"{r:.2f}" for r in (k.gigabytes_per_second, k.gigaflops_per_second)
    ]
    return [predicted, seconds(k.measured.seconds), *rates]


def _lines(k: KernelFacts) -> str:
    lines = [f"{line}" for line in k.lines]
    more = f", {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    return ", ".join(lines[:_MOST_LINES]) + more


def _transfer_table(e: Explanation) -> TextTable:
    rows = [["argument", "type", "from", "to", "bytes", "time"]]
    for x in e.transfers:
        time = "" if x.seconds is None else seconds(x.seconds)
        rows.append([x.name, x.aval.str_short(), x.source, x.target, size(x.nbytes), time])
    return TextTable("transfers", "Arguments copied to the device", rows, frozenset({0, 1, 2, 3}))


def _edge_table(e: Explanation) -> TextTable:
    names = {(k.level, k.place): str(k.number) for k in e.kernels}
    rows = [["from", "to", "value", "bytes", "why it is not one kernel"]]
    for edge in e.edges:
        eqns = e.levels[edge.level].jaxpr.eqns
        ends = [
            names.get((edge.level, k), eqns[k].primitive.name) for k in (edge.source, edge.target)
        ]
        rows.append([*ends, edge.value, size(edge.nbytes), edge.reason])
    return TextTable("edges", "Values between kernels", rows, frozenset({2, 4}))


def _recomputed_table(e: Explanation) -> TextTable:
    rows = [["kernel", "equation", "times", "why it is not stored", "line"]]
    for k in e.kernels:
        for x in k.recomputed:
            result = x.eqn.outvars[0].aval.str_short()
            what = f"{result} = {x.eqn.primitive.name}"
            rows.append([str(k.number), what, times(x), x.reason, str(x.eqn.source or "")])
    return TextTable("recomputed", "Computed again", rows, frozenset({1, 3, 4}))


def times(x: Recomputed) -> str:
    """How often an equation is computed for an element: ``5``, ``0.1``."""
    return f"{x.evaluations:.0f}" if x.evaluations >= 10 else f"{x.evaluations:.2g}"


def _refusal_table(e: Explanation) -> TextTable:
    rows = [["in parts or by a call", "why it is not one kernel", "line"]]
    for eqn, refusal in e.compiled.refused:
        name = str(eqn.params.get("name", eqn.primitive.name))
        rows.append([name, refusal.reason, str(eqn.source or "")])
    return TextTable("refused", "Not one kernel", rows, frozenset({0, 1, 2}))


def compile_text(e: Explanation) -> str:
    """How long compilation took, and where machine code came from."""
    times = ", ".join(f"{stage} {ms:.2f}" for stage, ms in e.compile_ms.items())
    words = {"llvm": "compiled by LLVM", "memory": "found in memory", "disk": "found on disk"}
    origins = [f"{e.origins[o]} {text}" for o, text in words.items() if e.origins.get(o)]
    total = sum(e.compile_ms.values())
    made_for = e.compiled.target
    processor = (
        f"{made_for.name}, warps of {made_for.warp} threads"
        if made_for.warp
        else f"vectors of {made_for.vector_bytes} bytes, "
        f"second cache of {size(made_for.second_cache)}"
    )
    return (
        f"compilation: {total:.2f} ms ({times})\n"
        f"machine code: {', '.join(origins) or 'none'}; for {processor}"
    )


def table(rows: Sequence[Sequence[str]], left: AbstractSet[int]) -> str:
    """Rows of cells in columns, the first row as a head; columns in ``left`` begin at the left."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if c in left else cell.rjust(w)
            for c, (cell, w) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def count(number: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Bytes: ``512 B``, ``1.5 kB``."""
    return quantity(number) + "B"


def quantity(number: int) -> str:
    """A number and a prefix: ``512 ``, ``1.5 k``."""
    value, prefixes = float(number), ["", "k", "M", "G", "T"]
    while value >= 999.95 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.1f} {prefixes[0]}" if prefixes[0] else f"{number} "


def seconds(value: float) -> str:
    """A time: ``1.50 us``."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if value >= factor:
            return f"{value / factor:.2f} {unit}"
    return f"{value / 1e-6:.2f} us"
