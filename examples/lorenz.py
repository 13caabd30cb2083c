"""Lorenz' equations: Runge and Kutta's steps under ``scan``, trajectories under ``vmap``.

    python examples/lorenz.py [--time 30] [--trajectories 16] [--rounds 500]

1. The order of the method: halving the step divides the error by 2⁴.
2. Sensitivity: the Jacobian of the flow by the initial values is ``jacfwd`` of the whole
   integration.  Its determinant is known (Liouville): the volume shrinks as exp(-(σ + 1 + β) t).
3. Chaos: Lyapunov's exponents, the rates at which the axes of a small ball grow, from ``jvp`` of
   a step and a QR factorisation (Benettin et al. 1980).  They are about 0.906, 0 and -14.572
   (Sprott 2003), and their sum is exactly -(σ + 1 + β).

All numbers are float64.  Writes ``lorenz.png``.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import functrax
import functrax.numpy as jnp
from functrax import lax, random

SIGMA, RHO, BETA = 10.0, 28.0, 8 / 3
SHRINKING = -(SIGMA + 1 + BETA)  # the divergence of the field
START = (1.0, 1.0, 20.0)


def field(state):
    """The velocity (3,) at a state (3,)."""
    x, y, z = state
    return jnp.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z])


def rk4(state, h):
    """One step of the classical Runge-Kutta method."""
    a = field(state)
    b = field(state + 0.5 * h * a)
    c = field(state + 0.5 * h * b)
    d = field(state + h * c)
    return state + h / 6 * (a + 2 * (b + c) + d)


@functools.partial(functrax.jit, static_argnums=(2,))
def trajectory(state, h, steps):
    """The states after each step: (steps, 3)."""

    def step(state, _):
        state = rk4(state, h)
        return state, state

    return lax.scan(step, state, length=steps)[1]


@functools.partial(functrax.jit, static_argnums=(1, 2))
def flow(state, time, steps):
    """The state at the end."""
    return lax.fori_loop(0, steps, lambda _, state: rk4(state, time / steps), state)


@functools.partial(functrax.jit, static_argnums=(1, 2))
def sensitivity(state, time, steps):
    """The Jacobian (3, 3) of the flow by the initial state."""
    return functrax.jacfwd(lambda state: flow(state, time, steps))(state)


@functools.partial(functrax.jit, static_argnums=(1, 2, 3))
def lyapunov_exponents(state, rounds, steps=10, h=0.005):
    """The three exponents along one trajectory.

    Each round pushes an orthonormal frame along the flow; the diagonal of R says how much its
    axes have grown, and Q is the next frame.  A fifth of the rounds only turns the frame.
    """

    def pushed(state, frame):
        move = functools.partial(flow, time=steps * h, steps=steps)
        state, columns = functrax.vmap(
            lambda v: functrax.jvp(move, (state,), (v,)), in_axes=1, out_axes=(None, 1)
        )(frame)
        return state, columns

    def one_round(carry, _):
        state, frame = pushed(*carry)
        frame, r = jnp.linalg.qr(frame)
        return (state, frame), jnp.log(jnp.abs(jnp.diag(r)))

    turned, _ = lax.scan(one_round, (state, jnp.eye(3)), length=rounds // 5)
    _, growth = lax.scan(one_round, turned, length=rounds)
    return jnp.sum(growth, axis=0) / (rounds * steps * h)


# ---- the tables ---------------------------------------------------------------------------------


def order_of_the_method(time=0.5):
    """Rows (steps, error); the truth is a much finer integration."""
    state, steps = jnp.array(START), (200, 400, 800, 1600)
    truth = flow(state, time, 6400)
    return [(n, float(jnp.max(jnp.abs(flow(state, time, n) - truth)))) for n in steps]


def central_differences(state, time, steps, size=1e-6):
    """The Jacobian of the flow from neighbours on either side, all under one ``vmap``."""
    end = functrax.vmap(lambda s: flow(s, time, steps))
    shifts = size * jnp.eye(3)
    return ((end(state + shifts) - end(state - shifts)) / (2 * size)).T


def on_the_attractor(key, n):
    """Different states (n, 3) that have forgotten how they began."""
    starts = jnp.array(START) + random.normal(key, (n, 3))
    return functrax.vmap(lambda s: flow(s, 20.0, 2000))(starts)


def plot(path, time, count):
    """The attractor, and neighbours of one trajectory drifting apart."""
    h, steps = 0.01, int(time / 0.01)
    start = flow(jnp.array(START), 20.0, 2000)
    near = start + 1e-8 * random.normal(random.key(1), (count, 3))
    middle = np.asarray(trajectory(start, h, steps))
    paths = functrax.vmap(lambda s: trajectory(s, h, steps))(near)
    distance = np.linalg.norm(np.asarray(paths) - middle, axis=-1)

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    axes = figure.add_subplot(1, 2, 1)
    plane = middle[:, [0, 2]]
    pieces = LineCollection(np.stack([plane[:-1], plane[1:]], axis=1), linewidths=0.8)
    pieces.set_array(np.arange(steps - 1))
    axes.add_collection(pieces)
    axes.autoscale_view()
    axes.set(title="One trajectory, coloured by time", xlabel="x", ylabel="z")
    axes = figure.add_subplot(1, 2, 2)
    times = h * np.arange(1, steps + 1)
    axes.semilogy(times, distance.T, color="tab:blue", alpha=0.25, linewidth=0.7)
    axes.semilogy(times, np.exp(np.log(distance).mean(axis=0)), color="tab:blue", label="mean")
    line = 1e-8 * np.exp(0.906 * times)
    axes.semilogy(times[line < 20], line[line < 20], "k--", label=r"$10^{-8}\,e^{0.906\,t}$")
    axes.set(title=f"Distance of {count} neighbours from it", xlabel="time")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=120)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Lorenz' equations with functrax.")
    parser.add_argument("--time", type=float, default=30.0, help="of the picture")
    parser.add_argument("--trajectories", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=500, help="of a time of 0.05 each")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with functrax.enable_x64(True):
        rows = order_of_the_method()
        print("steps      error  ratio (2⁴ = 16)")
        for (n, error), (_, before) in zip(rows, [(0, np.nan), *rows]):
            print(f"{n:5}  {error:9.2e}  {before / error:5.1f}")

        state = jnp.array(START)
        J = sensitivity(state, 1.0, 400)
        differences = central_differences(state, 1.0, 400)
        away = float(jnp.max(jnp.abs(J - differences)) / jnp.max(jnp.abs(J)))
        print(f"the flow's Jacobian after a time of 1: {away:.0e} from central differences")
        volume = float(jnp.linalg.det(J))
        print(f"its determinant: {volume:.6e}, exact {np.exp(SHRINKING):.6e}")

        starts = on_the_attractor(random.key(0), options.trajectories)
        found = functrax.vmap(lambda s: lyapunov_exponents(s, options.rounds))(starts)
        mean, scatter = np.mean(found, axis=0), np.std(found, axis=0)
        scatter /= np.sqrt(max(1, options.trajectories - 1))
        time = 0.05 * options.rounds
        print(f"Lyapunov's exponents, {options.trajectories} trajectories of a time of {time:.0f}")
        for value, error, known in zip(mean, scatter, (0.906, 0.0, -14.572)):
            print(f"{value:10.3f} ± {error:.3f}, known {known}")
        print(f"their sum: {mean.sum():.6f}, exact {SHRINKING:.6f}")
        plot(options.out / "lorenz.png", options.time, options.trajectories)


if __name__ == "__main__":
    main()
