"""Machine code from an object file, without a linker or LLVM.

What enters: a relocatable ELF64 object as LLVM writes it for one kernel, fresh or from the disk
cache.  What leaves: its function's address in memory that may be executed but not written.

:data:`load` is the C++ class ``functrax._native.ObjectCode``, or :class:`MappedCode`, its Python
twin; :func:`link` is the part of the twin that lays out an object's sections and applies its
relocations, the same bytes as ``functrax._native.link_object``.  A function of a library that the
object calls may lie farther away than a relative call reaches: the call goes to a stub behind the
code, which jumps to an address in a table behind the constants.  Loading fills the table.

An object comes from a file that may be damaged, so every offset in it is checked, and what is not
known is refused with ValueError.

Start at :class:`MappedCode`, then :func:`link`.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, Protocol

from functrax.backends.targets import dialects, target
from functrax.backends.targets.dialect import STUB, WORD, need
from functrax.core import native
from functrax.core.records import record

FILE: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
IDENT: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE: Final = 1
_PROGBITS, SYMTAB, _STRTAB, RELA, _NOBITS, _REL = 1, 2, 3, 4, 8, 9  # types of sections
_UNWIND: Final = 0x70000001  # of processors that have a type for how to unwind the stack
_ALLOC, EXECUTE, _MERGE, _STRINGS = 2, 4, 16, 32  # flags of sections
GLOBAL_FUNCTION: Final = 0x12
_PLAIN_TYPES: Final = 4  # of symbols: no type, data, function, section
_GLOBAL: Final = 0x10  # of no type: what another object defines
_ADDRESS: Final = 8  # bytes of one
_MAX_SIZE: Final = 64 << 20
_MAX_SECTIONS: Final = 4096


@record
class Image:
    """Linked code, which may lie at any page.

    Args:
      data: code from the start, constants from ``code_size`` on.
      code_size: in bytes, whole pages.
      entry: where the one global function begins.
      calls: functions of libraries: where 8 bytes are left for the address of each, and its name.
    """

    data: bytes
    code_size: int
    entry: int
    calls: tuple[tuple[int, bytes], ...] = ()


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


def _round_up(value: int, unit: int) -> int:
    return (value + unit - 1) // unit * unit


def link(data: bytes, machine: int, page_size: int) -> Image:
    """Lay out an object's sections and apply its relocations, all of which are relative.

    Args:
      data: the object file.
      machine: the number of the processors that it must be for, as object files have it.
      page_size: a power of two, at least 4096.

    Raises:
      ValueError: if the object is damaged, or needs more than this.
    """
    need(machine in dialects(), "the processor is unknown")
    known = 4096 <= page_size <= 1 << 20 and page_size & (page_size - 1) == 0
    need(known, "the page size is unknown")
    return _Linker(data, machine, page_size).link()


class _Linker:
    """An object and where its sections lie in the image."""

    def __init__(self, data: bytes, machine: int, page_size: int) -> None:
        self._data, self._machine, self._page_size = data, machine, page_size
        self._rules = dialects()[machine].relocations
        self._places: dict[int, int] = {}  # of sections in the image
        self._sections: list[_Section] = []
        self._symbols = 0
        self._called: dict[int, int] = {}  # symbols, and which of the calls
        self._names: list[bytes] = []  # of the functions that are called
        self._slots: list[int] = []  # where their addresses come
        self._stubs = 0  # where the stubs begin
        self._image = bytearray()

    def link(self) -> Image:
        names = self._read_headers()
        self._find_calls()
        code_size = self._lay_out(names)
        for n, slot in enumerate(self._slots):
            here = self._stub(n)
            self._image[here : here + STUB] = self._rules.stub(here, slot)
        for table in self._sections:
            for section, offset, symbol, type_, addend in self._relocations(table):
                self._apply(section, offset, symbol, type_, addend)
        calls = tuple(zip(self._slots, self._names, strict=True))
        return Image(bytes(self._image), code_size, self._entry(), calls)

    def _record(self, form: struct.Struct, offset: int, size: int, n: int) -> tuple[Any, ...]:
        """The n-th record of a table."""
        need(n < size // form.size, "an index lies outside of its table")
        return form.unpack_from(self._data, offset + n * form.size)

    def _read_headers(self) -> _Section:
        """Read the table of sections; the section of their names is returned."""
        size = len(self._data)
        need(size <= _MAX_SIZE, "it is too large")
        (ident, type_, machine, version, _, _, start, _, _, _, _, entry_size, count, names) = (
            self._record(FILE, 0, size, 0)
        )
        need(ident.startswith(IDENT), "it is not ELF64")
        need(type_ == _RELOCATABLE, "it is not relocatable")
        need(machine == self._machine, "it is for another processor")
        need(version == 1 and entry_size == SECTION.size, "its header is of another form")
        need(0 < count <= _MAX_SECTIONS, "it has no sections, or too many")
        table = count * SECTION.size
        need(start + table <= size, "its sections lie outside of it")
        for n in range(count):
            section = _Section(*self._record(SECTION, start, table, n))
            self._sections.append(section)
            inside = section.type in (0, _NOBITS) or section.offset + section.size <= size
            need(inside, "a section lies outside of it")
            if section.type == SYMTAB:
                first = self._symbols == 0 and section.entry_size == SYMBOL.size
                need(first, "its symbols are of another form")
                self._symbols = n
        need(self._sections[0].type == 0 and self._symbols != 0, "it has no symbols")
        names_section = self._sections[names] if names < count else self._sections[0]
        need(names_section.type == _STRTAB, "its sections have no names")
        return names_section

    def _is_unwind(self, section: _Section, names: _Section) -> bool:
        if section.type == _UNWIND:
            return True
        start, end = names.offset + section.name, names.offset + names.size
        name = b".eh_frame\0"
        return start + len(name) <= end and self._data.startswith(name, start)

    def _find_calls(self) -> None:
        """Find the functions that are called and not defined here."""
        table = self._sections[self._symbols]
        for n in range(table.size // SYMBOL.size):
            name, info, _, home, _, _ = self._record(SYMBOL, table.offset, table.size, n)
            if home == 0 and info == _GLOBAL and name:
                self._called[n] = len(self._names)
                self._names.append(self._symbol_name(table, name))

    def _symbol_name(self, table: _Section, start: int) -> bytes:
        known = table.link < len(self._sections) and self._sections[table.link].type == _STRTAB
        need(known, "its symbols have no names")
        names = self._sections[table.link]
        need(start < names.size, "a name lies outside of its table")
        end = self._data.find(b"\0", names.offset + start, names.offset + names.size)
        need(end >= 0, "a name lies outside of its table")
        return self._data[names.offset + start : end]

    def _stub(self, n: int) -> int:
        """Where the stub of a call lies."""
        return self._stubs + n * STUB

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
                self._stubs = _round_up(end, STUB)
                end = self._stub(len(self._names)) if self._names else end
                end = code_size = _round_up(end, self._page_size)
        need(code_size > 0, "it has no code")
        for _ in self._names:
            self._slots.append(_round_up(end, _ADDRESS))
            end = self._slots[-1] + _ADDRESS
        need(end <= _MAX_SIZE, "it is too large")
        self._image = bytearray(_round_up(end, self._page_size))
        for n, place in self._places.items():
            section = self._sections[n]
            content = self._data[section.offset : section.offset + section.size]
            self._image[place : place + section.size] = content
        return code_size

    def _place(self, n: int, section: _Section, end: int) -> int:
        alignment = section.alignment or 1
        need(section.type == _PROGBITS, "a section is of an unknown type")
        plain = not section.flags & ~(_ALLOC | EXECUTE | _MERGE | _STRINGS)
        need(plain, "a section is writable, or of an unknown kind")
        aligned = alignment <= self._page_size and alignment & (alignment - 1) == 0
        need(aligned, "a section has an unknown alignment")
        place = self._places[n] = _round_up(end, alignment)
        need(place + section.size <= _MAX_SIZE, "it is too large")
        return place + section.size

    def _relocations(self, table: _Section) -> Iterator[tuple[int, int, int, int, int]]:
        """Section, offset, symbol, type and addend of the relocations in a section."""
        if table.type not in (RELA, _REL):
            return
        need(table.info < len(self._sections), "relocations are for no section")
        if table.info not in self._places:
            return
        known = table.type == RELA and table.entry_size == _RELOCATION.size
        need(known and table.link == self._symbols, "relocations are of another form")
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
        need(defined, "a symbol is defined elsewhere")
        need(value <= self._sections[section].size, "a symbol lies outside of its section")
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
            need(inside and len(found) == 1, "it has not one function")
        need(len(found) == 1, "it has not one function")
        return found[0]

    def _apply(self, section: int, offset: int, symbol: int, type_: int, addend: int) -> None:
        if type_ == 0:  # none
            return
        size = self._sections[section].size
        need(size >= 4 and offset <= size - 4, "a relocation lies outside of its section")
        here = self._places[section] + offset
        rules = self._rules.rules
        if symbol in self._called:
            start, type_ = self._call_place(type_, self._called[symbol])
        else:
            start = self._symbol_place(self._symbol(symbol))
        need(-(1 << 32) < addend < 1 << 32, "an addend is out of range")
        need(type_ in rules, "a relocation is of an unknown type")
        (word,) = WORD.unpack_from(self._image, here)
        WORD.pack_into(self._image, here, rules[type_](word, here, start + addend))

    def _call_place(self, type_: int, n: int) -> tuple[int, int]:
        """Where a relocation of a function of a library leads, and the type that leads there.

        To the stub, or to the address in the table.
        """
        if type_ in self._rules.calls:
            return self._stub(n), type_
        table = self._rules.table
        need(type_ in table, "a relocation is of an unknown type")
        return self._slots[n], table[type_]


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


def _function_address(name: bytes) -> int:
    """Of a function of this process, or of the libraries that compilers rely on."""
    for library in (None, "libm.so.6", "libgcc_s.so.1"):
        try:
            found = getattr(ctypes.CDLL(library), name.decode())
        except (AttributeError, OSError, ValueError):
            continue
        return ctypes.cast(found, ctypes.c_void_p).value or 0
    raise ValueError(
        f"object code refused: it calls {name.decode(errors='replace')}, which is not there"
    )


def _flush(start: int, size: int) -> None:
    """Let the processor see new instructions: not all do by themselves."""
    if not target().dialect.announces:
        return
    clear = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    clear.argtypes, clear.restype = (ctypes.c_void_p, ctypes.c_void_p), None
    clear(start, start + size)


class MappedCode:
    """The Python twin of ``functrax._native.ObjectCode``.

    Args:
      data: the object file.

    Raises:
      ValueError: if :func:`link` refuses it, or it calls a function that is not there.
      OSError: if there is no memory for it.
    """

    __slots__ = ("_memory", "address", "size")

    def __init__(self, data: bytes) -> None:
        image = link(data, target().dialect.machine, mmap.PAGESIZE)
        self.size = len(image.data)
        self._memory = mmap.mmap(
            -1,
            self.size,
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
        self._memory.write(image.data)
        for place, name in image.calls:
            struct.pack_into("<Q", self._memory, place, _function_address(name))
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        code = image.code_size
        _flush(start, code)
        _protect(start, code, mmap.PROT_READ | mmap.PROT_EXEC)
        _protect(start + code, self.size - code, mmap.PROT_READ)
        self.address = start + image.entry


def _native_load() -> Callable[[bytes], LoadedCode] | None:
    return getattr(native.extension, "ObjectCode", None)


load: Final[Callable[[bytes], LoadedCode]] = _native_load() or MappedCode
