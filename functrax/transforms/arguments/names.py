"""What users' functions are called."""

from __future__ import annotations

from typing import Any


def name_of(function: Any) -> str:
    """What a function is called in errors and in print."""
    name = getattr(function, "__name__", None)
    if name is None and hasattr(function, "func"):
        return name_of(function.func)
    return str(name) if name is not None else type(function).__name__
