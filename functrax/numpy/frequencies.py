"""Frequencies of the elements of a discrete Fourier transform, and their order.

Start at :func:`fftfreq`; ``functrax.numpy.fft`` is where users find these functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functrax.backends.sharding.placement import device_put
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.tracing.primitive import Value
from functrax.numpy.axes import integer, many_axes
from functrax.numpy.creation import asarray, float_or
from functrax.numpy.promote import promoting, to_array
from functrax.numpy.ranges import arange
from functrax.numpy.rearranging import roll
from functrax.typing import ArrayLike, Axes, DTypeLike

if TYPE_CHECKING:
    from functrax.backends.device import Device
    from functrax.backends.sharding.shardings import Sharding


def _distance(name: str, d: Any, dtype: Any) -> Value:
    if isinstance(d, (list, tuple)):
        raise ArgumentError(f"{name}: d only takes a single value", got=f"d = {d}", fix="d=1.0")
    return asarray(d, dtype)


@promoting
def fftfreq(
    n: int,
    d: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: Device | Sharding | None = None,
) -> Array:
    """The frequencies of :func:`fft`'s elements, for samples at a distance of ``d``.

    Args:
      n: how many samples.
      d: the time between two samples.
      dtype: a floating point dtype; the default float if omitted.
      device: a device or a sharding to put the array on, or None.

    Returns:
      ``n`` numbers in cycles per unit of ``d``: 0 and the positive ones, then the negative ones.

    Raises:
      ArgumentError: if ``n`` is not an integer, or ``d`` a list.

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
def rfftfreq(
    n: int,
    d: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: Device | Sharding | None = None,
) -> Array:
    """The frequencies of :func:`rfft`'s elements, for samples at a distance of ``d``.

    Args:
      n: how many samples.
      d: the time between two samples.
      dtype: a floating point dtype; the default float if omitted.
      device: a device or a sharding to put the array on, or None.

    Returns:
      ``n // 2 + 1`` numbers in cycles per unit of ``d``.

    Raises:
      ArgumentError: if ``n`` is not an integer, or ``d`` a list.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.rfftfreq(4, d=0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
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


def fftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """The frequency 0 moved to the middle of axes.

    Args:
      x: an array.
      axes: an axis, or several.

    Returns:
      An array of the same shape and dtype.

    Raises:
      AxisError: if an axis is out of range.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4))
    Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """The inverse of :func:`fftshift`, which it differs from for odd sizes.

    Args:
      x: an array.
      axes: an axis, or several; all of them if None.

    Returns:
      An array of the same shape and dtype.

    Raises:
      AxisError: if an axis is out of range.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.ifftshift(jnp.arange(-2, 3))
    Array([ 0,  1,  2, -2, -1], dtype=int32)
    """
    return _shift("ifftshift", x, axes, -1)
