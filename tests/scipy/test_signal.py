"""functrax.scipy's signal, ndimage, integrate and matrix functions against SciPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.ndimage
import scipy.signal as wanted

import functrax
import functrax.numpy as jnp
from functrax.core.options.contexts import enable_x64
from functrax.core.prims.reduce import reduce_sum
from functrax.errors import ArgumentError, ShapeError
from functrax.scipy import integrate, linalg, ndimage, signal

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=23), RNG.normal(size=6)
IMAGE, KERNEL = RNG.normal(size=(7, 9)), RNG.normal(size=(4, 3))
LONG = RNG.normal(size=(2, 100))


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def near(got: Any, want: Any, rtol: float = 1e-9) -> None:
    got = np.asarray(got)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-10)


def slope_is_right(f: Any, x: Any) -> None:
    """A directional derivative against differences."""
    way = np.cos(np.arange(x.size)).reshape(x.shape)
    g = lambda x: jnp.sum(jnp.abs(f(x)) ** 2)
    got = jnp.sum(functrax.grad(g)(jnp.asarray(x)) * way)
    near(got, (g(x + 1e-6 * way) - g(x - 1e-6 * way)) / 2e-6, 1e-5)


PAIRS = [(X, Y), (Y, X), (X, X), (IMAGE, KERNEL), (X + 1j * X[::-1], Y * (1 - 2j))]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_convolutions(name: str, mode: str) -> None:
    for a, b in PAIRS:
        near(getattr(signal, name)(a, b, mode), getattr(wanted, name)(a, b, mode))
        if name != "fftconvolve":
            got = getattr(signal, name)(a, b, mode, method="fft")
            near(got, getattr(wanted, name)(a, b, mode, method="direct"))
    slope_is_right(lambda x: getattr(signal, name)(x, Y, mode), X)
    slope_is_right(lambda y: getattr(signal, name)(IMAGE, y, mode), KERNEL)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_planes(mode: str) -> None:
    for f, g in (
        (signal.convolve2d, wanted.convolve2d),
        (signal.correlate2d, wanted.correlate2d),
    ):
        near(f(IMAGE, KERNEL, mode), g(IMAGE, KERNEL, mode))
    stacked = RNG.normal(size=(3, 8)), RNG.normal(size=(3, 5))
    for axes in (1, [1], [-1]):
        near(
            signal.fftconvolve(*stacked, mode, axes=axes),
            wanted.fftconvolve(*stacked, mode, axes=axes),
        )


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["convolve", "correlate", "convolve2d", "correlate2d"])
def test_sums_are_those_that_the_mode_asks_for(name: str, mode: str) -> None:
    f = lambda x: getattr(signal, name)(x, KERNEL, mode)
    (sums,) = [e for e in functrax.make_jaxpr(f)(IMAGE).jaxpr.eqns if e.primitive is reduce_sum]
    assert sums.outvars[0].aval.size == f(IMAGE).size


def test_integers_and_refused_arguments() -> None:
    near(signal.convolve([1, 2], [3, 4]), [3, 10, 8])
    assert signal.convolve(np.arange(3), np.arange(3)).dtype == np.int64
    with pytest.raises(ArgumentError, match="unknown mode"):
        signal.convolve(X, Y, "whole")
    with pytest.raises(ArgumentError, match="unknown method"):
        signal.convolve(X, Y, method="magic")
    with pytest.raises(ShapeError, match="different numbers of axes"):
        signal.correlate(IMAGE, X)
    with pytest.raises(ShapeError, match="as large as the other"):
        signal.convolve(IMAGE, np.ones((8, 2)), "valid")
    with pytest.raises(ArgumentError, match="zeros only"):
        signal.convolve2d(IMAGE, KERNEL, boundary="wrap")
    with pytest.raises(ArgumentError, match="unknown window"):
        signal.stft(X, window="kaiser")
    with pytest.raises(ArgumentError, match="sizes do not go together"):
        signal.stft(X, nperseg=8, noverlap=8)


@pytest.mark.parametrize("axis", [0, -1])
def test_detrend(axis: int) -> None:
    for how in ({"type": "constant"}, {}, {"bp": [3]}):
        near(signal.detrend(IMAGE, axis, **how), wanted.detrend(IMAGE, axis, **how))
    with pytest.raises(ArgumentError, match="unknown type"):
        signal.detrend(X, type="square")


@pytest.mark.parametrize("window", ["hann", "hamming", "blackman", "boxcar"])
@pytest.mark.parametrize(("size", "overlap"), [(16, None), (15, 4), (20, 15)])
def test_spectra(window: str, size: int, overlap: int | None) -> None:
    how = {"window": window, "nperseg": size, "noverlap": overlap}
    for x, scaling in itertools.product((LONG, LONG[0] + 1j * LONG[1]), ("density", "spectrum")):
        for average in ("mean", "median"):
            more = {**how, "scaling": scaling, "average": average, "fs": 2.0}
            if np.iscomplexobj(x):
                more["return_onesided"] = False
            for got, want in zip(signal.welch(x, **more), wanted.welch(x, **more), strict=True):
                near(got, want)
            pair = (x[..., ::-1], x)
            for got, want in zip(signal.csd(*pair, **more), wanted.csd(*pair, **more), strict=True):
                near(got, want)
    for boundary in ("zeros", None):
        ours = signal.stft(LONG, 2.0, boundary=boundary, **how)
        theirs = wanted.stft(LONG, 2.0, boundary=boundary, **how)
        for got, want in zip(ours, theirs, strict=True):
            near(got, want)
    near(signal.stft(LONG.T, nperseg=16, axis=0)[2], wanted.stft(LONG.T, nperseg=16, axis=0)[2])
    slope_is_right(lambda x: signal.welch(x, nperseg=16)[1], LONG[0])


def test_inverse_spectra() -> None:
    for size, overlap in ((16, None), (20, 15)):
        how = {"nperseg": size, "noverlap": overlap}
        z = wanted.stft(LONG, **how)[2]
        near(signal.istft(z, **how)[1], wanted.istft(z, **how)[1])
        for got, want in zip(signal.istft(z[0], **how), wanted.istft(z[0], **how), strict=True):
            near(got, want)
    z = wanted.stft(LONG[0] * 1j, nperseg=16, return_onesided=False)[2]
    near(signal.istft(z, input_onesided=False)[1], wanted.istft(z, input_onesided=False)[1])


MODES = {"constant": "constant", "nearest": "nearest", "wrap": "grid-wrap", "mirror": "mirror",
         "reflect": "reflect"}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [0, 1])
def test_map_coordinates(mode: str, order: int) -> None:
    places = RNG.uniform(-9, 18, size=(2, 5, 6)) + 0.01
    if mode == "constant":  # SciPy leaves out what is half outside
        places = places[:, (places >= 0).all(0) & (places[0] <= 6) & (places[1] <= 8)]
    got = ndimage.map_coordinates(IMAGE, list(places), order, mode, 0.5)
    near(got, scipy.ndimage.map_coordinates(IMAGE, places, order=order, mode=MODES[mode], cval=0.5))
    outside = ndimage.map_coordinates(IMAGE, [[-5.0], [3.0]], order, "constant", 0.5)
    near(outside, [0.5])
    if order:
        slope_is_right(lambda c: ndimage.map_coordinates(IMAGE, list(c), 1, mode), places)
        slope_is_right(lambda x: ndimage.map_coordinates(x, list(places), 1, mode), IMAGE)
    with pytest.raises(ArgumentError, match="unknown mode"):
        ndimage.map_coordinates(IMAGE, list(places), 1, "grid")
    with pytest.raises(ArgumentError, match="this order"):
        ndimage.map_coordinates(IMAGE, list(places), 3)
    with pytest.raises(ShapeError, match="each axis"):
        ndimage.map_coordinates(IMAGE, [places[0]], 1)


def test_trapezoid() -> None:
    near(integrate.trapezoid(IMAGE, dx=0.3), scipy.integrate.trapezoid(IMAGE, dx=0.3))
    near(integrate.trapezoid(X, np.sort(X)), scipy.integrate.trapezoid(X, np.sort(X)))


def test_sqrtm() -> None:
    for a in (KERNEL[:3] + 3 * np.eye(3), KERNEL[:3], KERNEL[:3] + 1j * KERNEL[1:]):
        root = np.asarray(linalg.sqrtm(a))
        near(root @ root, a.astype(complex))
        near(root, scipy.linalg.sqrtm(a))
    slope_is_right(linalg.sqrtm, KERNEL[:3] + 3 * np.eye(3))
    with pytest.raises(ShapeError, match="square"):
        linalg.sqrtm(KERNEL)


def test_eigh_tridiagonal() -> None:
    d, e = X[:7], X[7:13]
    values, vectors = linalg.eigh_tridiagonal(d, e)
    near(values, scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True))
    full = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    near(full @ np.asarray(vectors), np.asarray(vectors) * np.asarray(values))
    for how in (("i", (1, 3)), ("v", (-1.0, 1.0))):
        got = linalg.eigh_tridiagonal(d, e, eigvals_only=True, select=how[0], select_range=how[1])
        near(got, scipy.linalg.eigh_tridiagonal(d, e, True, *how))
    slope_is_right(lambda d: linalg.eigh_tridiagonal(d, e, eigvals_only=True), d)
    with pytest.raises(ShapeError, match="the diagonals do not go together"):
        linalg.eigh_tridiagonal(d, d)
    with pytest.raises(ArgumentError, match="no range for it"):
        linalg.eigh_tridiagonal(d, e, select="i")


def test_errors_name_the_function_that_was_called() -> None:
    for name, more in (("welch", ()), ("csd", (None,))):
        with pytest.raises(ArgumentError, match=f"^{name}: sizes do not go together"):
            getattr(signal, name)(jnp.ones(50), *more, nperseg=0)
