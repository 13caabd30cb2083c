"""``reduce_max`` and ``reduce_min`` of complex numbers: by real part, then by imaginary part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
from functrax import lax

X = np.array([[1 + 2j, 3 - 1j, 3 + 4j], [-2 + 1j, -2 - 1j, 0]], np.complex64)


@pytest.mark.parametrize("transform", [lambda f: f, functrax.jit])
@pytest.mark.parametrize(
    ("named", "by_element", "expected"),
    [(lax.reduce_max, lax.max, np.max), (lax.reduce_min, lax.min, np.min)],
)
def test_values(named: Any, by_element: Any, expected: Any, transform: Any) -> None:
    for axes in [(1,), (0,), (0, 1)]:
        got = transform(lambda x: named(x, axes))(X)  # noqa: B023
        np.testing.assert_array_equal(got, expected(X, axis=axes))
    start = np.complex64(0.5j)
    got = transform(lambda x: lax.reduce(x, start, by_element, (1,)))(X)
    wanted = [expected([*row, start]) for row in X]
    np.testing.assert_array_equal(got, wanted)
    batched = functrax.vmap(lambda row: named(row, (0,)))(X)
    np.testing.assert_array_equal(batched, expected(X, axis=1))


def test_the_derivative_is_that_of_the_largest_element() -> None:
    slope = functrax.grad(lambda x: lax.abs(lax.reduce_max(x, (0, 1))))(X)
    wanted = np.zeros_like(X)
    wanted[0, 2] = np.conj(X[0, 2]) / 5
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)
