"""A network that obeys the Korteweg-de Vries equation: third derivatives, trained by least squares.

    python examples/kdv.py [--steps 100] [--seed 0] [--out examples/output]

Waves in shallow water follow u_t + 6 u u_x + u_xxx = 0.  A network u(t, x) is given the wave at
the start and the values at the ends, and for the rest only the equation: its residual at points
inside is part of the loss (Raissi, Perdikaris and Karniadakis 2019).  The wave is two solitons, of
which the higher overtakes the lower; both keep their shapes, but the higher is thrown ahead and
the lower back.  The solution is known, u = 2 ∂²/∂x² log τ (Hirota 1971), and measures the error.

``derivative`` is forward mode, so u_xxx is forward mode three deep; ``vmap(grad)`` over it gives
each residual's gradient by the parameters, the Jacobian that Levenberg and Marquardt's method
takes.  All numbers are float64.  Writes ``kdv.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from tqdm import tqdm

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.flatten_util import ravel_pytree
from functrax.scipy.special import logsumexp

FAST, SLOW = 1.6, 0.9  # wave numbers k: a soliton has speed k² and height k²/2
BEGIN, END, LEFT, RIGHT = -2.0, 2.0, -10.0, 10.0  # the domain: of t, and of x
SIZES = (2, 24, 24, 1)


# ---- the equation -------------------------------------------------------------------------------


def derivative(f, argument):
    """The partial derivative of a function of numbers."""

    def along(*args):
        tangents = tuple(jnp.ones_like(a) * (i == argument) for i, a in enumerate(args))
        return functrax.jvp(f, args, tangents)[1]

    return along


def residual(u, t, x):
    """u_t + 6 u u_x + u_xxx, which is 0 for a solution."""
    u_t, u_x = derivative(u, 0), derivative(u, 1)
    u_xxx = derivative(derivative(u_x, 1), 1)
    return u_t(t, x) + 6 * u(t, x) * u_x(t, x) + u_xxx(t, x)


def log_tau(t, x):
    """Hirota's: log(1 + e^a + e^b + c e^(a + b)), of the phases a and b of the solitons."""
    a, b = (k * (x - k**2 * t) for k in (FAST, SLOW))
    c = 2 * np.log((FAST - SLOW) / (FAST + SLOW))
    return logsumexp(jnp.stack([jnp.zeros_like(a), a, b, a + b + c]))


def solitons(t, x):
    """The exact solution."""
    return 2 * derivative(derivative(log_tau, 1), 1)(t, x)


# ---- the network --------------------------------------------------------------------------------


def init(key, sizes=SIZES):
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (m, n)) / m**0.5, "b": jnp.zeros(n)}
        for k, m, n in zip(keys, sizes, sizes[1:])
    ]


def network(params, t, x):
    *hidden, last = params
    h = jnp.stack([t / END, 3 * x / RIGHT])
    for layer in hidden:
        h = jnp.tanh(h @ layer["w"] + layer["b"])
    return (h @ last["w"] + last["b"])[0]


class Points(NamedTuple):
    inside_t: functrax.Array
    inside_x: functrax.Array
    known_t: functrax.Array
    known_x: functrax.Array
    known_u: functrax.Array


