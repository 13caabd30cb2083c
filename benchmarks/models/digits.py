"""A classifier of 8×8 images, 64-128-64-10, and its training step on a batch of 64 with Adam.

The network of ``examples/digits.py``, small enough for what is around the arithmetic to count.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.models import adam

LAYERS = (64, 128, 64, 10)
BATCH = 64
ADAM = (3e-3, (0.9, 0.999))


def inputs() -> tuple[Any, ...]:
    """Training state, images and labels."""
    rng = np.random.default_rng(0)
    params = [
        {
            "w": (2 / n) ** 0.5 * rng.standard_normal((n, m), np.float32),
            "b": np.zeros(m, np.float32),
        }
        for n, m in itertools.pairwise(LAYERS)
    ]
    labels = rng.integers(0, LAYERS[-1], BATCH).astype(np.int32)
    return *adam.state(params), rng.random((BATCH, LAYERS[0]), np.float32), labels


def step(jax: Any) -> Any:
    def loss(params, images, labels):
        *hidden, last = params
        x = images
        for layer in hidden:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        scores = jax.nn.log_softmax(x @ last["w"] + last["b"])
        chosen = scores * jax.nn.one_hot(labels, LAYERS[-1])
        return -jax.numpy.mean(jax.numpy.sum(chosen, axis=1))

    return adam.train_step(jax, loss, *ADAM)
