"""Comparisons of sizes that may have no value.

Start at :func:`surely`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from functrax.core.types.symbolic_sizes import applied, is_symbolic_dim, recording_of

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])


def surely(function: Callable[..., bool], x: Any, y: Any) -> bool:
    """Whether a statement is known to hold; of plain numbers it is the statement."""
    if type(x) is int and type(y) is int:
        return function(x, y)
    recording = recording_of((x, y))
    return bool(function(x, y)) if recording is None else recording.is_sure(function, x, y)


def choice(function: _F) -> _F:
    """A function of sizes that chooses among what is right for any of them, for speed alone.

    Code for all sizes (``size_cases.py``) takes what it chooses for usual ones.
    """
    function.is_choice = True  # type: ignore[attr-defined]
    return function


def emitted(function: _F) -> _F:
    """A function of sizes that code for all of them computes when it runs."""
    function.is_emitted = True  # type: ignore[attr-defined]
    return function


def estimate(function: _F) -> _F:
    """The same, where comparisons of what it gives decide for speed alone."""
    function.is_estimate = True  # type: ignore[attr-defined]
    return emitted(function)


def roughly(x: _T) -> _T:
    """A number that decides what is faster, where either answer is right: of all sizes a usual one.

    Numbers that have values are what they are.
    """
    found: _T = applied(_itself, x) if is_symbolic_dim(x) else x
    return found


@choice
def _itself(x: Any) -> Any:
    return x


@emitted
def whole(x: Any) -> int:
    """An integer that a literal holds."""
    return int(x)


def clipped(x: Any, low: Any, high: Any) -> Any:
    """``min(max(x, low), high)``."""
    if type(x) is int and type(low) is int and type(high) is int:
        return min(max(x, low), high)
    return applied(min, applied(max, x, low), high)
