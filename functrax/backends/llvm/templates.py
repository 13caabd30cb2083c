"""Types, constants and templates of instructions: what LLVM IR text is put together from.

Values in registers: a bool is ``i1``; float16 and bfloat16 are ``i16``, stored dtypes ``i8``, their
bits, for they are only ever loaded, converted, chosen and stored (arithmetic is done in float32).
Thus LLVM is never asked for arithmetic that a CPU may lack, which it would turn into calls of a
library.

Start at :func:`llvm_type`, then :class:`Template`, which the rules of
``llvm/instructions.py`` fill with lines.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import le
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import DTypeError
from functrax.core.types import dtypes
from functrax.core.types.size_bounds import surely

_MOST_OF_I32: Final = 2**31 - 1
REGISTERS: Final[dict[np.dtype[Any], str]] = {
    dtypes.bool_: "i1",
    **{d: f"i{8 * d.itemsize}" for d in dtypes.INTEGER | dtypes.NARROW},
    dtypes.float32: "float",
    dtypes.float64: "double",
}
#: A complex number is a vector of its two parts; several are in turn what is in memory.
_PARTS: Final = {dtypes.complex64: "float", dtypes.complex128: "double"}
#: Registers of integers hold unsigned ones and halves, too.
_NUMBERS: Final = {
    name: dtype
    for dtype, name in REGISTERS.items()
    if dtype not in dtypes.HALF | dtypes.UNSIGNED | dtypes.STORED
}
_SUFFIXES: Final = {"half": "f16", "float": "f32", "double": "f64"}


@cache
def llvm_type(dtype: np.dtype[Any], lanes: int) -> str:
    """The type of ``lanes`` elements of a dtype in registers; of one lane no vector."""
    if dtype in _PARTS:
        return f"<{2 * lanes} x {_PARTS[dtype]}>"
    element = REGISTERS.get(dtype)
    if element is None:
        raise DTypeError(
            "a kernel computes with bools, integers, floats and complex numbers",
            got=str(dtype),
            fix="leave it to the reference",
        )
    return _vector(element, lanes)


def _vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def constant(number: Any, dtype: np.dtype[Any], lanes: int) -> str:
    """A number in every lane, to be written after its type."""
    if dtype in dtypes.STORED:
        text = str(int(np.asarray(number, dtype).view(np.uint8)))
    elif dtype.kind == "f" and dtype.itemsize > 2:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    elif dtype in dtypes.HALF:
        text = str(int(np.asarray(number, dtype).view(np.uint16)))
    elif dtype.kind == "b":
        text = "true" if number else "false"
    else:
        text = str(int(number))
    return text if lanes == 1 else f"splat ({REGISTERS[dtype]} {text})"


def lane_numbers(numbers: Iterable[int], element: str = "i32") -> str:
    """Integers, one for each lane, to be written after their type."""
    return f"<{', '.join([f'{element} {k}' for k in numbers])}>"


def lane_order(places: Sequence[int]) -> str:
    """Where a shuffle takes its lanes from."""
    return f"<{len(places)} x i32> {lane_numbers(places)}"


def suffix(element: str, lanes: int) -> str:
    """What stands for a type in the name of an intrinsic."""
    short = _SUFFIXES.get(element, element)
    return short if lanes == 1 else f"v{lanes}{short}"


def splat(line: Callable[[str], str], name: str, element: str, lanes: int) -> str:
    """A scalar in every lane; ``line`` writes an instruction and gives the name of its value."""
    vector = f"<{lanes} x {element}>"
    one = line(f"insertelement {vector} poison, {element} {name}, i64 0")
    zero = f"<{lanes} x i32> zeroinitializer"
    return line(f"shufflevector {vector} {one}, {vector} poison, {zero}")


def below(line: Callable[[str], str], count: str, lanes: int, most: int = 0) -> str:
    """Which lanes have a number below an ``i64``, which is ``most`` at most."""
    if not surely(le, most, _MOST_OF_I32):
        count = line(f"call i64 @llvm.smin.i64(i64 {count}, i64 {lanes})")
    all_ = splat(line, line(f"trunc i64 {count} to i32"), "i32", lanes)
    return line(f"icmp slt <{lanes} x i32> {lane_numbers(range(lanes))}, {all_}")


class Template:
    """The lines of an operation, with holes.

    Hole ``{k}`` stands for the k-th operand, and after the operands for the k-th result.

    Attributes:
      dtype: of the result.
      source: the dtype of the first operand, or of the second one of a ``select``.
      type: what LLVM calls ``source``.
      lanes: number of elements.
      lines: the right hand sides so far.
    """

    def __init__(
        self, dtype: np.dtype[Any], source: np.dtype[Any], operands: int, lanes: int
    ) -> None:
        self.dtype = dtype
        self.source = source
        self.type = llvm_type(source, lanes)
        self.operands = operands
        self.lanes = lanes
        self.lines: list[str] = []

    def add(self, line: str) -> str:
        """Adds an instruction; the hole of its result."""
        self.lines.append(line)
        return f"{{{self.operands + len(self.lines) - 1}}}"

    def of(self, element: str) -> str:
        """The type of as many ``element``."""
        return _vector(element, self.lanes)

    def call(self, name: str, *args: str, type: str = "", extra: str = "") -> str:
        """Calls an intrinsic overloaded on one type."""
        type = type or self.type
        operands = ", ".join(f"{type} {a}" for a in args)
        return self.add(f"call {type} @llvm.{name}.{self.suffix(type)}({operands}{extra})")

    def suffix(self, type: str) -> str:
        """What stands for a type in the name of an intrinsic."""
        return suffix(type.rpartition(" ")[2].rstrip(">"), self.lanes)

    def cast(self, how: str, x: str, source: str, target: str) -> str:
        """Converts between types named by their elements."""
        return self.add(f"{how} {self.of(source)} {x} to {self.of(target)}")

    def splat(self, number: float, element: str) -> str:
        """A number in every lane."""
        return constant(number, _NUMBERS[element], self.lanes)
