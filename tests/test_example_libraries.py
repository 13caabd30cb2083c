"""Optimizers, schedules and layers: recorded values, and use under transformations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError, PyTreeError, ShapeError
from functrax.example_libraries import optimizers, stax

RECORDED = json.loads((Path(__file__).parent / "data" / "libraries.json").read_text())
MASSES = {"momentum": (0.9,), "nesterov": (0.9,)}


def loss(params):
    return jnp.sum(params["a"] ** 2) + jnp.cos(params["b"])


@pytest.mark.parametrize("name", RECORDED["optimizers"])
def test_four_steps(name):
    rate = optimizers.exponential_decay(0.1, 10, 0.5)
    init, update, get_params = getattr(optimizers, name)(rate, *MASSES.get(name, ()))

    @functrax.jit
    def step(i, state):
        return update(i, functrax.grad(loss)(get_params(state)), state)

    state = init({"a": jnp.arange(1.0, 5.0).reshape(2, 2), "b": jnp.array(2.0)})
    for i in range(4):
        state = step(i, state)
    params = get_params(state)
    found = [*np.ravel(params["a"]), params["b"]]
    np.testing.assert_allclose(found, RECORDED["optimizers"][name], atol=3e-6)


def test_a_state_is_unpacked_and_packed():
    init, update, get_params = optimizers.adam(0.1)
    state = update(0, {"x": jnp.ones(2)}, init({"x": jnp.zeros(2)}))
    tree = optimizers.unpack_optimizer_state(state)
    assert isinstance(tree["x"], optimizers.JoinPoint)
    assert len(next(iter(tree["x"]))) == 3
    again = optimizers.pack_optimizer_state(tree)
    assert functrax.tree.structure(again) == functrax.tree.structure(state)
    assert get_params(again)["x"].tolist() == get_params(state)["x"].tolist()
    with pytest.raises(PyTreeError, match="JoinPoint"):
        optimizers.pack_optimizer_state({"x": 1.0})


def test_gradients_of_another_structure():
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(PyTreeError, match="structure of the parameters"):
        update(0, [jnp.ones(2)], init((jnp.ones(2),)))


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (optimizers.constant(0.5), [0.5, 0.5, 0.5]),
        (optimizers.make_schedule(0.25), [0.25, 0.25, 0.25]),
        (optimizers.exponential_decay(1.0, 2, 0.25), [1.0, 0.5, 0.25**2]),
        (optimizers.inverse_time_decay(1.0, 1, 1.0), [1.0, 0.5, 0.2]),
        (optimizers.inverse_time_decay(1.0, 3, 1.0, staircase=True), [1.0, 1.0, 0.5]),
        (optimizers.polynomial_decay(1.0, 2, 0.5), [1.0, 0.75, 0.5]),
        (optimizers.piecewise_constant([0, 2], [3.0, 2.0, 1.0]), [3.0, 2.0, 1.0]),
    ],
)
def test_schedules(schedule, wanted):
    for run in (schedule, functrax.jit(schedule)):
        np.testing.assert_allclose([run(step) for step in (0, 1, 4)], wanted, rtol=1e-6)


def test_wrong_schedules():
    with pytest.raises(ShapeError, match="one value more"):
        optimizers.piecewise_constant([1, 2], [1.0, 2.0])
    with pytest.raises(ArgumentError, match="make_schedule"):
        optimizers.make_schedule([0.1, 0.2])


def test_norms_of_gradients():
    tree = {"a": jnp.array([3.0]), "b": jnp.array(4.0)}
    assert optimizers.l2_norm(tree) == 5.0
    assert optimizers.clip_grads(tree, 10.0)["b"] == 4.0
    np.testing.assert_allclose(optimizers.l2_norm(optimizers.clip_grads(tree, 1.0)), 1.0, rtol=1e-6)


def test_a_network_equals_the_recorded_one():
    init, apply = stax.serial(
        stax.Conv(4, (3, 3), padding="SAME"), stax.BatchNorm(), stax.Relu,
        stax.MaxPool((2, 2), (2, 2)), stax.ConvTranspose(3, (2, 2), (2, 2)),
        stax.AvgPool((2, 2), padding="SAME"), stax.FanOut(2),
        stax.parallel(stax.Identity, stax.Tanh), stax.FanInConcat(), stax.Dropout(0.9),
        stax.Flatten, stax.Dense(5), stax.LogSoftmax,
    )  # fmt: skip
    shape, params = init(functrax.random.PRNGKey(0), (2, 8, 8, 3))
    assert shape == (2, 5)
    inputs = jnp.sin(jnp.arange(2 * 8 * 8 * 3.0)).reshape(2, 8, 8, 3)
    out = functrax.jit(apply)(params, inputs, rng=functrax.random.PRNGKey(1))
    np.testing.assert_allclose(np.ravel(out), RECORDED["stax"], atol=1e-4)


@pytest.mark.parametrize(
    "layer",
    [
        stax.SumPool((2, 2)), stax.AvgPool((2, 2)), stax.Identity, stax.Softmax, stax.Gelu,
        stax.BatchNorm(axis=0, scale=False), stax.BatchNorm(center=False), stax.FanInSum,
        stax.shape_dependent(lambda shape: stax.Dense(shape[-1])), stax.Dropout(0.5, mode="test"),
        stax.SumPool((2, 2), spec="NHWC"),
    ],
)  # fmt: skip
def test_layers_give_the_shape_that_they_announce(layer):
    init, apply = layer
    given = (2, 4, 4, 3)
    several = layer is stax.FanInSum
    shape, params = init(functrax.random.key(0), [given, given] if several else given)
    x = jnp.ones(given)
    out = apply(params, [x, x] if several else x, rng=functrax.random.key(1))
    assert tuple(out.shape) == tuple(shape)


def test_dropout_needs_a_key():
    _, apply = stax.Dropout(0.5)
    with pytest.raises(ArgumentError, match="Dropout"):
        apply((), jnp.ones(2))


def test_old_import_paths():
    from functrax.experimental.optimizers import adam
    from functrax.experimental.stax import Dense

    from functrax.experimental import optimizers as old_optimizers, stax as old_stax

    assert old_optimizers is optimizers and old_stax is stax
    assert adam is optimizers.adam and Dense is stax.Dense
