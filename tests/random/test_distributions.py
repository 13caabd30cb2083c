"""The distributions of samples: moments, distribution functions by SciPy, and ranges."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import functrax
import functrax.numpy as jnp
from functrax import random

KEY = random.key(0)
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


CONTINUOUS = [
    ("cauchy", (), stats.cauchy()),
    ("gamma", (0.3,), stats.gamma(0.3)),
    ("gamma", (1.0,), stats.gamma(1.0)),
    ("gamma", (30.0,), stats.gamma(30.0)),
    ("loggamma", (0.05,), stats.loggamma(0.05)),
    ("loggamma", (4.0,), stats.loggamma(4.0)),
    ("beta", (0.5, 0.7), stats.beta(0.5, 0.7)),
    ("beta", (3.0, 9.0), stats.beta(3.0, 9.0)),
    ("chisquare", (1.0,), stats.chi2(1.0)),
    ("chisquare", (7.5,), stats.chi2(7.5)),
    ("f", (3.0, 8.0), stats.f(3.0, 8.0)),
    ("t", (2.5,), stats.t(2.5)),
    ("generalized_normal", (0.8,), stats.gennorm(0.8)),
    ("generalized_normal", (3.0,), stats.gennorm(3.0)),
    ("wald", (0.4,), stats.invgauss(0.4)),
    ("wald", (5.0,), stats.invgauss(5.0)),
    ("pareto", (2.5,), stats.pareto(2.5)),
    ("weibull_min", (2.0, 1.7), stats.weibull_min(1.7, scale=2.0)),
    ("rayleigh", (1.5,), stats.rayleigh(scale=1.5)),
    ("maxwell", (), stats.maxwell()),
    ("truncated_normal", (-0.5, 1.5), stats.truncnorm(-0.5, 1.5)),
]


@pytest.mark.parametrize(("name", "parameters", "expected"), CONTINUOUS)
def test_distribution_functions(name, parameters, expected):
    x = np.asarray(getattr(random, name)(random.key(11), *parameters, shape=(5000,)), np.float64)
    assert stats.kstest(x, expected.cdf).pvalue > 1e-3


DISCRETE = [
    ("poisson", (0.4,), stats.poisson(0.4)),
    ("poisson", (6.0,), stats.poisson(6.0)),
    ("poisson", (10.0,), stats.poisson(10.0)),
    ("poisson", (45.0,), stats.poisson(45.0)),
    ("binomial", (7, 0.3), stats.binom(7, 0.3)),
    ("binomial", (7, 0.8), stats.binom(7, 0.8)),
    ("binomial", (60, 0.4), stats.binom(60, 0.4)),
    ("binomial", (500, 0.97), stats.binom(500, 0.97)),
    ("geometric", (0.3,), stats.geom(0.3)),
]


@pytest.mark.parametrize(("name", "parameters", "expected"), DISCRETE)
def test_probabilities_of_counts(name, parameters, expected):
    drawn = np.asarray(getattr(random, name)(random.key(2), *parameters, shape=(N,)), np.int64)
    counts = np.bincount(drawn)
    probabilities = expected.pmf(np.arange(len(counts)))
    likely = probabilities * N >= 5
    seen = np.append(counts[likely], counts[~likely].sum())
    wanted = np.append(probabilities[likely], 1 - probabilities[likely].sum()) * N
    assert stats.chisquare(seen, wanted).pvalue > 1e-3


def test_dirichlet_vectors_have_the_sum_one_and_beta_margins():
    alpha = np.float32([0.5, 1.0, 3.5])
    drawn = np.asarray(random.dirichlet(random.key(1), alpha, (4000,)), np.float64)
    np.testing.assert_allclose(drawn.sum(-1), 1.0, rtol=1e-6)
    for i, a in enumerate(alpha):
        assert stats.kstest(drawn[:, i], stats.beta(a, alpha.sum() - a).cdf).pvalue > 1e-3


def test_multinomial_counts_add_up_and_have_binomial_margins():
    p = np.float32([0.2, 0.5, 0.0, 0.3])
    drawn = np.asarray(random.multinomial(KEY, 40, p, shape=(4000, 4)))
    assert (drawn.sum(-1) == 40).all() and (drawn[:, 2] == 0).all()
    np.testing.assert_allclose(drawn.mean(0), 40 * p, atol=0.2)
    np.testing.assert_allclose(drawn.var(0), 40 * p * (1 - p), rtol=0.1)


@pytest.mark.parametrize("p", [1.0, 2.0, 5.0])
def test_balls_are_filled_evenly(p):
    drawn = np.asarray(random.ball(KEY, 3, p, (4000,)), np.float64)
    radius = (np.abs(drawn) ** p).sum(-1) ** (1 / p)
    assert radius.max() <= 1 + 1e-6
    assert stats.kstest(radius**3, "uniform").pvalue > 1e-3
    np.testing.assert_allclose(drawn.mean(0), 0, atol=0.03)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_orthogonal_matrices_are_orthogonal(n, m, dtype):
    q = np.asarray(random.orthogonal(KEY, n, (500,), dtype, m))
    assert q.shape == (500, n, m) and q.dtype == dtype
    small = q @ q.conj().swapaxes(-1, -2) if n <= m else q.conj().swapaxes(-1, -2) @ q
    np.testing.assert_allclose(small, np.broadcast_to(np.eye(min(n, m)), small.shape), atol=1e-5)
    np.testing.assert_allclose(q.mean(0), 0, atol=0.12)
    np.testing.assert_allclose((np.abs(q) ** 2).mean(0), 1 / max(n, m), atol=0.06)


def test_counts_of_impossible_parameters():
    with functrax.debug_nans(False):
        n, p = np.float32([-1, np.nan, 5, 5, np.inf]), np.float32([0.5, 0.5, -0.1, np.nan, 0.5])
        drawn = np.asarray(random.binomial(KEY, n, p))
    assert np.isnan(drawn[:4]).all() and drawn[4] == np.inf
    assert np.asarray(random.binomial(KEY, 7, np.float32([0, 1]))).tolist() == [0, 7]
    assert np.asarray(random.poisson(KEY, np.float32([0, 0]))).tolist() == [0, 0]


def test_small_parameters_do_not_vanish_in_logarithms():
    logs = np.asarray(random.loggamma(KEY, 1e-4, (1000,)))
    assert np.isfinite(logs).all() and logs.min() < -1000
    shares = np.asarray(random.beta(KEY, 1e-4, 1e-4, (1000,)))
    assert np.isfinite(shares).all()
    ordinary = np.asarray(random.gamma(KEY, 0.7, (100,)))
    np.testing.assert_allclose(np.exp(random.loggamma(KEY, 0.7, (100,))), ordinary, rtol=1e-4)


@pytest.mark.parametrize("a", [0.2, 1.0, 6.0, 250.0])
def test_derivatives_of_gamma_samples_move_along_the_distribution_function(a):
    with functrax.enable_x64(True):
        x, slope = functrax.jvp(lambda a: random.gamma(KEY, a, (20,)), (a,), (1.0,))
        _, log_slope = functrax.jvp(lambda a: random.loggamma(KEY, a, (20,)), (a,), (1.0,))
    x, step = np.asarray(x), 1e-4 * a
    level = stats.gamma(a).cdf(x)
    numeric = (stats.gamma(a + step).ppf(level) - stats.gamma(a - step).ppf(level)) / (2 * step)
    safe = (level > 1e-6) & (level < 1 - 1e-6)
    assert safe.sum() > 15
    np.testing.assert_allclose(np.asarray(slope)[safe], numeric[safe], rtol=1e-4)
    np.testing.assert_allclose(np.asarray(log_slope) * x, slope, rtol=1e-9)


def test_derivatives_through_samplers_made_of_gamma():
    def mean(a):
        return jnp.mean(random.beta(KEY, a, 2.0, (4000,)))

    np.testing.assert_allclose(functrax.grad(mean)(3.0), 2 / 25, rtol=0.05)
    slope = functrax.grad(lambda df: jnp.mean(random.chisquare(KEY, df, (4000,))))(3.0)
    np.testing.assert_allclose(slope, 1.0, rtol=0.05)
    jacobian = functrax.jacrev(lambda a: random.dirichlet(KEY, a, (2000,)).mean(0))
    alpha = np.float32([1.0, 2.0, 3.0])
    np.testing.assert_allclose(jacobian(alpha), np.eye(3) / 6 - alpha[:, None] / 36, atol=0.01)
    assert float(functrax.grad(lambda p: random.binomial(KEY, 9, p))(0.4)) == 0
