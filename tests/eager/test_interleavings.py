"""Random interleavings of eager operations: recorded, they give what they give at once.

A program is a list of steps on a pool of arrays: operations, looks at values, deletions, calls of
jitted functions with and without donation, gradients, errors.  It is run lazily and immediately; in
strict mode the bits are the same.  Afterwards the memory that the runtime's pool lends is what it
was.  ``pytest tests/eager -m slow`` runs 100,000 steps.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.runtime import pool_stats
from functrax.core.config import Override
from functrax.errors import ShapeError

SIDE = 40
LARGE = 700

UNARY: list[Callable[[Any], Any]] = [
    jnp.sin,
    lambda x: x * 2.5 - 1,
    lambda x: jnp.exp(-jnp.abs(x)),
    lambda x: x.T,
    lambda x: x - x.mean(),
    lambda x: jnp.where(x > 0, x, 0.1 * x),
    lambda x: jnp.concatenate([x[1:], x[:1]]),
    lambda x: jnp.sort(x, axis=0),
    lambda x: x.at[0].set(0.5),
    lambda x: jnp.flip(x, 1) / (1 + x * x),
    functrax.grad(lambda x: jnp.sum(jnp.tanh(x) * x)),
    functrax.vmap(lambda row: row * row.max()),
    functrax.jit(lambda x: jnp.cos(x) + 1),
    lambda x: functrax.jvp(jnp.tanh, (x,), (jnp.ones_like(x),))[1],
    lambda x: jnp.cumsum(x, axis=1) / x.shape[1],
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: jnp.maximum(x, y) - jnp.minimum(x, y),
    lambda x, y: x * y.mean(axis=0),
    lambda x, y: jnp.tanh(x @ y / x.shape[0]),
]
_donating = functrax.jit(lambda x: x * 0.5 + 1, donate_argnums=0)


def run(seed: int, steps: int, side: int) -> list[np.ndarray[Any, Any]]:
    """All that was looked at, in order."""
    rng = np.random.default_rng(seed)
    pool: list[Any] = [jnp.asarray(rng.standard_normal((side, side), np.float32)) for _ in "ab"]
    seen: list[np.ndarray[Any, Any]] = []
    for _ in range(steps):
        kind = rng.random()
        i, j = rng.integers(len(pool), size=2)
        if kind < 0.45:
            pool.append(UNARY[rng.integers(len(UNARY))](pool[i]))
        elif kind < 0.7:
            pool.append(BINARY[rng.integers(len(BINARY))](pool[i], pool[j]))
        elif kind < 0.8:
            seen.append(np.array(pool[i]))
        elif kind < 0.85:
            seen.append(np.asarray(float(pool[i].sum())))
        elif kind < 0.9 and len(pool) > 1:
            pool[i] = _donating(pool[i])
        elif kind < 0.93:
            with pytest.raises(ShapeError):
                pool[i] + jnp.ones(side + 1)
        elif len(pool) > 1:
            del pool[i]
        while len(pool) > 8:
            del pool[int(rng.integers(len(pool)))]
    return seen + [np.array(x) for x in pool]


def compare(seed: int, steps: int, side: int, strict: bool) -> None:
    with Override("strict", strict):
        with functrax.eager("immediate"):
            expected = run(seed, steps, side)
        found = run(seed, steps, side)
        again = run(seed, steps, side)
    assert len(found) == len(expected)
    for n, (x, y, z) in enumerate(zip(expected, found, again)):
        assert y.tobytes() == z.tobytes(), f"seed {seed}: look {n} differs the second time"
        if strict:
            assert x.tobytes() == y.tobytes(), f"seed {seed}: look {n} differs"
        else:
            np.testing.assert_allclose(y, x, rtol=2e-3, atol=2e-3, err_msg=f"seed {seed}, {n}")


@pytest.mark.parametrize("seed", range(8))
def test_small_arrays(seed: int) -> None:
    compare(seed, 40, SIDE, strict=False)


@pytest.mark.parametrize("seed", range(2))
def test_large_arrays(seed: int) -> None:
    compare(seed + 100, 15, LARGE, strict=False)


@pytest.mark.parametrize("seed", range(2))
def test_strict_mode_gives_the_same_bits(seed: int) -> None:
    compare(seed + 200, 20, SIDE, strict=True)


def test_memory_returns_to_its_start() -> None:
    run(7, 40, LARGE // 2)
    gc.collect()
    before = pool_stats().in_use
    for seed in (8, 9):
        run(seed, 40, LARGE // 2)
    gc.collect()
    assert pool_stats().in_use == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000))
def test_many(seed: int) -> None:
    compare(seed + 1000, 100, [SIDE, 8, 200][seed % 3], strict=seed % 10 == 0)
