"""The critic step of WGAN-GP (Gulrajani et al. 2017): a gradient within the loss.

Sizes are those of the PyTorch-GAN collection: a generator 100-128-256-512-1024-784 (1,510,032
parameters) and a critic 784-512-256-1 (533,505); batch norms have eps 0.8; Adam 2e-4, betas (0.5,
0.999).  The random numbers (latent vectors, mixing weights) are inputs.  Fake images are constants
in the critic's step ("detached"); ``torch_attached`` is PyTorch without that.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.models import adam
from benchmarks.models.torch_steps import adam_step

GENERATOR = (100, 128, 256, 512, 1024, 784)
CRITIC = (784, 512, 256, 1)
BATCH = 64
ADAM = (2e-4, (0.5, 0.999))


def linear_layers(rng: np.random.Generator, sizes: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
    """Weights and biases, uniform in ±1/√fan_in."""

    def uniform(fan_in: int, *shape: int) -> np.ndarray:
        return rng.uniform(-(fan_in**-0.5), fan_in**-0.5, shape).astype(np.float32)

    return [{"w": uniform(m, m, n), "b": uniform(m, n)} for m, n in pairwise(sizes)]


def inputs() -> tuple[Any, ...]:
    """The critic's state, the generator, real images, latent vectors, mixing weights."""
    rng = np.random.default_rng(0)
    generator = linear_layers(rng, GENERATOR)
    for layer, n in zip(generator[1:-1], GENERATOR[2:-1]):
        layer.update(gain=np.ones(n, np.float32), shift=np.zeros(n, np.float32))
    real = rng.uniform(-1, 1, (BATCH, 784)).astype(np.float32)
    z = rng.standard_normal((BATCH, 100), np.float32)
    alpha = rng.uniform(0, 1, (BATCH, 1)).astype(np.float32)
    return *adam.state(linear_layers(rng, CRITIC)), generator, real, z, alpha


def networks(jax: Any) -> tuple[Any, Any, Any]:
    """The generator, the critic, and the critic's loss with the penalty."""
    jnp, leaky = jax.numpy, jax.nn.leaky_relu

    def linear(layer, x):
        return x @ layer["w"] + layer["b"]

    def batch_norm(layer, x):
        mean = jnp.mean(x, 0)
        variance = jnp.mean((x - mean) ** 2, 0)
        return (x - mean) / jnp.sqrt(variance + 0.8) * layer["gain"] + layer["shift"]

    def generate(layers, x):
        for layer in layers[:-1]:
            x = linear(layer, x)
            x = leaky(batch_norm(layer, x) if "gain" in layer else x, 0.2)
        return jnp.tanh(linear(layers[-1], x))

    def critic(layers, x):
        for layer in layers[:-1]:
            x = leaky(linear(layer, x), 0.2)
        return linear(layers[-1], x)[..., 0]

    def loss(params, real, fake, alpha):
        mixed = alpha * real + (1 - alpha) * fake
        slopes = jax.vmap(jax.grad(critic, argnums=1), (None, 0))(params, mixed)
        penalty = jnp.mean((jnp.sqrt(jnp.sum(slopes**2, 1)) - 1) ** 2)
        return jnp.mean(critic(params, fake)) - jnp.mean(critic(params, real)) + 10 * penalty

    return generate, critic, loss


def step(jax: Any) -> Any:
    generate, _, loss = networks(jax)
    update = adam.train_step(jax, loss, *ADAM)

    def critic_step(params, mean, square, generator, real, z, alpha):
        return update(params, mean, square, real, generate(generator, z), alpha)

    return critic_step


def torch_step(torch: Any, staged: Any) -> Any:
    return torch_critic_step(torch, staged, detach=True)


def torch_attached(torch: Any, staged: Any) -> Any:
    return torch_critic_step(torch, staged, detach=False)


def torch_critic_step(torch: Any, staged: Any, detach: bool) -> Any:
    functional = torch.nn.functional

    def linear(layer, x):
        return x @ layer["w"] + layer["b"]

    def generate(layers, x):
        for layer in layers[:-1]:
            x = linear(layer, x)
            if "gain" in layer:
                gain, shift = layer["gain"], layer["shift"]
                x = functional.batch_norm(x, None, None, gain, shift, training=True, eps=0.8)
            x = functional.leaky_relu(x, 0.2)
        return torch.tanh(linear(layers[-1], x))

    def critic(layers, x):
        for layer in layers[:-1]:
            x = functional.leaky_relu(linear(layer, x), 0.2)
        return linear(layers[-1], x)[:, 0]

    def loss(params, real, generator, z, alpha):
        if not detach:
            for layer in generator:
                for weight in layer.values():
                    weight.requires_grad_()
        with torch.set_grad_enabled(not detach):
            fake = generate(generator, z)
        mixed = (alpha * real + (1 - alpha) * fake).detach().requires_grad_()
        (slopes,) = torch.autograd.grad(critic(params, mixed).sum(), mixed, create_graph=True)
        penalty = ((slopes.norm(2, dim=1) - 1) ** 2).mean()
        return critic(params, fake).mean() - critic(params, real).mean() + 10 * penalty

    update = adam_step(torch, staged(loss), *ADAM)

    def critic_step(params, mean, square, generator, real, z, alpha):
        return update(params, mean, square, real, generator, z, alpha)

    return critic_step


def flops() -> float:
    """Of the matrix products: G once; D forward on three batches, twice backward on each."""
    g, d = (sum(m * n for m, n in pairwise(sizes)) for sizes in (GENERATOR, CRITIC))
    return 2.0 * BATCH * (g + 3 * 3 * d + 2 * d)
