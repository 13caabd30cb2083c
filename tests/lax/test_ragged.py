"""Contractions of ragged arrays against loops over their groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
from functrax import lax
from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError, UnavailableError

RNG = np.random.default_rng(0)
Numbers = lax.RaggedDotDimensionNumbers


def integers(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, size=shape).astype(np.float32)


def rows_by_group(x: np.ndarray, matrices: np.ndarray, sizes: Any) -> np.ndarray:
    out = np.zeros((x.shape[0], matrices.shape[2]), np.float32)
    start = 0
    for matrix, size in zip(matrices, sizes, strict=True):
        out[start : start + size] = x[start : start + size] @ matrix
        start += size
    return out


@pytest.mark.parametrize("sizes", [(2, 3, 0), (5, 0, 0), (0, 0, 0), (1, 1, 1), (4, 9, 1)])
def test_rows(sizes: tuple[int, ...]) -> None:
    x, matrices = integers(5, 4), integers(3, 4, 2)
    out = functrax.jit(lax.ragged_dot)(x, matrices, np.array(sizes))
    np.testing.assert_array_equal(out, rows_by_group(x, matrices, sizes))


def test_derivatives_and_vmap() -> None:
    x, matrices, sizes = integers(2, 5, 4), integers(2, 3, 4, 2), np.array([[2, 3, 0], [1, 1, 3]])
    out = functrax.vmap(lax.ragged_dot)(x, matrices, sizes)
    wanted = [rows_by_group(*row) for row in zip(x, matrices, sizes, strict=True)]
    np.testing.assert_array_equal(out, wanted)
    by_x, by_m = functrax.grad(lambda *a: (lax.ragged_dot(*a, sizes[0]) ** 2).sum(), (0, 1))(
        x[0], matrices[0]
    )
    ct = 2 * wanted[0]
    np.testing.assert_array_equal(by_m[1], x[0][2:].T @ ct[2:])
    np.testing.assert_array_equal(by_m[2], np.zeros((4, 2)))
    np.testing.assert_array_equal(by_x[:2], ct[:2] @ matrices[0][0].T)


def test_batches_of_rows_with_sizes_of_their_own() -> None:
    x, matrices, sizes = integers(2, 5, 4), integers(3, 2, 4, 6), np.array([[2, 3, 0], [1, 1, 3]])
    numbers = Numbers((((2,), (2,)), ((0,), (1,))), (1,), (0,))
    out = lax.ragged_dot_general(x, matrices, sizes, numbers)
    wanted = [rows_by_group(x[b], matrices[:, b], sizes[b]) for b in range(2)]
    np.testing.assert_array_equal(out, wanted)
    same = lax.ragged_dot_general(x, matrices, sizes[0], numbers)
    np.testing.assert_array_equal(same[1], rows_by_group(x[1], matrices[:, 1], sizes[0]))


def test_ragged_contracted_axis() -> None:
    x, y, sizes = integers(2, 3, 5), integers(2, 5, 4), np.array([2, 3])
    numbers = Numbers((((2,), (1,)), ((0,), (0,))), (2,), ())
    out = lax.ragged_dot_general(x, y, sizes, numbers)
    np.testing.assert_array_equal(out, [x[..., :2] @ y[:, :2], x[..., 2:] @ y[:, 2:]])
    own = lax.ragged_dot_general(x, y, np.array([[2, 3], [5, 0]]), numbers)
    np.testing.assert_array_equal(own[0], [x[0, :, :2] @ y[0, :2], x[1] @ y[1]])


def test_ragged_batch_axis() -> None:
    x, y = integers(2, 3, 5), integers(2, 5, 4)
    numbers = Numbers((((2,), (1,)), ((0,), (0,))), (0,), ())
    np.testing.assert_array_equal(lax.ragged_dot_general(x, y, np.array([1, 1]), numbers), x @ y)


def test_dtypes() -> None:
    x, matrices = integers(3, 2).astype("bfloat16"), integers(1, 2, 2).astype("bfloat16")
    assert lax.ragged_dot(x, matrices, np.array([3])).dtype == "bfloat16"
    wide = lax.ragged_dot(x, matrices, np.array([3]), preferred_element_type=np.float32)
    assert wide.dtype == np.float32


ROWS = (((1,), (1,)), ((), ()))
ERRORS: list[tuple[Any, Any, str]] = [
    (Numbers(ROWS, (0, 1), (0,)), ArgumentError, "exactly one lhs ragged dimension"),
    (Numbers(ROWS, (2,), (0,)), ArgumentError, "requires lhs ragged dimension numbers to be nonne"),
    (Numbers(ROWS, (0,), ()), ArgumentError, "exactly one rhs group dimension when lhs ragged"),
    (Numbers(ROWS, (1,), (0,)), ArgumentError, "requires zero group dimensions in the rhs"),
    (Numbers(ROWS, (0,), (1,)), ArgumentError, "to be distinct from contracting and batch"),
    (Numbers(ROWS, (0,), (3,)), ArgumentError, "requires rhs group dimension numbers to be nonneg"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_dimension_numbers(case: int) -> None:
    numbers, kind, said = ERRORS[case]
    with pytest.raises(kind, match=said):
        lax.ragged_dot_general(integers(5, 4), integers(3, 4, 2), np.array([1, 2, 2]), numbers)


def test_group_sizes() -> None:
    x, matrices = integers(5, 4), integers(3, 4, 2)
    with pytest.raises(ShapeError, match="expected rhs group dimension size to be 2, got 3"):
        lax.ragged_dot(x, matrices, np.array([2, 3]))
    with pytest.raises(ShapeError, match=r"to have shape \(3,\), got \(1, 3\)"):
        lax.ragged_dot(x, matrices, np.array([[2, 3, 0]]))
    with pytest.raises(ShapeError, match="expected rank of group_sizes"):
        lax.ragged_dot(x, matrices, np.array(2))
    with pytest.raises(DTypeError, match="integer dtype"):
        lax.ragged_dot(x, matrices, np.array([2.0, 3.0, 0.0]))
    with pytest.raises(UnavailableError, match="group_offset is not implemented"):
        lax.ragged_dot(x, matrices, np.array([2, 3, 0]), group_offset=np.array([1]))
