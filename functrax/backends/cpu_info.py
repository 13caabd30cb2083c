"""The processor of this machine, as far as it decides what code is made, without asking LLVM.

Loading LLVM takes longer than everything else that a program with a warm disk cache does, and two
facts are wanted before any kernel is looked up: how wide vectors are, and what tells this processor
from others (machines that share a home directory share its cache).  The system knows both.  It also
knows how large caches are, which decides how much of a contraction is kept at hand.

``FUNCTRAX_CPU=x86-64-v3`` asks for code that runs on lesser processors, too: machines of several
kinds can share a cache then, and give the same bits; and what is made for other processors can be
tested on this one.

Start at :func:`cpu_info`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache, cached_property
from typing import Final

from functrax.core.errors.typed import ArgumentError
from functrax.core.records import record

#: Lines of /proc/cpuinfo that tell processors apart; the others change from one moment to the next.
_IDENTITY: Final = frozenset(
    (
        "vendor_id",
        "cpu family",
        "model",
        "model name",
        "stepping",
        "flags",
        "CPU implementer",
        "CPU architecture",
        "CPU variant",
        "CPU part",
        "CPU revision",
        "Features",
        "isa",
        "cpu",
    )
)
#: Of these lines, the one that names instruction sets, on x86 and elsewhere: an emulator may show
#: that of the machine below it.
_X86_FLAGS, _OTHER_FLAGS = "flags", "Features"
_SYSCTL: Final = (  # macOS; a processor has some of them
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)
_X86: Final = ("x86_64", "AMD64")
#: What 64-byte vectors of all element types need.
_AVX512: Final = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl"))
#: Bytes of the second cache that a thread has: where the system does not tell, at least, at most.
SECOND_CACHE: Final = 1 << 20
_LEAST_CACHE, _MOST_CACHE = 1 << 18, 1 << 22
_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"
#: What a matrix unit multiplies, and what of the system's flags tells that it does.
_UNITS: Final = {"bf16": "amx_bf16", "i8": "amx_int8"}
#: Of the system's interface: a call that asks for a part of the processor, and that part.
_ARCH_PRCTL, _ASK_FOR, _MATRICES = 158, 0x1023, 18
#: Kinds of processors that code can be made for, by the names that LLVM has for them, and what of
#: the system's flags tells that a processor is one.
_V2: Final = frozenset(("ssse3", "sse4_1", "sse4_2", "popcnt"))
_V3: Final = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
KINDS: Final = {
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V3 | _AVX512 | {"avx512cd"},
}


@record
class CpuInfo:
    """A processor.

    Args:
      machine: its architecture, as the system calls it: ``x86_64``, ``aarch64``.
      identity: equal for equal processors; empty if the system does not tell.
      flags: the instruction sets that it has, in the system's words.
      kind: of ``KINDS``, the one that was asked for; empty for this processor as it is.
      second_cache: bytes of the second cache, or of a thread's part of it if several share it.
    """

    machine: str
    identity: str
    flags: frozenset[str]
    kind: str = ""
    second_cache: int = SECOND_CACHE

    @property
    def vector_bytes(self) -> int:
        """The width of its vector registers."""
        if self.flags >= _AVX512:
            return 64
        return 32 if "avx2" in self.flags else 16

    @property
    def has_scaling(self) -> bool:
        """Whether an instruction multiplies floats by powers of two."""
        return self.flags >= _AVX512

    @property
    def has_fma(self) -> bool:
        """Whether an instruction multiplies and adds, and rounds once.

        Where it is not known, it is not used: LLVM would call a library for it.
        """
        return self.machine not in _X86 or "fma" in self.flags

    @property
    def divides_fast(self) -> bool:
        """Whether a vector of float32 is divided as fast as it is multiplied in float64.

        So it is on AMD's (layer norm: 2.7 instead of 3.3 ns a vector, on Zen 4), not on Intel's.
        """
        return "AuthenticAMD" in self.identity

    @property
    def several_pages(self) -> bool:
        """Whether memory is read faster from several pages at once than from one after the other.

        So it is on Intel's (up to 1.5 times as fast), not on AMD's, which fetch a long row as fast
        as memory gives it and lose time where they begin a piece (Zen 5: up to 1.2 times as long).
        """
        return "AuthenticAMD" not in self.identity

    @cached_property
    def dots(self) -> frozenset[str]:
        """The kinds of instructions that add up products of narrow numbers, as kernels use them.

        See ``kernels/words.py``.  Of bfloat16 there are some of vectors where they are faster than
        to convert and to multiply: Intel's do 32 products in the time of 64 (measured on Sapphire
        Rapids), AMD's in the time of 16.
        """
        found = set()
        if self.machine in _X86:
            found.add("i16")
        if "avx512_bf16" in self.flags and "AuthenticAMD" in self.identity:
            found.add("bf16")
        if self.vector_bytes == 64 and "amx_tile" in self.flags:
            found |= {f"tile {x}" for x, flag in _UNITS.items() if flag in self.flags}
        return frozenset(found)

    @property
    def has_halves(self) -> bool:
        """Whether an instruction converts float16."""
        return self.machine not in _X86 or "f16c" in self.flags


@cache
def cpu_info() -> CpuInfo:
    """The processor that code is made for: the one that this process runs on, or a lesser one.

    Raises:
      ArgumentError: ``FUNCTRAX_CPU`` is no kind of processor, or one that this is not.
    """
    kind = os.environ.get("FUNCTRAX_CPU", "").strip()
    here = _this_processor()
    return limited(here, kind) if kind else here


def limited(here: CpuInfo, kind: str) -> CpuInfo:
    """A processor as one of a kind that has less.

    Raises:
      ArgumentError: it is not of that kind.
    """
    flags = KINDS.get(kind)
    if flags is None or not flags <= here.flags:
        possible = [name for name, needed in KINDS.items() if needed <= here.flags]
        raise ArgumentError(
            "FUNCTRAX_CPU is a kind of processor that this one is",
            got=repr(kind),
            fix=f"one of {', '.join(possible)}" if possible else "leave it empty",
        )
    return CpuInfo(here.machine, f"{here.machine}\n{kind}", flags, kind)


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


def _this_processor() -> CpuInfo:
    machine = os.uname().machine
    facts = _sysctl_facts() if sys.platform == "darwin" else _proc_facts()
    identity = "\n".join(f"{name}: {value}" for name, value in sorted(facts.items()))
    names: tuple[str, ...] = (_X86_FLAGS if machine in _X86 else _OTHER_FLAGS,)
    if sys.platform == "darwin":
        names = _SYSCTL[1:]
    flags = frozenset(" ".join(facts.get(name, "") for name in names).lower().split())
    second_cache = second_cache_of(_CACHES)
    identity += f"\nsecond cache: {second_cache}" if identity else ""
    if flags & {"amx_tile"} and not _unit_allowed():
        flags -= {"amx_tile"}
        identity += "\nmatrix unit: refused"
    name = f"{machine}\n{identity}" if identity else ""
    return CpuInfo(machine, name, flags, second_cache=second_cache)


def second_cache_of(folder: str) -> int:
    """Bytes of the second cache for each thread, as Linux describes the caches in a folder."""
    found = SECOND_CACHE
    for number in range(8):
        try:
            facts = [
                _line(f"{folder}/index{number}/{name}")
                for name in ("level", "type", "size", "shared_cpu_map")
            ]
        except OSError:
            break
        level, type_, size, sharing = facts
        if level == "2" and type_ != "Instruction" and size.endswith("K"):
            threads = int(sharing.replace(",", ""), 16).bit_count()
            found = int(size[:-1]) * 1024 // max(threads, 1)
    return min(max(found, _LEAST_CACHE), _MOST_CACHE)


def _line(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.readline().strip()


def _proc_facts() -> dict[str, str]:
    """What Linux says about the first processor."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            text = file.read(16384).decode("utf-8", "replace")  # not all of 256 processors
    except OSError:
        return {}
    return parse_cpuinfo(text)


def parse_cpuinfo(text: str) -> dict[str, str]:
    r"""The lines about the first processor in ``/proc/cpuinfo`` that tell processors apart.

    >>> parse_cpuinfo("processor : 0\nmodel name : A\ncpu MHz : 2.5\n\nprocessor : 1\n")
    {'model name': 'A'}
    """
    facts = {}
    for line in text.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        if name.strip() in _IDENTITY:
            facts[name.strip()] = value.strip()
    return facts


def _sysctl_facts() -> dict[str, str]:
    """What macOS says."""
    query = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    facts: dict[str, str] = {}
    if query is None:
        return facts
    for name in _SYSCTL:
        value = ctypes.create_string_buffer(4096)
        size = ctypes.c_size_t(len(value))
        if query(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0)) == 0:
            facts[name] = value.value.decode("utf-8", "replace")
    return facts
