"""Simulations: spins and fluids against what is known exactly, and an agent that learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random

pytest.importorskip("matplotlib")

Load = Callable[[str], ModuleType]


@pytest.fixture
def x64() -> Iterator[None]:
    with functrax.enable_x64(True):
        yield


# ---- the Ising model ----------------------------------------------------------------------------


@pytest.fixture
def ising(load_example: Load) -> ModuleType:
    return load_example("ising")


def test_what_is_known_of_the_infinite_lattice(ising: ModuleType) -> None:
    T = np.array([0.5, ising.CRITICAL + 1e-9, 50.0])
    np.testing.assert_allclose(ising.exact_energy(T)[:2], [-2, -np.sqrt(2)], atol=1e-5)
    np.testing.assert_allclose(ising.exact_energy(T)[2], -2 / 50, rtol=1e-2)  # -2 tanh(1/T)
    np.testing.assert_allclose(ising.exact_magnetisation(T), [1, 0, 0], atol=1e-5)
    # Onsager's integral of the free energy, differentiated, at another temperature.
    a, b = np.meshgrid(*[(np.arange(400) + 0.5) * np.pi / 400] * 2)

    def logarithm(K: float) -> float:
        inside = np.cosh(2 * K) ** 2 - np.sinh(2 * K) * (np.cos(a) + np.cos(b))
        return float(np.log(2) + np.log(inside).mean() / 2)

    K, h = 1 / 1.9, 1e-5
    expected = -(logarithm(K + h) - logarithm(K - h)) / (2 * h)
    np.testing.assert_allclose(ising.exact_energy(np.array(1.9)), expected, rtol=1e-6)


def test_energy_and_neighbours(ising: ModuleType) -> None:
    spins = np.random.default_rng(0).choice([-1, 1], (6, 6)).astype(np.int32)
    pairs = [spins * np.roll(spins, 1, axis) for axis in (0, 1)]
    np.testing.assert_allclose(ising.energy(spins), -np.sum(pairs) / 36, rtol=1e-6)
    assert int(ising.neighbours(spins)[2, 0]) == spins[[1, 3, 2, 2], [0, 0, 1, 5]].sum()


def test_a_spin_turns_with_the_right_probability(ising: ModuleType) -> None:
    spins, T = jnp.ones((4, 4), jnp.int32), 4.0
    colour = jnp.zeros((4, 4), bool).at[1, 2].set(True)
    keys = random.split(random.key(0), 4000)
    found = functrax.vmap(lambda key: ising.turned(spins, colour, T, key))(keys)
    share = np.mean(np.asarray(found) == -1, axis=0)
    assert abs(share[1, 2] - np.exp(-8 / T)) < 4 * np.sqrt(np.exp(-8 / T) / 4000)
    share[1, 2] = 0
    assert not share.any()


def test_the_lattice_finds_the_exact_values(ising: ModuleType) -> None:
    temperatures = np.array([1.8, 2.8], np.float32)
    _, (m, e) = ising.simulate(random.key(0), temperatures, 32, 600)
    rows = list(ising.table(temperatures, m, e, 32))
    for _, (_, energy), (_, exact), heat in rows:
        assert abs(energy - exact) < 0.01
        assert 0.2 < heat < 0.8
    assert abs(rows[0][1][0] - rows[0][2][0]) < 0.01 and rows[1][1][0] < 0.15


# ---- lattice Boltzmann --------------------------------------------------------------------------


@pytest.fixture
def fluid(load_example: Load) -> ModuleType:
    return load_example("lattice_boltzmann")


@pytest.mark.usefixtures("x64")
def test_the_moments_of_an_equilibrium(fluid: ModuleType) -> None:
    rng = np.random.default_rng(0)
    density, u = rng.uniform(0.9, 1.1, (5, 4)), 0.1 * rng.standard_normal((2, 5, 4))
    found = fluid.moments(fluid.equilibrium(density, u))
    np.testing.assert_allclose(found[0], density, rtol=1e-12)
    np.testing.assert_allclose(found[1], u, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_a_step_keeps_mass_and_momentum(fluid: ModuleType) -> None:
    rng = np.random.default_rng(0)
    f = rng.uniform(0.05, 0.15, (9, 6, 8))
    free, wall = np.zeros((6, 8), bool), rng.uniform(size=(6, 8)) < 0.3
    after = fluid.step(f, 0.05, free)
    np.testing.assert_allclose(after.sum(), f.sum(), rtol=1e-12)
    momentum = np.einsum("qd,qyx->d", fluid.VELOCITIES, f)
    np.testing.assert_allclose(
        jnp.einsum("qd,qyx->d", fluid.VELOCITIES, after), momentum, atol=1e-12
    )
    np.testing.assert_allclose(fluid.step(f, 0.05, wall).sum(), f.sum(), rtol=1e-12)
    pushed = fluid.step(fluid.equilibrium(np.ones((6, 8)), np.zeros((2, 6, 8))), 0.05, free, 1e-3)
    np.testing.assert_allclose(
        jnp.einsum("qd,qyx->d", fluid.VELOCITIES, pushed), [48e-3, 0], atol=1e-9
    )


def test_populations_go_their_ways(fluid: ModuleType) -> None:
    f = np.zeros((9, 5, 5), np.float32)
    f[:, 2, 2] = np.arange(1, 10)
    found = np.asarray(fluid.stream(f))
    for q, (x, y) in enumerate(fluid.MOVES):
        assert found[q, 2 + y, 2 + x] == q + 1
        assert fluid.MOVES[fluid.OPPOSITE[q]] == (-x, -y)


@pytest.mark.usefixtures("x64")
def test_the_channel_and_its_derivative(fluid: ModuleType) -> None:
    viscosity, force, width = 1 / 6, 1e-6, 7
    found, slope = fluid.channel_and_slope(viscosity, force, width, 3000)
    exact = fluid.poiseuille(viscosity, force, width)

    def slip(viscosity: float) -> float:
        """By how much the fluid is too fast at walls, and so everywhere (He et al. 1997)."""
        t = 3 * viscosity + 0.5
        return force * ((16 * t**2 - 20 * t + 3) / (24 * viscosity) + 0.5)

    np.testing.assert_allclose(found, exact + slip(viscosity), rtol=1e-6)
    by_viscosity = (slip(viscosity + 1e-6) - slip(viscosity - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, -exact / viscosity + by_viscosity, rtol=1e-5)
    h = 1e-5
    after, before = (fluid.channel(viscosity + d, force, width, 3000) for d in (h, -h))
    np.testing.assert_allclose(slope, (after - before) / (2 * h), rtol=1e-5)


def test_the_number_of_vortices(fluid: ModuleType) -> None:
    height = 45  # so the cylinder is ten wide, and the wind passes it in 100 units
    across = np.sin(2 * np.pi * np.arange(4000) * 0.002)
    assert abs(fluid.strouhal(across, height) - 0.2) < 0.01


# ---- proximal policy optimisation ---------------------------------------------------------------


@pytest.fixture
def ppo(load_example: Load) -> ModuleType:
    return load_example("ppo")


def test_the_cart_falls_as_mechanics_says(ppo: ModuleType) -> None:
    """Momentum along the track changes by the push alone, as far as steps are short."""
    state = np.array([0.1, 0.2, 0.05, -0.3], np.float32)

    def momentum(state: np.ndarray) -> float:
        _, v, angle, spin = np.asarray(state, np.float64)
        return 1.1 * v + 0.05 * spin * np.cos(angle)

    for action, force in ((0, -10.0), (1, 10.0)):
        after, failed = ppo.push(ppo.Cart(jnp.array(state), jnp.array(7)), action)
        assert abs((momentum(after.state) - momentum(state)) / 0.02 - force) < 0.05
        assert int(after.time) == 8 and not failed
    leaning = ppo.Cart(jnp.array([0.0, 0, 0.205, 1.0]), jnp.array(0))
    away = ppo.Cart(jnp.array([-2.39, -1.0, 0, 0]), jnp.array(0))
    assert ppo.push(leaning, 0)[1] and ppo.push(away, 0)[1]


def test_advantages(ppo: ModuleType) -> None:
    rng = np.random.default_rng(0)
    value, last = rng.standard_normal((6, ppo.CARTS)), rng.standard_normal(ppo.CARTS)
    ended = rng.uniform(size=value.shape) < 0.3
    failed = ended & (rng.uniform(size=value.shape) < 0.5)
    trail = ppo.Trail(None, None, None, value, failed, ended, None)
    found = ppo.advantages(trail, jnp.asarray(last))
    values = np.concatenate([value, last[None]])
    for k in range(6):
        expected, weight = np.zeros(ppo.CARTS), np.ones(ppo.CARTS)
        for t in range(k, 6):
            go_on = 1.0 - ended[t]
            surprise = 1.0 - failed[t] + ppo.DISCOUNT * values[t + 1] * go_on - values[t]
            expected += weight * surprise
            weight *= ppo.DISCOUNT * ppo.TRACE * go_on
        np.testing.assert_allclose(found[k], expected, rtol=1e-4, atol=1e-4)


def test_the_first_step_of_adam(ppo: ModuleType) -> None:
    """It has the size of the rate, and the sign of the gradient."""
    params, gradient = {"w": jnp.zeros(3)}, {"w": jnp.array([2.0, -0.1, 30.0])}
    zeros = {"w": jnp.zeros(3)}
    new, moments = ppo.adam(params, (zeros, zeros, 0.0), gradient)
    np.testing.assert_allclose(new["w"], ppo.RATE * np.array([-1, 1, -1]), rtol=1e-3)
    assert moments[2] == 1


def test_the_agent_learns(ppo: ModuleType) -> None:
    params, lengths = functrax.jit(lambda key: ppo.train(key, 50))(random.key(3))
    assert 10 < lengths[0] < 40
    assert np.mean(lengths[-5:]) > 5 * lengths[0]
    states = functrax.jit(ppo.balance)(params, random.key(4))
    assert np.abs(states[:150, 2]).max() < 12 * np.pi / 180  # it stands for three seconds
