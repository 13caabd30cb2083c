"""Broadcasting, reshaping, padding, joining, creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from functrax import lax
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError
from functrax.core.options.contexts import enable_x64
from functrax.transforms.differentiation.derivatives import grad
from functrax.transforms.staging.jit import jit
from tests.lax.oracles import check_derivatives

X = np.arange(6, dtype=np.float32).reshape(2, 3)
EQUAL: list[tuple[Callable[[], Any], Any]] = [
    (lambda: lax.broadcast(X, (4, 1)), np.broadcast_to(X, (4, 1, 2, 3))),
    (lambda: lax.broadcast(1.5, (2,)), np.float32([1.5, 1.5])),
    (
        lambda: lax.broadcast(X, (2, 4, 3, 5), dims=(1, -1)),
        np.broadcast_to(X[:, None, :, None], (2, 4, 3, 5)),
    ),
    (lambda: lax.broadcast_in_dim(X, (3, 4, 2), (2, 0)), np.broadcast_to(X.T[:, None], (3, 4, 2))),
    (lambda: lax.broadcast_in_dim(X[:1], (4, 3), (0, 1)), np.broadcast_to(X[:1], (4, 3))),
    (lambda: lax.broadcast_to_rank(X, 4), X[None, None]),
    (lambda: lax.reshape(X, (3, 2)), X.reshape(3, 2)),
    (lambda: lax.reshape(X, (6,), (1, 0)), X.T.reshape(6)),
    (lambda: lax.squeeze(X[:1, :, None], (0, -1)), X[0]),
    (lambda: lax.expand_dims(X, (1, -1)), X[:, None, :, None]),
    (lambda: lax.collapse(X[None], 0, 2), X),
    (lambda: lax.collapse(X, 0), X.ravel()),
    (lambda: lax.transpose(X, (1, 0)), X.T),
    (lambda: lax.rev(X, (1,)), X[:, ::-1]),
    (lambda: lax.concatenate([X, X + 1], 1), np.concatenate([X, X + 1], 1)),
    (lambda: lax.concatenate(lax.add(X, 0.0), 0), X.ravel()),
    (lambda: lax.stack([X, X + 1], -1), np.stack([X, X + 1], -1)),
    (lambda: lax.unstack(X, 1)[2], X[:, 2]),
    (lambda: lax.split(X, (1, 0, 2), 1)[2], X[:, 1:]),
    (lambda: lax.split(X, (1, 0, 2), 1)[1], X[:, :0]),
    (lambda: lax.tile(X, (2, 3)), np.tile(X, (2, 3))),
    (lambda: lax.tile(X, (2, 1, 2)), np.tile(X, (2, 1, 2))),
    (lambda: lax.tile(X, (2,)), np.tile(X, (2,))),
    (lambda: lax.pad(X, 9.0, [(1, 0, 1), (-1, 2, 0)]), np.float32(
        [[9] * 4, [1, 2, 9, 9], [9] * 4, [4, 5, 9, 9]])),
    (lambda: lax.full((2, 2), 3, "float32"), np.full((2, 2), 3, np.float32)),
    (lambda: lax.full_like(X, 2), np.full_like(X, 2)),
    (lambda: lax.full_like(X, 2, "int8", (4,)), np.full((4,), 2, np.int8)),
    (lambda: lax.empty((2,), "int32"), np.zeros(2, np.int32)),
    (lambda: lax.iota("uint8", 4), np.arange(4, dtype=np.uint8)),
    (lambda: lax.broadcasted_iota("float32", (2, 3), 1), np.float32([[0, 1, 2]] * 2)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(EQUAL)))
def test_equals_numpy(number: int) -> None:
    function, expected = EQUAL[number]
    out = function()
    assert out.dtype == expected.dtype and out.shape == expected.shape
    np.testing.assert_array_equal(out, expected)


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: lax.broadcast(X, (2, 4, 3), dims=(0,)), ShapeError, "not new"),
    (lambda: lax.broadcast(X, (2, 3), dims=(2,)), AxisError, "out of bounds"),
    (lambda: lax.broadcast_in_dim(X, (2, 4), (0, 1)), ShapeError, "dimension sizes"),
    (lambda: lax.broadcast_shapes((2,), (3,)), ShapeError, "for broadcasting"),
    (lambda: lax.broadcast_to_rank(X, 1), ShapeError, "more axes"),
    (lambda: lax.reshape(X, (4,)), ShapeError, "number of elements"),
    (lambda: lax.squeeze(X, (0,)), ShapeError, "size not equal to one"),
    (lambda: lax.expand_dims(X, (0, 0)), AxisError, "not unique"),
    (lambda: lax.collapse(X, 1, 1), AxisError, "no axes"),
    (lambda: lax.transpose(X, (-1, 0)), AxisError, "permutation"),
    (lambda: lax.rev(X, (-1,)), AxisError, "out of range"),
    (lambda: lax.concatenate([X, X.astype(np.int32)], 0), DTypeError, "one dtype"),
    (lambda: lax.concatenate([X, X[:, :1]], 0), ShapeError, "shapes differ"),
    (lambda: lax.concatenate([], 0), ShapeError, "at least one"),
    (lambda: lax.stack([]), ArgumentError, "at least one"),
    (lambda: lax.split(X, (1, 1), 1), ShapeError, "Sum of sizes"),
    (lambda: lax.pad(X, 1j, [(0, 0, 0)] * 2), DTypeError, "the same dtypes"),
    (lambda: lax.pad(X, lax.full((), 0, "int32"), [(0, 0, 0)] * 2), DTypeError, "padding value"),
    (lambda: lax.pad(X, X, [(0, 0, 0)] * 2), ShapeError, "scalar"),
    (lambda: lax.pad(X, 0.0, [(0, 0, 0)]), AxisError, "each axis"),
    (lambda: lax.pad(X, 0.0, [(0, 0)] * 2), ArgumentError, "triple"),  # type: ignore[list-item]
    (lambda: lax.full((2,), X), ShapeError, "scalar"),
    (lambda: lax.iota("int32", -1), ShapeError, "negative"),
    (lambda: lax.reshape(X, (2.0, 3.0)), ShapeError, "known integers"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors(number: int) -> None:
    function, error, text = BAD[number]
    with pytest.raises(error, match=text) as caught:
        function()
    assert "\n  at " in str(caught.value)


def test_traced_padding_value() -> None:
    config = [(1, -1, 2), (0, 1, 0)]
    known = lax.pad(X, 7.0, config)
    np.testing.assert_array_equal(jit(lambda x, v: lax.pad(x, v, config))(X, 7.0), known)
    gradient = grad(lambda v: lax.reduce_sum(lax.pad(X, v, config), (0, 1)))(7.0)
    assert float(gradient) == np.sum(np.asarray(known) == 7.0)
    with enable_x64():
        check_derivatives(lambda x, v: lax.pad(x, v, config), X.astype(float), np.array(0.3))


def test_keywords_are_those_of_jax() -> None:
    assert lax.reshape(operand=X, new_sizes=(6,)).shape == (6,)
    assert lax.broadcast(operand=X, sizes=(1,)).shape == (1, 2, 3)
    assert lax.squeeze(array=X[:1], dimensions=(0,)).shape == (3,)
    assert lax.pad(operand=X, padding_value=0.0, padding_config=[(0, 0, 0)] * 2).shape == (2, 3)
    assert lax.split(operand=X, sizes=(2,), axis=0)[0].shape == (2, 3)
