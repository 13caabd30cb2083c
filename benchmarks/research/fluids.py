"""Continua on grids: fluids, waves, reactions."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster, floats

# ---- lattice Boltzmann --------------------------------------------------------------------------

VELOCITIES = np.array(
    [[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]]
)
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)
OPPOSITE = np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])


def cylinder() -> tuple[np.ndarray, ...]:
    """Populations of a flow to the right, 64 × 128 cells, and where a cylinder stands in it."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:64, :128]
    shaken = 1 + 0.01 * rng.standard_normal((9, 64, 128), np.float32)
    populations = WEIGHTS[:, None, None] * shaken
    populations[1] *= 1.1
    return populations.astype(np.float32), (y - 32) ** 2 + (x - 32) ** 2 < 64


def lattice_boltzmann(jax: Any) -> Any:
    """100 steps of D2Q9 around a cylinder: collide (BGK), bounce back, stream; density and flow."""
    jnp = jax.numpy
    velocities = VELOCITIES.astype(np.float32)

    def moments(f: Any) -> Any:
        density = f.sum(0)
        return density, jnp.einsum("qyx,qd->dyx", f, velocities) / density

    def equilibrium(density: Any, u: Any) -> Any:
        cu = jnp.einsum("qd,dyx->qyx", velocities, u)
        square = (u**2).sum(0)
        series = 1 + 3 * cu + 4.5 * cu**2 - 1.5 * square
        return WEIGHTS[:, None, None] * density * series

    def run(f: Any, solid: Any) -> Any:
        def step(f: Any, _: Any) -> Any:
            collided = f - (f - equilibrium(*moments(f))) / 0.6
            collided = jnp.where(solid, f[OPPOSITE], collided)
            moved = [
                jnp.roll(collided[q], (y, x), (0, 1))
                for q, (x, y) in enumerate(VELOCITIES.tolist())
            ]
            return jnp.stack(moved), None

        return moments(jax.lax.scan(step, f, None, length=100)[0])

    return run


# ---- the Navier-Stokes equations by spectra -----------------------------------------------------


def vorticity() -> tuple[np.ndarray, ...]:
    """A smooth random field on 128 × 128 points."""
    rng = np.random.default_rng(0)
    k = np.fft.fftfreq(128, 1 / 128)
    damping = np.exp(-(k[:, None] ** 2 + k**2) / 50)
    field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((128, 128))) * damping).real
    return ((4 * field / field.std()).astype(np.float32),)


def spectral_navier_stokes(jax: Any) -> Any:
    """50 steps of the 2-d vorticity equation: FFTs, 2/3 rule, Crank-Nicolson and Heun."""
    jnp = jax.numpy

    def run(w: Any) -> Any:
        n, dt, viscosity = w.shape[0], 2e-3, 1e-3
        ky = jnp.fft.fftfreq(n, 1 / n)[:, None]
        kx = jnp.fft.rfftfreq(n, 1 / n)
        laplacian = -(kx**2 + ky**2)
        inverse = jnp.where(laplacian == 0, 0, 1 / jnp.where(laplacian == 0, 1, laplacian))
        keep = (jnp.abs(ky) < n / 3) & (kx < n / 3)

        def advection(w_hat: Any) -> Any:
            psi_hat = -w_hat * inverse
            u, v = jnp.fft.irfft2(1j * ky * psi_hat), jnp.fft.irfft2(-1j * kx * psi_hat)
            w_x, w_y = jnp.fft.irfft2(1j * kx * w_hat), jnp.fft.irfft2(1j * ky * w_hat)
            return jnp.where(keep, -jnp.fft.rfft2(u * w_x + v * w_y), 0)

        def step(_: Any, w_hat: Any) -> Any:
            half = 0.5 * dt * viscosity * laplacian
            first = advection(w_hat)
            guess = ((1 + half) * w_hat + dt * first) / (1 - half)
            slope = 0.5 * (first + advection(guess))
            return ((1 + half) * w_hat + dt * slope) / (1 - half)

        return jnp.fft.irfft2(jax.lax.fori_loop(0, 50, step, jnp.fft.rfft2(w)))

    return run


# ---- shallow water by finite volumes ------------------------------------------------------------


def dam() -> tuple[np.ndarray, ...]:
    """Water behind a circular dam that has just broken, 128 × 128 cells: h, hu, hv."""
    y, x = np.mgrid[:128, :128]
    high = np.where((y - 64) ** 2 + (x - 50) ** 2 < 400, 2.0, 1.0)
    return (np.stack([high, 0 * high, 0 * high]).astype(np.float32),)


