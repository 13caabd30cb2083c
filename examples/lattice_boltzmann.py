"""A fluid as populations on a lattice: a channel, its derivative, and vortices behind a cylinder.

    python examples/lattice_boltzmann.py [--steps 6000] [--height 80] [--out examples/output]

At each place of a square lattice there are nine populations of particles: at rest, and on their way
to the eight neighbours.  In each step they *collide*, which moves them nearer to their equilibrium
(Bhatnagar, Gross and Krook 1954), and then *stream* to the neighbours; at a wall they turn back.
What follows for density and velocity are the Navier-Stokes equations (Chen and Doolen 1998).

Between two plates a force drives the flow of Poiseuille, a parabola that is known.  The derivative
of its flux by the viscosity is taken through all steps by ``jvp`` and compared with the exact one.
In a wind tunnel with a cylinder the flow does not become steady: vortices leave on both sides in
turn.  Writes ``lattice_boltzmann.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import functrax
import functrax.numpy as jnp
from functrax import lax

#: Steps (x, y) of the populations in a unit of time, their weights, and who goes the other way.
MOVES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
OPPOSITE = np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])
VELOCITIES = np.array(MOVES, float)


# ---- the method ---------------------------------------------------------------------------------


def moments(f):
    """Density (y, x) and velocity (2, y, x) of populations (9, y, x)."""
    density = jnp.sum(f, axis=0)
    return density, jnp.einsum("qd,qyx->dyx", VELOCITIES, f) / density


def equilibrium(density, u):
    """The populations of a fluid in equilibrium."""
    along = jnp.einsum("qd,dyx->qyx", VELOCITIES, u)
    series = 1 + 3 * along + 4.5 * along**2 - 1.5 * jnp.sum(u**2, axis=0)
    return WEIGHTS[:, None, None] * density * series


def stream(f):
    """Each population at the place that it goes to; what leaves comes in on the other side."""
    return jnp.stack([jnp.roll(f[q], (y, x), (0, 1)) for q, (x, y) in enumerate(MOVES)])


def step(f, viscosity, solid, force=0.0):
    """Populations a unit of time later.

    A force along x enters as a change of velocity that collisions bring about (Shan, Chen 1993).
    """
    relaxation = 3 * viscosity + 0.5
    density, u = moments(f)
    pushed = u.at[0].add(relaxation * force / density)
    collided = f + (equilibrium(density, pushed) - f) / relaxation
    return stream(jnp.where(solid, f[OPPOSITE], collided))


# ---- the channel --------------------------------------------------------------------------------


def channel(viscosity, force, width, steps):
    """Velocities across a channel between plates, after so many steps from rest."""
    solid = np.zeros((width + 2, 1), bool)
    solid[[0, -1]] = True
    f = equilibrium(jnp.ones(solid.shape), jnp.zeros((2, *solid.shape)))
    f, _ = lax.scan(lambda f, _: (step(f, viscosity, solid, force), None), f, None, length=steps)
    density, u = moments(f)
    return u[0, 1:-1, 0] + 0.5 * force / density[1:-1, 0]  # half of the push is yet to come


def channel_and_slope(viscosity, force, width, steps):
    """The velocities, and their derivatives by the viscosity through all steps."""
    profile = functrax.jit(lambda viscosity: channel(viscosity, force, width, steps))
    return functrax.jvp(profile, (viscosity,), (1.0,))


def poiseuille(viscosity, force, width):
    """The same at last, exactly: walls are half-way between places."""
    y = np.arange(width) + 0.5
    return force / (2 * viscosity) * y * (width - y)


# ---- the wind tunnel ----------------------------------------------------------------------------

WIND = 0.1  # places in a unit of time; sound has 0.58


def tunnel(height, steps, reynolds=120.0):
    """Velocity (2, y, x) and, after each step, the velocity across behind a cylinder."""
    width, radius = 3 * height, height // 9
    y, x = np.mgrid[:height, :width]
    solid = (y - height / 2 + 0.7) ** 2 + (
        x - height / 1.6
    ) ** 2 < radius**2  # not quite in the middle
    viscosity = WIND * 2 * radius / reynolds
    wind = jnp.zeros((2, height, width)).at[0].set(WIND)
    blown = equilibrium(jnp.ones((height, width)), wind)
    probe = height // 2, int(height / 1.6) + 4 * radius

    def advance(f, _):
        f = step(f, viscosity, solid)
        f = f.at[:, :, 0].set(blown[:, :, 0]).at[:, :, -1].set(f[:, :, -2])
        f = f.at[:, 0].set(blown[:, 0]).at[:, -1].set(blown[:, -1])
        return f, moments(f)[1][1, probe[0], probe[1]]

    f, across = lax.scan(advance, blown, None, length=steps)
    return jnp.where(solid, 0, moments(f)[1]), across


def strouhal(across, height):
    """How often vortices leave, in the time that the wind takes past the cylinder."""
    late = np.asarray(across)[len(across) // 2 :]
    spectrum = np.abs(np.fft.rfft((late - late.mean()) * np.hanning(len(late)), 16 * len(late)))
    frequency = spectrum.argmax() / (16 * len(late))
    return frequency * 2 * (height // 9) / WIND


def plot(u, across, path):
    vorticity = np.gradient(u[1], axis=1) - np.gradient(u[0], axis=0)
    figure = Figure(figsize=(11, 7), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(2, 1))
    limit = np.quantile(np.abs(vorticity), 0.99)
    top.imshow(vorticity, cmap="RdBu", origin="lower", vmin=-limit, vmax=limit)
    top.set(title="vorticity", xticks=[], yticks=[])
    bottom.plot(across)
    bottom.set(title="velocity across, behind the cylinder", xlabel="time")
    figure.savefig(path, dpi=110)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Lattice Boltzmann with functrax.")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--height", type=int, default=80)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    viscosity, force, width, steps = 0.1, 1e-5, 15, 10_000
    found, slope = channel_and_slope(viscosity, force, width, steps)
    exact = poiseuille(viscosity, force, width)
    error = np.abs(found - exact).max() / exact.max()
    print(f"channel: relative error of the velocities {error:.1e}")
    print(f"  flux {float(jnp.sum(found)):.6f}, exact {exact.sum():.6f}")
    print(f"  by viscosity {float(jnp.sum(slope)):.5f}, exact {-exact.sum() / viscosity:.5f}")

    run = functrax.jit(lambda: tunnel(options.height, options.steps))
    u, across = run()
    print(f"tunnel: {options.height} × {3 * options.height} places, {options.steps} steps")
    print(f"  Strouhal number {strouhal(across, options.height):.3f}")
    plot(np.asarray(u), np.asarray(across), options.out / "lattice_boltzmann.png")


if __name__ == "__main__":
    main()
