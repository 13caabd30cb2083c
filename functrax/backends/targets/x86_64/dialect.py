"""How code for x86-64 is written and loaded: names of instructions, relocations, the matrix unit.

Start at ``DIALECT``.
"""

from __future__ import annotations

from typing import Final

from functrax.backends.targets.dialect import (
    STUB,
    WORD,
    Dialect,
    FloatEnvironment,
    MatrixUnit,
    Product,
    Relocations,
    relative,
    signed,
)
from functrax.backends.targets.x86_64.matrix_unit import configured, released, unit_sums_text

#: Types of relocations: R_X86_64_PC32, PLT32, GOTPCREL, GOTPCRELX and REX_GOTPCRELX.
_PC32, _PLT32, _GOT, _GOT_RELAXED, _GOT_OF_64 = 2, 4, 9, 41, 42
#: Instructions that add up products of words: ``vdpbf16ps``; ``pmaddwd`` and, with the sum after
#: it, ``vpdpwssd``.
_BFLOAT: Final = {4: "dpbf16ps.128", 8: "dpbf16ps.256", 16: "dpbf16ps.512"}
_INTEGERS: Final = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
#: The register with DAZ and FTZ goes by way of memory.
_MXCSR: Final = """
define internal i64 @float_mode() nounwind {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %word = load i32, ptr %place
  %mode = zext i32 %word to i64
  ret i64 %mode
}
define internal void @set_float_mode(i64 %mode) nounwind {
  %place = alloca i32
  %word = trunc i64 %mode to i32
  store i32 %word, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret void
}
"""


def _stub(here: int, slot: int) -> bytes:
    jump = b"\xff\x25" + WORD.pack(signed(slot - (here + 6), 32))  # jmp *slot(%rip)
    return jump.ljust(STUB, b"\xcc")


DIALECT: Final = Dialect(
    machine=62,
    relocations=Relocations(
        rules={_PC32: relative, _PLT32: relative},
        calls=(_PLT32,),
        table=dict.fromkeys((_GOT, _GOT_RELAXED, _GOT_OF_64), _PC32),
        stub=_stub,
    ),
    products={
        **{("bf16", n): Product(f"llvm.x86.avx512bf16.{x}", True) for n, x in _BFLOAT.items()},
        **{("i16", n): Product(f"llvm.x86.{x}", False) for n, x in _INTEGERS.items()},
    },
    unit=MatrixUnit(configured, released, unit_sums_text),
    floats=FloatEnvironment(
        nbytes=32,
        place=28,
        flushes=0x8040,
        functions=_MXCSR,  # DAZ and FTZ
    ),
)
