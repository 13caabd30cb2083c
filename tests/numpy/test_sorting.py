"""Sorting gives what NumPy gives, keeps ties in order, and moves derivatives with the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.numpy_checks import check

RNG = np.random.default_rng(3)
M = RNG.normal(size=(3, 4)).astype("f4")
TIES = np.array([3, 1, 3, 2, 1, 3], "i4")
WITH_NAN = np.array([2, np.nan, -1, np.inf, np.nan], "f4")
Z = np.array([1 + 2j, 1 - 1j, 0 + 5j], "c8")

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("sort", (M,), {}),
    ("sort", (M,), {"axis": 0}),
    ("sort", (M,), {"axis": None}),
    ("sort", (WITH_NAN,), {}),
    ("sort", (Z,), {}),
    ("argsort", (M,), {"axis": 0}),
    ("argsort", (TIES,), {"stable": True}),
    ("argsort", (WITH_NAN,), {"stable": True}),
    ("lexsort", ((TIES, TIES[::-1]),), {}),
    ("lexsort", (M,), {}),
    ("sort_complex", (M,), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_same_as_numpy(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


def test_descending_keeps_ties_in_order() -> None:
    got = jnp.argsort(TIES, descending=True)
    assert got.tolist() == [0, 2, 5, 3, 1, 4]
    assert jnp.sort(TIES, descending=True).tolist() == [3, 3, 3, 2, 1, 1]


@pytest.mark.parametrize("kth", [0, 2, -1])
def test_partition(kth: int) -> None:
    got = np.asarray(jnp.partition(M, kth, axis=1))
    place = kth % 4
    np.testing.assert_array_equal(got[:, place], np.sort(M, 1)[:, place])
    assert (got[:, :place] <= got[:, place : place + 1]).all()
    assert (got[:, place:] >= got[:, place : place + 1]).all()
    positions = jnp.argpartition(M, kth, axis=1)
    np.testing.assert_array_equal(jnp.take_along_axis(M, positions, 1), got)


def test_methods() -> None:
    x = jnp.asarray(TIES)
    assert x.sort().tolist() == sorted(TIES.tolist())
    assert x.argsort().tolist() == np.argsort(TIES, kind="stable").tolist()
    assert x.argpartition(0).shape == x.partition(0).shape == (6,)


def test_gradient_goes_where_the_value_goes() -> None:
    weights = jnp.array([1.0, 10.0, 100.0])
    slope = functrax.grad(lambda x: jnp.sum(jnp.sort(x) * weights))(jnp.array([3.0, 1.0, 2.0]))
    assert slope.tolist() == [100.0, 1.0, 10.0]


def test_vmap() -> None:
    np.testing.assert_array_equal(functrax.vmap(jnp.argsort)(M), np.argsort(M, 1))


def test_errors() -> None:
    with pytest.raises(errors.AxisError, match="kth"):
        jnp.partition(TIES, 6)
    with pytest.raises(errors.ArgumentError, match="kind"):
        jnp.sort(TIES, kind="stable")
    with pytest.raises(errors.ShapeError, match="lexsort"):
        jnp.lexsort(())
    with pytest.raises(errors.AxisError, match="rank 0"):
        jnp.sort(jnp.float32(1))
