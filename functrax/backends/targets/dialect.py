"""Dialects: how code for a kind of processor is written and loaded, where that is not alike.

Kernels are LLVM IR, the same for all processors but for a few instructions that have names of their
own there (:class:`Product`, :class:`MatrixUnit`).  What LLVM makes of them is loaded without a
linker, so that what its object files leave open has to be known (:class:`Relocations`): the fields
of instructions that hold places.

Start at :class:`Dialect`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from functrax.core.records import record

if TYPE_CHECKING:
    from functrax.backends.targets.sums import Sums

WORD: Final = struct.Struct("<I")
STUB: Final = 16  # bytes of a stub

#: From the word that is there, its place and where it leads to the word that comes there.
Rule: TypeAlias = Callable[[int, int, int], int]


def need(condition: bool, why: str) -> None:
    """Refuse an object without a condition.

    Raises:
      ValueError: says why.
    """
    if not condition:
        raise ValueError(f"object code refused: {why}")


def signed(value: int, bits: int, shift: int = 0) -> int:
    """A field of an instruction: a number of so many bits, counted in units of ``1 << shift``."""
    need(value & ((1 << shift) - 1) == 0, "a relocation is not aligned")
    scaled = value >> shift
    bound = 1 << (bits - 1)
    need(-bound <= scaled < bound, "a relocation is out of range")
    return scaled & ((1 << bits) - 1)


def relative(word: int, here: int, there: int) -> int:
    """The rule of a word that says how far away a place is."""
    return signed(there - here, 32)


@record
class Relocations:
    """What an object file leaves open.

    A relocation changes one word.  Both of its places are offsets in an image, which lies at whole
    pages.  A function of a library is called by way of a stub, which jumps to an address in a
    table behind the constants.

    Args:
      rules: by the type of a relocation.
      calls: types of calls, which may lead to stubs.
      table: types of places in the table of addresses, and the types of ``rules`` like them.
      stub: from the places of a stub and of an address to the ``STUB`` bytes of the stub.
    """

    rules: Mapping[int, Rule]
    calls: tuple[int, ...]
    table: Mapping[int, int]
    stub: Callable[[int, int], bytes]


@record
class Product:
    """An instruction that multiplies neighbours of two vectors of words and adds up what it gets.

    Args:
      intrinsic: what LLVM calls it.
      adds: whether it adds to a sum that it is given; else an addition follows, of which LLVM makes
        one instruction where the processor has it.
    """

    intrinsic: str
    adds: bool


@record
class MatrixUnit:
    """How a kernel uses a matrix unit.

    Args:
      configured: the lines at the begin of a kernel.
      released: the lines at its end.
      sums: the function that adds up the products of a tile, as a module with a name for it
        (``llvm/functions/tile_sums.py``).
    """

    configured: Callable[[], list[str]]
    released: Callable[[], list[str]]
    sums: Callable[[Sums, str], str]


@record
class FloatEnvironment:
    """Where ``fegetenv`` of C writes down whether a thread flushes subnormal numbers to zero.

    Args:
      nbytes: how long a ``fenv_t`` is.
      place: where the word is that says so.
      flushes: its bits that do.
      functions: LLVM IR of two functions, which read and write the register with these bits:
        ``i64 @float_mode()`` and ``void @set_float_mode(i64)``.
    """

    nbytes: int
    place: int
    flushes: int
    functions: str


@record
class Dialect:
    """How code for the processors of an architecture is written and loaded.

    Args:
      machine: the number that object files have for it; 0 of none.
      relocations: of its object files.
      announces: whether a processor must be told of new instructions in memory.
      products: instructions by their kind (``gemm/packed_dtypes.py``) and the number of lanes.
      unit: of kinds that are of a matrix unit.
      floats: where subnormal numbers are flushed; None where it is not known, and they never are.
    """

    machine: int
    relocations: Relocations
    announces: bool = False
    products: Mapping[tuple[str, int], Product] | None = None
    unit: MatrixUnit | None = None
    floats: FloatEnvironment | None = None

    def product(self, kind: str, lanes: int) -> Product:
        """The instruction of a kind for so many lanes."""
        assert self.products is not None, f"no target with {kind} is without names for it"
        return self.products[kind, lanes]

    def matrix_unit(self) -> MatrixUnit:
        """The matrix unit that a target has, whose kinds are among its ``dots``."""
        assert self.unit is not None, "no target with kinds of a matrix unit is without one"
        return self.unit


#: Of a machine that nobody knows: what is compiled for it is not loaded here.
UNKNOWN: Final = Dialect(0, Relocations({}, (), {}, lambda here, slot: b""))
