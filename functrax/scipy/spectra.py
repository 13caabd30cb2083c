"""Spectra of signals in windows of time, and trends, as in ``jax.scipy.signal``.

For a spectrum the signal is cut into overlapping segments, each is multiplied by a window, and its
Fourier transform is taken (:func:`_segments`); spectra differ in the scale and in what follows.

Start at :func:`stft`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.prims.mapped import reindex, reindex_reduce
from functrax.core.prims.reindex import iota
from functrax.core.records import record
from functrax.core.tracing.primitive import Value, like
from functrax.core.types import dtypes
from functrax.numpy.promote import result
from functrax.typing import ArrayLike

#: Windows as sums of cosines.
_COSINES = {
    "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08), "boxcar": (1.0,),
}  # fmt: skip


def _window(window: Any, size: int) -> np.ndarray[Any, Any]:
    """A periodic window by its name, or the one given."""
    if not isinstance(window, str):
        given = np.asarray(window, np.float64)
        if given.shape == (size,):
            return given
        raise ArgumentError(
            "signal: the window does not have the size of a segment",
            got=f"shape {given.shape} for nperseg={size}",
            fix="nperseg=len(window)",
        )
    if window not in _COSINES:
        raise ArgumentError(
            "signal: unknown window",
            got=repr(window),
            fix=", ".join(_COSINES) + ", or an array of weights",
        )
    angles = 2 * math.pi * np.arange(size) / size
    terms = [(-1) ** k * c * np.cos(k * angles) for k, c in enumerate(_COSINES[window])]
    weights: np.ndarray[Any, Any] = np.sum(terms, axis=0)
    return weights


@record
class _Frames:
    """How a signal is cut: sizes of segments, overlaps and transforms, and the window."""

    size: int
    overlap: int
    length: int
    window: np.ndarray[Any, Any]

    @property
    def step(self) -> int:
        """From one segment to the next."""
        return self.size - self.overlap

    @staticmethod
    def of(
        name: str,
        samples: int | None,
        window: Any,
        nperseg: int | None,
        noverlap: int | None,
        nfft: int | None,
    ) -> _Frames:
        """Check sizes and fill in defaults."""
        default = 256 if isinstance(window, str) else len(window)
        size = default if nperseg is None else int(nperseg)
        size = size if samples is None else min(size, samples)
        overlap = size // 2 if noverlap is None else int(noverlap)
        length = size if nfft is None else int(nfft)
        if size < 1 or not 0 <= overlap < size or length < size:
            raise ArgumentError(
                f"{name}: sizes do not go together",
                got=f"nperseg={size}, noverlap={overlap}, nfft={length}",
                fix="0 <= noverlap < nperseg <= nfft",
            )
        return _Frames(size, overlap, length, _window(window, size))


def detrend(
    data: ArrayLike, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None
) -> Array:
    """Take the mean, or the line of least squares, off an array.

    Args:
      data: an array; integers become floats.
      axis: along which.
      type: "linear" or "constant".
      bp: where the line may break: each part has one of its own.
      overwrite_data: must be None.

    Returns:
      Floats or complex numbers of the shape of ``data``.

    Raises:
      ArgumentError: for another ``type``.
      UnavailableError: for ``overwrite_data``.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import detrend
    >>> detrend(jnp.array([1.0, 2.0, 6.0]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise UnavailableError(
            "detrend: overwrite_data= is not supported, for arrays are immutable",
            got=f"overwrite_data={overwrite_data!r}",
            fix="x = detrend(x)",
        )
    x = jnp.asarray(data)
    x = x.astype(jnp.result_type(x, float))
    if type in ("constant", "c"):
        return x - jnp.mean(x, axis=axis, keepdims=True)
    if type not in ("linear", "l"):
        raise ArgumentError("detrend: unknown type", got=repr(type), fix="'linear' or 'constant'")
    moved = jnp.moveaxis(x, axis, -1)
    size = moved.shape[-1]
    breaks = sorted({0, size, *np.atleast_1d(np.asarray(bp)).tolist()})
    parts = []
    for start, stop in itertools.pairwise(breaks):
        part = moved[..., start:stop]
        n = stop - start
        slope_of = iota.bind(shape=(n,), dtype=dtypes.float64, axis=0) - (n - 1) / 2
        weights = slope_of / max(n * (n * n - 1) / 12, 1e-300)  # by the sum of their squares
        slope = jnp.sum(part * weights.astype(part.dtype), -1, keepdims=True)
        line = slope * slope_of.astype(part.dtype)
        parts.append(part - jnp.mean(part, -1, keepdims=True) - line)
    return jnp.moveaxis(jnp.concatenate(parts, -1), -1, axis)


def _overlaps(frames: _Frames, batch: tuple[int, ...], count: int, total: int) -> IndexMap:
    """The map from elements of segments, ``(*batch, count, size)``, to those of signals."""
    *others, segment, within = (Dim(k) for k in range(len(batch) + 2))
    domain, codomain = (*batch, count, frames.size), (*batch, total)
    return IndexMap(domain, codomain, (*others, segment * frames.step + within))


def _segments(x: Value, frames: _Frames, trend: Any, onesided: bool) -> Value:
    """Transforms of the segments along the last axis: of shape ``(..., segments, frequencies)``."""
    count = (x.shape[-1] - frames.overlap) // frames.step
    overlaps = _overlaps(frames, x.shape[:-1], count, x.shape[-1])
    pieces = result(reindex.bind(x, map=overlaps, fill=like(x, 0)))
    if trend:
        pieces = detrend(pieces, type=trend)
    pieces = pieces * jnp.asarray(frames.window, jnp.real(pieces).dtype)
    return (jnp.fft.rfft if onesided else jnp.fft.fft)(pieces, frames.length)


def _frequencies(frames: _Frames, fs: Any, onesided: bool) -> Value:
    return (jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq)(frames.length) * fs


def _floats(x: Any) -> Value:
    v = jnp.asarray(x)
    return v.astype(jnp.result_type(v, float))


def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: str | float | tuple[Any, ...] | ArrayLike = "hann",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str | bool | Callable[[Any], Any] = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """The short-time Fourier transform.

    Args:
      x: a signal.
      fs: how often it was sampled, per unit of time.
      window: "hann", "hamming", "blackman", "boxcar", or an array of weights.
      nperseg: the size of a segment; 256, or that of the window, if None.
      noverlap: how many samples segments share; half of them if None.
      nfft: the size of a transform; that of a segment if None.
      detrend: False, "constant" or "linear".
      return_onesided: whether a real signal has no negative frequencies.
      boundary: "zeros" to put half a segment of zeros on both sides; None not to.
      padded: whether zeros at the end fill the last segment.
      axis: that of time.

    Returns:
      Frequencies, times, and the transforms, in which the frequencies stand at ``axis`` and the
      times come last.

    Raises:
      ArgumentError: for sizes that do not go together, and an unknown window, boundary or trend.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import stft
    >>> f, t, z = stft(jnp.ones(16), nperseg=8)
    >>> z.shape
    (5, 5)
    """
    v = jnp.moveaxis(_floats(x), axis, -1)
    frames = _Frames.of("stft", v.shape[-1], window, nperseg, noverlap, nfft)
    onesided = return_onesided and not jnp.iscomplexobj(v)
    half = 0
    if boundary is not None:
        if boundary != "zeros":
            raise ArgumentError("stft: unknown boundary", got=repr(boundary), fix="'zeros' or None")
        half = frames.size // 2
    end = half
    if padded:
        end += -(v.shape[-1] + 2 * half - frames.size) % frames.step % frames.size
    v = jnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(half, end)])
    z = _segments(v, frames, detrend, onesided) / float(np.sum(frames.window))
    first = 0.0 if boundary is not None else frames.size / 2
    times = jnp.arange(z.shape[-2]) * frames.step + first
    out = jnp.moveaxis(jnp.swapaxes(z, -1, -2), -2, axis - 1 if axis < 0 else axis)
    return _frequencies(frames, fs, onesided), times / fs, out


