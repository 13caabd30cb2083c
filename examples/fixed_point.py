"""Derivatives of what a loop converges to, without those of the loop: ``lax.custom_root``.

    python examples/fixed_point.py [--size 30] [--seed 0] [--out examples/output]

If f(x, θ) = 0 defines x, then ∂x/∂θ = -(∂f/∂x)⁻¹ ∂f/∂θ (the implicit function theorem): it needs
the answer, not how it was found.  ``custom_root`` takes f, a solver of f = 0, and a solver of
linear equations, and gives a function that has derivatives of every order, forward and reverse.

1. Kepler's equation E - e sin E = M, whose derivatives have closed forms.
2. A layer that is a fixed point, z = tanh(Wz + x) (Bai, Kolter and Koltun 2019): its gradient, and
   that of an unrolled loop, which comes nearer with each round and pays memory for all.
3. A planet's orbit, fitted to the velocities of its star: Gauss and Newton's method, through
   Kepler's equation at each of the observed times.

All numbers are float64.  Writes ``fixed_point.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import functrax
import functrax.numpy as jnp
from functrax import lax, random

# ---- Kepler's equation --------------------------------------------------------------------------


def newton(f, x):
    """The root of a function of one number, from a first guess."""

    def unfinished(state):
        _, step, count = state
        return (jnp.abs(step) > 1e-13) & (count < 50)

    def improve(state):
        x, _, count = state
        value, slope = functrax.value_and_grad(f)(x)
        return x - value / slope, value / slope, count + 1

    return lax.while_loop(unfinished, improve, (x, jnp.ones_like(x), 0))[0]


def eccentric_anomaly(M, e):
    """E with E - e sin E = M, for 0 <= e < 1."""
    return lax.custom_root(
        lambda E: E - e * jnp.sin(E) - M,
        M + e * jnp.sin(M),
        newton,
        lambda linear, y: y / linear(1.0),
    )


def kepler_table(M, e):
    """Rows (what, found, exact); with s = sin E and q = 1 - e cos E."""
    E = float(eccentric_anomaly(M, e))
    s, c = np.sin(E), np.cos(E)
    q = 1 - e * c
    by_M, by_e = functrax.grad(eccentric_anomaly, (0, 1))(M, e)
    second = functrax.grad(functrax.grad(eccentric_anomaly))(M, e)
    mixed = functrax.jacfwd(functrax.grad(eccentric_anomaly), 1)(M, e)
    yield "E - e sin E", E - e * s, M
    yield "∂E/∂M", by_M, 1 / q
    yield "∂E/∂e", by_e, s / q
    yield "∂²E/∂M²", second, -e * s / q**3
    yield "∂²E/∂M∂e", mixed, (c - e) / q**3


# ---- a layer that is a fixed point --------------------------------------------------------------


def dense_solve(linear, y):
    """x with linear(x) = y, by its matrix."""
    return jnp.linalg.solve(functrax.jacobian(linear)(y), y)


def update(z, W, x):
    return jnp.tanh(W @ z + x)


def layer(W, x):
    """z = tanh(Wz + x); the loop stops when z does."""

    def solve(f, z):
        def unfinished(state):
            _, change, count = state
            return (change > 1e-14) & (count < 500)

        def improve(state):
            z, _, count = state
            difference = f(z)
            return z - difference, jnp.max(jnp.abs(difference)), count + 1

        return lax.while_loop(unfinished, improve, (z, jnp.array(1.0), 0))[0]

    return lax.custom_root(lambda z: z - update(z, W, x), jnp.zeros_like(x), solve, dense_solve)


def unrolled_layer(W, x, rounds):
    z = jnp.zeros_like(x)
    for _ in range(rounds):
        z = update(z, W, x)
    return z


def gradient_of(layer):
    """Of a loss of the layer's output, by the weights."""
    return functrax.jit(functrax.grad(lambda W, x: jnp.sum(jnp.sin(layer(W, x)))))


def random_layer(key, n):
    """Weights whose largest singular value is 0.8, so that the rounds converge; and an input."""
    W_key, x_key = random.split(key)
    W = random.normal(W_key, (n, n))
    return 0.8 * W / jnp.linalg.norm(W, 2), random.normal(x_key, (n,))


