"""Windows of signal processing.

Each is a function on M points from 0 to M - 1, symmetric, and 1 in the middle or near it, computed
in float64 where the program runs and rounded to the default float.  Sources of the formulas:
Blackman and Tukey, *The measurement of power spectra*, 1958; Kaiser, 1966.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.prims.analytic import cos
from functrax.core.prims.arithmetic import abs_, add, div, mul, sub
from functrax.core.prims.powers import sqrt
from functrax.core.prims.reindex import iota
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.analytic import i0
from functrax.numpy.axes import integer
from functrax.numpy.filling import ones
from functrax.numpy.promote import convert, result, to_array
from functrax.typing import ArrayLike

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _places(count: int) -> Value:
    return iota.bind(shape=(count,), dtype=dtypes.float64, axis=0)


def _window(name: str, M: Any, shape: Callable[[Value, int], Value]) -> Value:
    """A window as a function of ``2n - (M - 1)``, which is 0 in the middle, and of ``M - 1``."""
    count = integer(name, "M", M)
    if count < 2:
        return ones(max(count, 0), dtypes.default_float())
    n = _places(count)
    n = sub.bind(add.bind(n, n), like(n, count - 1))
    return result(convert(shape(n, count - 1), dtypes.default_float()))


def _cosine(n: Value, last: int, height: float, waves: int = 1) -> Value:
    angle = div.bind(mul.bind(n, like(n, math.pi * waves)), like(n, last))
    wave = cos.bind(angle)
    return mul.bind(wave, like(wave, height))


def bartlett(M: int) -> Array:
    """The triangle ``1 - |2n/(M - 1) - 1|``, zero at both ends.

    Args:
      M: the number of points.

    Returns:
      A vector of default floats; empty for ``M`` below 1.

    Raises:
      ArgumentError: if ``M`` is not an integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.bartlett(5)
      Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """

    def shape(n: Value, last: int) -> Value:
        return sub.bind(like(n, 1), div.bind(abs_.bind(n), like(n, last)))

    return _window("bartlett", M, shape)


def blackman(M: int) -> Array:
    """``0.42 - 0.5 cos(2πn/(M - 1)) + 0.08 cos(4πn/(M - 1))``.

    Args:
      M: the number of points.

    Returns:
      A vector of default floats; empty for ``M`` below 1.

    Raises:
      ArgumentError: if ``M`` is not an integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.round(jnp.blackman(5)[1:4], 2)
      Array([0.34, 1.  , 0.34], dtype=float32)
    """

    def shape(n: Value, last: int) -> Value:
        slow = add.bind(like(n, 0.42), _cosine(n, last, 0.5))
        return add.bind(slow, _cosine(n, last, 0.08, 2))

    return _window("blackman", M, shape)


def hamming(M: int) -> Array:
    """``0.54 - 0.46 cos(2πn/(M - 1))``.

    Args:
      M: the number of points.

    Returns:
      A vector of default floats; empty for ``M`` below 1.

    Raises:
      ArgumentError: if ``M`` is not an integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.round(jnp.hamming(5), 2)
      Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """
    return _window("hamming", M, lambda n, last: add.bind(like(n, 0.54), _cosine(n, last, 0.46)))


def hanning(M: int) -> Array:
    """The Hann window ``0.5 - 0.5 cos(2πn/(M - 1))``.

    Args:
      M: the number of points.

    Returns:
      A vector of default floats; empty for ``M`` below 1.

    Raises:
      ArgumentError: if ``M`` is not an integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.hanning(3)
      Array([0., 1., 0.], dtype=float32)
    """
    return _window("hanning", M, lambda n, last: add.bind(like(n, 0.5), _cosine(n, last, 0.5)))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """``I0(beta sqrt(1 - (2n/(M - 1) - 1)²)) / I0(beta)``, with the Bessel function I0.

    Args:
      M: the number of points.
      beta: how narrow the window is, a scalar that may be traced.

    Returns:
      A vector of default floats; empty for ``M`` below 1.

    Raises:
      ArgumentError: if ``M`` is not an integer.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.round(jnp.kaiser(5, 2.0), 2)
      Array([0.44, 0.83, 1.  , 0.83, 0.44], dtype=float32)
    """
    count = integer("kaiser", "M", M)
    dtype = dtypes.default_float()
    shape = convert(to_array("kaiser", beta, 1), dtype)
    if count < 2:
        return ones(max(count, 0), dtype)
    n = _places(count)  # the root is 2 sqrt(n (M - 1 - n)) / (M - 1)
    square = mul.bind(n, sub.bind(like(n, count - 1), n))
    height = div.bind(sqrt.bind(square), like(square, (count - 1) / 2))
    return i0(shape * result(convert(height, dtype))) / i0(shape)
