"""Users' lines in a module: what debuggers, profilers and sanitizers show of machine code.

A kernel is a function that the user's program calls by its name; its instructions, and the call of
it, are said to be of the line that the user wrote.

Start at :class:`DebugLines`.
"""

from __future__ import annotations

import os
from typing import Final

from functrax.core.errors.source import SourceLine
from functrax.core.records import record

#: The first number that kernels do not use for notes of their own.
_FIRST: Final = 16
_UNIT, _TYPE = f"!{_FIRST}", f"!{_FIRST + 1}"


@record
class Mark:
    """What is written behind a function, and behind its instructions.

    Args:
      function: names the function.
      place: a line in it.
    """

    function: str
    place: str


class DebugLines:
    """The notes of a module.

    Args:
      name: of the program.
      wanted: whether any are made.
    """

    def __init__(self, name: str, wanted: bool) -> None:
        self._wanted = wanted
        self._notes: list[str] = []
        self._known: dict[str, str] = {}
        self._next = _FIRST + 2
        if wanted:
            self._file = self._note(
                f'!DIFile(filename: "{_escaped(name)}.functrax", directory: "")'
            )

    def _note(self, text: str) -> str:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = f"!{self._next}"
            self._next += 1
            self._notes.append(f"{found} = {text}")
        return found

    def _file_of(self, line: SourceLine) -> str:
        folder, name = os.path.split(line.file)
        return self._note(f'!DIFile(filename: "{_escaped(name)}", directory: "{_escaped(folder)}")')

    def function(self, name: str, line: SourceLine | None) -> Mark | None:
        """The mark of a function; None where no notes are made.

        Args:
          name: what it is called by people.
          line: the user's line that it computes.
        """
        if not self._wanted:
            return None
        file, number = (self._file, 0) if line is None else (self._file_of(line), line.line)
        found = self._note(
            f'distinct !DISubprogram(name: "{_escaped(name)}", scope: {file}, file: {file}, '
            f"line: {number}, type: {_TYPE}, scopeLine: {number}, "
            f"spFlags: DISPFlagLocalToUnit | DISPFlagDefinition | DISPFlagOptimized, unit: {_UNIT})"
            f" ; {self._next}"  # each is of its own
        )
        return Mark(found, self._note(f"!DILocation(line: {number}, scope: {found})"))

    def place(self, mark: Mark, line: SourceLine | None) -> str:
        """A user's line inside of a function."""
        if line is None:
            return mark.place
        file = self._file_of(line)
        scope = self._note(
            f"!DILexicalBlockFile(scope: {mark.function}, file: {file}, discriminator: 0)"
        )
        return self._note(f"!DILocation(line: {line.line}, scope: {scope})")

    def definitions(self) -> list[str]:
        """The lines of the module that say all this."""
        if not self._wanted:
            return []
        flags = f"!{self._next}", f"!{self._next + 1}"
        return [
            f"!llvm.dbg.cu = !{{{_UNIT}}}",
            f"!llvm.module.flags = !{{{', '.join(flags)}}}",
            f"{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C11, file: {self._file}, "
            'producer: "functrax", isOptimized: true, runtimeVersion: 0, '
            "emissionKind: LineTablesOnly)",
            f"{_TYPE} = !DISubroutineType(types: !{{}})",
            f'{flags[0]} = !{{i32 2, !"Debug Info Version", i32 3}}',
            f'{flags[1]} = !{{i32 7, !"Dwarf Version", i32 4}}',
            *self._notes,
        ]


def _escaped(text: str) -> str:
    """A text between the quotes of LLVM IR."""
    plain = (32 <= x < 127 and x not in b'"\\' for x in text.encode())
    return "".join(chr(x) if p else f"\\{x:02X}" for x, p in zip(text.encode(), plain, strict=True))
