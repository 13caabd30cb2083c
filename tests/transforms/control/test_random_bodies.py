"""Scans of random bodies: what their backward passes keep and compute again must not matter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax.numpy as jnp
from functrax import lax
from tests.thinning import one_in
from tests.transforms.control import unrolled
from tests.transforms.control.unrolled import derivatives_agree

W = jnp.asarray(np.array([0.3, -0.5, 0.8], "float32"))
H = (
    jnp.asarray(np.array([0.1, 0.7, -0.4], "float32")),
    jnp.asarray(np.array([-0.6, 0.2, 0.5], "float32")),
)
XS = jnp.asarray(np.sin(np.arange(9.0) * 1.7).reshape(3, 3).astype("float32"))

#: Functions of the constant ``w`` and two earlier values: cheap and dear, invariant and not.
OPERATIONS: list[Callable[[Any, Any, Any], Any]] = [
    lambda w, u, v: u + v,
    lambda w, u, v: u - v,
    lambda w, u, v: u * v * 0.5,
    lambda w, u, v: jnp.sin(u),
    lambda w, u, v: jnp.exp(-u * u),
    lambda w, u, v: jnp.maximum(u, v),
    lambda w, u, v: jnp.sum(u * v) * 0.3 + u,
    lambda w, u, v: jnp.concatenate([u[1:], v[:1]]),
    lambda w, u, v: u[::-1],
    lambda w, u, v: jnp.tanh(u) ** 2,
    lambda w, u, v: w * u,
    lambda w, u, v: jnp.exp(-w * w) * u,
    lambda w, u, v: jnp.where(u > v, u, v * 2),
    lambda w, u, v: u * (u > 0).astype("int32").astype("float32"),
]


def random_body(rng: random.Random) -> Any:
    chosen = [
        (rng.choice(OPERATIONS), rng.random(), rng.random()) for _ in range(rng.randint(3, 9))
    ]

    def step(w: Any, carry: Any, x: Any) -> Any:
        values = [*carry, x, w]
        for operation, a, b in chosen:
            u, v = (values[int(r * len(values))] for r in (a, b))
            values.append(jnp.tanh(operation(w, u, v)))
        return (values[-1], values[-2]), (values[-3], values[len(values) // 2])

    return step


@pytest.mark.parametrize("seed", one_in(6, range(24)))
def test_derivatives_are_those_of_the_unrolled_loop(seed: int) -> None:
    rng = random.Random(seed)
    step = random_body(rng)
    reverse, unroll = rng.random() < 0.5, rng.choice([1, 1, 2, True])

    def got(w: Any, h: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: step(w, c, x), h, xs, reverse=reverse, unroll=unroll)

    def want(w: Any, h: Any, xs: Any) -> Any:
        return unrolled.scan(lambda c, x: step(w, c, x), h, xs, reverse=reverse)

    derivatives_agree(got, want, (W, H, XS), 2e-3)
