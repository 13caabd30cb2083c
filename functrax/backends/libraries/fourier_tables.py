"""Numbers that Fourier transforms need beside their operand: radices and roots of unity.

A length enters; the radices of the passes of ``native/fourier_loops.cpp`` leave, and the table that
it reads.  Each root is computed in float64 from an angle of at most an eighth of a turn, and then
rounded once.

Start at :func:`radices` and :func:`table`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

#: Longer transforms are NumPy's, for their tables are large.
MOST_POINTS = 1 << 14


def radices(length: int) -> tuple[int, ...] | None:
    """The radix of each pass, fours first; None for lengths with other prime factors, or long."""
    if length > MOST_POINTS:
        return None
    found = []
    for radix in (4, 5, 3, 2):
        while length % radix == 0:
            found.append(radix)
            length //= radix
    return tuple(found) if length == 1 else None


@lru_cache(maxsize=64)
def _unity(length: int) -> Any:
    """``exp(-2j pi k / length)`` for each ``k``."""
    found = np.empty(length, np.complex128)
    for k in range(length):
        # the angle in eighths of a turn, and what is left of it
        eighth, rest = divmod(8 * k, length)
        if eighth % 2:
            angle = (length - rest) * math.pi / (4 * length)
            near = complex(math.sin(angle), math.cos(angle))
        else:
            angle = rest * math.pi / (4 * length)
            near = complex(math.cos(angle), math.sin(angle))
        quarter = eighth // 2
        found[k] = (near * (1, 1j, -1, -1j)[quarter]).conjugate()
    return found


def table(length: int, is_halved: bool, scale: Any, dtype: np.dtype[Any]) -> Any:
    """What ``native/fourier_loops.cpp`` reads beside its operand.

    Args:
      length: of the transform.
      is_halved: whether it is real, and done as a complex one of half the length.
      scale: what the result is multiplied by.
      dtype: float32 or float64.
    """
    unity = _unity(length)
    parts = [np.reshape(scale, 1)]
    points = length
    if is_halved:
        points = length // 2
        parts += _apart(unity[: points + 1])
    left = points
    passes: Sequence[int] = radices(points) or ()
    for radix in passes:
        left //= radix
        step = length // (left * radix)
        rows = np.outer(np.arange(1, radix), np.arange(left)) * step
        parts += _apart(unity[rows % length])
    return np.concatenate(parts).astype(dtype)


def _apart(z: Any) -> list[Any]:
    return [z.real.reshape(-1), z.imag.reshape(-1)]
