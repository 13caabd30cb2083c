"""Numbers that Fourier transforms need beside their operand: radices and roots of unity.

A length enters; the radices of the passes of ``native/fourier_transforms.h`` leave, and the table
that it reads.  Each root is computed in float64 from an angle of at most an eighth of a turn, and
then rounded once.

Start at :func:`radices` and :func:`table`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

#: Columns of a long transform that have roots of unity in common (``native/fourier_long.h``).
GROUP = 16
#: Longer transforms are done as many of two shorter lengths, for their tables are large.
MOST_POINTS = 1 << 14


def radices(length: int) -> tuple[int, ...] | None:
    """The radix of each pass, eights first; None for lengths with other prime factors, or long."""
    if length > MOST_POINTS:
        return None
    twos = (length & -length).bit_length() - 1
    eights, rest = divmod(twos, 3)
    if rest == 1 and eights:  # 4 times 4 instead of 8 times 2
        eights, rest = eights - 1, 4
    found = [8] * eights + [4] * (rest // 2) + [2] * (rest % 2)
    length >>= twos
    for radix in (5, 3):
        while length % radix == 0:
            found.append(radix)
            length //= radix
    return tuple(found) if length == 1 else None


def two_lengths(length: int) -> tuple[int, int] | None:
    """Two lengths of about the same size that make a long one; None where that does not pay."""
    if not MOST_POINTS < length <= MOST_POINTS << 10:
        return None
    divisors = range(math.isqrt(length), 1, -1)
    short = next((d for d in divisors if length % d == 0), 1)
    if radices(short) is None or radices(length // short) is None:
        return None
    return short, length // short


@lru_cache(maxsize=64)
def _unity(length: int) -> Any:
    """``exp(-2j pi k / length)`` for each ``k``."""
    return _roots(length, range(length))


def _roots(length: int, numbers: Sequence[int]) -> Any:
    """``exp(-2j pi k / length)`` for some ``k`` from 0 to ``length``."""
    found = np.empty(len(numbers), np.complex128)
    for n, k in enumerate(numbers):
        # the angle in eighths of a turn, and what is left of it
        eighth, rest = divmod(8 * k, length)
        if eighth % 2:
            angle = (length - rest) * math.pi / (4 * length)
            near = complex(math.sin(angle), math.cos(angle))
        else:
            angle = rest * math.pi / (4 * length)
            near = complex(math.cos(angle), math.sin(angle))
        quarter = eighth // 2
        found[n] = (near * (1, 1j, -1, -1j)[quarter]).conjugate()
    return found


def table(length: int, is_halved: bool, scale: Any, dtype: np.dtype[Any]) -> Any:
    """What ``native/fourier_transforms.h`` reads beside its operand.

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


def long_roots(columns: int, length: int, dtype: np.dtype[Any]) -> Any:
    """The roots of unity between the two transforms of ``native/fourier_long.h``.

    Args:
      columns: how many there are.
      length: of each of them.
      dtype: float32 or float64.
    """
    whole = columns * length
    elements = np.arange(length)[:, np.newaxis]
    near = _powers(whole, elements * np.arange(GROUP))
    far = _powers(whole, elements * np.arange(0, columns, GROUP))
    both = np.concatenate([near.reshape(-1), far.reshape(-1)])
    return both.view(np.float64).astype(dtype)


def _powers(length: int, k: Any) -> Any:
    """``exp(-2j pi k / length)`` of many ``k``, each the product of two roots."""
    step = math.isqrt(length)
    coarse, fine = np.divmod(k, step)
    x, y = _roots(length, range(0, length, step))[coarse], _roots(length, range(step))[fine]
    found = np.empty(k.shape, np.complex128)
    found.real = x.real * y.real - x.imag * y.imag
    found.imag = x.real * y.imag + x.imag * y.real
    return found


def _apart(z: Any) -> list[Any]:
    return [z.real.reshape(-1), z.imag.reshape(-1)]
