"""Interpolation on grids, and the nearest codes; compared with SciPy's where they agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import interpolate as oracle
from scipy.cluster import vq as oracle_vq

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError, ShapeError
from functrax.scipy.cluster.vq import vq
from functrax.scipy.interpolate import RegularGridInterpolator

RNG = np.random.default_rng(0)
GRID = (np.array([0.0, 1, 3, 4]), np.array([-1, 0, 0.5]), np.array([0.0, 2]))
VALUES = RNG.standard_normal((4, 3, 2, 5)).astype(np.float32)
POINTS = (RNG.random((8, 3)) * [5, 2, 2.5] - [0.5, 1.2, 0.2]).astype(np.float32)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 3.0, None])
def test_as_scipy(method: str, fill: float | None) -> None:
    kwargs = {"method": method, "bounds_error": False, "fill_value": fill}
    ours = RegularGridInterpolator(GRID, VALUES, **kwargs)
    theirs = oracle.RegularGridInterpolator(GRID, VALUES, **kwargs)(POINTS)
    np.testing.assert_allclose(ours(POINTS), theirs, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(functrax.jit(ours)(POINTS), theirs, rtol=2e-5, atol=2e-6)


def test_points_of_several_kinds() -> None:
    f = RegularGridInterpolator(GRID[:2], VALUES[:, :, 0, 0])
    pair = np.array([1.5, 0.2], np.float32)
    at = f(pair)
    assert at.shape == (1,) and f(pair[None, None]).shape == (1, 1)
    assert f((np.ones((2, 1)), np.zeros(3))).shape == (2, 3)
    slope = functrax.grad(lambda x: f(x).sum())(pair)
    step = np.array([1e-2, 0], np.float32)
    np.testing.assert_allclose(slope[0], (f(pair + step) - f(pair - step))[0] / 2e-2, rtol=1e-3)
    line = RegularGridInterpolator(GRID[:1], np.array([0, 10, 30, 40]))
    np.testing.assert_allclose(line(np.array([0.5, 2.0])), [5, 20])


def test_wrong_grids() -> None:
    with pytest.raises(ArgumentError, match="unknown method"):
        RegularGridInterpolator(GRID, VALUES, method="cubic")
    with pytest.raises(ArgumentError, match="bounds_error=True"):
        RegularGridInterpolator(GRID, VALUES, bounds_error=True)
    with pytest.raises(ShapeError, match="coordinates do not fit"):
        RegularGridInterpolator(GRID[1:], VALUES)
    with pytest.raises(ShapeError, match="a coordinate for each axis"):
        RegularGridInterpolator(GRID, VALUES)(np.ones((3, 2)))


def test_nearest_codes() -> None:
    obs = RNG.standard_normal((20, 3)).astype(np.float32)
    codes = RNG.standard_normal((4, 3)).astype(np.float32)
    for x, c in ((obs, codes), (obs[:, 0], codes[:, 0])):
        number, distance = functrax.jit(vq)(x, c)
        wanted = oracle_vq.vq(x, c)
        np.testing.assert_array_equal(number, wanted[0])
        np.testing.assert_allclose(distance, wanted[1], rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match="one length"):
        vq(jnp.ones((3, 2)), jnp.ones((3, 4)))
