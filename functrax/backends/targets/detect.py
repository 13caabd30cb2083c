"""Which machine this is, as far as it decides what code is made, without asking LLVM.

Loading LLVM takes longer than everything else that a program with a warm disk cache does, and two
facts are wanted before any kernel is looked up: how wide vectors are, and what tells this processor
from others (machines that share a home directory share its cache).  The system knows both.  It also
knows how large caches are, which decides how much of a contraction is kept at hand.

``FUNCTRAX_CPU=x86-64-v3`` asks for code that runs on lesser processors, too: machines of several
kinds can share a cache then, and give the same bits; and what is made for other processors can be
tested on this one.

Start at :func:`detected`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Final, Protocol, cast

from functrax.backends import targets
from functrax.backends.targets.facts import SECOND_CACHE, Facts, Target
from functrax.core.errors.typed import ArgumentError
from functrax.core.records import replace

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
_SYSCTL: Final = (  # macOS; a processor has some of them
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)
#: Bytes of the second cache that a thread has, at least and at most.
_LEAST_CACHE, _MOST_CACHE = 1 << 18, 1 << 22
_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"


class Folder(Protocol):
    """What the folder of a target gives.

    Attributes:
      FLAGS: the lines of what the system tells that name instruction sets.  An emulator may show
        those of the machine below it.
      TRIPLE: LLVM's name for the architecture and the system that object files are made for.
      LEAST: LLVM's name for the processor that has what all of them have.
      KINDS: kinds of its processors that code can be made for, by the names that LLVM has for them,
        and what of the system's flags tells that a processor is one.
    """

    FLAGS: tuple[str, ...]
    TRIPLE: str
    LEAST: str
    KINDS: Mapping[str, frozenset[str]]

    def target(self, facts: Facts) -> Target:
        """The target of a processor of which the system tells this."""


def detected() -> Target:
    """The target of this process.

    Raises:
      ArgumentError: ``FUNCTRAX_CPU`` is no kind of processor, or one that this is not.
    """
    facts = this_processor()
    kind = os.environ.get("FUNCTRAX_CPU", "").strip()
    return target_of(limited(facts, kind) if kind else facts)


def target_of(facts: Facts) -> Target:
    """The target of a processor; of an unknown one it is what all have."""
    folder = _folder(facts.machine)
    if folder is None:
        return Target(
            facts.machine,
            identity=facts.identity,
            flags=facts.flags,
            second_cache=facts.second_cache,
        )
    return folder.target(facts)


def limited(facts: Facts, kind: str) -> Facts:
    """A processor as one of a kind that has less.

    Raises:
      ArgumentError: it is not of that kind.
    """
    folder = _folder(facts.machine)
    kinds = {} if folder is None else folder.KINDS
    flags = kinds.get(kind)
    if flags is None or not flags <= facts.flags:
        possible = [name for name, needed in kinds.items() if needed <= facts.flags]
        raise ArgumentError(
            "FUNCTRAX_CPU is a kind of processor that this one is",
            got=repr(kind),
            fix=f"one of {', '.join(possible)}" if possible else "leave it empty",
        )
    return Facts(facts.machine, f"{facts.machine}\n{kind}", flags, kind=kind)


def named(name: str) -> Target:
    """The target of an architecture or of a kind of processors, whatever this machine is.

    Args:
      name: ``"x86-64-v4"`` and the others that ``FUNCTRAX_CPU`` may be; or an architecture, as
        systems call it (``"x86_64"``, ``"aarch64"``), for what all of its processors have.

    Raises:
      ArgumentError: there is none of that name.
    """
    known = []
    for machines in targets.FOLDERS.values():
        folder = _folder(machines[0]) if machines else None
        if folder is None:
            continue
        known += [*machines, *folder.KINDS]
        if name in machines or name in folder.KINDS:
            kind = folder.LEAST if name in machines else name
            flags = folder.KINDS.get(name, frozenset())
            facts = Facts(machines[0], f"{machines[0]}\n{kind}", flags, kind=kind)
            return replace(folder.target(facts), cpu=kind, triple=folder.TRIPLE)
    raise ArgumentError(
        "target: code is not made ahead of time for this kind of processor",
        got=repr(name),
        fix=f"one of {', '.join(known)}",
    )


def _folder(machine: str) -> Folder | None:
    for folder, machines in targets.FOLDERS.items():
        if machine in machines:
            return cast(Folder, import_module(folder))
    return None


def this_processor() -> Facts:
    """What the system tells of the processor of this process."""
    machine = os.uname().machine
    facts = _sysctl_facts() if sys.platform == "darwin" else _proc_facts()
    identity = "\n".join(f"{name}: {value}" for name, value in sorted(facts.items()))
    folder = _folder(machine)
    names = ("Features",) if folder is None else folder.FLAGS
    flags = frozenset(" ".join(facts.get(name, "") for name in names).lower().split())
    second_cache = second_cache_of(_CACHES)
    identity = f"{machine}\n{identity}\nsecond cache: {second_cache}" if identity else ""
    return Facts(machine, identity, flags, second_cache)


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
