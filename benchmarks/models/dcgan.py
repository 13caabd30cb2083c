"""An iteration of DCGAN or LSGAN on 32×32 images, batch 64: a generator step, a discriminator step.

Sizes and constants are those of the PyTorch-GAN collection: G has 1,049,985 parameters (LSGAN:
1,049,729, without the first batch norm), D 98,113.  The random numbers (latent vectors, dropout's
masks) are inputs.  DCGAN's loss is binary cross-entropy, LSGAN's the squared error.

Batch norms use the batch's statistics; running ones are not kept, on any side.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.models import adam
from benchmarks.models.torch_steps import adam_step

BATCH = 64
ADAM = (2e-4, (0.5, 0.999))
CHANNELS = (1, 16, 32, 64, 128)  # of the discriminator
UP = ((128, 128, 0.8), (128, 64, 0.8), (64, 1, None))  # convolutions of the generator


def inputs(least_squares: bool) -> tuple[Any, ...]:
    """Both states, real images, latent vectors, and the masks of D for its two or three uses."""
    rng = np.random.default_rng(0)

    def normal(shape: tuple[int, ...], mean: float = 0.0) -> np.ndarray:
        return (mean + 0.02 * rng.standard_normal(shape)).astype(np.float32)

    def uniform(fan_in: int, *shape: int) -> np.ndarray:
        return rng.uniform(-(fan_in**-0.5), fan_in**-0.5, shape).astype(np.float32)

    def norm(channels: int) -> dict[str, np.ndarray]:
        return {"gain": normal((channels,), 1.0), "shift": np.zeros(channels, np.float32)}

    def conv(n_in: int, n_out: int, normed: bool) -> dict[str, np.ndarray]:
        layer = {"w": normal((n_out, n_in, 3, 3)), "b": uniform(9 * n_in, n_out)}
        return {**layer, **norm(n_out)} if normed else layer

    g: dict[str, Any] = {
        "linear": {"w": uniform(100, 100, 8192), "b": uniform(100, 8192)},
        "convs": [conv(m, n, eps is not None) for m, n, eps in UP],
    }
    if not least_squares:
        g["norm"] = norm(128)
    d = {
        "convs": [conv(m, n, m != 1) for m, n in pairwise(CHANNELS)],
        "linear": {"w": uniform(512, 512, 1), "b": uniform(512, 1)},
    }
    real = rng.uniform(-1, 1, (BATCH, 1, 32, 32)).astype(np.float32)
    z = rng.standard_normal((BATCH, 100), np.float32)
    keep = [
        (rng.random((3, BATCH, n, 1, 1)) < 0.75).astype(np.float32) / np.float32(0.75)
        for n in CHANNELS[1:]
    ]
    return *adam.state(g), *adam.state(d), real, z, keep


def losses(jax: Any, least_squares: bool) -> tuple[Any, Any]:
    """The losses of the generator, which also gives its images, and of the discriminator."""
    jnp, leaky = jax.numpy, jax.nn.leaky_relu

    def conv(layer, x, stride):
        y = jax.lax.conv_general_dilated(x, layer["w"], (stride, stride), ((1, 1), (1, 1)))
        return y + layer["b"][:, None, None]

    def batch_norm(layer, x, eps):
        mean = jnp.mean(x, (0, 2, 3), keepdims=True)
        variance = jnp.mean((x - mean) ** 2, (0, 2, 3), keepdims=True)
        x = (x - mean) / jnp.sqrt(variance + eps)
        return x * layer["gain"][:, None, None] + layer["shift"][:, None, None]

    def upsample(x):
        return jnp.repeat(jnp.repeat(x, 2, axis=2), 2, axis=3)

    def generate(g, z):
        x = (z @ g["linear"]["w"] + g["linear"]["b"]).reshape(-1, 128, 8, 8)
        x = batch_norm(g["norm"], x, 1e-5) if "norm" in g else x
        for layer, (_, _, eps) in zip(g["convs"][:-1], UP):
            x = leaky(batch_norm(layer, conv(layer, upsample(x), 1), eps), 0.2)
        return jnp.tanh(conv(g["convs"][-1], x, 1))

    def discriminate(d, x, keep, use):
        for layer, mask in zip(d["convs"], keep):
            x = leaky(conv(layer, x, 2), 0.2) * mask[use]
            x = batch_norm(layer, x, 0.8) if "gain" in layer else x
        return (x.reshape(len(x), -1) @ d["linear"]["w"] + d["linear"]["b"])[:, 0]

    def loss(score, label):
        if least_squares:
            return jnp.mean((score - label) ** 2)
        return jnp.mean(jax.nn.softplus(score) - label * score)  # BCE of the sigmoid

    def g_loss(g, d, z, keep):
        fake = generate(g, z)
        return loss(discriminate(d, fake, keep, 0), 1.0), fake

    def d_loss(d, real, fake, keep):
        of_real = loss(discriminate(d, real, keep, 1), 1.0)
        return (of_real + loss(discriminate(d, fake, keep, 2), 0.0)) / 2

    return g_loss, d_loss


def step(jax: Any, least_squares: bool) -> Any:
    g_loss, d_loss = losses(jax, least_squares)

    def iteration(g, g_mean, g_square, d, d_mean, d_square, real, z, keep):
        (value, fake), grads = jax.value_and_grad(g_loss, has_aux=True)(g, d, z, keep)
        g, g_mean, g_square = adam.update(jax, g, g_mean, g_square, grads, *ADAM)
        d_value, d, d_mean = adam.train_step(jax, d_loss, *ADAM)(
            d, d_mean, d_square, real, fake, keep
        )
        return value, g, g_mean, d_value, d, d_mean

    return iteration


def torch_step(torch: Any, staged: Callable[..., Any], least_squares: bool) -> Any:
    f = torch.nn.functional

    def batch_norm(layer, x, eps):
        gain, shift = layer["gain"], layer["shift"]
        return f.batch_norm(x, None, None, gain, shift, training=True, eps=eps)

    def generate(g, z):
        x = torch.addmm(g["linear"]["b"], z, g["linear"]["w"]).view(-1, 128, 8, 8)
        x = batch_norm(g["norm"], x, 1e-5) if "norm" in g else x
        for layer, (_, _, eps) in zip(g["convs"][:-1], UP):
            x = f.interpolate(x, scale_factor=2, mode="nearest")
            x = f.conv2d(x, layer["w"], layer["b"], padding=1)
            x = f.leaky_relu(batch_norm(layer, x, eps), 0.2)
        return torch.tanh(f.conv2d(x, g["convs"][-1]["w"], g["convs"][-1]["b"], padding=1))

    def discriminate(d, x, keep, use):
        for layer, mask in zip(d["convs"], keep):
            x = f.conv2d(x, layer["w"], layer["b"], stride=2, padding=1)
            x = f.leaky_relu(x, 0.2) * mask[use]
            x = batch_norm(layer, x, 0.8) if "gain" in layer else x
        return torch.addmm(d["linear"]["b"], x.flatten(1), d["linear"]["w"])[:, 0]

    def loss(score, label):
        target = torch.full_like(score, label)
        if least_squares:
            return f.mse_loss(score, target)
        return f.binary_cross_entropy_with_logits(score, target)

    fakes: list[Any] = []  # the generator's images go to the discriminator's step, as constants

    def g_forward(g, d, z, keep):
        fake = generate(g, z)
        return loss(discriminate(d, fake, keep, 0), 1.0), fake

    def d_forward(d, real, fake, keep):
        of_real = loss(discriminate(d, real, keep, 1), 1.0)
        return (of_real + loss(discriminate(d, fake, keep, 2), 0.0)) / 2

    g_staged = staged(g_forward)

    def g_loss(g, d, z, keep):
        value, fake = g_staged(g, d, z, keep)
        fakes[:] = [fake.detach()]
        return value

    # G trains against D as it was given, in every call: the work is that of the newest D.
    g_step = adam_step(torch, g_loss, *ADAM)
    d_step = adam_step(torch, staged(d_forward), *ADAM)

    def iteration(g, g_mean, g_square, d, d_mean, d_square, real, z, keep):
        of_g = g_step(g, g_mean, g_square, d, z, keep)
        of_d = d_step(d, d_mean, d_square, real, fakes[0], keep)
        return *of_g, *of_d

    return iteration