def points(key, inside=1000, known=120):
    """Random points inside; known ones at the start and at both ends."""
    t_key, x_key = random.split(key)
    start_x = jnp.linspace(LEFT, RIGHT, known)
    end_t = jnp.linspace(BEGIN, END, known // 3)
    t = jnp.concatenate([jnp.full(known, BEGIN), end_t, end_t])
    x = jnp.concatenate([start_x, jnp.full(len(end_t), LEFT), jnp.full(len(end_t), RIGHT)])
    return Points(
        random.uniform(t_key, (inside,), minval=BEGIN, maxval=END),
        random.uniform(x_key, (inside,), minval=LEFT, maxval=RIGHT),
        t,
        x,
        functrax.vmap(solitons)(t, x),
    )


def equation_at(params, t, x):
    return residual(lambda t, x: network(params, t, x), t, x)


def miss_at(params, t, x, u):
    return 10 * (network(params, t, x) - u)


def residuals_and_jacobian(flat, unravel, data):
    """All residuals (n,) as one vector, and their gradients (n, parameters)."""

    def rows(f, *columns):
        def one(flat, *row):
            return f(unravel(flat), *row)

        gradients = functrax.value_and_grad(one)
        r, J = functrax.vmap(gradients, in_axes=(None, *[0] * len(columns)))(flat, *columns)
        return r / len(r) ** 0.5, J / len(r) ** 0.5

    inside = rows(equation_at, data.inside_t, data.inside_x)
    known = rows(miss_at, data.known_t, data.known_x, data.known_u)
    return [jnp.concatenate(pair) for pair in zip(inside, known)]


def train(key, steps):
    """The trained parameters and the history of the loss, by Levenberg and Marquardt's method."""
    init_key, data_key = random.split(key)
    flat, unravel = ravel_pytree(init(init_key))
    data = points(data_key)

    @functrax.jit
    def evaluate(flat):
        r, J = residuals_and_jacobian(flat, unravel, data)
        return r @ r, J.T @ r, J.T @ J

    @functrax.jit
    def move(flat, slope, normal, damping):
        return flat - jnp.linalg.solve(normal + damping * jnp.eye(len(flat)), slope)

    damping, current = 1.0, evaluate(flat)
    history = [float(current[0])]
    bar = tqdm(range(steps), desc="training", unit="step")
    for _ in bar:
        candidate = move(flat, current[1], current[2], damping)
        new = evaluate(candidate)
        better = float(new[0]) < history[-1]
        flat, current = (candidate, new) if better else (flat, current)
        damping = max(damping / 1.5, 1e-10) if better else damping * 3
        history.append(float(current[0]))
        bar.set_postfix(loss=f"{history[-1]:.1e}", damping=f"{damping:.0e}")
    return unravel(flat), np.array(history)


def on_grid(u, n=80):
    """u (n, n) of times and places, and those."""
    t, x = jnp.linspace(BEGIN, END, n), jnp.linspace(LEFT, RIGHT, n)
    by_x = functrax.vmap(u, in_axes=(None, 0))
    return np.asarray(functrax.vmap(by_x, in_axes=(0, None))(t, x)), t, x


def plot(params, history, path):
    found, t, x = on_grid(lambda t, x: network(params, t, x))
    exact, *_ = on_grid(solitons)
    figure = Figure(figsize=(13, 3.9), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.semilogy(history)
    left.set(title="Mean of squared residuals", xlabel="step")
    for row, colour in ((0, "tab:blue"), (40, "tab:orange"), (79, "tab:green")):
        middle.plot(x, exact[row], color=colour, alpha=0.4, linewidth=4)
        middle.plot(x, found[row], color=colour, label=f"t = {float(t[row]):.1f}")
    middle.set(title="The wave: network over exact (wide)", xlabel="x")
    middle.legend()
    image = right.pcolormesh(x, t, np.abs(found - exact), cmap="magma")
    figure.colorbar(image, ax=right)
    right.set(title="Error of the network", xlabel="x", ylabel="t")
    for axes in (left, middle):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="The Korteweg-de Vries equation with functrax.")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with functrax.enable_x64(True):
        worst = float(jnp.max(jnp.abs(on_grid(lambda t, x: residual(solitons, t, x))[0])))
        print(f"the exact solution's own residual, at most: {worst:.0e}")
        params, history = train(random.key(options.seed), options.steps)
        print(f"loss: {history[0]:.8f} -> {history[-1]:.8f}")
        found, exact = on_grid(lambda t, x: network(params, t, x))[0], on_grid(solitons)[0]
        error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
        print(f"relative error of the network: {error:.6f}")
        plot(params, history, options.out / "kdv.png")


if __name__ == "__main__":
    main()
