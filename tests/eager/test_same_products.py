"""A product of matrices has the same bits alone and inside of what is pending.

Each case is a product of random shapes, of which what goes in and what is made of it are random
steps.  All is computed twice: each value is looked at as soon as it is made, or nothing is before
the end, so that it is a part of one program, perhaps of a larger one than it takes to compile at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.eager import run as eager_run
from functrax.backends.targets import target
from functrax.core.records import replace

PRODUCTS: list[Callable[[Any, Any], Any]] = [
    lambda x, w: x @ w,
    lambda x, w: jnp.matmul(w.T, x.T),
    lambda x, w: jnp.einsum("ij,jk->ik", x, w),
    lambda x, w: x[0] @ w,
    lambda x, w: x @ w[:, 0],
    lambda x, w: jnp.dot(x[0], w[:, 0])[None],
    lambda x, w: jnp.matmul(jnp.stack([x, x + 1]), jnp.stack([w, w * 2])),
    lambda x, w: x.T @ x,
    lambda x, w: jnp.outer(x[:, 0], w[0]),
    functrax.grad(lambda x, w: jnp.sum(jnp.tanh(x @ w))),
]
BEFORE: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x * 1.7 + 0.3,
    lambda x: jnp.tanh(x) * x,
    lambda x: -jnp.maximum(x, 0),
    lambda x: x - x.mean(axis=0),
    lambda x: x / (1 + jnp.sum(x * x, axis=1, keepdims=True)),
    lambda x: x * jnp.arange(1.0, x.shape[1] + 1, dtype=x.dtype),
    lambda x: x * jnp.arange(1.0, x.shape[0] + 1, dtype=x.dtype)[:, None],
    lambda x: (x.T * 2).T,
    lambda x: jnp.pad(x[:0:-1], ((1, 0), (0, 0))),
    lambda x: x.astype(np.float16).astype(np.float32),
    lambda x: jnp.ones(x.shape, x.dtype),
    lambda x: jnp.broadcast_to(x[:1], x.shape),
    lambda x: jnp.broadcast_to(x[:, :1] + 1, x.shape),
    lambda x: jnp.outer(x[:, 0], x[0]),
]
AFTER: list[Callable[[Any], Any]] = [
    lambda y: y,
    lambda y: jnp.maximum(y + 1.5, 0) * 3,
    lambda y: jnp.sum(y),
    lambda y: jnp.sum(y, axis=0),
    lambda y: jnp.sum(y * y),
    lambda y: jnp.mean(y, axis=-1, keepdims=True) + y,
    lambda y: jnp.exp(y - jnp.max(y, axis=-1, keepdims=True)).T,
    lambda y: y.T @ y if y.ndim == 2 else y * 0.1 - y / 3,
]


def computed(seed: int, most: float, look: bool) -> list[bytes]:
    """The bits of a random product, and of what is made of it."""
    rng = np.random.default_rng(seed)
    m, k, n = np.exp(rng.uniform(0, np.log(most), 3)).round().astype(int)
    x, w = (jnp.asarray(rng.standard_normal(s, np.float32)) for s in ((m, k), (k, n)))
    left, right, product, after, large = rng.integers(1 << 20, size=5)
    values = [BEFORE[left % len(BEFORE)](x), BEFORE[right % len(BEFORE)](w)]

    def add(value: Any) -> None:
        if look:
            values[-1].block_until_ready()
        values.append(value)

    add(PRODUCTS[product % len(PRODUCTS)](*values))
    add(AFTER[after % len(AFTER)](values[-1]))
    if large % 2 and not look:  # so that all is compiled as one program
        wide = jnp.sum(jnp.sin(jnp.zeros((700, 700), np.float32)))
        (wide + jnp.sum(values[-1])).block_until_ready()
    return [np.asarray(y).tobytes() for y in reversed(values)]


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize("seed", range(0, 240, 20))
def test_products_have_the_same_bits_alone(seed: int) -> None:
    for number in range(seed, seed + 20):
        assert computed(number, 130, True) == computed(number, 130, False), f"case {number}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000, 20))
def test_products_have_the_same_bits_alone_often(seed: int, monkeypatch: Any) -> None:
    for number in range(seed, seed + 20):
        most = (10, 40, 130, 600)[number % 4]
        alone = computed(number, most, True)
        assert computed(number, most, False) == alone, f"case {number}"
        with monkeypatch.context() as patch:  # all that is more than one operation is compiled
            facts = replace(target(), compile_ns=0)
            patch.setattr(eager_run, "target", lambda facts=facts: facts)
            eager_run.forget()
            assert computed(number, most, False) == alone, f"case {number}, compiled"
