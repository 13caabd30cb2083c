"""Gaussian process regression: a Cholesky factor, the marginal likelihood, and its derivatives.

    python examples/gaussian_process.py [--points 60] [--seed 0] [--out examples/output]

A function is drawn from a Gaussian process of known amplitude, length scale and noise, and seen at
a few noisy points.  The logarithm of the marginal likelihood (Rasmussen and Williams 2006,
equation 2.30) is written with ``cholesky`` and ``solve_triangular``; ``grad`` and ``hessian``
differentiate through both, so Newton's method finds the hyperparameters, and the inverse Hessian
says how well they are known.  Writes ``gaussian_process.png``.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.scipy.linalg import cho_solve, cholesky, solve_triangular

NAMES = "amplitude", "length", "noise"
TRUE = {"amplitude": 1.5, "length": 0.7, "noise": 0.2}
GUESS = {"amplitude": 1.0, "length": 0.3, "noise": 0.5}

# ---- the model: hyperparameters are given by their logarithms, an array (3,) ---------------------


def kernel(theta, x, y):
    """Covariances (m, n) of the function's values at x (m,) and y (n,)."""
    amplitude, length, _ = jnp.exp(theta)
    distance = (x[:, None] - y[None, :]) / length
    return amplitude**2 * jnp.exp(-0.5 * distance**2)


def factor(theta, x):
    """The lower Cholesky factor of the covariance of the noisy observations."""
    noise = jnp.exp(theta[2])
    return cholesky(kernel(theta, x, x) + noise**2 * jnp.eye(len(x)), lower=True)


def log_likelihood(theta, x, y):
    """log p(y | x, theta): how well the data fit, less what a flexible model must pay."""
    L = factor(theta, x)
    whitened = solve_triangular(L, y, lower=True)
    log_determinant = 2 * jnp.sum(jnp.log(jnp.diag(L)))
    return -0.5 * (whitened @ whitened + log_determinant + len(x) * math.log(2 * math.pi))


def posterior(theta, x, y, at):
    """Mean and standard deviation of the function at new places."""
    L = factor(theta, x)
    cross = kernel(theta, x, at)
    mean = cross.T @ cho_solve((L, True), y)
    explained = solve_triangular(L, cross, lower=True)
    variance = jnp.exp(2 * theta[0]) - jnp.sum(explained**2, axis=0)
    return mean, jnp.sqrt(jnp.maximum(variance, 0.0))


# ---- fitting ------------------------------------------------------------------------------------


def logarithms(parameters):
    return jnp.log(jnp.array([parameters[name] for name in NAMES]))


def fit(theta, x, y, limit=50):
    """The most likely hyperparameters by Newton's method, and (likelihood, slope) of each step.

    Far from the maximum the Hessian need not be negative definite: its eigenvalues are then taken
    by magnitude, so that each step goes uphill, and steps that overshoot are halved.
    """
    value = functrax.jit(log_likelihood)

    @functrax.jit
    def derivatives(theta):
        slope = functrax.grad(log_likelihood)(theta, x, y)
        values, vectors = jnp.linalg.eigh(functrax.hessian(log_likelihood)(theta, x, y))
        direction = vectors @ ((vectors.T @ slope) / jnp.maximum(jnp.abs(values), 1e-3))
        return slope, direction

    history = []
    for _ in range(limit):
        slope, direction = derivatives(theta)
        reached = float(value(theta, x, y))
        history.append((reached, float(jnp.linalg.norm(slope))))
        if history[-1][1] < 1e-9:
            break
        scale = min(1.0, 1.0 / float(jnp.linalg.norm(direction)))
        while float(value(theta + scale * direction, x, y)) < reached and scale > 1e-6:
            scale /= 2
        theta = theta + scale * direction
    return theta, history


def standard_errors(theta, x, y):
    """Of the logarithms, from the curvature at the maximum."""
    information = -functrax.hessian(log_likelihood)(theta, x, y)
    return jnp.sqrt(jnp.diag(jnp.linalg.inv(information)))


def draw(key, n):
    """Noisy observations (x, y) of a function of the process, with a gap in the middle."""
    x_key, y_key = random.split(key)
    x = random.uniform(x_key, (n,), minval=0.0, maxval=8.0)
    x = jnp.sort(jnp.where(x < 4.0, x * 0.8, x * 0.9 + 1.0))
    return x, factor(logarithms(TRUE), x) @ random.normal(y_key, (n,))


def plot(x, y, theta, path):
    at = jnp.linspace(-1.0, 9.5, 400)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = {"first guess": logarithms(GUESS), "most likely hyperparameters": theta}
    for axes, (title, parameters) in zip(figure.subplots(1, 2, sharey=True), panels.items()):
        mean, deviation = (np.asarray(a) for a in functrax.jit(posterior)(parameters, x, y, at))
        band = mean - 2 * deviation, mean + 2 * deviation
        axes.fill_between(at, *band, alpha=0.25, label="±2 standard deviations")
        axes.plot(at, mean, label="mean of the posterior")
        axes.plot(x, y, "k.", markersize=4, label="observations")
        likelihood = float(log_likelihood(parameters, x, y))
        axes.set(title=f"{title}: log likelihood {likelihood:.1f}", xlabel="x")
        axes.grid(alpha=0.3)
        axes.margins(x=0)
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=120)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Gaussian process regression with functrax.")
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with functrax.enable_x64(True):
        x, y = draw(random.key(options.seed), options.points)
        theta, history = fit(logarithms(GUESS), x, y)
        print("step  log likelihood      slope")
        for i, (likelihood, slope) in enumerate(history):
            print(f"{i:4}  {likelihood:14.8f}  {slope:9.1e}")
        errors = standard_errors(theta, x, y)
        for name, log, error in zip(NAMES, theta, errors):
            true, found = TRUE[name], math.exp(log)
            print(f"{name:10} {found:.3f} ± {found * error:.3f}, drawn with {true}")
        plot(x, y, theta, options.out / "gaussian_process.png")


if __name__ == "__main__":
    main()
