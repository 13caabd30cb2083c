"""Random programs whose steps read one another through views: rolls, pads, slices and gathers.

Between these are means, extrema, softmax and choices, so that values are computed in one kernel and
asked for in another.  A gradient that goes to the element that attains a maximum is wrong as soon
as the two round differently.

Start at :func:`random_views`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp

SHAPES = [(17,), (64,), (5, 9), (16, 16), (33, 8), (400, 330)]


def random_views(seed: int) -> tuple[Callable[[Any], Any], np.ndarray, np.ndarray]:
    """A function of one array that gives another one of its shape, an argument, and a cotangent."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    steps = [_step(rng, shape) for _ in range(rng.integers(3, 14))]

    def f(x: Any) -> Any:
        values = [x]
        for step, i, j in steps:
            last = values[-3:]
            values.append(step(last[-1 - i % len(last)], last[-1 - j % len(last)]))
        return values[-1] + values[-2]

    x, ct = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    return f, x, ct


def _step(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, int, int]:
    """A function of two arrays, and the numbers of values before that it takes."""
    axis = int(rng.integers(len(shape)))
    k = int(rng.integers(1, 4))
    order = rng.integers(0, shape[axis], shape[axis])
    last = len(shape) - 1

    def joined(u: Any, v: Any) -> Any:
        rest = jnp.take(u, jnp.arange(k, shape[axis]), axis=axis)
        return jnp.concatenate([rest, jnp.take(jnp.tanh(v), jnp.arange(k), axis=axis)], axis=axis)

    def shifted(u: Any, v: Any) -> Any:
        wide = jnp.pad(u, [(k, 0) if d == axis else (0, 0) for d in range(len(shape))])
        kept = tuple(slice(0, n) if d == axis else slice(None) for d, n in enumerate(shape))
        return wide[kept] * 0.5 + v

    steps = [
        lambda u, v: jnp.sin(u) * 1.1,
        lambda u, v: u - 0.3 * jnp.roll(v, k, axis),
        lambda u, v: jnp.roll(u, (k, -1), (0, last)) + v,
        joined,
        shifted,
        lambda u, v: u - v.mean(axis, keepdims=True),
        lambda u, v: functrax.nn.softmax(u, axis=axis) + 0.1 * v,
        lambda u, v: jnp.take(u, order, axis=axis) * 0.7 + jnp.cos(v),
        lambda u, v: jnp.flip(u, axis) * v * 0.2,
        lambda u, v: jnp.where(u > v, u, jnp.exp(-v * v)),
        lambda u, v: jnp.maximum(u, jnp.roll(u, -k, axis)) - v.max(axis, keepdims=True) * 0.1,
    ]
    step = steps[rng.integers(len(steps))]
    return step, int(rng.integers(100)), int(rng.integers(100))
