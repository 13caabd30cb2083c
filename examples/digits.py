"""Classify handwritten digits with a network, its gradient, and Adam.

    python examples/digits.py [--epochs 40] [--seed 0] [--out examples/output] [--device cuda]

A network with two hidden layers, 64-128-64-10, learns scikit-learn's 1797 digits of 8×8 pixels.
Parameters are a list of dictionaries; ``value_and_grad`` differentiates by them, ``tree.map``
updates them; ``jit`` traces the whole step (noise, loss, gradients, Adam) once per batch size.

Writes ``digits_loss.png`` and ``digits_predictions.png``.  The exit status is 1 if fewer than 97 %
of the test digits are recognised.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import functrax
import functrax.numpy as jnp
from functrax import nn, random

LAYERS = (64, 128, 64, 10)
BATCH = 64
RATE = 3e-3  # Adam's, of the first epoch; it falls linearly
NOISE = 0.2  # added to the pixels of each step's images, so that the network learns no single one
REQUIRED_ACCURACY = 0.97
BACKENDS = {"cpu": "llvm", "cuda": "cuda"}


# ---- the model ----------------------------------------------------------------------------------


def init(key, sizes=LAYERS):
    """Weights with the variance that keeps the signal's scale (He et al. 2015), and zero biases."""
    initialise = nn.initializers.he_normal()
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": initialise(k, (n_in, n_out)), "b": jnp.zeros(n_out)}
        for k, n_in, n_out in zip(keys, sizes, sizes[1:])
    ]


def logits(params, images):
    """(n, 64) pixels in [0, 1] -> (n, 10) scores."""
    *hidden, last = params
    x = images
    for layer in hidden:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def loss(params, images, labels):
    """Mean cross-entropy; labels are (n,) integers."""
    scores = nn.log_softmax(logits(params, images))
    return -jnp.mean(jnp.sum(scores * nn.one_hot(labels, 10), axis=1))


@functrax.jit
def accuracy(params, images, labels):
    return jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)


# ---- Adam (Kingma and Ba 2015, algorithm 1) -----------------------------------------------------


class Adam(NamedTuple):
    step: functrax.Array
    mean: list
    square: list


def adam_init(params):
    zeros = functrax.tree.map(jnp.zeros_like, params)
    return Adam(jnp.zeros((), jnp.int32), zeros, zeros)


def adam_update(params, grads, state, rate, b1=0.9, b2=0.999, eps=1e-8):
    step = state.step + 1
    mean = functrax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, grads)
    square = functrax.tree.map(lambda s, g: b2 * s + (1 - b2) * g * g, state.square, grads)
    rate, scale = rate / (1 - b1**step), 1 / (1 - b2**step)
    params = functrax.tree.map(
        lambda p, m, s: p - rate * m / (jnp.sqrt(scale * s) + eps), params, mean, square
    )
    return params, Adam(step, mean, square)


@functrax.jit
def train_step(params, state, images, labels, key, rate):
    noise = random.normal(random.fold_in(key, state.step), images.shape)
    value, grads = functrax.value_and_grad(loss)(params, images + NOISE * noise, labels)
    params, state = adam_update(params, grads, state, rate)
    return params, state, value


# ---- training -----------------------------------------------------------------------------------


class Data(NamedTuple):
    train_images: np.ndarray
    test_images: np.ndarray
    train_labels: np.ndarray
    test_labels: np.ndarray


def load(seed, count=None):
    """The first ``count`` digits, or all, a fifth of them for tests."""
    digits = load_digits()
    images = (digits.data[:count] / 16).astype(np.float32)
    labels = digits.target[:count].astype(np.int32)
    return Data(
        *train_test_split(images, labels, test_size=0.2, random_state=seed, stratify=labels)
    )


def epoch(key, params, state, data, rate):
    """One pass over the training images in a random order; the mean loss of its steps."""
    shuffle_key, noise_key = random.split(key)
    order = np.asarray(random.permutation(shuffle_key, len(data.train_images)))
    losses = []
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        batch = data.train_images[rows], data.train_labels[rows]
        params, state, value = train_step(params, state, *batch, noise_key, rate)
        losses.append(value)
    return params, state, float(np.mean(losses))


