"""Counts and histograms give what NumPy gives; weights have derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import agree, check

RNG = np.random.default_rng(4)
X = RNG.normal(size=40).astype("f4")
W = RNG.uniform(size=40).astype("f4")
Y = RNG.normal(size=40).astype("f4")
GRID = RNG.normal(size=(5, 8)).astype("f4")
NUMBERS = np.array([1, 3, 1, 0, 3, 7], "i4")
EDGES = np.array([-1, -0.5, 0, 2], "f4")

HISTOGRAMS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("histogram", (X,), {}),
    ("histogram", (GRID,), {"bins": 4}),
    ("histogram", (X, EDGES), {}),
    ("histogram", (X, EDGES), {"density": True}),
    ("histogram", (X,), {"bins": 3, "range": (-1, 1)}),
    ("histogram", (X,), {"bins": 5, "weights": W}),
    ("histogram", (X,), {"bins": 5, "weights": W, "density": True}),
    ("histogram", (np.full(3, 2.0, "f4"),), {"bins": 2}),
    ("histogram", (X[:0],), {"bins": 2}),
    ("histogram_bin_edges", (X,), {"bins": 7}),
    ("histogram2d", (X, Y), {"bins": (3, 4)}),
    ("histogram2d", (X, Y), {"bins": 3, "range": [(-1, 1), (0, 2)], "density": True}),
    ("histogram2d", (X, Y), {"bins": 3, "weights": W}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), HISTOGRAMS)
def test_same_as_numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


@pytest.mark.parametrize("kwargs", [{}, {"density": True}, {"weights": W}])
def test_histogramdd(kwargs: dict[str, Any]) -> None:
    points = np.stack([X, Y, W], 1)
    counts, edges = jnp.histogramdd(points, bins=(2, 3, 2), **kwargs)
    wanted, wanted_edges = np.histogramdd(points, bins=(2, 3, 2), **kwargs)
    agree(counts, wanted)
    agree(edges, wanted_edges)


@pytest.mark.parametrize("kwargs", [{}, {"weights": W[:6]}, {"minlength": 10}])
def test_bincount(kwargs: dict[str, Any]) -> None:
    wanted = np.bincount(NUMBERS, **kwargs)
    agree(jnp.bincount(NUMBERS, **kwargs), wanted)
    sized = functrax.jit(lambda x: jnp.bincount(x, length=len(wanted), **kwargs))
    agree(sized(NUMBERS), wanted)


def test_bincount_of_odd_numbers() -> None:
    assert jnp.bincount(jnp.array([1, -1, 5])).tolist() == [1, 1, 0, 0, 0, 1]
    assert jnp.bincount(jnp.array([1, 1, 5]), length=3).tolist() == [0, 2, 0]
    assert jnp.bincount(jnp.array([1, 250], dtype="uint8")).shape == (251,)
    assert jnp.bincount(jnp.zeros(0, "int32")).shape == (0,)


def test_weights_have_derivatives() -> None:
    values = jnp.array([1.0, 10.0])
    slope = functrax.grad(
        lambda w: jnp.sum(jnp.histogram(jnp.array([0.0, 1.0, 0.2]), 2, weights=w)[0] * values)
    )(jnp.ones(3))
    assert slope.tolist() == [1.0, 10.0, 1.0]


def test_nan_is_not_counted() -> None:
    counts, _ = jnp.histogram(jnp.array([1.5, jnp.nan, 2.0]), bins=2, range=(1, 2))
    assert counts.tolist() == [0.0, 2.0]


def test_errors() -> None:
    with pytest.raises(errors.ConcretizationError, match="length="):
        functrax.jit(jnp.bincount)(NUMBERS)
    with pytest.raises(errors.DTypeError, match="integers"):
        jnp.bincount(X)
    with pytest.raises(errors.ShapeError, match="weight"):
        jnp.bincount(NUMBERS, weights=W)
    with pytest.raises(errors.ArgumentError, match="rules"):
        jnp.histogram(X, bins="auto")
    with pytest.raises(errors.ShapeError, match="weight"):
        jnp.histogram(X, weights=W[:3])
    with pytest.raises(errors.DTypeError, match="histogram is not defined for complex"):
        jnp.histogram(X.astype("c8"))
    with pytest.raises(errors.ArgumentError, match="each dimension"):
        jnp.histogramdd(GRID, bins=[2, 2])


def test_other_numbers_of_coordinates() -> None:
    x, y = jnp.ones(50), jnp.ones(7)
    for name, points in (("histogram2d", (x, y)), ("histogramdd", ([x, y],))):
        with pytest.raises(
            errors.ShapeError, match=f"^{name}: the coordinates .* differ in number"
        ) as e:
            getattr(jnp, name)(*points)
        assert "[50]" in e.value.got and "[7]" in e.value.got
