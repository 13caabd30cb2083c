"""Discrete Fourier transforms: the names, signatures and meaning are those of ``jax.numpy.fft``.

All of them are one primitive on the last axes; axes are moved there and back, and cut or padded
with zeros to the length asked for.  ``norm`` says where to divide by the number of elements:
``"backward"`` (None) in the inverse, ``"forward"`` in the transform, ``"ortho"`` half in each.

Start at :func:`_transform`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError
from functrax.core.lazy import listing as _listing
from functrax.core.prims import fourier
from functrax.core.prims.slicing import pad
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.axes import integer, many_axes
from functrax.numpy.complex_parts import conj
from functrax.numpy.creation import asarray
from functrax.numpy.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from functrax.numpy.promote import inexact, promote_dtypes, result, to_array
from functrax.numpy.shaping import moveaxis, slice_axis
from functrax.numpy.trace_cached import record_all as _record_all
from functrax.typing import ArrayLike

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _operand(name: str, a: Any, is_real: bool) -> Value:
    """An array of real numbers, or of complex ones."""
    (x,) = promote_dtypes(name, to_array(name, a), kind=inexact)
    if is_real and dtypes.is_complex(x.aval.dtype):
        raise ArgumentError(
            f"{name}: takes real numbers",
            got=x.aval.str_short(),
            fix=f"functrax.numpy.fft.{name.replace('rfft', 'fft').replace('ihfft', 'ifft')}",
        )
    wide = x.aval.dtype in (dtypes.float64, dtypes.complex128)
    real = dtypes.float64 if wide else dtypes.float32
    whole = dtypes.complex128 if wide else dtypes.complex64
    return result(x).astype(real if is_real else whole)


def _fitted(x: Value, axis: int, size: int) -> Value:
    """An axis cut, or padded with zeros, to a size."""
    own = x.aval.shape[axis]
    if size <= own:
        return slice_axis(x, axis, 0, size) if size < own else x
    none = (0,) * x.aval.ndim
    high = tuple(size - own if i == axis else 0 for i in range(x.aval.ndim))
    return pad(x, low=none, high=high, interior=none, fill=like(x, 0))


def _lengths(name: str, kind: str, x: Value, s: Any, axes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the whole transforms along the axes."""
    if s is None:
        sizes = [x.aval.shape[axis] for axis in axes]
        if kind == "IRFFT":
            sizes[-1] = 2 * (sizes[-1] - 1)
    else:
        sizes = [integer(name, "a length", n) for n in s]
        sizes = [x.aval.shape[axis] if n == -1 else n for n, axis in zip(sizes, axes)]
    if (s is not None and len(s) != len(axes)) or min(sizes, default=1) < (x.aval.size > 0):
        raise ArgumentError(
            f"{name}: needs a length of at least 1 for each axis",
            got=f"lengths {tuple(sizes)} along axes {tuple(axes)} of {x.aval.str_short()}",
            fix="n (or s) of 1 and more",
        )
    return tuple(sizes)