def convergence(key, n, counts=(5, 10, 20, 40, 80)):
    """Rows (rounds, relative distance of the unrolled loop's gradient from the implicit one)."""
    W, x = random_layer(key, n)
    implicit = gradient_of(layer)(W, x)
    for rounds in counts:
        unrolled = gradient_of(lambda W, x, n=rounds: unrolled_layer(W, x, n))(W, x)
        yield rounds, float(jnp.linalg.norm(unrolled - implicit) / jnp.linalg.norm(implicit))


# ---- an orbit -----------------------------------------------------------------------------------

NAMES = "period", "eccentricity", "phase", "direction", "speed"
TRUE = (4.2, 0.55, 1.0, 0.8, 30.0)  # days, 1, radians, radians, m/s
FIRST = (4.18, 0.3, 1.2, 0.5, 20.0)
NOISE = 1.0  # m/s


def velocity(orbit, t):
    """The star's velocity along the line of sight at one time."""
    period, e, phase, direction, speed = orbit
    E = eccentric_anomaly(jnp.mod(2 * jnp.pi * t / period + phase, 2 * jnp.pi), e)
    true_anomaly = 2 * jnp.arctan2(
        jnp.sqrt(1 + e) * jnp.sin(E / 2), jnp.sqrt(1 - e) * jnp.cos(E / 2)
    )
    return speed * (jnp.cos(true_anomaly + direction) + e * jnp.cos(direction))


velocities = functrax.jit(functrax.vmap(velocity, in_axes=(None, 0)))


def observations(key, n=60):
    """Times of 40 days, and noisy velocities."""
    t_key, noise_key = random.split(key)
    t = jnp.sort(random.uniform(t_key, (n,), minval=0.0, maxval=40.0))
    return t, velocities(jnp.array(TRUE), t) + NOISE * random.normal(noise_key, (n,))


def fit(orbit, t, v, steps=30):
    """The orbit of least squares, its standard errors, and the residuals' history."""

    @functrax.jit
    def step(orbit, damping):
        r = velocities(orbit, t) - v
        J = functrax.jacrev(velocities)(orbit, t)
        normal = J.T @ J
        move = jnp.linalg.solve(normal + damping * jnp.diag(jnp.diag(normal)), J.T @ r)
        return orbit - move, jnp.sqrt(jnp.mean(r * r)), jnp.linalg.inv(normal)

    history, damping = [], 1.0
    for _ in range(steps):
        candidate, rms, covariance = step(orbit, damping)
        history.append(float(rms))
        worse = float(step(candidate, damping)[1]) >= history[-1]
        orbit, damping = (orbit, damping * 4) if worse else (candidate, damping / 4)
    return orbit, NOISE * jnp.sqrt(jnp.diag(covariance)), history


def plot(t, v, orbit, rows, path):
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    period = float(orbit[0])
    at = jnp.linspace(0.0, period, 300)
    left.plot(np.mod(t, period), v, "k.", label="observed")
    left.plot(at, velocities(jnp.array(FIRST), at), "--", color="gray", label="first guess")
    left.plot(at, velocities(orbit, at), color="tab:blue", label="fitted")
    left.set(title="A star's velocity over one orbit", xlabel="days", ylabel="m/s")
    left.legend()
    right.semilogy(*zip(*rows), "o-", color="tab:red")
    right.set(title="Gradient of the unrolled loop", xlabel="rounds", ylabel="relative error")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Implicit differentiation with functrax.")
    parser.add_argument("--size", type=int, default=30, help="of the layer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    layer_key, orbit_key = random.split(random.key(options.seed))
    with functrax.enable_x64(True):
        print("Kepler's equation at M = 0.7, e = 0.6")
        for what, found, exact in kepler_table(0.7, 0.6):
            print(f"  {what:12} {float(found):12.8f}, exact {exact:12.8f}")
        print("the unrolled loop's gradient against the implicit one")
        rows = list(convergence(layer_key, options.size))
        for rounds, error in rows:
            print(f"  {rounds:3} rounds: {error:.1e}")
        t, v = observations(orbit_key)
        orbit, errors, history = fit(jnp.array(FIRST), t, v)
        print(f"an orbit from {len(t)} velocities with errors of {NOISE} m/s")
        print(f"residual: {history[0]:.4f} -> {history[-1]:.4f} m/s")
        for name, found, error, true in zip(NAMES, orbit, errors, TRUE):
            print(f"  {name:12} {float(found):8.4f} ± {float(error):.4f}, true {true}")
        plot(t, v, orbit, rows, options.out / "fixed_point.png")


if __name__ == "__main__":
    main()
