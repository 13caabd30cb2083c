"""Several kernels in one module for LLVM, and its object file taken apart again.

A module costs LLVM as much as a small kernel, beside its functions.  So what waits to be compiled
is joined: texts of modules with one function each enter :func:`joined`, and one text leaves, where
each function has a section of its own.  Its object file enters :func:`parts`, and an object for
each function leaves, with that section and the constants of all: kernels are kept one by one.

Start at :func:`joined`.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final

from functrax.backends.machine_code.object_loader import (
    EXECUTE,
    FILE,
    GLOBAL_FUNCTION,
    IDENT,
    RELA,
    SECTION,
    SYMBOL,
    SYMTAB,
)

#: The line that begins a function: its name, and what follows it.
_HEAD: Final = re.compile(r"^define void @([\w.]+)(\([^()]*\) nounwind) \{$", re.MULTILINE)
#: Whether LLVM writes objects that :func:`parts` can take apart.
_KNOWN: Final = sys.platform not in ("darwin", "win32")
#: In a file, tables begin at multiples of so many bytes.
_ALIGNMENT: Final = 8
_INFO, _HOME = 1, 3  # places in the record of a symbol
_TYPE, _FLAGS, _OFFSET, _SIZE, _LINK, _TARGET = 1, 2, 4, 5, 6, 7  # in that of a section


def joinable(text: str) -> bool:
    """Whether a module is one function, which calls none that it names.

    Args:
      text: the module.
    """
    head = _HEAD.search(text) if _KNOWN else None
    if head is None or text.count("define ") != 1:
        return False
    declares = "declare " in text or text.startswith("@") or "\n@" in text
    return not declares and text.count(f"@{head[1]}") == 1


def joined(texts: Sequence[str]) -> str:
    """One module with the functions of several.

    Args:
      texts: modules that are :func:`joinable`; what they call by the same number is the same.
    """
    functions, notes = [], set()
    for n, text in enumerate(texts):
        if "\n!" in text:
            lines = text.splitlines()
            notes.update([line for line in lines if line.startswith("!")])
            text = "\n".join([line for line in lines if not line.startswith("!")])
        head = rf'define void @{_prefix(n)}\1\2 section ".text.{n}" {{'
        functions.append(_HEAD.sub(head, text, count=1))
    return "\n".join([*functions, *sorted(notes)])


def _prefix(n: int) -> str:
    """What the name of a function begins with in a module of several."""
    return f"of{n}."


def parts(data: bytes, count: int) -> list[bytes]:
    """The object files of the functions of :func:`joined`, in their order.

    Args:
      data: the object file of the module.
      count: how many functions there are.

    Raises:
      ValueError: if they call what the object does not define, or are not all there.
    """
    try:
        joint = _Joint(data)
        return [joint.part(n) for n in range(count)]
    except (struct.error, KeyError) as error:
        raise ValueError("object code that cannot be taken apart") from error


class _Joint:
    """An object file with several functions."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._header = FILE.unpack_from(data)
        if not self._header[0].startswith(IDENT):
            raise ValueError("object code that is not ELF64")
        start, count = self._header[6], self._header[12]
        table = data[start : start + count * SECTION.size]
        self._sections = list(SECTION.iter_unpack(table))
        tables = [s for s in self._sections if s[_TYPE] == SYMTAB]
        if len(tables) != 1:
            raise ValueError("object code without one table of symbols")
        self._symbols = tables[0]
        records = list(SYMBOL.iter_unpack(self._content(self._symbols)))
        first = self._symbols[_TARGET]  # of those that are no local ones
        self._locals = records[:first]
        names = self._content(self._sections[self._symbols[_LINK]])
        self._functions = {}
        for symbol in records[first:]:
            if symbol[_INFO] != GLOBAL_FUNCTION or symbol[_HOME] == 0:
                raise ValueError("object code that calls what it does not define")
            name = names[symbol[0] : names.index(b"\0", symbol[0])].decode()
            self._functions[name.partition(".")[0]] = symbol

    def _content(self, section: tuple[Any, ...]) -> bytes:
        return self._data[section[_OFFSET] : section[_OFFSET] + section[_SIZE]]

    def part(self, n: int) -> bytes:
        """The object file of one function, under its own name."""
        prefix = _prefix(n)
        name, *about = self._functions[prefix.removesuffix(".")]
        home = about[_HOME - 1]
        kept = [self._belongs(k, home) for k in range(len(self._sections))]
        none = bytes(SYMBOL.size)
        symbols = [
            none if s[_HOME] < len(kept) and not kept[s[_HOME]] else SYMBOL.pack(*s)
            for s in self._locals
        ]
        symbols.append(SYMBOL.pack(name + len(prefix), *about))
        return self._written(kept, b"".join(symbols))

    def _belongs(self, number: int, home: int) -> bool:
        """Whether a section is a part of the object of the function whose section is ``home``."""
        section = self._sections[number]
        if section[_TYPE] == RELA:
            return bool(section[_TARGET] == home)
        return number == home or not section[_FLAGS] & EXECUTE

    def _written(self, kept: Sequence[bool], symbols: bytes) -> bytes:
        """The file with some sections; those that are left out keep their numbers."""
        end = FILE.size
        contents, table = [], []
        for section, is_kept in zip(self._sections, kept, strict=True):
            if not is_kept:
                table.append(bytes(SECTION.size))
                continue
            content = symbols if section is self._symbols else self._content(section)
            fields = list(section)
            fields[_OFFSET], fields[_SIZE] = end, len(content)
            table.append(SECTION.pack(*fields))
            contents.append(content + bytes(-len(content) % _ALIGNMENT))
            end += len(contents[-1])
        header = list(self._header)
        header[6] = end
        return b"".join([FILE.pack(*header), *contents, *table])
