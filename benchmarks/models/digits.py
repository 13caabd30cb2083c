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
STEPS = 20  # of a loop
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


def loss_of(jax: Any) -> Any:
    def loss(params, images, labels):
        *hidden, last = params
        x = images
        for layer in hidden:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        scores = jax.nn.log_softmax(x @ last["w"] + last["b"])
        chosen = scores * jax.nn.one_hot(labels, LAYERS[-1])
        return -jax.numpy.mean(jax.numpy.sum(chosen, axis=1))

    return loss


def step(jax: Any) -> Any:
    return adam.train_step(jax, loss_of(jax), *ADAM)


def loop(jax: Any, jitted: bool) -> Any:
    """A training loop in Python: losses are collected, and looked at after the last step."""
    loss, rate, betas = loss_of(jax), *ADAM

    def step(state, images, labels):
        value, grads = jax.value_and_grad(loss)(state[0], images, labels)
        return adam.update(jax, *state, grads, rate, betas), value

    call = jax.jit(step) if jitted else step
    rng = np.random.default_rng(1)
    images = rng.random((STEPS, BATCH, LAYERS[0]), np.float32)

    def train(params, mean, square, _, labels):
        state, losses = (params, mean, square), []
        for batch in images:
            state, value = call(state, batch, labels)
            losses.append(value)
        return np.array([float(value) for value in losses]), *state

    return train
