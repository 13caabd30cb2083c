"""Errors of functrax's own, which users are spared: something slower is done instead.

Whoever catches one calls :func:`report`, so that tests fail for it and users can tell of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

#: Called with each error. Where there is none users are warned.
observers: Final[list[Callable[[Exception], object]]] = []


def report(error: Exception, instead: str | None = None) -> None:
    """Tell of an error that nobody expected.

    Args:
      error: what was raised.
      instead: what is done in its place, for a warning; None where users need not know.
    """
    for observe in observers:
        observe(error)
    if not observers and instead is not None:
        warnings.warn(
            f"an internal error of functrax, please report it: {error!r}; {instead}",
            RuntimeWarning,
            stacklevel=2,
        )
