"""Windows of signal processing: constants of a known size, made by NumPy.

Each is a function on M points from 0 to M - 1, symmetric, and 1 in the middle or near it.  Sources
of the formulas: Blackman and Tukey, *The measurement of power spectra*, 1958; Kaiser, 1966.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.numpy.analytic import i0
from functrax.numpy.axes import integer
from functrax.numpy.promote import convert, to_array

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _constant(x: np.ndarray[Any, Any]) -> Value:
    return from_numpy(x.astype(dtypes.default_float()))


def bartlett(M: int) -> Value:
    """The triangle ``1 - |2n/(M - 1) - 1|``, zero at both ends.

    >>> import functrax.numpy as jnp
    >>> jnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _constant(np.bartlett(integer("bartlett", "M", M)))


def blackman(M: int) -> Value:
    """``0.42 - 0.5 cos(2πn/(M - 1)) + 0.08 cos(4πn/(M - 1))``."""
    return _constant(np.blackman(integer("blackman", "M", M)))


def hamming(M: int) -> Value:
    """``0.54 - 0.46 cos(2πn/(M - 1))``."""
    return _constant(np.hamming(integer("hamming", "M", M)))


def hanning(M: int) -> Value:
    """The Hann window ``0.5 - 0.5 cos(2πn/(M - 1))``.

    >>> import functrax.numpy as jnp
    >>> jnp.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _constant(np.hanning(integer("hanning", "M", M)))


def kaiser(M: int, beta: Any) -> Value:
    """``I0(beta sqrt(1 - (2n/(M - 1) - 1)²)) / I0(beta)``, with the Bessel function I0.

    Args:
      M: the number of points.
      beta: how narrow the window is, a scalar that may be traced.
    """
    count = integer("kaiser", "M", M)
    dtype = dtypes.default_float()
    shape = convert(to_array("kaiser", beta, 1), dtype)
    if count == 1:
        return _constant(np.ones(1))
    line = np.linspace(-1, 1, count) if count > 0 else np.zeros(0)
    height = _constant(np.sqrt(np.maximum(1 - line**2, 0)))
    return i0(shape * height) / i0(shape)
