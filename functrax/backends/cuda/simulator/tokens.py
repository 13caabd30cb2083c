"""From PTX text to tokens.

``// implicit-def: %r5`` is a comment by which LLVM says that a register's value does not matter; it
is read as an instruction of that name.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

from functrax.backends.cuda.simulator.errors import PtxError
from functrax.backends.cuda.simulator.syntax import Immediate

_TOKEN: Final = re.compile(
    r"""[ \t\r\f]*(?:
    (?P<newline>\n)
    |(?P<comment>//[^\n]*)|(?P<block>/\*.*?\*/)
    |(?P<string>"[^"\n]*")
    |(?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
        |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
    |(?P<word>[.%$_A-Za-z][\w$.]*(?:::[\w.]+)*)
    |(?P<mark>[{}()\[\],;:|!@+\-=<>]))""",
    re.VERBOSE | re.DOTALL,
)
_IMPLICIT: Final = re.compile(r"//\s*implicit-def:\s*(%\w+)")


class PtxToken(NamedTuple):
    """A word, number, string or mark, and its line."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[PtxToken]:
    """The tokens of a text, and one for its end."""
    found, line, at = [], 1, 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise PtxError(f"unknown character {text[at:].strip()[0]!r}", line)
        kind = match.lastgroup
        assert kind is not None
        part = match[kind]
        if kind == "newline":
            line += 1
        elif kind == "block":
            line += part.count("\n")
        elif kind == "comment":
            if "implicit-def" in part and (implicit := _IMPLICIT.match(part)):
                register = implicit[1]
                found += [PtxToken("word", "implicit-def", line), PtxToken("word", register, line)]
                found.append(PtxToken("mark", ";", line))
        else:
            found.append(PtxToken(kind, part, line))
        at = match.end()
    found.append(PtxToken("end", "the end of the text", line))
    return found


def number(token: PtxToken) -> Immediate:
    """The value of a number."""
    text = token.text
    start = text[:2].lower()
    if start == "0f":
        return Immediate(struct.unpack(">f", bytes.fromhex(text[2:]))[0], 4)
    if start == "0d":
        return Immediate(struct.unpack(">d", bytes.fromhex(text[2:]))[0], 8)
    text = text.rstrip("U")
    if start in ("0x", "0b"):
        return Immediate(int(text, 0))
    if any(c in text for c in ".eE"):
        return Immediate(float(text))
    return Immediate(int(text, 8 if len(text) > 1 and text[0] == "0" else 10))
