"""The scientific examples: what they find equals theory, and their derivatives closed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

Load = Callable[[str], ModuleType]


@pytest.fixture
def x64() -> Iterator[None]:
    with functrax.enable_x64(True):
        yield


# ---- the Gaussian process -----------------------------------------------------------------------


@pytest.fixture
def process(load_example: Load) -> ModuleType:
    return load_example("gaussian_process")


def covariance(theta: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The covariance of the observations and its derivatives by the three logarithms."""
    amplitude, length, noise = np.exp(theta)
    squares = ((x[:, None] - x) / length) ** 2
    smooth = amplitude**2 * np.exp(-0.5 * squares)
    rough = noise**2 * np.eye(len(x))
    return smooth + rough, [2 * smooth, smooth * squares, 2 * rough]


@pytest.mark.usefixtures("x64")
def test_the_marginal_likelihood_and_its_gradient(process: ModuleType) -> None:
    x, y = process.draw(random.key(1), 15)
    theta = np.array([0.1, -0.4, -1.0])
    value, slope = functrax.value_and_grad(process.log_likelihood)(jnp.asarray(theta), x, y)
    K, by_theta = covariance(theta, np.asarray(x))
    inverse = np.linalg.inv(K)
    alpha = inverse @ y
    expected = -0.5 * (y @ alpha + np.linalg.slogdet(2 * np.pi * K)[1])
    np.testing.assert_allclose(value, expected, rtol=1e-11)
    inner = np.outer(alpha, alpha) - inverse  # Rasmussen and Williams 2006, equation 5.9
    np.testing.assert_allclose(slope, [0.5 * np.sum(inner * d) for d in by_theta], rtol=1e-9)


@pytest.mark.usefixtures("x64")
def test_the_fit_is_a_maximum_near_the_truth(process: ModuleType) -> None:
    x, y = process.draw(random.key(0), 60)
    theta, history = process.fit(process.logarithms(process.GUESS), x, y)
    likelihoods = [likelihood for likelihood, _ in history]
    assert likelihoods == sorted(likelihoods) and likelihoods[-1] > likelihoods[0] + 10
    assert history[-1][1] < 1e-9 and len(history) < 20
    errors = process.standard_errors(theta, x, y)
    assert np.all(np.abs(theta - process.logarithms(process.TRUE)) < 3 * errors)
    hessian = functrax.hessian(process.log_likelihood)(theta, x, y)
    assert np.linalg.eigvalsh(hessian)[-1] < 0


@pytest.mark.usefixtures("x64")
def test_the_posterior(process: ModuleType) -> None:
    x, y = (np.asarray(a) for a in process.draw(random.key(2), 12))
    theta, at = np.array([0.2, -0.3, -1.2]), np.array([0.3, 2.0, 20.0])
    mean, deviation = process.posterior(jnp.asarray(theta), x, y, at)
    amplitude, length, _ = np.exp(theta)
    cross = amplitude**2 * np.exp(-0.5 * ((at[:, None] - x) / length) ** 2)
    K, _ = covariance(theta, x)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, y), rtol=1e-9, atol=1e-12)
    variance = amplitude**2 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
    np.testing.assert_allclose(deviation, np.sqrt(variance), rtol=1e-8)
    np.testing.assert_allclose(deviation[2], amplitude)  # far away nothing is known


# ---- Lorenz' equations --------------------------------------------------------------------------


@pytest.fixture
def lorenz(load_example: Load) -> ModuleType:
    return load_example("lorenz")


@pytest.mark.usefixtures("x64")
def test_the_method_is_of_fourth_order(lorenz: ModuleType) -> None:
    errors = [error for _, error in lorenz.order_of_the_method()]
    ratios = np.divide(errors[:-1], errors[1:])
    np.testing.assert_allclose(ratios, 16, rtol=0.05)


