"""Recurrent networks by ``scan``: LSTM, plain RNN, and small bodies timed per step.

The LSTM cell is PyTorch's: gates = x W_ihᵀ + h W_hhᵀ + b_ih + b_hh in the order input, forget,
cell, output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models.torch_steps import gradients
from benchmarks.workload import floats

STEPS, BATCH, WIDTH = 100, 32, 128  # of the LSTM whose gradients are timed
LONG = 1000  # steps of the loops that are timed per step


def lstm_inputs(
    steps: int = STEPS, batch: int = BATCH, width: int = WIDTH
) -> tuple[np.ndarray, ...]:
    """Weights W_ih, W_hh, both biases, and the sequence."""
    return floats(
        (4 * width, width),
        (4 * width, width),
        (4 * width,),
        (4 * width,),
        (steps, batch, width),
        scale=0.1,
    )()


def cell(jax: Any) -> Any:
    jnp, sigmoid = jax.numpy, jax.nn.sigmoid

    def one_step(w_ih, w_hh, b_ih, b_hh, state, x):
        h, c = state
        gates = x @ w_ih.T + h @ w_hh.T + b_ih + b_hh
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        h = sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return one_step


def lstm(jax: Any) -> Any:
    """The mean of the squared outputs."""
    jnp, one_step = jax.numpy, cell(jax)

    def run(w_ih, w_hh, b_ih, b_hh, xs):
        zeros = jnp.zeros((xs.shape[1], w_hh.shape[1]), xs.dtype)
        body = lambda state, x: one_step(w_ih, w_hh, b_ih, b_hh, state, x)  # noqa: E731
        return jnp.mean(jax.lax.scan(body, (zeros, zeros), xs)[1] ** 2)

    return run


def lstm_gradients(jax: Any) -> Any:
    return jax.grad(lstm(jax), argnums=(0, 1, 2, 3))


def torch_lstm(torch: Any, staged: Any) -> Any:
    """By PyTorch's own LSTM kernel, which ``torch.compile`` leaves as it is."""

    def run(w_ih, w_hh, b_ih, b_hh, xs):
        zeros = xs.new_zeros((1, xs.shape[1], w_hh.shape[1]))
        weights = [w_ih, w_hh, b_ih, b_hh]
        out, _, _ = torch.lstm(xs, (zeros, zeros), weights, True, 1, 0.0, True, False, False)
        return (out**2).mean()

    return staged(run)


def torch_lstm_gradients(torch: Any, staged: Any) -> Any:
    return gradients(torch, torch_lstm(torch, staged), 4)


def rnn(jax: Any) -> Any:
    """tanh(h W + x U) over a sequence of vectors of 64."""
    jnp = jax.numpy

    def run(w, u, xs):
        def body(h, x):
            h = jnp.tanh(h @ w + x @ u)
            return h, h

        return jnp.mean(jax.lax.scan(body, jnp.zeros(w.shape[0], xs.dtype), xs)[1] ** 2)

    return run


def products(jax: Any) -> Any:
    """3×3 products, one after the other."""

    def run(start, xs):
        def body(m, x):
            m = m @ x
            return m, m[0, 0]

        last, corners = jax.lax.scan(body, start, xs)
        return jax.numpy.sum(last) + jax.numpy.mean(corners)

    return run


def product_inputs() -> tuple[np.ndarray, ...]:
    """Matrices near to the identity, so that the product stays small."""
    start, noise = floats((3, 3), (LONG, 3, 3), scale=0.05)()
    return start, noise + np.eye(3, dtype=np.float32)


def rolled(jax: Any) -> Any:
    """A body of 40 × (sin, roll, add) on 32 floats; no step enlarges a difference."""
    jnp = jax.numpy

    def run(start, xs):
        def body(v, x):
            for _ in range(40):
                v = jnp.roll(jnp.sin(v), 1) + x
            return v, None

        return jnp.sum(jax.lax.scan(body, start, xs)[0])

    return run
