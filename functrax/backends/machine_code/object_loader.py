"""Machine code from an object file, without a linker or LLVM.

What enters: a relocatable ELF64 object as LLVM writes it for one kernel, fresh or from the disk
cache.  What leaves: its function's address in memory that may be executed but not written.

:data:`load` is the C++ class ``functrax._native.ObjectCode``, or :class:`MappedCode`, its Python
twin; :func:`link` is the part of the twin that lays out an object's sections and applies its
relocations, the same bytes as ``functrax._native.link_object``.  A function of a library that the
object calls may lie farther away than a relative call reaches: the call goes to a stub behind the
code, which jumps to an address in a table behind the constants.  Loading fills the table.

What is not known is refused with ValueError.

Start at :class:`MappedCode`, then :func:`link`.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable
from typing import Final

from functrax.backends.machine_code import object_files as elf
from functrax.backends.machine_code.object_files import Section, Symbol
from functrax.backends.targets import dialects, target
from functrax.backends.targets.dialect import STUB, WORD, need
from functrax.core import native
from functrax.core.records import record

_UNWIND: Final = 0x70000001  # the type of sections, of some processors, for unwinding the stack
_PLAIN_TYPES: Final = 4  # of symbols: no type, data, function, section
_GLOBAL: Final = 0x10  # of no type: what another object defines
_ADDRESS: Final = 8  # bytes of one


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
        self._object = elf.ObjectFile(data, machine)
        self._page_size = page_size
        self._rules = dialects()[machine].relocations
        self._places: dict[int, int] = {}  # of sections in the image
        self._called: dict[int, int] = {}  # symbols, and which of the calls
        self._names: list[bytes] = []  # of the functions that are called
        self._slots: list[int] = []  # where their addresses come
        self._stubs = 0  # where the stubs begin
        self._image = bytearray()

    def link(self) -> Image:
        for n, symbol in enumerate(self._object.symbols):
            if symbol.home == 0 and symbol.info == _GLOBAL and symbol.name:  # not defined here
                self._called[n] = len(self._names)
                self._names.append(self._object.name(symbol))
        code_size = self._lay_out()
        for n, slot in enumerate(self._slots):
            here = self._stub(n)
            self._image[here : here + STUB] = self._rules.stub(here, slot)
        for table in self._object.sections:
            if table.type in (elf.RELA, elf.REL):
                self._relocate(table)
        calls = tuple(zip(self._slots, self._names, strict=True))
        return Image(bytes(self._image), code_size, self._entry(), calls)

    def _is_unwind(self, section: Section) -> bool:
        """Whether it says how to unwind the stack: nothing is thrown through a kernel."""
        names = self._object.content(self._object.names)
        return section.type == _UNWIND or names.startswith(b".eh_frame\0", section.name)

    def _stub(self, n: int) -> int:
        """Where the stub of a call lies."""
        return self._stubs + n * STUB

    def _lay_out(self) -> int:
        """Give sections their places in the image, first code; the size of the code."""
        end = code_size = 0
        for code in (True, False):
            for n, section in enumerate(self._object.sections):
                is_code = bool(section.flags & elf.EXECUTE)
                if not section.flags & elf.ALLOC or section.size == 0 or is_code != code:
                    continue
                if not self._is_unwind(section):
                    end = self._place(n, section, end)
            if code:
                self._stubs = _round_up(end, STUB)
                end = self._stub(len(self._names)) if self._names else end
                end = code_size = _round_up(end, self._page_size)
        need(code_size > 0, "it has no code")
        for _ in self._names:
            self._slots.append(_round_up(end, _ADDRESS))
            end = self._slots[-1] + _ADDRESS
        need(end <= elf.MAX_SIZE, "it is too large")
        self._image = bytearray(_round_up(end, self._page_size))
        for n, place in self._places.items():
            section = self._object.sections[n]
            self._image[place : place + section.size] = self._object.content(section)
        return code_size

    def _place(self, n: int, section: Section, end: int) -> int:
        alignment = section.alignment or 1
        need(section.type == elf.PROGBITS, "a section is of an unknown type")
        plain = not section.flags & ~(elf.ALLOC | elf.EXECUTE | elf.MERGE | elf.STRINGS)
        need(plain, "a section is writable, or of an unknown kind")
        aligned = alignment <= self._page_size and alignment & (alignment - 1) == 0
        need(aligned, "a section has an unknown alignment")
        place = self._places[n] = _round_up(end, alignment)
        need(place + section.size <= elf.MAX_SIZE, "it is too large")
        return place + section.size

    def _relocate(self, table: Section) -> None:
        """Apply the relocations of a table."""
        need(table.info < len(self._object.sections), "relocations are for no section")
        if table.info not in self._places:
            return
        known = table.type == elf.RELA and table.entry_size == elf.RELOCATION.size
        need(known and table.link == self._object.table, "relocations are of another form")
        for offset, info, addend in self._object.records(table, elf.RELOCATION):
            self._apply(table.info, offset, info >> 32, info & 0xFFFFFFFF, addend)

    def _symbol_place(self, symbol: Symbol) -> int:
        """Where a symbol that the object defines lies in the image."""
        defined = symbol.home in self._places and symbol.info & 15 < _PLAIN_TYPES
        need(defined, "a symbol is defined elsewhere")
        inside = symbol.value <= self._object.sections[symbol.home].size
        need(inside, "a symbol lies outside of its section")
        return self._places[symbol.home] + symbol.value

    def _entry(self) -> int:
        """Where the one global function lies."""
        found = []
        for symbol in self._object.symbols:
            if symbol.info != elf.GLOBAL_FUNCTION:
                continue
            found.append(self._symbol_place(symbol))
            home = self._object.sections[symbol.home]
            inside = bool(home.flags & elf.EXECUTE) and symbol.value < home.size
            need(inside and len(found) == 1, "it has not one function")
        need(len(found) == 1, "it has not one function")
        return found[0]

    def _apply(self, section: int, offset: int, symbol: int, type_: int, addend: int) -> None:
        if type_ == 0:  # none
            return
        size = self._object.sections[section].size
        need(size >= 4 and offset <= size - 4, "a relocation lies outside of its section")
        here = self._places[section] + offset
        rules = self._rules.rules
        if symbol not in self._called:
            need(symbol < len(self._object.symbols), "an index lies outside of its table")
            start = self._symbol_place(self._object.symbols[symbol])
        elif type_ in self._rules.calls:  # to the stub
            start = self._stub(self._called[symbol])
        else:  # to the address in the table
            need(type_ in self._rules.table, "a relocation is of an unknown type")
            start, type_ = self._slots[self._called[symbol]], self._rules.table[type_]
        need(-(1 << 32) < addend < 1 << 32, "an addend is out of range")
        need(type_ in rules, "a relocation is of an unknown type")
        (word,) = WORD.unpack_from(self._image, here)
        WORD.pack_into(self._image, here, rules[type_](word, here, start + addend))


def _protect(start: int, size: int, protection: int) -> None:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if size and function(start, size, protection):
        raise OSError(ctypes.get_errno(), "mprotect")


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


load: Final[Callable[[bytes], MappedCode]] = getattr(native.extension, "ObjectCode", MappedCode)
