"""Convolutions, covariances, polynomials and windows give what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import agree, check

RNG = np.random.default_rng(6)
X = RNG.normal(size=7).astype("f4")
K, K2 = RNG.normal(size=3).astype("f4"), RNG.normal(size=4).astype("f4")
Z = (X + 1j * RNG.normal(size=7)).astype("c8")
M = RNG.normal(size=(3, 7)).astype("f4")
P = np.array([2, 0, -1, 3], "i4")
COUNTS = np.array([1, 2, 1, 3, 1, 1, 2], "i4")


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("pair", [(X, K), (K, X), (X, K2), (K2, X), (X, Z), (Z, K), (P, COUNTS)])
def test_convolutions(name: str, mode: str, pair: tuple[Any, Any]) -> None:
    check(name, *pair, mode)


CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("cov", (X,), {}),
    ("cov", (M,), {}),
    ("cov", (M,), {"rowvar": False}),
    ("cov", (M, X), {"bias": True}),
    ("cov", (M,), {"ddof": 0}),
    ("cov", (M,), {"fweights": COUNTS, "aweights": np.abs(X)}),
    ("cov", (Z, X), {}),
    ("corrcoef", (M,), {}),
    ("corrcoef", (X, X**2), {}),
    ("corrcoef", (X, Z), {}),
    ("polyval", (P, X), {}),
    ("polyval", (K, M), {}),
    ("polyadd", (K, X), {}),
    ("polysub", (P, K), {}),
    ("polymul", (K, X), {}),
    ("polydiv", (K2, K), {}),
    ("polydiv", (K, X), {}),
    ("polyder", (X,), {}),
    ("polyder", (X,), {"m": 3}),
    ("polyder", (K,), {"m": 3}),
    ("polyint", (X,), {}),
    ("polyint", (X,), {"m": 3, "k": [1, 2, 3]}),
    ("poly", (K,), {}),
    ("poly", (Z[:3],), {}),
    ("vander", (X,), {}),
    ("vander", (X, 3), {"increasing": True}),
    ("vander", (X, 0), {}),
    ("kaiser", (8, 3.0), {}),
    *((name, (size,), {}) for name in ("bartlett", "blackman", "hamming", "hanning")
      for size in (0, 1, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_same_as_numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    wanted = getattr(np, name)(*args, **kwargs)
    if "k" in kwargs:
        kwargs = {**kwargs, "k": jnp.array(kwargs["k"], "float32")}
    if name == "polydiv":  # as in JAX, zeros in front of the rest stay
        rest = wanted[1]
        wanted = wanted[0], np.pad(rest, (len(args[0]) - len(rest), 0))
    agree(getattr(jnp, name)(*args, **kwargs), wanted, rtol=2e-5, atol=1e-5)
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    rest_of = args[len(arrays) :]
    jitted = functrax.jit(lambda *given: getattr(jnp, name)(*given, *rest_of, **kwargs))
    agree(jitted(*arrays), wanted, rtol=2e-5, atol=1e-5)


def test_trimming_leading_zeros() -> None:
    found = jnp.polymul(jnp.array([0, 1, 2]), jnp.array([1.0, 2.0]), trim_leading_zeros=True)
    assert found.tolist() == [1.0, 4.0, 4.0]
    _, rest = jnp.polydiv(
        jnp.array([1.0, 2.0, 1.0]), jnp.array([1.0, 1.0]), trim_leading_zeros=True
    )
    assert rest.shape == (0,)


def test_derivatives() -> None:
    slope = functrax.grad(lambda k: jnp.sum(jnp.convolve(X, k, "valid")))(jnp.asarray(K))
    np.testing.assert_allclose(slope, [X[2:].sum(), X[1:6].sum(), X[:5].sum()], rtol=1e-5)
    assert functrax.grad(lambda x: jnp.polyval(jnp.array([1.0, 0.0, 5.0]), x))(3.0) == 6.0


def test_errors() -> None:
    with pytest.raises(errors.ArgumentError, match="mode"):
        jnp.convolve(X, K, "some")
    with pytest.raises(errors.ShapeError, match="vectors"):
        jnp.correlate(M, K)
    with pytest.raises(errors.ShapeError, match="not empty"):
        jnp.convolve(X[:0], K)
    with pytest.raises(errors.ShapeError, match="aweights"):
        jnp.cov(M, aweights=K)
    with pytest.raises(errors.DTypeError, match="fweights"):
        jnp.cov(M, fweights=X)
    with pytest.raises(errors.ShapeError, match="observations"):
        jnp.cov(M, K)
    with pytest.raises(errors.ArgumentError, match="negative"):
        jnp.polyder(K, -1)
    with pytest.raises(errors.ShapeError, match="constant"):
        jnp.polyint(K, 2, jnp.ones(3))
