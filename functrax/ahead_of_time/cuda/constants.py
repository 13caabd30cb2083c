"""Constants of a program in the memory of a GPU: one block, whose bytes the C source has.

Start at :class:`DeviceConstants`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.backends.executables.memory_plan import padded

#: Bytes of a literal; C99 has compilers take literals of 4095.
ROW: Final = 1024
_CHARACTERS: Final = [
    chr(x) if 32 <= x < 127 and chr(x) not in '"\\?' else f"\\{x:03o}" for x in range(256)
]


class DeviceConstants:
    """The arrays that a program needs and callers do not give; equal ones are there once."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self.nbytes = 0

    def place(self, value: np.ndarray[Any, Any]) -> int:
        """Where an array begins, dense and row-major, counted from the begin of the block."""
        data = np.ascontiguousarray(value).tobytes()
        found = self._places.get(data)
        if found is None:
            found = self._places[data] = self.nbytes
            self.nbytes += padded(len(data))
        return found

    def rows(self) -> list[str]:
        """The bytes of the block as literals of C, each of ``ROW`` bytes, the last padded."""
        block = bytearray(-(-self.nbytes // ROW) * ROW)
        for data, place in self._places.items():
            block[place : place + len(data)] = data
        return [literal(bytes(block[n : n + ROW])) for n in range(0, len(block), ROW)]


def literal(data: bytes) -> str:
    """A literal of C with these bytes."""
    return '"' + "".join(map(_CHARACTERS.__getitem__, data)) + '"'
