"""Generative models: diffusion, flows, adversaries, autoencoders, energies."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.research.networks import descend, forward, perceptron
from benchmarks.workload import Workload, faster


def denoiser() -> tuple[Any, ...]:
    """A network of points in the plane and time, and a seed."""
    return perceptron(np.random.default_rng(0), 18, 128, 128, 2), np.int32(0)


def time_features(jax: Any) -> Any:
    """Sines and cosines of a time."""
    jnp = jax.numpy

    def features(t: Any) -> Any:
        angles = t * jnp.exp(jnp.linspace(0.0, 5.0, 8))
        return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)])

    return features


def diffusion_sampling(jax: Any) -> Any:
    """256 samples by 50 steps of ancestral sampling (Ho et al. 2020) with a cosine schedule."""
    jnp = jax.numpy
    apply, features = forward(jax, jax.nn.silu), time_features(jax)

    def run(layers: Any, seed: Any) -> Any:
        levels = jnp.cos(jnp.linspace(0.0, 1.0, 51) * 1.5) ** 2
        alphas = levels[1:] / levels[:-1]

        def step(x: Any, row: Any) -> Any:
            t, key, alpha, level = row
            times = jnp.broadcast_to(features(t / 50), (256, 16))
            noise = apply(layers, jnp.concatenate([x, times], 1))
            mean = (x - (1 - alpha) / jnp.sqrt(1 - level) * noise) / jnp.sqrt(alpha)
            fresh = jnp.sqrt(1 - alpha) * jax.random.normal(key, x.shape)
            return mean + jnp.where(t > 0, fresh, 0), None

        first, key = jax.random.split(jax.random.key(seed))
        rows = jnp.arange(50), jax.random.split(key, 50), alphas, levels[1:]
        x, _ = jax.lax.scan(step, jax.random.normal(first, (256, 2)), rows, reverse=True)
        return x

    return run


def score_matching(jax: Any) -> Any:
    """Ten training steps of a diffusion model on 512 points of two moons."""
    jnp = jax.numpy
    apply, features = forward(jax, jax.nn.silu), time_features(jax)
    update = descend(jax, 0.01)

    def loss(layers: Any, key: Any) -> Any:
        a, b, c, d = jax.random.split(key, 4)
        angle = jnp.pi * jax.random.uniform(a, (512,))
        side = jax.random.bernoulli(b, 0.5, (512,))
        moon = jnp.stack([jnp.cos(angle), jnp.sin(angle)], 1)
        x = jnp.where(side[:, None], moon, jnp.array([1.0, 0.5]) - moon)
        t = jax.random.uniform(c, (512,))
        noise = jax.random.normal(d, x.shape)
        level = (jnp.cos(1.5 * t) ** 2)[:, None]
        noisy = jnp.sqrt(level) * x + jnp.sqrt(1 - level) * noise
        found = apply(layers, jnp.concatenate([noisy, jax.vmap(features)(t)], 1))
        return jnp.mean((found - noise) ** 2)

    def run(layers: Any, seed: Any) -> Any:
        def step(layers: Any, key: Any) -> Any:
            value, slope = jax.value_and_grad(loss)(layers, key)
            return update(layers, slope), value

        return jax.lax.scan(step, layers, jax.random.split(jax.random.key(seed), 10))

    return run


# ---- flows --------------------------------------------------------------------------------------


def couplings() -> tuple[Any, ...]:
    """Networks of six coupling layers of eight numbers, and 512 points."""
    rng = np.random.default_rng(0)
    layers = [perceptron(rng, 4, 64, 8) for _ in range(6)]
    return layers, rng.standard_normal((512, 8), np.float32)


def real_nvp(jax: Any) -> Any:
    """A training step of RealNVP: affine couplings of halves that take turns."""
    jnp = jax.numpy
    apply = forward(jax, jax.nn.relu)
    update = descend(jax, 1e-3)

    def log_density(layers: Any, x: Any) -> Any:
        volume = 0.0
        for k, net in enumerate(layers):
            left, right = jnp.split(x, 2)
            shift, log_scale = jnp.split(apply(net, left), 2)
            log_scale = jnp.tanh(log_scale)
            right = right * jnp.exp(log_scale) + shift
            volume = volume + log_scale.sum()
            x = jnp.concatenate([right, left] if k % 2 else [left, right])[::-1]
        return jax.scipy.stats.norm.logpdf(x).sum() + volume

    def run(layers: Any, x: Any) -> Any:
        def loss(layers: Any) -> Any:
            return -jax.vmap(log_density, (None, 0))(layers, x).mean()

        value, slope = jax.value_and_grad(loss)(layers)
        return update(layers, slope), value

    return run


def continuous_flow(jax: Any) -> Any:
    """The log densities of 128 points by a flow in time whose divergence is a trace of jacfwd."""
    jnp = jax.numpy
    apply = forward(jax)

    def run(layers: Any, x: Any) -> Any:
        net = layers[0]

        def velocity(x: Any, t: Any) -> Any:
            return apply([net[0], {"w": net[1]["w"][:, :4], "b": net[1]["b"][:4]}], x * (1 - t))

        def augmented(x: Any, t: Any) -> Any:
            return velocity(x, t), jnp.trace(jax.jacfwd(velocity)(x, t))

        def one(x: Any) -> Any:
            def step(state: Any, t: Any) -> Any:
                x, volume = state
                v1 = velocity(x, t)
                v2, d2 = augmented(x + 0.05 * v1, t + 0.05)
                return (x + 0.1 * v2, volume + 0.1 * d2), None

            (z, volume), _ = jax.lax.scan(step, (x, 0.0), jnp.arange(10) / 10)
            return jax.scipy.stats.norm.logpdf(z).sum() + volume

        return jax.vmap(one)(x[:128, :4])

    return run


# ---- adversaries, autoencoders ------------------------------------------------------------------


def adversaries() -> tuple[Any, ...]:
    """A generator, a critic, 128 true points of eight numbers, a seed."""
    rng = np.random.default_rng(0)
    generator, critic = perceptron(rng, 16, 64, 64, 8), perceptron(rng, 8, 64, 64, 1)
    return generator, critic, rng.standard_normal((128, 8), np.float32) + 1, np.int32(0)


def gan(jax: Any) -> Any:
    """Five steps of a critic with spectral normalisation by power iteration, one of a generator."""
    jnp = jax.numpy
    apply = forward(jax, jax.nn.leaky_relu)
    update = descend(jax, 0.005)

    def normalised(layer: Any) -> Any:
        w = layer["w"]
        u = jnp.ones(w.shape[0]) / w.shape[0] ** 0.5
        for _ in range(3):
            v = w.T @ u
            v = v / (jnp.linalg.norm(v) + 1e-6)
            u = w @ v
            u = u / (jnp.linalg.norm(u) + 1e-6)
        u, v = jax.lax.stop_gradient((u, v))
        return {"w": w / (u @ w @ v), "b": layer["b"]}

    def score(critic: Any, x: Any) -> Any:
        return apply([normalised(layer) for layer in critic], x)[:, 0]

    def run(generator: Any, critic: Any, true: Any, seed: Any) -> Any:
        def critic_loss(critic: Any, key: Any) -> Any:
            fake = apply(generator, jax.random.normal(key, (128, 16)))
            hinge = jax.nn.relu(1 - score(critic, true)) + jax.nn.relu(1 + score(critic, fake))
            return hinge.mean()

        def step(critic: Any, key: Any) -> Any:
            value, slope = jax.value_and_grad(critic_loss)(critic, key)
            return update(critic, slope), value

        key, *last = jax.random.split(jax.random.key(seed), 2)
        critic, values = jax.lax.scan(step, critic, jax.random.split(key, 5))

        def generator_loss(generator: Any) -> Any:
            return -score(critic, apply(generator, jax.random.normal(last[0], (128, 16)))).mean()

        value, slope = jax.value_and_grad(generator_loss)(generator)
        return update(generator, slope), critic, values, value

    return run


def pictures() -> tuple[Any, ...]:
    """An encoder and a decoder of 28 × 28 pictures, 64 pictures, a seed."""
    rng = np.random.default_rng(0)
    encoder, decoder = perceptron(rng, 784, 256, 32), perceptron(rng, 16, 256, 784)
    return encoder, decoder, rng.uniform(size=(64, 784)).astype(np.float32), np.int32(0)


def autoencoder(jax: Any) -> Any:
    """A step of Adam on a variational autoencoder's bound."""
    jnp = jax.numpy
    apply = forward(jax, jax.nn.relu)

    def run(encoder: Any, decoder: Any, x: Any, seed: Any) -> Any:
        def loss(nets: Any) -> Any:
            mean, log_var = jnp.split(apply(nets[0], x), 2, -1)
            noise = jax.random.normal(jax.random.key(seed), mean.shape)
            logits = apply(nets[1], mean + jnp.exp(0.5 * log_var) * noise)
            cross = jnp.maximum(logits, 0) - logits * x + jnp.log1p(jnp.exp(-jnp.abs(logits)))
            divergence = 0.5 * (jnp.exp(log_var) + mean**2 - 1 - log_var)
            return (cross.sum(-1) + divergence.sum(-1)).mean()

        nets = (encoder, decoder)
        value, slope = jax.value_and_grad(loss)(nets)
        tree = jax.tree_util.tree_map
        first, second = tree(lambda g: 0.1 * g, slope), tree(lambda g: 0.001 * g**2, slope)

        def change(w: Any, m: Any, v: Any) -> Any:
            return w - 1e-3 * (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8)

        return tree(change, nets, first, second), slope, value

    return run


