"""Constants of a module: arrays, texts, and the numbers of launches.  Equal ones are there once.

Arrays may be large, and LLVM reads a byte as four characters.  So the module has a section of zeros
for them, and their bytes are written into the object file (:func:`filled`).

Start at :class:`Constants`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.executables.memory_plan import ALIGNMENT, padded
from functrax.backends.machine_code.object_files import FILE, SECTION
from functrax.core.errors.typed import MachineCodeError

#: The section of the arrays, and the name of its begin.
_SECTION, _ARRAYS = ".rodata.functrax", "@arrays"
_CHARACTERS: Final = [
    chr(x) if 32 <= x < 127 and chr(x) not in '"\\' else f"\\{x:02X}" for x in range(256)
]


class Constants:
    """The constants of a module that is being put together."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._places: dict[bytes, int] = {}
        self._end = 0

    def array(self, value: np.ndarray[Any, Any]) -> str:
        """The address of an array's elements, which lie dense and row-major."""
        data = np.ascontiguousarray(value).tobytes()
        place = self._places.get(data)
        if place is None:
            place = self._places[data] = self._end
            self._end += padded(len(data))
        return f"getelementptr (i8, ptr {_ARRAYS}, i64 {place})"

    def text(self, value: str) -> str:
        """The address of a text, which ends with a zero."""
        data = value.encode() + b"\0"
        shown = "".join(map(_CHARACTERS.__getitem__, data))
        return self._name(f'[{len(data)} x i8] c"{shown}", align 1')

    def numbers(self, values: Sequence[int | str]) -> str:
        """The address of 64-bit integers, among which the addresses of functions may be."""
        if not values:
            return "null"
        items = [
            f"i64 {x}" if isinstance(x, int) else f"i64 ptrtoint (ptr {x} to i64)" for x in values
        ]
        return self._name(f"[{len(values)} x i64] [{', '.join(items)}], align 8")

    def _name(self, text: str) -> str:
        return self._names.setdefault(text, f"@constant.{len(self._names)}")

    def definitions(self) -> list[str]:
        """The lines of the module that define them."""
        head = "private unnamed_addr constant"
        lines = [f"{name} = {head} {text}" for text, name in self._names.items()]
        if self._places:
            zeros = f"[{max(self._end, 1)} x i8] zeroinitializer"
            lines.append(f'{_ARRAYS} = {head} {zeros}, section "{_SECTION}", align {ALIGNMENT}')
        return lines

    def filled(self, data: bytes) -> bytes:
        """An object file of the module, with the bytes of the arrays.

        Raises:
          MachineCodeError: the file has no place for them.
        """
        if not self._end:
            return data
        begin, size = _place_of(data, _SECTION.encode())
        if size < self._end:
            raise MachineCodeError(
                "aot: LLVM's object file has no section for constants",
                got=f"{size} bytes of {self._end}",
                fix="report this",
            )
        made = bytearray(data)
        for content, place in self._places.items():
            made[begin + place : begin + place + len(content)] = content
        return bytes(made)


def _place_of(data: bytes, name: bytes) -> tuple[int, int]:
    """Where a section of an object file begins, and its bytes; nothing if there is none."""
    *_, start, _, _, _, _, _, count, names = FILE.unpack_from(data)
    sections = list(SECTION.iter_unpack(data[start : start + count * SECTION.size]))
    texts = sections[names][4]
    for section in sections:
        place = texts + section[0]
        if data[place : place + len(name) + 1] == name + b"\0":
            return section[4], section[5]
    return 0, 0
