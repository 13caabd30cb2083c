"""The discrete Fourier transform, as strict as ``jax.lax.fft``."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims import fourier
from functrax.core.types import dtypes
from functrax.lax.operands import as_array, as_ints, value_of
from functrax.typing import ArrayLike


class FftType(enum.IntEnum):
    """Which transform: of complex numbers, its inverse, of real numbers, its inverse."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The discrete Fourier transform of the last axes.

    Args:
      x: an array of real (RFFT) or complex numbers.
      fft_type: a :class:`FftType` or its name; the inverse ones divide by the number of elements.
      fft_lengths: the sizes of the transformed axes, which are the last ones; for IRFFT in the
        result, whose last axis has ``n`` elements where the operand's has ``n // 2 + 1``.

    Returns:
      A complex array, of IRFFT a real one.

    Raises:
      ShapeError, DTypeError, ArgumentError: if the arguments do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.fft(np.array([1.0, 2.0, 3.0]), "RFFT", (3,))[0]
    Array(6.+0.j, dtype=complex64)
    """
    lengths = as_ints("fft", fft_lengths, "fft_lengths")
    value, kind = value_of("fft", x), _kind(fft_type)
    if not lengths and kind in ("FFT", "IFFT") and dtypes.is_complex(value.aval.dtype):
        return as_array(value)  # no axis is transformed
    return as_array(fourier.fft(value, kind=kind, fft_lengths=lengths))


def _kind(given: Any) -> str:
    if isinstance(given, str) and given.upper() in fourier.KINDS:
        return given.upper()
    if not isinstance(given, str):
        try:
            return FftType(int(given)).name
        except (TypeError, ValueError):
            pass
    raise ArgumentError("fft: unknown fft_type", got=repr(given), fix=", ".join(fourier.KINDS))
