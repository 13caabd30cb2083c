"""A neural differential equation: equinox, diffrax and optax, unchanged, on functrax.

    pip install "functrax[examples,libraries]"
    python -m functrax.compat examples/neural_ode.py [--steps 1000] [--seed 0]

The right-hand side of a differential equation is a small network (Chen et al., "Neural ordinary
differential equations", 2018).  It is trained so that its solutions follow those of a pendulum with
friction, from random starts, by derivatives through the solver: ``equinox`` has the network,
``diffrax`` solves with Tsitouras' method of order 5, ``optax`` makes Adam's steps.  At the end it
is asked for longer than it was trained.

This is a program for JAX.  ``python -m functrax.compat`` has ``import jax`` give functrax, so it
runs there as it is, and so do the three libraries.  Prints the loss, before and after, and writes
``neural_ode.png`` (to ``examples/output``, or where ``--out`` says).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from tqdm import tqdm

FRICTION = 0.25
TIMES = np.linspace(0, 6, 40, dtype=np.float32)
LONGER = np.linspace(0, 12, 120, dtype=np.float32)


def solved(field, start, times):
    """The solution of ``dy/dt = field(y)`` at some times, ``(times, 2)``."""
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: field(y)),
        diffrax.Tsit5(),
        t0=times[0],
        t1=times[-1],
        dt0=0.1,
        y0=start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
    ).ys


def pendulum(y):
    """Angle and speed of a pendulum with friction."""
    return jnp.stack([y[1], -jnp.sin(y[0]) - FRICTION * y[1]])


def starts(key, count):
    """Random angles and speeds, ``(count, 2)``."""
    return jax.random.uniform(key, (count, 2), minval=-1.5, maxval=1.5)


@eqx.filter_jit
def loss_of(network, first, paths):
    """The mean squared distance of solutions to the paths."""
    found = jax.vmap(lambda y: solved(network, y, TIMES))(first)
    return jnp.mean((found - paths) ** 2)


def trained(network, first, paths, steps, optimizer):
    """The network after some steps, and the losses on the way."""

    @eqx.filter_jit
    def step(network, state, first, paths):
        loss, grads = eqx.filter_value_and_grad(loss_of)(network, first, paths)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(network, updates), state, loss

    state = optimizer.init(eqx.filter(network, eqx.is_array))
    losses = []
    for _ in tqdm(range(steps), disable=None):
        network, state, loss = step(network, state, first, paths)
        losses.append(float(loss))
    return network, losses


def draw(network, losses, key, path):
    """The loss, and solutions from starts that were not trained on, for twice the time."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2, 3))
    left.semilogy(losses)
    left.set_xlabel("step")
    left.set_ylabel("mean squared error")
    for k, start in enumerate(starts(key, 3)):
        exact, found = (np.asarray(solved(f, start, LONGER)) for f in (pendulum, network))
        right.plot(LONGER, exact[:, 0], color=f"C{k}", linewidth=4, alpha=0.3)
        right.plot(LONGER, found[:, 0], color=f"C{k}", label="learned" if k == 0 else None)
    right.axvspan(0, TIMES[-1], color="0.93", zorder=0, label="trained on")
    right.set_xlabel("time")
    right.set_ylabel("angle (pale: exact)")
    right.legend(frameon=False, loc="upper right")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    weights, train, test = jax.random.split(jax.random.PRNGKey(options.seed), 3)
    first = starts(train, 32)
    paths = jax.vmap(lambda y: solved(pendulum, y, TIMES))(first)
    network = eqx.nn.MLP(2, 2, width_size=32, depth=2, activation=jax.nn.tanh, key=weights)
    before = float(loss_of(network, first, paths))
    begin = time.perf_counter()
    optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, options.steps))
    network, losses = trained(network, first, paths, options.steps, optimizer)
    seconds = time.perf_counter() - begin
    print(f"loss: {before:.4f} -> {losses[-1]:.6f} after {options.steps} steps, {seconds:.1f} s")
    unseen = starts(test, 64)
    error = loss_of(network, unseen, jax.vmap(lambda y: solved(pendulum, y, TIMES))(unseen))
    print(f"mean squared error from other starts: {float(error):.6f}")
    draw(network, losses, test, options.out / "neural_ode.png")


if __name__ == "__main__":
    main()
