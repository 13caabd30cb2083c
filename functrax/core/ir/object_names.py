"""Names for objects that have no text: how a printed program refers to a Python object.

A parameter may be a function, or a user's rule.  It prints as ``@name#7``, and while the object
lives, this process knows which one that is, so that what was printed can be parsed again.  Only
weak references are held: printing a program keeps nothing alive.

Start at :func:`object_name`; :func:`named_object` is its inverse.
"""

from __future__ import annotations

import itertools
import re
import weakref
from typing import Any

_names: dict[int, str] = {}
_objects: dict[str, weakref.ref[Any]] = {}
_numbers = itertools.count(1)


def object_name(thing: Any) -> str:
    """``name#7``, always the same for the same object while it lives.

    An object that cannot be referred to weakly gets a name that :func:`named_object` does not
    know.
    """
    known = _names.get(id(thing))
    if known is not None:
        return known
    name = f"{_plain_name(thing)}#{next(_numbers)}"
    key = id(thing)

    def forget(_: Any) -> None:
        _names.pop(key, None)
        _objects.pop(name, None)

    try:
        _objects[name] = weakref.ref(thing, forget)
    except TypeError:
        return name
    _names[key] = name
    return name


def named_object(name: str) -> Any | None:
    """The living object that was given a name, or None."""
    found = _objects.get(name)
    return None if found is None else found()


def _plain_name(thing: Any) -> str:
    name = getattr(thing, "__name__", None)
    if not isinstance(name, str):
        name = type(thing).__name__
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "object"
