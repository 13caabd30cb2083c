"""Particles, spins, cells and waves of matter."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster

# ---- particles ----------------------------------------------------------------------------------


def galaxy() -> tuple[np.ndarray, ...]:
    """256 bodies: positions, velocities, masses."""
    rng = np.random.default_rng(0)
    positions, velocities = rng.standard_normal((2, 256, 3), np.float32)
    return positions, 0.1 * velocities, rng.uniform(0.5, 1, 256).astype(np.float32) / 256


def n_bodies(jax: Any) -> Any:
    """20 leapfrog steps of 256 bodies whose forces are the gradient of the potential."""
    jnp = jax.numpy

    def potential(x: Any, m: Any) -> Any:
        d = x[:, None] - x
        inverse = jax.lax.rsqrt((d**2).sum(-1) + 0.01)
        return -0.5 * jnp.sum(m[:, None] * m * inverse)

    def run(x: Any, v: Any, m: Any) -> Any:
        def acceleration(x: Any) -> Any:
            return -jax.grad(potential)(x, m) / m[:, None]

        def step(state: Any, _: Any) -> Any:
            x, v, a = state
            v = v + 0.005 * a
            x = x + 0.01 * v
            a = acceleration(x)
            return (x, v + 0.005 * a, a), None

        (x, v, _), _ = jax.lax.scan(step, (x, v, acceleration(x)), None, length=20)
        return x, v, potential(x, m)

    return run


def liquid() -> tuple[np.ndarray, ...]:
    """400 atoms near a square lattice in a box of 24 × 24, and their velocities."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:20, :20] * 1.2
    positions = np.stack([x.ravel(), y.ravel()], 1) + 0.05 * rng.standard_normal((400, 2))
    return positions.astype(np.float32), 0.2 * rng.standard_normal((400, 2), np.float32)


def lennard_jones(jax: Any) -> Any:
    """50 Verlet steps of Lennard-Jones atoms with lists of 24 neighbours, made anew every 10."""
    jnp = jax.numpy
    box = 24.0

    def displacement(a: Any, b: Any) -> Any:
        d = a - b
        return d - box * jnp.round(d / box)

    def neighbours(x: Any) -> Any:
        d2 = (displacement(x[:, None], x) ** 2).sum(-1) + 1e6 * jnp.eye(x.shape[0])
        return jax.lax.top_k(-d2, 24)[1]

    def energy(x: Any, near: Any) -> Any:
        r2 = (displacement(x[:, None], x[near]) ** 2).sum(-1)
        inverse = 1 / jnp.where(r2 < 6.25, r2, 1.0) ** 3
        return 0.5 * jnp.sum(jnp.where(r2 < 6.25, 4 * (inverse**2 - inverse), 0))

    def run(x: Any, v: Any) -> Any:
        def step(state: Any, near: Any) -> Any:
            x, v = state
            v = v - 0.0025 * jax.grad(energy)(x, near)
            x = (x + 0.005 * v) % box
            return (x, v - 0.0025 * jax.grad(energy)(x, near))

        def block(state: Any, _: Any) -> Any:
            near = neighbours(state[0])
            state = jax.lax.fori_loop(0, 10, lambda _, s: step(s, near), state)
            return state, energy(state[0], near)

        return jax.lax.scan(block, (x, v), None, length=5)

    return run


def boids(jax: Any) -> Any:
    """50 steps of 256 boids: the force on each is written for one, and mapped over all."""
    jnp = jax.numpy

    def run(x: Any, v: Any) -> Any:
        def force(xi: Any, vi: Any, x: Any, v: Any) -> Any:
            d = x - xi
            r2 = (d**2).sum(1)
            near = (r2 < 1.0) & (r2 > 0)
            count = jnp.maximum(near.sum(), 1)
            centre = jnp.where(near[:, None], d, 0).sum(0) / count
            follow = jnp.where(near[:, None], v - vi, 0).sum(0) / count
            apart = -jnp.where(((r2 < 0.1) & near)[:, None], d / (r2[:, None] + 1e-3), 0).sum(0)
            return centre + 0.5 * follow + 0.05 * apart

        def step(state: Any, _: Any) -> Any:
            x, v = state
            v = v + 0.02 * jax.vmap(force, (0, 0, None, None))(x, v, x, v)
            speed = jnp.linalg.norm(v, axis=1, keepdims=True)
            v = v / jnp.maximum(speed, 1e-6) * jnp.clip(speed, 0.3, 1.0)
            return (x + 0.02 * v, v), v.mean(0)

        return jax.lax.scan(step, (x, v), None, length=50)

    return run


