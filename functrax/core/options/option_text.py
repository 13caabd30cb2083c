"""Options that are small texts: limits of passes, what is logged and dumped, sizes.

What enters is the text of an option (``functrax/core/options/config.py``); what leaves is data:
dictionaries by pass, a set of stages, a number.  A text of another form is refused with an
:class:`ArgumentError`; whether a pass exists is known only to the compiler, which asks when it uses
the option.

Start at :func:`limits`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from functrax.core.errors.typed import ArgumentError

#: What can be dumped, in the order in which it comes about.
STAGES = ("jaxpr", "passes", "groups", "kernels", "llvm", "asm", "program")
_UNITS = "KMGT"


@functools.lru_cache(maxsize=64)
def limits(text: str) -> Mapping[str, int]:
    """Of ``"cse=3:fuse=0"`` the number of rewrites that each pass may make.

    Raises:
      ArgumentError: if a part is not ``pass=number``.

    >>> dict(limits("cse=3:fuse=0"))
    {'cse': 3, 'fuse': 0}
    """
    found = {}
    for part in _parts(text, ":"):
        name, _, number = part.partition("=")
        if not name.isidentifier() or not (number.isascii() and number.isdigit()):
            raise ArgumentError(
                "config: opt_limit is not pass=number, several joined by colons",
                got=repr(text),
                fix="FUNCTRAX_OPT_LIMIT=simplify=10, or simplify=10:cse=0",
            )
        found[name] = int(number)
    return MappingProxyType(found)


@functools.lru_cache(maxsize=64)
def levels(text: str) -> Mapping[str, int]:
    """Of ``"fuse:>dce"`` how much of each pass is logged: 1, and one more for each ``>``.

    Raises:
      ArgumentError: if a part is not the name of a pass behind at most two ``>``.

    >>> dict(levels("fuse:>dce"))
    {'fuse': 1, 'dce': 2}
    """
    found = {}
    for part in _parts(text, ":"):
        name = part.lstrip(">")
        level = 1 + len(part) - len(name)
        if not name.isidentifier() or level > 3:
            raise ArgumentError(
                "config: log is not a list of passes joined by colons",
                got=repr(text),
                fix="FUNCTRAX_LOG=fuse:>dce; > also shows rewrites, >> what was not rewritten",
            )
        found[name] = level
    return MappingProxyType(found)


@functools.lru_cache(maxsize=64)
def words(text: str) -> frozenset[str]:
    """Of ``"peel,turn"`` the words.

    Raises:
      ArgumentError: if a part is no word.
    """
    found = _parts(text, ",")
    wrong = [part for part in found if not part.isidentifier()]
    if wrong:
        raise ArgumentError(
            "config: schedule_off is not a list of words joined by commas",
            got=repr(text),
            fix="FUNCTRAX_SCHEDULE_OFF=peel,turn; docs/kernels.md lists the rewrites",
        )
    return frozenset(found)


@functools.lru_cache(maxsize=64)
def stages(text: str) -> frozenset[str]:
    """Of ``"passes,llvm"`` the stages that are dumped.

    Raises:
      ArgumentError: if a part is none of :data:`STAGES`.
    """
    found = _parts(text, ",")
    unknown = [part for part in found if part not in STAGES]
    if unknown:
        raise ArgumentError(
            "config: dump is not a list of stages joined by commas",
            got=repr(text),
            fix="FUNCTRAX_DUMP=passes,llvm; there are " + ", ".join(STAGES),
        )
    return frozenset(found)


@functools.lru_cache(maxsize=64)
def byte_count(
    text: str,
    option: str = "cache_limit",
    call: str = 'functrax.config.update("cache_limit", "512MB")',
) -> int:
    """Of ``"512MB"`` the number of bytes; K, M, G and T count by 1024, the B may be left out.

    Args:
      text: a number and a unit.
      option: whose value it is.
      call: a call that sets it.

    Raises:
      ArgumentError: if the text is not a number and a unit.

    >>> byte_count("512MB")
    536870912
    """
    word = text.strip().upper().removesuffix("B")
    unit = _UNITS.find(word[-1:]) + 1 if word[-1:] else 0
    number = word[:-1] if unit else word
    if not (number.isascii() and number.isdigit()):
        raise ArgumentError(
            f"config: {option} is not a number of bytes",
            got=repr(text),
            fix=f"{call}, or 2GB, or 100000; in the environment FUNCTRAX_{option.upper()}=512MB",
        )
    return int(number) << (10 * unit)


def budget(text: str) -> int:
    """The bytes that temporaries of a program may take, 0 if there is no such number.

    Raises:
      ArgumentError: if there is a text that is not a number and a unit.
    """
    call = 'functrax.memory_budget("512MB")'
    return byte_count(text, "memory_budget", call) if text.strip() else 0


def _parts(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]
