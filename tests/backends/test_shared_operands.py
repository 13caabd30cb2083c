"""Kernels of several results that read one value, whose memory one of the results takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax


@pytest.mark.parametrize("size", [4, 33])
def test_a_result_is_not_written_over_what_a_masked_read_still_needs(size: int) -> None:
    """The sorted array is temporary; its triangle is read by another load than its sum's."""

    def both(x: Any) -> Any:
        y = lax.sort(x)
        return y + 100.0, jnp.triu(y)

    x = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    moved, upper = functrax.jit(both)(x)
    y = np.sort(x, -1)
    np.testing.assert_array_equal(moved, y + np.float32(100))
    np.testing.assert_array_equal(upper, np.triu(y))


def test_factors_of_an_elimination_under_jit() -> None:
    x = np.random.default_rng(1).normal(size=(12, 12)).astype(np.float32)
    p, left, right = functrax.jit(functrax.scipy.linalg.lu)(x)
    np.testing.assert_array_equal(right, np.triu(right))
    np.testing.assert_allclose(p @ left @ right, x, atol=1e-5)
