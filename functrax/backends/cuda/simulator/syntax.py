"""PTX as data: types, operands, instructions, variables, functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
DType: TypeAlias = "np.dtype[Any]"


class Type(NamedTuple):
    """A type of PTX (PTX ISA 5.2, Types).

    Attributes:
      name: as in the text, without the dot.
      dtype: how NumPy holds a register of it; bf16, tf32 and packed types are held as bits.
      bits: its size.
      kind: ``u``, ``s``, ``b`` (untyped bits), ``f``, ``bf``, ``p`` (predicate), or its name.
    """

    name: str
    dtype: DType
    bits: int
    kind: str

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize


def _types() -> dict[str, Type]:
    types = {}
    for bits in (8, 16, 32, 64):
        types[f"u{bits}"] = Type(f"u{bits}", np.dtype(f"u{bits // 8}"), bits, "u")
        types[f"s{bits}"] = Type(f"s{bits}", np.dtype(f"i{bits // 8}"), bits, "s")
        types[f"b{bits}"] = Type(f"b{bits}", np.dtype(f"u{bits // 8}"), bits, "b")
    for bits in (16, 32, 64):
        types[f"f{bits}"] = Type(f"f{bits}", np.dtype(f"f{bits // 8}"), bits, "f")
    types["bf16"] = Type("bf16", np.dtype("u2"), 16, "bf")
    types["tf32"] = Type("tf32", np.dtype("u4"), 32, "tf32")
    types["f32x2"] = Type("f32x2", np.dtype("u8"), 64, "f32x2")
    types["s16x2"] = Type("s16x2", np.dtype("u4"), 32, "s16x2")
    types["u16x2"] = Type("u16x2", np.dtype("u4"), 32, "u16x2")
    types["f16x2"] = Type("f16x2", np.dtype("u4"), 32, "f16x2")
    types["bf16x2"] = Type("bf16x2", np.dtype("u4"), 32, "bf16x2")
    for name in ("e4m3x2", "e5m2x2"):
        types[name] = Type(name, np.dtype("u2"), 16, name)
    types["pred"] = Type("pred", np.dtype("?"), 1, "p")
    return types


TYPES: Final = _types()
#: The dtype of registers' bits, by their bytes; predicates have one of their own.
UNSIGNED: Final[dict[int, DType]] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
BOOL: Final[DType] = np.dtype("?")


class Register(NamedTuple):
    """A register, or ``!p``."""

    name: str
    negated: bool = False


class Immediate(NamedTuple):
    """A constant: an integer, or a floating-point number as its value."""

    value: int | float
    #: The bytes of 0f… and 0d… constants; 0 for others.
    width: int = 0


class PtxSymbol(NamedTuple):
    """The address of a variable, with an offset; or a label or a function's name."""

    name: str
    offset: int = 0


class Address(NamedTuple):
    """``[base + offset]``."""

    base: Register | PtxSymbol | Immediate
    offset: int


class Vector(NamedTuple):
    """``{a, b, …}``, or the arguments ``(a, b, …)`` of a call."""

    elements: tuple[Any, ...]


class Pair(NamedTuple):
    """``p|q``, two destinations."""

    first: Any
    second: Any


Operand: TypeAlias = "Register | Immediate | PtxSymbol | Address | Vector | Pair"


@dataclass
class Instruction:
    """One instruction as it stands in the text.

    Attributes:
      parts: its opcode, cut at the dots; the first is the operation.
      guard: the predicate that guards it.
      line: its line in the text.
      source: file and line from ``.loc``.
    """

    parts: tuple[str, ...]
    operands: tuple[Any, ...]
    guard: Register | None
    line: int
    source: str
    text: str

    def has(self, part: str) -> bool:
        return part in self.parts


@dataclass
class Label:
    """A place in a function that branches name."""

    name: str
    line: int
    #: The labels of a ``.branchtargets`` directive that this name stands for.
    targets: tuple[str, ...] = ()


@dataclass
class Variable:
    """A variable of a state space, or a parameter.

    Attributes:
      size: its bytes; 0 for ``name[]``, whose size the launch gives.
      initial: its first bytes, or None.
      addresses: (offset, symbol, addend) of addresses in them.
    """

    name: str
    space: str
    type: Type
    size: int
    align: int
    initial: bytes | None = None
    addresses: list[tuple[int, str, int]] = field(default_factory=list)
    line: int = 0

    @property
    def is_array(self) -> bool:
        return self.size != self.type.bytes


@dataclass
class PtxFunction:
    """An entry or a function, as it stands in the text."""

    name: str
    is_entry: bool
    line: int
    params: list[Variable] = field(default_factory=list)
    returns: list[Variable] = field(default_factory=list)
    registers: dict[str, Type] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[Instruction | Label] = field(default_factory=list)
    maxntid: tuple[int, int, int] | None = None
    reqntid: tuple[int, int, int] | None = None
    has_body: bool = True


@dataclass
class Text:
    """A module as it stands in the text."""

    version: str = ""
    target: str = ""
    address_size: int = 64
    functions: dict[str, PtxFunction] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
