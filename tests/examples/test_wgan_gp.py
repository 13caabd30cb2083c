"""The WGAN-GP example's losses and their gradients, against NumPy written by hand, in float64."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import random

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

Params = list[dict[str, np.ndarray]]
SIZES = (6, 5, 4, 1)
EXAMPLE = Path(__file__).parents[2] / "examples" / "wgan_gp.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wgan_gp", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def random_critic(rng: np.random.Generator) -> Params:
    sizes = itertools.pairwise(SIZES)
    return [{"w": rng.normal(size=(m, n)), "b": rng.normal(size=n)} for m, n in sizes]


def scores_and_slopes(params: Params, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The critic's scores (n,), and by back-propagation their gradients by the images (n, 6)."""
    slopes_of_units = []
    for layer in params[:-1]:
        x = x @ layer["w"] + layer["b"]
        slopes_of_units.append(np.where(x >= 0, 1.0, 0.2))
        x = x * slopes_of_units[-1]
    scores = (x @ params[-1]["w"] + params[-1]["b"])[:, 0]
    slopes = np.broadcast_to(params[-1]["w"][:, 0], x.shape)
    for layer, s in zip(params[-2::-1], slopes_of_units[::-1]):
        slopes = (slopes * s) @ layer["w"].T
    return scores, slopes


def penalty(params: Params, x: np.ndarray) -> float:
    norms = np.linalg.norm(scores_and_slopes(params, x)[1], axis=1)
    return float(np.mean((norms - 1) ** 2))


def loss(params: Params, real: np.ndarray, fake: np.ndarray, alpha: np.ndarray) -> float:
    means = [scores_and_slopes(params, x)[0].mean() for x in (real, fake)]
    return float(means[1] - means[0] + 10 * penalty(params, alpha * real + (1 - alpha) * fake))


def assert_gradient(gradient: Any, function: Any, params: Params, step: float = 1e-6) -> None:
    """Compare every element with a central difference; no unit changes its side within a step."""
    for layer, found in zip(params, gradient):
        for name, array in layer.items():
            expected = np.zeros_like(array)
            for at in np.ndindex(array.shape):
                middle = array[at]
                array[at] = middle + step
                above = function(params)
                array[at] = middle - step
                expected[at] = (above - function(params)) / (2 * step)
                array[at] = middle
            assert found[name].dtype == np.float64
            np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7)


def test_the_penalty_and_its_gradient(example: ModuleType, rng: np.random.Generator) -> None:
    params, x = random_critic(rng), rng.normal(size=(7, 6))
    with functrax.enable_x64(True):
        value, gradient = functrax.jit(functrax.value_and_grad(example.gradient_penalty))(params, x)
    np.testing.assert_allclose(value, penalty(params, x), rtol=1e-12)
    assert_gradient(gradient, lambda p: penalty(p, x), params)


def test_the_critic_loss_and_its_gradient(example: ModuleType, rng: np.random.Generator) -> None:
    params, real, fake = random_critic(rng), rng.normal(size=(7, 6)), rng.normal(size=(7, 6))
    alpha = rng.uniform(size=(7, 1))
    with functrax.enable_x64(True):
        differentiate = functrax.value_and_grad(example.critic_loss, has_aux=True)
        (value, (distance, part)), gradient = functrax.jit(differentiate)(params, real, fake, alpha)
    np.testing.assert_allclose(value, loss(params, real, fake, alpha), rtol=1e-12)
    np.testing.assert_allclose(value, 10 * part - distance, rtol=1e-12)
    assert_gradient(gradient, lambda p: loss(p, real, fake, alpha), params)


def test_the_generator(example: ModuleType, rng: np.random.Generator) -> None:
    z = rng.normal(size=(8, 3))
    with functrax.enable_x64(True):
        params = example.init_generator(random.key(1), (3, 4, 5, 6))
        params = [{k: np.array(v, np.float64) for k, v in layer.items()} for layer in params]
        params[1]["gain"] += rng.normal(size=5)
        found = example.generator(params, z)
    x = z @ params[0]["w"] + params[0]["b"]
    x = np.where(x >= 0, x, 0.2 * x) @ params[1]["w"] + params[1]["b"]
    x = (x - x.mean(0)) / np.sqrt(x.var(0) + 0.8) * params[1]["gain"] + params[1]["shift"]
    expected = np.tanh(np.where(x >= 0, x, 0.2 * x) @ params[2]["w"] + params[2]["b"])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert [len(layer) for layer in params] == [2, 4, 2]  # a norm between the first and the last


def test_the_numbers_of_parameters(example: ModuleType) -> None:
    assert example.count(example.init_generator(random.key(0))) == 1_510_032
    assert example.count(example.init_critic(random.key(0))) == 533_505


def test_initial_weights_fill_their_range(example: ModuleType) -> None:
    layer = example.init_linear(random.key(0), 25, 400)
    for array in (np.asarray(layer["w"]), np.asarray(layer["b"])):
        assert -0.2 <= array.min() < -0.19 and 0.19 < array.max() <= 0.2


def test_enlarging_interpolates_between_pixel_centres(example: ModuleType) -> None:
    column = np.array([0.0, 1.0])
    image = np.stack([column, column], axis=1)[None]
    found = example.enlarged(image, 4)[0]
    np.testing.assert_allclose(found, np.outer([0.0, 0.25, 0.75, 1.0], np.ones(4)))


def test_each_pass_of_the_batches_has_every_image_once(example: ModuleType) -> None:
    images = np.arange(150)
    stream = example.batches(random.key(3), images)
    passes = [[next(stream) for _ in range(3)] for _ in range(2)]
    for batches in passes:
        assert [len(b) for b in batches] == [64, 64, 22]
        np.testing.assert_array_equal(np.sort(np.concatenate(batches)), images)
    assert not np.array_equal(passes[0][0], passes[1][0])
