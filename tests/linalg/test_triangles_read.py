"""Which triangle ``eigh`` reads, and factorisations of batches that threads share."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [3, 70])
@pytest.mark.parametrize("side", ["L", "U"])
def test_eigh_reads_one_triangle(side, rows, dtype):
    x = RNG.standard_normal((2, rows, rows)).astype(dtype)
    whole = x + x.swapaxes(1, 2)
    keep = np.tril if side == "L" else np.triu
    half = np.where(keep(np.ones((rows, rows), bool)), whole, np.nan)
    with functrax.enable_x64():
        w, v = functrax.jit(lambda a: jnp.linalg.eigh(a, side, symmetrize_input=False))(half)
    close = 20 * rows * np.finfo(dtype).eps
    np.testing.assert_allclose(w, np.linalg.eigvalsh(whole.astype(float)), atol=close)
    np.testing.assert_allclose(whole @ np.asarray(v), np.asarray(v) * w[:, None], atol=close)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("shape", [(33, 40, 24), (33, 24, 40), (5, 70, 66), (0, 3, 3), (2, 0, 3)])
def test_qr_of_a_batch(shape, mode, dtype):
    x = RNG.standard_normal(shape).astype(dtype)
    with functrax.enable_x64():
        found = functrax.jit(lambda a: jnp.linalg.qr(a, mode=mode))(x)
        r = np.asarray(found if mode == "r" else found[1])
    assert r.dtype == x.dtype
    close = 20 * max(shape[1:]) * np.finfo(dtype).eps
    squares = r.conj().swapaxes(1, 2) @ r
    np.testing.assert_allclose(squares, x.conj().swapaxes(1, 2) @ x, atol=close * max(shape))
    if mode != "r":
        q = np.asarray(found[0])
        np.testing.assert_allclose(q @ r, x, atol=close)
        eye = np.broadcast_to(np.eye(q.shape[-1]), (len(q), q.shape[-1], q.shape[-1]))
        np.testing.assert_allclose(q.conj().swapaxes(1, 2) @ q, eye, atol=close)
