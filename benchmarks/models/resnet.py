"""A small ResNet and its training step on 32 images of 32×32: three stages of two basic blocks.

Widths 16, 32, 64, stride 2 between the stages, batch norm by the batch's statistics, 10 classes,
Adam 1e-3 (He et al. 2016, the CIFAR variant with n = 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models import adam
from benchmarks.models.torch_steps import adam_step

WIDTHS, BLOCKS, CLASSES, BATCH = (16, 32, 64), 2, 10, 32
ADAM = (1e-3, (0.9, 0.999))


def inputs() -> tuple[Any, ...]:
    """Training state, images (NCHW) and labels."""
    rng = np.random.default_rng(0)

    def conv(n_in: int, n_out: int, size: int = 3) -> dict[str, np.ndarray]:
        scale = np.float32((2 / (n_in * size**2)) ** 0.5)
        return {
            "w": scale * rng.standard_normal((n_out, n_in, size, size), np.float32),
            "gain": np.ones(n_out, np.float32),
            "shift": np.zeros(n_out, np.float32),
        }

    blocks, n_in = [], WIDTHS[0]
    for width in WIDTHS:
        for _ in range(BLOCKS):
            block = {"first": conv(n_in, width), "second": conv(width, width)}
            if n_in != width:
                block["shortcut"] = conv(n_in, width, 1)
            blocks.append(block)
            n_in = width
    params = {
        "stem": conv(3, WIDTHS[0]),
        "blocks": blocks,
        "head": np.float32(0.1) * rng.standard_normal((WIDTHS[-1], CLASSES), np.float32),
    }
    images = rng.standard_normal((BATCH, 3, 32, 32), np.float32)
    return *adam.state(params), images, rng.integers(0, CLASSES, BATCH).astype(np.int32)


def loss(jax: Any) -> Any:
    jnp = jax.numpy

    def conv_norm(p, x, stride):
        size = p["w"].shape[-1] // 2
        x = jax.lax.conv_general_dilated(x, p["w"], (stride, stride), ((size, size), (size, size)))
        mean = jnp.mean(x, (0, 2, 3), keepdims=True)
        variance = jnp.mean((x - mean) ** 2, (0, 2, 3), keepdims=True)
        x = (x - mean) / jnp.sqrt(variance + 1e-5)
        return x * p["gain"][:, None, None] + p["shift"][:, None, None]

    def of_params(params, images, labels):
        x = jax.nn.relu(conv_norm(params["stem"], images, 1))
        for p in params["blocks"]:
            stride = 2 if "shortcut" in p else 1
            short = conv_norm(p["shortcut"], x, stride) if "shortcut" in p else x
            y = jax.nn.relu(conv_norm(p["first"], x, stride))
            x = jax.nn.relu(conv_norm(p["second"], y, 1) + short)
        logs = jax.nn.log_softmax(jnp.mean(x, (2, 3)) @ params["head"], axis=-1)
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=-1))

    return of_params


def step(jax: Any) -> Any:
    return adam.train_step(jax, loss(jax), *ADAM)


def torch_step(torch: Any, staged: Any) -> Any:
    f = torch.nn.functional

    def conv_norm(p, x, stride):
        x = f.conv2d(x, p["w"], stride=stride, padding=p["w"].shape[-1] // 2)
        return f.batch_norm(x, None, None, p["gain"], p["shift"], training=True, eps=1e-5)

    def of_params(params, images, labels):
        x = f.relu(conv_norm(params["stem"], images, 1))
        for p in params["blocks"]:
            stride = 2 if "shortcut" in p else 1
            short = conv_norm(p["shortcut"], x, stride) if "shortcut" in p else x
            y = f.relu(conv_norm(p["first"], x, stride))
            x = f.relu(conv_norm(p["second"], y, 1) + short)
        return f.cross_entropy(x.mean((2, 3)) @ params["head"], labels.long())

    return adam_step(torch, staged(of_params), *ADAM)


def flops() -> float:
    """Of the convolutions, three times the forward pass."""
    total, n_in, side = 27.0 * WIDTHS[0] * 32**2, WIDTHS[0], 32
    for width in WIDTHS:
        if n_in != width:
            side //= 2
            total += n_in * width * side**2
        total += 9 * width * (n_in + (2 * BLOCKS - 1) * width) * side**2
        n_in = width
    return 3 * 2 * BATCH * total
