"""Kernels and the user's lines, as parts of a page that lead to each other.

Start at :class:`KernelPages`.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from functrax.core.errors.source import SourceLine, cell_number
from functrax.core.ir.jaxpr import Eqn, Var
from functrax.core.ir.printing import eqn_text, names_beside, variable_names
from functrax.explanation.page.document import Document
from functrax.explanation.record import Access, Edge, Explanation, KernelFacts, Recomputed
from functrax.explanation.tables import count, quantity, seconds, size, times

_AROUND: Final = 3  # lines of a source that are shown before and after one that is used


class Sources:
    """The user's lines, and which kernels compute them."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._lines: dict[str, dict[int, dict[str, str]]] = {}
        self._known: dict[str, str] = {}

    def add(self, line: SourceLine, kernel: str, label: str) -> None:
        """Note that a kernel, by the name that links call it, computes a line."""
        self._files.setdefault(line.file, len(self._files))
        self._lines.setdefault(line.file, {}).setdefault(line.line, {})[kernel] = label
        self._known.setdefault(str(line), self._anchor(line.file, line.line))

    def _anchor(self, file: str, line: int) -> str:
        return f"line-{self._files[file]}-{line}"

    def link(self, text: str) -> str:
        """A line as it prints, with a link to it if the page shows it."""
        known = self._known.get(text)
        return escape(text) if known is None else f'<a href="#{known}">{escape(text)}</a>'

    def html(self) -> Iterator[str]:
        """A listing for each file."""
        for file, used in self._lines.items():
            cell = cell_number(file)
            yield f"<h3>{escape(file if cell is None else f'cell {cell}')}</h3>"
            yield (
                '<div class="scroll source" tabindex="0" role="region" '
                f'aria-label="{escape(os.path.basename(file))}">'
            )
            text = linecache.getlines(file)
            last = 0
            for number in _around(used, len(text)):
                if last and number > last + 1:
                    yield '<div class="gap">⋯</div>'
                yield self._line(file, number, text, used.get(number, {}))
                last = number
            yield "</div>"

    def _line(self, file: str, number: int, text: list[str], by: Mapping[str, str]) -> str:
        code = text[number - 1].rstrip("\n") if number <= len(text) else ""
        links = " ".join(f'<a href="#{k}">{escape(label)}</a>' for k, label in by.items())
        style = "line used searched" if by else "line"
        name = f' id="{self._anchor(file, number)}"' if by else ""
        return (
            f'<div class="{style}"{name}><span class="count">{number}</span>'
            f'<code>{escape(code)}</code><span class="by">{links}</span></div>'
        )


def _around(used: Iterable[int], total: int) -> list[int]:
    """The numbers of lines to show; those of a file that cannot be read are the used ones."""
    near = {n + k for n in used for k in range(-_AROUND, _AROUND + 1)}
    return sorted({n for n in near if 1 <= n <= total}.union(used))


