"""The examples about derivatives: each number they print equals the exact one beside it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random

Load = Callable[[str], ModuleType]
STOPS = [
    "gradients",
    "jacobians",
    "second_derivatives",
    "through_programs",
    "constants_and_signs",
    "vectorised",
]


@pytest.mark.parametrize("stop", STOPS)
def test_every_number_of_the_tour(load_example: Load, stop: str) -> None:
    tour = load_example("autodiff_tour")
    assert [f.__name__ for f in tour.STOPS] == STOPS
    with functrax.enable_x64(True):
        rows = list(getattr(tour, stop)())
    for what, found, exact in rows:
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-15, err_msg=what)
        assert np.shape(found) == np.shape(exact), what
    assert len(rows) >= 2


def test_the_tour_prints_its_rows(load_example: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("autodiff_tour").main()
    printed = capsys.readouterr().out
    assert printed.count("error") >= 25
    assert "tanh a" in printed


def test_every_number_of_the_custom_rules(load_example: Load) -> None:
    rules = load_example("custom_rules")
    with functrax.enable_x64(True):
        rows = list(rules.numbers())
        assert np.isnan(functrax.grad(rules.naive_log1pexp)(1000.0))
    for what, found, exact in rows:
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-15, err_msg=what)
    assert len(rows) == 13


def test_a_rounded_slope_is_trained(load_example: Load) -> None:
    before, after, slope = load_example("custom_rules").quantised_fit()
    assert before > 10 and after == 0 and slope == 3


@pytest.fixture
def examples(load_example: Load) -> tuple[ModuleType, dict[str, np.ndarray], tuple[object, ...]]:
    module = load_example("per_example_gradients")
    xs, ys, flipped = module.data(random.key(3), 128)
    params = {"w": random.normal(random.key(4), (module.FEATURES,)), "b": jnp.float32(0.3)}
    return module, params, (xs, ys, flipped)


def test_gradients_of_single_examples(examples) -> None:
    module, params, (xs, ys, _) = examples
    found = module.per_example_gradients(params, xs, ys)
    assert found["w"].shape == (128, module.FEATURES) and found["b"].shape == (128,)
    for other in (module.closed_form(params, xs, ys), module.looped_gradients(params, xs, ys)):
        for name, gradient in found.items():
            np.testing.assert_allclose(gradient, other[name], atol=2e-6)
    whole = functrax.grad(module.mean_loss)(params, xs, ys)
    for name, gradient in found.items():
        np.testing.assert_allclose(jnp.mean(gradient, axis=0), whole[name], atol=1e-6)
    squares = np.sum(np.square(found["w"]), axis=1) + np.square(found["b"])
    np.testing.assert_allclose(module.lengths(found), np.sqrt(squares), rtol=1e-5)


def test_long_gradients_are_wrong_labels_and_private_training_learns(examples) -> None:
    module, _, (xs, ys, flipped) = examples
    params = module.train(xs, ys, 200)
    lengths = np.asarray(module.lengths(module.per_example_gradients(params, xs, ys)))
    flipped = np.asarray(flipped)
    assert flipped.sum() >= 3
    assert lengths[flipped].min() > np.median(lengths[~flipped])
    private = module.train(xs, ys, 100, random.key(5))
    assert module.accuracy(private, xs, (ys > 0.5) ^ flipped) > 0.85


def test_no_example_moves_a_private_step_far(examples, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, (xs, ys, _) = examples
    monkeypatch.setattr(module, "NOISE", 0.0)
    far = xs.at[0].multiply(1e4)
    step = functrax.jit(lambda *args: module.private_step(*args))
    moved = [step(module.initial(), x, ys, random.key(0)) for x in (xs, far)]
    change = np.hypot(np.linalg.norm(moved[0]["w"] - moved[1]["w"]), moved[0]["b"] - moved[1]["b"])
    assert 0 < change <= 2 * module.RATE * module.CLIP / len(xs) + 1e-6


@pytest.fixture
def hessians(load_example: Load) -> ModuleType:
    return load_example("hessian_vector_products")


def test_products_equal_those_of_the_full_hessian(hessians: ModuleType) -> None:
    with functrax.enable_x64(True):
        loss, x = hessians.problem(random.key(1), 4)
        H = np.asarray(functrax.hessian(loss)(x))
        v = np.asarray(random.normal(random.key(2), x.shape))
        products = [functrax.jit(p, static_argnums=0)(loss, x, v) for p in hessians.PRODUCTS]
    np.testing.assert_allclose(H, H.T, atol=1e-14)
    assert len(products) == 3
    for product in products:
        np.testing.assert_allclose(product, H @ v, rtol=1e-10, atol=1e-13)


def test_conjugate_gradients_solve(hessians: ModuleType) -> None:
    root = np.random.default_rng(0).normal(size=(8, 8))
    A = root @ root.T + np.eye(8)
    b = np.arange(1.0, 9.0)
    with functrax.enable_x64(True):
        found = hessians.conjugate_gradients(lambda v: jnp.asarray(A) @ v, jnp.asarray(b))
    np.testing.assert_allclose(found, np.linalg.solve(A, b), rtol=1e-7)


def test_a_newton_step_is_that_of_the_full_hessian(hessians: ModuleType) -> None:
    with functrax.enable_x64(True):
        loss, x = hessians.problem(random.key(1), 3)
        H, g = np.asarray(functrax.hessian(loss)(x)), np.asarray(functrax.grad(loss)(x))
        damping = 0.1 - np.linalg.eigvalsh(H)[0]
        found = hessians.newton_step(loss, x, damping)
    expected = np.asarray(x) - np.linalg.solve(H + damping * np.eye(len(g)), g)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_estimates_of_a_quadratic_form(hessians: ModuleType) -> None:
    A = np.diag([1.0, 2.0, 5.0, 9.0])
    A[0, 3] = A[3, 0] = 0.5
    with functrax.enable_x64(True):
        f = lambda x: 0.5 * x @ jnp.asarray(A) @ x
        x = jnp.ones(4)
        diagonal, trace = hessians.hutchinson(f, x, random.key(0), 400)
        top = hessians.lanczos(f, x, random.key(1), 4)
    np.testing.assert_allclose(np.asarray(diagonal)[1:3], [2, 5], rtol=1e-12)  # signs cancel
    assert abs(trace - 17) < 0.2
    np.testing.assert_allclose(top, np.linalg.eigvalsh(A)[-1], rtol=1e-10)