def shallow_water(jax: Any) -> Any:
    """100 steps with Rusanov's fluxes, minmod-limited slopes, a time step by the fastest wave."""
    jnp = jax.numpy

    def flux(q: Any) -> Any:
        h, hu, hv = q
        u = hu / h
        return jnp.stack([hu, hu * u + 0.5 * 9.81 * h * h, hv * u])

    def speed(q: Any) -> Any:
        return jnp.abs(q[1] / q[0]) + jnp.sqrt(9.81 * q[0])

    def minmod(a: Any, b: Any) -> Any:
        return jnp.where(a * b > 0, jnp.where(jnp.abs(a) < jnp.abs(b), a, b), 0)

    def divergence(q: Any) -> Any:
        """Of the fluxes along the last axis."""
        slope = minmod(q - jnp.roll(q, 1, -1), jnp.roll(q, -1, -1) - q)
        left, right = q + 0.5 * slope, jnp.roll(q - 0.5 * slope, -1, -1)
        fastest = jnp.maximum(speed(left), speed(right))
        face = 0.5 * (flux(left) + flux(right) - fastest * (right - left))
        return face - jnp.roll(face, 1, -1)

    def turned(q: Any) -> Any:
        """With the two directions exchanged."""
        return jnp.swapaxes(q[jnp.array([0, 2, 1])], 1, 2)

    def run(q: Any) -> Any:
        def step(q: Any, _: Any) -> Any:
            dt = 0.3 / jnp.maximum(speed(q).max(), speed(turned(q)).max())
            q = q - dt * (divergence(q) + turned(divergence(turned(q))))
            return q, q[0].max()

        return jax.lax.scan(step, q, None, length=100)

    return run


# ---- waves, and what they say of the ground -----------------------------------------------------


def ground() -> tuple[np.ndarray, ...]:
    """A guess of the squared speeds (64 × 64), and a record of 64 receivers over 150 steps."""
    rng = np.random.default_rng(0)
    return np.full((64, 64), 0.16, np.float32), rng.standard_normal((150, 64), np.float32) * 0.01


def wave_inversion(jax: Any) -> Any:
    """The gradient of a record's misfit by the speeds, through 150 checkpointed leapfrog steps."""
    jnp = jax.numpy

    def laplacian(u: Any) -> Any:
        p = jnp.pad(u, 1)
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u

    def misfit(speeds: Any, record: Any) -> Any:
        times = jnp.arange(150.0)
        wavelet = (1 - 2 * (0.1 * (times - 25)) ** 2) * jnp.exp(-((0.1 * (times - 25)) ** 2))

        @jax.checkpoint
        def step(state: Any, pulse: Any) -> Any:
            u, before = state
            after = 2 * u - before + speeds * laplacian(u)
            after = after.at[8, 32].add(pulse)
            return (after, u), after[4]

        zeros = jnp.zeros_like(speeds)
        seen = jax.lax.scan(step, (zeros, zeros), wavelet)[1]
        return jnp.mean((seen - record) ** 2)

    return jax.value_and_grad(misfit)


def cavity() -> tuple[np.ndarray, ...]:
    """Pulses of an antenna."""
    t = np.arange(300, dtype=np.float32)
    return (np.exp(-(((t - 40) / 12) ** 2)) * np.sin(0.3 * t),)


def maxwell(jax: Any) -> Any:
    """300 steps of Yee's scheme for Maxwell's equations, 128 × 128, with a sponge at the edges."""
    jnp = jax.numpy
    edge = np.minimum(np.arange(128), np.arange(128)[::-1])
    sponge = 1 - 0.02 * np.clip(1 - edge / 16, 0, 1)
    damping = np.outer(sponge, sponge).astype(np.float32)

    def run(pulses: Any) -> Any:
        def step(fields: Any, pulse: Any) -> Any:
            e, hx, hy = fields
            hx = hx.at[:, :-1].add(-0.5 * (e[:, 1:] - e[:, :-1]))
            hy = hy.at[:-1, :].add(0.5 * (e[1:, :] - e[:-1, :]))
            curl = hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2]
            e = (e.at[1:-1, 1:-1].add(0.5 * curl) * damping).at[64, 40].add(pulse)
            return (e, hx, hy), jnp.mean(e**2 + hx**2 + hy**2)

        zeros = jnp.zeros((128, 128))
        (e, _, _), energy = jax.lax.scan(step, (zeros, zeros, zeros), pulses)
        return e, energy

    return run


# ---- reactions, heat ----------------------------------------------------------------------------