def train(data, epochs, key):
    """The trained parameters, and the history: (loss, test accuracy) after each epoch."""
    key, subkey = random.split(key)
    params = init(subkey)
    state = adam_init(params)
    history = []
    bar = tqdm(range(epochs), desc="training", unit="epoch")
    for i in bar:
        key, subkey = random.split(key)
        params, state, value = epoch(subkey, params, state, data, RATE * (1 - i / epochs))
        correct = float(accuracy(params, data.test_images, data.test_labels))
        history.append((value, correct))
        bar.set_postfix(loss=f"{value:.4f}", test_accuracy=f"{correct:.2%}")
    return params, np.array(history)


# ---- pictures -----------------------------------------------------------------------------------


def plot_history(history, path):
    epochs = np.arange(1, len(history) + 1)
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.semilogy(epochs, history[:, 0], color="tab:blue")
    left.set(title="Training loss", xlabel="epoch", ylabel="mean cross-entropy")
    right.plot(epochs, 100 * history[:, 1], color="tab:green")
    right.axhline(100 * REQUIRED_ACCURACY, color="gray", linestyle="--", linewidth=1)
    right.annotate(
        f"required: {REQUIRED_ACCURACY:.0%}",
        (epochs[-1], 100 * REQUIRED_ACCURACY),
        (0, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        color="gray",
    )
    right.set(title=f"Test accuracy (last: {history[-1, 1]:.2%})", xlabel="epoch", ylabel="%")
    right.set_ylim(max(100 * history[:, 1].min() - 2, 0), 100.5)
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
        axes.margins(x=0.01)
    figure.savefig(path, dpi=120)


def plot_predictions(images, labels, guesses, path, rows=6, columns=12):
    """A grid of test digits, the wrong ones first (in red, with the true digit)."""
    order = np.argsort(guesses == labels, kind="stable")[: rows * columns]
    figure = Figure(figsize=(columns * 0.85, rows + 0.6), layout="constrained")
    wrong = int(np.sum(guesses != labels))
    figure.suptitle(f"Test digits and predictions: {wrong} of {len(labels)} are wrong (red)")
    for axes, k in zip(figure.subplots(rows, columns).flat, order):
        right = guesses[k] == labels[k]
        axes.imshow(images[k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(
            f"{guesses[k]}" if right else f"{guesses[k]}, is {labels[k]}",
            fontsize=9,
            pad=3,
            color="black" if right else "red",
        )
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color="lightgray" if right else "red", linewidth=0.8 if right else 2)
    figure.savefig(path, dpi=120)


# ---- the program --------------------------------------------------------------------------------


def describe(data):
    params = init(random.key(0))
    batch = data.train_images[:BATCH], data.train_labels[:BATCH]
    forward = functrax.make_jaxpr(loss)(params, *batch).jaxpr
    backward = functrax.make_jaxpr(functrax.value_and_grad(loss))(params, *batch).jaxpr
    size = sum(leaf.size for leaf in functrax.tree.leaves(params))
    print(f"network {'-'.join(map(str, LAYERS))}: {size:,} parameters")
    print(f"program: loss {len(forward.eqns)} equations, with gradients {len(backward.eqns)}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Train a digit classifier with functrax.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    parser.add_argument("--images", type=int, help="how many of the digits are used: all")
    parser.add_argument("--device", choices=BACKENDS, help="what trains; see docs/gpu.md")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.device:
        functrax.config.update("backend", BACKENDS[options.device])

    data = load(options.seed, options.images)
    describe(data)
    begin = time.perf_counter()
    params, history = train(data, options.epochs, random.key(options.seed))
    seconds = (time.perf_counter() - begin) / options.epochs

    guesses = np.argmax(np.asarray(logits(params, data.test_images)), axis=1)
    plot_history(history, options.out / "digits_loss.png")
    plot_predictions(
        data.test_images, data.test_labels, guesses, options.out / "digits_predictions.png"
    )
    reached = history[-1, 1]
    print(f"loss {history[0, 0]:.4f} -> {history[-1, 0]:.4f}, {seconds:.3f} s per epoch")
    print(f"test accuracy {reached:.2%} (required: {REQUIRED_ACCURACY:.0%})")
    return 0 if reached >= REQUIRED_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
