"""One page of HTML that needs nothing else: its style, its script and its data are inside.

What is long and seldom read (loops, LLVM IR, assembly, programs) is kept compressed, and unpacked
by the script when somebody opens it.  Without scripts the page shows everything else.

Start at :class:`Document`.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Any, Final

from functrax.explanation.tables import TextTable

#: What a page is not allowed to do: load anything, or send anything.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)


class Document:
    """A page that is being written.

    Args:
      title: what it is about.
      facts: sentences beneath the title.
    """

    def __init__(self, title: str, facts: Iterable[str]) -> None:
        self._title = title
        self._facts = list(facts)
        self._sections: list[tuple[str, str, str]] = []
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._timeline: Mapping[str, Any] = {}

    def section(self, name: str, title: str, *parts: str) -> None:
        """Add a section.

        Args:
          name: which it is, in a word; links lead to it.
          title: its heading.
          parts: HTML.
        """
        self._sections.append((name, title, "\n".join(parts)))

    def unfolded(self, title: str, text: str) -> str:
        """A title that unfolds to a long text."""
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
        return (
            f'<details data-text="{number}"><summary>{escape(title)}</summary>'
            f'<pre tabindex="0" aria-label="{escape(title)}"></pre></details>'
        )

    def timeline(self, data: Mapping[str, Any], about: str) -> None:
        """Add a section with a time line; ``data`` is what ``timeline_data`` gives."""
        self._timeline = data
        self.section("timeline", "Time line", f"<p>{escape(about)}</p>", _TIMELINE)

    def html(self) -> str:
        """The text of the page."""
        links = "".join(f'<li><a href="#{n}">{escape(t)}</a></li>' for n, t, _ in self._sections)
        facts = "".join(f"<p>{escape(x)}</p>" for x in self._facts)
        body = "\n".join(
            f'<section id="{n}" aria-labelledby="{n}-title"><h2 id="{n}-title">{escape(t)}</h2>\n'
            f"{inside}\n</section>"
            for n, t, inside in self._sections
        )
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                '<meta name="color-scheme" content="light dark">',
                f"<title>{escape(self._title)} · functrax</title>",
                f"<style>\n{_resource('page.css')}</style>\n</head>\n<body>",
                '<a class="skip" href="#content">Skip to the content</a>',
                f'<header><h1>{escape(self._title)}</h1><div class="facts">{facts}</div></header>',
                f'<nav aria-label="Parts of the page"><ul>{links}</ul>{_SEARCH}</nav>',
                "<noscript><p>Without scripts there is no search and no time line, and code does "
                "not unfold.</p></noscript>",
                f'<main id="content" tabindex="-1">\n{body}\n</main>',
                _data("texts", self._texts),
                _data("events", self._timeline),
                f"<script>\n{_resource('page.js')}</script>\n</body>\n</html>\n",
            ]
        )


_SEARCH: Final = (
    '<div class="search"><label for="search">Search</label>'
    '<input id="search" type="search" placeholder="name, operation or line" autocomplete="off">'
    '<output id="found" for="search" aria-live="polite"></output></div>'
)
_TIMELINE: Final = (
    '<div class="timeline"><div class="buttons">'
    '<button type="button" id="zoom-in" aria-label="Zoom in">+</button>'
    '<button type="button" id="zoom-out" aria-label="Zoom out">−</button>'
    '<button type="button" id="zoom-all">All</button><span id="threads"></span></div>'
    '<canvas id="canvas" tabindex="0" role="application" aria-label="Time line" '
    'aria-describedby="keys"></canvas>'
    '<p id="keys">Arrow keys choose an event, + and − zoom, 0 shows everything, Enter goes to the '
    "kernel; or click, drag, and turn the wheel with Ctrl.</p>"
    '<output id="event" aria-live="polite">No event is chosen.</output></div>'
)


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _data(name: str, value: Any) -> str:
    """A value for the script, compressed; the same bytes each time."""
    text = json.dumps(value, separators=(",", ":")).encode()
    packed = base64.b64encode(gzip.compress(text, mtime=0)).decode()
    return f'<script type="text/plain" id="{name}">{packed}</script>'


def unpacked(page: str, name: str) -> Any:
    """The value that a page keeps under a name: ``"texts"``, ``"events"``."""
    packed = page.partition(f'id="{name}">')[2].partition("</script>")[0]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


#: What turns a cell of a table into HTML: its row (from 0), its column and its text.
Cell = Callable[[int, int, str], str]


def escaped(row: int, column: int, text: str) -> str:
    """A cell without links."""
    return escape(text)


def html_table(
    table: TextTable, cell: Cell = escaped, anchor: Callable[[int], str] = lambda row: ""
) -> str:
    """A table that can be sorted and searched.

    Args:
      table: its rows.
      cell: gives the HTML of a cell.
      anchor: what links call a row; nothing if it is empty.
    """
    head, *rows = table.rows
    lines = [
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">',
        '<table class="searched"><thead><tr>',
        *(f'<th scope="col"{_side(table, c)}>{escape(text)}</th>' for c, text in enumerate(head)),
        "</tr></thead><tbody>",
    ]
    for k, row in enumerate(rows):
        name = f' id="{anchor(k)}"' if anchor(k) else ""
        cells = (f"<td{_side(table, c)}>{cell(k, c, text)}</td>" for c, text in enumerate(row))
        lines.append(f"<tr{name}>{''.join(cells)}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join([*lines, *(f"<p>{escape(note)}</p>" for note in table.notes)])


def _side(table: TextTable, column: int) -> str:
    return "" if column in table.left else ' class="number"'
