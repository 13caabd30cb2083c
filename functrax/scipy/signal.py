"""Convolutions, as in ``jax.scipy.signal``; spectra and trends are in ``spectra``.

Start at :func:`convolve`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import functrax.numpy as jnp
from functrax import lax
from functrax.backends.eager.cached_traces import with_long_recipe as _with_long_recipe
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.numpy.trace_cached import record_all as _record_all
from functrax.scipy.spectra import (
    csd as csd,
    detrend as detrend,
    istft as istft,
    stft as stft,
    welch as welch,
)
from functrax.typing import ArrayLike

if TYPE_CHECKING:
    from functrax.lax.precision import PrecisionLike

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft",
    "stft", "welch",
]  # fmt: skip

_SHAPES = ("full", "same", "valid")


def _pair(name: str, in1: Any, in2: Any, mode: str) -> tuple[Value, Value]:
    x, y = jnp.asarray(in1), jnp.asarray(in2)
    if mode not in _SHAPES:
        raise ArgumentError(f"{name}: unknown mode", got=repr(mode), fix="full, same or valid")
    if x.ndim != y.ndim:
        raise ShapeError(
            f"{name}: the arrays have different numbers of axes",
            got=f"{x.aval.str_short()} and {y.aval.str_short()}",
            fix="add axes to one of them",
        )
    sizes = list(zip(x.shape, y.shape, strict=True))
    if mode == "valid" and not (all(a >= b for a, b in sizes) or all(a <= b for a, b in sizes)):
        raise ShapeError(
            f"{name}: with mode='valid' one array must be as large as the other along every axis",
            got=f"{x.aval.str_short()} and {y.aval.str_short()}",
            fix="mode='same' or mode='full'",
        )
    dtype = jnp.result_type(x, y)
    return x.astype(dtype), y.astype(dtype)


def _kept(a: Sequence[int], b: Sequence[int], mode: str) -> list[tuple[int, int]]:
    """Where along each axis the part of a full convolution begins and ends that a mode gives."""
    if mode == "same":
        return [((n - 1) // 2, (n - 1) // 2 + m) for m, n in zip(a, b, strict=True)]
    if mode == "valid":
        return [(min(m, n) - 1, max(m, n)) for m, n in zip(a, b, strict=True)]
    return [(0, m + n - 1) for m, n in zip(a, b, strict=True)]


def _direct(x: Value, y: Value, kept: Sequence[tuple[int, int]], precision: Any) -> Value:
    """A part of the full convolution, by sums of products: nothing else is computed."""
    if x.ndim == 0:
        return x * y
    if x.size == 0 or y.size == 0:
        return jnp.zeros([max(end - begin, 0) for begin, end in kept], x.dtype)
    return lax.conv_general_dilated(
        x[None, None],
        jnp.flip(y)[None, None],
        window_strides=(1,) * x.ndim,
        padding=[
            (n - 1 - begin, end - m)
            for m, n, (begin, end) in zip(x.shape, y.shape, kept, strict=True)
        ],
        precision=precision,
    )[0, 0]


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike = None,
) -> Array:
    """The convolution of two arrays of any number of axes.

    Args:
      in1, in2: arrays of as many axes; they meet in one dtype.
      mode: "full", ``m + n - 1`` elements along an axis; "same", the middle of these, as large as
        ``in1``; or "valid", the part that no padding went into, ``max(m, n) - min(m, n) + 1``.
      method: "direct" for sums of products, which is what "auto" takes, or "fft".
      precision: of the products; not with "fft".

    Returns:
      An array of as many axes, of the dtype in which they meet (of floats, with "fft").

    Raises:
      ArgumentError: for another mode or method.
      ShapeError: if the arrays do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import convolve
    >>> convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ArgumentError("convolve: unknown method", got=repr(method), fix="auto, direct or fft")
    x, y = _pair("convolve", in1, in2, mode)
    return _direct(x, y, _kept(x.shape, y.shape, mode), precision)


def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: PrecisionLike = None,
) -> Array:
    """The cross-correlation: the convolution with ``in2`` conjugated and turned around.

    Args:
      in1, in2: arrays of as many axes; they meet in one dtype.
      mode: "full", ``m + n - 1`` elements along an axis; "same", the middle of these, as large as
        ``in1``; or "valid", the part that no padding went into, ``max(m, n) - min(m, n) + 1``.
      method: "direct" for sums of products, which is what "auto" takes, or "fft".
      precision: of the products; not with "fft".

    Returns:
      An array of as many axes, of the dtype in which they meet (of floats, with "fft").

    Raises:
      ArgumentError: for another mode or method.
      ShapeError: if the arrays do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import correlate
    >>> correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]))
    Array([1., 2., 3., 0.], dtype=float32)
    """
    return convolve(in1, jnp.flip(jnp.conj(jnp.asarray(in2))), mode, method, precision)


