"""Samples: JAX's numbers for the same keys, the same under every transformation, and refusals.

Integers and truth values, and floats made from bits alone, equal JAX's exactly.  Other floats go
through functions whose last bits differ between libraries: they may differ by a few units in the
last place.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.core.errors import ArgumentError, AxisError, DTypeError, FunctraxError, ShapeError
from tests.random import recorded

HERE = pathlib.Path(__file__).parent
TABLE = recorded.load(HERE / "data" / "samples.json")
KEY = random.key(0)


def case_name(case):
    arguments = ",".join(str(a) if not isinstance(a, dict) else "array" for a in case["args"])
    return f"{case['name']}({arguments}){case['kwargs'] or ''}{'x64' if case['x64'] else ''}"


def drawn(case, key):
    args = map(recorded.decoded, case["args"])
    kwargs = {name: recorded.decoded(v) for name, v in case["kwargs"].items()}
    return getattr(random, case["name"])(key, *args, **kwargs)


@pytest.mark.parametrize("entry", TABLE["seeds"], ids=lambda e: f"{e['seed']}-{e['x64']}")
def test_words_of_seeds(entry):
    with functrax.enable_x64(entry["x64"]):
        assert np.asarray(random.PRNGKey(entry["seed"])).tolist() == entry["words"]


@pytest.mark.parametrize("case", TABLE["cases"], ids=case_name)
def test_samples_are_those_of_jax(case):
    exact = (
        case["name"] == "uniform" and len(case["args"]) == 1 and not case["kwargs"].get("minval")
    )
    with functrax.enable_x64(case["x64"]):
        got = drawn(case, random.PRNGKey(case["seed"]))
    recorded.assert_close(got, recorded.decoded(case["out"]), 0 if exact else 4, scale=2.0)


TRANSFORMED = [
    lambda k: random.bits(k, (3,), "uint8"),
    lambda k: random.uniform(k, (2, 3), minval=-1.0, maxval=np.float32([1, 2, 3])),
    lambda k: random.normal(k, (5,)),
    lambda k: random.normal(k, (2,), complex),
    lambda k: random.truncated_normal(k, -1.0, 2.0, (4,)),
    lambda k: random.gumbel(k, (3,), mode="high"),
    lambda k: random.cauchy(k, (3,), "bfloat16"),
    lambda k: random.randint(k, (2, 2), np.int32([0, -5]), 10),
    lambda k: random.bernoulli(k, 0.3, (6,)),
    lambda k: random.categorical(k, np.zeros((2, 4), np.float32), shape=(3, 2)),
    lambda k: random.categorical(k, np.zeros(4, np.float32), shape=(3,), replace=False),
    lambda k: random.permutation(k, 6),
    lambda k: random.permutation(k, np.arange(6.0).reshape(2, 3), axis=1),
    lambda k: random.choice(k, 9, (4,), p=np.arange(1, 10) / 45.0),
    lambda k: random.choice(k, np.arange(9), (2, 2), replace=False),
    lambda k: random.double_sided_maxwell(k, 0.0, 1.0, (3,)),
    lambda k: random.fold_in(k, 3).words,
]


@pytest.mark.parametrize("sampler", TRANSFORMED)
def test_jit_equals_eager_and_vmap_equals_a_loop(sampler):
    keys = random.split(KEY, 3)
    one_by_one = [np.asarray(sampler(key)) for key in keys]
    assert np.asarray(functrax.jit(sampler)(keys[1])).tobytes() == one_by_one[1].tobytes()
    together = np.asarray(functrax.jit(functrax.vmap(sampler))(keys))
    assert together.tobytes() == np.stack(one_by_one).tobytes()
    raw = functrax.vmap(lambda words: sampler(random.wrap_key_data(words)))(random.key_data(keys))
    assert np.asarray(raw).tobytes() == together.tobytes()


def test_traced_parameters_equal_known_ones():
    low, high = np.int32(-3), np.int32(40)
    draw = functrax.jit(lambda lo, hi: random.randint(KEY, (5,), lo, hi))
    assert (
        np.asarray(draw(low, high)).tolist()
        == np.asarray(random.randint(KEY, (5,), -3, 40)).tolist()
    )
    p = np.float32([0.2, 0.8])
    batched = functrax.vmap(lambda q: random.bernoulli(KEY, q, (4,)))(p)
    assert np.asarray(batched).tolist() == [
        np.asarray(random.bernoulli(KEY, q, (4,))).tolist() for q in p
    ]


def test_reparameterised_gradients():
    slope = functrax.grad(lambda s: jnp.sum(random.normal(KEY, (4,)) * s))(2.0)
    np.testing.assert_allclose(slope, np.asarray(random.normal(KEY, (4,))).sum(), rtol=1e-6)

    def upper(b):
        return random.uniform(KEY, (), minval=0.0, maxval=b)

    np.testing.assert_allclose(functrax.grad(upper)(3.0), upper(1.0), rtol=1e-6)

    def bounded(b):
        return random.truncated_normal(KEY, -1.0, b)

    step = np.float32(1e-2)
    numeric = (bounded(1 + step) - bounded(1 - step)) / (2 * step)
    np.testing.assert_allclose(functrax.grad(bounded)(1.0), numeric, rtol=1e-2)


N = 20000
MOMENTS = [
    ("uniform", {}, 0.5, 1 / 12),
    ("normal", {}, 0.0, 1.0),
    ("exponential", {}, 1.0, 1.0),
    ("gumbel", {}, np.euler_gamma, np.pi**2 / 6),
    ("laplace", {}, 0.0, 2.0),
    ("logistic", {}, 0.0, np.pi**2 / 3),
    ("bernoulli", {"p": 0.3}, 0.3, 0.21),
    ("rademacher", {}, 0.0, 1.0),
    ("geometric", {"p": 0.4}, 2.5, 3.75),
    ("rayleigh", {"scale": 1.0}, np.sqrt(np.pi / 2), 2 - np.pi / 2),
    ("triangular", {"left": 0.0, "mode": 1.0, "right": 2.0}, 1.0, 1 / 6),
    ("pareto", {"b": 9.0}, 9 / 8, 9 / (64 * 7)),
    ("weibull_min", {"scale": 1.0, "concentration": 1.0}, 1.0, 1.0),
    ("lognormal", {"sigma": 0.5}, np.exp(0.125), (np.exp(0.25) - 1) * np.exp(0.25)),
    ("maxwell", {}, 2 * np.sqrt(2 / np.pi), 3 - 8 / np.pi),
    ("truncated_normal", {"lower": -1.0, "upper": 1.0}, 0.0, 0.29112509),
    ("randint", {"minval": -2, "maxval": 3}, 0.0, 2.0),
]


@pytest.mark.parametrize(("name", "parameters", "mean", "variance"), MOMENTS)
def test_moments(name, parameters, mean, variance):
    x = np.asarray(getattr(random, name)(random.key(5), shape=(N,), **parameters), np.float64)
    deviation = np.sqrt(variance / N)
    assert abs(x.mean() - mean) < 4 * deviation
    assert abs(x.var() - variance) < 0.1 * variance + 4 * variance * np.sqrt(2 / N)


def test_samples_keep_to_their_ranges():
    u = np.asarray(random.uniform(KEY, (N,), "bfloat16"), np.float32)
    assert u.min() >= 0 and u.max() < 1
    t = np.asarray(random.truncated_normal(KEY, -0.5, 0.25, (N,)))
    assert t.min() > -0.5 and t.max() < 0.25
    g = np.asarray(random.gumbel(KEY, (N,)))
    assert np.isfinite(g).all()
    d = np.asarray(random.randint(KEY, (N,), 0, 256, "uint8"))
    assert d.min() == 0 and d.max() == 255
    assert np.asarray(random.randint(KEY, (4,), 5, 2)).tolist() == [5] * 4


def test_categorical_and_choice_follow_probabilities():
    p = np.float32([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    for draws in (
        random.categorical(KEY, logits, shape=(N,)),
        random.choice(KEY, 4, (N,), p=p),
    ):
        share = np.bincount(np.asarray(draws), minlength=4) / N
        np.testing.assert_allclose(share, p, atol=0.02)
        assert share[1] == 0


def test_permutations_are_permutations():
    for size in (0, 1, 2, 1700):
        assert sorted(np.asarray(random.permutation(KEY, size)).tolist()) == list(range(size))
    x = np.arange(12).reshape(3, 4)
    rows = np.asarray(random.permutation(KEY, x))
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, x.tolist()))
    apart = np.asarray(random.permutation(KEY, x, axis=1, independent=True))
    assert np.sort(apart, axis=1).tolist() == x.tolist()
    chosen = np.asarray(random.choice(KEY, 50, (50,), replace=False))
    assert sorted(chosen.tolist()) == list(range(50))


def test_nothing_can_be_drawn():
    assert random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.choice(KEY, 0, (0,)).shape == (0,)
    assert random.choice(KEY, np.ones((4, 3)), (2, 0), axis=0).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: random.uniform(KEY, (-1,)), ShapeError, "negative"),
        (lambda: random.uniform(KEY, 2.5), ShapeError, "known integers"),
        (lambda: random.uniform(KEY, None), ShapeError, "known integers"),
        (lambda: random.uniform(KEY, (2,), int), DTypeError, "floating"),
        (lambda: random.uniform(KEY, (2,), minval=np.zeros(3)), ShapeError, "broadcast"),
        (lambda: random.normal(KEY, (2,), int), DTypeError, "complex"),
        (lambda: random.bits(KEY, (2,), "int32"), DTypeError, "unsigned"),
        (lambda: random.gumbel(KEY, (2,), mode="x"), ArgumentError, "mode"),
        (lambda: random.truncated_normal(KEY, 0, np.ones(3), (2,)), ShapeError, "broadcast"),
        (lambda: random.randint(KEY, (2,), 0, 3, float), DTypeError, "integer"),
        (lambda: random.randint(KEY, (2,), np.zeros(3, int), 3), ShapeError, "broadcast"),
        (lambda: random.randint(KEY, (2,), 0, 2**40), OverflowError, "too large"),
        (lambda: random.bernoulli(KEY, 1), DTypeError, "floating"),
        (lambda: random.bernoulli(KEY, np.ones(3, np.float32), (2,)), ShapeError, "broadcast"),
        (lambda: random.bernoulli(KEY, 0.5, mode="x"), ArgumentError, "mode"),
        (lambda: random.categorical(KEY, np.arange(3)), DTypeError, "floating"),
        (lambda: random.categorical(KEY, [0.0, 1.0]), DTypeError, "logits"),
        (lambda: random.categorical(KEY, np.zeros(3), axis=1), AxisError, "axis"),
        (lambda: random.categorical(KEY, np.zeros((2, 3)), shape=(5, 3)), ShapeError, "broadcast"),
        (
            lambda: random.categorical(KEY, np.zeros(3), shape=(5,), replace=False),
            ShapeError,
            "more draws",
        ),
        (lambda: random.permutation(KEY, 2.5), DTypeError, "integer"),
        (lambda: random.permutation(KEY, np.arange(3), axis=1), AxisError, "axis"),
        (lambda: random.choice(KEY, 5, 2), ShapeError, "sequence"),
        (lambda: random.choice(KEY, 0, (2,)), ShapeError, "nothing"),
        (lambda: random.choice(KEY, 3, (4,), replace=False), ShapeError, "more to choose"),
        (lambda: random.choice(KEY, 3, (4,), p=np.ones(2)), ShapeError, "probability"),
        (lambda: random.choice(KEY, np.ones((2, 2)), (4,), axis=2), AxisError, "axis"),
    ],
)
def test_misuse(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call()
    assert isinstance(caught.value, FunctraxError)
    assert caught.value.got and caught.value.where
