"""PTX texts taken apart and put together: a module of several kernels, and each by itself.

A module begins with a head (its version, the target, the size of addresses); then come its items:
kernels, functions that they call, memory.  An item begins a line, and ends with a line ``}`` or
one that ends in ``;``.

Start at :func:`alone` and :func:`joined`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

#: The last line of a head.
_LAST_OF_HEAD: Final = ".address_size"
_WORD: Final = re.compile(r"[\w$]+")
#: What an item's name stands behind: what a function returns may be between.
_FUNCTION: Final = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
#: The name of memory stands before its size, its value or the end.
_MEMORY: Final = re.compile(r"([\w$]+)\s*(?:\[|=|;)")


def alone(text: str, names: Iterable[str]) -> dict[str, str]:
    """Of a module, some kernels as modules of their own, with what they need.

    Args:
      text: the module.
      names: of the kernels.

    Raises:
      KeyError: the module has no item of a name.
    """
    head, items = _split(text)
    homes: dict[str, list[int]] = {}
    for n, item in enumerate(items):
        homes.setdefault(_name(item), []).append(n)
    found = {}
    for name in names:
        wanted, waiting = set(homes[name]), list(homes[name])
        while waiting:
            for word in _WORD.findall(items[waiting.pop()]):
                new = [n for n in homes.get(word, ()) if n not in wanted]
                wanted.update(new)
                waiting += new
        found[name] = "".join([head, *[items[n] for n in sorted(wanted)]])
    return found


def joined(texts: Iterable[str]) -> str:
    """One module with all items of several; items of one name and kind are the same.

    Raises:
      ValueError: they are for different targets.
    """
    heads: set[str] = set()
    kept: dict[tuple[str, bool], str] = {}
    for text in texts:
        head, items = _split(text)
        heads.add(head)
        for item in items:
            kept.setdefault((_name(item), item.endswith("}\n")), item)
    if len(heads) != 1:
        raise ValueError("modules of PTX for different targets, or none")
    return "".join([*heads, *kept.values()])


def _split(text: str) -> tuple[str, list[str]]:
    """The head of a module and its items."""
    lines = text.splitlines()
    end = next(n for n, line in enumerate(lines) if line.startswith(_LAST_OF_HEAD)) + 1
    head = [line for line in lines[:end] if line.startswith(".")]
    return "\n".join([*head, "", ""]), list(_items(lines[end:]))


def _items(lines: Iterable[str]) -> Iterator[str]:
    item: list[str] = []
    inside = False
    for line in lines:
        if not item and (not line.strip() or line.lstrip().startswith("//")):
            continue
        item.append(line)
        inside = inside or line.startswith("{")
        if line.startswith("}") or (not inside and line.rstrip().endswith(";")):
            yield "\n".join([*item, ""])
            item, inside = [], False


def _name(item: str) -> str:
    found = _FUNCTION.search(item) or _MEMORY.search(item)
    assert found is not None, f"an item of PTX without a name: {item[:80]}"
    return found[1]
