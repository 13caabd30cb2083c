"""A generative network trained against a critic whose gradient is itself in the loss (WGAN-GP).

    python examples/wgan_gp.py [--iterations 5000] [--seed 0] [--out examples/output] [--quick]
        [--device cuda]

The critic's loss holds the norm of the critic's gradient by its input (Gulrajani et al. 2017), so
training it means ``grad`` inside of ``grad``, with ``vmap`` between (one gradient per image) and
``jit`` around.  Sizes and constants are those of the PyTorch-GAN collection: a generator
100-128-256-512-1024-784 and a critic 784-512-256-1.  The images are scikit-learn's digits, enlarged
from 8×8 to 28×28 pixels in [-1, 1].

One iteration is one critic step; every fifth has a generator step too.  Writes
``wgan_gp_samples.png`` and ``wgan_gp_curves.png``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import tqdm

import functrax
import functrax.numpy as jnp
from functrax import nn, random

GENERATOR = (100, 128, 256, 512, 1024, 784)
CRITIC = (784, 512, 256, 1)
BATCH = 64
CRITIC_STEPS = 5  # for each step of the generator
PENALTY = 10.0
SHOWN = 64
BACKENDS = {"cpu": "llvm", "cuda": "cuda"}


# ---- the two networks ---------------------------------------------------------------------------


def init_linear(key, n_in, n_out):
    """Weights and biases uniform in ±1/√n_in."""
    bound = n_in**-0.5
    w_key, b_key = random.split(key)
    return {
        "w": random.uniform(w_key, (n_in, n_out), minval=-bound, maxval=bound),
        "b": random.uniform(b_key, (n_out,), minval=-bound, maxval=bound),
    }


def init_critic(key, sizes=CRITIC):
    keys = random.split(key, len(sizes) - 1)
    return [init_linear(k, m, n) for k, m, n in zip(keys, sizes, sizes[1:])]


def init_generator(key, sizes=GENERATOR):
    """Linear layers; all but the first and the last also have the gains and shifts of a norm."""
    layers = init_critic(key, sizes)
    for layer, n in zip(layers[1:-1], sizes[2:-1]):
        layer.update(gain=jnp.ones(n), shift=jnp.zeros(n))
    return layers


def linear(layer, x):
    return x @ layer["w"] + layer["b"]


def batch_norm(layer, x, eps=0.8):
    """Each feature to mean 0 and variance 1 over the batch (almost: eps is large), then scaled."""
    mean = jnp.mean(x, axis=0)
    variance = jnp.mean((x - mean) ** 2, axis=0)
    return (x - mean) / jnp.sqrt(variance + eps) * layer["gain"] + layer["shift"]


def generator(params, z):
    """(n, 100) latent vectors -> (n, 784) images in [-1, 1]."""
    *hidden, last = params
    x = z
    for layer in hidden:
        x = linear(layer, x)
        x = batch_norm(layer, x) if "gain" in layer else x
        x = nn.leaky_relu(x, 0.2)
    return jnp.tanh(linear(last, x))


def critic(params, x):
    """(..., 784) images -> (...) scores; high means real."""
    *hidden, last = params
    for layer in hidden:
        x = nn.leaky_relu(linear(layer, x), 0.2)
    return linear(last, x)[..., 0]


# ---- the losses ---------------------------------------------------------------------------------


def gradient_penalty(params, images):
    """How far the critic's slope is from 1: mean of (‖∇ₓ critic(x)‖₂ - 1)² over the images."""
    slopes = functrax.vmap(functrax.grad(critic, argnums=1), in_axes=(None, 0))(params, images)
    norms = jnp.sqrt(jnp.sum(slopes * slopes, axis=1))
    return jnp.mean((norms - 1) ** 2)


def critic_loss(params, real, fake, alpha):
    """The loss, and as a pair the estimated Wasserstein distance and the penalty.

    The penalty is taken between real and generated images: alpha is (n, 1), uniform in [0, 1].
    """
    distance = jnp.mean(critic(params, real)) - jnp.mean(critic(params, fake))
    penalty = gradient_penalty(params, alpha * real + (1 - alpha) * fake)
    return PENALTY * penalty - distance, (distance, penalty)


def generator_loss(params, critic_params, z):
    return -jnp.mean(critic(critic_params, generator(params, z)))


# ---- training -----------------------------------------------------------------------------------


class Adam(NamedTuple):
    step: functrax.Array
    mean: list
    square: list


def adam_init(params):
    zeros = functrax.tree.map(jnp.zeros_like, params)
    return Adam(jnp.zeros((), jnp.int32), zeros, zeros)


def adam_update(params, grads, state, rate=2e-4, b1=0.5, b2=0.999, eps=1e-8):
    step = state.step + 1
    mean = functrax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, grads)
    square = functrax.tree.map(lambda s, g: b2 * s + (1 - b2) * g * g, state.square, grads)
    rate, scale = rate / (1 - b1**step), 1 / (1 - b2**step)
    params = functrax.tree.map(
        lambda p, m, s: p - rate * m / (jnp.sqrt(scale * s) + eps), params, mean, square
    )
    return params, Adam(step, mean, square)


@functrax.jit
def critic_step(params, state, generator_params, real, key):
    """One step of the critic; also the latent vectors that it used."""
    z_key, alpha_key = random.split(key)
    z = random.normal(z_key, (len(real), generator_params[0]["w"].shape[0]))
    alpha = random.uniform(alpha_key, (len(real), 1))
    fake = generator(generator_params, z)  # outside of grad: the generator is a constant here
    (loss, parts), grads = functrax.value_and_grad(critic_loss, has_aux=True)(
        params, real, fake, alpha
    )
    params, state = adam_update(params, grads, state)
    return params, state, z, jnp.stack([loss, *parts])


