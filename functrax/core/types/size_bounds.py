"""Comparisons of sizes that may have no value.

Start at :func:`surely`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrax.core.types.symbolic_sizes import applied, recording_of


def surely(function: Callable[..., bool], x: Any, y: Any) -> bool:
    """Whether a statement is known to hold; of plain numbers it is the statement."""
    if type(x) is int and type(y) is int:
        return function(x, y)
    recording = recording_of((x, y))
    return bool(function(x, y)) if recording is None else recording.is_sure(function, x, y)


def clipped(x: Any, low: Any, high: Any) -> Any:
    """``min(max(x, low), high)``."""
    if type(x) is int and type(low) is int and type(high) is int:
        return min(max(x, low), high)
    return applied(min, applied(max, x, low), high)