def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: str | float | tuple[Any, ...] | ArrayLike = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """The signal of a short-time Fourier transform, by weighted overlaps.

    Args:
      Zxx: what :func:`stft` returned.
      fs, window, nperseg, noverlap, nfft: as they were given to :func:`stft`.
      input_onesided: whether there are no negative frequencies.
      boundary: whether half a segment was added on both sides.
      time_axis, freq_axis: the axes of times and of frequencies.

    Returns:
      Times, and the signal along its last axis.

    Raises:
      ArgumentError: for sizes that do not go together, and an unknown window.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import istft, stft
    >>> istft(stft(jnp.arange(8.0), nperseg=4)[2])[1].round(3)
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    z = jnp.moveaxis(jnp.asarray(Zxx), (time_axis, freq_axis), (-2, -1))
    length = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = length if nfft is None else int(nfft)
    size = length if nperseg is None else int(nperseg)
    frames = _Frames.of("istft", None, window, size, noverlap, length)
    pieces = (jnp.fft.irfft if input_onesided else jnp.fft.ifft)(z, frames.length)
    pieces = pieces[..., : frames.size] * float(np.sum(frames.window))
    weights = jnp.asarray(frames.window, jnp.real(pieces).dtype)
    count = pieces.shape[-2]
    total = frames.step * (count - 1) + frames.size
    overlaps = _overlaps(frames, pieces.shape[:-2], count, total)
    x = result(reindex_reduce.bind(pieces * weights, map=overlaps, op="add"))
    squares = jnp.broadcast_to(from_numpy(frames.window**2), (count, frames.size))
    norm = reindex_reduce.bind(squares, map=_overlaps(frames, (), count, total), op="add")
    norm = result(norm)
    cut = frames.size // 2 if boundary else 0
    x = x / jnp.where(norm > 1e-10, norm, 1.0).astype(weights.dtype)
    x = lax.slice_in_dim(x, cut, total - cut, axis=x.ndim - 1)
    return jnp.arange(x.shape[-1]) / fs, x


def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: str | float | tuple[Any, ...] | ArrayLike = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str | bool | Callable[[Any], Any] = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The cross spectral density of two signals of one shape, by Welch's method.

    Args:
      x, y: signals; ``x`` again if ``y`` is None.
      fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: as for :func:`stft`.
      scaling: "density", or "spectrum" for the power itself.
      average: "mean" over the segments, or "median" without its bias.

    Returns:
      Frequencies, and the density, with the frequencies at ``axis``.

    Raises:
      ArgumentError: for another ``scaling`` or ``average``.

    >>> import functrax, functrax.numpy as jnp
    >>> f, p = functrax.scipy.signal.csd(jnp.arange(8.0), None, nperseg=4)
    >>> p.shape
    (3,)
    """
    return _spectrum(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average,
    )  # fmt: skip


