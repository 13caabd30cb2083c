"""Several kernels in one module for LLVM, and its object file taken apart again.

A module costs LLVM as much as a small kernel, beside its functions.  So what waits to be compiled
is joined: texts of modules with one function each enter :func:`joined`, and one text leaves, where
each function has a section of its own.  Its object file enters :func:`parts`, and an object for
each function leaves, with that section and the constants of all: kernels are kept one by one.

Start at :func:`joined`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Final

from functrax.backends.machine_code import object_files as elf
from functrax.backends.machine_code.object_files import ObjectFile, Section, Symbol
from functrax.backends.targets import target
from functrax.backends.targets.dialect import need

#: The line that begins a function: its name, and what follows it.
_HEAD: Final = re.compile(r"^define void @([\w.]+)(\([^()]*\) nounwind) \{$", re.MULTILINE)
#: Whether LLVM writes objects that :func:`parts` can take apart.
_KNOWN: Final = sys.platform not in ("darwin", "win32")
#: In a file, tables begin at multiples of so many bytes.
_ALIGNMENT: Final = 8
_TABLE: Final = 6  # the place in a file's header of where the table of sections begins


def joinable(text: str) -> bool:
    """Whether a module is one function, which calls none that it names.

    Args:
      text: the module.
    """
    head = _HEAD.search(text) if _KNOWN else None
    if head is None or text.count("define ") != 1:
        return False
    declares = "declare " in text or text.startswith("@") or "\n@" in text
    return not declares and text.count(f"@{head[1]}") == 1


def joined(texts: Sequence[str]) -> str:
    """One module with the functions of several.

    Args:
      texts: modules that are :func:`joinable`; what they call by the same number is the same.
    """
    functions, notes = [], set()
    for n, text in enumerate(texts):
        if "\n!" in text:
            lines = text.splitlines()
            notes.update([line for line in lines if line.startswith("!")])
            text = "\n".join([line for line in lines if not line.startswith("!")])
        head = rf'define void @{_prefix(n)}\1\2 section ".text.{n}" {{'
        functions.append(_HEAD.sub(head, text, count=1))
    return "\n".join([*functions, *sorted(notes)])


def _prefix(n: int) -> str:
    """What the name of a function begins with in a module of several."""
    return f"of{n}."


def parts(data: bytes, count: int) -> list[bytes]:
    """The object files of the functions of :func:`joined`, in their order.

    Args:
      data: the object file of the module.
      count: how many functions there are.

    Raises:
      ValueError: if they call what the object does not define, or are not all there.
    """
    whole = ObjectFile(data, target().dialect.machine)
    functions = {}
    for symbol in whole.symbols[whole.sections[whole.table].info :]:  # that are no local ones
        defined = symbol.info == elf.GLOBAL_FUNCTION and symbol.home != 0
        need(defined, "it calls what it does not define")
        functions[whole.name(symbol).decode().partition(".")[0]] = symbol
    found = []
    for prefix in map(_prefix, range(count)):
        need(prefix[:-1] in functions, "it has not all functions")
        function = functions[prefix[:-1]]
        found.append(_part(whole, function._replace(name=function.name + len(prefix))))
    return found


def _part(whole: ObjectFile, function: Symbol) -> bytes:
    """The object file of one function of several, by the symbol that it has there."""

    def belongs(n: int, section: Section) -> bool:
        if section.type == elf.RELA:
            return section.info == function.home
        return n == function.home or not section.flags & elf.EXECUTE

    kept = [belongs(n, section) for n, section in enumerate(whole.sections)]
    symbols = [
        bytes(elf.SYMBOL.size) if x.home < len(kept) and not kept[x.home] else elf.SYMBOL.pack(*x)
        for x in whole.symbols[: whole.sections[whole.table].info]
    ]
    symbols.append(elf.SYMBOL.pack(*function))
    end = elf.FILE.size
    contents, table = [], []
    for n, section in enumerate(whole.sections):
        if not kept[n]:  # it leaves its number to nobody
            table.append(bytes(elf.SECTION.size))
            continue
        content = b"".join(symbols) if n == whole.table else whole.content(section)
        table.append(elf.SECTION.pack(*section._replace(offset=end, size=len(content))))
        contents.append(content + bytes(-len(content) % _ALIGNMENT))
        end += len(contents[-1])
    header = list(whole.header)
    header[_TABLE] = end
    return b"".join([elf.FILE.pack(*header), *contents, *table])
