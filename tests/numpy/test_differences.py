"""Differences, slopes, integrals and interpolation give what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import check

RNG = np.random.default_rng(8)
V = RNG.normal(size=6).astype("f4")
M = RNG.normal(size=(3, 5)).astype("f4")
T = RNG.normal(size=(3, 4, 5)).astype("f4")
PLACES = np.cumsum(RNG.uniform(0.5, 2, 5)).astype("f4")
COUNT = np.array([5, 3, 5, 1, 3], "i4")
AT = np.array([-1, 0.2, 1.7, 3, 4.5, 6, 99], "f4")

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("diff", (M,), {}),
    ("diff", (M,), {"n": 2, "axis": 0}),
    ("diff", (M,), {"n": 0}),
    ("diff", (COUNT,), {"prepend": 0, "append": np.array([1, 2], "i4")}),
    ("diff", (M,), {"axis": 0, "prepend": 1.0}),
    ("diff", (COUNT > 2,), {}),
    ("diff", (V[:1],), {"n": 3}),
    ("ediff1d", (COUNT,), {}),
    ("ediff1d", (M,), {"to_end": np.array([7], "f4"), "to_begin": np.array([1, 2], "f4")}),
    ("gradient", (V,), {}),
    ("gradient", (T,), {}),
    ("gradient", (T,), {"axis": (0, -1)}),
    ("gradient", (M, 2.0), {}),
    ("gradient", (M, 2.0, PLACES), {}),
    ("gradient", (M, PLACES), {"axis": 1}),
    ("trapezoid", (M,), {}),
    ("trapezoid", (M,), {"dx": 0.5, "axis": 0}),
    ("trapezoid", (M, PLACES), {}),
    ("trapezoid", (M, np.cumsum(np.abs(M), 0)), {"axis": 0}),
    ("unwrap", (V * 9,), {}),
    ("unwrap", (M * 20,), {"axis": 0, "discont": 4.0}),
    ("unwrap", (np.array([0, 4, 8, 12, 9], "i4"),), {"period": 6}),
    ("interp", (AT, PLACES, V[:5]), {}),
    ("interp", (AT.reshape(7, 1), PLACES, V[:5]), {"left": -1.0, "right": 2.0}),
    ("interp", (AT, PLACES[::-1].copy(), V[:5]), {"period": 2.5}),
    ("interp", (1.0, PLACES[:1], V[:1]), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_same_as_numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


def test_interp_extrapolates() -> None:
    xp, fp = jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 4.0, 9.0])
    got = jnp.interp(jnp.array([0.0, 3.5]), xp, fp, left="extrapolate", right="extrapolate")
    assert got.tolist() == [-2.0, 11.5]


def test_interp_slopes() -> None:
    xp, fp = jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 4.0, 10.0])
    slopes = functrax.grad(jnp.interp, argnums=(0, 2))(3.0, xp, fp)
    assert slopes[0] == 3.0
    assert slopes[1].tolist() == [0.0, 0.5, 0.5]


def test_derivatives() -> None:
    slope = functrax.grad(lambda x: jnp.sum(jnp.diff(x) * jnp.arange(5.0)))(jnp.asarray(V))
    assert slope.tolist() == [0.0, -1.0, -1.0, -1.0, -1.0, 4.0]
    ends = functrax.grad(jnp.trapezoid)(jnp.asarray(V))
    assert ends.tolist() == [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]


def test_errors() -> None:
    with pytest.raises(errors.ShapeError, match="diff"):
        jnp.diff(jnp.float32(1))
    with pytest.raises(errors.ArgumentError, match="negative"):
        jnp.diff(V, n=-1)
    with pytest.raises(errors.ShapeError, match="fewer than 2"):
        jnp.gradient(V[:1])
    with pytest.raises(errors.ArgumentError, match="edge_order"):
        jnp.gradient(V, edge_order=2)
    with pytest.raises(errors.ShapeError, match="interp"):
        jnp.interp(AT, PLACES, V)
    with pytest.raises(errors.ArgumentError, match="extrapolate"):
        jnp.interp(AT, PLACES, V[:5], left="nearest")


def test_trapezoid_of_an_array_of_distances() -> None:
    y = np.arange(6.0, dtype="f4").reshape(2, 3)
    for dx, axis in (([1.0, 2.0], 1), ([[2.0], [3.0]], 1), ([[1.0, 2.0, 3.0]], 0)):
        steps = np.asarray(dx, "f4")
        got = jnp.trapezoid(y, dx=steps, axis=axis)
        np.testing.assert_allclose(got, np.trapezoid(y, dx=steps, axis=axis), rtol=1e-6)


def test_periodic_coordinates_have_no_ends() -> None:
    x, at = np.arange(4.0, dtype="f4"), np.array([-1.5, 0.5, 7.0], "f4")
    got = jnp.interp(at, x, x**2, left=1.0, right="extrapolate", period=3)
    np.testing.assert_allclose(got, jnp.interp(at, x, x**2, period=3))