def _plane(name: str, in1: Any, in2: Any, boundary: str, fillvalue: float) -> None:
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ShapeError(
            f"{name}: the arrays do not have two axes",
            got=f"{jnp.shape(in1)} and {jnp.shape(in2)}",
            fix="functrax.scipy.signal.convolve for other numbers of axes",
        )
    if boundary != "fill" or fillvalue != 0:
        raise ArgumentError(
            f"{name}: beyond the edges there are zeros only",
            got=f"boundary={boundary!r}, fillvalue={fillvalue}",
            fix="functrax.numpy.pad before, with mode='valid'",
        )


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """:func:`convolve` of arrays of two axes.

    Args:
      in1, in2: arrays of two axes; they meet in one dtype.
      mode: as for :func:`convolve`.
      boundary: must be "fill".
      fillvalue: must be 0.
      precision: of the products.

    Returns:
      An array of two axes.

    Raises:
      ArgumentError: for another mode, or other edges than zeros.
      ShapeError: for other numbers of axes, or sizes that "valid" does not take.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import convolve2d
    >>> convolve2d(jnp.eye(2), jnp.ones((1, 2)), mode="same")
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    _plane("convolve2d", in1, in2, boundary, fillvalue)
    return convolve(in1, in2, mode, "direct", precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: PrecisionLike = None,
) -> Array:
    """:func:`correlate` of arrays of two axes.

    Where ``in2`` has an even size, ``mode="same"`` starts one later than :func:`correlate` does.

    Args:
      in1, in2: arrays of two axes; they meet in one dtype.
      mode: as for :func:`convolve`.
      boundary: must be "fill".
      fillvalue: must be 0.
      precision: of the products.

    Returns:
      An array of two axes.

    Raises:
      ArgumentError: for another mode, or other edges than zeros.
      ShapeError: for other numbers of axes, or sizes that "valid" does not take.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import correlate2d
    >>> correlate2d(jnp.eye(2), jnp.ones((1, 2)))
    Array([[1., 1., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    _plane("correlate2d", in1, in2, boundary, fillvalue)
    if mode != "same":
        return correlate(in1, in2, mode, "direct", precision)
    x, y = _pair("correlate2d", in1, jnp.flip(jnp.conj(jnp.asarray(in2))), mode)
    kept = [(n // 2, n // 2 + m) for m, n in zip(x.shape, y.shape, strict=True)]
    return _direct(x, y, kept, precision)


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """:func:`convolve` by way of Fourier transforms.

    Args:
      in1, in2: arrays of as many axes; they meet in one floating point or complex dtype.
      mode: as for :func:`convolve`.
      axes: along which to convolve; others broadcast. All of them if None.

    Returns:
      An array of as many axes, of floats or complex numbers.

    Raises:
      ArgumentError: for another mode.
      ShapeError: if the arrays do not go together.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import fftconvolve
    >>> fftconvolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).round(3)
    Array([1., 3., 2.], dtype=float32)
    """
    x, y = jnp.asarray(in1), jnp.asarray(in2)
    chosen = range(x.ndim) if axes is None else np.atleast_1d(np.asarray(axes)).tolist()
    last = [int(k) % max(x.ndim, 1) for k in chosen]
    if x.ndim == y.ndim:
        places = tuple(range(-len(last), 0))
        x, y = jnp.moveaxis(x, last, places), jnp.moveaxis(y, last, places)
    lead = x.ndim - len(last)
    _pair("fftconvolve", jnp.zeros(x.shape[lead:], x.dtype), jnp.zeros(y.shape[lead:]), mode)
    dtype = jnp.result_type(x, y, float)
    sizes = [m + n - 1 for m, n in zip(x.shape[lead:], y.shape[lead:], strict=True)]
    where = tuple(range(lead, lead + len(sizes)))
    if not sizes:
        return (x * y).astype(dtype)
    whole = jnp.issubdtype(dtype, jnp.complexfloating)
    there, back = (jnp.fft.fftn, jnp.fft.ifftn) if whole else (jnp.fft.rfftn, jnp.fft.irfftn)
    product = there(x.astype(dtype), sizes, where) * there(y.astype(dtype), sizes, where)
    full = back(product, sizes, where).astype(dtype)
    kept = _kept(x.shape[lead:], y.shape[lead:], mode)
    out = full[(..., *[slice(begin, end) for begin, end in kept])]
    return jnp.moveaxis(out, tuple(range(-len(last), 0)), last)


#: Functions that have recipes.
_RECORDED = "convolve convolve2d correlate correlate2d csd detrend fftconvolve istft stft welch"
_record_all(globals(), frozenset(_RECORDED.split()), _with_long_recipe)
_explain_all(globals())
__dir__ = _listing(globals())
