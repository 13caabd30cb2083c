"""The recurrent network and the meta-learner: their parts against NumPy and closed forms."""

from __future__ import annotations

from collections.abc import Callable
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
def rnn(load_example: Load) -> ModuleType:
    return load_example("rnn")


@pytest.fixture
def maml(load_example: Load) -> ModuleType:
    return load_example("maml")


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_the_recurrent_states(rnn: ModuleType) -> None:
    with functrax.enable_x64(True):
        params = functrax.tree.map(np.asarray, rnn.init(random.key(0), hidden=5))
        xs = np.random.default_rng(0).normal(size=(7, 2))
        found = rnn.states(params, xs)
    h = np.zeros(5)
    for x, state in zip(xs, found):
        update, reset, candidate = (params["gates"][n] for n in ("update", "reset", "candidate"))
        z = sigmoid(x @ update["x"] + h @ update["h"] + update["b"])
        r = sigmoid(x @ reset["x"] + h @ reset["h"] + reset["b"])
        c = np.tanh(x @ candidate["x"] + (r * h) @ candidate["h"] + candidate["b"])
        h = (1 - z) * h + z * c
        np.testing.assert_allclose(state, h, rtol=1e-10, atol=1e-12)


def test_the_gradient_through_time(rnn: ModuleType) -> None:
    with functrax.enable_x64(True):
        params = rnn.init(random.key(0), hidden=4)
        xs, ys = rnn.sequences(random.key(1), 3, 6)
        direction = functrax.tree.map(
            lambda p: jnp.cos(jnp.arange(1.0 * p.size)).reshape(p.shape), params
        )
        loss = lambda h: rnn.loss(
            functrax.tree.map(lambda p, d: p + h * d, params, direction), xs, ys
        )
        gradients = functrax.grad(rnn.loss)(params, xs, ys)
        products = functrax.tree.map(lambda g, d: jnp.sum(g * d), gradients, direction)
        along = sum(functrax.tree.leaves(products))
        expected = (loss(1e-5) - loss(-1e-5)) / 2e-5
    np.testing.assert_allclose(along, expected, rtol=1e-7)


def test_a_scan_is_as_long_as_its_cell(rnn: ModuleType) -> None:
    params = rnn.init(random.key(0))
    counts = [
        len(functrax.make_jaxpr(rnn.states)(params, jnp.zeros((n, 2))).jaxpr.eqns) for n in (5, 50)
    ]
    assert counts[0] == counts[1]


def test_the_adding_problem(rnn: ModuleType) -> None:
    xs, sums = (np.asarray(a) for a in rnn.sequences(random.key(2), 400, 10))
    numbers, marks = xs[..., 0], xs[..., 1]
    assert set(np.unique(marks)) == {0, 1}
    assert np.all(marks[:, :5].sum(axis=1) == 1) and np.all(marks[:, 5:].sum(axis=1) == 1)
    np.testing.assert_allclose((numbers * marks).sum(axis=1), sums, rtol=1e-6)
    assert abs(np.mean((sums - 1) ** 2) - rnn.BASELINE) < 0.03


def test_it_learns_to_add(rnn: ModuleType) -> None:
    _, history = rnn.train(random.key(0), 150, 10)
    assert history[-10:].mean() < rnn.BASELINE / 10


def quadratic(params, centre, weights):
    return 0.5 * jnp.sum(weights * (params - centre) ** 2)


def test_the_meta_gradient_of_quadratic_tasks(maml: ModuleType) -> None:
    """A step takes θ - c to (1 - aw)(θ - c), so the loss is ½ Σ w (1 - aw)² (θ - c)²."""
    rng = np.random.default_rng(0)
    theta, centres = rng.normal(size=3), rng.normal(size=(4, 3))
    weights = np.tile([0.5, 1.0, 3.0], (4, 1))
    rate = 0.1
    with functrax.enable_x64(True):
        task = (jnp.asarray(centres), jnp.asarray(weights))
        objective = lambda theta: maml.meta_loss(quadratic, theta, task, task, rate=rate)
        found = functrax.jit(functrax.grad(objective))(jnp.asarray(theta))
    shrunk = weights * (1 - rate * weights) ** 2
    np.testing.assert_allclose(found, np.mean(shrunk * (theta - centres), axis=0), rtol=1e-12)


def test_the_meta_gradient_of_the_network(maml: ModuleType) -> None:
    with functrax.enable_x64(True):
        params = maml.init(random.key(0), (1, 5, 5, 1))
        seen, unseen = maml.tasks(random.key(1), 3)
        flat, unravel = functrax.flatten_util.ravel_pytree(params)
        objective = functrax.jit(lambda f: maml.meta_loss(maml.loss, unravel(f), seen, unseen))
        v = jnp.cos(jnp.arange(1.0 * len(flat)))
        along = functrax.grad(objective)(flat) @ v
        expected = (objective(flat + 1e-5 * v) - objective(flat - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(along, expected, rtol=1e-7)


def test_meta_learning_beats_joint_training(maml: ModuleType) -> None:
    tables = []
    for objective in (maml.meta_loss, maml.joint_loss):
        params, history = maml.train(objective, random.key(0), 400)
        assert np.isfinite(history).all()
        tables.append(maml.after_steps(params, random.key(1), most=1))
    (before, meta), (_, joint) = tables
    assert meta < 0.6 * before
    assert meta < 0.6 * joint


def test_tasks_are_sinusoids(maml: ModuleType) -> None:
    (x, y), (x2, y2) = maml.tasks(random.key(3), 20)
    assert x.shape == y.shape == x2.shape == (20, maml.SHOTS)
    for xs, ys in zip(np.concatenate([x, x2], axis=1), np.concatenate([y, y2], axis=1)):
        basis = np.stack([np.sin(xs), np.cos(xs)], axis=1)
        (a, b), *_ = np.linalg.lstsq(basis, ys, rcond=None)
        np.testing.assert_allclose(basis @ [a, b], ys, atol=1e-5)
        assert 0.1 <= np.hypot(a, b) <= 5.0 and b <= 1e-5  # phases in [0, π]
