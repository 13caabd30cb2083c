"""A small GPT (4 layers, 192 wide, 6 heads) and its training step on a batch of 4 × 128 tokens.

Pre-norm blocks, learnt positions, tanh GELU, an output layer of its own, Adam 3e-4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models import adam
from benchmarks.models.torch_steps import adam_step

LAYERS, WIDTH, HEADS, VOCABULARY = 4, 192, 6, 256
BATCH, LENGTH = 4, 128
ADAM = (3e-4, (0.9, 0.95))


def inputs() -> tuple[Any, ...]:
    """Training state, tokens, and the next tokens."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return np.float32(0.05) * rng.standard_normal(shape, np.float32)

    def norm() -> dict[str, np.ndarray]:
        return {"gain": np.ones(WIDTH, np.float32), "shift": np.zeros(WIDTH, np.float32)}

    def block() -> dict[str, Any]:
        return {
            "norm1": norm(),
            "qkv": normal(WIDTH, 3 * WIDTH),
            "out": normal(WIDTH, WIDTH),
            "norm2": norm(),
            "up": normal(WIDTH, 4 * WIDTH),
            "up_bias": normal(4 * WIDTH),
            "down": normal(4 * WIDTH, WIDTH),
            "down_bias": normal(WIDTH),
        }

    params = {
        "tokens": normal(VOCABULARY, WIDTH),
        "positions": normal(LENGTH, WIDTH),
        "blocks": [block() for _ in range(LAYERS)],
        "norm": norm(),
        "head": normal(WIDTH, VOCABULARY),
    }
    text = rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype(np.int32)
    return *adam.state(params), text[:, :-1].copy(), text[:, 1:].copy()


def loss(jax: Any) -> Any:
    jnp = jax.numpy

    def layer_norm(p, x):
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5) * p["gain"] + p["shift"]

    def attention(p, x):
        b, t, _ = x.shape
        qkv = (x @ p["qkv"]).reshape(b, t, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
        return mixed.reshape(b, t, WIDTH) @ p["out"]

    def of_params(params, tokens, targets):
        x = params["tokens"][tokens] + params["positions"]
        for p in params["blocks"]:
            x = x + attention(p, layer_norm(p["norm1"], x))
            hidden = jax.nn.gelu(layer_norm(p["norm2"], x) @ p["up"] + p["up_bias"])
            x = x + hidden @ p["down"] + p["down_bias"]
        logits = layer_norm(params["norm"], x) @ params["head"]
        logs = jax.nn.log_softmax(logits, axis=-1)
        return -jnp.mean(jnp.take_along_axis(logs, targets[..., None], axis=-1))

    return of_params


def step(jax: Any) -> Any:
    return adam.train_step(jax, loss(jax), *ADAM)


def torch_step(torch: Any, staged: Any) -> Any:
    f = torch.nn.functional

    def layer_norm(p, x):
        return f.layer_norm(x, (WIDTH,), p["gain"], p["shift"], 1e-5)

    def attention(p, x):
        b, t, _ = x.shape
        qkv = (x @ p["qkv"]).view(b, t, 3, HEADS, WIDTH // HEADS)
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(b, t, WIDTH) @ p["out"]

    def of_params(params, tokens, targets):
        x = f.embedding(tokens, params["tokens"]) + params["positions"]
        for p in params["blocks"]:
            x = x + attention(p, layer_norm(p["norm1"], x))
            hidden = f.gelu(layer_norm(p["norm2"], x) @ p["up"] + p["up_bias"], approximate="tanh")
            x = x + hidden @ p["down"] + p["down_bias"]
        logits = layer_norm(params["norm"], x) @ params["head"]
        return f.cross_entropy(logits.flatten(0, 1), targets.flatten().long())

    return adam_step(torch, staged(of_params), *ADAM)


def flops() -> float:
    """Of the matrix products, three times the forward pass."""
    weights = LAYERS * 12 * WIDTH**2 + WIDTH * VOCABULARY
    scores = LAYERS * 2 * LENGTH * WIDTH
    return 3 * 2.0 * BATCH * LENGTH * (weights + scores)
