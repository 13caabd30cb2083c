"""What the control groups of a Linux container allow: processor time, and memory.

A process belongs to a group, whose limits and those of all groups around it hold at the same time.
``/proc/self/cgroup`` names the groups, ``/proc/self/mountinfo`` the folders where they are seen.
There are two versions of the interface, which a machine may use side by side.  Source: "Control
Group v2" and "CPU bandwidth control" in the Linux kernel's documentation.

Every function reads below a given root folder.  What cannot be read limits nothing.

Start at :func:`limits`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from typing import Final

from functrax.core.records import record

#: Above this many bytes version 1 means that there is no limit.
_NO_LIMIT: Final = 1 << 60


@record
class Limits:
    """What a process may use; None where nothing limits it.

    Args:
      processors: how many it may keep busy, on average.
      memory: bytes.
      memory_and_swap: bytes, those on disk among them.
    """

    processors: float | None = None
    memory: int | None = None
    memory_and_swap: int | None = None

    @property
    def threads(self) -> int | None:
        """As many as can be busy at the same time, one at least."""
        return None if self.processors is None else max(1, math.ceil(self.processors))


@cache
def limits(root: str = "/") -> Limits:
    """The limits of this process.

    Args:
      root: the folder that ``proc`` and the groups' folders lie in.
    """
    found = [_OF_GROUPS[kind](root, folder) for folder, kind in _groups(root)]
    return Limits(
        min((x.processors for x in found if x.processors is not None), default=None),
        min((x.memory for x in found if x.memory is not None), default=None),
        min((x.memory_and_swap for x in found if x.memory_and_swap is not None), default=None),
    )


def processors(root: str = "/") -> int:
    """How many threads of this process can be busy at the same time.

    Args:
      root: the folder that ``proc`` and the groups' folders lie in.
    """
    allowed = len(os.sched_getaffinity(0))
    return min(allowed, limits(root).threads or allowed)


def memory(root: str = "/") -> int:
    """Bytes that this process may keep in memory.

    Args:
      root: the folder that ``proc`` and the groups' folders lie in.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = limits(root).memory
    return machine if limit is None else min(machine, limit)


def _groups(root: str) -> Iterator[tuple[str, str]]:
    """The folders of the groups around this process, and the kind of each, of ``_OF_GROUPS``."""
    paths = {}
    for line in _lines(root, "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    for line in _lines(root, "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        system, _, options = [*after.split(), "", "", ""][:3]
        if system not in ("cgroup", "cgroup2"):
            continue
        shown, place = before.split()[3:5]
        folder = os.path.join(root, place.lstrip("/"))
        for kind in options.split(",") if system == "cgroup" else [""]:
            if kind in _OF_GROUPS and kind in paths:
                yield from ((x, kind) for x in _around(folder, shown, paths[kind]))


def _around(folder: str, shown: str, path: str) -> Iterator[str]:
    """The folder of a group and those around it.

    Args:
      folder: where the group ``shown`` is seen.
      shown: a group.
      path: a group in it; if it is elsewhere, it is not seen, and ``shown`` is taken.
    """
    inside = os.path.relpath(path, shown)
    parts = [] if inside.startswith("..") else [x for x in inside.split("/") if x != "."]
    for count in range(len(parts), -1, -1):
        yield os.path.join(folder, *parts[:count])


def _of_both(root: str, folder: str) -> Limits:
    """The limits of a group of version 2."""
    quota, period = [*_words(folder, "cpu.max"), "", ""][:2]
    most, swap = _number(folder, "memory.max"), _number(folder, "memory.swap.max")
    both = None if most is None else most + min(_swap(root), _NO_LIMIT if swap is None else swap)
    return Limits(_share(quota, period), most, both)


def _of_processors(root: str, folder: str) -> Limits:
    """The limits of a group of version 1 for processors."""
    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return Limits(_share(*(_first(folder, name) for name in files)))


def _of_memory(root: str, folder: str) -> Limits:
    """The limits of a group of version 1 for memory."""
    most = _number(folder, "memory.limit_in_bytes")
    both = _number(folder, "memory.memsw.limit_in_bytes")
    return Limits(None, most, most + _swap(root) if both is None and most is not None else both)


#: What a group limits, by the controller of version 1 that it is seen by; "" is version 2.
_OF_GROUPS: Final = {"": _of_both, "cpu": _of_processors, "memory": _of_memory}


def _share(quota: str, period: str) -> float | None:
    """How many processors a quota of time in each period keeps busy."""
    limited = quota.isdecimal() and period.isdecimal() and int(period) > 0
    return int(quota) / int(period) if limited else None


def _number(folder: str, name: str) -> int | None:
    text = _first(folder, name)
    return int(text) if text.isdecimal() and int(text) < _NO_LIMIT else None


def _swap(root: str) -> int:
    """Bytes that the machine may write to disk instead of keeping them."""
    for line in _lines(root, "proc/meminfo"):
        if line.startswith("SwapTotal:"):
            return int(line.split()[1]) << 10
    return 0


def _first(folder: str, name: str) -> str:
    return next(iter(_words(folder, name)), "")


def _words(folder: str, name: str) -> list[str]:
    return " ".join(_lines(folder, name)).split()


def _lines(folder: str, name: str) -> list[str]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
