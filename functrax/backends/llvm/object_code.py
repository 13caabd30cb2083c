"""Machine code from an object file, without a linker or LLVM.

What enters: a relocatable ELF64 object as LLVM writes it for one kernel, fresh or from the disk
cache.  What leaves: its function's address in memory that may be executed but not written.

:data:`load` is the C++ class ``functrax._native.ObjectCode``, or :class:`MappedCode`, its Python
twin; :func:`link` is the part of the twin that lays out an object's sections and applies its
relocations, the same bytes as ``functrax._native.link_object``.  An object comes from a file that
may be damaged, so every offset in it is checked, and what is not known is refused with ValueError;
the caller then lets LLVM link the object.

Start at :class:`MappedCode`, then :func:`link`.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, Protocol

from functrax.backends.cpu_info import cpu_info
from functrax.core import native
from functrax.core.records import record

X86_64: Final = 62
AARCH64: Final = 183
_MACHINES: Final = {"x86_64": X86_64, "AMD64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}

FILE: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_WORD: Final = struct.Struct("<I")
IDENT: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE: Final = 1
_PROGBITS, SYMTAB, _STRTAB, RELA, _NOBITS, _REL = 1, 2, 3, 4, 8, 9  # types of sections
_X86_UNWIND: Final = 0x70000001
_ALLOC, EXECUTE, _MERGE, _STRINGS = 2, 4, 16, 32  # flags of sections
GLOBAL_FUNCTION: Final = 0x12
_PLAIN_TYPES: Final = 4  # of symbols: no type, data, function, section
_MAX_SIZE: Final = 64 << 20
_MAX_SECTIONS: Final = 4096


@record
class Image:
    """Linked code, which may lie at any page.

    Args:
      data: code from the start, constants from ``code_size`` on.
      code_size: in bytes, whole pages.
      entry: where the one global function begins.
    """

    data: bytes
    code_size: int
    entry: int


@record
class _Section:
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


def _need(condition: bool, why: str) -> None:
    if not condition:
        raise ValueError(f"object code refused: {why}")


def _round_up(value: int, unit: int) -> int:
    return (value + unit - 1) // unit * unit


def link(data: bytes, machine: int, page_size: int) -> Image:
    """Lay out an object's sections and apply its relocations, all of which are relative.

    Args:
      data: the object file.
      machine: the processor that it must be for, ``X86_64`` or ``AARCH64``.
      page_size: a power of two, at least 4096.

    Raises:
      ValueError: if the object is damaged, or needs more than this.
    """
    _need(machine in (X86_64, AARCH64), "the processor is unknown")
    known = 4096 <= page_size <= 1 << 20 and page_size & (page_size - 1) == 0
    _need(known, "the page size is unknown")
    return _Linker(data, machine, page_size).link()


class _Linker:
    """An object and where its sections lie in the image."""

    def __init__(self, data: bytes, machine: int, page_size: int) -> None:
        self._data, self._machine, self._page_size = data, machine, page_size
        self._places: dict[int, int] = {}  # of sections in the image
        self._sections: list[_Section] = []
        self._symbols = 0
        self._image = bytearray()

    def link(self) -> Image:
        names = self._read_headers()
        code_size = self._lay_out(names)
        for table in self._sections:
            for section, offset, symbol, type_, addend in self._relocations(table):
                self._apply(section, offset, symbol, type_, addend)
        return Image(bytes(self._image), code_size, self._entry())

    def _record(self, form: struct.Struct, offset: int, size: int, n: int) -> tuple[Any, ...]:
        """The n-th record of a table."""
        _need(n < size // form.size, "an index lies outside of its table")
        return form.unpack_from(self._data, offset + n * form.size)

    def _read_headers(self) -> _Section:
        """Read the table of sections; the section of their names is returned."""
        size = len(self._data)
        _need(size <= _MAX_SIZE, "it is too large")
        (ident, type_, machine, version, _, _, start, _, _, _, _, entry_size, count, names) = (
            self._record(FILE, 0, size, 0)
        )
        _need(ident.startswith(IDENT), "it is not ELF64")
        _need(type_ == _RELOCATABLE, "it is not relocatable")
        _need(machine == self._machine, "it is for another processor")
        _need(version == 1 and entry_size == SECTION.size, "its header is of another form")
        _need(0 < count <= _MAX_SECTIONS, "it has no sections, or too many")
        table = count * SECTION.size
        _need(start + table <= size, "its sections lie outside of it")
        for n in range(count):
            section = _Section(*self._record(SECTION, start, table, n))
            self._sections.append(section)
            inside = section.type in (0, _NOBITS) or section.offset + section.size <= size
            _need(inside, "a section lies outside of it")
            if section.type == SYMTAB:
                first = self._symbols == 0 and section.entry_size == SYMBOL.size
                _need(first, "its symbols are of another form")
                self._symbols = n
        _need(self._sections[0].type == 0 and self._symbols != 0, "it has no symbols")
        names_section = self._sections[names] if names < count else self._sections[0]
        _need(names_section.type == _STRTAB, "its sections have no names")
        return names_section

    def _is_unwind(self, section: _Section, names: _Section) -> bool:
        if section.type == _X86_UNWIND:
            return True
        start, end = names.offset + section.name, names.offset + names.size
        name = b".eh_frame\0"
        return start + len(name) <= end and self._data.startswith(name, start)

    def _lay_out(self, names: _Section) -> int:
        """Give sections their places in the image, first code; the size of the code."""
        end = code_size = 0
        for code in (True, False):
            for n, section in enumerate(self._sections):
                is_code = bool(section.flags & EXECUTE)
                if not section.flags & _ALLOC or section.size == 0 or is_code != code:
                    continue
                if self._is_unwind(section, names):
                    continue  # nothing is thrown through a kernel
                end = self._place(n, section, end)
            if code:
                end = code_size = _round_up(end, self._page_size)
        _need(code_size > 0, "it has no code")
        self._image = bytearray(_round_up(end, self._page_size))
        for n, place in self._places.items():
            section = self._sections[n]
            content = self._data[section.offset : section.offset + section.size]
            self._image[place : place + section.size] = content
        return code_size

    def _place(self, n: int, section: _Section, end: int) -> int:
        alignment = section.alignment or 1
        _need(section.type == _PROGBITS, "a section is of an unknown type")
        plain = not section.flags & ~(_ALLOC | EXECUTE | _MERGE | _STRINGS)
        _need(plain, "a section is writable, or of an unknown kind")
        aligned = alignment <= self._page_size and alignment & (alignment - 1) == 0
        _need(aligned, "a section has an unknown alignment")
        place = self._places[n] = _round_up(end, alignment)
        _need(place + section.size <= _MAX_SIZE, "it is too large")
        return place + section.size

    def _relocations(self, table: _Section) -> Iterator[tuple[int, int, int, int, int]]:
        """Section, offset, symbol, type and addend of the relocations in a section."""
        if table.type not in (RELA, _REL):
            return
        _need(table.info < len(self._sections), "relocations are for no section")
        if table.info not in self._places:
            return
        known = table.type == RELA and table.entry_size == _RELOCATION.size
        _need(known and table.link == self._symbols, "relocations are of another form")
        for n in range(table.size // _RELOCATION.size):
            offset, info, addend = self._record(_RELOCATION, table.offset, table.size, n)
            yield table.info, offset, info >> 32, info & 0xFFFFFFFF, addend

    def _symbol(self, n: int) -> tuple[int, int, int]:
        """Info, section and value of a symbol."""
        table = self._sections[self._symbols]
        _, info, _, section, value, _ = self._record(SYMBOL, table.offset, table.size, n)
        return info, section, value

    def _symbol_place(self, symbol: tuple[int, int, int]) -> int:
        """Where a symbol that the object defines lies in the image."""
        info, section, value = symbol
        defined = section in self._places and info & 15 < _PLAIN_TYPES
        _need(defined, "a symbol is defined elsewhere")
        _need(value <= self._sections[section].size, "a symbol lies outside of its section")
        return self._places[section] + value

    def _entry(self) -> int:
        """Where the one global function lies."""
        found = []
        for n in range(self._sections[self._symbols].size // SYMBOL.size):
            symbol = info, section, value = self._symbol(n)
            if info != GLOBAL_FUNCTION:
                continue
            found.append(self._symbol_place(symbol))
            home = self._sections[section]
            inside = bool(home.flags & EXECUTE) and value < home.size
            _need(inside and len(found) == 1, "it has not one function")
        _need(len(found) == 1, "it has not one function")
        return found[0]

    def _apply(self, section: int, offset: int, symbol: int, type_: int, addend: int) -> None:
        if type_ == 0:  # none
            return
        size = self._sections[section].size
        _need(size >= 4 and offset <= size - 4, "a relocation lies outside of its section")
        here = self._places[section] + offset
        start = self._symbol_place(self._symbol(symbol))
        _need(-(1 << 32) < addend < 1 << 32, "an addend is out of range")
        rules = _X86_64_RULES if self._machine == X86_64 else _AARCH64_RULES
        _need(type_ in rules, "a relocation is of an unknown type")
        (word,) = _WORD.unpack_from(self._image, here)
        _WORD.pack_into(self._image, here, rules[type_](word, here, start + addend))


# Relocations: from the word that is there, its place and its target to the word that comes there.
# The target and the place are offsets in the image, which lies at whole pages.
_Rule = Callable[[int, int, int], int]


def _signed(value: int, bits: int, shift: int = 0) -> int:
    """A field of an instruction: a number of so many bits, counted in units of ``1 << shift``."""
    _need(value & ((1 << shift) - 1) == 0, "a relocation is not aligned")
    scaled = value >> shift
    bound = 1 << (bits - 1)
    _need(-bound <= scaled < bound, "a relocation is out of range")
    return scaled & ((1 << bits) - 1)


def _relative(word: int, here: int, target: int) -> int:
    return _signed(target - here, 32)


def _page(word: int, here: int, target: int) -> int:
    field = _signed((target >> 12) - (here >> 12), 21)
    return word & 0x9F00001F | (field & 3) << 29 | (field >> 2) << 5


def _low(shift: int) -> _Rule:
    """The low 12 bits of an address, in units of ``1 << shift``."""

    def rule(word: int, here: int, target: int) -> int:
        low = target & 0xFFF
        _need(low & ((1 << shift) - 1) == 0, "a relocation is not aligned")
        return word & 0xFFC003FF | (low >> shift) << 10

    return rule


def _branch(kept: int, bits: int, position: int) -> _Rule:
    """The distance of a jump, in instructions; ``kept`` are the other bits of the instruction."""

    def rule(word: int, here: int, target: int) -> int:
        return word & kept | _signed(target - here, bits, 2) << position

    return rule


_X86_64_RULES: Final[dict[int, _Rule]] = {2: _relative, 4: _relative}  # PC32, PLT32
_AARCH64_RULES: Final[dict[int, _Rule]] = {
    261: _relative,  # PREL32
    275: _page,  # ADR_PREL_PG_HI21
    277: _low(0),  # ADD_ABS_LO12_NC
    278: _low(0),  # LDST8_ABS_LO12_NC
    284: _low(1),  # LDST16_ABS_LO12_NC
    285: _low(2),  # LDST32_ABS_LO12_NC
    286: _low(3),  # LDST64_ABS_LO12_NC
    299: _low(4),  # LDST128_ABS_LO12_NC
    279: _branch(0xFFF8001F, 14, 5),  # TSTBR14
    280: _branch(0xFF00001F, 19, 5),  # CONDBR19
    282: _branch(0xFC000000, 26, 0),  # JUMP26
    283: _branch(0xFC000000, 26, 0),  # CALL26
}


class LoadedCode(Protocol):
    """Code in memory, which is given back with the object."""

    @property
    def address(self) -> int:
        """Of the function."""

    @property
    def size(self) -> int:
        """Bytes of memory, in whole pages."""


@cache
def _mprotect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def _protect(start: int, size: int, protection: int) -> None:
    if size and _mprotect()(start, size, protection):
        error = ctypes.get_errno()
        raise OSError(error, "mprotect")


class MappedCode:
    """The Python twin of ``functrax._native.ObjectCode``.

    Args:
      data: the object file.

    Raises:
      ValueError: if :func:`link` refuses it, or on a processor whose instruction cache Python
        cannot flush.
      OSError: if there is no memory for it.
    """

    __slots__ = ("_memory", "address", "size")

    def __init__(self, data: bytes) -> None:
        machine = _MACHINES.get(cpu_info().machine, 0)
        _need(machine != AARCH64, "the instruction cache cannot be flushed from Python")
        image = link(data, machine, mmap.PAGESIZE)
        self.size = len(image.data)
        self._memory = mmap.mmap(
            -1,
            self.size,
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
        self._memory.write(image.data)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        code = image.code_size
        _protect(start, code, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(start + code, self.size - code, mmap.PROT_READ)
        self.address = start + image.entry


def _native_load() -> Callable[[bytes], LoadedCode] | None:
    return getattr(native.extension, "ObjectCode", None)


load: Final[Callable[[bytes], LoadedCode]] = _native_load() or MappedCode
