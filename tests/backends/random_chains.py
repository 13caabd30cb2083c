"""Random chains of views of small integers: slices, pads, reshapes, gathers, and sums between.

Every number of an array is another one, so that an element that is read from a wrong place shows.

Start at :func:`random_chain`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import functrax.numpy as jnp
from functrax import lax

Rng = np.random.Generator
Step = Callable[[Any], Any]
#: The most elements of an array on the way.
MOST = 700


def random_chain(seed: int) -> tuple[Callable[[Any], Any], np.ndarray]:
    """A function of one array of one axis that gives another array, and an argument."""
    rng = np.random.default_rng(seed)
    x = np.arange(rng.integers(90, 300), dtype=np.int32) * 3 + 1
    shape, steps = x.shape, []
    while len(steps) < rng.integers(2, 7):
        step = _STEPS[rng.integers(len(_STEPS))](rng, shape)
        size = math.prod(found := np.shape(step(np.zeros(shape, np.int32))))
        if 0 < size <= MOST:
            steps.append(step)
            shape = found

    def f(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x + 1 if seed % 2 else x

    return f, x


def _axis(rng: Rng, shape: tuple[int, ...]) -> int:
    return int(rng.integers(len(shape)))


def _slice(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis = _axis(rng, shape)
    step = int(rng.choice([1, 1, 2, 3, -1, -2]))
    skipped = int(rng.integers(0, 9))
    part = slice(skipped, None, step) if step > 0 else slice(None, skipped or None, step)
    return lambda x: jnp.asarray(x)[(slice(None),) * axis + (part,)]


def _pad(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis = _axis(rng, shape)
    low, high, inner = int(rng.integers(-3, 90)), int(rng.integers(-3, 90)), int(rng.integers(3))
    pads = [(low, high, inner) if k == axis else (0, 0, 0) for k in range(len(shape))]
    return lambda x: lax.pad(x, np.int32(-7), pads)


def _reshape(rng: Rng, shape: tuple[int, ...]) -> Step:
    size = math.prod(shape)
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    rows = int(rng.choice(divisors))
    rest = [d for d in divisors if (size // rows) % d == 0]
    middle = int(rng.choice(rest))
    return lambda x: jnp.reshape(x, (rows, middle, size // rows // middle))


def _transpose(rng: Rng, shape: tuple[int, ...]) -> Step:
    order = tuple(rng.permutation(len(shape)).tolist())
    return lambda x: jnp.transpose(x, order)


def _flat(rng: Rng, shape: tuple[int, ...]) -> Step:
    return lambda x: jnp.reshape(x, (-1,))


def _concatenate(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis, k = _axis(rng, shape), int(rng.integers(1, 5))
    return lambda x: jnp.concatenate([x, lax.rev(jnp.asarray(x), (axis,)) + k], axis)


def _broadcast(rng: Rng, shape: tuple[int, ...]) -> Step:
    place = int(rng.integers(len(shape) + 1))
    count = int(rng.integers(2, 4))
    wide = (*shape[:place], count, *shape[place:])
    return lambda x: jnp.broadcast_to(jnp.expand_dims(x, place), wide)


def _gather(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis = _axis(rng, shape)
    dtype = rng.choice(["int8", "uint8", "int16", "int32", "uint32"])
    low = 0 if dtype[0] == "u" else -shape[axis] - 5
    limits = np.iinfo(dtype)
    places = rng.integers(low, shape[axis] + 5, int(rng.integers(1, 40)))
    index = np.clip(places, limits.min, limits.max).astype(dtype)
    return lambda x: jnp.take(x, jnp.asarray(index) + 0, axis)


def _dynamic_slice(rng: Rng, shape: tuple[int, ...]) -> Step:
    start = rng.integers(-9, 60, len(shape)).astype(np.int32)
    window = tuple(int(rng.integers(1, n + 1)) for n in shape)
    return lambda x: lax.dynamic_slice(x, [jnp.asarray(s) + 0 for s in start], window)


def _dynamic_update(rng: Rng, shape: tuple[int, ...]) -> Step:
    start = rng.integers(-9, 60, len(shape)).astype(np.int32)
    window = tuple(int(rng.integers(1, n + 1)) for n in shape)
    update = rng.integers(5000, 9000, window).astype(np.int32)
    return lambda x: lax.dynamic_update_slice(x, update, [jnp.asarray(s) + 0 for s in start])


def _roll(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis, by = _axis(rng, shape), int(rng.integers(-200, 200))
    return lambda x: jnp.roll(x, jnp.asarray(by) + 0, axis)


def _scatter(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis, how = _axis(rng, shape), str(rng.choice(["add", "set", "max"]))
    index = rng.integers(-shape[axis] - 5, shape[axis] + 5, int(rng.integers(1, 40)))
    where = (slice(None),) * axis

    def step(x: Any) -> Any:
        at = jnp.asarray(x).at[(*where, jnp.asarray(index.astype(np.int32)) + 0)]
        return getattr(at, how)(np.int32(77))

    return step


def _matmul(rng: Rng, shape: tuple[int, ...]) -> Step:
    columns = int(rng.integers(1, 40))
    right = rng.integers(-3, 4, (shape[-1], columns)).astype(np.int32)
    return lambda x: jnp.matmul(x, right)


def _sum(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis = _axis(rng, shape)
    return lambda x: jnp.sum(x, axis, keepdims=True) + x


def _running(rng: Rng, shape: tuple[int, ...]) -> Step:
    axis, reverse = _axis(rng, shape), bool(rng.integers(2))
    return lambda x: lax.cumsum(jnp.asarray(x), axis, reverse=reverse)


_STEPS: list[Callable[[Rng, tuple[int, ...]], Step]] = [
    _slice,
    _pad,
    _reshape,
    _transpose,
    _flat,
    _concatenate,
    _broadcast,
    _gather,
    _dynamic_slice,
    _dynamic_update,
    _roll,
    _scatter,
    _matmul,
    _sum,
    _running,
]
