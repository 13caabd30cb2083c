"""How code for AArch64 is loaded: its relocations are fields of instructions.

Start at ``DIALECT``.
"""

from __future__ import annotations

import struct
from typing import Final

from functrax.backends.targets.dialect import (
    Dialect,
    FloatEnvironment,
    Relocations,
    Rule,
    need,
    relative,
    signed,
)

_FPCR: Final = """
define internal i64 @float_mode() nounwind {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}
define internal void @set_float_mode(i64 %mode) nounwind {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""


def _page(word: int, here: int, there: int) -> int:
    field = signed((there >> 12) - (here >> 12), 21)
    return word & 0x9F00001F | (field & 3) << 29 | (field >> 2) << 5


def _low(shift: int) -> Rule:
    """The low 12 bits of an address, in units of ``1 << shift``."""

    def rule(word: int, here: int, there: int) -> int:
        low = there & 0xFFF
        need(low & ((1 << shift) - 1) == 0, "a relocation is not aligned")
        return word & 0xFFC003FF | (low >> shift) << 10

    return rule


def _branch(kept: int, bits: int, position: int) -> Rule:
    """The distance of a jump, in instructions; ``kept`` are the other bits of the instruction."""

    def rule(word: int, here: int, there: int) -> int:
        return word & kept | signed(there - here, bits, 2) << position

    return rule


def _stub(here: int, slot: int) -> bytes:
    page = _page(0x90000010, here, slot)  # adrp x16, slot
    load = _low(3)(0xF9400210, here + 4, slot)  # ldr x16, [x16, slot]
    return struct.pack("<4I", page, load, 0xD61F0200, 0)  # br x16


DIALECT: Final = Dialect(
    machine=183,
    relocations=Relocations(
        rules={
            261: relative,  # PREL32
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
        },
        calls=(282, 283),
        table={311: 275, 312: 286},  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
        stub=_stub,
    ),
    announces=True,
    floats=FloatEnvironment(nbytes=8, place=0, flushes=1 << 24, functions=_FPCR),  # FZ
)
