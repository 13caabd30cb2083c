"""The C++ extension, where there is one.

``extension`` is the module ``functrax._native``, or None when it was not built or when the
environment variable ``FUNCTRAX_NATIVE=0`` switches it off.  Everything in it has a Python twin, so
functrax works without it, slowly; a :class:`MissingExtensionWarning` says so once.  Code that has
a choice asks ``available`` once, at import.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

F = TypeVar("F", bound="Callable[..., Any]")


class MissingExtensionWarning(RuntimeWarning):
    """functrax was installed without its C++ extension, and is slow."""


def _load() -> ModuleType | None:
    if os.environ.get("FUNCTRAX_NATIVE", "1") == "0":
        return None
    try:
        from functrax import _native
    except ImportError as error:
        # Of one that is not there Python names the package, and of one that fails the module.
        why = "" if error.name == "functrax" else f" ({error})"
        warnings.warn(
            f"functrax has no C++ extension here{why}: calls take many times as long. "
            "`python -m functrax doctor` says what to do; with FUNCTRAX_NATIVE=0 nothing is said.",
            MissingExtensionWarning,
            stacklevel=2,
        )
        return None
    return _native


extension: ModuleType | None = _load()
available: bool = extension is not None


def eager_method(function: F) -> F:
    """A method that applies an operation; C++ records it where it can be recorded at once.

    What it needs for that ``backends/eager`` tells it; until then the function is called.
    """
    if extension is None:
        return function
    made: F = extension.EagerMethod(function)
    return made
