"""Cosine transforms against SciPy's, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft as wanted

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError, DTypeError
from functrax.scipy import fft


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("norm", [None, "ortho"])
def test_values(n: int, norm: str | None) -> None:
    x = np.random.default_rng(n).normal(size=(3, n)).astype("float32")
    for name in ("dct", "idct"):
        got, want = getattr(fft, name), getattr(wanted, name)
        np.testing.assert_allclose(got(x, norm=norm), want(x, norm=norm), atol=1e-5)
        np.testing.assert_allclose(
            got(x, n=4, norm=norm, axis=0), want(x, n=4, norm=norm, axis=0), atol=1e-5
        )
    np.testing.assert_allclose(fft.dctn(x, norm=norm), wanted.dctn(x, norm=norm), atol=1e-4)
    np.testing.assert_allclose(fft.idctn(fft.dctn(x, norm=norm), norm=norm), x, atol=1e-5)
    np.testing.assert_allclose(
        fft.dctn(x, s=(2, 6), axes=(1, 0)), wanted.dctn(x, s=(2, 6), axes=(1, 0)), atol=1e-4
    )


def test_an_orthogonal_transform_keeps_lengths_and_their_gradients() -> None:
    x = jnp.arange(5.0)
    gradient = functrax.jit(functrax.grad(lambda x: jnp.sum(fft.dct(x, norm="ortho") ** 2)))(x)
    np.testing.assert_allclose(gradient, 2 * x, atol=1e-5)


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="type 2"):
        fft.dct(jnp.ones(3), type=3)
    with pytest.raises(ArgumentError, match="norm"):
        fft.idct(jnp.ones(3), norm="forward")
    with pytest.raises(DTypeError, match="real"):
        fft.dct(jnp.ones(3) * 1j)
    with pytest.raises(ArgumentError, match="each axis"):
        fft.dctn(jnp.ones((3, 3)), s=(2,), axes=(0, 1))
