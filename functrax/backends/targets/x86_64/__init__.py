"""Processors of x86-64: with AVX-512, with AVX2, and those that have neither.

Three values of one dialect; a processor's own numbers come from what the system tells.

Start at :func:`target`.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Final

from functrax.backends.targets.facts import Facts, Target
from functrax.core.records import record, replace

FLAGS: Final = ("flags", "machdep.cpu.features", "machdep.cpu.leaf7_features")
#: LLVM's names of the system that object files are made for, and of the least processor.
TRIPLE, LEAST = "x86_64-unknown-linux-gnu", "x86-64"
#: What 64-byte vectors of all element types need.
_AVX512: Final = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl"))
_V2: Final = frozenset(("ssse3", "sse4_1", "sse4_2", "popcnt"))
_V3: Final = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
KINDS: Final = {
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V3 | _AVX512 | {"avx512cd"},
}
#: What tells of functions that they are instructions.
_FUNCTIONS: Final = {
    "fma": frozenset({"fma"}),
    "float16": frozenset({"f16c"}),
    "ldexp": _AVX512,
}
#: What a matrix unit (AMX) multiplies, and what tells that it does.
_UNITS: Final = {"bf16": "amx_bf16", "i8": "amx_int8"}
#: Of the system's interface: a call that asks for a part of the processor, and that part.
_ARCH_PRCTL, _ASK_FOR, _MATRICES = 158, 0x1023, 18

PLAIN: Final = Target(
    "x86-64", folder=__name__, functions=frozenset(), dots=frozenset({"i16"}), registers=16
)
AVX2: Final = replace(PLAIN, name="x86-64 with AVX2", vector_bytes=32)
AVX512: Final = replace(PLAIN, name="x86-64 with AVX-512", vector_bytes=64, registers=32)


@record
class _Maker:
    """What the processors of a maker have in common, and no instruction set tells.

    Each of these changes the order in which numbers are added up, or how the smallest ones are
    rounded.  So they are in a table: bits that a measurement decides would differ from one day to
    the next.

    Args:
      divides_fast: whether vectors of 64 bytes are divided fast, as shorter ones are; see
        :class:`~functrax.backends.targets.facts.Target`.
      several_pages: see there.
      adds_products: whether instructions that add up products of bfloat16 are faster than to
        convert and to multiply.
    """

    divides_fast: bool
    several_pages: bool
    adds_products: bool


#: AMD's divide 16 float32 in layer norm in 2.7 ns a vector instead of 3.3 (Zen 4), fetch a long row
#: as fast as memory gives it and lose time where they begin a piece of one (up to 1.2 times as
#: long, Zen 5), and add up 32 products of bfloat16 in the time of 16 that are converted.
_MAKERS: Final = {
    "AuthenticAMD": _Maker(divides_fast=True, several_pages=False, adds_products=True)
}
#: Intel's are up to 1.5 times as fast with several pages, and add up 32 products of bfloat16 in the
#: time of 64 (Sapphire Rapids).
_OTHERS: Final = _Maker(divides_fast=False, several_pages=True, adds_products=False)


def target(facts: Facts) -> Target:
    """The target of a processor of which the system tells this."""
    flags, identity = facts.flags, facts.identity
    if "amx_tile" in flags and not _unit_allowed():
        flags -= {"amx_tile"}
        identity += "\nmatrix unit: refused" if identity else ""
    wide = flags >= _AVX512
    maker = next((maker for name, maker in _MAKERS.items() if name in identity), _OTHERS)
    dots = {"i16"}
    if maker.adds_products and "avx512_bf16" in flags:
        dots.add("bf16")
    if wide and "amx_tile" in flags:
        dots |= {f"tile {x}" for x, flag in _UNITS.items() if flag in flags}
    return replace(
        AVX512 if wide else AVX2 if "avx2" in flags else PLAIN,
        identity=identity,
        flags=flags,
        cpu=facts.kind,
        second_cache=facts.second_cache,
        several_pages=maker.several_pages,
        functions=frozenset(name for name, needed in _FUNCTIONS.items() if flags >= needed),
        dots=frozenset(dots),
        divides_fast=maker.divides_fast or not wide,
    )


@cache
def _unit_allowed() -> bool:
    """Whether the system lets this process use the matrix unit, for which it must be asked.

    Every process asks that finds out which processor it runs on, before it looks for machine code
    of an earlier one.  The system refuses where it is too old to save the unit's 8 KB when it
    switches threads, or where a thread has too small a stack for signals.
    """
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "syscall", None)
    if call is None:
        return False
    call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long)
    call.restype = ctypes.c_long
    return bool(call(_ARCH_PRCTL, _ASK_FOR, _MATRICES) == 0)