def flock() -> tuple[np.ndarray, ...]:
    """256 boids in the plane."""
    rng = np.random.default_rng(0)
    return tuple(rng.uniform(-1, 1, (2, 256, 2)).astype(np.float32) * [[[3]], [[1]]])


# ---- spins and cells ----------------------------------------------------------------------------


def spins() -> tuple[np.ndarray, ...]:
    """Spins on 128 × 128 places, and a seed."""
    rng = np.random.default_rng(0)
    return rng.choice(np.array([-1, 1], np.int32), (128, 128)), np.int32(0)


def ising(jax: Any) -> Any:
    """50 sweeps of Metropolis' algorithm on the Ising model, black places and then white ones."""
    jnp = jax.numpy

    def run(s: Any, seed: Any) -> Any:
        rows, columns = jnp.indices(s.shape)
        black = (rows + columns) % 2 == 0

        def half(s: Any, key: Any, colour: Any) -> Any:
            near = jnp.roll(s, 1, 0) + jnp.roll(s, -1, 0) + jnp.roll(s, 1, 1) + jnp.roll(s, -1, 1)
            accept = jax.random.uniform(key, s.shape) < jnp.exp(-2 * 0.44 * (s * near))
            return jnp.where(accept & colour, -s, s)

        def sweep(s: Any, key: Any) -> Any:
            first, second = jax.random.split(key)
            s = half(half(s, first, black), second, ~black)
            return s, jnp.abs(s.mean())

        return jax.lax.scan(sweep, s, jax.random.split(jax.random.key(seed), 50))

    return run


def soup() -> tuple[np.ndarray, ...]:
    """Cells on 256 × 256 places, a third of them alive."""
    return (np.random.default_rng(0).uniform(size=(256, 256)) < 0.33,)


def game_of_life(jax: Any) -> Any:
    """100 generations of Conway's game of life, with a convolution as the count of neighbours."""
    jnp = jax.numpy
    kernel = np.ones((3, 3), np.float32)
    kernel[1, 1] = 0

    def run(alive: Any) -> Any:
        def generation(alive: Any, _: Any) -> Any:
            padded = jnp.pad(alive.astype(jnp.float32), 1, mode="wrap")
            near = jax.scipy.signal.convolve2d(padded, kernel, mode="valid")
            near = jnp.round(near).astype(jnp.int32)
            alive = (near == 3) | (alive & (near == 2))
            return alive, alive.sum()

        return jax.lax.scan(generation, alive, None, length=100)

    return run


def rule_110(jax: Any) -> Any:
    """512 generations of an elementary automaton of 1024 cells, all of them kept."""
    jnp = jax.numpy

    def run(cells: Any, rule: Any) -> Any:
        table = (rule >> jnp.arange(8)) & 1

        def generation(cells: Any, _: Any) -> Any:
            index = 4 * jnp.roll(cells, 1) + 2 * cells + jnp.roll(cells, -1)
            return table[index], cells

        return jax.lax.scan(generation, cells, None, length=512)[1]

    return run


def cells() -> tuple[np.ndarray, ...]:
    """1024 cells of 0 and 1, and the number of the rule."""
    return np.random.default_rng(0).integers(0, 2, 1024).astype(np.int32), np.int32(110)


# ---- quanta -------------------------------------------------------------------------------------


def packet() -> tuple[np.ndarray, ...]:
    """A wave packet on 1024 points that flies towards a barrier, and the barrier."""
    x = np.linspace(-40, 40, 1024)
    psi = np.exp(-((x + 15) ** 2) / 8 + 1.5j * x)
    psi /= np.linalg.norm(psi)
    return psi.astype(np.complex64), np.where(np.abs(x) < 0.5, 1.5, 0).astype(np.float32)


