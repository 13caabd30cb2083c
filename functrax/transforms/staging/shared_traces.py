"""Traces that several jitted functions of one function share.

``jit(f)(x)`` in a loop makes a jitted function each time; what it traces is the same.  The traces
of a Python function are kept beside it for as long as it lives, by the roles of its arguments.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Final

from functrax.transforms.arguments.static_args import ArgumentRoles
from functrax.transforms.staging.trace_cache import TraceCache

_by_function: Final[weakref.WeakKeyDictionary[Any, dict[Hashable, TraceCache]]] = (
    weakref.WeakKeyDictionary()
)


def traces_of(function: Callable[..., Any], roles: ArgumentRoles) -> TraceCache:
    """Where the traces of a function are kept, by their signatures.

    Only plain functions share them: other callables may be equal, and yet do different things.
    """
    if type(function) is not types.FunctionType:
        return TraceCache()
    by_roles = _by_function.setdefault(function, {})
    return by_roles.setdefault((roles.static_nums, roles.static_names), TraceCache())


def forget() -> None:
    """Drop the traces of all functions: those, too, whose jitted functions are gone."""
    for by_roles in _by_function.values():
        for traces in by_roles.values():
            traces.clear()
    _by_function.clear()
