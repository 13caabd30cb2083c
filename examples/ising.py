"""The Ising model: Metropolis' algorithm on a checkerboard, beside Onsager's exact solution.

    python examples/ising.py [--size 64] [--sweeps 1000] [--seed 0] [--out examples/output]

Each place of a square lattice has a spin, 1 or -1, and prefers that of its four neighbours.  A spin
turns with probability min(1, exp(-ΔE / T)).  Black places have white neighbours only, so that all
black spins may turn at once, and then all white ones.

``vmap`` runs a lattice for each temperature, ``scan`` its sweeps, and ``random`` keys make each
lattice's numbers its own.  Without a field the magnetisation and the energy of an infinite lattice
are known (Onsager 1944, Yang 1952); they are printed beside what is found, with the heat capacity,
which is the variance of the energy.  Writes ``ising.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import functrax
import functrax.numpy as jnp
from functrax import lax, random

CRITICAL = 2 / np.log(1 + np.sqrt(2))  # the temperature above which there is no magnetisation
TEMPERATURES = np.array([1.6, 1.9, 2.1, 2.2, 2.27, 2.35, 2.5, 2.8, 3.2], np.float32)


# ---- what is known ------------------------------------------------------------------------------


def exact_magnetisation(T):
    """Of a place of the infinite lattice."""
    return np.maximum(0, 1 - np.sinh(2 / T) ** -4.0) ** 0.125


def exact_energy(T):
    """Of a place of the infinite lattice; the elliptic integral is a mean of means."""
    k = 2 * np.sinh(2 / T) / np.cosh(2 / T) ** 2
    a, b = np.ones_like(k), np.sqrt((1 - k) * (1 + k))
    for _ in range(6):
        a, b = (a + b) / 2, np.sqrt(a * b)
    elliptic = np.pi / (2 * a)
    return -(1 + 2 / np.pi * (2 * np.tanh(2 / T) ** 2 - 1) * elliptic) / np.tanh(2 / T)


# ---- what is simulated --------------------------------------------------------------------------


def neighbours(spins):
    """The sum of the four neighbours of each place; the lattice is a torus."""
    return sum(jnp.roll(spins, step, axis) for axis in (0, 1) for step in (1, -1))


def energy(spins):
    """Of a place, in the mean: each pair counts once."""
    return -0.5 * jnp.mean(spins * neighbours(spins))


def turned(spins, colour, T, key):
    """The lattice after the places of one colour had the chance to turn."""
    cost = 2 * spins * neighbours(spins)
    turns = random.uniform(key, spins.shape) < jnp.exp(-cost / T)
    return jnp.where(turns & colour, -spins, spins)


def sweep(spins, T, key):
    """The lattice after black and white places had the chance to turn once."""
    rows, columns = jnp.indices(spins.shape)
    black = (rows + columns) % 2 == 0
    first, second = random.split(key)
    return turned(turned(spins, black, T, first), ~black, T, second)


def run(spins, T, key, sweeps):
    """The last lattice, and the magnetisation and the energy after each sweep."""

    def step(spins, key):
        spins = sweep(spins, T, key)
        return spins, (jnp.mean(spins), energy(spins))

    return lax.scan(step, spins, random.split(key, sweeps))


def simulate(key, temperatures, size, sweeps):
    """For each temperature what ``run`` gives, from lattices whose spins are all up."""
    start = jnp.ones((size, size), jnp.int32)
    lattices = functrax.vmap(lambda T, key: run(start, T, key, sweeps))
    return functrax.jit(lattices)(temperatures, random.split(key, len(temperatures)))


def table(temperatures, magnetisation, energies, size):
    """A row for each temperature: found and exact magnetisation and energy, the heat capacity.

    The first fifth of the sweeps forgets the start.
    """
    begin = magnetisation.shape[1] // 5
    for T, m, e in zip(temperatures, magnetisation[:, begin:], energies[:, begin:]):
        heat = float(jnp.var(e)) * size**2 / T**2
        found = float(jnp.mean(jnp.abs(m))), float(jnp.mean(e))
        yield float(T), found, (exact_magnetisation(T), exact_energy(T)), heat


def plot(rows, lattices, path):
    figure = Figure(figsize=(12, 7), layout="constrained")
    (left, middle, right), *_ = axes = figure.subplots(2, 3)
    T = np.linspace(1.5, 3.3, 400)
    temperatures, found, _, heat = zip(*rows)
    magnetisation, energies = zip(*found)
    left.plot(T, exact_magnetisation(T), label="exact, infinite lattice")
    left.plot(temperatures, magnetisation, "o", label="found")
    left.set(title="magnetisation", xlabel="temperature")
    left.legend()
    middle.plot(T, exact_energy(T))
    middle.plot(temperatures, energies, "o")
    middle.set(title="energy of a place", xlabel="temperature")
    right.plot(temperatures, heat, "o-")
    right.axvline(CRITICAL, color="gray", linestyle=":")
    right.set(title="heat capacity of a place", xlabel="temperature")
    for one, k in zip(axes[1], (1, len(rows) // 2, len(rows) - 1)):
        one.imshow(lattices[k], cmap="magma", interpolation="nearest")
        one.set(title=f"spins at {temperatures[k]:.2f}", xticks=[], yticks=[])
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="The Ising model with functrax.")
    parser.add_argument("--size", type=int, default=64, help="an even number of places a side")
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    key = random.key(options.seed)
    lattices, (m, e) = simulate(key, TEMPERATURES, options.size, options.sweeps)
    rows = list(table(TEMPERATURES, m, e, options.size))
    print(
        f"{options.size}² spins, {options.sweeps} sweeps; the critical temperature: {CRITICAL:.3f}"
    )
    print("temperature  magnetisation (exact)  energy (exact)     heat capacity")
    for T, (m, e), (exact_m, exact_e), heat in rows:
        print(f"{T:11.2f}  {m:13.3f} ({exact_m:.3f})  {e:6.3f} ({exact_e:.3f})  {heat:14.2f}")
    plot(rows, np.asarray(lattices), options.out / "ising.png")


if __name__ == "__main__":
    main()
