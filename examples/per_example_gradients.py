"""The gradient of every example of a batch: ``vmap`` of ``grad``, and three uses of it.

    python examples/per_example_gradients.py [--examples 256] [--steps 300] [--seed 0]

``grad`` of a mean loss gives one gradient; ``vmap(grad(loss), in_axes=(None, 0, 0))`` gives one for
each example, all in one program, with no loop and no change to the model.

1. They equal a Python loop's, and for logistic regression the closed form (σ(w·x) - y) x.
2. Their lengths find the mislabelled examples: the model is most surprised by these.
3. Private training (DP-SGD, Abadi et al. 2016): each gradient is cut to a length, then noise is
   added, so that no single example is felt much.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import nn, random

FEATURES = 20
FLIPPED = 0.04  # of the labels
CLIP = 0.5  # the longest gradient that DP-SGD lets one example have
NOISE = 0.5  # of DP-SGD, in units of CLIP
RATE = 1.0


def logit(params, x):
    return jnp.dot(params["w"], x) + params["b"]


def loss(params, x, y):
    """Cross-entropy of one example: x is (features,), y is 0 or 1."""
    z = logit(params, x)
    return nn.softplus(z) - y * z


def mean_loss(params, xs, ys):
    return jnp.mean(functrax.vmap(loss, in_axes=(None, 0, 0))(params, xs, ys))


per_example_gradients = functrax.jit(functrax.vmap(functrax.grad(loss), in_axes=(None, 0, 0)))


def looped_gradients(params, xs, ys):
    """The same, an example at a time."""
    gradient = functrax.jit(functrax.grad(loss))
    gradients = [gradient(params, x, y) for x, y in zip(xs, ys)]
    return functrax.tree.map(lambda *leaves: jnp.stack(leaves), *gradients)


def closed_form(params, xs, ys):
    """(σ(w·x + b) - y) x for w, and the bracket for b; plain NumPy."""
    z = np.asarray(xs) @ np.asarray(params["w"]) + np.asarray(params["b"])
    residuals = 1 / (1 + np.exp(-z)) - np.asarray(ys)
    return {"w": residuals[:, None] * np.asarray(xs), "b": residuals}


def lengths(gradients):
    """The norm of each example's gradient, over all of the parameters."""
    squares = functrax.tree.map(lambda g: jnp.sum(g.reshape(len(g), -1) ** 2, axis=1), gradients)
    return jnp.sqrt(sum(functrax.tree.leaves(squares)))


@functrax.jit
def step(params, xs, ys):
    gradients = functrax.grad(mean_loss)(params, xs, ys)
    return functrax.tree.map(lambda p, g: p - RATE * g, params, gradients)


@functrax.jit
def private_step(params, xs, ys, key):
    """A step along the mean of clipped gradients, plus noise of their largest length."""
    gradients = per_example_gradients(params, xs, ys)
    scales = jnp.minimum(1.0, CLIP / lengths(gradients))
    keys = {name: random.fold_in(key, i) for i, name in enumerate(params)}

    def update(p, g, k):
        clipped = jnp.tensordot(scales, g, axes=1)
        return p - RATE * (clipped + NOISE * CLIP * random.normal(k, p.shape)) / len(xs)

    return functrax.tree.map(update, params, gradients, keys)


def data(key, n):
    """Points and noisy labels of a plane; also which labels were flipped."""
    x_key, w_key, flip_key = random.split(key, 3)
    xs = random.normal(x_key, (n, FEATURES))
    true = random.normal(w_key, (FEATURES,))
    flipped = random.bernoulli(flip_key, FLIPPED, (n,))
    return xs, ((xs @ true > 0) ^ flipped).astype(jnp.float32), flipped


def initial():
    return {"w": jnp.zeros(FEATURES), "b": jnp.zeros(())}


def train(xs, ys, steps, key=None):
    """Parameters after gradient descent; private if a key is given."""
    params = initial()
    for i in range(steps):
        if key is None:
            params = step(params, xs, ys)
        else:
            params = private_step(params, xs, ys, random.fold_in(key, i))
    return params


def accuracy(params, xs, ys):
    guesses = functrax.vmap(logit, in_axes=(None, 0))(params, xs) > 0
    return float(jnp.mean(guesses == (ys > 0.5)))


def seconds(function, *args):
    functrax.block_until_ready(function(*args))  # traces
    begin = time.perf_counter()
    functrax.block_until_ready(function(*args))
    return time.perf_counter() - begin


def largest_difference(a, b):
    differences = functrax.tree.map(lambda x, y: float(jnp.max(jnp.abs(x - y))), a, b)
    return max(functrax.tree.leaves(differences))


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Gradients of single examples with functrax.")
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    data_key, private_key = random.split(random.key(options.seed))
    xs, ys, flipped = data(data_key, options.examples)

    params = train(xs, ys, options.steps)
    point = params, xs, ys
    gradients = per_example_gradients(*point)
    looped, exact = looped_gradients(*point), closed_form(*point)
    print(f"{options.examples} gradients in one program: w {gradients['w'].shape}")
    print(f"  largest difference from a loop         {largest_difference(gradients, looped):.1e}")
    print(f"  largest difference from (σ(w·x) - y)x  {largest_difference(gradients, exact):.1e}")
    loop_time, one_time = (seconds(f, *point) for f in (looped_gradients, per_example_gradients))
    print(f"  {1e3 * loop_time:.1f} ms in a loop, {1e3 * one_time:.2f} ms under vmap")

    count = int(flipped.sum())
    suspects = np.argsort(-np.asarray(lengths(gradients)))[:count]
    hits = int(np.asarray(flipped)[suspects].sum())
    print(f"the {count} longest gradients hold {hits} of the {count} flipped labels")

    clean = ((ys > 0.5) ^ flipped).astype(jnp.float32)
    private = train(xs, ys, options.steps, private_key)
    print("accuracy against the true labels")
    print(f"  gradient descent            {accuracy(params, xs, clean):.1%}")
    print(f"  clipped and noisy (DP-SGD)  {accuracy(private, xs, clean):.1%}")


if __name__ == "__main__":
    main()
