"""Object files of ELF64, as LLVM writes them: their sections and symbols.

A file may be damaged, so every offset in it is checked, and what is not known is refused with
ValueError.

Start at :class:`ObjectFile`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

from functrax.backends.targets.dialect import need

FILE: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
RELOCATION: Final = struct.Struct("<QQq")
_IDENT: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE: Final = 1
PROGBITS, _SYMTAB, _STRTAB, RELA, _NOBITS, REL = 1, 2, 3, 4, 8, 9  # types of sections
ALLOC, EXECUTE, MERGE, STRINGS = 2, 4, 16, 32  # flags of sections
GLOBAL_FUNCTION: Final = 0x12
MAX_SIZE: Final = 64 << 20
_MAX_SECTIONS: Final = 4096


class Section(NamedTuple):
    """A record of the table of sections."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """A record of the table of symbols; ``home`` is the section that one is in, 0 for none."""

    name: int
    info: int
    other: int
    home: int
    value: int
    size: int


class ObjectFile:
    """A relocatable object for a processor.

    Args:
      data: the file.
      machine: the number of the processors that it must be for, as object files have it.

    Attributes:
      header: the fields of ``FILE``.
      sections: all of them; the first is none.
      table: the number of the section of symbols.
      names: the section of the names of sections.

    Raises:
      ValueError: if the object is damaged, or of another kind.
    """

    def __init__(self, data: bytes, machine: int) -> None:
        self.data = data
        need(len(data) <= MAX_SIZE, "it is too large")
        need(len(data) >= FILE.size, "an index lies outside of its table")
        self.header = FILE.unpack_from(data)
        ident, type_, processor, version, _, _, start, *_, entry_size, count, names = self.header
        need(ident.startswith(_IDENT), "it is not ELF64")
        need(type_ == _RELOCATABLE, "it is not relocatable")
        need(processor == machine, "it is for another processor")
        need(version == 1 and entry_size == SECTION.size, "its header is of another form")
        need(0 < count <= _MAX_SECTIONS, "it has no sections, or too many")
        end = start + count * SECTION.size
        need(end <= len(data), "its sections lie outside of it")
        self.sections = [Section(*x) for x in SECTION.iter_unpack(data[start:end])]
        self.table = 0
        for n, section in enumerate(self.sections):
            empty = section.type in (0, _NOBITS)
            inside = empty or section.offset + section.size <= len(data)
            need(inside, "a section lies outside of it")
            if section.type == _SYMTAB:
                first = self.table == 0 and section.entry_size == SYMBOL.size
                need(first, "its symbols are of another form")
                self.table = n
        need(self.sections[0].type == 0 and self.table != 0, "it has no symbols")
        self.names = self.sections[names if names < count else 0]
        need(self.names.type == _STRTAB, "its sections have no names")

    def content(self, section: Section) -> bytes:
        """The bytes of a section."""
        return self.data[section.offset : section.offset + section.size]

    def records(self, section: Section, form: struct.Struct) -> Iterator[tuple[Any, ...]]:
        """The whole records in a section."""
        return form.iter_unpack(self.content(section)[: section.size // form.size * form.size])

    @cached_property
    def symbols(self) -> list[Symbol]:
        """All symbols; the first is none."""
        return [Symbol(*x) for x in self.records(self.sections[self.table], SYMBOL)]

    def name(self, symbol: Symbol) -> bytes:
        """The name of a symbol."""
        link = self.sections[self.table].link
        known = link < len(self.sections) and self.sections[link].type == _STRTAB
        need(known, "its symbols have no names")
        names = self.content(self.sections[link])
        need(symbol.name < len(names), "a name lies outside of its table")
        end = names.find(b"\0", symbol.name)
        need(end >= 0, "a name lies outside of its table")
        return names[symbol.name : end]
