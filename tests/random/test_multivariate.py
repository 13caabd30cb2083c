"""Multivariate normal samples: JAX's numbers, their covariance, derivatives and errors."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.errors import ArgumentError, ShapeError

COV = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
MEAN = np.array([1.0, -1.0], np.float32)


def test_the_numbers_for_a_key_are_those_of_jax():
    out = random.multivariate_normal(random.PRNGKey(3), MEAN, COV, (3,))
    wanted = [
        [-1.045316219329834, -0.07136988639831543],
        [1.5409455299377441, 0.9786591529846191],
        [0.1689128279685974, -1.0118813514709473],
    ]
    np.testing.assert_allclose(out, wanted, rtol=2e-6)


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_the_covariance_of_many(method):
    draw = functrax.jit(
        lambda key: random.multivariate_normal(key, MEAN, COV, (20000,), method=method)
    )
    drawn = np.asarray(draw(random.key(0)))
    np.testing.assert_allclose(drawn.mean(0), MEAN, atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), COV, atol=0.08)


def test_batches_and_dtypes():
    out = random.multivariate_normal(random.key(0), jnp.zeros((4, 1, 2)), jnp.stack([COV] * 3))
    assert out.shape == (4, 3, 2) and out.dtype == np.float32
    whole = random.multivariate_normal(random.key(0), np.zeros(2, int), np.eye(2, dtype=int))
    assert whole.dtype == np.float32


def test_the_mean_has_a_derivative():
    key = random.key(1)
    gradient = functrax.grad(lambda m: jnp.sum(random.multivariate_normal(key, m, COV, (5,))))
    assert gradient(MEAN).tolist() == [5.0, 5.0]


def test_wrong_arguments():
    with pytest.raises(ShapeError, match="multivariate_normal: the mean"):
        random.multivariate_normal(random.key(0), MEAN, np.eye(3))
    with pytest.raises(ShapeError, match="multivariate_normal: the mean"):
        random.multivariate_normal(random.key(0), 0.0, np.eye(1))
    with pytest.raises(ArgumentError, match="no such method"):
        random.multivariate_normal(random.key(0), MEAN, COV, method="qr")


def test_a_mean_takes_part_in_every_sample_without_rank_promotion() -> None:
    with functrax.numpy_rank_promotion("raise"):
        drawn = random.multivariate_normal(random.key(0), jnp.zeros(2), jnp.eye(2), (3, 4))
    assert drawn.shape == (3, 4, 2)
