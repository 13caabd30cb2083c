"""Key paths: how to get from a pytree's root to one of its subtrees.

A path is a tuple of keys, one for each level: :class:`SequenceKey` for tuples and lists,
:class:`DictKey` for mappings, :class:`GetAttrKey` for attributes, :class:`FlattenedIndexKey` where
a registered type does not name its children.  :func:`keystr` prints a path as one would write it
in Python, which is how every error about pytrees names the place.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from functrax.core.records import record

KeyEntry: TypeAlias = Hashable
KeyPath: TypeAlias = tuple[KeyEntry, ...]


@record
class SequenceKey:
    """The child at position ``idx`` of a tuple or list; prints as ``[0]``."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@record
class DictKey:
    """The child under ``key`` of a mapping; prints as ``['a']``."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@record
class GetAttrKey:
    """The child that is the attribute ``name``; prints as ``.name``."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@record
class FlattenedIndexKey:
    """The child number ``key`` of a registered type that does not name its children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Prints a key path.

    Args:
      keys: the path.
      simple: print only the names and indices, without brackets, dots and quotes.
      separator: what to put between the keys.

    Returns:
      The path as one would write it in Python.

    Example:
      >>> keystr((DictKey("a"), SequenceKey(0), GetAttrKey("x")))
      "['a'][0].x"
      >>> keystr((DictKey("a"), SequenceKey(0), GetAttrKey("x")), simple=True, separator="/")
      'a/0/x'
    """
    return separator.join(_simple(key) if simple else str(key) for key in keys)


def _simple(key: KeyEntry) -> str:
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, GetAttrKey):
        return key.name
    if isinstance(key, (DictKey, FlattenedIndexKey)):
        return str(key.key)
    return str(key)
