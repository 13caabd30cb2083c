"""Samples: the same under every transformation, their derivatives, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.core.errors.typed import (
    ArgumentError,
    AxisError,
    DTypeError,
    FunctraxError,
    ShapeError,
)
from functrax.core.options.config import Override
from tests.thinning import one_in

KEY = random.key(0)
strict_mode = Override("strict", True)


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
    lambda k: random.gamma(k, np.float32([0.3, 4.0]), (3, 2)),
    lambda k: random.loggamma(k, 0.1, (4,), "bfloat16"),
    lambda k: random.beta(k, 0.5, 2.0, (3,)),
    lambda k: random.dirichlet(k, np.float32([1.0, 2.0])),
    lambda k: random.t(k, 3.0, (4,)),
    lambda k: random.wald(k, 2.0, (4,)),
    lambda k: random.poisson(k, np.float32([2.0, 30.0])),
    lambda k: random.binomial(k, 40, np.float32([0.1, 0.7])),
    lambda k: random.multinomial(k, 9, np.float32([0.5, 0.25, 0.25])),
    lambda k: random.ball(k, 3),
    lambda k: random.orthogonal(k, 2),
    lambda k: random.fold_in(k, 3).words,
]


@pytest.mark.parametrize("sampler", one_in(4, TRANSFORMED))
@strict_mode
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


def test_keys_are_permuted_and_chosen():
    keys = random.split(KEY, 5)
    rows = np.asarray(random.key_data(keys)).tolist()
    order = np.asarray(random.permutation(KEY, np.zeros((5, 1), int) + np.arange(5)[:, None]))
    shuffled = random.permutation(KEY, keys)
    assert np.asarray(random.key_data(shuffled)).tolist() == [rows[i] for i in order[:, 0]]
    for options in ({}, {"p": np.float32([0.1, 0.2, 0.3, 0.2, 0.2])}):
        chosen = random.choice(KEY, keys, (2, 2), **options)
        places = np.asarray(random.choice(KEY, 5, (2, 2), **options))
        words = np.asarray(random.key_data(chosen)).reshape(4, 2).tolist()
        assert chosen.shape == (2, 2) and words == [rows[i] for i in places.ravel()]


def test_nothing_can_be_drawn():
    assert random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.choice(KEY, 0, (0,)).shape == (0,)
    assert random.choice(KEY, np.ones((4, 3)), (2, 0), axis=0).shape == (2, 0, 3)
    assert random.gamma(KEY, 1.0, (0, 3)).shape == (0, 3)
    assert random.dirichlet(KEY, np.ones((0, 3))).shape == (0, 3)
    assert random.dirichlet(KEY, np.ones((2, 0))).shape == (2, 0)
    assert random.poisson(KEY, 3.0, (0,)).shape == random.binomial(KEY, 3, 0.5, (0,)).shape == (0,)
    assert random.multinomial(KEY, 3, np.ones((2, 0))).shape == (2, 0)
    assert random.orthogonal(KEY, 0).shape == (0, 0) and random.ball(KEY, 0).shape == (0,)


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
            "Number of samples",
        ),
        (lambda: random.permutation(KEY, 2.5), DTypeError, "integer"),
        (lambda: random.permutation(KEY, np.arange(3), axis=1), AxisError, "axis"),
        (lambda: random.choice(KEY, 5, 2), ShapeError, "sequence"),
        (lambda: random.choice(KEY, 0, (2,)), ShapeError, "nothing"),
        (lambda: random.choice(KEY, 3, (4,), replace=False), ShapeError, "more to choose"),
        (lambda: random.choice(KEY, 3, (4,), p=np.ones(2)), ShapeError, "probability"),
        (lambda: random.choice(KEY, np.ones((2, 2)), (4,), axis=2), AxisError, "axis"),
        (lambda: random.choice(KEY, random.split(KEY), (4,), axis=1), AxisError, "axis"),
        (
            lambda: random.permutation(KEY, random.split(KEY, (2, 2)), independent=True),
            ArgumentError,
            "together",
        ),
        (lambda: random.gamma(KEY, 1.0, (2,), int), DTypeError, "floating"),
        (lambda: random.gamma(KEY, np.ones(3), (2,)), ShapeError, "broadcast"),
        (lambda: random.gamma(KEY, np.ones(3), (3, 1)), ShapeError, "broadcast"),
        (lambda: random.loggamma(KEY, "a"), DTypeError, "parameter of loggamma"),
        (lambda: random.gamma(3, 1.0), DTypeError, "not a key"),
        (lambda: random.beta(KEY, np.ones(3), np.ones(2)), ShapeError, "broadcast"),
        (lambda: random.dirichlet(KEY, 1.0), ShapeError, "not a vector"),
        (lambda: random.dirichlet(KEY, np.ones((2, 3)), (3,)), ShapeError, "broadcast"),
        (lambda: random.chisquare(KEY, 1.0, (-1,)), ShapeError, "negative"),
        (lambda: random.f(KEY, 1.0, np.ones(2), (3,)), ShapeError, "broadcast"),
        (lambda: random.t(KEY, 1.0, (2,), "complex64"), DTypeError, "floating"),
        (lambda: random.wald(KEY, 1.0, 2.5), ShapeError, "known integers"),
        (lambda: random.poisson(KEY, 1.0, (2,), float), DTypeError, "integer"),
        (lambda: random.poisson(KEY, np.ones(3), (2,)), ShapeError, "broadcast"),
        (lambda: random.binomial(KEY, 3, 0.5, (2,), int), DTypeError, "floating"),
        (lambda: random.binomial(KEY, np.ones(3), np.ones(2)), ShapeError, "broadcast"),
        (lambda: random.binomial(random.split(KEY), 3, 0.5), ShapeError, "single key"),
        (lambda: random.multinomial(KEY, 3, 0.5), ShapeError, "not a vector"),
        (lambda: random.multinomial(KEY, np.ones(2), np.ones(3)), ShapeError, "broadcast"),
        (lambda: random.orthogonal(KEY, -1), ShapeError, "negative"),
        (lambda: random.orthogonal(KEY, 2.5), ShapeError, "known integers"),
        (lambda: random.orthogonal(KEY, 2, (), int), DTypeError, "complex"),
        (lambda: random.ball(KEY, -2), ShapeError, "negative"),
        (lambda: random.ball(KEY, 2, 2, (-1,)), ShapeError, "negative"),
        (lambda: random.generalized_normal(KEY, 2, (2,), int), DTypeError, "floating"),
    ],
)
def test_misuse(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call()
    assert isinstance(caught.value, FunctraxError)
    assert caught.value.got and caught.value.where
