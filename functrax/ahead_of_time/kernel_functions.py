"""Kernels' modules as functions of one module, each once.

Texts of modules enter (:class:`~functrax.backends.machine_code.kernel_jit.KernelText`); names of
functions leave, and in the end their definitions.  A module has an entry, which others call by its
address, and functions that it calls by name, which modules have in common.  All become internal:
nothing else of a program can be seen by who links it.

Start at :class:`KernelFunctions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from functrax.ahead_of_time.debug_lines import DebugLines
from functrax.backends.llvm.writer import NAME
from functrax.backends.machine_code.kernel_jit import KernelText
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import VerificationError

_HEAD: Final = re.compile(r"^define (internal )?(.+?) @([\w.]+)\(")
#: Lines of a function that are instructions: not labels, not the parts of a longer one.
_INSTRUCTION: Final = re.compile(r"^  (%|store|br|call|ret|fence|tail|unreachable)")


class KernelFunctions:
    """The functions of a module that is being put together.

    Args:
      debug: writes down the users' lines.
    """

    def __init__(self, debug: DebugLines) -> None:
        self._debug = debug
        self._names: dict[str, str] = {}  # by text
        self._taken: dict[str, str] = {}  # name -> text
        self._texts: list[str] = []
        self._notes: dict[str, None] = {}

    def name(self, kernel: KernelText, line: SourceLine | None = None) -> str:
        """The name of a kernel's function, which is added the first time.

        Args:
          kernel: its module.
          line: the user's line that it computes.
        """
        known = self._names.get(kernel.text)
        if known is not None:
            return known
        plain = re.sub(r"\W", "_", kernel.name, flags=re.ASCII) or "kernel"
        name = f"{plain}.{len(self._names)}"
        self._names[kernel.text] = name
        for head, text in self._parts(kernel.text):
            if head[3] == NAME:
                self._texts.append(self._entry(name, head, text, kernel.name, line))
                continue
            before = self._taken.setdefault(head[3], text)
            if before is text:
                self._texts.append(text)
            elif before != text:
                raise VerificationError(
                    "aot: two functions have one name",
                    got=head[3],
                    fix="report this: the compiler wrote what it does not read",
                )
        return name

    def _parts(self, text: str) -> Iterator[tuple[re.Match[str], str]]:
        """The functions of a module, with their heads; its notes are noted."""
        lines: list[str] = []
        head: re.Match[str] | None = None
        for line in text.splitlines():
            if head is None:
                if not line:
                    continue
                if line.startswith("!"):
                    self._notes[line] = None
                    continue
                head = _HEAD.match(line)
                if head is None:
                    raise VerificationError(
                        "aot: a kernel's text is not functions",
                        got=line,
                        fix="report this: the compiler wrote what it does not read",
                    )
            lines.append(line)
            if line == "}":
                yield head, "\n".join(lines)
                lines, head = [], None

    def _entry(
        self, name: str, head: re.Match[str], text: str, shown: str, line: SourceLine | None
    ) -> str:
        first, *rest = text.splitlines()
        first = f"define internal {head[2]} @{name}({first[head.end() :]}"
        mark = self._debug.function(shown, line)
        if mark is not None:
            first = f"{first.removesuffix('{')}!dbg {mark.function} {{"
            rest = [f"{x}, !dbg {mark.place}" if _INSTRUCTION.match(x) else x for x in rest]
        return "\n".join([first, *rest])

    def definitions(self) -> list[str]:
        """The texts of all functions, and the notes that they refer to."""
        return [*self._texts, *self._notes]
