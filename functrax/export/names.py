"""What the arrays are called that a function closes over: ``params['w']``, ``scale``.

Start at :func:`constant_names`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from functrax.core.arrays.operators import Array
from functrax.core.pytree.operations import keystr, tree_flatten_with_path

_MAX_DEPTH: Final = 4  # functions that call functions


def constant_names(function: Callable[..., Any], constants: Sequence[Any]) -> list[str]:
    """A name for each of the arrays that a function closes over, no two alike.

    Args:
      function: the user's; what its closure, its globals, defaults and attributes call an array is
        the name.
      constants: the arrays.
    """
    found: dict[int, str] = {}
    copies: list[tuple[str, np.ndarray[Any, Any]]] = []
    wanted = {id(x) for x in constants}
    for top, value in _values(function, 0, set()):
        for path, leaf in tree_flatten_with_path(value)[0]:
            if id(leaf) in wanted:
                found.setdefault(id(leaf), top + keystr(path))
            elif isinstance(leaf, np.ndarray):
                copies.append((top + keystr(path), leaf))
    names: list[str] = []
    for x in constants:
        name = found.get(id(x)) or _name_of_copy(x, copies) or "constant"
        base, number = name, 1
        while name in names:
            number += 1
            name = f"{base} ({number})"
        names.append(name)
    return names


def _name_of_copy(x: Any, copies: Sequence[tuple[str, np.ndarray[Any, Any]]]) -> str | None:
    """The name of a NumPy array of the same shape and values."""
    same = [(name, y) for name, y in copies if y.shape == x.shape and y.size]
    if not same:
        return None
    value = np.asarray(x)
    return next((n for n, y in same if np.array_equal(y.astype(value.dtype), value)), None)


def _values(function: Any, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """What a function can refer to, by name; of functions of functrax's own nothing."""
    if id(function) in seen or depth > _MAX_DEPTH:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        yield from ((f"args[{i}]", x) for i, x in enumerate(function.args))
        yield from function.keywords.items()
        yield from _values(function.func, depth + 1, seen)
        return
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, type):
        yield from ((f"self.{name}", x) for name, x in getattr(owner, "__dict__", {}).items())
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(function):
        call = vars(type(function)).get("__call__")
        if inspect.isfunction(call):
            yield from ((f"self.{n}", x) for n, x in getattr(function, "__dict__", {}).items())
            yield from _values(call, depth + 1, seen)
        return
    if str(function.__module__).partition(".")[0] == "functrax":
        return
    try:
        closure = inspect.getclosurevars(function)
        known = {**closure.nonlocals, **closure.globals}
    except (ValueError, TypeError):  # a cell that is empty yet
        known = {}
    for name, x in known.items():
        if callable(x) and not isinstance(x, Array):
            yield from _values(x, depth + 1, seen)
        elif not inspect.ismodule(x):
            yield name, x
