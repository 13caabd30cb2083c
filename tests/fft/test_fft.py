"""functrax.numpy.fft and lax.fft against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, DTypeError

X = np.random.default_rng(0).normal(size=(3, 4, 5))
Z = X + 1j * X[::-1]


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_one_axis_equals_numpy(name: str, norm: Any) -> None:
    x = X if name in ("rfft", "ihfft") else Z
    for n, axis in ((None, -1), (7, 1), (2, 0)):
        got = getattr(jnp.fft, name)(x, n, axis, norm)
        wanted = getattr(np.fft, name)(x, n, axis, norm)
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]
)
def test_several_axes_equal_numpy(name: str) -> None:
    x = X if name.startswith("rfft") else Z
    for s, axes in ((None, (0, 2)), ((3, 6), (2, 1)), ((4, 3), (-1, 0))):
        got = getattr(jnp.fft, name)(x, s, axes)
        np.testing.assert_allclose(got, getattr(np.fft, name)(x, s, axes), atol=1e-12)
    if name.endswith("n"):
        wanted = getattr(np.fft, name)(x)
        np.testing.assert_allclose(getattr(jnp.fft, name)(x), wanted, atol=1e-12)


def test_frequencies_and_shifts_equal_numpy() -> None:
    for n in (4, 5):
        np.testing.assert_allclose(jnp.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5))
        np.testing.assert_allclose(jnp.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5))
    for axes in (None, 1, (0, 2)):
        np.testing.assert_array_equal(jnp.fft.fftshift(X, axes), np.fft.fftshift(X, axes))
        np.testing.assert_array_equal(jnp.fft.ifftshift(X, axes), np.fft.ifftshift(X, axes))


def test_narrow_types_stay_narrow() -> None:
    assert jnp.fft.fft(X.astype(np.float32)).dtype == np.complex64
    assert jnp.fft.irfft(Z.astype(np.complex64)).dtype == np.float32
    assert lax.fft(X, lax.FftType.RFFT, (5,)).dtype == np.complex128


def test_gradient_of_the_power() -> None:
    """Parseval: the power of the spectrum is n times that of the signal."""
    x = jnp.asarray(X[0, 0])
    gradient = functrax.grad(lambda v: jnp.sum(jnp.abs(jnp.fft.fft(v)) ** 2))(x)
    np.testing.assert_allclose(gradient, 2 * 5 * X[0, 0])
    back = functrax.jacrev(lambda v: jnp.fft.irfft(jnp.fft.rfft(v), 5))(x)
    np.testing.assert_allclose(back, np.eye(5), atol=1e-12)


def test_jit_and_vmap() -> None:
    got = functrax.jit(functrax.vmap(jnp.fft.rfft, in_axes=1))(X)
    np.testing.assert_allclose(got, np.fft.rfft(X.swapaxes(0, 1)), atol=1e-12)


@pytest.mark.parametrize("n", [-2, -1, 0])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_no_number_of_points_below_one(name: str, n: int) -> None:
    """Along one axis, -1 does not mean the whole axis, neither for NumPy nor for JAX."""
    for x in (X, X[..., :0]):
        with pytest.raises(ArgumentError, match=rf"^{name}: Invalid number .*\({n}\) specified"):
            getattr(jnp.fft, name)(x, n)


def test_refused_arguments() -> None:
    with pytest.raises(ArgumentError, match="norm"):
        jnp.fft.fft(X, norm="unitary")
    with pytest.raises(ArgumentError, match="real numbers"):
        jnp.fft.rfft(Z)
    with pytest.raises(ArgumentError, match="length"):
        jnp.fft.fftn(X, (0,), (0,))
    with pytest.raises(ArgumentError, match="fft_type"):
        lax.fft(X, "DCT", (5,))
    with pytest.raises(DTypeError, match="complex"):
        lax.fft(X, "FFT", (5,))