def schroedinger(jax: Any) -> Any:
    """500 steps of the split-operator method; how much has passed the barrier after each."""
    jnp = jax.numpy

    def run(psi: Any, barrier: Any) -> Any:
        k = 2 * jnp.pi * jnp.fft.fftfreq(1024, 80 / 1023)
        kick, drift = jnp.exp(-0.5j * 0.02 * barrier), jnp.exp(-0.5j * 0.02 * k**2)

        def step(psi: Any, _: Any) -> Any:
            psi = kick * jnp.fft.ifft(drift * jnp.fft.fft(kick * psi))
            return psi, jnp.sum(jnp.abs(psi[512:]) ** 2)

        return jax.lax.scan(step, psi, None, length=500)

    return run


def electrons() -> tuple[np.ndarray, ...]:
    """Weights of a wave function of two electrons, positions of 256 walkers, a seed."""
    rng = np.random.default_rng(0)
    w1 = 0.3 * rng.standard_normal((5, 32), np.float32)
    w2 = 0.1 * rng.standard_normal(32, np.float32)
    return w1, w2, rng.standard_normal((256, 2, 3), np.float32), np.int32(0)


def variational_monte_carlo(jax: Any) -> Any:
    """Helium: 10 Metropolis steps of 256 walkers, local energies by a Laplacian, their gradient."""
    jnp = jax.numpy

    def log_psi(parameters: Any, x: Any) -> Any:
        r = jnp.sqrt((x**2).sum(-1) + 1e-6)
        apart = jnp.sqrt(((x[0] - x[1]) ** 2).sum() + 1e-6)
        features = jnp.stack([r[0] + r[1], r[0] * r[1], apart, (r[0] - r[1]) ** 2, x[0] @ x[1]])
        w1, w2 = parameters
        return -1.8 * r.sum() + 0.5 * apart / (1 + apart) + jnp.tanh(features @ w1) @ w2

    def local_energy(parameters: Any, x: Any) -> Any:
        gradient = jax.grad(lambda flat: log_psi(parameters, flat.reshape(2, 3)))
        flat = x.reshape(-1)
        slope, second = jax.vmap(lambda e: jax.jvp(gradient, (flat,), (e,)), out_axes=(None, 0))(
            jnp.eye(6)
        )
        kinetic = -0.5 * (jnp.trace(second) + (slope**2).sum())
        r = jnp.sqrt((x**2).sum(-1) + 1e-6)
        return kinetic - (2 / r).sum() + 1 / jnp.sqrt(((x[0] - x[1]) ** 2).sum() + 1e-6)

    def run(w1: Any, w2: Any, walkers: Any, seed: Any) -> Any:
        parameters = (w1, w2)
        value = jax.vmap(log_psi, (None, 0))

        def move(walkers: Any, key: Any) -> Any:
            a, b = jax.random.split(key)
            to = walkers + 0.3 * jax.random.normal(a, walkers.shape)
            ratio = 2 * (value(parameters, to) - value(parameters, walkers))
            accept = jnp.log(jax.random.uniform(b, (256,))) < ratio
            return jnp.where(accept[:, None, None], to, walkers), accept.mean()

        keys = jax.random.split(jax.random.key(seed), 10)
        walkers, accepted = jax.lax.scan(move, walkers, keys)
        energies = jax.vmap(local_energy, (None, 0))(parameters, walkers)
        centred = energies - energies.mean()

        def surrogate(parameters: Any) -> Any:
            return 2 * jnp.mean(jax.lax.stop_gradient(centred) * value(parameters, walkers))

        return energies.mean(), jax.grad(surrogate)(parameters), accepted

    return run


ROWS = (
    Workload("N bodies", galaxy, n_bodies, (faster(1),)),
    Workload("Lennard-Jones liquid", liquid, lennard_jones, (faster(1),)),
    Workload("boids", flock, boids, (faster(1),)),
    Workload("Ising model", spins, ising, (faster(1),)),
    Workload("game of life", soup, game_of_life, (faster(1),)),
    Workload("rule 110", cells, rule_110, (faster(1),)),
    Workload("Schrödinger's equation", packet, schroedinger, (faster(1),)),
    Workload("variational Monte Carlo", electrons, variational_monte_carlo, (faster(1),)),
)