class KernelPages:
    """Writes kernels for a page.

    Args:
      document: the page.
      sources: the lines that its kernels compute.
    """

    def __init__(self, document: Document, sources: Sources) -> None:
        self._document = document
        self._sources = sources

    def add_lines(self, e: Explanation, prefix: str = "", program: str = "") -> None:
        """Note which lines the kernels of a program compute, before any of them is written."""
        for k in e.kernels:
            for line in k.lines:
                self._sources.add(line, f"{prefix}kernel-{k.number}", f"{program}#{k.number}")

    def html(
        self,
        e: Explanation,
        prefix: str = "",
        facts: Callable[[KernelFacts], str] = lambda k: "",
    ) -> str:
        """The kernels of a program, each to unfold.

        Args:
          e: the program.
          prefix: of the names that links call kernels, where a page has several programs.
          facts: what else the title of a kernel says.
        """
        program = _Program(e, prefix)
        return "\n".join(self._kernel(program, k, facts(k)) for k in e.kernels)

    def _kernel(self, program: _Program, k: KernelFacts, facts: str) -> str:
        moved = f"reads {size(k.bytes_read)}, writes {size(k.bytes_written)}"
        took = f", {seconds(k.measured.seconds)}" if k.measured is not None else ""
        title = (
            f'<b>#{k.number} {escape(k.name)}</b> <span class="small">'
            f"{escape(moved + took + (', ' + facts if facts else ''))}</span>"
        )
        names = names_beside(program.names[k.level], k.eqns)
        parts = [
            f'<details class="kernel searched" id="{program.prefix}kernel-{k.number}">',
            f'<summary>{title}</summary><dl class="facts">',
            *_definitions(self._facts(program, k)),
            "</dl>",
            self._equations(k, names),
        ]
        if k.codes:
            parts.append('<div class="codes">')
            parts.append(self._document.unfolded("Loops", k.loops))
            parts.append(self._document.unfolded("LLVM IR", k.llvm))
            machine = "PTX" if program.e.compiled.target.warp else "Assembly"
            parts.append(self._document.unfolded(machine, k.assembly))
            parts.append("</div>")
        return "\n".join([*parts, "</details>"])

    def _facts(self, program: _Program, k: KernelFacts) -> Iterator[tuple[str, str]]:
        level = program.e.levels[k.level]
        calls = "an unknown number of times" if k.calls is None else count(k.calls, "time")
        where = f", in {level.title}" if level.title else ""
        yield "Launched", escape(f"{calls} in a run{where}")
        yield "Reads", _accesses(k.reads)
        yield "Writes", _accesses(k.writes)
        if k.bytes_staged:
            yield "Stages", escape(size(k.bytes_staged))
        work = f"{quantity(k.flops)}flop, {quantity(k.transcendentals)}transcendentals"
        yield "Computes", escape(work)
        if k.predicted is not None:
            yield "Predicted", escape(seconds(k.predicted))
        rates = ((k.gigabytes_per_second, "GB/s"), (k.gigaflops_per_second, "GFLOP/s"))
        if k.measured is not None:
            texts = [seconds(k.measured.seconds), *(f"{r:.2f} {unit}" for r, unit in rates if r)]
            yield "Measured", escape(", ".join(texts))
        if k.lines:
            yield "Lines", ", ".join(self._sources.link(str(line)) for line in k.lines)
        place = (k.level, k.place)
        before = [program.edge(x, x.source) for x in program.edges_to.get(place, ())]
        after = [program.edge(x, x.target) for x in program.edges_from.get(place, ())]
        if before:
            yield "From", "<br>".join(before)
        if after:
            yield "To", "<br>".join(after)

    def _equations(self, k: KernelFacts, names: Mapping[Var, str]) -> str:
        again = {x.eqn: x for x in k.recomputed}
        rows = [self._equation(eqn, names, again.get(eqn)) for eqn in k.eqns]
        return (
            '<div class="scroll source" tabindex="0" role="region" aria-label="Equations of '
            f'#{k.number}">{"".join(rows)}</div>'
        )

    def _equation(self, eqn: Eqn, names: Mapping[Var, str], again: Recomputed | None) -> str:
        often = ""
        if again is not None:
            often = (
                f'<span class="why">computed {times(again)} times: {escape(again.reason)}</span>'
            )
        line = "" if eqn.source is None else self._sources.link(str(eqn.source))
        return (
            f'<div class="line used"><code>{escape(eqn_text(eqn, names))}</code>'
            f'<span class="by">{often} {line}</span></div>'
        )


class _Program:
    """What is looked up for each kernel of a program.

    Args:
      e: the program.
      prefix: of the names that links call its kernels.
    """

    def __init__(self, e: Explanation, prefix: str) -> None:
        self.e = e
        self.prefix = prefix
        self.names = [variable_names(level.jaxpr) for level in e.levels]
        self._kernels = {(k.level, k.place): k for k in reversed(e.kernels)}
        self.edges_from: dict[tuple[int, int], list[Edge]] = {}
        self.edges_to: dict[tuple[int, int], list[Edge]] = {}
        for x in e.edges:
            self.edges_from.setdefault((x.level, x.source), []).append(x)
            self.edges_to.setdefault((x.level, x.target), []).append(x)

    def edge(self, x: Edge, end: int) -> str:
        """A value that crosses, with a link to the kernel at one end."""
        k = self._kernels.get((x.level, end))
        other = escape(self.e.levels[x.level].jaxpr.eqns[end].primitive.name)
        if k is not None:
            name = escape(k.name)
            other = f'<a href="#{self.prefix}kernel-{k.number}">#{k.number} {name}</a>'
        return f"{other} {escape(x.value)} {escape(size(x.nbytes))}: {escape(x.reason)}"


def _definitions(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in facts:
        yield f"<dt>{escape(name)}</dt><dd>{value}</dd>"


def _accesses(accesses: Sequence[Access]) -> str:
    return (
        ", ".join(f"<code>{escape(str(x))}</code> {escape(size(x.nbytes))}" for x in accesses)
        or "nothing"
    )
