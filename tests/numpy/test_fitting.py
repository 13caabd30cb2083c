"""polyfit and roots, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import agree

RNG = np.random.default_rng(9)
X = np.linspace(-1, 2, 8).astype("f4")
Y = RNG.normal(size=8).astype("f4")
W = RNG.uniform(0.5, 2, 8).astype("f4")


@pytest.mark.parametrize("kwargs", [{}, {"w": W}, {"cov": True}, {"cov": "unscaled"}])
@pytest.mark.parametrize("values", [Y, np.stack([Y, Y[::-1] * 2], 1)])
@pytest.mark.parametrize("deg", [0, 2])
def test_polyfit(deg: int, values: Any, kwargs: dict[str, Any]) -> None:
    wanted = np.polyfit(X, values, deg, **kwargs)
    agree(jnp.polyfit(X, values, deg, **kwargs), wanted, rtol=1e-4, atol=1e-4)
    jitted = functrax.jit(lambda x, y: jnp.polyfit(x, y, deg, **kwargs))
    agree(jitted(X, values), wanted, rtol=1e-4, atol=1e-4)


def test_full_results() -> None:
    wanted = np.polyfit(X.astype("f8"), Y, 2, full=True)
    found = jnp.polyfit(X, Y, 2, full=True)
    agree(found[:4], wanted[:4], rtol=1e-4, atol=1e-4)


def test_gradient_of_a_fit() -> None:
    slope = functrax.grad(lambda y: jnp.polyfit(X, y, 1)[0])(jnp.asarray(Y))
    centred = X - X.mean()
    np.testing.assert_allclose(slope, centred / (centred**2).sum(), atol=1e-4)


@pytest.mark.parametrize(
    "p", [[1, -3, 2], [0, 0, 1, -3, 2, 0], [1.0, 0, 1], [5], [0, 0], [], [2, 3]]
)
def test_roots(p: list[float]) -> None:
    x = np.array(p, "f4")
    both = np.asarray(jnp.roots(x)), np.roots(x)
    found, wanted = (np.sort_complex(np.round(z, 3)) for z in both)
    np.testing.assert_allclose(found + 0, wanted + 0, atol=2e-3)


def test_roots_of_fixed_number() -> None:
    found = functrax.jit(lambda p: jnp.roots(p, strip_zeros=False))(jnp.array([0.0, 1.0, -3.0, 2]))
    assert np.isnan(found[-1])
    np.testing.assert_allclose(sorted(found[:2].real.tolist()), [1, 2], rtol=1e-4)


def test_errors() -> None:
    with pytest.raises(errors.ConcretizationError, match="strip_zeros"):
        functrax.jit(jnp.roots)(X)
    with pytest.raises(errors.ArgumentError, match="deg is negative"):
        jnp.polyfit(X, Y, -1)
    with pytest.raises(errors.ArgumentError, match="too few points"):
        jnp.polyfit(X, Y, 7, cov=True)
    with pytest.raises(errors.ShapeError, match="value for each"):
        jnp.polyfit(X, Y[:3], 1)
    with pytest.raises(errors.ShapeError, match="weight"):
        jnp.polyfit(X, Y, 1, w=W[:3])
