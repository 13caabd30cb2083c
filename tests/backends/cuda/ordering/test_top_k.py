"""The largest elements on the simulated GPU: values, positions and ties."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from tests.backends.cuda.ordering.same import DTYPES, check, kinds, numbers


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with functrax.enable_x64():
        yield


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.startswith("complex")])
def test_every_dtype(dtype: str) -> None:
    x = numbers(np.random.default_rng(0), (3, 75), dtype)
    check(lambda x: (lax.top_k(x, 1), lax.top_k(x, 20), lax.top_k(x, 2, axis=0)), x)


@pytest.mark.parametrize("k", [0, 1, 50, 1025, 4500])
def test_long_rows(k: int) -> None:
    x = np.random.default_rng(k).integers(0, 1000, 4500).astype(np.int32)
    check(lambda x: lax.top_k(x, k), x)


@pytest.mark.parametrize("shape", [(1,), (4, 1, 3), (5, 40, 3)])
def test_axes(shape: tuple[int, ...]) -> None:
    x = numbers(np.random.default_rng(0), shape, "float32")
    for axis in range(len(shape)):
        check(lambda x, axis=axis: lax.top_k(x, 1, axis=axis), x)


def test_nan_of_both_signs_are_at_the_ends() -> None:
    x = np.array([0.0, -np.nan, 1, np.nan, -0.0, -np.inf, np.inf], np.float32)
    x[1] = np.copysign(x[1], np.float32(-1))
    check(lambda x: lax.top_k(x, 7)[1], x)


def test_derivatives() -> None:
    x = np.random.default_rng(0).permutation(60).reshape(3, 20).astype(np.float32)
    check(functrax.grad(lambda x: (lax.top_k(x, 3)[0] * jnp.arange(3)).sum()), x)


def test_pieces_give_what_may_be_among_the_largest() -> None:
    x = functrax.ShapeDtypeStruct((64, 50_257), np.float32)
    assert kinds(lambda x: lax.top_k(x, 50), x) == ["sort", "sort"]
    assert kinds(lambda x: lax.top_k(x, 1000), x) == ["sort"] * 6
    assert kinds(lambda x: lax.top_k(x, 1025), x)[:2] == ["count", "grid"]
