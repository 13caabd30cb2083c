"""Where in the user's program something was made.

A :class:`SourceLine` is a code object and an instruction offset; both are at hand in a frame, and
the file, line and function are worked out only when somebody looks.  :func:`user_line` walks out
of functrax's own frames to the first frame of the user.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Hashable
from types import CodeType, FrameType

from functrax.core import native

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_MACHINERY = ("<frozen", contextlib.__file__)
_is_internal: dict[str, bool] = {}


class SourceLine:
    """One line of the user's program: ``file.py:12 in loss``, or ``cell 5, line 2 in loss``."""

    __slots__ = ("code", "offset")

    def __init__(self, code: CodeType, offset: int) -> None:
        self.code = code
        self.offset = offset

    @property
    def key(self) -> Hashable:
        """Equal for equal places, while one of them lives; found faster than the line."""
        return id(self.code), self.offset

    @property
    def file(self) -> str:
        """The file's name, as Python knows it."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line number, counted from 1."""
        target = self.offset
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if number is not None and start <= target < end:
                return number
        return line

    @property
    def function(self) -> str:
        """The name of the function that the line is in."""
        return self.code.co_name

    @property
    def name_stack(self) -> str:
        """The names of the ``named_scope``s that it ran in, with slashes between; "" for none."""
        return ""

    def __str__(self) -> str:
        cell = cell_number(self.file)
        if cell is None:
            return f"{os.path.basename(self.file)}:{self.line} in {self.function}"
        inside = "" if self.function == "<module>" else f" in {self.function}"
        return f"cell {cell}, line {self.line}{inside}"

    __repr__ = __str__

    def __reduce__(self) -> tuple[type[FixedLine], tuple[str, int, str]]:
        return FixedLine, (self.file, self.line, self.function)


class FixedLine(SourceLine):
    """A line read from a program's text, which has no code object behind it."""

    __slots__ = ("_file", "_line", "_function")

    def __init__(self, file: str, line: int, function: str) -> None:
        self._file = file
        self._line = line
        self._function = function

    @property
    def key(self) -> Hashable:
        return self._file, self._line, self._function

    @property
    def file(self) -> str:
        return self._file

    @property
    def line(self) -> int:
        return self._line

    @property
    def function(self) -> str:
        return self._function


class ScopedLine(SourceLine):
    """A line that ran inside ``named_scope``s."""

    __slots__ = ("scope",)

    def __init__(self, code: CodeType, offset: int, scope: str) -> None:
        super().__init__(code, offset)
        self.scope = scope

    @property
    def name_stack(self) -> str:
        """The names of the ``named_scope``s that it ran in, with slashes between."""
        return self.scope

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.scope}"

    __repr__ = __str__


class _Scopes(threading.local):
    """The names of the ``named_scope``s that a thread is in, with slashes between; "" in none."""

    name: str = ""


scopes: _Scopes = _Scopes() if native.extension is None else native.extension.Scopes()


def cell_number(file: str) -> int | None:
    """The number of the notebook's cell that a file of IPython stands for; None of other files.

    The file is one that nobody sees: ``/tmp/ipykernel_17/3735454125.py``.
    """
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None:
        return None
    name = getattr(shell.compile, "format_code_name", lambda name: None)(file)
    if name is None and (named := _CELL.match(file)):
        return int(named[1])
    found = None if name is None else _CELL_LABEL.fullmatch(name[1])
    return None if found is None else int(found[1])


#: Files of cells in IPython without a kernel, and what IPython calls a cell.
_CELL = re.compile(r"<ipython-input-(\d+)-")
_CELL_LABEL = re.compile(r"In\s?\[(\d+)\]")


def is_machinery(code: CodeType) -> bool:
    """Whether code is Python's machinery, which stands between functrax's frames."""
    return code.co_filename.startswith(_MACHINERY)


def is_internal(code: CodeType) -> bool:
    """Whether code is functrax's own, or Python's machinery around it."""
    name = code.co_filename
    answer = name.startswith((_PACKAGE, *_MACHINERY)) or name == "<string>"
    _is_internal[name] = answer
    return answer


def user_line() -> SourceLine | None:
    """The innermost frame outside functrax, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    known = _is_internal
    while frame is not None:
        code = frame.f_code
        internal = known.get(code.co_filename)
        if internal is None:
            internal = is_internal(code)
        if not internal:
            if scopes.name:
                return ScopedLine(code, frame.f_lasti, scopes.name)
            return SourceLine(code, frame.f_lasti)
        frame = frame.f_back
    return None
