"""Relocations: what an object file leaves open, by the processor that it is for.

A relocation changes one word, which :data:`RULES` compute: from the word that is there, its place
and its target.  Both places are offsets in an image, which lies at whole pages.  A function of a
library is called by way of a stub (:data:`STUBS`), which jumps to an address in a table.

Start at :data:`RULES`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

X86_64: Final = 62  # as ELF numbers processors
AARCH64: Final = 183
WORD: Final = struct.Struct("<I")
STUB: Final = 16  # bytes of a stub


def need(condition: bool, why: str) -> None:
    """Refuse an object without a condition.

    Raises:
      ValueError: says why.
    """
    if not condition:
        raise ValueError(f"object code refused: {why}")


#: From the word that is there, its place and its target to the word that comes there.
Rule: TypeAlias = Callable[[int, int, int], int]


def _signed(value: int, bits: int, shift: int = 0) -> int:
    """A field of an instruction: a number of so many bits, counted in units of ``1 << shift``."""
    need(value & ((1 << shift) - 1) == 0, "a relocation is not aligned")
    scaled = value >> shift
    bound = 1 << (bits - 1)
    need(-bound <= scaled < bound, "a relocation is out of range")
    return scaled & ((1 << bits) - 1)


def _relative(word: int, here: int, target: int) -> int:
    return _signed(target - here, 32)


def _page(word: int, here: int, target: int) -> int:
    field = _signed((target >> 12) - (here >> 12), 21)
    return word & 0x9F00001F | (field & 3) << 29 | (field >> 2) << 5


def _low(shift: int) -> Rule:
    """The low 12 bits of an address, in units of ``1 << shift``."""

    def rule(word: int, here: int, target: int) -> int:
        low = target & 0xFFF
        need(low & ((1 << shift) - 1) == 0, "a relocation is not aligned")
        return word & 0xFFC003FF | (low >> shift) << 10

    return rule


def _branch(kept: int, bits: int, position: int) -> Rule:
    """The distance of a jump, in instructions; ``kept`` are the other bits of the instruction."""

    def rule(word: int, here: int, target: int) -> int:
        return word & kept | _signed(target - here, bits, 2) << position

    return rule


_X86_64_RULES: Final[dict[int, Rule]] = {2: _relative, 4: _relative}  # PC32, PLT32
_AARCH64_RULES: Final[dict[int, Rule]] = {
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


def _x86_64_stub(here: int, slot: int) -> bytes:
    jump = b"\xff\x25" + WORD.pack(_signed(slot - (here + 6), 32))  # jmp *slot(%rip)
    return jump.ljust(STUB, b"\xcc")


def _aarch64_stub(here: int, slot: int) -> bytes:
    page = _page(0x90000010, here, slot)  # adrp x16, slot
    load = _low(3)(0xF9400210, here + 4, slot)  # ldr x16, [x16, slot]
    return struct.pack("<4I", page, load, 0xD61F0200, 0)  # br x16


#: The rules of relocations, by processor and type.
RULES: Final = {X86_64: _X86_64_RULES, AARCH64: _AARCH64_RULES}
#: Types of relocations of calls, which may lead to stubs.
CALLS: Final = {X86_64: (4,), AARCH64: (282, 283)}
#: Types of relocations of places in the table of addresses, and the types of ``RULES`` like them:
#: GOTPCREL, GOTPCRELX, REX_GOTPCRELX; ADR_GOT_PAGE, LD64_GOT_LO12_NC.
TABLE: Final = {X86_64: {9: 2, 41: 2, 42: 2}, AARCH64: {311: 275, 312: 286}}
#: From the places of a stub and of an address to the stub.
STUBS: Final = {X86_64: _x86_64_stub, AARCH64: _aarch64_stub}
