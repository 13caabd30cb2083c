"""Words of a program's text, and the errors that point at them.

:func:`tokenize` splits text into :class:`Token`; comments are kept beside them, by line.
:class:`Cursor` walks over the tokens and makes every :class:`ParseError`, with the line, a caret
under the column, and what was found there.

Start at :class:`Cursor`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from functrax.core.errors.typed import ParseError

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<comment>\#[^\n]*)
  | (?P<object>@[A-Za-z_]\w*(?:\#\d+)?)
  | (?P<size>\$\{[^{}\n]*\})
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<number>0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>->|==|!=|>=|<=|//|[{}()\[\],:;.=|&+\-*%~<>])
    """,
    re.VERBOSE | re.ASCII,
)
_SHOWN = 90  # characters of a long line that an error shows
_MAX_DEPTH = 60  # programs, tuples and expressions inside each other


class Token(NamedTuple):
    """A word: its kind, its text, where it begins in the whole text, and on which line."""

    kind: str
    text: str
    start: int
    line: int


def tokenize(text: str) -> tuple[list[Token], dict[int, str]]:
    """The tokens, ending with one of kind ``end``, and the comments by line number from 1."""
    tokens: list[Token] = []
    comments: dict[int, str] = {}
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise parse_error("a character that no program has", text, at, repr(text[at]))
        kind, word = str(found.lastgroup), found.group()
        if kind == "comment":
            comments[line] = word[1:].strip()
        elif kind != "space":
            tokens.append(Token(kind, word, at, line))
        line += word.count("\n")
        at = found.end()
    tokens.append(Token("end", "", at, line))
    return tokens, comments


def parse_error(what: str, text: str, at: int, found: str, fix: str = "") -> ParseError:
    """An error about the character number ``at`` of a text."""
    line_start = text.rfind("\n", 0, at) + 1
    line_end = text.find("\n", at)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    column = at - line_start
    number = text.count("\n", 0, at) + 1
    cut = max(0, column - _SHOWN // 2) if len(line) > _SHOWN else 0
    shown = line[cut : cut + _SHOWN].replace("\t", " ").replace("\r", " ")
    caret = " " * (column - cut) + "^"
    if len(found) > _SHOWN:
        found = found[:_SHOWN] + "..."
    got = f"{found} at line {number}, column {column + 1}\n{shown}\n{caret}"
    return ParseError(f"parse: {what}", got=got, fix=fix)


class Cursor:
    """A place between the tokens of a text.

    Args:
      text: what is read.

    Attributes:
      comments: the text of each comment, by line number.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens, self.comments = tokenize(text)
        self.index = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The token that comes next."""
        return self.tokens[self.index]

    @property
    def previous(self) -> Token:
        """The token that was read last."""
        return self.tokens[self.index - 1]

    def peek(self, ahead: int = 1) -> str:
        """The text of a token after the next one."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)].text

    def at(self, *words: str) -> bool:
        """Whether one of the marks or names comes next."""
        return self.token.text in words and self.token.kind in ("mark", "name")

    def at_kind(self, *kinds: str) -> bool:
        """Whether a token of one of the kinds comes next."""
        return self.token.kind in kinds

    def advance(self) -> Token:
        """Read one token."""
        token = self.token
        if token.kind != "end":
            self.index += 1
        return token

    def accept(self, word: str) -> bool:
        """Read a mark or a name if it comes next."""
        if not self.at(word):
            return False
        self.advance()
        return True

    def expect(self, word: str, where: str) -> Token:
        """Read a mark or a name that must come next; ``where`` says of what it is a part."""
        if not self.at(word):
            raise self.error(f"expected {word!r} {where}")
        return self.advance()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Read a token of a kind that must come next; ``what`` says what it stands for."""
        if self.token.kind != kind:
            raise self.error(f"expected {what}")
        return self.advance()

    def descend(self) -> None:
        """Enter something that may hold itself; :attr:`depth` goes back down afterwards."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error(f"nested more than {_MAX_DEPTH} deep")

    def error(self, what: str, token: Token | None = None, fix: str = "") -> ParseError:
        """The error that ``token`` (the next one if omitted) is not what should be there."""
        token = self.token if token is None else token
        found = token.text if token.kind != "end" else "the end of the text"
        return parse_error(what, self.text, token.start, found, fix)