@functrax.jit
def generator_step(params, state, critic_params, z):
    grads = functrax.grad(generator_loss)(params, critic_params, z)
    return adam_update(params, grads, state)


def enlarged(images, size=28):
    """(n, k, k) images -> (n, size, size), by bilinear interpolation between pixels' centres."""
    k = images.shape[1]
    at = np.clip((np.arange(size) + 0.5) * k / size - 0.5, 0, k - 1)
    weights = np.maximum(1 - np.abs(at[:, None] - np.arange(k)), 0)
    return weights @ images @ weights.T


def load():
    images = enlarged(load_digits().images / 8 - 1)
    return images.reshape(len(images), -1).astype(np.float32)


def narrowed(sizes, factor):
    """Sizes of layers whose hidden ones are divided by a factor."""
    return (sizes[0], *[size // factor for size in sizes[1:-1]], sizes[-1])


def batches(key, images, size=BATCH):
    """Batches without end: each pass in a new order, and its last batch smaller."""
    while True:
        key, subkey = random.split(key)
        order = np.asarray(random.permutation(subkey, len(images)))
        yield from (images[order[k : k + size]] for k in range(0, len(order), size))


def train(images, iterations, key, batch=BATCH, narrow=1):
    """The generator before and after, and per iteration (loss, distance, penalty)."""
    g_key, c_key, data_key, key = random.split(key, 4)
    initial = g_params = init_generator(g_key, narrowed(GENERATOR, narrow))
    c_params = init_critic(c_key, narrowed(CRITIC, narrow))
    g_state, c_state = adam_init(g_params), adam_init(c_params)
    history = []
    bar = tqdm(
        zip(range(iterations), batches(data_key, images, batch)), total=iterations, unit="it"
    )
    for i, real in bar:
        c_params, c_state, z, metrics = critic_step(
            c_params, c_state, g_params, real, random.fold_in(key, i)
        )
        if i % CRITIC_STEPS == 0:
            g_params, g_state = generator_step(g_params, g_state, c_params, z)
        history.append(np.asarray(metrics))
        if i % 10 == 0:
            bar.set_postfix(loss=f"{history[-1][0]:.2f}", distance=f"{history[-1][1]:.2f}")
    return initial, g_params, np.array(history)


def count(params):
    return sum(leaf.size for leaf in functrax.tree.leaves(params))


# ---- pictures -----------------------------------------------------------------------------------


def tiled(images, columns=8):
    """(n, 784) images side by side."""
    rows = len(images) // columns
    grid = np.asarray(images)[: rows * columns].reshape(rows, columns, 28, 28)
    return np.pad(grid, ((0, 0), (0, 0), (1, 1), (1, 1))).swapaxes(1, 2)


def plot_samples(panels, path):
    figure = Figure(figsize=(4.2 * len(panels), 4.5), layout="constrained")
    for axes, (title, images) in zip(figure.subplots(1, len(panels)), panels.items()):
        tiles = tiled(images)
        axes.imshow(tiles.reshape(tiles.shape[0] * 30, -1), cmap="gray", vmin=-1, vmax=1)
        axes.set_title(title)
        axes.axis("off")
    figure.savefig(path, dpi=110)


def smooth(values, window):
    """Running means: the curves' trend."""
    sums = np.cumsum(np.insert(values, 0, 0.0))
    return (sums[window:] - sums[:-window]) / window


def plot_curves(history, path):
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    window = max(1, len(history) // 40)
    names = "critic loss", "Wasserstein distance (estimate)", "gradient penalty"
    colours = "tab:blue", "tab:green", "tab:red"
    for axes, name, colour, values in zip(figure.subplots(1, 3), names, colours, history.T):
        axes.plot(values, color=colour, alpha=0.25, linewidth=0.8)
        trend = smooth(values, window)
        axes.plot(np.arange(len(trend)) + (window - 1) / 2, trend, color=colour)
        axes.set(title=name, xlabel="iteration")
        low, high = np.percentile(values, (1, 99))
        axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        axes.grid(alpha=0.3)
        axes.margins(x=0.01)
    figure.savefig(path, dpi=110)


# ---- the program --------------------------------------------------------------------------------


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train a WGAN-GP on digits with functrax.")
    parser.add_argument("--iterations", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--quick", action="store_true", help="20 iterations, to see that it runs")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--narrow", type=int, default=1, help="what hidden layers are divided by")
    parser.add_argument("--device", choices=BACKENDS, help="what trains; see docs/gpu.md")
    options = parser.parse_args(arguments)
    iterations = 20 if options.quick else options.iterations
    options.out.mkdir(parents=True, exist_ok=True)
    if options.device:
        functrax.config.update("backend", BACKENDS[options.device])

    images = load()
    train_key, z_key = random.split(random.key(options.seed))
    begin = time.perf_counter()
    initial, trained, history = train(images, iterations, train_key, options.batch, options.narrow)
    seconds = time.perf_counter() - begin

    z = random.normal(z_key, (SHOWN, GENERATOR[0]))
    panels = {
        "real digits": images[:SHOWN],
        "generated before training": generator(initial, z),
        f"generated after {iterations} iterations": generator(trained, z),
    }
    plot_samples(panels, options.out / "wgan_gp_samples.png")
    plot_curves(history, options.out / "wgan_gp_curves.png")
    last = history[-max(1, iterations // 10) :].mean(axis=0)
    print(f"generator: {count(initial):,} parameters")
    print(f"{iterations} iterations, {iterations / seconds:.2f} iterations/s (tracing included)")
    for name, before, after in zip(("critic loss", "distance", "penalty"), history[0], last):
        print(f"{name}: {before:.4f} -> {after:.4f}")


if __name__ == "__main__":
    main()
