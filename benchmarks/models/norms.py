"""Softmax, layer norm, and batch norm with ReLU, with their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models.torch_steps import gradients
from benchmarks.workload import floats

LAYER = (2048, 768)
BATCH = (32, 64, 28, 28)


def softmax(jax: Any) -> Any:
    return lambda x: jax.nn.softmax(x, axis=-1)


def torch_softmax(torch: Any, staged: Any) -> Any:
    return staged(lambda x: torch.softmax(x, -1))


def numpy_softmax(np: Any) -> Any:
    def run(x):
        y = np.exp(x - x.max(-1, keepdims=True))
        return y / y.sum(-1, keepdims=True)

    return run


def layer_inputs() -> tuple[np.ndarray, ...]:
    """Rows, gain, shift, and the rows' cotangent."""
    return floats(LAYER, LAYER[1:], LAYER[1:], LAYER)()


def layer_norm(jax: Any) -> Any:
    jnp = jax.numpy

    def run(x, gain, shift, _weights):
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + shift

    return run


def layer_norm_gradient(jax: Any) -> Any:
    f = layer_norm(jax)
    return jax.grad(lambda x, g, b, w: jax.numpy.sum(f(x, g, b, w) * w), argnums=(0, 1, 2))


def torch_layer_norm(torch: Any, staged: Any) -> Any:
    norm = torch.nn.functional.layer_norm
    return staged(lambda x, gain, shift, _: norm(x, LAYER[1:], gain, shift, 1e-5))


def torch_layer_norm_gradient(torch: Any, staged: Any) -> Any:
    norm = torch.nn.functional.layer_norm
    loss = staged(lambda x, g, b, w: (norm(x, LAYER[1:], g, b, 1e-5) * w).sum())
    return gradients(torch, loss, 3)


def batch_inputs() -> tuple[np.ndarray, ...]:
    """Images, gain and shift per channel, and the images' cotangent."""
    return floats(BATCH, (64,), (64,), BATCH)()


def batch_norm_relu(jax: Any) -> Any:
    """By the two sums of x and x², so that x is read once for both."""
    jnp = jax.numpy

    def run(x, gain, shift):
        mean = jnp.mean(x, (0, 2, 3), keepdims=True)
        variance = jnp.mean(x * x, (0, 2, 3), keepdims=True) - mean * mean
        y = (x - mean) / jnp.sqrt(variance + 1e-5)
        return jnp.maximum(y * gain[:, None, None] + shift[:, None, None], 0)

    return run


def batch_norm_relu_gradient(jax: Any) -> Any:
    f = batch_norm_relu(jax)
    return jax.grad(lambda x, g, b, w: jax.numpy.sum(f(x, g, b) * w), argnums=(0, 1, 2))


def torch_batch_norm_relu_gradient(torch: Any, staged: Any) -> Any:
    functional = torch.nn.functional

    def loss(x, gain, shift, w):
        y = functional.batch_norm(x, None, None, gain, shift, training=True, eps=1e-5)
        return (functional.relu(y) * w).sum()

    return gradients(torch, staged(loss), 3)
