"""Small object files, written by hand: one function, constants, and any relocations."""

from __future__ import annotations

import struct

X86_64, AARCH64 = 62, 183
#: The symbols that relocations may name.
TEXT, CONSTANTS, FUNCTION, UNDEFINED = range(1, 5)


def section(name=0, kind=1, flags=0, offset=0, size=0, link=0, info=0, align=1, entry=0):
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, 0, offset, size, link, info, align, entry)


def symbol(info, where, value=0, name=0):
    return struct.pack("<IBBHQQ", name, info, 0, where, value, 0)


def make_object(
    code,
    constants,
    relocations=(),
    machine=X86_64,
    flags=2,
    functions=1,
    align=16,
    kind=1,
    name=b"",
):
    """An object; ``relocations`` are (offset in the code, type, symbol, addend).

    ``name`` is that of the function which is not defined.
    """
    names = b"\0.text\0.rodata\0.eh_frame\0" + (name + b"\0" if name else b"")
    symbols = symbol(0, 0) + symbol(3, 1) + symbol(3, 2) + symbol(0x12, 1) * functions
    symbols += symbol(0x10, 0, name=len(names) - len(name) - 1 if name else 0)
    table = b"".join(struct.pack("<QQq", o, s << 32 | t, a) for o, t, s, a in relocations)
    parts, places, end = [], [], 64
    for part in (code, constants, table, symbols, names):
        places.append(end)
        parts.append(part)
        end += len(part)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 1, machine, 1, 0, 0, end, 0, 64, 0, 0, 64, 6, 5
    )
    headers = (
        section(kind=0),
        section(1, 1, 6, places[0], len(code), align=align),
        section(7, kind, flags, places[1], len(constants), align=align),
        section(0, 4, 0, places[2], len(table), link=4, info=1, entry=24),
        section(0, 2, 0, places[3], len(symbols), link=5, info=3, entry=24),
        section(0, 3, 0, places[4], len(names)),
    )
    return b"".join((header, *parts, *headers))
