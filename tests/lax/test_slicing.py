"""Slices, dynamic slices and their updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from functrax import lax
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.options.contexts import enable_x64
from functrax.transforms.arguments.inspect_types import make_jaxpr
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit
from tests.lax.oracles import check_derivatives

X = np.arange(20, dtype=np.float32).reshape(4, 5)
# start, and where a slice of 3 in an axis of 5 begins (jax.lax 0.10.2)
CLAMPED = [(0, 0), (1, 1), (2, 2), (3, 2), (9, 2), (-1, 2), (-4, 1), (-5, 0), (-9, 0)]


def test_static_slices() -> None:
    np.testing.assert_array_equal(lax.slice(X, (1, 0), (4, 5), (2, 3)), X[1:4:2, 0:5:3])
    np.testing.assert_array_equal(lax.slice_in_dim(X, -3, None, 2, axis=-1), X[:, -3::2])
    np.testing.assert_array_equal(lax.slice_in_dim(X, None, -1), X[:-1])
    np.testing.assert_array_equal(lax.index_in_dim(X, -1, 1), X[:, -1:])
    np.testing.assert_array_equal(lax.index_in_dim(X, 2, 0, keepdims=False), X[2])


@pytest.mark.parametrize(("start", "begin"), CLAMPED)
@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_starts_are_clamped(start: int, begin: int, dtype: type) -> None:
    expected = X[1:3, begin : begin + 3]
    traced = jit(lambda s: lax.dynamic_slice(X, (1, s), (2, 3)))(dtype(start))
    np.testing.assert_array_equal(lax.dynamic_slice(X, (1, start), (2, 3)), expected)
    np.testing.assert_array_equal(traced, expected)
    both = lax.dynamic_slice(X, np.array([1, start], dtype), (2, 3))
    np.testing.assert_array_equal(both, expected)
    updated = X.copy()
    updated[1:3, begin : begin + 3] = -1
    for place in ((1, start), np.array([1, start], dtype)):
        out = lax.dynamic_update_slice(X, np.full((2, 3), -1, np.float32), place)
        np.testing.assert_array_equal(out, updated)


def test_large_axis_and_narrow_start() -> None:
    x = np.arange(300, dtype=np.int32)
    np.testing.assert_array_equal(lax.dynamic_slice(x, (lax.full((), -1, "int8"),), (2,)), x[-2:])


def test_negative_starts_can_be_refused() -> None:
    for start in (-1, np.full((), -1, np.int32)):
        out = lax.dynamic_slice_in_dim(X, start, 2, 1, allow_negative_indices=False)
        np.testing.assert_array_equal(out, X[:, :2])


def test_along_one_axis() -> None:
    i = np.full((), 2, np.int32)
    np.testing.assert_array_equal(lax.dynamic_slice_in_dim(X, i, 2, axis=1), X[:, 2:4])
    np.testing.assert_array_equal(lax.dynamic_index_in_dim(X, i, 1), X[:, 2:3])
    np.testing.assert_array_equal(lax.dynamic_index_in_dim(X, i, 1, keepdims=False), X[:, 2])
    column = X.copy()
    column[:, 2] = np.arange(4)
    new = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(lax.dynamic_update_index_in_dim(X, new, i, 1), column)
    np.testing.assert_array_equal(lax.dynamic_update_index_in_dim(X, new[:, None], i, 1), column)
    np.testing.assert_array_equal(
        lax.dynamic_update_slice_in_dim(X, new[:, None], i, axis=1), column
    )
    np.testing.assert_array_equal(lax.dynamic_update_index_in_dim(new, 7.0, i, 0), [0, 1, 7, 3])


def test_known_starts_make_a_slice() -> None:
    closed = make_jaxpr(lambda x: lax.dynamic_slice(x, (1, np.int64(9)), (2, 3)))(X)
    assert [e.primitive.name for e in all_eqns(closed.jaxpr)] == ["slice"]


def test_vmap() -> None:
    starts = np.array([0, 3, -2, 7], np.int32)
    rows = vmap(lambda x, s: lax.dynamic_slice(x, (s,), (2,)))(X, starts)
    expected = [row[b : b + 2] for row, b in zip(X, (0, 3, 3, 3), strict=True)]
    np.testing.assert_array_equal(rows, expected)
    out = vmap(lambda x, s: lax.dynamic_update_slice(x, np.zeros(2, np.float32), (s,)))(X, starts)
    zeroed = X.copy()
    for row, b in zip(zeroed, (0, 3, 3, 3), strict=True):
        row[b : b + 2] = 0
    np.testing.assert_array_equal(out, zeroed)


def test_derivatives() -> None:
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(4, 5)), rng.normal(size=(2, 3))
    i = np.full((), 1, np.int32)
    with enable_x64():
        check_derivatives(lambda x: lax.dynamic_slice(x, (i, 4), (2, 3)), x)
        check_derivatives(lambda x, u: lax.dynamic_update_slice(x, u, (i, i)), x, u)


def test_errors() -> None:
    with pytest.raises(ShapeError, match="larger"):
        lax.dynamic_slice(X, (0, 0), (5, 1))
    with pytest.raises(ShapeError, match="for each axis"):
        lax.dynamic_slice(X, (0,), (1, 1))
    with pytest.raises(DTypeError, match="integer scalar"):
        lax.dynamic_slice(X, (0.5, 0), (1, 1))
    with pytest.raises(DTypeError, match="the same dtypes"):
        lax.dynamic_update_slice(X, np.zeros((1, 1), np.int32), (0, 0))
    with pytest.raises(ShapeError, match="slice"):
        lax.slice(X, (0, 0), (5, 5))
    with pytest.raises(ArgumentError, match="out of range"):
        lax.index_in_dim(X, 4)

    def traced_size(n: Any) -> Any:
        return lax.dynamic_slice(X, (0, 0), (n, 1))

    with pytest.raises(ShapeError, match="known integers"):
        jit(traced_size)(2)