@pytest.mark.usefixtures("x64")
def test_the_sensitivity(lorenz: ModuleType) -> None:
    state = jnp.array(lorenz.START)
    J = lorenz.sensitivity(state, 0.5, 400)
    differences = lorenz.central_differences(state, 0.5, 400)
    np.testing.assert_allclose(J, differences, atol=1e-7 * np.abs(J).max())
    np.testing.assert_allclose(np.linalg.det(J), np.exp(0.5 * lorenz.SHRINKING), rtol=1e-6)
    reverse = functrax.jacrev(lambda s: lorenz.flow(s, 0.5, 400))(state)
    np.testing.assert_allclose(reverse, J, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_a_trajectory_ends_where_the_flow_does(lorenz: ModuleType) -> None:
    state = jnp.array(lorenz.START)
    states = lorenz.trajectory(state, 0.01, 50)
    assert states.shape == (50, 3)
    np.testing.assert_allclose(states[-1], lorenz.flow(state, 0.5, 50), rtol=1e-12)


@pytest.mark.usefixtures("x64")
def test_the_lyapunov_exponents(lorenz: ModuleType) -> None:
    starts = lorenz.on_the_attractor(random.key(0), 12)
    found = functrax.vmap(lambda s: lorenz.lyapunov_exponents(s, 200))(starts)
    np.testing.assert_allclose(np.sum(found, axis=1), lorenz.SHRINKING, rtol=1e-5)
    first, second, third = np.mean(found, axis=0)
    assert abs(first - 0.906) < 0.15
    assert abs(second) < 0.1
    assert abs(third + 14.572) < 0.2


# ---- Langevin's equation ------------------------------------------------------------------------


@pytest.fixture
def langevin(load_example: Load) -> ModuleType:
    return load_example("langevin")


def test_the_density_and_its_moments(langevin: ModuleType) -> None:
    edge = np.linspace(-6, 6, 241)
    grid = np.stack(np.meshgrid(edge, edge, indexing="ij"), axis=-1).astype(np.float32)
    density = np.exp(functrax.vmap(functrax.vmap(langevin.log_density))(grid), dtype=np.float64)
    density *= (edge[1] - edge[0]) ** 2
    x, y = grid[..., 0].astype(np.float64), grid[..., 1].astype(np.float64)
    np.testing.assert_allclose(density.sum(), 1, rtol=1e-5)
    integrals = [np.sum(density * q) for q in (x, y, x**2 + y**2, (x**2 + y**2) ** 2)]
    np.testing.assert_allclose(integrals, list(langevin.EXACT.values()), rtol=1e-4, atol=1e-5)


def test_the_adjusted_sampler_has_the_right_moments(langevin: ModuleType) -> None:
    starts = random.normal(random.key(0), (500, 2))
    points, accepted = langevin.sample(
        langevin.adjusted, langevin.log_density, starts, langevin.STEP, random.key(1), 300
    )
    assert points.shape == (500, 300, 2)
    assert 0.8 < accepted < 0.97
    for name, (found, error) in langevin.moments(points[:, 100:]).items():
        assert error < 0.3
        assert abs(found - langevin.EXACT[name]) < 4 * error, name


@pytest.mark.parametrize("h", [0.2, 0.8])
def test_the_unadjusted_error_is_the_known_one(langevin: ModuleType, h: float) -> None:
    log_p = lambda x: -0.5 * x**2
    starts = random.normal(random.key(0), (1000,))
    variances = {}
    for move in (langevin.unadjusted, langevin.adjusted):
        points, _ = langevin.sample(move, log_p, starts, h, random.key(2), 100)
        variances[move.__name__] = float(jnp.var(points[:, 40:]))
    assert abs(variances["unadjusted"] - 1 / (1 - h / 2)) < 0.04
    assert abs(variances["adjusted"] - 1) < 0.04


def test_detailed_balance_of_the_proposal(langevin: ModuleType) -> None:
    """The log density of a move is a normal one's, but for a constant."""
    x, to, h = jnp.array([0.3, -0.2]), jnp.array([0.5, 0.1]), 0.1
    mean = x + h * functrax.grad(langevin.log_density)(x)
    expected = -np.sum((np.asarray(to) - np.asarray(mean)) ** 2) / (4 * h)
    found = langevin.log_transition(langevin.log_density, x, to, h)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


# ---- the Korteweg-de Vries equation -------------------------------------------------------------


@pytest.fixture
def kdv(load_example: Load) -> ModuleType:
    return load_example("kdv")


@pytest.mark.usefixtures("x64")
def test_the_exact_solution_solves_the_equation(kdv: ModuleType) -> None:
    residuals, *_ = kdv.on_grid(lambda t, x: kdv.residual(kdv.solitons, t, x), n=20)
    assert np.max(np.abs(residuals)) < 1e-11
    wrong, *_ = kdv.on_grid(lambda t, x: kdv.residual(lambda t, x: 1.1 * kdv.solitons(t, x), t, x))
    assert np.max(np.abs(wrong)) > 1e-2


@pytest.mark.usefixtures("x64")
def test_the_residual_of_a_polynomial(kdv: ModuleType) -> None:
    found = kdv.residual(lambda t, x: t * x**3 + 2 * x, 0.5, 3.0)
    u, u_t, u_x, u_xxx = 0.5 * 27 + 6, 27, 0.5 * 27 + 2, 3
    np.testing.assert_allclose(found, u_t + 6 * u * u_x + u_xxx, rtol=1e-13)


@pytest.mark.usefixtures("x64")
def test_forward_and_reverse_third_derivatives_agree(kdv: ModuleType) -> None:
    params = kdv.init(random.key(0))
    u = lambda x: kdv.network(params, 0.3, x)
    third = functrax.grad(functrax.grad(functrax.grad(u)))(0.7)
    forward = kdv.derivative(kdv.derivative(kdv.derivative(u, 0), 0), 0)(0.7)
    np.testing.assert_allclose(forward, third, rtol=1e-11)


@pytest.mark.usefixtures("x64")
def test_the_jacobian_of_the_residuals(kdv: ModuleType) -> None:
    flat, unravel = functrax.flatten_util.ravel_pytree(kdv.init(random.key(1), (2, 4, 4, 1)))
    data = kdv.points(random.key(2), inside=6, known=6)
    residuals = lambda flat: kdv.residuals_and_jacobian(flat, unravel, data)[0]
    _, J = kdv.residuals_and_jacobian(flat, unravel, data)
    assert J.shape == (6 + 6 + 2 * 2, len(flat))
    v = jnp.cos(jnp.arange(1.0 * len(flat)))
    expected = (residuals(flat + 1e-6 * v) - residuals(flat - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(J @ v, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("x64")
def test_the_network_learns_the_wave(kdv: ModuleType) -> None:
    params, history = kdv.train(random.key(0), 60)
    assert history[-1] < 1e-4 and np.all(np.diff(history) <= 0)
    found, exact = (
        kdv.on_grid(lambda t, x: kdv.network(params, t, x))[0],
        kdv.on_grid(kdv.solitons)[0],
    )
    assert np.linalg.norm(found - exact) < 0.05 * np.linalg.norm(exact)


# ---- implicit derivatives -----------------------------------------------------------------------


@pytest.fixture
def fixed_point(load_example: Load) -> ModuleType:
    return load_example("fixed_point")


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("M", "e"), [(0.7, 0.6), (3.0, 0.1), (0.2, 0.9), (1.0, 0.0)])
def test_the_derivatives_of_keplers_equation(fixed_point: ModuleType, M: float, e: float) -> None:
    rows = list(fixed_point.kepler_table(M, e))
    for what, found, exact in rows:
        np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-14, err_msg=what)
    assert len(rows) == 5


@pytest.mark.usefixtures("x64")
def test_a_layer_that_is_a_fixed_point(fixed_point: ModuleType) -> None:
    W, x = fixed_point.random_layer(random.key(0), 6)
    z = fixed_point.layer(W, x)
    np.testing.assert_allclose(z, np.tanh(W @ z + x), atol=1e-13)
    D = np.diag(1 - np.asarray(z) ** 2)
    exact = np.linalg.solve(np.eye(6) - D @ W, D)  # dz = D (W dz + dx)
    for jacobian in (functrax.jacfwd, functrax.jacrev):
        by_x = jacobian(fixed_point.layer, argnums=1)(W, x)
        np.testing.assert_allclose(by_x, exact, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("x64")
def test_the_unrolled_gradient_comes_to_the_implicit_one(fixed_point: ModuleType) -> None:
    errors = [e for _, e in fixed_point.convergence(random.key(0), 10, counts=(4, 16, 200))]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-12


@pytest.mark.usefixtures("x64")
def test_an_orbit_is_found(fixed_point: ModuleType) -> None:
    t, v = fixed_point.observations(random.key(4))
    orbit, errors, history = fixed_point.fit(jnp.array(fixed_point.FIRST), t, v)
    assert np.all(np.abs(orbit - np.array(fixed_point.TRUE)) < 4 * errors)
    assert history[0] > 5 and 0.7 < history[-1] < 1.3


@pytest.mark.usefixtures("x64")
def test_the_derivatives_of_an_orbit(fixed_point: ModuleType) -> None:
    orbit, t, size = jnp.array(fixed_point.TRUE), jnp.array([0.3, 1.7, 9.0]), 1e-6
    columns = [
        (fixed_point.velocities(orbit + d, t) - fixed_point.velocities(orbit - d, t)) / (2 * size)
        for d in size * jnp.eye(5)
    ]
    reverse = functrax.jacrev(fixed_point.velocities)(orbit, t)
    np.testing.assert_allclose(reverse, np.stack(columns, axis=1), rtol=1e-6, atol=1e-5)
    forward = functrax.jacfwd(fixed_point.velocities)(orbit, t)
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-10)
