"""Constants of a module: arrays, and the numbers of launches.  Equal ones are there once.

Start at :class:`Constants`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.executables.memory_plan import ALIGNMENT

_BYTES: Final = [
    chr(x) if 32 <= x < 127 and chr(x) not in '"\\' else f"\\{x:02X}" for x in range(256)
]


class Constants:
    """The constants of a module that is being put together."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def _name(self, text: str) -> str:
        return self._names.setdefault(text, f"@constant.{len(self._names)}")

    def array(self, value: np.ndarray[Any, Any]) -> str:
        """The address of an array's elements, which lie dense and row-major."""
        return self._bytes(np.ascontiguousarray(value).tobytes() or b"\0", ALIGNMENT)

    def text(self, value: str) -> str:
        """The address of a text, which ends with a zero."""
        return self._bytes(value.encode() + b"\0", 1)

    def _bytes(self, data: bytes, alignment: int) -> str:
        shown = "".join(map(_BYTES.__getitem__, data))
        return self._name(f'[{len(data)} x i8] c"{shown}", align {alignment}')

    def numbers(self, values: Sequence[int | str]) -> str:
        """The address of 64-bit integers, among which the addresses of functions may be."""
        if not values:
            return "null"
        items = [
            f"i64 {x}" if isinstance(x, int) else f"i64 ptrtoint (ptr {x} to i64)" for x in values
        ]
        return self._name(f"[{len(values)} x i64] [{', '.join(items)}], align 8")

    def definitions(self) -> list[str]:
        """The lines of the module that define them."""
        return [
            f"{name} = private unnamed_addr constant {text}" for text, name in self._names.items()
        ]
