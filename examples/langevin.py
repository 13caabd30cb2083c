"""Sampling by Langevin's equation: ``grad`` of a log density, ``random`` keys, ``vmap`` of chains.

    python examples/langevin.py [--chains 2000] [--steps 400] [--seed 0] [--out examples/output]

A chain moves uphill on the log density and is shaken: x + h ∇log p(x) + √(2h) noise.  The step h
makes an error (the unadjusted algorithm's); accepting a move with Metropolis' probability takes
the error away (Roberts and Tweedie 1996).

The target is a ring of normal distributions, of unequal weights.  Its moments are known, so the
program prints both samplers' beside them.  On one normal distribution even the unadjusted error is
known: its variance is 1/(1 - h/2) instead of 1.  Writes ``langevin.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import functrax
import functrax.numpy as jnp
from functrax import lax, random
from functrax.scipy.special import logsumexp

STEP = 0.15
RADIUS, WIDTH = 2.0, 0.6  # of the ring, and the standard deviation of each part
WEIGHTS = np.array([5, 1, 2, 3, 2, 1]) / 14
ANGLES = np.arange(6) * (2 * np.pi / 6)
CENTRES = RADIUS * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)


def log_density(point):
    """Of the ring; point is (2,)."""
    squares = jnp.sum((point - CENTRES) ** 2, axis=1) / WIDTH**2
    scale = np.log(WEIGHTS / (2 * np.pi * WIDTH**2)).astype(np.float32)
    return logsumexp(scale - 0.5 * squares)


EXACT = {
    "E x": RADIUS * float(WEIGHTS @ np.cos(ANGLES)),
    "E y": RADIUS * float(WEIGHTS @ np.sin(ANGLES)),
    "E r²": RADIUS**2 + 2 * WIDTH**2,
    "E r⁴": RADIUS**4 + 8 * RADIUS**2 * WIDTH**2 + 8 * WIDTH**4,
}


def moments(points):
    """The same of samples (chains, steps, 2), each with its standard error.

    The points of a chain resemble each other; the chains do not, and so give the errors.
    """
    x, y = np.moveaxis(np.asarray(points, np.float64), -1, 0)
    r2 = x * x + y * y
    means = np.stack([x, y, r2, r2 * r2]).mean(axis=-1)
    errors = means.std(axis=1) / np.sqrt(len(x))
    return {name: (m, e) for name, m, e in zip(EXACT, means.mean(axis=1), errors)}


def proposal(log_p, x, h, key):
    """Where a chain at x goes next."""
    drift = h * functrax.grad(log_p)(x)
    return x + drift + jnp.sqrt(2 * h) * random.normal(key, x.shape)


def log_transition(log_p, x, to, h):
    """The log density, but for a constant, of proposing ``to`` from x."""
    return -jnp.sum((to - x - h * functrax.grad(log_p)(x)) ** 2) / (4 * h)


def unadjusted(log_p, x, h, key):
    return proposal(log_p, x, h, key), jnp.array(True)


def adjusted(log_p, x, h, key):
    """The next point, and whether the move was accepted."""
    move_key, accept_key = random.split(key)
    to = proposal(log_p, x, h, move_key)
    log_ratio = log_p(to) - log_p(x)
    log_ratio += log_transition(log_p, to, x, h) - log_transition(log_p, x, to, h)
    accepted = jnp.log(random.uniform(accept_key)) < log_ratio
    return jnp.where(accepted, to, x), accepted


def chain(move, log_p, x, h, key, steps):
    """The points after each step, (steps, ...), and the share of accepted moves."""

    def step(x, key):
        x, accepted = move(log_p, x, h, key)
        return x, (x, accepted)

    _, (points, accepted) = lax.scan(step, x, random.split(key, steps))
    return points, jnp.mean(accepted)


def sample(move, log_p, starts, h, key, steps):
    """Independent chains from starts (n, ...), each with its own key: points (n, steps, ...)."""
    keys = random.split(key, len(starts))
    run = functrax.vmap(lambda x, key: chain(move, log_p, x, h, key, steps))
    points, accepted = functrax.jit(run)(starts, keys)
    return points, float(jnp.mean(accepted))


def plot(samples, path):
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    edges = np.linspace(-4.2, 4.2, 90)
    middles = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).astype(np.float32)
    exact = np.exp(functrax.vmap(functrax.vmap(log_density))(grid))
    panels = {"exact density": exact}
    for name, points in samples.items():
        x, y = np.asarray(points).reshape(-1, 2).T
        panels[name] = np.histogram2d(x, y, bins=(edges, edges), density=True)[0]
    for axes, (title, density) in zip(figure.subplots(1, 3, sharey=True), panels.items()):
        axes.pcolormesh(edges, edges, density.T, cmap="magma", vmin=0, vmax=float(exact.max()))
        axes.set(title=title, aspect="equal")
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Langevin sampling with functrax.")
    parser.add_argument("--chains", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    keys = random.split(random.key(options.seed), 4)

    def run(move, log_p, shape, h, start_key, key):
        starts = random.normal(start_key, (options.chains, *shape))
        points, accepted = sample(move, log_p, starts, h, key, options.steps)
        return points[:, options.steps // 3 :], accepted  # the first third forgets the start

    samples = {}
    for move, key in ((unadjusted, keys[1]), (adjusted, keys[2])):
        points, accepted = run(move, log_density, (2,), STEP, keys[0], key)
        samples[f"{move.__name__}, step {STEP}"] = points
        print(f"{move.__name__}: {accepted:.0%} of the moves accepted")
        for name, (found, error) in moments(points).items():
            print(f"  {name:4} {found:7.3f} ± {error:.3f}, exact {EXACT[name]:.3f}")

    h = 0.5
    points, _ = run(unadjusted, lambda x: -0.5 * x**2, (), h, keys[0], keys[3])
    print(f"a normal distribution with steps of {h}, unadjusted")
    print(f"  variance {float(jnp.var(points)):.4f}, exact 1/(1 - h/2) = {1 / (1 - h / 2):.4f}")
    plot(samples, options.out / "langevin.png")


if __name__ == "__main__":
    main()