def energy_model(jax: Any) -> Any:
    """Contrastive divergence: 20 Langevin steps of 128 samples of an energy, then its gradient."""
    apply = forward(jax, jax.nn.silu)
    update = descend(jax, 0.01)

    def run(_: Any, critic: Any, true: Any, seed: Any) -> Any:
        def energy(critic: Any, x: Any) -> Any:
            return apply(critic, x)[..., 0] + 0.5 * (x**2).sum(-1)

        def langevin(x: Any, key: Any) -> Any:
            slope = jax.grad(lambda x: energy(critic, x).sum())(x)
            return x - 0.05 * slope + 0.1**0.5 * jax.random.normal(key, x.shape), None

        keys = jax.random.split(jax.random.key(seed), 21)
        start = jax.random.normal(keys[0], true.shape)
        fake, _ = jax.lax.scan(langevin, start, keys[1:])

        def loss(critic: Any) -> Any:
            return energy(critic, true).mean() - energy(critic, fake).mean()

        value, slope = jax.value_and_grad(loss)(critic)
        return update(critic, slope), value, fake

    return run


ROWS = (
    Workload("diffusion, sampling", denoiser, diffusion_sampling, (faster(1),)),
    Workload("diffusion, training", denoiser, score_matching, (faster(1),)),
    Workload("RealNVP", couplings, real_nvp, (faster(1),)),
    Workload("continuous flow", couplings, continuous_flow, (faster(1),)),
    Workload("adversarial steps", adversaries, gan, (faster(1),)),
    Workload("variational autoencoder", pictures, autoencoder, (faster(1),)),
    Workload("energy-based model", adversaries, energy_model, (faster(1),)),
)