def spots() -> tuple[np.ndarray, ...]:
    """Two substances on 128 × 128 cells: the second in a square."""
    u, v = np.ones((128, 128), np.float32), np.zeros((128, 128), np.float32)
    u[54:74, 54:74], v[54:74, 54:74] = 0.5, 0.25
    return u, v


def gray_scott(jax: Any) -> Any:
    """200 steps of Gray and Scott's reaction and diffusion, periodic."""
    jnp = jax.numpy

    def laplacian(a: Any) -> Any:
        near = jnp.roll(a, 1, 0) + jnp.roll(a, -1, 0) + jnp.roll(a, 1, 1) + jnp.roll(a, -1, 1)
        return near - 4 * a

    def run(u: Any, v: Any) -> Any:
        def step(_: Any, state: Any) -> Any:
            u, v = state
            reaction = u * v * v
            du = 0.16 * laplacian(u) - reaction + 0.035 * (1 - u)
            dv = 0.08 * laplacian(v) + reaction - (0.035 + 0.06) * v
            return u + du, v + dv

        return jax.lax.fori_loop(0, 200, step, (u, v))

    return run


def multigrid(jax: Any) -> Any:
    """Poisson's equation on 129 × 129 points: six V-cycles, written as a recursion over levels."""
    jnp = jax.numpy

    def residual(u: Any, f: Any, h: float) -> Any:
        near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return jnp.pad(f[1:-1, 1:-1] - (4 * u[1:-1, 1:-1] - near) / h**2, 1)

    def smooth(u: Any, f: Any, h: float) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, u: u + 0.2 * h**2 * residual(u, f, h), u)

    def coarse(r: Any) -> Any:
        rows = 0.25 * r[1:-2:2] + 0.5 * r[2:-1:2] + 0.25 * r[3::2]
        both = 0.25 * rows[:, 1:-2:2] + 0.5 * rows[:, 2:-1:2] + 0.25 * rows[:, 3::2]
        return jnp.pad(both, 1)

    def cycle(u: Any, f: Any, h: float) -> Any:
        u = smooth(u, f, h)
        if u.shape[0] > 5:
            r = coarse(residual(u, f, h))
            correction = cycle(jnp.zeros_like(r), r, 2 * h)
            u = u + prolong(correction)
        return smooth(u, f, h)

    def prolong(c: Any) -> Any:
        rows = jnp.stack([c[:-1], 0.5 * (c[:-1] + c[1:])], 1).reshape(-1, c.shape[1])
        rows = jnp.concatenate([rows, c[-1:]])
        columns = jnp.stack([rows[:, :-1], 0.5 * (rows[:, :-1] + rows[:, 1:])], 2)
        return jnp.concatenate([columns.reshape(rows.shape[0], -1), rows[:, -1:]], 1)

    def run(f: Any) -> Any:
        u, norms = jnp.zeros_like(f), []
        for _ in range(6):
            u = cycle(u, f, 1 / 128)
            norms.append(jnp.linalg.norm(residual(u, f, 1 / 128)))
        return u, norms[0]

    return run


def cahn_hilliard(jax: Any) -> Any:
    """100 semi-implicit steps of phase separation in Fourier space, and the energy after each."""
    jnp = jax.numpy

    def run(c: Any) -> Any:
        k = 2 * jnp.pi * jnp.fft.fftfreq(128)
        k2 = k[:, None] ** 2 + k**2

        def step(c: Any, _: Any) -> Any:
            reaction = jnp.fft.fft2(c**3 - c)
            c_hat = (jnp.fft.fft2(c) - 0.5 * k2 * reaction) / (1 + 0.5 * k2**2)
            c = jnp.fft.ifft2(c_hat).real
            return c, jnp.mean((1 - c**2) ** 2) / 4

        return jax.lax.scan(step, c, None, length=100)

    return run


ROWS = (
    Workload("lattice Boltzmann", cylinder, lattice_boltzmann, (faster(1),)),
    Workload("spectral Navier-Stokes", vorticity, spectral_navier_stokes, (faster(1),)),
    Workload("shallow water", dam, shallow_water, (faster(1),)),
    Workload("wave inversion", ground, wave_inversion, (faster(1),)),
    Workload("Maxwell by Yee", cavity, maxwell, (faster(1),)),
    Workload("Gray-Scott", spots, gray_scott, (faster(1),)),
    Workload("multigrid", floats((129, 129)), multigrid, (faster(1),)),
    Workload("Cahn-Hilliard", floats((128, 128), scale=0.1), cahn_hilliard, (faster(1),)),
)
