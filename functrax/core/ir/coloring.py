"""Programs in colours: for terminals and for notebooks.

The text itself (``str(jaxpr)``) never has colours, for it can be parsed.  What shows a program to
somebody asks for them: IPython, and the tool ``python -m functrax show``.

Start at :func:`terminal_text` and :func:`html_text`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from html import escape
from typing import Final

#: The parts of a program's text, in the order in which they are looked for.
_PARTS: Final = re.compile(
    r"(?P<comment>#[^\n]*)"
    r'|(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<type>:~?[a-z]\w*\[[^\]\s]*\])"
    r"|(?P<keyword>\b(?:lambda|let|in|where)\b)"
    r"|(?P<operation>(?<== )[A-Za-z_]\w*)"
    r"|(?P<parameter>\b[a-z_]\w*(?==[^=\s]))"
    r"|(?P<number>(?<![\w.])-?(?:\d[\d.]*(?:e[+-]?\d+)?|inf|nan)\b)"
)
_TERMINAL: Final = {
    "comment": "2", "string": "32", "type": "36", "keyword": "1;35", "operation": "1;34",
    "parameter": "33", "number": "32",
}  # fmt: skip
#: On white, and on nearly black; each has a contrast of 4.5 at least.
_PAGE: Final = {
    "comment": ("#57606a", "#a9b4c0"),
    "string": ("#116329", "#7ee08f"),
    "type": ("#0b6a75", "#6fd3df"),
    "keyword": ("#8a2da5", "#e0aef0"),
    "operation": ("#0a58b0", "#85b8ff"),
    "parameter": ("#8a5200", "#e8b768"),
    "number": ("#116329", "#7ee08f"),
}


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of the text, with what each is; nothing for what has no colour."""
    end = 0
    for found in _PARTS.finditer(text):
        if found.start() > end:
            yield "", text[end : found.start()]
        yield str(found.lastgroup), found[0]
        end = found.end()
    yield "", text[end:]


def terminal_text(text: str) -> str:
    """A program's text with the colours of terminals, if standard output is one that shows them."""
    if not _shows_colours():
        return text
    return "".join(
        f"\x1b[{_TERMINAL[kind]}m{piece}\x1b[0m" if kind else piece for kind, piece in _pieces(text)
    )


def _shows_colours() -> bool:
    """Whether standard output is a terminal, and nobody asked for no colours (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is sys.__stdout__ and sys.stdout is not None and sys.stdout.isatty()


def html_text(text: str) -> str:
    """A program's text as HTML for notebooks, light or dark as the system is."""
    inside = "".join(
        f'<span class="{kind}">{escape(piece)}</span>' if kind else escape(piece)
        for kind, piece in _pieces(text)
    )
    light, dark = (
        "".join(f".functrax-program .{kind}{{color:{c[k]}}}" for kind, c in _PAGE.items())
        for k in (0, 1)
    )
    return (
        "<style>.functrax-program{background:#fff;color:#1b1f24;padding:.5em;max-height:40em;"
        f"overflow:auto;white-space:pre;text-align:left}}{light}"
        "@media (prefers-color-scheme:dark){.functrax-program{background:#14171b;color:#e3e8ee}"
        f'{dark}}}</style><pre class="functrax-program" tabindex="0">{inside}</pre>'
    )
