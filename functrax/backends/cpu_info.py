"""The processor of this machine, as far as it decides what code is made, without asking LLVM.

Loading LLVM takes longer than everything else that a program with a warm disk cache does, and two
facts are wanted before any kernel is looked up: how wide vectors are, and what tells this processor
from others (machines that share a home directory share its cache).  The system knows both.

``FUNCTRAX_CPU=x86-64-v3`` asks for code that runs on lesser processors, too: machines of several
kinds can share a cache then, and give the same bits; and what is made for other processors can be
tested on this one.

Start at :func:`cpu_info`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Final

from functrax.core.errors import ArgumentError
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
_FLAGS: Final = ("flags", "Features")
_SYSCTL: Final = (  # macOS; a processor has some of them
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)
#: What 64-byte vectors of all element types need.
_AVX512: Final = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl"))
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
    """

    machine: str
    identity: str
    flags: frozenset[str]
    kind: str = ""

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
    def has_halves(self) -> bool:
        """Whether an instruction converts float16."""
        return self.machine not in ("x86_64", "AMD64") or "f16c" in self.flags


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


def _this_processor() -> CpuInfo:
    machine = os.uname().machine
    facts = _sysctl_facts() if sys.platform == "darwin" else _proc_facts()
    identity = "\n".join(f"{name}: {value}" for name, value in sorted(facts.items()))
    names = _SYSCTL[1:] if sys.platform == "darwin" else _FLAGS
    flags = frozenset(" ".join(facts.get(name, "") for name in names).lower().split())
    return CpuInfo(machine, f"{machine}\n{identity}" if identity else "", flags)


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
