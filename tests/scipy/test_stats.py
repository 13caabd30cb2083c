"""functrax.scipy.stats against SciPy, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.stats as wanted

import functrax
import functrax.numpy as jnp
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, FunctraxError, ShapeError
from functrax.scipy import stats

RNG = np.random.default_rng(0)
Q = np.array([0.0, 0.01, 0.3, 0.5, 0.9, 1.0, -0.1, 1.1])
WIDE = np.array([-30.0, -2.5, -0.7, -0.1, 0.2, 0.9, 1.3, 3.0, 25.0])
COUNTS = np.array([-1.0, 0.0, 1.0, 2.0, 3.5, 4.0, 7.0, 30.0])

#: Shape parameters, all functions, and whether there are a location and a scale.
CONTINUOUS: dict[str, tuple[tuple[float, ...], str, bool]] = {
    "norm": ((), "logpdf pdf cdf logcdf sf logsf ppf isf", True),
    "uniform": ((), "logpdf pdf cdf ppf", True),
    "expon": ((), "logpdf pdf cdf logcdf sf logsf ppf", True),
    "gamma": ((1.7,), "logpdf pdf cdf logcdf sf logsf", True),
    "chi2": ((3.2,), "logpdf pdf cdf logcdf sf logsf", True),
    "beta": ((1.7, 2.3), "logpdf pdf cdf logcdf sf logsf", True),
    "t": ((3.5,), "logpdf pdf", True),
    "cauchy": ((), "logpdf pdf cdf logcdf sf logsf ppf isf", True),
    "laplace": ((), "logpdf pdf cdf", True),
    "logistic": ((), "logpdf pdf cdf sf ppf isf", True),
    "pareto": ((2.4,), "logpdf pdf cdf logcdf sf logsf ppf", True),
    "gumbel_r": ((), "logpdf pdf cdf logcdf sf logsf ppf", True),
    "gumbel_l": ((), "logpdf pdf cdf logcdf sf logsf ppf", True),
    "gennorm": ((1.6,), "logpdf pdf cdf", True),
    "truncnorm": ((-0.8, 2.1), "logpdf pdf cdf logcdf sf logsf", True),
    "vonmises": ((1.3,), "logpdf pdf", False),
    "wrapcauchy": ((0.4,), "logpdf pdf", False),
}
DISCRETE: dict[str, tuple[tuple[float, ...], str]] = {
    "poisson": ((2.5,), "logpmf pmf cdf"),
    "bernoulli": ((0.3,), "logpmf pmf cdf"),
    "binom": ((7.0, 0.3), "logpmf pmf"),
    "betabinom": ((7.0, 1.2, 2.5), "logpmf pmf"),
    "geom": ((0.3,), "logpmf pmf"),
    "nbinom": ((4.0, 0.3), "logpmf pmf"),
}


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def near(got: Any, want: Any, rtol: float = 1e-8) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=1e-12)


CASES = [(n, f) for n, (_, fs, _) in CONTINUOUS.items() for f in fs.split()]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "function"), CASES)
def test_continuous(name: str, function: str) -> None:
    shapes, _, located = CONTINUOUS[name]
    f, g = (getattr(getattr(m, name), function) for m in (stats, wanted))
    x = Q if function in ("ppf", "isf") else WIDE
    if name in ("vonmises", "wrapcauchy"):
        x = np.abs(x) % 6.2 if name == "vonmises" else x
    near(f(x, *shapes), g(x, *shapes))
    assert f(jnp.float32(0.3), *shapes).dtype == np.float32
    if not located:
        return
    near(f(x, *shapes, 0.4, 1.5), g(x, *shapes, 0.4, 1.5))
    near(f(x, *shapes, scale=2.0), g(x, *shapes, scale=2.0))
    assert np.isnan(np.asarray(f(x, *shapes, 0.0, -1.0))).all()


@pytest.mark.parametrize(("name", "function"), CASES)
def test_continuous_derivatives(name: str, function: str) -> None:
    shapes, _, located = CONTINUOUS[name]
    f = getattr(getattr(stats, name), function)
    x = 0.35 if function in ("ppf", "isf") or name == "uniform" else 0.77
    x = 2.3 if name == "pareto" and function != "ppf" else x
    args = [x, *shapes, *((-0.1, 1.2) if located else ())]
    near_derivatives(f, args, name not in ("gamma", "chi2", "beta", "gennorm"))
    if located and function not in ("ppf", "isf"):  # outside the support it is 0
        slope = functrax.grad(f)(-9.0, *args[1:])
        assert np.isfinite(float(slope))


def near_derivatives(f: Any, args: list[float], of_shapes: bool) -> None:
    count = len(args) if of_shapes else 1
    got = functrax.grad(f, tuple(range(count)))(*map(jnp.float64, args))
    for i in range(count):
        high, low = ([a + (i == j) * s for j, a in enumerate(args)] for s in (1e-6, -1e-6))
        near(got[i], (float(f(*high)) - float(f(*low))) / 2e-6, 1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "function"), [(n, f) for n, (_, fs) in DISCRETE.items() for f in fs.split()]
)
def test_discrete(name: str, function: str) -> None:
    shapes, _ = DISCRETE[name]
    f, g = (getattr(getattr(m, name), function) for m in (stats, wanted))
    near(f(COUNTS, *shapes), g(COUNTS, *shapes))
    near(f(COUNTS, *shapes, loc=1), g(COUNTS, *shapes, loc=1))
    i = len(shapes) - 1
    near_derivatives(lambda p: f(1.0, *shapes[:i], p), [shapes[i]], True)


def test_bernoulli_inverse() -> None:
    near(stats.bernoulli.ppf(Q, 0.3), wanted.bernoulli.ppf(Q, 0.3))


def test_names_and_refused_arguments() -> None:
    near(stats.gamma.pdf(1.0, a=2.0, scale=3.0), wanted.gamma.pdf(1.0, a=2.0, scale=3.0))
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        stats.gamma.pdf(1.0)
    with pytest.raises(FunctraxError, match=r"gamma\.pdf"):
        stats.gamma.pdf("x", 1.0)
    assert stats.norm.pdf.__name__ == "pdf"
    near(functrax.jit(functrax.vmap(stats.norm.cdf))(WIDE), wanted.norm.cdf(WIDE))


def test_truncated_normal_far_in_the_tails() -> None:
    for a, b in ((5.0, 8.0), (-9.0, -6.0), (-np.inf, 2.0), (1.0, np.inf)):
        x = np.linspace(max(a, -9.0), min(b, 9.0), 5)
        for function in ("logpdf", "logcdf", "logsf"):
            got, want = (getattr(m.truncnorm, function)(x, a, b) for m in (stats, wanted))
            near(got[1:-1], want[1:-1], 1e-7)


def test_multivariate_normal() -> None:
    root = RNG.normal(size=(3, 3))
    cov, mean, x = root @ root.T + np.eye(3), RNG.normal(size=3), RNG.normal(size=(5, 3))
    f, g = stats.multivariate_normal, wanted.multivariate_normal
    near(f.logpdf(x, mean, cov), g.logpdf(x, mean, cov))
    near(f.pdf(x[0], mean, cov), g.pdf(x[0], mean, cov))
    near(f.logpdf(x, mean, 2.0), g.logpdf(x, mean, 2.0))
    near(f.logpdf(x[0], 0.5, 2.0), g.logpdf(x[0], 0.5, 2.0))
    stacked = np.stack([cov, 2 * cov])
    near(f.logpdf(x[0], mean, stacked), [g.logpdf(x[0], mean, c) for c in stacked])
    near_derivatives(lambda s: f.logpdf(x[0], mean, cov + s * np.ones((3, 3))), [0.3], True)
    with pytest.raises(ShapeError, match="the sizes do not go together"):
        f.logpdf(x, mean, cov[:2, :2])
    with pytest.raises(ArgumentError, match="singular"):
        f.logpdf(x, mean, cov, allow_singular=True)


def test_dirichlet_and_multinomial() -> None:
    alpha, p = np.array([1.2, 2.0, 0.7]), np.array([0.2, 0.5, 0.3])
    near(stats.dirichlet.logpdf(p, alpha), wanted.dirichlet.logpdf(p, alpha))
    near(stats.dirichlet.pdf(p[:2], alpha), wanted.dirichlet.pdf(p[:2], alpha))
    rows = np.stack([p, p[::-1]], 1)
    near(stats.dirichlet.logpdf(rows, alpha), wanted.dirichlet.logpdf(rows, alpha))
    assert float(stats.dirichlet.logpdf(2 * p, alpha)) == -np.inf
    near_derivatives(lambda a: stats.dirichlet.logpdf(p, alpha + a), [0.1], True)
    with pytest.raises(ShapeError, match="do not fit the parameters"):
        stats.dirichlet.logpdf(p, alpha[:1])
    counts = np.array([[1, 2, 3], [0, 6, 0], [1, 1, 1]])
    near(stats.multinomial.logpmf(counts, 6, p), wanted.multinomial.logpmf(counts, 6, p))
    near(stats.multinomial.pmf(counts[0], 6, p), wanted.multinomial.pmf(counts[0], 6, p))


@pytest.mark.parametrize("axis", [0, 1, None])
def test_samples(axis: int | None) -> None:
    x = RNG.integers(0, 4, size=(6, 5))
    for keepdims in (False, True):
        for got, want in zip(
            stats.mode(x, axis, keepdims=keepdims),
            wanted.mode(x, axis, keepdims=keepdims),
            strict=True,
        ):
            near(got, want)
        if keepdims:
            near(stats.sem(x, axis, keepdims=True), stats.sem(x, axis).reshape(got.shape))
    near(stats.sem(x, axis), wanted.sem(x, axis))
    for method in ("average", "min", "max", "dense", "ordinal"):
        near(stats.rankdata(x, method, axis=axis), wanted.rankdata(x, method, axis=axis).reshape(
            x.shape if axis is not None else -1))  # fmt: skip
    with pytest.raises(ArgumentError, match="unknown method"):
        stats.rankdata(x, "first")
    with pytest.raises(NotImplementedError, match="NaNs are not left out"):
        stats.rankdata(x, nan_policy="omit")


def test_samples_with_nan_and_without_elements() -> None:
    x = np.array([[1.0, np.nan, 2.0, 4.0], [np.nan, 3.0, 3.0, np.nan]])
    near(stats.rankdata(x, axis=1), wanted.rankdata(x, axis=1))
    near(stats.sem(x, 1, nan_policy="omit"), wanted.sem(x, 1, nan_policy="omit"))
    near(stats.mode(x[1, 1:] * [np.nan, 1, 1]).mode, np.nan)
    assert stats.rankdata(np.zeros((0, 2)), axis=1).shape == (0, 2)
    empty = stats.mode(np.zeros(0))
    assert np.isnan(empty.mode) and empty.count == 0


def test_entropy_of_poisson_at_the_ends() -> None:
    found = stats.poisson.entropy(np.array([1e6, -1.0, np.inf, np.nan]))
    np.testing.assert_allclose(found, [8.3266936, np.nan, np.inf, np.nan], rtol=1e-6)


@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0, 79.0, 81.0])
def test_entropy_of_poisson(mu: float) -> None:
    np.testing.assert_allclose(stats.poisson.entropy(mu, 2), wanted.poisson.entropy(mu), rtol=1e-5)


def test_shapes_that_make_no_distribution() -> None:
    for a, b in ((0.0, 1.0), (1.0, -1.0), (np.nan, 1.0)):
        for function in (stats.beta.logpdf, stats.beta.cdf, stats.beta.sf):
            assert np.isnan(function(np.array([-1.0, 0.5, 2.0]), a, b)).all()
    assert np.isnan(stats.truncnorm.logpdf(np.array([0.0, 2.0]), 1.0, 1.0)).all()


def test_integrals_of_kernel_densities() -> None:
    points = RNG.normal(size=(2, 3, 8))
    one, other = (stats.gaussian_kde(p) for p in points)
    first, second = (wanted.gaussian_kde(p) for p in points)
    mean, spread = np.ones(3), 2 * np.eye(3)
    near(one.integrate_gaussian(mean, spread), first.integrate_gaussian(mean, spread))
    near(one.integrate_kde(other), first.integrate_kde(second))
    with pytest.raises(ShapeError, match="dimensions"):
        one.integrate_gaussian(mean[:2], spread)
    with pytest.raises(ShapeError, match="dimensions"):
        one.integrate_kde(stats.gaussian_kde(points[0, :2]))


@pytest.mark.parametrize("method", [None, "silverman", 0.4, lambda k: 0.3])
def test_kernel_density(method: Any) -> None:
    points, weights = RNG.normal(size=(2, 9)), RNG.uniform(0.5, 1.0, 9)
    at = RNG.normal(size=(2, 4))
    got = stats.gaussian_kde(points, method, weights)
    want = wanted.gaussian_kde(points, method, weights)
    near(got(at), want(at))
    near(functrax.jit(lambda k, x: k.logpdf(x))(got, at), want.logpdf(at))
    line, wanted_line = stats.gaussian_kde(points[0]), wanted.gaussian_kde(points[0])
    near(line.integrate_box_1d(-1.0, 0.5), wanted_line.integrate_box_1d(-1.0, 0.5))
    drawn = got.resample(functrax.random.key(0), (2000,))
    assert drawn.shape == (2, 2000)
    spread = np.cov(points, aweights=weights, bias=True) + want.covariance
    np.testing.assert_allclose(np.cov(drawn), spread, atol=0.15)  # 4 standard errors
    with pytest.raises(ArgumentError, match="unknown bw_method"):
        stats.gaussian_kde(points, "wide")
    with pytest.raises(ShapeError, match="too few points"):
        stats.gaussian_kde(points[:, :1])
