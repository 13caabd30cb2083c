"""Frequencies of the elements of a discrete Fourier transform, and their order.

Start at :func:`fftfreq`; ``functrax.numpy.fft`` is where users find these functions.
"""

from __future__ import annotations

from typing import Any

from functrax.backends.sharding.placement import device_put
from functrax.core.errors.typed import ArgumentError
from functrax.core.tracing.primitive import Value
from functrax.numpy.axes import integer, many_axes
from functrax.numpy.creation import asarray, float_or
from functrax.numpy.promote import promoting, to_array
from functrax.numpy.ranges import arange
from functrax.numpy.rearranging import roll


def _distance(name: str, d: Any, dtype: Any) -> Value:
    if isinstance(d, (list, tuple)):
        raise ArgumentError(f"{name}: d only takes a single value", got=f"d = {d}", fix="d=1.0")
    return asarray(d, dtype)


@promoting
def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Value:
    """The frequencies of :func:`fft`'s elements, for samples at a distance of ``d``.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    size = integer("fftfreq", "n", n)
    places = arange(size, dtype=float_or(dtype))
    half = (size + 1) // 2
    made = (places - size * (places >= half)) / (size * _distance("fftfreq", d, places.dtype))
    return made if device is None else device_put(made, device)


@promoting
def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Value:
    """The frequencies of :func:`rfft`'s elements, for samples at a distance of ``d``."""
    size = integer("rfftfreq", "n", n)
    places = arange(size // 2 + 1, dtype=float_or(dtype))
    made = places / (size * _distance("rfftfreq", d, places.dtype))
    return made if device is None else device_put(made, device)


def _shift(name: str, x: Any, axes: Any, sign: int) -> Value:
    value = to_array(name, x)
    ndim = value.aval.ndim
    places = many_axes(name, axes, ndim)
    halves = tuple(sign * (value.aval.shape[axis] // 2) for axis in places)
    return roll(value, halves, places)


def fftshift(x: Any, axes: Any = None) -> Value:
    """Move the frequency 0 to the middle of axes; of all of them if None."""
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Value:
    """The inverse of :func:`fftshift`."""
    return _shift("ifftshift", x, axes, -1)
