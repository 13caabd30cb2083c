"""Which array of a file is which leaf of a tree: they have the same path, ``layers.0.w``.

Start at :func:`names_of` and :func:`paired`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree.operations import KeyPath
from functrax.core.types import dtypes
from functrax.random.key_array import KeyDType

#: As many paths are told of one kind; a model has thousands.
_SHOWN: Final = 5


def names_of(paths: Sequence[KeyPath]) -> list[str]:
    """What the arrays of a tree are called in a file, no two alike.

    Args:
      paths: of the leaves, in their order.
    """
    names: dict[str, None] = {}
    for path in paths:
        name, number = name_of(path), 1
        found = name
        while found in names or found == "__metadata__":
            number += 1
            found = f"{name} ({number})"
        names[found] = None
    return list(names)


def name_of(path: KeyPath) -> str:
    """A path as text: keys, positions and names of attributes, joined by dots."""
    parts = (getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))) for key in path)
    return ".".join(map(str, parts)) or "value"


def paired(
    names: Sequence[str],
    values: Sequence[Any],
    wanted: Sequence[str],
    like: Sequence[Any],
    by_position: bool,
) -> list[Any]:
    """The values of a file in the order of the leaves of a tree.

    Args:
      names: of the values.
      values: what the file holds.
      wanted: the names of the tree's leaves.
      like: these leaves; where one has a shape and a dtype, the value has that shape, and a dtype
        of that kind.
      by_position: whether values without a leaf of their name go by their position, because the
        file or the tree is a plain sequence, which has no names.

    Raises:
      PyTreeError: if a leaf has no value or a value no leaf, or the two differ.
    """
    found = dict(zip(names, values, strict=True))
    if found.keys() != set(wanted):
        if not by_position:
            raise _unpaired(names, wanted)
        if len(names) != len(wanted):
            raise PyTreeError(
                "load_tree: the file has another number of leaves than the structure",
                got=f"{len(names)} in the file, {len(wanted)} in like",
                fix="like= of the structure that was saved",
            )
        found = dict(zip(wanted, values, strict=True))
    for name, leaf in zip(wanted, like, strict=True):
        _check_type(name, found[name], leaf)
    return [found[name] for name in wanted]


def _unpaired(names: Sequence[str], wanted: Sequence[str]) -> PyTreeError:
    known, asked = set(names), set(wanted)
    missing = [name for name in wanted if name not in known]
    unused = [name for name in names if name not in asked]
    parts = []
    if missing:
        parts.append(f"the file has no {_shown(missing)}")
    if unused:
        parts.append(f"like has no {_shown(unused)}")
    return PyTreeError(
        "load_tree: the file and like have leaves of different paths",
        got="; ".join(parts),
        fix="like= with the paths of the file, which load_tree(path) without like= shows",
    )


def _shown(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _check_type(name: str, value: Any, leaf: Any) -> None:
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if not isinstance(shape, tuple) or not isinstance(dtype, (np.dtype, KeyDType)):
        return
    there = value if hasattr(value, "dtype") else np.asarray(value)
    if there.shape == shape and _kind(there.dtype) == _kind(dtype):
        return
    raise PyTreeError(
        "load_tree: an array of the file has another type than the leaf of like",
        got=f"{name}: {there.dtype}{list(there.shape)} in the file, {dtype}{list(shape)} in like",
        fix="like= of the structure and the shapes that were saved",
    )


def _kind(dtype: Any) -> str:
    if isinstance(dtype, KeyDType):
        return str(dtype)
    if dtypes.is_integer(dtype):
        return "integer"
    return "float" if dtypes.is_float(dtype) else str(np.dtype(dtype).kind)