def _spectrum(
    name: str,
    x: Any,
    y: Any,
    fs: Any,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    detrend: Any,
    return_onesided: bool,
    scaling: str,
    axis: int,
    average: str,
) -> tuple[Array, Array]:
    """:func:`csd`, for a function of a name."""
    if scaling not in ("density", "spectrum") or average not in ("mean", "median"):
        raise ArgumentError(
            f"{name}: unknown scaling or average",
            got=f"scaling={scaling!r}, average={average!r}",
            fix="'density' or 'spectrum'; 'mean' or 'median'",
        )
    a = jnp.moveaxis(_floats(x), axis, -1)
    b = a if y is None else jnp.moveaxis(_floats(y), axis, -1)
    frames = _Frames.of(name, a.shape[-1], window, nperseg, noverlap, nfft)
    onesided = return_onesided and not (jnp.iscomplexobj(a) or jnp.iscomplexobj(b))
    of_a = _segments(a, frames, detrend, onesided)
    of_b = of_a if y is None else _segments(b, frames, detrend, onesided)
    power = jnp.conj(of_a) * of_b
    if scaling == "density":
        power = power / (fs * float(np.sum(frames.window**2)))
    else:
        power = power / float(np.sum(frames.window)) ** 2
    if onesided:  # each frequency stands for the negative one as well, but for 0 and the last
        twice = np.full(power.shape[-1], 2.0)
        twice[0] = 1.0
        twice[-1] = 2.0 if frames.length % 2 else 1.0
        power = power * jnp.asarray(twice, jnp.real(power).dtype)
    power = jnp.real(power) if y is None else power
    return _frequencies(frames, fs, onesided), jnp.moveaxis(_averaged(power, average), -1, axis)


def _median_bias(count: int) -> float:
    """The mean of exponentials' medians: ``1 - 1/2 + 1/3 - ...``, up to the last odd of count."""
    last = (count - 1) // 2 * 2 + 1
    if last < 1000:
        return 1 + math.fsum(1 / (n + 1) - 1 / n for n in range(2, last, 2))
    return math.log(2) + 1 / (2 * last) - 1 / (4 * last**2) + 1 / (8 * last**4)


def _averaged(power: Value, average: str) -> Value:
    count = power.shape[-2]
    if average == "mean":
        return jnp.mean(power, -2)
    bias = _median_bias(count)
    if not jnp.iscomplexobj(power):
        return jnp.median(power, -2) / bias
    return (jnp.median(jnp.real(power), -2) + 1j * jnp.median(jnp.imag(power), -2)) / bias


def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: str | float | tuple[Any, ...] | ArrayLike = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str | bool | Callable[[Any], Any] = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """The power spectral density of a signal, by Welch's method.

    P. D. Welch, "The use of fast Fourier transform for the estimation of power spectra", 1967.

    Args:
      x: a signal.
      fs: how often it was sampled, per unit of time.
      window: "hann", "hamming", "blackman", "boxcar", or an array of weights.
      nperseg: the size of a segment; 256, or that of the window, if None.
      noverlap: how many samples segments share; half of them if None.
      nfft: the size of a transform; that of a segment if None.
      detrend: False, "constant" or "linear": what is taken off each segment.
      return_onesided: whether a real signal has no negative frequencies.
      scaling: "density", or "spectrum" for the power itself.
      axis: that of time.
      average: "mean" over the segments, or "median" without its bias.

    Returns:
      Frequencies, and the density, with the frequencies at ``axis``.

    Raises:
      ArgumentError: for sizes that do not go together, and an unknown window, trend, scaling or
        average.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.signal import welch
    >>> f, p = welch(jnp.arange(8.0), nperseg=4)
    >>> f
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _spectrum(
        "welch", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling,
        axis, average,
    )  # fmt: skip
