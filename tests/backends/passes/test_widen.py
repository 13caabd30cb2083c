"""Scatters of narrow floats are kernels, and round once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import ops
from functrax.core.types import dtypes

HALF = sorted(dtypes.HALF, key=str)


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def same_as_reference(function: Any, *args: Any) -> Any:
    """Compiled without calls of the reference, and equal to it, bit by bit."""
    assert "call" not in str(functrax.explain(function)(*args)).splitlines()[1]
    got = functrax.jit(function)(*args)
    with functrax.backend("interp"):
        want = function(*args)
    assert got.dtype == want.dtype
    assert np.asarray(got).tobytes() == np.asarray(want).tobytes()
    return got


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("method", ["add", "mul", "max", "min", "set"])
@pytest.mark.parametrize("unique", [False, True])
def test_updates(dtype: Any, method: str, unique: bool) -> None:
    x = jnp.asarray(numbers(20, 9), dtype).at[3, 4].set(np.nan)
    index = np.random.default_rng(1).permutation(20)[:13] if unique else np.arange(40) % 7
    updates = jnp.asarray(numbers(len(index), 9), dtype).at[1, 2].set(np.nan)

    def function(x: Any, index: Any, updates: Any) -> Any:
        return getattr(x.at[index], method)(updates, unique_indices=unique)

    same_as_reference(function, x, jnp.asarray(index), updates)
    same_as_reference(
        lambda i, u: getattr(jnp.ones((20, 9), dtype).at[i], method)(u), index, updates
    )


@pytest.mark.parametrize("dtype", HALF)
def test_a_long_sum_is_rounded_once(dtype: Any) -> None:
    """5000 ones: float16 would stop at 2048, bfloat16 at 256."""
    ones, index = jnp.ones(5000, dtype), jnp.zeros(5000, "int32")
    total = same_as_reference(lambda v, i: ops.segment_sum(v, i, 2), ones, index)
    assert total[0] == np.asarray(5000, dtype)


@pytest.mark.parametrize("dtype", HALF)
def test_gradients_of_gathers(dtype: Any) -> None:
    x, index = jnp.asarray(numbers(20, 9), dtype), jnp.arange(60) % 20
    grad = functrax.grad(lambda v, i: (v[i] * 3).astype("float32").sum())
    assert (np.asarray(same_as_reference(grad, x, index), np.float32) == 9).all()