def _transform(name: str, kind: str, a: Any, s: Any, axes: Any, norm: str | None) -> Value:
    """The transform ``kind`` along axes."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ArgumentError(
            f"{name}: unknown norm", got=repr(norm), fix="'backward', 'ortho' or 'forward'"
        )
    x = _operand(name, a, kind == "RFFT")
    if axes is None:
        count = x.aval.ndim if s is None else len(s)
        axes = range(x.aval.ndim - count, x.aval.ndim)
    places = many_axes(name, tuple(axes), x.aval.ndim)
    if not places:
        return x
    lengths = _lengths(name, kind, x, s, places)
    if s is None and kind in ("FFT", "IFFT") and not math.prod(lengths):
        return x  # no elements make no elements
    last = tuple(range(x.aval.ndim - len(places), x.aval.ndim))
    x = moveaxis(x, places, last)
    sizes = (*lengths[:-1], lengths[-1] // 2 + 1) if kind == "IRFFT" else lengths
    for axis, size in zip(last, sizes, strict=True):
        x = _fitted(x, axis, size)
    out = result(fourier.fft(x, kind=kind, fft_lengths=lengths))
    factor = _factor(kind, norm, math.prod(lengths))
    return moveaxis(out if factor == 1 else out * factor, last, places)


def _factor(kind: str, norm: str | None, size: int) -> float:
    if norm in (None, "backward"):
        return 1.0
    root = 1.0 if norm == "forward" else 0.5
    return math.pow(size, root if kind in ("IFFT", "IRFFT") else -root)


def _along(name: str, n: int | None) -> tuple[int] | None:
    """The length of a transform along one axis, where -1 does not mean the whole axis."""
    if n is None:
        return None
    length = integer(name, "a length", n)
    if length < 1:
        raise ArgumentError(
            f"{name}: Invalid number of FFT data points ({length}) specified",
            got=f"n = {length}",
            fix="n of 1 and more, or None for the whole axis",
        )
    return (length,)


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The transform along an axis: ``sum_k a[k] exp(-2 pi i j k / n)``.

    Args:
      a: an array, taken as complex.
      n: how many elements to take; more than there are count as zeros; all of them if None.
      axis: the axis.
      norm: where to divide: ``"backward"``, ``"ortho"`` or ``"forward"``.

    Returns:
      A complex array with ``n`` elements along the axis.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.fft(jnp.array([1.0, 2.0]))
    Array([ 3.+0.j, -1.+0.j], dtype=complex64)
    """
    return _transform("fft", "FFT", a, _along("fft", n), (axis,), norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of :func:`fft`: ``sum_k a[k] exp(2 pi i j k / n) / n``.

    Args:
      a: an array, taken as complex.
      n: how many elements to take; more than there are count as zeros; all of them if None.
      axis: the axis.
      norm: as for :func:`fft`.

    Returns:
      A complex array with ``n`` elements along the axis.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.ifft(jnp.array([3.0, -1.0]))
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    return _transform("ifft", "IFFT", a, _along("ifft", n), (axis,), norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first ``n // 2 + 1`` elements of the transform of real numbers, which say all.

    Args:
      a: a real array.
      n: how many elements to take; more than there are count as zeros; all of them if None.
      axis: the axis.
      norm: as for :func:`fft`.

    Returns:
      A complex array with ``n // 2 + 1`` elements along the axis.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit, or for complex numbers.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.rfft(jnp.array([1.0, 2.0, 1.0, 2.0]))
    Array([ 6.+0.j,  0.+0.j, -2.+0.j], dtype=complex64)
    """
    return _transform("rfft", "RFFT", a, _along("rfft", n), (axis,), norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of :func:`rfft`.

    Args:
      a: an array, taken as complex: the first half of a transform.
      n: the result's size, which says whether it is even.
      axis: the axis.
      norm: as for :func:`fft`.

    Returns:
      A real array with ``n`` elements along the axis.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.irfft(jnp.fft.rfft(jnp.array([1.0, 2.0, 6.0])), n=3)
    Array([1., 2., 6.], dtype=float32)
    """
    return _transform("irfft", "IRFFT", a, _along("irfft", n), (axis,), norm)


def _swapped(norm: str | None) -> str | None:
    return {"backward": "forward", "forward": "backward"}.get(norm or "backward", norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The real transform of numbers with Hermitian symmetry, given by their first half.

    Args:
      a: an array, taken as complex.
      n: the result's size, ``2 (size - 1)`` if None.
      axis: the axis.
      norm: as for :func:`fft`.

    Returns:
      A real array with ``n`` elements along the axis.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.hfft(jnp.array([1.0, 2.0, 3.0]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    return _transform("hfft", "IRFFT", conj(asarray(a)), _along("hfft", n), (axis,), _swapped(norm))


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of :func:`hfft`.

    Args:
      a: a real array.
      n: how many elements to take; more than there are count as zeros; all of them if None.
      axis: the axis.
      norm: as for :func:`fft`.

    Returns:
      A complex array with ``n // 2 + 1`` elements along the axis.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit, or for complex numbers.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.ihfft(jnp.array([12.0, -2.0, 0.0, -2.0]))
    Array([2.-0.j, 3.-0.j, 4.-0.j], dtype=complex64)
    """
    return conj(_transform("ihfft", "RFFT", a, _along("ihfft", n), (axis,), _swapped(norm)))


def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The transform along several axes; all of them, or the last ``len(s)``, if None.

    Args:
      a: an array, taken as complex.
      s: for each axis how many elements to take; -1 takes the whole axis.
      axes: the axes.
      norm: as for :func:`fft`.

    Returns:
      A complex array of the sizes ``s`` along the axes.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.fftn(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("fftn", "FFT", a, s, axes, norm)


def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of :func:`fftn`.

    Args:
      a: an array, taken as complex.
      s: for each axis how many elements to take; -1 takes the whole axis.
      axes: the axes.
      norm: as for :func:`fft`.

    Returns:
      A complex array of the sizes ``s`` along the axes.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.ifftn(jnp.ones((2, 2)))
    Array([[1.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("ifftn", "IFFT", a, s, axes, norm)


def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The transform of real numbers along several axes; the last one is cut as in :func:`rfft`.

    Args:
      a: a real array.
      s: for each axis how many elements to take; -1 takes the whole axis.
      axes: the axes.
      norm: as for :func:`fft`.

    Returns:
      A complex array, with ``s[-1] // 2 + 1`` elements along the last of the axes.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit, or for complex numbers.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.rfftn(jnp.ones((2, 4))).shape
    (2, 3)
    """
    return _transform("rfftn", "RFFT", a, s, axes, norm)


def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of :func:`rfftn`.

    Args:
      a: an array, taken as complex.
      s: the result's sizes along the axes, -1 for ``a``'s; the last is ``2 (size - 1)`` if omitted.
      axes: the axes.
      norm: as for :func:`fft`.

    Returns:
      A real array.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.irfftn(jnp.fft.rfftn(jnp.ones((2, 3))), (2, 3))
    Array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """
    return _transform("irfftn", "IRFFT", a, s, axes, norm)


def _two(name: str, axes: Any) -> Any:
    """Two axes, or None for the last two; an error for another number of them."""
    if axes is not None and len(axes) != 2:
        raise ArgumentError(
            f"{name}: only supports 2 axes", got=f"axes = {axes}", fix=f"{name.replace('2', 'n')}"
        )
    return axes


def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """:func:`fftn` along two axes.

    Args:
      a: an array, taken as complex.
      s: for each axis how many elements to take; -1 takes the whole axis.
      axes: two axes.
      norm: as for :func:`fft`.

    Returns:
      A complex array.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit, or there are not two axes.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.fft2(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]], dtype=complex64)
    """
    return _transform("fft2", "FFT", a, s, _two("fft2", axes), norm)


def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """:func:`ifftn` along two axes.

    Args:
      a: an array, taken as complex.
      s: for each axis how many elements to take; -1 takes the whole axis.
      axes: two axes.
      norm: as for :func:`fft`.

    Returns:
      A complex array.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit, or there are not two axes.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.ifft2(jnp.ones((2, 2)))
    Array([[1.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("ifft2", "IFFT", a, s, _two("ifft2", axes), norm)


def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """:func:`rfftn` along two axes.

    Args:
      a: a real array.
      s: for each axis how many elements to take; -1 takes the whole axis.
      axes: two axes.
      norm: as for :func:`fft`.

    Returns:
      A complex array, with ``s[-1] // 2 + 1`` elements along the last of the axes.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit, or for complex numbers.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.rfft2(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("rfft2", "RFFT", a, s, _two("rfft2", axes), norm)


def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """:func:`irfftn` along two axes.

    Args:
      a: an array, taken as complex.
      s: the result's sizes along the axes, -1 for ``a``'s; the last is ``2 (size - 1)`` if omitted.
      axes: two axes.
      norm: as for :func:`fft`.

    Returns:
      A real array.

    Raises:
      AxisError, ArgumentError: if the arguments do not fit, or there are not two axes.

    >>> import functrax.numpy as jnp
    >>> jnp.fft.irfft2(jnp.fft.rfft2(jnp.array([[1.0, 2.0], [3.0, 4.0]])))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    return _transform("irfft2", "IRFFT", a, s, _two("irfft2", axes), norm)


_record_all(globals(), frozenset(__all__))
_explain_all(globals())
__dir__ = _listing(globals())
