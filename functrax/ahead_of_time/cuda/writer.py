"""Functions of C, as text that is put together.

Start at :class:`CText`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functrax.ahead_of_time.writer import BufferAddress


class CText:
    """A function that is being written.

    Args:
      head: its first line, up to the brace.
    """

    def __init__(self, head: str) -> None:
        self._lines = [f"{head} {{"]
        self._depth = 1
        self._count = 0

    def line(self, text: str) -> None:
        """A line."""
        self._lines.append("  " * self._depth + text)

    def fresh(self, name: str) -> str:
        """The name of a variable that no other has."""
        self._count += 1
        return f"{name}_{self._count}"

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines in braces."""
        self.line(f"{head} {{".lstrip())
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def text(self) -> str:
        """The definition of the function."""
        return "\n".join([*self._lines, "}", ""])


def shown(address: BufferAddress) -> str:
    """An address as an expression."""
    return f"{address.base} + {address.offset}u" if address.offset else address.base


def comment(text: str) -> str:
    """A text as a comment of one line."""
    plain = text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")
    return f"/* {plain} */"
